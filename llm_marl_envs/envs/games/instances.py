"""Tasks of a matrix game: the game itself, and the game in other words and at other scales.

`train/0` is the game as it is known. Every other task gives each seat's actions other words and
multiplies all payoffs, so nothing that is tuned on `val` is tuned on the payoffs that are measured.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from llm_marl_envs.core.tasks import ListSource, Task, hash_of, split_of_row
from llm_marl_envs.envs.games.matrix_rules import MatrixGame, read_game, rescaled
from llm_marl_envs.envs.games.scales import FACTORS, Scale

WORDS = ("red", "green", "blue", "gold", "black", "white", "brown", "pink")
"""What actions are called in a text."""
USUAL = 6
"""Tasks of a split other than train where nobody says how many."""
TRIES = 2000

Orders = tuple[tuple[int, ...], tuple[int, ...]]
"""For each seat: word k means action `orders[seat][k]`."""


@lru_cache(maxsize=64)
def instances(game: MatrixGame, split: str, scales: tuple[Scale, ...]) -> ListSource:
    """The tasks of a split; task i has scale i modulo their number.

    As many as scales in train. Elsewhere 6 at least, or as many different ones as there are.

    Raises:
        ValueError: there are not so many different ones as scales.
    """
    wanted = len(scales) if split == "train" else max(USUAL, len(scales))
    factors = FACTORS[split]
    rng = random.Random(hash_of(f"matrix_game/{split}"))
    tasks: list[Task] = []
    seen: set[Any] = set()
    for _ in range(TRIES):
        if len(tasks) == wanted:
            break
        i = len(tasks)
        plain = tuple(tuple(range(n)) for n in game.shape)
        orders = tuple(tuple(rng.sample(range(n), n)) for n in game.shape)
        if split == "train" and i == 0:
            orders = plain
        factor = factors[i // len(scales) % len(factors)]
        scaled = rescaled(game, scales[i % len(scales)], factor)
        key = tuple(tuple(scaled.cells[r][c] for c in orders[1]) for r in orders[0])
        if key in seen or (split != "train" and orders == plain):
            continue
        seen.add(key)
        tasks.append(Task(f"{split}/{i}", split, {"game": scaled, "orders": orders}))
    if len(tasks) < len(scales):
        raise ValueError(
            f"scales={[*scales]!r:.200}: {game.name!r} has {len(tasks)} different tables with them "
            f"in split {split!r}, one entry each"
        )
    return ListSource(tasks, split)


def task_of_row(row: Mapping[str, Any]) -> Task:
    """The task of a row: `payoffs` as `read_game` takes them, perhaps `id` and `split`.

    Raises:
        ValueError: no payoffs, or none that are a game.
    """
    if "payoffs" not in row:
        raise ValueError(f"expected 'payoffs', got {sorted(map(str, row))}")
    game = read_game(row["payoffs"])
    name = str(row.get("id") or f"row-{hash_of(repr(game.cells)):016x}")
    orders = tuple(tuple(range(n)) for n in game.shape)
    return Task(name, split_of_row(row, repr(game.cells)), {"game": game, "orders": orders})
