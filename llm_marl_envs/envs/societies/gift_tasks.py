"""Tasks of giving: what each has at first, what the meetings follow from, and the split of that.

Where there are few ways to meet, different draws are the same meetings. So there the split follows
from the endowment, else a task of `test` would be one of `train` by another name.
"""

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
"""From each follows who meets whom."""
MANY_SEATS, MANY_ROUNDS = 6, 3
"""From which on no meetings of 48 draws are in two splits."""
LIMITS = (1, 1000)
"""Of the endowment of a row."""
MOST_DRAW = 10**9


def key_of(draw: int) -> str:
    """What decides the split of rows, and of tasks that are not `ood` with many ways to meet."""
    return f"meetings {draw}"


def key_of_few(endowment: int) -> str:
    """Likewise, with few ways to meet."""
    return f"{endowment} units"


@lru_cache(maxsize=16)
def gift_tasks(split: str, seats: int, rounds: int) -> ListSource:
    """All tasks of a split, in a fixed order that looks drawn.

    Args:
        split: of the tasks.
        seats: of the game; fewer than `MANY_SEATS`, or rounds than `MANY_ROUNDS`: the split follows
            from the endowment.
        rounds: of the game.
    """
    ood, few = split == "ood", seats < MANY_SEATS or rounds < MANY_ROUNDS
    pairs = product(OOD_ENDOWMENTS if ood else ENDOWMENTS, OOD_DRAWS if ood else DRAWS)

    def key(endowment: int, draw: int) -> str:
        return key_of_few(endowment) if few else key_of(draw)

    return drawn_tasks("donor", split, pairs, PAPER, ("endowment", "draw"), key)


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
