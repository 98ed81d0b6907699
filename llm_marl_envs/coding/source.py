"""Where the tasks of cooperative coding come from: generated, or rows of a file or dataset.

Owns the ids and data of generated tasks, and that the copies of an environment share their source.
What the functions are is `functions.py`'s business, what rows mean `rows.py`'s.
"""

from __future__ import annotations

from functools import lru_cache

from llm_marl_envs.coding import functions
from llm_marl_envs.coding.composition import Composition, describe_full
from llm_marl_envs.coding.rows import task_of_row
from llm_marl_envs.tasks import IndexedSource, Task, Tasks, TaskSource, open_tasks, read_once

ORDER_SEED = 0
"""Decides the order of a split: task i is `functions.composition_at(ORDER_SEED, split, i)`."""


class ProceduralSource(IndexedSource):
    """All compositions of one split in a fixed mixed order.

    Cheap to make: nothing is computed before the first task is asked for.
    """

    def __len__(self) -> int:
        return len(functions.compositions(self.split))

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        return task_of(functions.composition_at(ORDER_SEED, self.split, index), task_id, self.split)


procedural_source = lru_cache(maxsize=8)(ProceduralSource)
"""The source of a split; one per process, so that copies of an environment share its tasks."""


@read_once
def coding_tasks(tasks: Tasks, split: str) -> TaskSource:
    """The source that the environment's argument `tasks` names; see `tasks.open_tasks`."""
    return open_tasks(
        tasks,
        split=split,
        procedural=procedural_source,
        from_row=task_of_row,
        splits=functions.SPLITS,
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
        },
    )


def composition_of(task: Task) -> Composition | None:
    """The composition behind a task, None for a task made from a row."""
    data = task.data
    if "kind" not in data:
        return None
    return Composition(data["kind"], tuple(data["predicates"]), data["op"], data["ending"])
