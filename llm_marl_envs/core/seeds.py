"""How seeds become episodes: of a group, an update, an evaluation.

A run's seed is never used as it is. It is mixed with what tells one use from another, so that no
two uses share their random numbers, and so that anything can be drawn again without what came
before. Whoever needs a seed of its own mixes one with `derive_seed`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llm_marl_envs.core.checks import seed_of
from llm_marl_envs.core.records import Branch, Chance, Episode, Redraw
from llm_marl_envs.core.tasks import Task, hash_of

RESET_SEEDS = 2**32
"""PettingZoo's reset seeds have 32 bits."""


def derive_seed(*parts: object) -> int:
    """A 63-bit seed mixed (SHA-256) from the parts; the same in every process.

    Mixed, not added: with sums, seed s item i+1 would be seed s+1 item i.
    """
    return hash_of("/".join(map(str, parts))) >> 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where one episode begins.

    Attributes:
        task: index, id or `Task` for `options={"task": ...}`; None sends no option.
        seed: the reset seed; the episodes of a group share it unless `chance="episode"`.
        sample_seed: seed of the policies' randomness; the episodes of a group differ in it.
        seats: of a branch, agent -> the seed of what it drew once, for those who act before the
            branch leaves its record; the others draw anew.
        record: the recorded episode that a branch goes on from; None begins at the reset.
        branch: where it leaves the record.
        chance: seed of what chance deals after the branch; None: what it dealt in the record.
        redraws: where chance is drawn anew in an episode that is no branch, as in the one that it
            repeats; a branch has those of its record.

    Raises:
        TypeError: a seed that is no whole number; numpy's are taken as `int`.
    """

    task: int | str | Task | None = None
    seed: int = 0
    sample_seed: int = 0
    record: Episode | None = None
    branch: Branch | None = None
    chance: int | None = None
    redraws: tuple[Redraw, ...] = ()
    seats: Mapping[str, int] = field(default_factory=dict)

    def action_seed(self, agent: str, turn: int) -> int:
        """The seed of one action of an agent."""
        return derive_seed(self.sample_seed, agent, turn)

    def seat_seed(self, agent: str) -> int:
        """The seed of what an agent draws once, for all of its turns; of its first action, too."""
        own = self.action_seed(agent, 0)
        return self.seats.get(agent, own)

    def __post_init__(self) -> None:
        for name in ("seed", "sample_seed"):
            object.__setattr__(self, name, seed_of(getattr(self, name), name))


def group_starts(
    task: int | str | Task | None, seed: int, size: int, chance: Chance = "group"
) -> list[Start]:
    """A group: `size` episodes of one task, whose policies draw differently.

    Chance in an environment comes from the reset seed. With `chance="group"` all share it, and what
    is dealt to one is dealt to all; with "episode" each has one of its own, drawn from `seed`.
    """
    own = chance == "episode"
    return [
        Start(
            task=task,
            seed=derive_seed("chance", seed, episode) % RESET_SEEDS if own else seed,
            sample_seed=derive_seed("sample", seed, episode),
        )
        for episode in range(size)
    ]


def branch_start(
    start: Start, record: Episode, branch: Branch, sibling: int, chance: Chance = "group"
) -> Start:
    """An episode that leaves a recorded one.

    Args:
        start: how the recorded episode, or the one that it left in turn, began.
        record: the recorded episode.
        branch: where to leave it.
        sibling: a number that no other branch of the group has.
        chance: "group": chance deals what it dealt in the record; "episode": anew.
    """
    drawn = derive_seed("branch", start.sample_seed, branch.agent, branch.turn, sibling)
    return Start(
        task=start.task,
        seed=record.seed,
        sample_seed=drawn,
        record=record,
        branch=branch,
        chance=derive_seed("chance", drawn) if chance == "episode" else None,
        seats={agent: start.seat_seed(agent) for agent in _said(record, branch)},
    )


def _said(record: Episode, branch: Branch) -> set[str]:
    """The agents with an action that a branch takes from its record.

    Where a record does not say its steps, all who stand before the action are taken for these.
    """
    turns = record.turns
    left = branch.agent, branch.turn
    place = next((i for i, turn in enumerate(turns) if (turn.agent, turn.index) == left), None)
    if place is None:  # who plays it says so
        return set()
    step = turns[place].step
    if step is None:
        return {turn.agent for turn in turns[:place]}
    given = {turn.agent for turn in turns if turn.step is not None and turn.step < step}
    beside = {turn.agent for turn in turns if turn.step == step} - {branch.agent}
    return given | beside if branch.held else given


def evaluation_starts(
    n_tasks: int, seeds: Sequence[int], samples: int, *, with_tasks: bool, per_reset: int = 1
) -> list[Start]:
    """An evaluation, task by task, then seed by seed, then sample by sample.

    Each sample has a reset seed of its own, so that what chance deals is dealt anew.

    Args:
        n_tasks: the first so many tasks.
        seeds: every task is played under each.
        samples: episodes of a task and seed.
        with_tasks: False is for an environment without tasks: its episodes differ by reset seed
            alone.
        per_reset: so many samples in a row share their reset seed after all.
    """
    return [
        Start(
            task=task if with_tasks else None,
            seed=_evaluation_reset(seed, task, sample // per_reset),
            sample_seed=derive_seed("evaluate", seed, task, sample),
        )
        for task in range(n_tasks)
        for seed in seeds
        for sample in range(samples)
    ]


def _evaluation_reset(seed: int, task: int, number: int) -> int:
    """The reset seed of a task's sample; of the first one as before samples had their own."""
    more = ("reset", number) if number else ()
    return derive_seed("evaluate", seed, task, *more) % RESET_SEEDS


def held_out_starts(seed: int, count: int, *, with_tasks: bool) -> list[Start]:
    """The episodes that a training run evaluates on, the same at each evaluation."""
    seeds = [derive_seed("eval", seed, i) % RESET_SEEDS for i in range(count)]
    return [
        Start(task=i if with_tasks else None, seed=episode_seed, sample_seed=episode_seed)
        for i, episode_seed in enumerate(seeds)
    ]


def update_seed(seed: int, update: int, position: int) -> int:
    """The reset seed of one group of an update."""
    return derive_seed("reset", seed, update, position) % RESET_SEEDS


def epoch_order(seed: int, epoch: int, n_tasks: int) -> list[int]:
    """The order in which an epoch visits its tasks."""
    order = list(range(n_tasks))
    random.Random(derive_seed("epoch", seed, epoch)).shuffle(order)
    return order
