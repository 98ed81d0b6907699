"""The gradient of one update equals the formula written out in `support/formula.py`.

Episodes are made by hand, of unequal lengths, so that advantages and masks are known without the
trainer. The first part lets the real algorithm compute the advantages of a drawn case; the rest
gives the trainer advantages and looks at the gradient alone.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.crossed import in_pairs
from support.episodes import group, turn
from support.gradients import (
    LENGTH,
    MODES,
    TEMPERATURE,
    assert_formula,
    assert_same,
    give,
    move,
    played,
    trainer_of,
    update,
    written_out,
)
from support.models import make_trainer, tiny_tokenizer
from support.toys import WordPair

from trainers.batch import prefixes

pytestmark = pytest.mark.full  # `make test-all` runs it


@pytest.fixture(autouse=True)
def any_saving_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows here are short; what they begin with is shared all the same."""
    monkeypatch.setattr(prefixes, "CALL", 0)
    monkeypatch.setattr(prefixes, "APART", 1)


LOSSES = ["dr_grpo", "grpo", "luspo", "sapo", "dapo", "cispo", "vespo"]


# -- a case drawn by hand, advantages and all ------------------------------------------------------
def drawn() -> Any:
    """Rewards 1 then 3 for the first episode; 2 and nothing more for the second."""
    eos = tiny_tokenizer().eos_token_id
    first = (
        turn("left_0", 0, [65, 66], [70, 71, eos], 1.0),
        turn("right_0", 0, [67], [80, eos], 1.0),
        turn("left_0", 1, [65, 66, 70, 71, eos, 68], [72, eos], 3.0),
        turn("right_0", 1, [67, 80, eos, 69, 70], [81, 82], 3.0),
    )
    second = (
        turn("left_0", 0, [65, 66], [73, eos], 2.0),
        turn("right_0", 0, [67], [83, 84, 85, eos], 2.0),
    )
    return group(first, second)


# Turn 0: returns 4 and 2, each compared with the other. Turn 1: the first episode is alone; its
# baseline is the running mean, 0 so far. (P, G, K) per seat; the second episode has no turn 1.
DRAWN = {seat: np.array([[[2.0, 3.0], [-2.0, 0.0]]]) for seat in ("left_0", "right_0")}
# With the paper's mean, 3, in the first turn.
DRAWN_MEAN = {seat: np.array([[[1.0, 3.0], [-1.0, 0.0]]]) for seat in DRAWN}


def drawn_trainer(folder: Path, **changes: Any) -> Any:
    sizes = {"num_generations": 2, "tasks_per_update": 1, "max_completion_length": LENGTH}
    return make_trainer(folder, WordPair, temperature=TEMPERATURE, **{**sizes, **changes})


@pytest.mark.parametrize("mode", MODES)
def test_a_drawn_update_from_its_rewards(tmp_path: Path, mode: str):
    trainer = drawn_trainer(tmp_path, rows_per_micro_batch=1, **MODES[mode])
    give(trainer, [drawn()], None)
    assert_same(update(trainer), written_out(trainer, [drawn()], DRAWN))


def test_a_drawn_update_with_the_papers_mean(tmp_path: Path):
    trainer = drawn_trainer(tmp_path, baseline="mean")
    give(trainer, [drawn()], None)
    assert_same(update(trainer), written_out(trainer, [drawn()], DRAWN_MEAN))


def test_which_tokens_get_a_gradient(tmp_path: Path):
    """The EOS that an agent sampled does; environment tokens, padding and prompts do not."""
    trainer = drawn_trainer(tmp_path, rows_per_micro_batch=2)
    give(trainer, [drawn()], None)
    batch = trainer._prepare_inputs(None)  # left_0: both episodes
    seen: dict[str, torch.Tensor] = {}
    original = trainer._get_per_token_logps_and_entropies

    def spy(*args: Any, **kwargs: Any) -> Any:
        logprobs, *rest = original(*args, **kwargs)
        logprobs.retain_grad()
        seen["logprobs"] = logprobs
        return logprobs, *rest

    trainer._get_per_token_logps_and_entropies = spy
    trainer.compute_loss(trainer.model, batch).backward()
    weight = seen["logprobs"].grad
    assert weight is not None
    #                     70     71     EOS    (env)  72    EOS
    assert weight[0].ne(0).tolist() == [True, True, True, False, True, True]
    #                     73     EOS    padding
    assert weight[1].ne(0).tolist() == [True, True, False, False, False, False]
    # A = 2 over 2 trajectories of 6 tokens at most, times -1.
    assert weight[0, 2].item() == pytest.approx(-2.0 / (2 * LENGTH))
    assert weight[0, 5].item() == pytest.approx(-3.0 / (2 * LENGTH))


# -- every loss, in every mode ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "loss_type", "checkpointing"), in_pairs(MODES, LOSSES, [False, True])
)
def test_gradient_is_the_formula(tmp_path: Path, mode: str, loss_type: str, checkpointing: bool):
    trainer = trainer_of(
        tmp_path,
        "left_0",
        "right_0",
        loss_type=loss_type,
        rows_per_micro_batch=3,
        gradient_checkpointing=checkpointing,
        **MODES[mode],
    )
    if checkpointing:  # what the training loop does first
        trainer.model.gradient_checkpointing_enable()
    assert_formula(trainer)


@pytest.mark.parametrize(
    ("mode", "loss_type", "level"), in_pairs(MODES, LOSSES, ["token", "sequence"])
)
def test_gradient_off_policy_is_the_formula(tmp_path: Path, mode: str, loss_type: str, level: str):
    """The second iteration over one rollout: weights have moved, ratios are not 1."""
    trainer = trainer_of(
        tmp_path,
        "left_0",
        "right_0",
        loss_type=loss_type,
        importance_sampling_level=level,
        num_iterations=2,
        **MODES[mode],
    )
    found = assert_formula(trainer, moved=MOVE[mode])
    at_one = trainer_of(tmp_path, "left_0", "right_0", loss_type=loss_type, **MODES[mode])
    move(at_one, MOVE[mode])
    groups, advantages = played(at_one)
    give(at_one, groups, advantages)
    on_policy = update(at_one)
    assert any(not torch.allclose(found[n], v, rtol=1e-2) for n, v in on_policy.items())


# How far the weights move between the iterations: ratios of about 0.7 to 1.4, so that some tokens
# are clipped and most are not.
MOVE = {"adapters": 0.3, "shared": 0.03, "separate": 0.03}


@pytest.mark.parametrize("mode", MODES)
def test_some_tokens_are_clipped_and_some_not(tmp_path: Path, mode: str):
    trainer = trainer_of(tmp_path, "left_0", "right_0", num_iterations=2, **MODES[mode])
    groups, advantages = played(trainer)
    give(trainer, groups, advantages)
    update(trainer, MOVE[mode])
    clipped = trainer._metrics["train"]["clip_ratio/region_mean"]
    assert 0.02 < sum(clipped) / len(clipped) < 0.6


@pytest.mark.parametrize(
    ("mode", "loss_type", "iterations"), in_pairs(MODES, ["dr_grpo", "grpo", "dapo"], [1, 2])
)
def test_gradient_with_kl_is_the_formula(
    tmp_path: Path, mode: str, loss_type: str, iterations: int
):
    """Each policy towards its own start, which the weights have left."""
    trainer = trainer_of(
        tmp_path,
        "left_0",
        "right_0",
        loss_type=loss_type,
        beta=0.3,
        num_iterations=iterations,
        rows_per_micro_batch=3,
        **MODES[mode],
    )
    move(trainer, MOVE[mode])
    found = assert_formula(trainer, moved=MOVE[mode] if iterations == 2 else 0.0)
    groups, advantages = played(trainer)
    trainer.beta = 0.0
    without = written_out(trainer, groups, advantages, MOVE[mode] if iterations == 2 else 0.0)
    assert any(not torch.allclose(found[n], v, atol=1e-6) for n, v in without.items())


# -- what must not matter --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rows", "sizes", "loss_type"),
    [(5, [5, 3], loss_type) for loss_type in LOSSES]
    + [
        (rows, sizes, loss_type)
        for rows, sizes in ((1, [1] * 8), (4, [4, 4]), (64, [8]))
        for loss_type in ("grpo", "dapo")
    ],
)
def test_the_split_into_micro_batches(tmp_path: Path, rows: int, sizes: list[int], loss_type: str):
    trainer = trainer_of(
        tmp_path, "left_0", "right_0", loss_type=loss_type, rows_per_micro_batch=rows
    )
    assert_formula(trainer)
    assert [len(b["labels"]) for b in trainer._buffered_inputs] == sizes * 2


@pytest.mark.parametrize("loss_type", LOSSES)
def test_the_length_of_padding(tmp_path: Path, loss_type: str):
    trainer = trainer_of(tmp_path, "left_0", "right_0", loss_type=loss_type)
    plain = assert_formula(trainer)
    padded = trainer_of(tmp_path, "left_0", "right_0", loss_type=loss_type)
    new_batches = padded._new_batches

    def longer() -> list[dict[str, Any]]:
        batches = new_batches()
        for batch in batches:
            for name, value in batch.items():
                matrix = isinstance(value, torch.Tensor) and value.dim() == 2
                if matrix and not name.startswith("prompt"):
                    batch[name] = torch.nn.functional.pad(value, (0, 7))
        return batches

    padded._new_batches = longer
    groups, advantages = played(padded)
    give(padded, groups, advantages)
    assert_same(update(padded), plain)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("agents", [("a_0",), ("a_0", "b_0"), ("a_0", "b_0", "c_0", "d_0")])
def test_the_number_of_agents(tmp_path: Path, mode: str, agents: tuple[str, ...]):
    trainer = trainer_of(tmp_path, *agents, rows_per_micro_batch=3, **MODES[mode])
    assert_formula(trainer)


@pytest.mark.parametrize("mode", ["adapters", "separate"])
def test_other_agents_leave_a_policy_s_gradient_alone(tmp_path: Path, mode: str):
    """The gradient of `a_0` is the same alone and beside two others."""
    alone = trainer_of(tmp_path, "a_0", **MODES[mode])
    groups, advantages = played(trainer_of(tmp_path, "a_0", "b_0", "c_0"))
    give(alone, groups, advantages)
    alone.collector.play = lambda update, team: groups
    beside = trainer_of(tmp_path, "a_0", "b_0", "c_0", **MODES[mode])
    give(beside, groups, advantages)
    own, all_of_them = update(alone), update(beside)
    assert_same({name: all_of_them[name] for name in own}, own)


@pytest.mark.parametrize("mode", MODES)
def test_the_order_of_agents(tmp_path: Path, mode: str):
    found = [
        assert_formula(trainer_of(tmp_path, *agents, **MODES[mode]))
        for agents in (("a_0", "b_0", "c_0"), ("c_0", "a_0", "b_0"))
    ]
    assert_same(found[0], found[1])


# -- who is trained --------------------------------------------------------------------------------
@pytest.mark.parametrize("frozen", [["a_0"], ["b_0"], ["a_0", "c_0"]], ids=["a", "b", "a and c"])
@pytest.mark.parametrize("mode", MODES)
def test_frozen_seats_get_no_gradient(tmp_path: Path, mode: str, frozen: list[str]):
    trainer = trainer_of(tmp_path, "a_0", "b_0", "c_0", frozen=frozen, **MODES[mode])
    found = assert_formula(trainer)
    if mode == "shared":
        return
    assert not any(seat in name for name in found for seat in frozen)
    for name, parameter in trainer.model.named_parameters():
        if any(seat in name for seat in frozen):
            assert not parameter.requires_grad, name


@pytest.mark.parametrize("frozen", [None, ["b_0"], ["c_0"]])
@pytest.mark.parametrize("mode", ["adapters", "separate"])
def test_two_seats_on_one_policy(tmp_path: Path, mode: str, frozen: list[str] | None):
    policies = {"a_0": "both", "b_0": "both", "c_0": "other"}
    trainer = trainer_of(
        tmp_path, "a_0", "b_0", "c_0", policies=policies, frozen=frozen, **MODES[mode]
    )
    assert_formula(trainer)
    assert trainer.team.trained_policies == (["both"] if frozen == ["c_0"] else ["both", "other"])


@pytest.mark.parametrize("mode", MODES)
def test_turns_cut_at_the_limit_can_be_left_out(tmp_path: Path, mode: str):
    """`mask_truncated_completions`: they stay in the context and weigh nothing."""
    trainer = trainer_of(
        tmp_path, "left_0", "right_0", mask_truncated_completions=True, **MODES[mode]
    )
    groups, advantages = played(trainer)

    def cut_second(one: Any) -> Any:
        response = dataclasses.replace(one.response, cut=one.index == 1)
        return dataclasses.replace(one, response=response)

    cut = [
        dataclasses.replace(
            each,
            episodes=tuple(
                dataclasses.replace(e, turns=tuple(map(cut_second, e.turns))) for e in each.episodes
            ),
        )
        for each in groups
    ]
    first_only = [
        dataclasses.replace(
            each,
            episodes=tuple(
                dataclasses.replace(e, turns=tuple(t for t in e.turns if t.index == 0))
                for e in each.episodes
            ),
        )
        for each in groups
    ]
    give(trainer, cut, advantages)
    found = update(trainer)
    assert_same(found, written_out(trainer, first_only, advantages))
