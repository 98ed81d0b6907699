"""One worker: a zygote, and the runs that it is given one after another.

Owns the course of one run: children, what they use, the reading of exit statuses, the verdict. A
worker is used by one thread at a time; `pool` sees to that. What goes wrong outside the programs
raises `RunLostError`, after which the worker starts anew. What may be the machine's doing or a
program's raises `KilledError`.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from . import blame
from .budget import Budget, Over
from .jail import codec, ledger
from .jail.ledger import JUDGE
from .jail.wire import EXIT_BROKEN, SocketChannel
from .layers import Setup
from .records import Cost, Job, KilledError, Limits, TestOutcome, Verdict
from .zygote_link import BATCH, Child, RunLostError, Zygote, readable, signal_name

FIRST_LOOK, NEXT_LOOK = 0.1, 0.05  # seconds between looks at what a run has used
GRACE_SECONDS = 1.0  # for the judge to report after the programs were ended
JUDGE_SHARE = 0.25  # of the processor limit that a judge may have used and still be kept
JUDGE_RUNS = 500  # runs after which a judge is replaced
# However long the machine keeps it waiting, no run lasts longer than this many wall limits.
PATIENCE = 40


class KeptJudgeError(Exception):
    """A judge that had served earlier runs ended; they may have left it too little memory."""


class BadTestsError(ValueError):
    """The tests, which are trusted, cannot be run."""


@dataclass
class _Judge:
    """The test process of the last run, kept for the next one with the same tests."""

    child: Child
    key: tuple[str, str]  # tests, entry point
    cpu_s: float = 0.0  # when its last run ended
    waited_s: float = 0.0  # the same: seconds that it stood ready without a processor
    runs: int = 0  # made with it; from the second on it knows the tests
    page: int = field(default_factory=lambda: _page())  # descriptor of its ledger

    def end(self) -> None:
        """End it and release its descriptors."""
        self.child.kill()
        self.child.close()
        os.close(self.page)


def _page() -> int:
    """Memory that a judge can share with this process."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("ledger")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, ledger.PAGE)
    return fd


class Worker:
    """Runs jobs, one at a time."""

    def __init__(self, setup: Setup, limits: Limits, slot: int) -> None:
        self.setup = setup
        self.limits = limits
        self.slot = slot
        self.zygote: Zygote | None = None
        self.judge: _Judge | None = None

    def start(self) -> Zygote:
        """The running zygote, started if there is none. Raises RunLostError."""
        if self.zygote is None:
            try:
                self.zygote = self.setup.spawn(self.limits, self.slot)
                self.zygote.wait_ready()
                # The first children inherit less than all later ones, and could tell.
                for child in self.zygote.take(BATCH):
                    child.kill()
                    self.zygote.wait(child)
                    child.close()
            except OSError as error:
                self.stop()
                raise RunLostError(f"a worker could not start: {error}") from None
        return self.zygote

    def stop(self) -> None:
        """End the zygote and everything below it."""
        if self.judge is not None:
            self.judge.end()
            self.judge = None
        if self.zygote is not None:
            self.zygote.close()
            self.zygote = None

    def check(self, job: Job, budget: Budget) -> Verdict:
        """Run one job, at most until nothing of the budget is left.

        Raises RunLostError, KilledError, and BadTestsError for tests that cannot be run.
        """
        zygote = self.start()
        try:
            try:
                return _Run(self, zygote, job, budget).check()
            except KeptJudgeError:
                return _Run(self, zygote, job, budget).check()  # with a fresh one
        except OSError as error:
            budget.forget(job)
            self.stop()
            raise RunLostError(str(error)) from None
        except BadTestsError:
            raise
        except BaseException:
            # An interrupt in the middle of a run leaves nothing to rely on, and whoever killed a
            # process may have killed those that wait for the next run.
            self.stop()
            raise

    def take(self, zygote: Zygote, job: Job) -> tuple[_Judge, list[Child]]:
        """A judge, the kept one if it knows the tests, and a child for each program."""
        key = (job.tests, job.entry_point)
        kept = self.judge
        if kept is not None and kept.key == key and kept.runs < JUDGE_RUNS:
            children = zygote.take(len(job.programs))
            self.judge = None
            return kept, children
        if kept is not None:
            kept.end()
            self.judge = None
        first, *children = zygote.take(len(job.programs) + 1)
        return _Judge(first, key), children


class _Run:
    def __init__(self, worker: Worker, zygote: Zygote, job: Job, budget: Budget) -> None:
        self.worker = worker
        self.zygote = zygote
        self.job = job
        self.budget = budget
        self.limits = worker.limits
        self.doubtful = False  # whether what ended a process may be the machine's doing
        self.names = [name for name, _ in job.programs]
        self.cpu = dict.fromkeys([*self.names, JUDGE], 0.0)
        self.waits = dict.fromkeys([*self.names, JUDGE], 0.0)  # ready, but without a processor
        self.wall_s = 0.0
        self.rss_mib = 0.0  # peak of the largest program

    def check(self) -> Verdict:
        """Run the job to its end; the verdict of its judge, or what ended it."""
        judge, children = self.worker.take(self.zygote, self.job)
        self.judge = judge
        self.children = dict(zip(self.names, children, strict=True))
        self.began = time.monotonic()
        try:
            self._send_jobs()
            # Forked while this run goes on, so that the next one need not wait for it.
            self.zygote.ask(len(children))
            over, report = self._await_report()
            self.wall_s = time.monotonic() - self.began
            wall = self._wall()
            status, detail, author = self._ending(over, report)
            self._count_judge(report)
            cost = Cost(self.cpu, wall)
            self.budget.spend(self.job, cost)
            self._keep_judge(report)
            verdict = self._verdict(status, detail, author, report or {}, cost)
            if self.doubtful:
                raise KilledError(verdict)
            return verdict
        finally:
            for child in children:
                child.kill()
                child.close()
            if self.worker.judge is not judge:
                judge.end()

    def _send_jobs(self) -> None:
        exports = dict(self.job.exports)
        main, knows_tests = self.names[-1], self.judge.runs > 0
        for name, source in self.job.programs:
            imports = exports if name == main else {}
            job = {"role": "program", "name": name, "source": source, "imports": imports}
            self._send(self.children[name], job)
        job = {
            "role": "judge",
            "tests": None if knows_tests else self.job.tests,
            "entry": self.job.entry_point,
            "programs": self.names,
            "exports": exports,
            "contracts": {name: asdict(contract) for name, contract in self.job.contracts},
            "replaced": {name: asdict(replacement) for name, replacement in self.job.replaced},
        }
        os.pwrite(self.judge.page, bytes(8), 0)  # no turn of this run has begun
        fds = [c.channel.sock.fileno() for c in self.children.values()]
        try:
            self._send(self.judge.child, job, fds if knows_tests else [*fds, self.judge.page])
        except OSError:
            if knows_tests:
                raise KeptJudgeError from None
            raise
        for child in self.children.values():
            child.channel.sock.close()  # from here on the judge alone talks to the programs

    def _send(self, child: Child, job: dict[str, Any], fds: Sequence[int] = ()) -> None:
        sock = child.channel.sock
        sock.settimeout(self.limits.wall_seconds + GRACE_SECONDS)
        child.channel.send(job, fds)
        sock.settimeout(None)  # a time-out makes a shared end non-blocking; the judge's must block

    def _await_report(self) -> tuple[Over | None, dict[str, Any] | None]:
        """Wait for the judge. Returns the limit that struck, if one did, and the report if it came.

        Short runs are not looked at: what they used is known when they have ended.
        """
        channel = self.judge.child.channel
        pause = min(FIRST_LOOK, self.budget.limits.wall_seconds)
        while not readable(channel.sock, pause):
            pause = NEXT_LOOK
            for name, child in self.children.items():
                self.cpu[name] = max(self.cpu[name], child.used())
            self._count_judge(None)
            self.budget.spend(self.job, Cost(dict(self.cpu), self._wall()))
            over = self.budget.over()
            if over is not None:
                if any(child.stopped() for child in self.children.values()):
                    raise RunLostError("a process of the run was stopped from outside")
                return over, self._cut(over)
        return None, _receive(channel, self.limits.wall_seconds)

    def _wall(self) -> float:
        """Elapsed seconds without those in which the processes stood ready but had no processor.

        What cannot be read any more, of a process that has ended, stays as it was read last.
        """
        elapsed = time.monotonic() - self.began
        if not FIRST_LOOK < elapsed < PATIENCE * self.budget.limits.wall_seconds:
            return elapsed
        seen = {name: child.waited() for name, child in self.children.items()}
        seen[JUDGE] = self.judge.child.waited() - self.judge.waited_s
        self.waits = {side: max(self.waits[side], seconds) for side, seconds in seen.items()}
        return max(0.0, elapsed - sum(self.waits.values()))

    def _count_judge(self, report: dict[str, Any] | None) -> None:
        """Count the processor time of the tests, as the judge reports it or as its clock says."""
        cpu = report["cpu"] if report else self.judge.child.used()
        self.cpu[JUDGE] = max(self.cpu[JUDGE], cpu - self.judge.cpu_s)

    def _cut(self, over: Over) -> dict[str, Any] | None:
        """End the programs; the judge then reports how far they came, unless it hangs itself."""
        self.seconds = ledger.read(self.judge.page, self.names)
        for child in self.children.values():
            child.kill()
        in_tests = over.status == "cpu_limit" and over.side == JUDGE
        if not in_tests and readable(self.judge.child.channel.sock, GRACE_SECONDS):
            return _receive(self.judge.child.channel, GRACE_SECONDS)
        return None

    def _ending(
        self, over: Over | None, report: dict[str, Any] | None
    ) -> tuple[str, str, str | None]:
        """Status, detail and author, from the report and from how the processes ended."""
        died = report["ended"] if report and over is None else ""
        how = ("died", "ended")
        if died:
            ended = self.zygote.wait(self.children[died], GRACE_SECONDS)
            how = self._cause(ended.status, ended.cpu_s) if ended else ("protocol", "hung up")
        for child in self.children.values():
            child.kill()
        for name, child in self.children.items():
            ended = self.zygote.wait(child)
            if ended is None:
                raise RunLostError("a killed process does not end")
            self.rss_mib = max(self.rss_mib, ended.rss_mib)
            self.cpu[name] = ended.cpu_s
        if over is not None:
            return over.status, over.detail, self._charged(over)
        if report is None:
            seconds = ledger.read(self.judge.page, self.names)
            status, detail, author = self._judge_ended()
            return status, detail, blame.of_tests(seconds) or author
        if died:
            by_whom = report["detail"].removeprefix(f"{died} ended")
            return how[0], f"{died} {how[1]}{by_whom}", report["author"]
        return report["status"], report["detail"], report["author"]

    def _charged(self, over: Over) -> str | None:
        """The author to whom a limit is charged that struck in this run."""
        if over.status == "wall_limit":
            return blame.of_wall(self.seconds)
        if over.side == JUDGE:
            return blame.of_tests(self.seconds)
        return blame.of_program(self.seconds, over.side, self.cpu[over.side])

    def _cause(self, status: int, cpu_s: float) -> tuple[str, str]:
        """What a wait status says about a process that we did not end."""
        if os.WIFEXITED(status):
            code = os.WEXITSTATUS(status)
            self.doubtful |= code == EXIT_BROKEN  # a program may leave with it, too
            return "early_exit", f"left with exit status {code}"
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU or (
            number == signal.SIGKILL and cpu_s >= self.limits.cpu_seconds
        ):
            return "cpu_limit", f"used {cpu_s:.1f} s of processor time"
        # Somebody outside sent it, or memory ran out, which a program may have used up.
        self.doubtful |= number == signal.SIGKILL
        return "died", f"was ended by {signal_name(number)}"

    def _judge_ended(self) -> tuple[str, str, str | None]:
        """The judge ended without a report: a value it was given was too much for the tests."""
        ended = self.zygote.wait(self.judge.child)
        if ended is None:
            raise RunLostError("the test process sent no report")
        if os.WIFEXITED(ended.status) and not os.WEXITSTATUS(ended.status):
            raise RunLostError("the test process ended")
        status, text = self._cause(ended.status, ended.cpu_s)
        if self.judge.runs and status != "cpu_limit":  # of which enough was left: `JUDGE_SHARE`
            raise KeptJudgeError
        return (
            ("protocol" if status == "early_exit" else status),
            f"the tests: {text}",
            self.names[-1],
        )

    def _keep_judge(self, report: dict[str, Any] | None) -> None:
        if report is None:
            return
        cpu = self.judge.cpu_s = report["cpu"]
        self.judge.waited_s = self.judge.child.waited()
        self.judge.runs += 1
        clean = report.get("status") not in ("memory", "protocol", "cpu_limit", "wall_limit")
        small = JUDGE_SHARE * self.limits.cpu_seconds
        if clean and cpu < small:
            self.worker.judge = self.judge

    def _verdict(
        self, status: str, detail: str, author: str | None, report: dict[str, Any], cost: Cost
    ) -> Verdict:
        outcomes = tuple(
            TestOutcome(passed, printable(error), *rest)
            for passed, error, *rest in report.get("outcomes", ())
        )
        trace = tuple(
            (index, name, _plain(args), _plain(result))
            for index, name, args, result in report.get("trace", ())
        )
        return Verdict(
            status=status,  # type: ignore[arg-type]
            passed=sum(o.passed for o in outcomes),
            total=len(outcomes),
            detail=printable(detail)[:200],
            author=author,
            isolation=self.worker.setup.isolation,
            cpu_s=round(sum(self.cpu[name] for name in self.names), 4),
            wall_s=round(self.wall_s, 4),
            max_rss_mib=round(self.rss_mib, 2),
            outcomes=outcomes,
            helper_trace=trace,
            cost=cost,
        )


def printable(text: str) -> str:
    """A text that can be written anywhere: lone surrogates of a program's are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _plain(encoded: Any) -> Any:
    try:
        return codec.decode(encoded)
    except codec.CodecError:
        return codec.Opaque("unreadable")


def _receive(channel: SocketChannel, seconds: float) -> dict[str, Any] | None:
    """The judge's report, None if it ended without one. Raises RunLostError or BadTestsError."""
    channel.sock.settimeout(seconds)
    try:
        report = channel.receive()
    except EOFError:
        return None
    except (TimeoutError, ValueError) as error:
        raise RunLostError(f"the test process sent no report: {error}") from None
    if "bad_tests" in report:
        raise BadTestsError(f"the tests cannot be run: {report['bad_tests']}")
    return report
