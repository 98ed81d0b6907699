"""Tasks of a public good: what each seat has, what giving multiplies, which split that is in."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import product

from llm_marl_envs.core.tasks import ListSource, Row, Task, hash_of, split_of_row
from llm_marl_envs.envs.societies.drawn_tasks import drawn_tasks

FIRST = (10, 1.6)
"""Endowment and factor of the first task of `train`, and of rows that name none."""
ENDOWMENTS = range(6, 31)
OOD_ENDOWMENTS = range(40, 61, 2)
FACTORS = range(1, 10)
"""In tenths of the way from 1 to those who play together."""
MOST = 1000
"""Of the endowment of a row."""


def key_of(endowment: int, factor: float) -> str:
    """What decides the split."""
    return f"{endowment} by {factor:g}"


@lru_cache(maxsize=64)
def goods_tasks(split: str, together: int) -> ListSource:
    """All tasks of a split, in a fixed order that looks drawn.

    Args:
        split: of the tasks.
        together: how many play together; the factor is below it.
    """
    factors = [round(1 + (together - 1) * tenths / 10, 1) for tenths in FACTORS]
    pairs = product(OOD_ENDOWMENTS if split == "ood" else ENDOWMENTS, factors)
    return drawn_tasks("public_goods", split, pairs, FIRST, ("endowment", "factor"), key_of)


def goods_task_of_row(row: Row, together: int) -> Task:
    """The task of a row: perhaps `endowment`, `factor`, `id`, `split`.

    Raises:
        ValueError: an endowment that is no whole number from 1 to `MOST`, or a factor that is not
            between 1 and how many play together, or has more than three decimals.
    """
    endowment, factor = row.get("endowment", FIRST[0]), row.get("factor", FIRST[1])
    if type(endowment) is not int or not 1 <= endowment <= MOST:
        raise ValueError(f"endowment={endowment!r:.60}: expected a whole number from 1 to {MOST}")
    number = type(factor) in (int, float) and 1 < factor < together
    if not number or round(factor, 3) != factor:
        raise ValueError(
            f"factor={factor!r:.60}: expected a number of at most three decimals between 1 and "
            f"{together}, which is how many play together"
        )
    key = key_of(endowment, factor)
    name = str(row.get("id") or f"row-{hash_of(key):016x}")
    data = {"endowment": endowment, "factor": float(factor)}
    return Task(name, split_of_row(row, key), data)


def factor_of(task: Task) -> Fraction:
    """The factor of a task, exactly as it is written."""
    return Fraction(str(task.data["factor"]))
