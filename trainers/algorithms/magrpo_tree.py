r"""MAGRPO as the paper has it: a tree, G samples at every node (arXiv 2508.04652).

Formula: at a node v the team samples G joint actions, each agent's j-th with the others' j-th
(*aligned*). Each opens a node at the next step of the environment, to the end of the episode.
Q(v, j) is what j pays from there on: r(v, j) plus the mean over the G samples below it of their Q.
A(v, j) = Q(v, j) - mean of Q(v, .) over the *other* samples of v, the same for every agent when the
reward is a team reward; the loss of agent i is -A(v, j) * sum of log pi_i over the tokens it said.

Comparison group: the samples of one node. All of them saw the same history.

Weight: a sample enters the update once, however many episodes hold it, with 1 over the samples of
each node on its way: 1 / G^(k + 1) at step k. One row per leaf would count first turns G^(K - 1)
times.

Where agents act in turn a node samples one message, and an agent's turn opens G nodes for the next
agent.

Cost: of K steps, G + G^2 + ... + G^K joint actions and G^K episodes for each task.

What it is: with one step it is `magrpo`. Of more it has the same expected gradient and another
variance: siblings share what was said before, and earlier turns are judged by a mean over many
endings. With `baseline="mean"` (the paper's: the sample is in the mean) every advantage is
(G - 1) / G of that, at every depth alike.

Degenerate case: all Q of a node equal give advantage 0.

Deviations from the paper:

1. The baseline leaves the sample out and there is no standard deviation, as in `magrpo`;
   `baseline="mean"` is the paper's mean.
2. No early end at nodes whose mean reward passes a threshold: environments say when they end.
3. Weights are products of 1 over the siblings, not 1 over the nodes that a depth happens to have:
   the two differ where some episodes end early, and only the first has the gradient as its mean.
4. Only samples of agents that are trained branch: a message of a frozen seat has no siblings.
5. Where failures leave a sample alone at its node, its advantage is 0, counted in
   `algorithm/alone`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from llm_marl_envs.core.records import Branch, EpisodeGroup
from trainers.algorithms.base import AdvantageInputs, Algorithm, Budget, Form, in_turn
from trainers.algorithms.relations import Kind, Relation
from trainers.algorithms.trees import Sample, Tree, left_at, step_of

Place = tuple[int, int, int, int]


class MAGRPOTree(Algorithm):
    """Siblings that share a history; see the module's docstring."""

    name = "magrpo_tree"
    reads = ("baseline",)
    branching = True
    declares = (
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="baseline='leave_one_out', any number of turns",
        ),
        Relation(kind=Kind.ALIAS, of="magrpo", when="one turn that all take at the same time"),
        Relation(
            kind=Kind.ALIAS,
            of="magrpo_tree with baseline='leave_one_out', times (G - 1) / G",
            when="baseline='mean' (the paper's)",
        ),
        Relation(
            kind=Kind.SCHEDULE,
            of="magrpo",
            when="several turns",
            named="G samples at every node, G^K episodes",
        ),
    )

    def check(self, env: Any, trained: Sequence[str]) -> None:
        """Refuse seats that act at once and call tools: then the tree has no depth that is known.

        Raises:
            ValueError: says what came and what to do.
        """
        if not in_turn(env) and getattr(env.unwrapped, "beside", {}):
            raise ValueError(
                f"{self.name}: seats act at once, and call tools or write notes when they like, so "
                "the number of steps of an episode is not known; leave tools and memory out, or "
                "choose algorithm: magrpo"
            )

    def branches(self, group: EpisodeGroup, agents: Sequence[str]) -> list[Branch]:
        """G - 1 siblings at each node that an episode opened."""
        opened = {episode.branch for episode in group.episodes}
        branches: list[Branch] = []
        for place, episode in group.living:
            before = left_at(group, episode)
            for turn in episode.turns:
                if turn.agent in agents and step_of(turn) > before:
                    before = step_of(turn)
                    branch = Branch(parent=place, agent=turn.agent, turn=turn.index)
                    if branch not in opened:
                        branches += [branch] * (self.args.num_generations - 1)
        return branches

    def budget(self, form: Form) -> Budget:
        """G^K episodes, where K counts the steps at which a trained agent acts."""
        steps = form.turns * (len(form.agents) if form.in_turn else 1)
        samples = sum(form.size**k for k in range(1, steps + 1))
        leaves = form.size**steps
        untrained = form.turns * (form.seats - len(form.agents)) * leaves
        actions = samples + untrained if form.in_turn else form.seats * samples
        return Budget(episodes=leaves, actions=actions, trajectories=leaves)

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above; 0 where a sample is not the episode's."""
        advantages, alone = np.zeros(inputs.alive.shape), 0
        for p, tree in enumerate(map(Tree, inputs.groups)):
            rounding = float(inputs.rounding[p, 0, 0, 0])
            for where, sample in _samples(inputs, p, tree):
                returns = inputs.returns[p, :, where[2], where[3]]
                siblings = tree.siblings[tree.node(where[1], sample[1])]
                worth = {sibling: tree.mean(sibling, returns.tolist()) for sibling in siblings}
                others = [value for sibling, value in worth.items() if sibling != sample]
                alone += not others
                if others and max(worth.values()) - min(worth.values()) > rounding:
                    compared = [*worth.values()] if self.args.baseline == "mean" else others
                    advantages[where] = worth[sample] - sum(compared) / len(compared)
        self.counters = {"alone": float(alone)}
        return advantages

    def weights(self, inputs: AdvantageInputs) -> np.ndarray:
        """Of a sample in the episode that owns it, 0 in those that repeat it."""
        weights = np.zeros(inputs.alive.shape)
        for p, tree in enumerate(map(Tree, inputs.groups)):
            for where, sample in _samples(inputs, p, tree):
                weights[where] = tree.weight[sample]
        return weights


def _samples(inputs: AdvantageInputs, p: int, tree: Tree) -> Iterator[tuple[Place, Sample]]:
    """Every turn of a trained agent that was sampled: its place (p, g, a, k), and its sample."""
    for g, episode in inputs.groups[p].living:
        for turn in episode.turns:
            if turn.agent in inputs.agents and not turn.given:
                where = p, g, inputs.agents.index(turn.agent), turn.index
                yield where, (g, step_of(turn))
