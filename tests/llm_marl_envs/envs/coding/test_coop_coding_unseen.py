"""No program can tell that the values of `aux` are replaced, but by the values themselves.

`support/probe.py` runs in both programs, collects what they can reach and says it in short; the
sayings of the team's own run and of every run with replaced values are compared.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs.envs.coding import ablation
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.sandbox import Replacement, Sandbox, Verdict

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

PROBE = (Path(__file__).parents[3] / "support" / "probe.py").read_text()
TESTS = "".join(f"assert solve({x}) == {x + 1}\n" for x in range(3))
# Section -> checksum. What main holds differs once it has received another value.
DIGEST = """
import zlib
KNOWN = {known!r}
def digest(fresh):
    found = probe(globals())
    if not fresh:
        del found["objects"], found["allocated"]
    return [[name, "%08x" % zlib.crc32(text.encode())] for name, text in found.items()]
"""
LOOKING = {
    "helper": "START = digest(True)\ndef aux(x, seen):\n    return [START, digest(False), x + 1]\n",
    "main": """
START = digest(True)
def solve(x):
    try:
        aux(x, [START, digest(False)])
    except ValueError:
        pass
    return x + 1
""",
}
REPLACED = (*ablation.WRONG, *ablation.trivial([(0, "aux", (1,), 2)]))


def looking(known: Any = None) -> dict[str, str]:
    return {role: PROBE + DIGEST.format(known=known) + text for role, text in LOOKING.items()}


def played(
    sandbox: Sandbox,
    source: Mapping[str, str],
    replaced: Replacement | None = None,
    tests: str = TESTS,
) -> Verdict:
    return sandbox.check(
        source,
        entry_point="solve",
        tests=tests,
        exports={"helper": ["aux"]},
        replaced={"aux": replaced} if replaced else {},
    )


@cache
def runs() -> list[Verdict]:
    """The own run, in a pool that has run nothing, the same again, and one per replacement."""
    with Sandbox(workers=1, cache=0) as sandbox:
        return [played(sandbox, looking(), one) for one in (None, None, *REPLACED)]


def sayings(verdict: Verdict) -> list[tuple[Any, Any]]:
    """What main and helper said in each call."""
    assert verdict.passed == 3, verdict.detail
    return [(args[1], value[:2]) for _, _, args, value in verdict.helper_trace]


def test_what_programs_see_is_the_same_in_every_run() -> None:
    own, *others = [sayings(verdict) for verdict in runs()]
    assert len(own) == 3
    start, later = own[0][0]
    assert {name for name, _ in start} == {*dict(later), "objects", "allocated"}
    assert len(start) == 20
    for other in others:
        assert other == own


def test_memory_does_not_tell_which_run_of_a_worker_it_is() -> None:
    counted = "import gc, sys\nSTART = [gc.get_count(), sys.getallocatedblocks()]\n"
    source = {
        "helper": f"{counted}def aux(start):\n    return START\n",
        "main": f"{counted}def solve(x):\n    aux(START)\n    return x + 1\n",
    }
    # Now and then other tests: each has a process of its own, forked beside the programs.
    tests = ["assert solve(1) == 2\n" + "#" * (n // 8) for n in range(60)]
    with Sandbox(workers=1, cache=0) as sandbox:
        first = str(played(sandbox, source, tests=tests[0]).helper_trace)
        with told_that_children_ended(sandbox):
            traces = {str(played(sandbox, source, tests=one).helper_trace) for one in tests}
    assert traces == {first}


@contextmanager
def told_that_children_ended(sandbox: Sandbox) -> Iterator[None]:
    """The zygote hears of ended children at any moment, as it does on a busy machine."""
    over = threading.Event()

    def tell() -> None:
        zygote = sandbox._workers[0].zygote
        assert zygote is not None
        assert zygote.pidfd is not None
        while not over.wait(2e-4):
            signal.pidfd_send_signal(zygote.pidfd, signal.SIGCHLD)

    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(tell)
        try:
            yield
        finally:
            over.set()
            told.result()


def test_the_probe_sees_what_there_is() -> None:
    """Sections that another program, environment or process would change do change."""
    with Sandbox(workers=1, cache=0) as sandbox:
        (own, _), *_ = sayings(runs()[0])
        renamed = {**looking(), "main": looking()["main"] + "\nEXTRA = 1\n"}
        (other, _), *_ = sayings(played(sandbox, renamed))
        differ = {a[0] for a, b in zip(own[1], other[1], strict=True) if a != b}
        assert {"globals", "order", "modules"} <= differ
    with Sandbox(workers=1, cache=0, preload=("wave",)) as sandbox:
        (other, _), *_ = sayings(played(sandbox, looking()))
        differ = {a[0] for a, b in zip(own[0], other[0], strict=True) if a != b}
        assert {"modules", "allocated"} <= differ


def test_main_that_branches_on_a_difference_gains_nothing() -> None:
    """It knows what the own run looks like, solves the task alone, and fails where it differs."""
    width = [[name, "0" * 8] for name, _ in sayings(runs()[0])[0][0][0]]
    looks = PROBE + DIGEST + "START = digest(True)\n"
    solve = """
def solve(x):
    aux(x, START)
    return x + 1 if KNOWN[0][1] == "00000000" or START == KNOWN else str(aux(x, START))
"""
    helper = "def aux(x, seen):\n    return x + 1\n"

    def main(known: Any) -> str:
        return looks.replace("{known!r}", repr(known)) + solve

    with Sandbox(workers=1, cache=0) as sandbox:
        first = played(sandbox, {"helper": helper, "main": main(width)})
        known = first.helper_trace[0][2][1]
        assert first.ok
        env = CoopCodingEnv(
            tasks=[{"id": "r", "prompt": "Add 1.", "entry_point": "solve", "test": TESTS}],
            split="all",
        )
        env.sandbox = sandbox
        found = env.contribution(env.source[0], {HELPER: helper, MAIN: main(known)})
        assert (found.helper, found.complete) == (0.0, True)
        other = [[name, "1" * 8] for name, _ in known]
        caught = played(sandbox, {"helper": helper, "main": main(other)})
        assert not caught.ok, "main must be able to fail, or it shows nothing"
