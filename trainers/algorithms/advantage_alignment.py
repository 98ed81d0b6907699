r"""Advantage alignment: shape the others' learning in a dilemma (arXiv 2406.14662, 2511.19405).

Formula: with A_i,t the advantage of `magrpo` from agent i's own returns,

    B_i,t = A_i,t + weight * gamma * (sum over k < t of gamma^(t - k) * D_i,k) * sum over j of A_j,t
    D_i,k = r_i,k + gamma * V_i,k+1 - V_i,k

where j are the other trained agents and gamma is `discount`. Where the past went better than
expected for agent i, what helps the others now is made likelier; where it went worse, less likely:
a reward for kindness that was answered, and the other way round.

V_i,k for k > 0 is what agent i was paid from turn k on in *another* ending of the same history:
each planned episode is played once more from each of its turns after the first, all agents asked
anew. V_i,0 is the mean return of the other planned episodes.

Why other endings: the papers multiply true advantages, that of what was done at turn k and that of
what was done at turn t > k. Two estimates from one episode hold the same later rewards. The mean of
their product is the product of the means plus a covariance, and that is no small thing: see the
page. D_i,k holds nothing that came of turn t, so here the mean of the product is the product of the
means. From one ending alone no estimate of it exists; it takes two samples of one history, or a
critic, whose error would be a bias.

Comparison group: as in `magrpo`, the planned episodes; the second paper compares the rollouts of
one environment seed.

Weight: 1 for the turns of planned episodes. What is said in the other endings weighs 0.

Cost: G K episodes for each task with K turns; a further one costs what comes after its point. So
G K (K + 1) / 2 turns of all agents in place of G K.

Degenerate case: with one turn (K = 1) or weight=0 it is independent learning, `magrpo` with
credit="own", and plays no further endings.

What it needs: rewards of their own (credit="own"), two trained agents at least, and turns that all
take at the same time, for turn t of one agent must be turn t of the others.

Deviations from the papers:

1. Any number of agents; the second paper's code has two. With more, the others' advantages are
   added up.
2. The first paper's code estimates advantages by a critic with GAE (trace 0.95), the second's from
   the group's returns; both take the two factors from one episode, but for an option of the second
   that plays alternative actions. See "Why other endings".
3. What chance does after turn k counts as if it had been done at turn k: D_i,k is right on average
   only if what follows a joint action is certain. With `chance: group` it is, within a group: there
   the product is that of one deal, and the mean over the deals is of products.
4. The sum over the past is carried from turn to turn. The released code divides by gamma^k, which
   overflows in long episodes and has no value at gamma = 0.
5. Where another ending failed, the turns from there on have A_i,t alone, counted in
   `algorithm/unshaped`.
6. Clipping, signs, the division by t, the forced first turn and annealing are left out, and so is
   the buffer of past opponents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from llm_marl_envs.core.options import Options
from llm_marl_envs.core.records import Branch, EpisodeGroup
from trainers.algorithms.base import AdvantageInputs, Budget, Form, acts_at_once, in_turn
from trainers.algorithms.magrpo import MAGRPO
from trainers.algorithms.relations import Kind, Relation


class AlignmentSettings(Options):
    """Settings of `advantage_alignment`."""

    within = "advantage_alignment"
    weight: float = Field(
        default=0.5,
        ge=0,
        allow_inf_nan=False,
        description="of the others' advantages, beta in the papers. The second paper has 0.5 "
        "(iterated prisoner's dilemma) and 2.0 (a negotiation)",
    )


class AdvantageAlignment(MAGRPO):
    """Own advantages and, by what was earned before, the others'; see the module's docstring."""

    name = "advantage_alignment"
    reads = ()
    Settings = AlignmentSettings
    settings: AlignmentSettings
    branching = True
    declares = (
        Relation(
            kind=Kind.ALIAS,
            of="magrpo with credit='own' (independent learning)",
            when="one turn (K = 1), or weight=0",
        ),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient of each agent's own return",
            when="several turns and weight > 0",
            named="objective: the own return after the others have learned (opponent shaping); "
            "helping others counts by what was earned before, both as true advantages where what "
            "follows a joint action is certain",
        ),
        Relation(
            kind=Kind.SCHEDULE,
            of="magrpo",
            when="several turns and weight > 0",
            named="another ending of each episode from every turn after the first",
        ),
    )

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse a run that pays the team, one trained agent, a pool, or agents not all at once.

        Raises:
            ValueError: says which, and the remedy.
        """
        if self.args.credit != "own":
            raise ValueError(
                f"{self.name} with credit={self.args.credit!r}: all agents would have the same "
                "advantage, and nothing is to be aligned; set credit: own"
            )
        if len(trained) < 2:
            raise ValueError(
                f"{self.name}: the only trained agent is {[*trained]}, and it needs the advantages "
                "of another; train two (no partners, not frozen), or choose algorithm: magrpo"
            )
        if "pool" in (self.args.schedules or {}):
            raise ValueError(
                f"{self.name} with schedules: pool: a past self or an opponent has no advantages "
                "to align with; leave the pool out, or choose algorithm: magrpo"
            )
        if in_turn(env) or not acts_at_once(env, self.name):
            raise ValueError(
                f"{self.name}: the agents of {env} act one after the other, or call tools, so that "
                "the t-th turns of two are not at the same time; use an environment in which all "
                "act at once, without tools and memory, or algorithm: magrpo"
            )

    def branches(self, group: EpisodeGroup, agents: Sequence[str]) -> list[Branch]:
        """Another ending of each planned episode from every turn after the first."""
        if not self.settings.weight or any(e.branch for e in group.episodes):
            return []
        return [
            Branch(parent=place, agent=agent, turn=index)
            for place, episode in group.living
            for index, agent in {
                t.index: t.agent for t in episode.turns if t.agent in agents
            }.items()
            if index > 0
        ]

    def budget(self, form: Form) -> Budget:
        """G episodes of K turns, and K - 1 further endings of each."""
        endings = form.turns if self.settings.weight else 1
        turns = sum(form.turns - left for left in range(endings))
        return Budget(
            episodes=form.size * endings,
            actions=form.size * form.seats * turns,
            trajectories=form.size,
        )

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above; 0 in the further endings."""
        alive = inputs.alive & inputs.planned
        own = super().advantages(replace(inputs, alive=alive))
        others = own.sum(axis=2, keepdims=True) - own
        gamma = self.args.discount
        past = past_advantages(inputs.rewards, self._values(inputs, own), gamma)
        shaped = alive & ~np.isnan(past)
        self.counters["unshaped"] = float((alive & ~shaped)[..., 1:].sum())
        return own + self.settings.weight * gamma * np.where(shaped, past, 0.0) * others

    def weights(self, inputs: AdvantageInputs) -> np.ndarray:
        """1 for what was said in a planned episode, 0 in a further ending."""
        return np.ones(inputs.alive.shape) * inputs.planned

    def _values(self, inputs: AdvantageInputs, own: np.ndarray) -> np.ndarray:
        """V of the planned episodes, (P, G, A, K); NaN where no other ending tells it."""
        values = np.full(own.shape, np.nan)
        values[..., 0] = inputs.returns[..., 0] - own[..., 0]
        for p, group in enumerate(inputs.groups):
            for g, episode in group.living:
                if episode.branch is not None:
                    parent, turn = episode.branch.parent, episode.branch.turn
                    values[p, parent, :, turn] = inputs.returns[p, g, :, turn]
        return values


def past_advantages(rewards: np.ndarray, values: np.ndarray, discount: float) -> np.ndarray:
    """The sum over k < t of gamma^(t - k) * (r_k + gamma * V_k+1 - V_k), (..., K).

    Args:
        rewards: of each turn, (..., K).
        values: what is expected from each turn on, (..., K); NaN where it is not known.
        discount: gamma.

    Returns:
        0 at the first turn; NaN from the first value on that is not known.
    """
    past = np.zeros_like(values)
    for turn in range(1, values.shape[-1]):
        surprise = rewards[..., turn - 1] + discount * values[..., turn] - values[..., turn - 1]
        past[..., turn] = discount * (past[..., turn - 1] + surprise)
    return past
