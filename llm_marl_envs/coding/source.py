"""The procedural tasks of cooperative coding as a `TaskSource`.

Owns ids and the data of a task; what the functions are is `functions.py`'s business.
"""

from __future__ import annotations

from functools import lru_cache

from llm_marl_envs.coding import functions
from llm_marl_envs.coding.functions import Composition
from llm_marl_envs.tasks import Task, TaskSource

ORDER_SEED = 0
"""Decides the order of a split: task i is `functions.composition_at(ORDER_SEED, split, i)`."""


class ProceduralSource(TaskSource):
    """All compositions of one split in a fixed mixed order; ids are `<split>/<index>`.

    Cheap to make: nothing is computed before the first task is asked for.
    """

    def __init__(self, split: str) -> None:
        self.split = split
        self._made: dict[int, Task] = {}

    def __len__(self) -> int:
        return len(functions.compositions(self.split))

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        if index not in self._made:
            if not 0 <= index < len(self):
                raise IndexError(f"task {index}: {self.split!r} has tasks 0 to {len(self) - 1}")
            composition = functions.composition_at(ORDER_SEED, self.split, index)
            self._made[index] = task_of(composition, f"{self.split}/{index}", self.split)
        return self._made[index]

    def find(self, task_id: str) -> Task:
        """As `TaskSource.find`, by reading the id."""
        split, _, index = task_id.rpartition("/")
        if split != self.split or not index.isdecimal() or int(index) >= len(self):
            raise ValueError(
                f"no task {task_id!r}: expected '{self.split}/0' to '{self.split}/{len(self) - 1}'"
            )
        return self[int(index)]


@lru_cache(maxsize=8)
def procedural_source(split: str) -> ProceduralSource:
    """The source of a split; one per process, so that copies of an environment share its tasks."""
    return ProceduralSource(split)


def task_of(composition: Composition, task_id: str, split: str) -> Task:
    """A composition as a task: the keys of `rows.py` and the words of the composition."""
    return Task(
        id=task_id,
        split=split,
        data={
            "prompt": functions.describe_full(composition),
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
