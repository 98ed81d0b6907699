"""Tasks of dividing things: what each thing is worth to each player, and which split that is in.

Owns the words for things and how values are drawn. What players do with them is elsewhere.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache
from typing import Any

from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.tasks import IndexedSource, Row, Task, hash_of, split_of_row
from llm_marl_envs.envs.games.shares import Values

WORDS = ("lamp", "rope", "book", "drum", "kite", "coat", "bell", "vase")
OOD_WORDS = ("fork", "tent", "ring", "sled", "harp", "desk", "oar", "mask")
NOTHING = "nothing"
THINGS = 4
"""Of a generated task."""
NAME = re.compile(r"[a-z]{1,20}")
SIZES = {"train": 4000, "val": 200, "test": 500, "ood": 500}
MEAN = {"ood": 5}
"""What a thing is worth in the mean; elsewhere `USUAL_MEAN`."""
USUAL_MEAN = 3
MOST_WORTH = 1000
TRIES = 10_000


def key_of(values: Values) -> str:
    """What decides the split: the sorted values of each player, the players in no order.

    Tasks that differ by an exchange of things or of players have the same key.
    """
    return str(sorted(tuple(sorted(row)) for row in values))


def draw_values(rng: random.Random, players: int, mean: int) -> Values:
    """Whole numbers of at least 1, each player's with the same total, each such row as likely."""
    total = mean * THINGS
    rows = []
    for _ in range(players):
        cuts = [0, *sorted(rng.sample(range(1, total), THINGS - 1)), total]
        rows.append(tuple(high - low for low, high in zip(cuts, cuts[1:], strict=False)))
    return tuple(rows)


class ShareSource(IndexedSource):
    """Generated tasks; no values that are asked in one split are asked in another.

    Args:
        split: of the tasks.
        players: how many.
    """

    endless = True

    def __init__(self, split: str, players: int) -> None:
        super().__init__(split)
        self.players = players

    def __len__(self) -> int:
        return SIZES[self.split]

    def make(self, index: int, task_id: str) -> Task:
        """The task of an index: drawn until the values belong to the split and differ."""
        rng = random.Random(derive_seed("trust_split", self.split, self.players, index))
        ood = self.split == "ood"
        words = OOD_WORDS if ood else WORDS
        for _ in range(TRIES):
            values = draw_values(rng, self.players, MEAN.get(self.split, USUAL_MEAN))
            here = ood or split_of_row({}, key_of(values)) == self.split
            if here and len(set(values)) > 1:  # else nothing is worth more to anybody
                names = tuple(rng.sample(words, THINGS))
                return Task(task_id, self.split, {"things": names, "values": values})
        raise AssertionError(f"no values of {self.players} players in {self.split!r}")


@lru_cache(maxsize=64)
def share_tasks(split: str, players: int) -> ShareSource:
    """The generated tasks of a split, one source for all copies of an environment."""
    return ShareSource(split, players)


def share_task_of_row(row: Row, players: int) -> Task:
    """The task of a row: `values`, for each player a map thing -> worth; perhaps `id`, `split`.

    Raises:
        ValueError: other things for some player, names that are no words, or values that are no
            whole numbers from 1 to `MOST_WORTH` with one total for all.
    """
    entry: Any = row.get("values")
    maps = list(entry) if isinstance(entry, (list, tuple)) else []
    fits = len(maps) == players and all(isinstance(mapping, dict) for mapping in maps)
    things = tuple(maps[0]) if fits else ()
    fits = fits and len(things) >= 2 and all(set(mapping) == set(things) for mapping in maps)
    if not fits:
        raise ValueError(
            f"values={entry!r:.100}: expected a list of {players} maps thing -> worth, one for "
            "each player, of the same two or more things"
        )
    wrong = [name for name in things if name == NOTHING or not NAME.fullmatch(str(name))]
    if wrong:
        raise ValueError(f"values: {wrong[0]!r} is no name of a thing; expected a word in a-z")
    values = tuple(tuple(mapping[name] for name in things) for mapping in maps)
    whole = all(type(worth) is int and 1 <= worth <= MOST_WORTH for row in values for worth in row)
    if not whole or len({sum(row) for row in values}) != 1:
        raise ValueError(
            f"values={entry!r:.100}: expected whole numbers from 1 to {MOST_WORTH} that add up to "
            "the same total for each player"
        )
    key = key_of(values)
    name = str(row.get("id") or f"row-{hash_of(f'{things}/{values}'):016x}")
    return Task(name, split_of_row(row, key), {"things": things, "values": values})
