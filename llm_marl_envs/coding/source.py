"""Where the tasks of cooperative coding come from: generated, or rows of a file or dataset.

Owns the ids and data of generated tasks, and that the copies of an environment share their source.
What the functions are is `functions.py`'s business, what rows mean `rows.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from llm_marl_envs.coding import functions
from llm_marl_envs.coding.functions import Composition
from llm_marl_envs.coding.rows import task_of_row
from llm_marl_envs.tasks import Row, Task, TaskSource, open_tasks

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


def coding_tasks(tasks: str | Path | Sequence[Row] | TaskSource | None, split: str) -> TaskSource:
    """The source that the environment's argument `tasks` names; see `tasks.open_tasks`.

    What is named by a text is read once per process, a file again when it has changed.
    """
    if isinstance(tasks, (str, Path)):
        path = Path(tasks)
        return _named_source(str(tasks), split, path.stat().st_mtime_ns if path.is_file() else 0)
    return _open(tasks, split)


@lru_cache(maxsize=16)
def _named_source(tasks: str, split: str, changed_ns: int) -> TaskSource:
    del changed_ns  # only a part of the key
    return _open(tasks, split)


def _open(tasks: str | Path | Sequence[Row] | TaskSource | None, split: str) -> TaskSource:
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
