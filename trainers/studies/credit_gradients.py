"""Inner products of the gradients of messages: what cosines between updates are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from llm_marl_envs.core.records import Turn
from trainers.policies.token_policy import TokenPolicy
from trainers.studies.credit_audit import Gram


def gram_of(policy: TokenPolicy) -> Gram:
    """Inner products of the gradients of log pi, by a team's weights.

    As many gradients as a policy has messages are held in memory at once.

    Raises:
        ValueError: greedy policies, whose log-probs are not those that they act by.
    """
    if policy.temperature == 0:
        raise ValueError("a greedy team (temperature 0) has no gradient; sample at 1")

    def gram(turns: Sequence[Turn]) -> Mapping[str, tuple[list[int], np.ndarray]]:
        grams = {}
        for name in policy.team.policies:
            places = [i for i, turn in enumerate(turns) if turn.response.policy == name]
            if places:
                rows = torch.stack([_gradient(policy, name, turns[i]) for i in places]).double()
                grams[name] = places, (rows @ rows.T).numpy()
        return grams

    return gram


def _gradient(policy: TokenPolicy, name: str, turn: Turn) -> torch.Tensor:
    """The derivative of the log-prob of a message by the weights, flat, on the CPU."""
    team, response = policy.team, turn.response
    prompt, sampled = response.prompt_ids or (), response.completion_ids or ()
    team.activate(name)
    ids = torch.tensor([[*prompt, *sampled]], device=team.device)
    with team.evaluating(), torch.enable_grad():
        logits = team.model_of(name)(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        chosen = torch.log_softmax(logits.float() / policy.temperature, -1)
        chance = chosen.gather(1, ids[0, len(prompt) :, None]).sum()
        parameters = team.parameters(name)
        parts = torch.autograd.grad(chance, parameters, allow_unused=True)
    return torch.cat(
        [
            (torch.zeros_like(p) if g is None else g).flatten().float().cpu()
            for p, g in zip(parameters, parts, strict=True)
        ]
    )
