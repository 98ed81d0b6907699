"""Tasks of a shared stock: how much there is, how much there can be, and which split that is in."""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import product

from llm_marl_envs.core.tasks import ListSource, Row, Task, hash_of, split_of_row
from llm_marl_envs.envs.societies.stock import LEAST

PAPER = (100, 100)
"""Stock and capacity of GovSim: the first task of `train`."""
CAPACITIES = range(50, 151, 10)
OOD_CAPACITIES = range(200, 301, 20)
LIMITS = (10, 1000)
"""Of the capacity of a row."""


def key_of(stock: int, capacity: int) -> str:
    """What decides the split."""
    return f"{stock} of {capacity}"


@lru_cache(maxsize=8)
def stock_tasks(split: str) -> ListSource:
    """All tasks of a split, in a fixed order that looks drawn: a half of the capacity and more."""
    ood = split == "ood"
    pairs = [
        (stock, capacity)
        for capacity, stock in product(OOD_CAPACITIES if ood else CAPACITIES, range(301))
        if capacity // 2 <= stock <= capacity
        and (ood or split_of_row({}, key_of(stock, capacity)) == split)
        and (stock, capacity) != PAPER
    ]
    random.Random(hash_of(f"commons/{split}")).shuffle(pairs)
    pairs = [PAPER, *pairs] if split == "train" else pairs
    tasks = [
        Task(f"{split}/{number}", split, {"stock": stock, "capacity": capacity})
        for number, (stock, capacity) in enumerate(pairs)
    ]
    return ListSource(tasks, split)


def stock_task_of_row(row: Row) -> Task:
    """The task of a row: `stock` and `capacity`, whole numbers; perhaps `id`, `split`.

    Raises:
        ValueError: a capacity out of `LIMITS`, or a stock below `LEAST` or above the capacity.
    """
    stock, capacity = row.get("stock"), row.get("capacity", row.get("stock"))
    low, high = LIMITS
    if type(capacity) is not int or not low <= capacity <= high:
        raise ValueError(f"capacity={capacity!r:.60}: expected a whole number, {low} to {high}")
    if type(stock) is not int or not LEAST <= stock <= capacity:
        raise ValueError(
            f"stock={stock!r:.60}: expected a whole number, {LEAST} to the capacity, {capacity}"
        )
    key = key_of(stock, capacity)
    name = str(row.get("id") or f"row-{hash_of(key):016x}")
    return Task(name, split_of_row(row, key), {"stock": stock, "capacity": capacity})
