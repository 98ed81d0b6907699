"""Runs that share a budget: sums, runs that find nothing left, remembered verdicts."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from support.jobs import EXPORTS, HELPER, MAIN, alone

from llm_marl_envs.sandbox import Budget, Cost, Limits, Sandbox, Verdict
from llm_marl_envs.sandbox.worker import _Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

LIMITS = Limits(cpu_seconds=2, wall_seconds=3.0)
QUICK = "def solve(x):\n    return x + 1\n"
# Sleeps 0.6 seconds in all.
SLEEPY = "import time\ndef solve(x):\n    time.sleep(0.2)\n    return x + 1\n"


def test_costs_are_added_side_by_side_in_any_order() -> None:
    costs = [
        Cost({"helper": 1.5, "main": 0.5, "": 0.1}, 1.0),
        Cost({"helper": 0.4, "main": 1.4, "": 0.1}, 1.0),
        Cost({"helper": 0.2, "main": 0.2, "": 1.9}, 0.9),
    ]
    overs = []
    for order in itertools.permutations(range(3)):
        budget = Budget(LIMITS)
        for run in order:
            budget.spend(run, costs[run])
        overs.append(budget.over())
    assert all(over is not None and over.status == "cpu_limit" for over in overs)
    budget = Budget(LIMITS)
    budget.spend(0, costs[0])
    budget.spend(1, costs[1])
    assert budget.over() is None  # 1.9 of 2 each, together more
    budget.spend(1, Cost(costs[1].cpu, 2.1))
    over = budget.over()
    assert over is not None
    assert (over.status, over.side, over.detail) == ("wall_limit", "", "no verdict within 3 s")
    budget.forget(1)
    assert budget.over() is None
    budget.spend(2, Cost({"": 2.5}))
    over = budget.over()
    assert over is not None
    assert (over.side, over.detail) == ("", "the tests used more than 2 s of processor time")


def test_runs_take_from_one_budget_until_it_is_spent(sandbox: Sandbox) -> None:
    """Each run alone is far below the limits of the pool, which are one and two seconds.

    Runs wait for a worker in no order, so they are counted.
    """
    budget = sandbox.budget()
    jobs = [
        {"source": SLEEPY + f"# {n}", "entry_point": "solve", "tests": "assert solve(1) == 2"}
        for n in range(24)
    ]
    verdicts = sandbox.map(jobs, budget)
    over = budget.over()
    assert over is not None
    assert over.status == "wall_limit"
    assert 4 <= [v.status for v in verdicts].count("pass") <= 16
    nothing_left = [(v.status, v.total, v.author) for v in verdicts].count(("wall_limit", 0, None))
    assert nothing_left >= 24 - 16 - 2  # two may be cut in their course
    assert alone(sandbox, QUICK + "# after").ok


def test_each_programs_time_counts_by_itself(sandbox: Sandbox) -> None:
    """0.4 seconds of helper, 0.4 of main, three times, within one second each; then not."""
    spin = "import time\ndef spin(x):\n    end = time.process_time() + 0.4\n"
    spin += "    while time.process_time() < end: pass\n    return x\n"
    job: dict[str, Any] = {
        "entry_point": "solve",
        "exports": EXPORTS,
        "tests": "assert solve(1) == 2",
    }
    busy_helper = {"helper": spin + "def aux(x):\n    return spin(x) + 1\n", "main": MAIN}
    busy_main = {"helper": HELPER, "main": spin + "def solve(x):\n    return aux(spin(x))\n"}
    budget = Budget(Limits(cpu_seconds=1, wall_seconds=10))
    for n, team in enumerate([busy_helper, busy_main, busy_helper, busy_main]):
        team = {**team, "main": team["main"] + f"# {n}"}
        assert sandbox.check(team, **job, budget=budget).ok
    verdict = sandbox.check({**busy_helper, "main": MAIN + "# more"}, **job, budget=budget)
    assert (verdict.status, verdict.author) == ("cpu_limit", "helper")


def test_a_remembered_verdict_costs_what_its_run_did() -> None:
    with Sandbox(workers=1, limits=LIMITS) as pool:
        job: dict[str, Any] = {"entry_point": "solve", "tests": "assert solve(1) == 2"}
        first = pool.check(SLEEPY, **job)
        assert first.ok
        # Waiting for a processor does not count, so how much of the sleep does is not known before.
        for share in (0.5, 2.0):
            budget = Budget(Limits(wall_seconds=share * first.cost.wall))
            assert pool.check(SLEEPY, **job, budget=budget).ok
            assert (budget.over() is not None) is (share < 1)
            assert not budget.untouched


def test_a_run_that_others_left_nothing_says_nothing_to_others() -> None:
    """Neither remembered, nor given to an equal job that waited for it."""
    with Sandbox(workers=2, limits=LIMITS) as pool:
        job: dict[str, Any] = {
            "entry_point": "solve",
            "tests": "assert solve(1) == 2\nassert solve(3) == 4\n",
        }
        tight = Budget(Limits(wall_seconds=0.3))
        seen: dict[str, Verdict] = {}
        threads = [
            threading.Thread(
                target=lambda: seen.update(cut=pool.check(SLEEPY, **job, budget=tight))
            ),
            threading.Thread(target=lambda: seen.update(whole=pool.check(SLEEPY, **job))),
        ]
        threads[0].start()
        while not pool._cache.running:
            time.sleep(0.001)
        threads[1].start()
        for thread in threads:
            thread.join()
        assert seen["cut"].status == "wall_limit"
        assert seen["whole"].ok
        again = pool.check(SLEEPY, **job, budget=Budget(LIMITS))
        assert again is seen["whole"]


class Waiting:
    """A process that says how long it stood ready without a processor, then has ended."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)

    def waited(self) -> float:
        return self.seconds.pop(0)


def test_time_without_a_processor_is_no_elapsed_time_even_of_a_process_that_has_ended() -> None:
    run: Any = object.__new__(_Run)
    run.began = time.monotonic() - 10.0
    run.budget = Budget(Limits(wall_seconds=6.0))
    run.children = {"main": Waiting(4.0, 0.0)}
    run.judge = SimpleNamespace(child=Waiting(3.0, 3.5), waited_s=2.0)  # 2.0 in earlier runs
    run.waits = {"main": 0.0, "": 0.0}
    assert run._wall() == pytest.approx(5.0, abs=0.2)
    assert run._wall() == pytest.approx(4.5, abs=0.2)
