"""The tree that a group's branches make: who shares a history, and what each sample weighs.

A *node* is a history: what the team has said up to a step of the environment. A *sample* is one
joint action at a node (one message, where agents act in turn). Its *owner* is the episode that
played it first: branches of that episode play it again, as a record. The *leaves* below a sample
are the episodes that hold it.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.core.records import Episode, EpisodeGroup, Turn

Sample = tuple[int, int]
"""(owner's place in the group, step)"""
Node = tuple[int | None, int]
"""(owner of the sample before it, step); at step 0 nothing was said before: owner None"""


def step_of(turn: Turn) -> int:
    """The number of the environment's step that took an action.

    Raises:
        ValueError: the record does not hold it.
    """
    if turn.step is None:
        raise ValueError(
            f"turn {turn.index} of {turn.agent} has no number of a step; only episodes that "
            "`rollout` played in this process can be branched as a tree"
        )
    return turn.step


def left_at(group: EpisodeGroup, episode: Episode) -> int:
    """The step at which a branch leaves its record; 0 for an episode that was planned."""
    branch = episode.branch
    if branch is None:
        return 0
    turns = group.episodes[branch.parent].trajectory(branch.agent)
    return step_of(turns[branch.turn])


def owners(group: EpisodeGroup) -> list[list[int]]:
    """For each episode, who owns its sample at each step."""
    owned: list[list[int]] = []
    for place, episode in enumerate(group.episodes):
        steps = max((step_of(turn) + 1 for turn in episode.turns), default=0)
        shared = [] if episode.branch is None else owned[episode.branch.parent]
        left = left_at(group, episode)
        owned.append([*shared[:left], *[place] * (steps - left)])
    return owned


class Tree:
    """The samples of a group, their nodes, leaves and weights; episodes that failed are in none.

    Attributes:
        leaves: sample -> places of the episodes that hold it, and what each weighs among them.
        weight: sample -> 1 over the samples at each node on its way, times those of the root. The
            first of each planned episode weighs 1; in a full tree those of a step weigh alike.
        siblings: node -> its samples.
    """

    def __init__(self, group: EpisodeGroup) -> None:
        owned = owners(group)
        self.owned = owned
        living = [place for place, _ in group.living]
        self.siblings: dict[Node, list[Sample]] = {}
        below: dict[Sample, list[int]] = {}
        for place in living:
            for step, owner in enumerate(owned[place]):
                if (owner, step) not in below:
                    self.siblings.setdefault(self.node(place, step), []).append((owner, step))
                below.setdefault((owner, step), []).append(place)
        shares = dict.fromkeys(living, 1.0)
        for place in living:
            for step in range(len(owned[place])):
                shares[place] /= len(self.siblings[self.node(place, step)])
        roots = len(self.siblings.get((None, 0), ()))
        self.leaves = {sample: {g: shares[g] for g in places} for sample, places in below.items()}
        self.weight = {sample: roots * sum(held.values()) for sample, held in self.leaves.items()}

    def node(self, place: int, step: int) -> Node:
        """The history of an episode before a step."""
        return (self.owned[place][step - 1] if step else None, step)

    def mean(self, sample: Sample, values: Sequence[float]) -> float:
        """The mean over a sample's leaves of one value per episode: of children, recursively."""
        leaves = self.leaves[sample]
        return sum(share * values[g] for g, share in leaves.items()) / sum(leaves.values())
