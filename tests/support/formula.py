"""The training objective written out: no TRL, no padding, no batches.

One row is all turns of one agent in one episode. With ratio r = pi / pi_old of a token (or, at
sequence level, the geometric mean of it over the row) and the token's advantage A, a token costs

    grpo, dr_grpo, dapo, luspo   -min(r A, clip(r, 1 - eps_low, 1 + eps_high) A)
    cispo   -stopped(min(r, eps_high)) A log pi                        (arXiv 2506.13585)
    sapo    -4 / tau sigmoid(tau (r - 1)) A, tau by A's sign           (arXiv 2511.20347)
    vespo   -stopped(e^lambda w^k e^(-lambda w)) A log pi, w the product of r over the row, k and
            lambda by A's sign                                         (arXiv 2602.10693)

plus beta * r * (e^d - d - 1), d = log pi_start - log pi (Schulman's k3, weighed as DeepSeek-V3.2,
arXiv 2512.02556, does). Where another engine sampled, the first term is multiplied by
min(pi_old / q, 3), q the chance that it gave the token. Rows are put together by `together`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from llm_marl_envs.core.records import EpisodeGroup

EPSILON = 0.2
SAPO = (1.0, 1.05)  # tau for positive, negative advantages: TRL's defaults
VESPO = ((2.0, 3.0), (3.0, 2.0))  # (k, lambda) for the same


@dataclass(frozen=True)
class TurnOf:
    """One turn of a row: its token ids, the advantage of each and the sampler's log-probs."""

    prompt: tuple[int, ...]
    action: tuple[int, ...]
    advantage: float
    sampled: tuple[float, ...] = ()


def rows_of(groups: list[EpisodeGroup], seats: list[str], advantages: Any) -> list[list[TurnOf]]:
    """The rows of the seats that one policy plays; `advantages[p][g][seat][turn]`."""
    return [
        [
            TurnOf(
                turn.response.prompt_ids or (),
                turn.response.completion_ids or (),
                float(advantages[p][g][seat][turn.index]),
                turn.response.logprobs or (),
            )
            for turn in episode.trajectory(seat)
        ]
        for p, group in enumerate(groups)
        for g, episode in enumerate(group.episodes)
        for seat in seats
    ]


def log_probs(model: Any, row: list[TurnOf], temperature: float) -> torch.Tensor:
    """Log-probs of the agent's own tokens, (tokens of the row,), one forward pass per turn."""
    found = []
    for turn in row:
        ids = torch.tensor([[*turn.prompt, *turn.action]])
        logits = model(input_ids=ids).logits[0, len(turn.prompt) - 1 : -1] / temperature
        chosen = torch.tensor(turn.action)[:, None]
        found.append(torch.log_softmax(logits, -1).gather(1, chosen)[:, 0])
    return torch.cat(found)


def token_costs(
    loss_type: str, level: str, new: torch.Tensor, old: torch.Tensor, advantage: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What each token of a row costs, and the ratio that a KL term is weighed with."""
    ratio = torch.exp(new - old)
    if level == "sequence":
        ratio = torch.exp((new - old).mean()).expand_as(new)
    if loss_type == "cispo":
        return -ratio.clamp(max=1 + 4 * EPSILON).detach() * advantage * new, ratio
    if loss_type == "sapo":
        tau = torch.where(advantage > 0, SAPO[0], SAPO[1])
        return -4 / tau * torch.sigmoid(tau * (ratio - 1)) * advantage, ratio
    if loss_type == "vespo":
        whole = torch.exp((new - old).sum()).detach()
        k = torch.where(advantage >= 0, VESPO[0][0], VESPO[1][0])
        decay = torch.where(advantage >= 0, VESPO[0][1], VESPO[1][1])
        weight = torch.exp(decay) * whole**k * torch.exp(-decay * whole)
        return -weight * advantage * new, ratio
    clipped = ratio.clamp(1 - EPSILON, 1 + EPSILON)
    return -torch.minimum(ratio * advantage, clipped * advantage), ratio


def weights_of(row: list[TurnOf], old: torch.Tensor, most: float = 3.0) -> torch.Tensor:
    """min(pi_old / q, most) of each of the row's tokens."""
    return (old - torch.tensor([one for turn in row for one in turn.sampled])).exp().clamp(max=most)


def together(loss_type: str, rows: list[torch.Tensor], longest: int) -> torch.Tensor:
    """The loss of one policy from what the tokens of its rows cost."""
    if loss_type == "dr_grpo":
        return torch.stack([row.sum() for row in rows]).sum() / (len(rows) * longest)
    if loss_type == "luspo":
        return torch.stack([row.sum() for row in rows]).mean()
    if loss_type in ("grpo", "sapo"):
        return torch.stack([row.mean() for row in rows]).mean()
    return torch.cat(rows).sum() / sum(len(row) for row in rows)
