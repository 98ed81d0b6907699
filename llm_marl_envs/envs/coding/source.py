"""Where the tasks of cooperative coding come from: generated, or rows of a file or dataset.

Owns the ids and data of generated tasks, and that the copies of an environment share their source.
What the functions are is `functions.py`'s business, what rows mean `rows.py`'s.
"""

from __future__ import annotations

from functools import lru_cache

from llm_marl_envs.core.tasks import IndexedSource, Task, Tasks, TaskSource, open_tasks, read_once
from llm_marl_envs.envs.coding import functions
from llm_marl_envs.envs.coding.composition import Composition, describe_full
from llm_marl_envs.envs.coding.rows import task_of_row

ORDER_SEED = 0
"""Decides the order of a split: task i is `functions.composition_at(ORDER_SEED, split, i)`."""


class ProceduralSource(IndexedSource):
    """All compositions of one split for so many authors, in a fixed mixed order.

    Cheap to make: nothing is computed before the first task is asked for.
    """

    def __init__(self, split: str, authors: int) -> None:
        super().__init__(split)
        self.authors = authors

    def __len__(self) -> int:
        return len(functions.compositions(self.split, self.authors))

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        composition = functions.composition_at(ORDER_SEED, self.split, index, self.authors)
        return task_of(composition, task_id, self.split)


procedural_source = lru_cache(maxsize=16)(ProceduralSource)
"""The source of a split; one per process, so that copies of an environment share its tasks."""


@read_once
def coding_tasks(tasks: Tasks, split: str, authors: int = 2) -> TaskSource:
    """The source that the environment's argument `tasks` names; see `tasks.open_tasks`.

    Raises:
        ValueError: as there, and tasks for another number of authors; the first is named.
    """
    source = open_tasks(
        tasks,
        split=split,
        procedural=lambda split: procedural_source(split, authors),
        from_row=task_of_row,
        splits=functions.SPLITS,
    )
    if not (isinstance(source, ProceduralSource) and source.authors == authors):
        refuse_other_team(source[0], authors)
    return source


def refuse_other_team(task: Task, authors: int) -> None:
    """Raise a ValueError where a task has not as many parts as there are authors."""
    composition = composition_of(task)
    parts = 2 if composition is None else len(composition.roles)
    if parts != authors:
        rows = "rows have two, `aux` and the tested function; " if composition is None else ""
        raise ValueError(
            f"n_agents={authors}: task {task.id!r} has {parts} parts; {rows}use n_agents={parts}, "
            "or leave out `tasks`: tasks are generated for any number"
        )


def task_of(composition: Composition, task_id: str, split: str) -> Task:
    """A composition as a task: the keys of `rows.py` and the words of the composition."""
    return Task(
        id=task_id,
        split=split,
        data={
            "prompt": describe_full(composition),
            "entry_point": "solve",
            "signature": "solve(xs)",
            "preamble": "",
            "tests": "\n".join(functions.asserts(composition)),
            "helper": "",
            "main": "",
            "kind": composition.kind,
            "predicates": list(composition.predicates),
            "op": composition.op,
            "ending": composition.ending,
            **({"divided": True, "inner": composition.inner} if composition.divided else {}),
        },
    )


def composition_of(task: Task) -> Composition | None:
    """The composition behind a task, None for a task made from a row."""
    data = task.data
    if "kind" not in data:
        return None
    words = (data["kind"], tuple(data["predicates"]), data["op"], data["ending"])
    return Composition(*words, data.get("divided", False), data.get("inner", ""))
