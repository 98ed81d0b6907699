"""Tasks of a shared stock: how much there is, how much there can be, and which split that is in.

A harm begins with a half of the stock, so there an odd stock is the same game as the even one below
it. It is in no task, and a row of it is in the same split.
"""

from __future__ import annotations

from functools import lru_cache

from llm_marl_envs.core.tasks import ListSource, Row, Task, hash_of, split_of_row
from llm_marl_envs.envs.societies.drawn_tasks import drawn_tasks
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
def stock_tasks(split: str, inverse: bool) -> ListSource:
    """All tasks of a split, in a fixed order that looks drawn: a half of the capacity and more.

    Args:
        split: of the tasks.
        inverse: whether the units are a harm.
    """
    capacities = OOD_CAPACITIES if split == "ood" else CAPACITIES
    pairs = (
        (stock, of)
        for of in capacities
        for stock in range(of // 2, of + 1)
        if not (inverse and stock % 2)
    )
    return drawn_tasks("commons", split, pairs, PAPER, ("stock", "capacity"), key_of)


def stock_task_of_row(row: Row, inverse: bool) -> Task:
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
    key = key_of(stock - stock % 2 if inverse else stock, capacity)
    name = str(row.get("id") or f"row-{hash_of(key_of(stock, capacity)):016x}")
    return Task(name, split_of_row(row, key), {"stock": stock, "capacity": capacity})
