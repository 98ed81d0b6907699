"""How far a sampler is from the trainer: numbers by hand, limits, and the corrected gradient."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.gradients import (
    MODES,
    assert_same,
    give,
    played,
    sampled_elsewhere,
    trainer_of,
    update,
    written_out,
)

from trainers.batch import drift
from trainers.batch.drift import (
    EXACT,
    LOW_PRECISION,
    EngineDriftError,
    correction,
    measured,
    of_first_pass,
    refusal,
)
from trainers.config import MAGRPOConfig
from trainers.engines.generate import GenerateEngine
from trainers.engines.registry import ENGINES


class Elsewhere(GenerateEngine):
    """Samples with copies that are not exact, as far as the trainer knows."""

    name = "elsewhere"
    remote = True
    exact = False


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES.added, "elsewhere", Elsewhere)


def row(policy: str, episode: int, *differences: float) -> Any:
    return policy, episode, np.array(differences)


def test_numbers_by_hand():
    rows = [row("a", 0, 0.1, -0.3), row("b", 0, 0.2), row("a", 1, 0.0), row("b", 1, -0.2, 0.2)]
    drifts = measured(rows)
    assert drifts["a"].tokens == 3
    assert drifts["a"].mean == pytest.approx(0.4 / 3)
    assert drifts["a"].largest == pytest.approx(0.3)
    assert drifts["a"].signed == pytest.approx(-0.2 / 3)
    assert drifts["a"].summed == pytest.approx((0.2 + 0.0) / 2)
    weights = [math.exp(-0.2), 1.0]
    size = sum(weights) ** 2 / (2 * sum(w * w for w in weights))
    assert drifts["a"].size == pytest.approx(size)
    # Episode 0: 0.1 - 0.3 + 0.2 = 0; episode 1: 0 - 0.2 + 0.2 = 0.
    assert drifts["joint"].summed == pytest.approx(0.0, abs=1e-12)
    assert drifts["joint"].size == pytest.approx(1.0)
    assert drifts["joint"].tokens == 6


def test_nothing_was_sampled():
    assert measured([])["joint"].size == 1.0
    assert refusal(measured([]), EXACT) is None


def test_a_first_pass_is_judged_by_the_mean_difference():
    """Measured in bfloat16: two tokens at temperature 1, and many at 0.1."""
    two, cold = measured([row("a", 0, 0.0052)]), measured([row("a", 0, 0.027, -0.027)])
    assert refusal(two, LOW_PRECISION) is not None
    assert refusal(two, of_first_pass(LOW_PRECISION, 1.0)) is None
    assert refusal(cold, of_first_pass(LOW_PRECISION, 1.0)) is not None
    assert refusal(cold, of_first_pass(LOW_PRECISION, 0.1)) is None
    assert of_first_pass(EXACT, 5.0).difference == EXACT.difference


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([row("a", 0, 2e-3, -2e-3)], "a: log-probs .* differ by 0.002 nats"),
        ([row("a", 0, float("nan"))], "differ by nan"),
        ([row("a", 0, 1e-9), row("b", 0, 1e-2)], "b: log-probs"),
        ([row("a", n, *[9e-4 * (-1) ** n] * 900) for n in range(9)], "episodes weigh so unevenly"),
        ([row("a", 0, 5e-4, 5e-4), row("b", 0, 0.0)], None),
    ],
)
def test_what_must_not_be_learned_from(rows: list[Any], reason: str | None):
    why = refusal(measured(rows), EXACT)
    if reason is None:
        assert why is None
    else:
        assert re.search(reason, why or "")


def test_a_bias_is_caught_where_each_difference_is_small():
    limits = drift.LOW_PRECISION
    for sign in (1, -1):
        reason = refusal(
            measured([row("b", 0, 0.0), row("a", 0, sign * 6e-3, sign * 6e-3)]), limits
        )
        assert f"a: the trainer's log-probs are {sign * 6e-3:+.2g} nats a token" in (reason or "")
        assert refusal(measured([row("a", 0, sign * 4e-3, sign * 4e-3)]), limits) is None
    assert refusal(measured([row("a", 0, 6e-3, -6e-3)]), limits) is None


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("token_truncate", [1.0, math.e, 3.0, 0.5]),
        ("token_mask", [1.0, math.e, 0.0, 0.5]),
    ],
)
def test_corrections(mode: str, expected: list[float]):
    batch = {
        drift.OLD: torch.tensor([[0.0, 1.0, 2.0, -math.log(2)]]),
        "sampling_per_token_logps": torch.tensor([[9.0, 0.0, 0.0, 0.0]]),
        "tool_mask": torch.tensor([[0, 1, 1, 1]]),
    }
    args: Any = SimpleNamespace(
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=None,
        vllm_importance_sampling_clip_max=3.0,
    )
    assert torch.allclose(correction(batch, args), torch.tensor([expected]))
    batch["sampling_per_token_logps"][0, 2] = float("nan")
    assert correction(batch, args).isnan().tolist() == [[False, False, True, False]]


def test_modes_of_whole_rows_are_refused(tmp_path: Path):
    whole_rows: Any = "sequence_mask"
    with pytest.raises(ValueError, match="a row is all turns of an episode"):
        MAGRPOConfig(str(tmp_path), vllm_importance_sampling_mode=whole_rows)


@pytest.mark.parametrize(
    ("mode", "loss_type"),
    [
        ("adapters", "dr_grpo"),
        ("adapters", "grpo"),
        ("shared", "dapo"),
        ("separate", "cispo"),
    ],
)
def test_the_corrected_gradient_is_the_formula(
    tmp_path: Path, mode: str, loss_type: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(drift, "EXACT", drift.Limits(9.0, 9.0, 0.0))
    changes = {"loss_type": loss_type, "rows_per_micro_batch": 3, **MODES[mode]}
    trainer = trainer_of(tmp_path, "left_0", "right_0", engine="elsewhere", **changes)
    groups, advantages = played(trainer)
    groups = sampled_elsewhere(trainer, groups)
    give(trainer, groups, advantages)
    gradient = update(trainer)
    assert_same(gradient, written_out(trainer, groups, advantages))
    plain = trainer_of(tmp_path, "left_0", "right_0", **changes)
    give(plain, groups, advantages)
    assert any(not torch.allclose(gradient[n], v, rtol=1e-2) for n, v in update(plain).items())


def test_ratios_of_one_leave_the_gradient_as_it_is(tmp_path: Path):
    gradients = []
    for engine in ("generate", "elsewhere"):
        trainer = trainer_of(tmp_path, "left_0", "right_0", engine=engine)
        groups, advantages = played(trainer)
        give(trainer, sampled_elsewhere(trainer, groups, spread=0.0), advantages)
        gradients.append(update(trainer))
    assert_same(*gradients)


def test_too_far_stops_before_a_step(tmp_path: Path):
    trainer = trainer_of(tmp_path, "left_0", "right_0", engine="elsewhere")
    groups, advantages = played(trainer)
    give(trainer, sampled_elsewhere(trainer, groups), advantages)
    with pytest.raises(EngineDriftError, match=r"update 0, engine elsewhere: .*no step was taken"):
        update(trainer)


def test_a_setting_that_names_no_engine(tmp_path: Path):
    with pytest.raises(ValueError, match="no engine 'vlm'; did you mean 'vllm'"):
        MAGRPOConfig(str(tmp_path), engine="vlm")
    with pytest.raises(ValueError, match="expected a name, or a map with one as 'name'"):
        MAGRPOConfig(str(tmp_path), engine={"urls": []})
