"""Causes why a training does not improve, each made by a real run, and a run that has none."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
import torch
from support.models import make_trainer
from support.toys import Lower, WordPair

from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.measure.numbers.diagnosis import diagnose
from trainers.batch.optimizer import cosines

pytestmark = pytest.mark.full  # `make test-all` runs it

LOGS = Path(__file__).parents[2] / "support" / "training_logs.json"


class Paid(WordPair):
    """One turn; both are paid what `worth` says of their texts."""

    def __init__(self) -> None:
        super().__init__(turns=1)

    def play(self, joint_action: Any) -> Outcome:
        texts = [joint_action[agent] for agent in self.possible_agents]
        pay, success, readable = self.worth(*texts)
        return Outcome(
            reward_terms={agent: {"pay": float(pay)} for agent in self.agents},
            success=success,
            facts={agent: {"readable": readable} for agent in self.agents},
        )

    def worth(self, left: str, right: str) -> tuple[float, bool, bool]:
        raise NotImplementedError


class Even(Paid):
    """Pays the same, whatever they say; half of the tasks are solved."""

    def worth(self, left: str, right: str) -> tuple[float, bool, bool]:
        return 0.5, self.task.id < "c", True


class Never(Paid):
    """Is not solved by any text, and pays nothing."""

    def worth(self, left: str, right: str) -> tuple[float, bool, bool]:
        return 0, False, True


class Easy(Paid):
    """Is solved by any text."""

    def worth(self, left: str, right: str) -> tuple[float, bool, bool]:
        return 1, True, True


class Parity(Paid):
    """Two conventions, each as good: the first bytes are both even, or both odd."""

    def worth(self, left: str, right: str) -> tuple[float, bool, bool]:
        odd = [sum(text.encode("utf-8", "replace")) % 2 for text in (left, right)]
        return odd[0] == odd[1], odd[0] == odd[1], True


class Slippery(Paid):
    """Pays for lower-case letters, which is not the form that was asked for."""

    def worth(self, left: str, right: str) -> tuple[float, bool, bool]:
        lower = [sum(c.islower() for c in text) / max(len(text), 1) for text in (left, right)]
        return sum(lower) / 2, False, max(lower) < 0.6


SICK: dict[str, tuple[Any, dict[str, Any]]] = {
    "no_rate": (Slippery, {"learning_rate": 0.0}),
    "saturated": (Easy, {}),
    "one_text": (Even, {"temperature": 0.001}),
    "out_of_reach": (Never, {}),
    "paid_alike": (Even, {}),
    "cut": (Never, {}),
    "idle": (Slippery, {"schedules": {"difficulty": {"lowest": 0.99, "highest": 1.0}}}),
    "form_lost": (Slippery, {"learning_rate": 1e-2}),
}
"""cause -> a run that has it"""


def said(folder: Path, env: Any, **changes: Any) -> dict[str, str]:
    """Cause -> what is said of it at the end of a run."""
    sizes = {"max_steps": 20, "num_generations": 8, "rows_per_micro_batch": 16}
    given = {**sizes, "learning_rate": 3e-3, **changes}
    trainer = make_trainer(folder, env, adapters=False, **given)
    trainer.train()
    return {one.cause: str(one) for one in diagnose(trainer.state.log_history)}


@pytest.mark.parametrize("cause", [pytest.param(c, marks=pytest.mark.long) for c in SICK])
def test_each_cause_is_named(tmp_path: Path, cause: str) -> None:
    env, changes = SICK[cause]
    assert cause in said(tmp_path, env, **changes)


def test_updates_are_counted_not_steps() -> None:
    """Three policies that learn one after the other take three steps in each update."""

    def log(updates: int) -> list[dict[str, float]]:
        shares = {"reward_std": 0.0, "frac_reward_zero_std": 1.0, "success": 0.0, "reward": 0.0}
        return [{"step": 3 * i + 1, "cost/updates": i + 1, **shares} for i in range(updates)]

    assert diagnose(log(19)) == ()
    (found,) = diagnose(log(20))
    assert found.evidence.startswith("No episode of 20 updates solved its task")


@pytest.mark.long
def test_a_symmetric_point_is_named(tmp_path: Path) -> None:
    found = said(tmp_path, Parity, learning_rate=1e-5, max_steps=60)
    assert "no_direction" in found
    assert "no_effect" not in found


def test_the_end_of_a_training_says_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two causes at once; a run that learns is not spoken of."""
    found = said(tmp_path / "sick", Never)
    assert [*found] == ["out_of_reach", "cut"]
    shown = [line for line in capsys.readouterr().out.splitlines() if "diagnosis" in line]
    assert shown == [f"diagnosis: {text}" for text in found.values()]
    assert "No episode of 20 updates solved its task, and returns are alike." in shown[0]
    assert said(tmp_path / "healthy", lambda: Lower(turns=1)) == {}
    assert "diagnosis" not in capsys.readouterr().out


# -- recorded runs --------------------------------------------------------------------------------
def log_of(name: str) -> list[dict[str, float]]:
    """The log of a run that was recorded, with the numbers that are read here."""
    found = json.loads(LOGS.read_text())[name]["log"]
    return [
        {key: column[place] for key, column in found.items() if column[place] is not None}
        for place in range(len(found["step"]))
    ]


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        ("demo", []),
        ("climbing", []),
        ("two conventions, left", []),
        ("two conventions, rate too small", ["no_effect"]),
        ("eight conventions", ["no_direction"]),
    ],
)
def test_recorded_runs(name: str, causes: list[str]) -> None:
    """`training_logs.json` names the command of each."""
    log = log_of(name)
    assert [one.cause for one in diagnose(log)] == causes
    assert diagnose(log[:19]) == ()  # too short to be judged


@pytest.mark.parametrize("game", [[[1, 0], [0, 1]], np.eye(8).tolist()])
def test_between_equal_conventions_the_exact_gradient_is_zero(game: list[list[float]]) -> None:
    """What the recorded runs begin near: uniform players, whose pay still varies."""
    pay = torch.tensor(game, dtype=torch.float64)
    logits = [torch.zeros(len(game), dtype=torch.float64, requires_grad=True) for _ in range(2)]
    mine, other = (one.softmax(0) for one in logits)
    (mine @ pay @ other).backward()
    assert all(one.grad is not None and one.grad.abs().max() < 1e-15 for one in logits)
    assert pay.var() > 0


def test_entries_that_hold_several_updates_are_judged_alike() -> None:
    log = log_of("eight conventions")
    fives = [
        {name: fmean(one[name] for one in log[i : i + 5] if name in one) for name in log[-1]}
        | {"step": log[i + 4]["step"]}
        for i in range(0, len(log), 5)
    ]
    assert [one.cause for one in diagnose(fives)] == ["no_direction"]
    assert diagnose(fives[:7]) == ()  # too few entries for a standard error


def test_a_constant_sum_is_not_called_stuck() -> None:
    """Its team return does not vary, and could not rise."""
    log = [{**one, "reward": 0.0, "reward_std": 0.0} for one in log_of("eight conventions")]
    for one in log:
        one.pop("success", None)
    assert diagnose(log) == ()


def test_policies_that_learn_in_turn_are_not_idle() -> None:
    """Nor is a reward term called "cut" an action that was cut."""
    seats = [f"seat_{i}" for i in range(12)]
    log = [
        {**one, "reward_terms/cut": 1.0, **{f"{s}/idle": float(s != seats[i % 12]) for s in seats}}
        for i, one in enumerate(log_of("eight conventions"))
    ]
    for one in log:
        del one["player_0/idle"], one["player_1/idle"]
    assert [one.cause for one in diagnose(log)] == ["no_direction"]
    still = [{**one, **{f"{seat}/idle": 1.0 for seat in seats}} for one in log]
    assert "idle" in [one.cause for one in diagnose(still)]


# -- the direction of gradients -------------------------------------------------------------------
def test_cosines_are_those_of_the_gradients(tmp_path: Path) -> None:
    """Worked by hand on two weights: means (3, 4) and (0, 2), gradients (4, 3) and (0, -1)."""
    trainer = make_trainer(tmp_path, Lower)
    trainer.create_optimizer()
    assert trainer.optimizer is not None
    assert cosines(trainer.team, trainer.optimizer) == {}  # no step was taken
    left, right = trainer.team.trained_policies
    for name, mean, gradient in ((left, (3, 4), (4, 3)), (right, (0, 2), (0, -1))):
        for place, weight in enumerate(trainer.team.parameters(name)):
            weight.grad, before = torch.zeros_like(weight), torch.zeros_like(weight)
            if place == 1:
                weight.grad.view(-1)[:2] = torch.tensor(gradient)
                before.view(-1)[:2] = torch.tensor(mean)
            trainer.optimizer.state[weight]["exp_avg"] = before
    expected = {left: pytest.approx(24 / 25), right: pytest.approx(-1)}
    assert cosines(trainer.team, trainer.optimizer) == expected
    for weight in trainer.team.parameters(left):
        weight.grad = None
    assert [*cosines(trainer.team, trainer.optimizer)] == [right]
