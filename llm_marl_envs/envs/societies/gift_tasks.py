"""Tasks of giving: what each has at first, what the meetings follow from, and the split of that."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from llm_marl_envs.core.tasks import ListSource, Row, Task, hash_of, split_of_row
from llm_marl_envs.envs.societies.drawn_tasks import drawn_tasks

PAPER = (10, 3)
"""The paper's endowment, and a draw: the first task of `train`."""
ENDOWMENTS = range(6, 15)
OOD_ENDOWMENTS = range(30, 61, 5)
DRAWS = range(48)
OOD_DRAWS = range(1000, 1016)
"""From each follows who meets whom; none is in two splits."""
LIMITS = (1, 1000)
"""Of the endowment of a row."""
MOST_DRAW = 10**9


def key_of(draw: int) -> str:
    """What decides the split of what is not `ood`."""
    return f"meetings {draw}"


@lru_cache(maxsize=8)
def gift_tasks(split: str) -> ListSource:
    """All tasks of a split, in a fixed order that looks drawn."""
    ood = split == "ood"
    pairs = product(OOD_ENDOWMENTS if ood else ENDOWMENTS, OOD_DRAWS if ood else DRAWS)
    fields = "endowment", "draw"
    return drawn_tasks("donor", split, pairs, PAPER, fields, lambda _, draw: key_of(draw))


def gift_task_of_row(row: Row) -> Task:
    """The task of a row: `endowment` and perhaps `draw`, whole numbers; perhaps `id`, `split`.

    Raises:
        ValueError: an endowment out of `LIMITS`, or a draw below 0 or above `MOST_DRAW`.
    """
    endowment, draw = row.get("endowment"), row.get("draw", 0)
    low, high = LIMITS
    if type(endowment) is not int or not low <= endowment <= high:
        raise ValueError(f"endowment={endowment!r:.60}: expected a whole number, {low} to {high}")
    if type(draw) is not int or not 0 <= draw <= MOST_DRAW:
        raise ValueError(f"draw={draw!r:.60}: expected a whole number, 0 to {MOST_DRAW}")
    name = str(row.get("id") or f"row-{hash_of(f'{endowment}, {draw}'):016x}")
    return Task(name, split_of_row(row, key_of(draw)), {"endowment": endowment, "draw": draw})
