"""Where the tasks of cooperative writing come from: generated documents, or texts from outside.

Owns the ids and data of tasks and the columns of rows. A generated task's data is
`documents.data_of`. A row's data:

| key | meaning |
|---|---|
| text | the source that is summed up |
| first, second | reference texts of the first two seats, "" where the row has none |
| third | of the third seat; missing where the row has none |
| summary | a reference for all, "" where the row has none; of an abstract the text |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial

from llm_marl_envs.core.tasks import (
    IndexedSource,
    Row,
    Task,
    Tasks,
    TaskSource,
    open_tasks,
    read_once,
    split_of_row,
    unit_hash,
)
from llm_marl_envs.envs.writing.documents import Kind, data_of
from llm_marl_envs.envs.writing.generate import SIZES, document_at

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

REFERENCE_COLUMNS: Mapping[Kind, tuple[str, ...]] = {
    "post": ("brief", "detailed", "detailed_1"),
    "abstract": ("background", "method", "results"),
}
_SEATS = ("first", "second", "third")


class ProceduralSource(IndexedSource):
    """The documents of one kind and split, for so many authors."""

    endless = True

    def __init__(self, kind: Kind, split: str, seats: int) -> None:
        super().__init__(split)
        self.kind: Kind = kind
        self.seats = seats

    def __len__(self) -> int:
        return SIZES[self.split]

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        document = document_at(self.kind, ORDER_SEED, self.split, index, self.seats)
        return Task(task_id, self.split, data_of(document))


procedural_source = lru_cache(maxsize=16)(ProceduralSource)
"""The source of a split; one per process, so that copies of an environment share its tasks."""


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
            **{
                seat: reference
                for seat, reference in zip(_SEATS, references, strict=True)
                if reference or seat != "third"
            },
            "summary": text if kind == "abstract" else summary.strip(),
        },
    )


def texts_of(task: Task, seats: int) -> tuple[str, ...]:
    """The reference texts of a row's authors, none unless it brings one of each."""
    texts = tuple(task.data.get(seat, "") for seat in _SEATS[:seats])
    return texts if all(texts) else ()


@read_once
def writing_tasks(tasks: Tasks, kind: Kind, split: str, seats: int = 2) -> TaskSource:
    """The source that the environment's argument `tasks` names; see `tasks.open_tasks`."""
    return open_tasks(
        tasks,
        split=split,
        procedural=lambda split: procedural_source(kind, split, seats),
        from_row=partial(task_of_row, kind),
    )
