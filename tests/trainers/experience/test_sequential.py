"""Policies that learn one after the other: the order, the ratios, the steps, what is refused."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import formula
from support.gradients import (
    TEMPERATURE,
    acted_by,
    assert_same,
    give,
    gradients,
    played,
    trainer_of,
    written_out,
)
from support.models import make_trainer, weights
from support.toys import Lower, Relay
from transformers import TrainerCallback

from trainers.config import MAGRPOConfig
from trainers.experience.sequential import drawn_order, weigh

pytestmark = pytest.mark.full  # `make test-all` runs it

SEATS = ("a_0", "b_0", "c_0")
MODES: dict[str, dict[str, Any]] = {
    "adapters": {"adapters": True},
    "separate": {"adapters": False, "weights": "separate"},
}


def in_sequence(folder: Path, *seats: str, clip: float | None = None, **changes: Any) -> Any:
    return trainer_of(folder, *seats, schedules={"sequential": {"clip": clip}}, **changes)


def one_pass(trainer: Any) -> str:
    """All micro-batches of the next step of the optimiser; returns the policy that learns."""
    trainer.model.zero_grad()
    policies = set()
    for _ in range(trainer.plan.total):
        batch = trainer._prepare_inputs(None)
        policies.add(batch["policy"])
        trainer.compute_loss(trainer.model, batch).backward()
        trainer._step += 1
    (policy,) = policies
    return policy


def moved(trainer: Any, policy: str, scale: float) -> None:
    """Another wave than any other policy's."""
    with torch.no_grad():
        for p in trainer.team.parameters(policy):
            wave = torch.sin(len(policy) + ord(policy[0]) + torch.arange(p.numel()))
            p.add_(scale * wave.view_as(p))


def said(trainer: Any, groups: list[Any]) -> dict[tuple[str, int, int, int], float]:
    """(agent, p, g, k) -> log-prob of all its tokens, by the formula."""
    by_policy = {}
    for p, group in enumerate(acted_by(trainer, groups)):
        for g, episode in enumerate(group.episodes):
            for turn in episode.turns:
                trainer.team.activate(trainer.team.policy_of[turn.agent])
                row = [formula.TurnOf(turn.response.prompt_ids, turn.response.completion_ids, 0.0)]
                with torch.no_grad():
                    total = formula.log_probs(trainer.model, row, TEMPERATURE).sum()
                by_policy[turn.agent, p, g, turn.index] = float(total)
    return by_policy


@pytest.mark.parametrize(
    ("mode", "clip", "rows"),
    [
        ("adapters", None, 3),
        ("separate", 0.05, 8),
        pytest.param("separate", None, 3, marks=pytest.mark.long),
    ],
)
def test_a_later_policy_learns_from_advantages_times_the_ratios_of_those_before(
    tmp_path: Path, mode: str, clip: float | None, rows: int
):
    """Three policies: the gradient of each is that of its weighed advantages, by the formula."""
    trainer = in_sequence(tmp_path, *SEATS, clip=clip, rows_per_micro_batch=rows, **MODES[mode])
    groups, advantages = played(trainer)
    give(trainer, groups, advantages)
    old, done = said(trainer, groups), []
    for _ in SEATS:
        learner = one_pass(trainer)
        gradient = gradients(trainer)
        new, weighed = said(trainer, groups), {s: a.copy() for s, a in advantages.items()}
        for p, g, k in np.ndindex(weighed[learner].shape):
            if (learner, p, g, k) in old:
                change = sum(new[j, p, g, k] - old[j, p, g, k] for j in done)
                ratio = float(np.exp(change))
                if clip is not None:
                    ratio = min(max(ratio, 1 - clip), 1 + clip)
                assert (abs(ratio - 1) > 1e-6) == bool(done)
                weighed[learner][p, g, k] *= ratio
        expected = written_out(trainer, groups, weighed)
        mine = {id(parameter) for parameter in trainer.team.parameters(learner)}
        names = [n for n, parameter in trainer.model.named_parameters() if id(parameter) in mine]
        own = {name: expected[name] for name in names}
        assert_same(gradient, own)
        done.append(learner)
        moved(trainer, learner, 2e-2 if mode == "adapters" else 2e-3)
    assert done == drawn_order(trainer.args.seed, 0, SEATS)


def test_the_order_is_drawn_for_each_update_and_all_orders_come():
    orders = [tuple(drawn_order(5, update, ["b", "a", "c"])) for update in range(300)]
    assert orders == [tuple(drawn_order(5, update, ["c", "b", "a"])) for update in range(300)]
    counts = Counter(orders)
    assert len(counts) == 6
    assert min(counts.values()) > 25  # of 50
    assert orders != [tuple(drawn_order(6, update, ["a", "b", "c"])) for update in range(300)]


def test_a_ratio_weighs_the_tokens_of_its_step_alone():
    batch = {
        "episodes": [(0, 1), (-1, -1)],
        "steps": torch.tensor([[0, -1, 2, 2], [-1, -1, -1, -1]]),
        "tool_mask": torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0]]),
        "advantages": torch.tensor([[1.0, 0.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]]),
    }
    ratios = {(0, 1, 2): float(np.log(3.0)), (0, 0, 0): 5.0, (-1, -1, -1): 5.0}
    largest = weigh([batch], ratios, None)
    assert batch["advantages"][0].tolist() == pytest.approx([1.0, 0.0, 6.0, 6.0])
    assert not batch["advantages"][1].any()
    assert largest == pytest.approx(3.0)


@pytest.mark.parametrize("mode", MODES)
def test_each_policy_is_stepped_alone_once_in_a_rollout(tmp_path: Path, mode: str):
    states: list[dict[str, torch.Tensor]] = []
    rollouts: list[int] = []

    class Watch(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            states.append(weights(trainer))

    trainer = make_trainer(
        tmp_path,
        Lower,
        schedules={"sequential": {}},
        num_iterations=2,
        max_steps=4,
        callbacks=[Watch()],
        **MODES[mode],
    )
    states.append(weights(trainer))
    play = trainer.collector.play
    trainer.collector.play = lambda update, team: rollouts.append(update) or play(update, team)
    trainer.train()
    order = drawn_order(trainer.args.seed, 0, ["left_0", "right_0"])
    stepped = [
        [p for p in order if not torch.equal(before[p], after[p])]
        for before, after in itertools.pairwise(states)
    ]
    assert stepped == [[order[0]], [order[0]], [order[1]], [order[1]]]
    assert rollouts == [0]
    logged = [log for log in trainer.state.log_history if "loss" in log]
    assert ["schedule/ratio" in log for log in logged] == [False, False, True, False]
    assert logged[2]["schedule/ratio"] > 1
    for log, learner in zip(logged, [order[0]] * 2 + [order[1]] * 2, strict=True):
        assert [p for p in order if f"{p}/idle" in log] == [learner]
        assert [p for p in order if f"{p}/grad_norm" in log] == [learner]


@pytest.mark.parametrize(
    "steps", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)]
)
def test_a_run_that_stopped_between_two_policies_goes_on_bit_for_bit(tmp_path: Path, steps: int):
    plan: dict[str, Any] = {"max_steps": 4, "save_strategy": "steps", "save_steps": 1}
    plan |= {"schedules": {"sequential": {}}}
    unbroken = make_trainer(tmp_path, Lower, **plan)
    unbroken.train()
    resumed = make_trainer(tmp_path, Lower, **plan)
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{steps}"))
    for policy, value in weights(resumed).items():
        assert torch.equal(value, weights(unbroken)[policy])


@pytest.mark.parametrize(
    ("env", "changes", "words"),
    [
        (Lower, {"adapters": False}, "each with a policy of its own"),
        (Lower, {"frozen": ["left_0"]}, "expected two seats or more"),
        (Relay, {}, "act one after the other in Relay, so nobody acts beside anybody"),
        (Lower, {"algorithm": "c3_sim"}, "trains on parts of episodes"),
        (Lower, {"mask_truncated_completions": True}, "mask_truncated_completions leaves turns"),
        (Lower, {"schedules": {"sequential": {}, "in_turn": {}}}, "in_turn says who learns, too"),
    ],
    ids=str,
)
def test_where_ratios_would_be_wrong_it_is_refused(
    tmp_path: Path, env: Any, changes: dict[str, Any], words: str
):
    with pytest.raises(ValueError, match=f"schedules, sequential: .*{words}"):
        make_trainer(tmp_path, env, **{"schedules": {"sequential": {}}, **changes})


@pytest.mark.parametrize("clip", [0.0, 1.5])
def test_a_clip_out_of_range_is_refused(clip: float):
    with pytest.raises(ValueError, match="expected a number above 0, at most 1"):
        MAGRPOConfig("runs/none", schedules={"sequential": {"clip": clip}})
