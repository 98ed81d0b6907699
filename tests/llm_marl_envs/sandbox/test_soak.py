"""Long runs: random programs of the corpus, thousands of times."""

from __future__ import annotations

import gc
import os
import random
import resource
import sys
from pathlib import Path

import pytest
from support import corpus
from support.run_corpus import SLOW

from llm_marl_envs.sandbox import Limits, Sandbox
from llm_marl_envs.sandbox.zygote_link import BATCH

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

RUNS = 5000


def test_five_thousand_random_runs() -> None:
    """No wrong verdict, and no growth of descriptors, processes or memory."""
    cases = [c for c in corpus.hostile() + corpus.legitimate() if c.id not in SLOW]
    rng = random.Random(7)
    limits = Limits(cpu_seconds=1, wall_seconds=5)
    with Sandbox(workers=os.cpu_count(), limits=limits, cache=0) as sandbox:
        _round(sandbox, rng.choices(cases, k=200))
        before = _held(sandbox)
        for _ in range(RUNS // 250):
            _round(sandbox, rng.choices(cases, k=250))
        after = _held(sandbox)
    assert after["other fds"] <= before["other fds"] + 8
    assert after["children"] <= (os.cpu_count() or 1) * (BATCH + 2)  # spare ones, judge, program
    assert after["parent KiB"] <= before["parent KiB"] + 16 * 1024
    assert after["zygote KiB"] <= before["zygote KiB"] + 2 * 1024


def _round(sandbox: Sandbox, cases: list[corpus.Case]) -> None:
    jobs = [{"source": c.source, "entry_point": "solve", "tests": corpus.TESTS} for c in cases]
    wrong = [
        (case.id, verdict.status, verdict.detail)
        for case, verdict in zip(cases, sandbox.map(jobs), strict=True)
        if verdict.status not in case.expected
    ]
    assert wrong == []


def _held(sandbox: Sandbox) -> dict[str, int]:
    gc.collect()
    zygotes = [w.zygote for w in sandbox._workers if w.zygote is not None]
    sizes = []
    for zygote in zygotes:
        info = Path(f"/proc/self/fdinfo/{zygote.pidfd}").read_text()
        pid = info.split("Pid:")[1].split()[0]
        status = Path(f"/proc/{pid}/status").read_text()
        sizes.append(int(status.split("VmRSS:")[1].split()[0]))
    children = sum(len(z.alive) for z in zygotes)
    return {
        # Of each child this process holds a socket and what tells of its end.
        "other fds": len(os.listdir("/proc/self/fd")) - 2 * children,
        "children": children,
        "parent KiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "zygote KiB": max(sizes),
    }
