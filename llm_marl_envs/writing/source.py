"""Where the tasks of cooperative writing come from: generated documents, or texts from outside.

Owns the ids and data of tasks and the columns of rows. A generated task's data is
`documents.data_of`. A row's data:

| key | meaning |
|---|---|
| text | the source that is summed up |
| first, second | reference texts of the two seats, "" where the row has none |
| summary | a reference for both, "" where the row has none; of an abstract the text |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from llm_marl_envs.tasks import Row, Task, TaskSource, open_tasks, split_of_row, unit_hash
from llm_marl_envs.writing.documents import Kind, data_of
from llm_marl_envs.writing.generate import SIZES, document_at

ORDER_SEED = 0
"""Task i of a split is document i of this seed."""

TEXT_COLUMNS: Mapping[Kind, tuple[str, ...]] = {
    "post": ("post", "prompt", "text"),
    "abstract": ("abstract_text", "abstract", "text"),
}
"""Columns under which a row may hold its source, first found first."""

ID_COLUMNS = ("task_id", "id", "article_id")
SUMMARY_COLUMNS = ("summary", "completion", "highlights")
"""Columns under which a post may bring its summary; read for `reward="reference"`, never shown."""

REFERENCE_COLUMNS: Mapping[Kind, tuple[str, str]] = {
    "post": ("brief", "detailed"),
    "abstract": ("background", "method"),
}


class ProceduralSource(TaskSource):
    """The documents of one kind and split; ids are `<split>/<index>`. Made when asked for."""

    def __init__(self, kind: Kind, split: str) -> None:
        self.kind: Kind = kind
        self.split = split
        self._made: dict[int, Task] = {}

    def __len__(self) -> int:
        return SIZES[self.split]

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        if index not in self._made:
            if not 0 <= index < len(self):
                raise IndexError(f"task {index}: {self.split!r} has tasks 0 to {len(self) - 1}")
            document = document_at(self.kind, ORDER_SEED, self.split, index)
            self._made[index] = Task(f"{self.split}/{index}", self.split, data_of(document))
        return self._made[index]

    def find(self, task_id: str) -> Task:
        """As `TaskSource.find`, by reading the id."""
        split, _, index = task_id.rpartition("/")
        if split != self.split or not re.fullmatch("[0-9]+", index) or int(index) >= len(self):
            raise ValueError(
                f"no task {task_id!r}: expected '{self.split}/0' to '{self.split}/{len(self) - 1}'"
            )
        return self[int(index)]


@lru_cache(maxsize=16)
def procedural_source(kind: Kind, split: str) -> ProceduralSource:
    """The source of a split; one per process, so that copies of an environment share its tasks."""
    return ProceduralSource(kind, split)


def task_of_row(kind: Kind, row: Row) -> Task:
    """The task that a row describes.

    Args:
        kind: decides the columns, see `TEXT_COLUMNS` and `REFERENCE_COLUMNS`.
        row: needs a source text. A Reddit row's "TL;DR:" at its end is no part of it.

    Raises:
        ValueError: no source text, or a reference that is no text.
    """
    text = next((row[name] for name in TEXT_COLUMNS[kind] if row.get(name)), None)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(
            f"no source text: expected a string in one of the columns {TEXT_COLUMNS[kind]}, "
            f"got {sorted(map(str, row))}"
        )
    text = re.sub(r"\s*TL;?DR:?\s*$", "", text.strip(), flags=re.IGNORECASE)
    references = [row.get(name) or "" for name in REFERENCE_COLUMNS[kind]]
    summary = next((row[name] for name in SUMMARY_COLUMNS if row.get(name)), "")
    if not all(isinstance(reference, str) for reference in (*references, summary)):
        columns = (*REFERENCE_COLUMNS[kind], *SUMMARY_COLUMNS)
        raise ValueError(f"{columns}: expected texts, got {[*references, summary]!r:.80}")
    key = " ".join(text.lower().split())
    task_id = next((str(row[name]) for name in ID_COLUMNS if row.get(name)), None)
    return Task(
        id=task_id or f"{kind}/{int(unit_hash(key) * 2**48):012x}",
        split=split_of_row(row, key),  # the same text falls into one split, whatever its id
        data={
            "text": text,
            "first": references[0],
            "second": references[1],
            "summary": text if kind == "abstract" else summary.strip(),
        },
    )


def writing_tasks(
    kind: Kind, tasks: str | Path | Sequence[Row] | TaskSource | None, split: str
) -> TaskSource:
    """The source that the environment's argument `tasks` names; see `tasks.open_tasks`.

    What is named by a text is read once per process, a file again when it has changed.
    """
    if isinstance(tasks, (str, Path)):
        path = Path(tasks)
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        return _named_source(kind, str(tasks), split, changed)
    return _open(kind, tasks, split)


@lru_cache(maxsize=16)
def _named_source(kind: Kind, tasks: str, split: str, changed_ns: int) -> TaskSource:
    del changed_ns  # only a part of the key
    return _open(kind, tasks, split)


def _open(kind: Kind, tasks: str | Sequence[Row] | TaskSource | None, split: str) -> TaskSource:
    return open_tasks(
        tasks,
        split=split,
        procedural=lambda name: procedural_source(kind, name),
        from_row=lambda row: task_of_row(kind, row),
    )
