"""One worker: a zygote, and the runs that it is given one after another.

Owns the course of one run: children, deadlines, the reading of exit statuses, the verdict. A worker
is used by one thread at a time; `pool` sees to that. Anything that goes wrong outside the programs
raises `RunLostError`, after which the worker starts anew. What may be a program's doing as well as
the machine's raises `KilledError`: the run is made again, and the same again is a verdict.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from . import io_run
from .jail import codec
from .jail.child import EXIT_BROKEN
from .jail.wire import SocketChannel
from .layers import Setup
from .records import Job, KilledError, Limits, Output, TestOutcome, Usage, Verdict
from .zygote_link import Child, Zygote, ZygoteLostError, readable, signal_name

GRACE_SECONDS = 1.0  # for the judge to report after the programs were ended
JUDGE_SHARE = 0.25  # of the processor limit that a judge may have used and still be kept
JUDGE_RUNS = 500  # runs after which a judge is replaced
# However long the machine keeps it waiting, no run lasts longer than this many wall limits.
PATIENCE = 40


class RunLostError(Exception):
    """The run failed for reasons outside the programs."""


class KeptJudgeError(Exception):
    """A judge that had served earlier runs ended; they may have left it too little memory."""


class BadTestsError(ValueError):
    """The tests, which are trusted, cannot be run."""


@dataclass
class _Judge:
    """The test process of the last run, kept for the next one with the same tests."""

    child: Child
    key: tuple[str, str]  # tests, entry point
    cpu_s: float = 0.0
    runs: int = 0


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
            except (OSError, ZygoteLostError) as error:
                self.stop()
                raise RunLostError(f"a worker could not start: {error}") from None
        return self.zygote

    def stop(self) -> None:
        """End the zygote and everything below it."""
        if self.judge is not None:
            self.judge.child.close()
            self.judge = None
        if self.zygote is not None:
            self.zygote.close()
            self.zygote = None

    def check(self, job: Job, patient: bool) -> Verdict:
        """Run one job. `patient`: a wall limit that might be the machine's fault counts.

        Raises RunLostError, KilledError, and BadTestsError for tests that cannot be run.
        """
        zygote = self.start()
        try:
            try:
                return _Run(self, zygote, job, patient).check()
            except KeptJudgeError:
                return _Run(self, zygote, job, patient).check()  # with a fresh one
        except (ZygoteLostError, RunLostError, OSError) as error:
            self.stop()
            raise RunLostError(str(error)) from None
        except (BadTestsError, KilledError):
            raise
        except BaseException:
            self.stop()  # an interrupt in the middle of a run leaves nothing to rely on
            raise

    def run_io(self, source: str, stdin: str) -> Output:
        """Run one script. Raises RunLostError, KilledError."""
        zygote = self.start()
        try:
            return io_run.run(zygote, source, stdin, self.limits, self.setup.isolation)
        except (ZygoteLostError, io_run.StoppedError, OSError) as error:
            self.stop()
            raise RunLostError(str(error)) from None
        except KilledError:
            raise
        except BaseException:
            self.stop()
            raise

    def take_judge(
        self, zygote: Zygote, job: Job, programs: int
    ) -> tuple[_Judge, bool, list[Child]]:
        """A judge, whether it knows the tests already, and children for the programs."""
        key = (job.tests, job.entry_point)
        kept = self.judge
        self.judge = None
        if kept is not None and kept.key == key and kept.runs < JUDGE_RUNS:
            children = zygote.take(programs)
            return kept, True, children
        if kept is not None:
            kept.child.kill()
            kept.child.close()
        first, *children = zygote.take(programs + 1)
        return _Judge(first, key), False, children


class _Run:
    def __init__(self, worker: Worker, zygote: Zygote, job: Job, patient: bool) -> None:
        self.worker = worker
        self.zygote = zygote
        self.job = job
        self.patient = patient
        self.limits = worker.limits
        self.doubtful = False  # whether what ended a process may be the machine's doing
        self.usage = Usage(isolation=worker.setup.isolation)

    def check(self) -> Verdict:
        names = [name for name, _ in self.job.programs]
        judge, known, children = self.worker.take_judge(self.zygote, self.job, len(names))
        self.judge, self.fresh = judge, not known
        self.children = dict(zip(names, children, strict=True))
        self.began = time.monotonic()
        try:
            self._send_jobs(known)
            # Forked while this run goes on, so that the next one need not wait for it.
            self.zygote.ask(len(names) if judge.key == self._key() else len(names) + 1)
            limit, report = self._await_report()
            self.usage.wall_s = time.monotonic() - self.began
            status, detail, author = self._ending(limit, report)
            self._keep_judge(report)
            verdict = self._verdict(status, detail, author, report or {})
            if self.doubtful:
                raise KilledError(verdict)
            return verdict
        finally:
            for child in children:
                child.kill()
                child.close()
            if self.worker.judge is not judge:
                judge.child.kill()
                judge.child.close()

    def _key(self) -> tuple[str, str]:
        return (self.job.tests, self.job.entry_point)

    def _send_jobs(self, known: bool) -> None:
        imports = {owner: list(names) for owner, names in self.job.exports}
        last = self.job.programs[-1][0]
        for name, source in self.job.programs:
            channel = self.children[name].channel
            channel.sock.settimeout(self.limits.wall_seconds + GRACE_SECONDS)
            mine = imports if name == last else {}
            channel.send({"role": "program", "name": name, "source": source, "imports": mine})
            # A time-out makes the shared end non-blocking; the judge wants it to block.
            channel.sock.settimeout(None)
        message = {
            "role": "judge",
            "tests": None if known else self.job.tests,
            "entry": self.job.entry_point,
            "programs": list(self.children),
            "exports": imports,
        }
        channel = self.judge.child.channel
        channel.sock.settimeout(self.limits.wall_seconds + GRACE_SECONDS)
        try:
            channel.send(message, [c.channel.sock.fileno() for c in self.children.values()])
        except OSError:
            if known:
                raise KeptJudgeError from None
            raise
        for child in self.children.values():
            child.channel.sock.close()  # from here on the judge alone talks to the programs

    def _await_report(self) -> tuple[bool, dict[str, Any] | None]:
        """Wait for the judge. Returns whether the wall limit struck, and the report if it came."""
        channel = self.judge.child.channel
        deadline = self.began + self.limits.wall_seconds
        last = self.began + PATIENCE * self.limits.wall_seconds
        while not readable(channel.sock, deadline - time.monotonic()):
            delay = self._starved()
            extended = min(last, self.began + self.limits.wall_seconds + delay)
            if extended <= time.monotonic():
                return True, self._cut()
            deadline = max(extended, time.monotonic() + 0.01)
        return False, _receive(channel, self.limits.wall_seconds)

    def _starved(self) -> float:
        """Seconds that the processes of this run stood ready without getting a processor."""
        counted = [*self.children.values(), *([self.judge.child] if self.fresh else [])]
        if any(child.stopped() for child in counted):
            raise RunLostError("a process of the run was stopped from outside")
        waits = [child.waited() for child in counted]
        if any(w is None for w in waits) and not self.patient:
            raise RunLostError("the wall limit struck and the machine's load cannot be read")
        return sum(w for w in waits if w is not None)

    def _cut(self) -> dict[str, Any] | None:
        """End the programs; the judge then reports how far they came, unless it hangs itself."""
        for child in self.children.values():
            child.kill()
        if readable(self.judge.child.channel.sock, GRACE_SECONDS):
            return _receive(self.judge.child.channel, GRACE_SECONDS)
        return None

    def _ending(self, limit: bool, report: dict[str, Any] | None) -> tuple[str, str, str | None]:
        """Status, detail and author, from the report and from how the processes ended."""
        exits = {name: child.exit for name, child in self.children.items()}
        how = ("died", "ended")
        died = report.get("author") if report and report.get("status") == "died" else None
        if isinstance(died, str) and not limit:
            ended = self.zygote.wait(self.children[died], GRACE_SECONDS)
            exits[died] = ended
            how = self._cause(ended.status, ended.cpu_s) if ended else ("protocol", "hung up")
        for child in self.children.values():
            child.kill()
        for child in self.children.values():
            ended = self.zygote.wait(child)
            if ended is None:
                raise RunLostError("a killed process does not end")
            self.usage.add(ended.cpu_s, ended.rss_mib)
        if limit and self.usage.cpu_s >= self.limits.cpu_seconds:
            text = f"used {self.usage.cpu_s:.1f} s of processor time"
            return "cpu_limit", text, died if isinstance(died, str) else None
        if limit:
            text = f"no verdict within {self.limits.wall_seconds:g} s"
            return "wall_limit", text, died if isinstance(died, str) else None
        if report is None:
            return self._judge_ended()
        if isinstance(died, str):
            return how[0], f"{died} {how[1]}", died
        return report["status"], report["detail"], report["author"]

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
        main = self.job.programs[-1][0]
        if os.WIFEXITED(ended.status) and not os.WEXITSTATUS(ended.status):
            raise RunLostError("the test process ended")
        status, text = self._cause(ended.status, ended.cpu_s)
        if not self.fresh and status != "cpu_limit":  # of which enough was left, see `JUDGE_SHARE`
            raise KeptJudgeError
        return ("protocol" if status == "early_exit" else status), f"the tests: {text}", main

    def _keep_judge(self, report: dict[str, Any] | None) -> None:
        if report is None:
            return
        cpu = report.get("cpu")
        self.judge.runs += 1
        clean = report.get("status") not in ("memory", "protocol", "cpu_limit", "wall_limit")
        small = JUDGE_SHARE * self.limits.cpu_seconds
        if clean and type(cpu) is float and cpu < small:
            self.worker.judge = self.judge

    def _verdict(
        self, status: str, detail: str, author: str | None, report: dict[str, Any]
    ) -> Verdict:
        outcomes = tuple(
            TestOutcome(passed, printable(error), calls, relayed)
            for passed, error, calls, relayed in report.get("outcomes", ())
        )
        trace = tuple(
            (index, name, _plain(args), _plain(result))
            for index, name, args, result in report.get("trace", ())
        )
        usage = self.usage
        return Verdict(
            status=status,  # type: ignore[arg-type]
            passed=sum(o.passed for o in outcomes),
            total=len(outcomes),
            detail=printable(detail)[:200],
            author=author,
            isolation=usage.isolation,
            cpu_s=round(usage.cpu_s, 4),
            wall_s=round(usage.wall_s, 4),
            max_rss_mib=round(usage.max_rss_mib, 2),
            outcomes=outcomes,
            helper_trace=trace,
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
