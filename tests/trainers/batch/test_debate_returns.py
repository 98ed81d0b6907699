"""MAPoRL's shaping: every cell of the table, no pay for cycles or sandbagging."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.toys import Lower

from llm_marl_envs import make
from llm_marl_envs.core.records import Request
from llm_marl_envs.envs.questions import question_of
from llm_marl_envs.policies import ScriptedPolicy
from trainers.algorithms.magrpo import MAGRPO
from trainers.batch.returns import make_returns, setting_of
from trainers.batch.shaping import PAPER_BONUS, Maporl
from trainers.config import MAGRPOConfig
from trainers.experience.collect import Collector

A0, A1, A2, A3 = PAPER_BONUS


def shaped(rows: list[str], bonus: Any, scale: float = 1.0, discount: float = 0.3) -> np.ndarray:
    """Returns (A, K) of agents whose rounds are written as "rw": right, wrong."""
    right = np.array([[c == "r" for c in row] for row in rows])
    return Maporl(bonus=bonus, discount=discount, scale=scale).returns(right, np.ones_like(right))


def test_the_influence_aware_return_by_hand() -> None:
    # Agent 0: wrong, right, right; agents 1 and 2: right, wrong, right. Team: 2/3, 1/3, 1.
    returns = shaped(["wrr", "rwr", "rwr"], "potential", scale=0.0, discount=0.5)
    whole = 1 + 0.5 + 0.25
    assert returns[0, 0] == pytest.approx((0 + 0.5 / 3 + 0.25) / whole)
    assert returns[1, 0] == pytest.approx((1 + 0.5 / 3 + 0.25) / whole)
    assert returns[0, 1] == pytest.approx((1 + 0.5) / 1.5)
    assert returns[1, 1] == pytest.approx((0 + 0.5) / 1.5)
    assert returns[:, 2].tolist() == [1, 1, 1]


def bonus_of(rows: list[str], bonus: Any) -> np.ndarray:
    return shaped(rows, bonus, scale=1.0) - shaped(rows, bonus, scale=0.0)


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        ("wr", "rr", A0),  # persuaded by those who were right
        ("wr", "ww", A1),  # found it alone
        ("rw", "rr", -A1),  # left what all held
        ("rw", "ww", -A0),  # talked over
        ("rr", "rr", 0.0),
        ("ww", "ww", 0.0),
        ("rr", "ww", 0.0),
        ("ww", "rr", 0.0),
    ],
)
def test_every_cell_of_the_own_revision(own: str, others: str, expected: float) -> None:
    assert bonus_of([own, others, others], "paper")[0, 1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        ("r", "wr", A3),  # they followed one who was right
        ("w", "wr", A2),
        ("w", "rw", -A3),  # they followed one who was wrong
        ("r", "rw", -A2),
        ("r", "rr", 0.0),
        ("w", "ww", 0.0),
        ("r", "ww", 0.0),
        ("w", "rr", 0.0),
    ],
)
def test_every_cell_of_the_influence(own: str, others: str, expected: float) -> None:
    assert bonus_of([own * 2, others, others], "paper")[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("before", "last", "expected"), [("w", "r", 1), ("w", "w", 0), ("r", "r", 0), ("r", "w", -1)]
)
def test_every_cell_of_the_potential(before: str, last: str, expected: int) -> None:
    for between in ("", "r", "w", "rw"):  # what lies between does not count
        own = bonus_of([before + between + last, *["r" * (2 + len(between))] * 2], "potential")
        assert own[0, 1] == pytest.approx(expected)
        steady = "w" * (2 + len(between))
        others = bonus_of([steady, before + between + last, "r" * len(steady)], "potential")
        assert others[0, 0] == pytest.approx(expected / 2)  # one of two others
    # Before the first turn nobody is right.
    assert bonus_of(["w" + last, "rr", "rr"], "potential")[0, 0] == (last == "r")


def test_the_papers_bonuses_reward_good_influence_only() -> None:
    """The released code pays for misleading; here no flip to wrong earns, none to right costs."""
    for rows in itertools.product(["rr", "rw", "wr", "ww"], repeat=3):
        bonus = bonus_of(list(rows), "paper")
        flips = [row for row in rows if row in ("rw", "wr")]
        if all(row == "wr" for row in flips):
            assert (bonus >= 0).all()
        if all(row == "rw" for row in flips):
            assert (bonus <= 0).all()


@pytest.mark.parametrize("others", ["rrr", "www", "wrr", "rwr"])
def test_under_potential_a_cycle_earns_nothing(others: str) -> None:
    cycle = bonus_of(["rwr", others, others], "potential")
    steady = bonus_of(["rrr", others, others], "potential")
    assert cycle[0, 0] == pytest.approx(steady[0, 0])
    # The two flips of the cycle cancel: down at turn 1, up at turn 2, as parts of one potential.
    assert (cycle[0, 1] - steady[0, 1]) == pytest.approx(0.0)


@pytest.mark.parametrize("discount", [0.0, 0.3, 1.0])
def test_sandbagging_never_beats_honesty(discount: float) -> None:
    """Answering wrong at first, with everything that comes after as it was."""
    for rest in itertools.product("rw", repeat=2):
        for others in itertools.product("rw", repeat=6):
            tail = "".join(rest)
            rows = ["".join(others[:3]), "".join(others[3:])]
            honest = shaped(["r" + tail, *rows], "potential", 0.5, discount)
            sandbag = shaped(["w" + tail, *rows], "potential", 0.5, discount)
            assert honest[0, 0] > sandbag[0, 0]


def test_no_bonus_at_later_turns_depends_on_what_the_turn_cannot_change() -> None:
    """The potential's own part moves with the last answer only, given the answer before."""
    for last in "rw":
        bonus = bonus_of(["rr" + last, "rrr", "rrr"], "potential")[0, 1]
        other = bonus_of(["rw" + last, "rrr", "rrr"], "potential")[0, 1]
        assert bonus == pytest.approx(other)


def test_turns_not_taken_have_no_return() -> None:
    right = np.ones((3, 2), dtype=bool)
    alive = np.array([[True, True], [True, False], [True, True]])
    assert Maporl().returns(right, alive)[1, 1] == 0
    assert (Maporl().returns(right, alive) != 0).sum() == 5


@pytest.mark.parametrize(
    ("chosen", "error", "words"),
    [
        ("potential", ValueError, "returns='potential': expected one of .*'discounted', 'maporl'"),
        ({"bonus": "paper"}, ValueError, "expected a name, or a map with one as 'name'"),
        ({"name": ["maporl"]}, ValueError, "expected a name"),
        ({"name": "maporl", "bonus": "none"}, ValueError, "bonus='none': expected one of"),
        ({"name": "maporl", "scales": 1}, ValueError, "unknown key 'scales'; did you mean 'scale'"),
        (
            {"name": "maporl", "discount": 1.5},
            ValueError,
            "discount=1.5: expected a number, 0 to 1",
        ),
        (
            {"name": "maporl", "scale": -1.0},
            ValueError,
            "scale=-1.0: expected a number, at least 0",
        ),
        ({"name": "maporl", "scale": float("inf")}, ValueError, "scale=inf"),
        ({"name": "maporl", "discount": float("nan")}, ValueError, "discount=nan"),
        ({"name": "maporl", "scale": "0.5"}, TypeError, "scale='0.5': expected a number"),
        ({"name": "discounted", "discount": 0.5}, ValueError, "unknown key 'discount'"),
        (None, TypeError, "returns=None: expected text or a map"),
    ],
    ids=str,
)
def test_returns_that_there_are_not(tmp_path: Path, chosen: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        MAGRPOConfig(str(tmp_path), use_cpu=True, returns=chosen)


def test_settings_hold_every_number_of_the_returns(tmp_path: Path) -> None:
    """So that a resumed run is compared with what was computed, not with what was written."""
    whole = {"name": "maporl", "bonus": "potential", "discount": 0.3, "scale": 0.5}
    for chosen in ("maporl", {"name": "maporl"}, whole):
        assert MAGRPOConfig(str(tmp_path), use_cpu=True, returns=chosen).returns == whole
        assert setting_of(make_returns(chosen)) == whole
    assert MAGRPOConfig(str(tmp_path), use_cpu=True, returns={"name": "discounted"}).returns == (
        MAGRPOConfig(str(tmp_path), use_cpu=True).returns
    )


def test_an_environment_that_does_not_say_who_was_right_is_refused(tmp_path: Path) -> None:
    args = MAGRPOConfig(
        str(tmp_path), use_cpu=True, max_steps=1, tasks_per_update=1, returns="maporl"
    )
    names = {"left_0": "a", "right_0": "a"}
    collector = Collector(Lower, MAGRPO(args), args, tuple(names), names)
    groups = collector.play(0, dict.fromkeys(names, ScriptedPolicy(lambda request: "e")))
    with pytest.raises(ValueError, match=r"need info\['right'\] of every turn"):
        collector.judge(0, groups)


def test_shaped_returns_reach_the_advantages_undiscounted(tmp_path: Path) -> None:
    """`discount` belongs to rewards; a shaped return is used as it is, for the seats trained."""
    right = {"debater_0": "wr", "debater_1": "rr", "debater_2": "ww"}

    def script(request: Request) -> str:
        task = make("debate-v0").source.find(request.task_id)
        good = right[request.agent][request.turn] == "r"
        return f"Answer: {question_of(task).answer}" if good else "no idea"

    args = MAGRPOConfig(
        output_dir=str(tmp_path),
        use_cpu=True,
        max_steps=1,
        tasks_per_update=1,
        num_generations=2,
        discount=0.5,
        returns={"name": "maporl", "scale": 0.25},
    )
    trained = ("debater_0", "debater_2")
    names: dict[str, str] = dict.fromkeys(trained, "a")
    collector = Collector(lambda: make("debate-v0"), MAGRPO(args), args, trained, names)
    groups = collector.play(0, dict.fromkeys(right, ScriptedPolicy(script)))
    inputs, advantages = collector.judge(0, groups)
    expected = shaped(["wr", "rr", "ww"], "potential", scale=0.25)
    assert inputs.returns.shape == (1, 2, 2, 2)
    for episode in inputs.returns[0]:
        assert episode == pytest.approx(expected[[0, 2]])
    assert advantages == pytest.approx(np.zeros_like(advantages))
