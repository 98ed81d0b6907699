"""coop_coding-v0: the runs of one check share one budget; waiting in some of them pays nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from llm_marl_envs.envs.coding import rows
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.sandbox import Budget, Limits, Sandbox, Verdict
from llm_marl_envs.sandbox.records import Job
from llm_marl_envs.sandbox.worker import Worker

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

LIMITS = Limits(cpu_seconds=1, wall_seconds=1.5)
CUT = ("cpu_limit", "wall_limit")
ROW = {
    "id": "evens",
    "prompt": "The sum of the doubles of the even numbers in xs.",
    "entry_point": "solve",
    "test": "".join(
        f"assert solve({xs}) == {sum(2 * x for x in xs if x % 2 == 0)}\n"
        for xs in ([2, 4], [1, 2, 3, 4], [6, 6, 7], [10, 1, 8])
    ),
}
RIGHT = {
    HELPER: "def aux(x):\n    return 2 * x\n",
    MAIN: "def solve(xs):\n    return sum(aux(x) for x in xs if x % 2 == 0)\n",
}
# Solves the task alone; where the helper's value is not its own, does something before it answers.
ALONE = """
import time
def solve(xs):
    for x in xs:
        if aux(x) != 2 * x:
            {then}
    return sum(2 * x for x in xs if x % 2 == 0)
"""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Verdict]:
    """The verdicts of all runs that workers make."""
    verdicts: list[Verdict] = []
    real = Worker.check

    def noted(self: Worker, job: Job, budget: Budget) -> Verdict:
        verdict = real(self, job, budget)
        verdicts.append(verdict)
        return verdict

    monkeypatch.setattr(Worker, "check", noted)
    return verdicts


@pytest.fixture
def env() -> Iterator[CoopCodingEnv]:
    env = CoopCodingEnv(tasks=[ROW], split="all", reward="contribution")
    env.reset(seed=0)
    with Sandbox(workers=1, limits=LIMITS) as env.sandbox:
        yield env


def played(env: CoopCodingEnv, **texts: str) -> dict[str, object]:
    env.reset(seed=0)
    given = {HELPER: texts.get("helper", RIGHT[HELPER]), MAIN: texts.get("main", RIGHT[MAIN])}
    _, rewards, _, _, infos = env.step(given)
    return {**infos[MAIN], "reward": rewards[MAIN]}


def test_a_team_within_its_budget(env: CoopCodingEnv, ran: list[Verdict]) -> None:
    info = played(env)
    assert info["reward"] == pytest.approx(1.0)
    assert info["contribution"] == {"helper": 1.0, "main": 1.0}
    assert info["contribution_complete"] is True
    assert {v.status for v in ran} <= {"pass", "wrong", "exception"}
    assert len(ran) == 8
    assert all(set(v.cost.cpu) == {"helper", "main", ""} for v in ran)
    assert all(min(v.cost.cpu.values()) > 0 for v in ran)


@pytest.mark.parametrize("then", ["time.sleep(60)", "while True: pass", "time.sleep(0.4)"])
def test_waiting_where_the_helper_is_replaced_pays_nothing(
    env: CoopCodingEnv, ran: list[Verdict], then: str
) -> None:
    """No contribution for the helper, as if those runs had ended; and most of them are not made."""
    quick = played(env, main=ALONE.format(then="pass"))
    assert (quick["contribution"], quick["contribution_complete"]) == (
        {"helper": 0.0, "main": 1.0},
        True,
    )
    made = len(ran)
    ran.clear()
    slow = played(env, main=ALONE.format(then=then))
    assert slow["success"] is True
    assert slow["contribution_complete"] is False
    assert slow["contribution"] == quick["contribution"]
    assert slow["reward"] == quick["reward"]
    assert ran[-1].status in CUT
    assert len(ran) < made - 2


@pytest.mark.parametrize(
    "main", [RIGHT[MAIN], ALONE.format(then="pass"), ALONE.format(then="while True: pass")]
)
def test_the_number_of_workers_does_not_matter(main: str) -> None:
    env = CoopCodingEnv(tasks=[ROW], split="all", reward="contribution")
    seen = []
    for workers in (1, 2, 4):
        with Sandbox(workers=workers, limits=LIMITS) as env.sandbox:
            seen.append(played(env, main=main))
    assert seen[0] == seen[1] == seen[2]


def test_an_own_run_that_uses_up_the_budget_leaves_nothing_for_others(
    env: CoopCodingEnv, ran: list[Verdict]
) -> None:
    main = "def solve(xs):\n    while len(xs) > 3: pass\n    return sum(map(aux, xs))\n"
    info = played(env, main=main)
    assert (info["tests_passed"], info["verdict"], info["author"]) == (1, "cpu_limit", "main")
    assert info["contribution"] == {"helper": 0.0, "main": 0.25}
    assert info["contribution_complete"] is False
    assert len(ran) == 1


@pytest.mark.parametrize(
    ("helper", "main"),
    [
        (RIGHT[HELPER], "import time\ndef solve(xs):\n    time.sleep(60)\n"),
        (
            "import os, threading\ndef aux(x):\n"
            "    threading.Timer(0.2, os._exit, (0,)).start()\n    return 2 * x\n",
            "import time\ndef solve(xs):\n    aux(1)\n    time.sleep(60)\n",
        ),
        (
            RIGHT[HELPER],
            "import ctypes, threading, time\n"
            "threading.Thread(target=time.sleep, args=(60,)).start()\n"
            "def solve(xs):\n    ctypes.CDLL(None).pthread_exit(None)\n",
        ),
    ],
)
def test_a_run_that_used_its_time_is_not_made_again(
    env: CoopCodingEnv, ran: list[Verdict], helper: str, main: str
) -> None:
    """Also where a process has ended, or its first thread, so that nothing tells its waiting."""
    info = played(env, helper=helper, main=main)
    assert (info["verdict"], info["author"]) == ("wall_limit", "main")
    assert len(ran) == 1


def test_what_rows_allow_grows_with_their_tests() -> None:
    small = rows.contract_of("assert f(3) == 4")
    assert (small.largest, small.size) == (10**7, 20_000)
    large = rows.contract_of(f"assert f('{'x' * 5_000}') == {10**11}")
    assert large.largest == 10**15
    assert 50_000 <= large.size < 51_000
    assert rows.contract_of(f"assert f('{'01' * 500}') == 1").largest == 10**22
