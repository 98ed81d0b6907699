"""What happens when the machinery is killed, frozen, forked, or shared."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_marl_envs.sandbox import (
    InfraError,
    Limits,
    Sandbox,
    SandboxError,
    Verdict,
    default_sandbox,
)
from llm_marl_envs.sandbox.jail import confine, kernel, zygote
from llm_marl_envs.sandbox.zygote_link import BATCH, Zygote

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

ROOT = Path(__file__).resolve().parents[3]
SOURCE = "def solve(x):\n    return x + 1\n"
SLEEPY = "import time\ndef solve(x):\n    time.sleep(1)\n    return x + 1\n"
TESTS = "assert solve(1) == 2\nassert solve(5) == 6\n"


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=Limits(wall_seconds=2.5), cache=0) as sandbox:
        assert sandbox.check(SOURCE, entry_point="solve", tests=TESTS).status == "pass"
        yield sandbox


def _zygote(sandbox: Sandbox) -> Zygote:
    zygote = sandbox._workers[0].zygote
    assert zygote is not None
    return zygote


def _signal(zygote: Zygote, number: int) -> None:
    assert zygote.pidfd is not None
    signal.pidfd_send_signal(zygote.pidfd, number)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_next_check_is_right_after_the_zygote_is_hit(sandbox: Sandbox, number: int) -> None:
    _signal(_zygote(sandbox), number)
    for _ in range(3):
        assert sandbox.check(SOURCE, entry_point="solve", tests=TESTS).status == "pass"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_run_survives_a_zygote_hit_in_its_middle(sandbox: Sandbox, number: int) -> None:
    timer = threading.Timer(0.4, _signal, (_zygote(sandbox), number))
    timer.start()
    verdict = sandbox.check(SLEEPY, entry_point="solve", tests=TESTS)
    timer.join()
    assert verdict.status == "pass"
    assert sandbox.check(SOURCE, entry_point="solve", tests=TESTS).status == "pass"


def test_a_frozen_program_is_no_verdict_on_it() -> None:
    """Stop every process of each attempt: twice failed means InfraError, never a wrong answer."""
    for mode in ("raise", "mask"):
        limits = Limits(wall_seconds=0.6)
        with Sandbox(workers=1, limits=limits, cache=0, on_infra=mode) as sandbox:
            sandbox.check(SOURCE, entry_point="solve", tests=TESTS)
            stop = threading.Event()
            freezer = threading.Thread(target=_freeze, args=(sandbox, stop))
            freezer.start()
            try:
                if mode == "raise":
                    budget = sandbox.budget()
                    with pytest.raises(InfraError, match="failed twice"):
                        sandbox.check(SLEEPY, entry_point="solve", tests=TESTS, budget=budget)
                    assert budget.over() is None  # to be asked again, it costs nothing
                else:
                    verdict = sandbox.check(SLEEPY, entry_point="solve", tests=TESTS)
                    assert (verdict.status, verdict.total) == ("infra_error", 0)
            finally:
                stop.set()
                freezer.join()
            assert sandbox.check(SOURCE, entry_point="solve", tests=TESTS).status == "pass"


def _freeze(sandbox: Sandbox, stop: threading.Event) -> None:
    while not stop.wait(0.1):
        zygote = sandbox._workers[0].zygote
        for child in list(zygote.alive.values()) if zygote else []:
            if child.pidfd is not None:
                with contextlib.suppress(OSError, TypeError):  # it may just have ended
                    signal.pidfd_send_signal(child.pidfd, signal.SIGSTOP)


def _hit_children(sandbox: Sandbox) -> None:
    """Kill every process of the present run and those that wait for the next."""
    zygote = sandbox._workers[0].zygote
    for child in list(zygote.alive.values()) if zygote else []:
        if child.pidfd is not None:
            with contextlib.suppress(OSError, TypeError):  # it may just have ended
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)


def _hit_often(sandbox: Sandbox, stop: threading.Event) -> None:
    while not stop.wait(0.3):
        _hit_children(sandbox)


def test_a_run_that_is_killed_once_is_made_again(sandbox: Sandbox) -> None:
    def check(tests: str) -> Verdict:
        return sandbox.check(SLEEPY, entry_point="solve", tests=tests)

    for tests in (TESTS, "assert solve(1) == 2"):  # the second has a judge of its own
        timer = threading.Timer(0.4, _hit_children, (sandbox,))
        timer.start()
        assert check(tests).status == "pass"
        timer.join()


@pytest.mark.long
def test_a_run_that_is_killed_every_time_gets_a_verdict() -> None:
    """A program that fills the memory looks the same, so it may not be the machinery's fault."""
    stop = threading.Event()
    sandbox = Sandbox(workers=1, limits=Limits(wall_seconds=2.5))
    killer = threading.Thread(target=_hit_often, args=(sandbox, stop))
    sandbox.check(SOURCE, entry_point="solve", tests=TESTS)
    killer.start()
    try:
        for tests in (TESTS, "assert solve(1) == 2\nassert solve(3) == 4\n"):  # a kept judge, a new
            verdict = sandbox.check(SLEEPY, entry_point="solve", tests=tests)
            assert (verdict.status, verdict.author) == ("died", "main")
            assert verdict.detail.endswith("was ended by SIGKILL")
    finally:
        stop.set()
        killer.join()
    verdict = sandbox.check(SLEEPY, entry_point="solve", tests=TESTS)
    assert verdict.status == "pass", "it may have been the machine, so it is not remembered"
    sandbox.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_judge_that_is_worn_out_is_replaced(sandbox: Sandbox, number: int) -> None:
    """Between two runs, and in the middle of one: what is left of it is not the program's doing."""
    kept, link = sandbox._workers[0].judge, _zygote(sandbox)
    assert kept is not None
    assert kept.child.pidfd is not None
    signal.pidfd_send_signal(kept.child.pidfd, number)
    time.sleep(0.2)
    assert sandbox.check(SLEEPY, entry_point="solve", tests=TESTS).status == "pass"
    kept = sandbox._workers[0].judge
    assert kept is not None
    timer = threading.Timer(0.4, signal.pidfd_send_signal, (kept.child.pidfd, number))
    timer.start()
    assert sandbox.check(SLEEPY, entry_point="solve", tests=TESTS).status == "pass"
    timer.join()
    assert sandbox._workers[0].judge is not kept
    assert _zygote(sandbox) is link, "the worker has nothing to do with it"


def test_values_that_end_the_judge_are_charged_to_main() -> None:
    """With a judge that is new and with one that is kept, and never as a fault of the machine."""
    tests = "def size(n):\n    return len(bytes(n))\nassert size(solve(1)) == 2\n"
    loops = "def loop(n):\n    while n:\n        pass\nloop(solve(1))\nassert solve(1) == 0\n"
    with Sandbox(workers=2, limits=Limits(cpu_seconds=1, wall_seconds=20), cache=0) as sandbox:
        for text, right, status in ((tests, 2, "memory"), (loops, 0, "cpu_limit")):
            for value in (right, 1 << 40, right):
                source = f"def solve(x):\n    return {value}\n"
                verdict = sandbox.check(source, entry_point="solve", tests=text)
                assert verdict.status == ("pass" if value == right else status)


def test_a_zygote_makes_up_for_forks_that_were_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program's threads may be all that the machine allows for a while."""
    forks: list[int] = []

    def fork() -> int:
        forks.append(0)
        return -1 if len(forks) % 3 else kernel.fork()

    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            server = zygote._Zygote(theirs, -1, confine.Confinement(confine.Policy()))
            server.fork = fork
            server.serve()
        finally:
            os._exit(1)
    theirs.close()
    link = Zygote(ours, subprocess.Popen(["true"]))
    try:
        link.wait_ready()
        assert len({child.pid for child in link.take(2 * BATCH)}) == 2 * BATCH
    finally:
        link.close()
        os.waitpid(pid, 0)


def _processes(marker: str) -> list[int]:
    """Living processes whose environment or command line holds `marker`."""
    numbers = []
    for entry in Path("/proc").iterdir():
        try:
            state = (entry / "stat").read_text().rpartition(") ")[2][:1]
            if entry.name.isdigit() and state != "Z":
                text = (entry / "cmdline").read_bytes()
                if marker.encode() in text:
                    numbers.append(int(entry.name))
        except OSError:
            continue
    return numbers


@pytest.mark.parametrize("busy", ["time.sleep(60)", "while True: pass"])
def test_a_killed_parent_leaves_nothing(busy: str, tmp_path: Path) -> None:
    # The marker is a package directory, which is on the command line of every process below.
    marker = tmp_path / "marker"
    marker.mkdir()
    program = textwrap.dedent(f"""
        import os, sys, threading, time
        from llm_marl_envs.sandbox import Limits, Sandbox
        sandbox = Sandbox(workers=2, paths=[{str(marker)!r}], limits=Limits(60, 100))
        warm = [dict(source="# %d" % n, entry_point="f", tests="assert f(1)") for n in range(8)]
        sandbox.map(warm)
        source = "import time\\ndef solve(x):\\n    {busy}"
        for _ in range(2):
            args = dict(entry_point="solve", tests="assert solve(1) == 2")
            threading.Thread(target=sandbox.check, args=(source,), kwargs=args).start()
        if os.fork() == 0:  # a sibling that holds copies of every socket, as data loaders do
            time.sleep(5)
            os._exit(0)
        time.sleep(0.5)
        print("ready", flush=True)
        time.sleep(60)
    """)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=env)
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        before = [p for p in _processes(str(marker)) if p != parent.pid]
        assert len(before) >= 4
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 2.0
    while (left := _sandboxed(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def _sandboxed(marker: Path) -> list[int]:
    return [
        p for p in _processes(str(marker)) if b"jail" in _cmdline(p) and b"fork" not in _cmdline(p)
    ]


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_many_threads_share_a_pool() -> None:
    results: list[str] = []
    with Sandbox(workers=2, cache=0) as sandbox:

        def work(number: int) -> None:
            source = f"def solve(x):\n    return x + {number % 2 + 1}\n"
            expected = "pass" if number % 2 == 0 else "wrong"
            verdict = sandbox.check(source, entry_point="solve", tests=TESTS)
            results.append("ok" if verdict.status == expected else verdict.status)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == ["ok"] * 40


def test_workers_outlive_the_thread_that_started_them() -> None:
    with Sandbox(workers=1, cache=0) as sandbox:
        for _ in range(3):
            out: list[str] = []
            thread = threading.Thread(
                target=lambda out=out: out.append(
                    sandbox.check(SOURCE, entry_point="solve", tests=TESTS).status
                )
            )
            thread.start()
            thread.join()
            assert out == ["pass"]
            time.sleep(0.05)


def test_a_forked_process_gets_a_pool_of_its_own() -> None:
    mine = default_sandbox()
    assert mine.check(SOURCE, entry_point="solve", tests=TESTS).status == "pass"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            try:
                mine.check(SOURCE + "#", entry_point="solve", tests=TESTS)
            except SandboxError:
                other = default_sandbox()
                fine = other is not mine
                fine &= other.check(SOURCE, entry_point="solve", tests=TESTS).status == "pass"
                other.close()
                code = 0 if fine else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert mine.check(SOURCE + "#2", entry_point="solve", tests=TESTS).status == "pass"


def test_a_closed_sandbox_says_so() -> None:
    sandbox = Sandbox(workers=1)
    sandbox.close()
    sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        sandbox.check(SOURCE, entry_point="solve", tests=TESTS)


def test_descriptors_and_processes_do_not_grow(sandbox: Sandbox) -> None:
    def counts() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(_zygote(sandbox).alive)

    jobs = [SOURCE, "def solve(x): return 0", "x = (", "import os; os._exit(0)"]
    for n in range(20):
        sandbox.check(jobs[n % 4] + f"# {n}", entry_point="solve", tests=TESTS)
    before = counts()
    for n in range(100):
        sandbox.check(jobs[n % 4] + f"# {n + 20}", entry_point="solve", tests=TESTS)
    after = counts()
    # Children are made in batches, each with two descriptors here.
    assert after[0] <= before[0] + 2 * BATCH + 4
    assert after[1] <= before[1] + BATCH + 2


@pytest.mark.long
def test_overload_is_no_time_out() -> None:
    """Eight times more workers than cores, each program a second of honest work."""
    source = textwrap.dedent("""
        import time
        def solve(n):
            end = time.process_time() + 1.0
            while time.process_time() < end:
                pass
            return n
    """)
    workers = 8 * (os.cpu_count() or 1)
    with Sandbox(workers=workers, limits=Limits(cpu_seconds=2, wall_seconds=6)) as sandbox:
        jobs = [
            {"source": source + f"# {n}", "entry_point": "solve", "tests": "assert solve(3) == 3"}
            for n in range(workers)
        ]
        assert [v.status for v in sandbox.map(jobs)] == ["pass"] * workers


@pytest.mark.long
def test_memory_of_a_worker() -> None:
    """Proportional set size of a worker and all below it stays under 60 MiB."""
    with Sandbox(workers=1, cache=0) as sandbox:
        for n in range(50):
            sandbox.check(SOURCE + f"# {n}", entry_point="solve", tests=TESTS)
        total = 0
        zygote = _zygote(sandbox)
        fds = [zygote.pidfd, *(c.pidfd for c in zygote.alive.values())]
        for fd in fds:
            info = Path(f"/proc/self/fdinfo/{fd}").read_text()
            pid = int(info.split("Pid:")[1].split()[0])
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(rollup.split("\nPss:")[1].split()[0])
        assert total < 60 * 1024, f"{total / 1024:.1f} MiB"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
