"""The gradient of an update that was really played, by its own records.

Every loss moves the weights by the sum over recorded own tokens of

    -(weight x advantage x ratio + beta x ratio x d) x grad log pi,   d = log pi_start - log pi

divided by the planned trajectories of the policy times the longest action (`dr_grpo`). The ratio is
that of the present weights to those that sampled: 1 in the first iteration, 0 in the first term
where it is clipped. Log-probs come of one plain forward pass per turn: no rows, no padding, no
shared prompts, no micro-batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from support.formula import EPSILON, TurnOf, log_probs
from support.gradients import gradients, move


def watch(trainer: Any) -> dict[str, Any]:
    """Keep what the next update is made of: groups, advantages, weights, what is trained on."""
    kept: dict[str, Any] = {}
    play, weigh = trainer._experience, trainer.algorithm.weights

    def experience() -> Any:
        kept["groups"], inputs, kept["advantages"] = played = play()
        kept["alive"] = inputs.alive
        return played

    def weights(inputs: Any) -> Any:
        kept["weights"] = found = weigh(inputs)
        return found

    trainer._experience, trainer.algorithm.weights = experience, weights
    trainer.algorithm.extra_loss = lambda *_: None  # a critic's own
    trainer.current_gradient_accumulation_steps = trainer.plan.total
    trainer.model.train()
    return kept


def own_turns(trainer: Any, kept: dict[str, Any]) -> list[tuple[Any, float]]:
    """(turn, weight x advantage) of all that is trained on."""
    groups = kept["groups"]
    keep = kept["alive"] & (kept["weights"] > 0)
    keep &= trainer.collector.schedules.trained_on(0, groups, trainer.trained)
    judged = kept["weights"] * kept["advantages"]
    return [
        (turn, float(judged[place]))
        for p, group in enumerate(groups)
        for g, episode in group.living
        for turn in episode.turns
        if turn.agent in trainer.trained
        and keep[place := (p, g, trainer.trained.index(turn.agent), turn.index)]
    ]


def by_records(trainer: Any, kept: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The gradient of the update that `kept` holds, at the weights of now."""
    trainer.model.zero_grad()
    temperature, longest = trainer.args.temperature, trainer.args.max_completion_length
    turns = own_turns(trainer, kept)
    for policy in trainer.team.trained_policies:
        mine = [(turn.response, judged) for turn, judged in turns if turn.response.policy == policy]
        rows = [[TurnOf(r.prompt_ids, r.completion_ids, judged)] for r, judged in mine]
        trainer.team.activate(policy)
        start: list[Any] = [None] * len(rows)
        if trainer.beta:
            with trainer.team.at_start(policy), torch.no_grad():
                start = [log_probs(trainer.model, row, temperature) for row in rows]
        trainer.team.activate(policy)
        for (response, judged), row, first in zip(mine, rows, start, strict=True):
            new = log_probs(trainer.model, row, temperature)
            now = new.detach()
            ratio = (now - torch.tensor(response.logprobs)).exp()
            clipped = (ratio - 1) * np.sign(judged) > EPSILON
            moves = torch.where(clipped, 0.0, judged * ratio)
            if trainer.beta:
                moves = moves + trainer.beta * ratio * (first - now)
            (-(moves * new).sum() / (trainer.plan.trajectories[policy] * longest)).backward()
    return gradients(trainer)


def played(trainer: Any, iteration: int, moved: float) -> dict[str, torch.Tensor]:
    """The gradient of an iteration over the first update, the weights moved before a later one."""
    per_policy = trainer.plan.total * trainer.args.num_iterations
    for step in range(trainer._per_rollout):
        within, trainer._step = step % per_policy // trainer.plan.total, step
        if step and within != iteration:
            continue
        batch = trainer._prepare_inputs(None)
        if step == 0 and iteration:
            move(trainer, moved)
            continue
        trainer.team.activate(batch["policy"])
        trainer.compute_loss(trainer.model, batch).backward()
    return gradients(trainer)


def error(trainer: Any, iteration: int = 0, moved: float = 0.0) -> float:
    """Distance of an update's gradient from that by its records, as a share of its length."""
    kept = watch(trainer)
    found = played(trainer, iteration, moved)
    expected = by_records(trainer, kept)
    nothing = torch.zeros(())  # of a policy that rests
    apart = [
        found.get(name, nothing) - expected.get(name, nothing) for name in {**found, **expected}
    ]
    length = float(torch.cat([one.flatten() for one in expected.values()]).norm())
    assert length > 1e-6
    return float(torch.cat([one.flatten() for one in apart]).norm()) / length
