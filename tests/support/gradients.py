"""One update of a trainer, and its gradient by the formula."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from support import formula
from support.episodes import group, turn
from support.models import make_trainer, tiny_tokenizer
from support.toys import word_tasks

from llm_marl_envs.core.environment import Outcome, TextParallelEnv
from llm_marl_envs.core.spaces import Message

TEMPERATURE = 0.8

LENGTH = 6

MODES: dict[str, dict[str, Any]] = {
    "adapters": {"adapters": True},
    "shared": {"adapters": False},
    "separate": {"adapters": False, "weights": "separate"},
}


class Seats(TextParallelEnv):
    """Any number of seats and two turns; only its seats and lengths matter here."""

    reward_range = (0.0, 0.0)
    metadata = {"name": "seats"}  # noqa: RUF012 - as PettingZoo declares it

    def __init__(self, *agents: str) -> None:
        super().__init__(
            agents=agents,
            source=word_tasks(),
            max_turns=2,
            max_action_chars=100,
            render_mode=None,
        )

    def opening(self, task: Any) -> Mapping[str, Sequence[Message]]:
        return dict.fromkeys(self.possible_agents, (Message("user", "?"),))

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        return Outcome(reward_terms={})


def trainer_of(folder: Path, *agents: str, **changes: Any) -> Any:
    """Two tasks of four episodes, so eight rows for each seat."""
    sizes: dict[str, Any] = {
        "num_generations": 4,
        "tasks_per_update": 2,
        "max_completion_length": LENGTH,
        "temperature": TEMPERATURE,
        "rows_per_micro_batch": 8,
        "epsilon_high": 4 * formula.EPSILON + 1 if changes.get("loss_type") == "cispo" else None,
    }
    return make_trainer(folder, lambda: Seats(*agents), **{**sizes, **changes})


def played(trainer: Any, seed: int = 0) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Two groups of four episodes with one or two turns, and advantages (P, G, K) per seat."""
    rng = np.random.default_rng(seed)
    eos = tiny_tokenizer().eos_token_id
    seats = sorted(trainer.team.policy_of)

    def episode() -> tuple[Any, ...]:
        turns = []
        lengths = {seat: rng.integers(1, LENGTH, 2) for seat in seats}
        for k in range(int(rng.integers(1, 3))):
            for seat in seats:
                before = [t.response for t in turns if t.agent == seat]
                prompt = [*before[-1].prompt_ids, *before[-1].completion_ids] if before else []
                prompt += rng.integers(40, 290, int(rng.integers(1, 5))).tolist()
                action = [*rng.integers(40, 290, int(lengths[seat][k]) - 1).tolist(), eos]
                turns.append(turn(seat, k, prompt, action, 0.0))
        return tuple(turns)

    groups = [group(*(episode() for _ in range(4))) for _ in range(2)]
    return groups, {seat: rng.normal(0, 1, (2, 4, 2)) for seat in seats}


def acted_by(trainer: Any, groups: list[Any]) -> list[Any]:
    """The groups, acted by the trainer's policies, seats in the trainer's order."""

    def rename(one: Any) -> Any:
        policy = trainer.team.policy_of[one.agent]
        return dataclasses.replace(one, response=dataclasses.replace(one.response, policy=policy))

    return [
        dataclasses.replace(
            each,
            episodes=tuple(
                dataclasses.replace(
                    e, agents=tuple(trainer.team.policy_of), turns=tuple(map(rename, e.turns))
                )
                for e in each.episodes
            ),
        )
        for each in groups
    ]


def sampled_elsewhere(trainer: Any, groups: list[Any], spread: float = 0.5) -> list[Any]:
    """The groups with log-probs of an engine whose distribution is another, by `spread` nats."""
    rng = np.random.default_rng(5)

    def other(one: Any) -> Any:
        trainer.team.activate(trainer.team.policy_of[one.agent])
        said = formula.TurnOf(one.response.prompt_ids, one.response.completion_ids, 0.0)
        with torch.no_grad():
            own = formula.log_probs(trainer.model, [said], TEMPERATURE)
        sampled = tuple((own.numpy() + rng.normal(0, spread, len(own))).tolist())
        return dataclasses.replace(
            one, response=dataclasses.replace(one.response, logprobs=sampled)
        )

    return [
        dataclasses.replace(
            each,
            episodes=tuple(
                dataclasses.replace(e, turns=tuple(map(other, e.turns))) for e in each.episodes
            ),
        )
        for each in groups
    ]


def give(trainer: Any, groups: list[Any], advantages: Mapping[str, np.ndarray] | None) -> None:
    """Let the trainer play these groups; `advantages` None: as its algorithm computes them."""
    judge = trainer.collector.judge

    def judged(update: int, groups: Any) -> Any:
        inputs, computed = judge(update, groups)
        if advantages is None:
            return inputs, computed
        given = np.stack([advantages[seat] for seat in trainer.trained], axis=2)  # (P, G, A, K)
        return inputs, given[..., : computed.shape[-1]]

    trainer.collector.play = lambda update, team: acted_by(trainer, groups)
    trainer.collector.judge = judged
    trainer.current_gradient_accumulation_steps = trainer.plan.total
    trainer.model.train()
    trainer.model.zero_grad()


def gradients(trainer: Any) -> dict[str, torch.Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in trainer.model.named_parameters()
        if parameter.grad is not None
    }


def move(trainer: Any, scale: float) -> None:
    """Leave the start: another wave for each policy, so that ratios differ from 1."""
    with torch.no_grad():
        for number, policy in enumerate(sorted(trainer.team.trained_policies), start=1):
            for p in trainer.team.parameters(policy):
                wave = torch.sin(number + torch.arange(p.numel(), dtype=p.dtype)).view_as(p)
                p.add_(scale * wave)


def update(trainer: Any, moved: float = 0.0) -> dict[str, torch.Tensor]:
    """The gradient of one update, its weights moved after the rollout was scored."""
    for _ in range(trainer.plan.total):
        batch = trainer._prepare_inputs(None)
        if moved and trainer._step == 0:
            move(trainer, moved)
            trainer.team.activate(batch["policy"])
        trainer.compute_loss(trainer.model, batch).backward()
        trainer._step += 1
    return gradients(trainer)


def written_out(
    trainer: Any, groups: list[Any], advantages: Mapping[str, np.ndarray], moved: float = 0.0
) -> dict[str, torch.Tensor]:
    """The same gradient by the formula; the weights stand where `update` left them."""
    args = trainer.args
    trainer.model.zero_grad()
    by_place = [
        [{seat: advantages[seat][p][g] for seat in advantages} for g in range(len(each.episodes))]
        for p, each in enumerate(groups)
    ]
    for policy in trainer.team.trained_policies:
        seats = [seat for seat in trainer.trained if trainer.team.policy_of[seat] == policy]
        rows, costs = formula.rows_of(groups, seats, by_place), []
        if moved:
            move(trainer, -moved)
        trainer.team.activate(policy)
        with torch.no_grad():
            old = [formula.log_probs(trainer.model, row, TEMPERATURE) for row in rows]
        if moved:
            move(trainer, moved)
        trainer.team.activate(policy)
        start = old
        if trainer.beta:  # before any graph is built, because it writes the weights in place
            with trainer.team.at_start(policy), torch.no_grad():
                start = [formula.log_probs(trainer.model, row, TEMPERATURE) for row in rows]
        for row, before, first in zip(rows, old, start, strict=True):
            new = formula.log_probs(trainer.model, row, TEMPERATURE)
            per_token = torch.tensor([t.advantage for t in row for _ in t.action])
            anchor = before if moved else new.detach()
            level = args.importance_sampling_level
            cost, ratio = formula.token_costs(args.loss_type, level, new, anchor, per_token)
            if trainer.engine.remote and args.loss_type != "vespo":
                cost = cost * formula.weights_of(row, before)
            if trainer.beta:
                d = first - new
                cost = cost + trainer.beta * ratio * (torch.exp(d) - d - 1)
            costs.append(cost)
        formula.together(args.loss_type, costs, LENGTH).backward()
    return gradients(trainer)


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert expected.keys() == found.keys()
    assert any(float(value.abs().max()) > 1e-4 for value in expected.values())
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=2e-7, rtol=2e-4), name


def assert_formula(trainer: Any, moved: float = 0.0, seed: int = 0) -> dict[str, torch.Tensor]:
    groups, advantages = played(trainer, seed)
    give(trainer, groups, advantages)
    found = update(trainer, moved)
    if trainer.args.gradient_checkpointing:
        # The formula runs all forwards before its backward, which PEFT cannot.
        trainer.model.gradient_checkpointing_disable()
    assert_same(found, written_out(trainer, groups, advantages, moved))
    return found
