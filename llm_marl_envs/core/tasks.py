"""Tasks and where they come from: procedural, JSONL files, lists, the Hugging Face Hub.

Owns indexing, splits and loading errors. What a task *means* is the environment's business: it
passes the function that turns a row into a `Task`.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from importlib import resources
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import Any, ClassVar, Concatenate, ParamSpec

from llm_marl_envs.files.foreign import json_of

SPLITS = ("train", "val", "test", "ood")
# Shares of rows that bring no split of their own; val and test are small because such files are.
ROW_SHARES = (("train", 0.7), ("val", 0.1), ("test", 0.2))

Row = Mapping[str, Any]
P = ParamSpec("P")
QUESTIONS = re.compile(r"(reasoning[-_]gym|generated):")
"""What `tasks` begins with where it names questions (`questions/source.py`)."""
ASKING = ("debate-v0", "solve_and_evaluate-v0", "solve_critique_refine-v0")
"""Environments that take every question; `debate_pro_con-v0` wants wrong answers, too."""
INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
"""The number in an id, as it is written there: in ASCII digits, without zeros before it."""


@dataclass(frozen=True, slots=True)
class Task:
    """One problem instance: data, no behaviour.

    Attributes:
        id: unique within its source.
        split: "train", "val", "test" or "ood".
        data: what the environment needs; its documentation names the keys.
    """

    id: str
    split: str
    data: Row

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", MappingProxyType(dict(self.data)))

    def __reduce__(self) -> tuple[Any, ...]:  # a mappingproxy does not pickle
        return (Task, (self.id, self.split, dict(self.data)))


class TaskSource(ABC, Sequence[Task]):
    """An indexable collection of tasks; item i is a function of (seed, split, i).

    So copies of an environment share one source, and what was made for one is there for all.
    """

    split: str

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskSource:
        return self

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Task: ...  # type: ignore[override]

    def find(self, task_id: str) -> Task:
        """The task with this id.

        Raises:
            ValueError: no task has it.
        """
        for task in self:
            if task.id == task_id:
                return task
        raise ValueError(f"no task {task_id!r:.200} among the {len(self)} tasks of {self.split!r}")

    def __iter__(self) -> Iterator[Task]:
        return (self[index] for index in range(len(self)))


Tasks = str | Path | Sequence[Row] | TaskSource | None
"""What the argument `tasks` of an environment may be, see `open_tasks`."""


class ListSource(TaskSource):
    """Tasks held in memory.

    Raises:
        ValueError: it would be empty, or two tasks share an id.
    """

    def __init__(self, tasks: Sequence[Task], split: str) -> None:
        self.split = split
        self._tasks = tuple(tasks)
        self._by_id = {task.id: task for task in self._tasks}
        if not self._tasks:
            raise ValueError(f"no tasks in split {split!r:.200}: use another split or add tasks")
        if len(self._by_id) < len(self._tasks):
            ids = [task.id for task in self._tasks]
            repeated = next(i for i in ids if ids.count(i) > 1)
            raise ValueError(
                f"task id {repeated!r:.200} appears more than once; ids must be unique"
            )

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        return self._tasks[index]

    def find(self, task_id: str) -> Task:
        """As `TaskSource.find`, by dictionary."""
        if task_id not in self._by_id:
            raise ValueError(
                f"no task {task_id!r:.200} among the {len(self)} tasks of {self.split!r}, "
                f"e.g. {next(iter(self._by_id))!r}"
            )
        return self._by_id[task_id]


_making = RLock()  # one for all sources, which so can be pickled; making a task may ask for others
if hasattr(os, "register_at_fork"):  # not on Windows; no fork while a task is half made
    os.register_at_fork(
        before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release
    )


class IndexedSource(TaskSource):
    """Generated tasks in a fixed order, made when asked for and kept; ids are `<split>/<index>`.

    A subclass says how many there are and makes them, one at a time: copies of an environment share
    a source, and may ask from several threads.

    Attributes:
        endless: whether `make` has a task of the split for any number from 0; those from the
            source's length on are on no list.
    """

    endless: ClassVar[bool] = False

    def __init__(self, split: str) -> None:
        self.split = split
        self._made: dict[int, Task] = {}

    @abstractmethod
    def make(self, index: int, task_id: str) -> Task:
        """Task `index`, from 0 to len - 1, which is to have this id."""

    def __getitem__(self, index: int) -> Task:  # type: ignore[override]
        if index not in self._made:
            if not 0 <= index < len(self):
                raise IndexError(f"task {index}: {self.split!r} has tasks 0 to {len(self) - 1}")
            with _making:
                if index not in self._made:
                    self._made[index] = self.make(index, f"{self.split}/{index}")
        return self._made[index]

    def find(self, task_id: str) -> Task:
        """As `TaskSource.find`, by reading the id."""
        split, _, index = task_id.rpartition("/")
        if split != self.split or not INDEX.fullmatch(index) or int(index) >= len(self):
            raise ValueError(
                f"no task {task_id!r:.200}: expected '{self.split}/0' to "
                f"'{self.split}/{len(self) - 1}'"
            )
        return self[int(index)]


class NumberedSource(IndexedSource):
    """Tasks of which a number is all that is known here.

    Args:
        split: of the tasks.
        size: how many.
    """

    def __init__(self, split: str, size: int) -> None:
        super().__init__(split)
        self.size = size

    def __len__(self) -> int:
        return self.size

    def make(self, index: int, task_id: str) -> Task:
        """The task of an index."""
        return Task(task_id, self.split, {})


SEEDS_OF_A_SPLIT = 10**6
FIRST_SEEDS = {
    split: number * SEEDS_OF_A_SPLIT for number, split in enumerate(("train", "val", "test", "ood"))
}


class SeedSource(NumberedSource):
    """Seeds of a foreign game, in `task.data["seed"]`; no two splits share one."""

    def make(self, index: int, task_id: str) -> Task:
        """The task of one seed."""
        return Task(task_id, self.split, {"seed": FIRST_SEEDS[self.split] + index})


def read_once(
    opener: Callable[Concatenate[Tasks, P], TaskSource],
) -> Callable[Concatenate[Tasks, P], TaskSource]:
    """`opener(tasks, ...)`, so that what a text or path names is read once per process.

    A file is read again when it has changed. The further arguments must be hashable.
    """

    @lru_cache(maxsize=16)
    def read(tasks: str, changed_ns: int, *args: P.args, **kwargs: P.kwargs) -> TaskSource:
        del changed_ns  # only a part of the key
        return opener(tasks, *args, **kwargs)

    @wraps(opener)
    def opened(tasks: Tasks, *args: P.args, **kwargs: P.kwargs) -> TaskSource:
        if not isinstance(tasks, (str, Path)):
            return opener(tasks, *args, **kwargs)
        # `os.path` also of what is too long for a path, or none.
        changed_ns = os.stat(tasks).st_mtime_ns if os.path.isfile(tasks) else 0
        return read(str(tasks), changed_ns, *args, **kwargs)

    return opened


def open_tasks(
    tasks: Tasks,
    *,
    split: str,
    procedural: Callable[[str], TaskSource],
    from_row: Callable[[Row], Task],
    splits: Sequence[str] = SPLITS,
) -> TaskSource:
    """The task source that the argument `tasks` of an environment names.

    Args:
        tasks: None or "procedural" (made by the environment), "bundled:<name>" (a file shipped in
            `llm_marl_envs/data`), a path of a JSONL file, "hub:<dataset>[:<hub split>]", a list of
            rows, or a ready `TaskSource`.
        split: one of `splits`, or "all" for every row of a file, list or dataset.
        procedural: split -> source; the environment's generator.
        from_row: row -> Task; raises `ValueError` for a row it cannot use.
        splits: what the generator can make; rows are in one of `SPLITS`.

    Raises:
        ValueError: unknown split or form, malformed JSONL (with the line), nothing in the split, or
            questions, of an environment that asks none.
        TypeError: `tasks` or a row is none of the kinds above.
    """
    if split not in (*splits, "all"):
        raise ValueError(f"split {split!r:.200}: expected one of {(*splits, 'all')}")
    if isinstance(tasks, TaskSource):
        return tasks
    if tasks is None or tasks == "procedural":
        if split == "all":
            raise ValueError(f"split 'all' is for given rows; generated tasks have {tuple(splits)}")
        return procedural(split)
    where = f"tasks={str(tasks)!r}, " if isinstance(tasks, (str, Path)) else ""
    if isinstance(tasks, str) and QUESTIONS.match(tasks):
        raise ValueError(
            f"tasks={tasks!r:.200}: these are questions, and this environment asks none; "
            f"{', '.join(ASKING)} do"
        )
    if isinstance(tasks, str) and tasks.startswith("hub:"):
        rows = hub_rows(tasks.removeprefix("hub:"), split)
    elif isinstance(tasks, str) and tasks.startswith("bundled:"):
        rows = bundled_rows(tasks.removeprefix("bundled:"))
    elif isinstance(tasks, (str, Path)):
        rows = jsonl_rows(tasks)
    elif isinstance(tasks, Sequence):
        rows = tasks
    else:
        raise TypeError(
            "tasks: expected None, a string, a path, a list of dicts or a TaskSource, "
            f"got {type(tasks).__name__}"
        )
    if not rows:
        raise ValueError(f"{where or 'tasks: '}no rows at all; give at least one task")
    return ListSource(_tasks_of_rows(rows, where, split, from_row), split)


def _tasks_of_rows(
    rows: Sequence[Row], where: str, split: str, from_row: Callable[[Row], Task]
) -> list[Task]:
    tasks: list[Task] = []
    counts: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise TypeError(f"{where}row {number}: expected a dict, got {type(row).__name__}")
        try:
            task = from_row(row)
        except ValueError as error:
            raise ValueError(f"{where}row {number}: {error}") from error
        counts[task.split] = counts.get(task.split, 0) + 1
        if split in ("all", task.split):
            tasks.append(task)
    if not tasks:
        sizes = ", ".join(f"{counts[name]} in {name!r}" for name in SPLITS if name in counts)
        raise ValueError(
            f"{where}no tasks in split {split!r:.200}: there are {sizes}; name another split, "
            "'all' for every row, or add tasks"
        )
    return tasks


def split_of_row(row: Row, key: str, shares: Sequence[tuple[str, float]] = ROW_SHARES) -> str:
    """The split a row belongs to: its own "split" field, else by a hash of `key`.

    The hash makes splits disjoint and stable: adding rows to a file moves none.

    Args:
        row: of a file.
        key: rows with the same one are in one split.
        shares: (split, its share of all keys), which sum to 1.

    Raises:
        ValueError: the row's own "split" is none of `SPLITS`.
    """
    own = row.get("split")
    if own is not None:
        if own not in SPLITS:
            raise ValueError(f"split {own!r:.200}: expected one of {SPLITS}")
        return own
    draw = unit_hash(key)
    for name, share in shares:
        draw -= share
        if draw < 0:
            return name
    return shares[-1][0]


def hash_of(text: str) -> int:
    """A whole number below 2**64 that depends on the text alone (SHA-256), in every process."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])


def unit_hash(text: str) -> float:
    """As `hash_of`, a number in [0, 1)."""
    return hash_of(text) / 2**64


def jsonl_rows(path: str | Path) -> list[Row]:
    """Rows of a JSONL file; blank lines are skipped.

    Raises:
        ValueError: the file does not exist, or a line is no JSON object (the line is named).
    """
    if not os.path.isfile(path):
        raise ValueError(
            f"tasks={str(path)!r:.200}: no such file; expected the path of a JSONL file"
        )
    return parse_jsonl(Path(path).read_bytes(), str(path))


def bundled_rows(name: str) -> list[Row]:
    """Rows of `llm_marl_envs/data/<name>.jsonl`.

    Raises:
        ValueError: no such file; the message lists those there are.
    """
    folder = resources.files("llm_marl_envs") / "data"
    # Looked up among the files that there are, so that no name can lead out of the folder.
    files = {f.name.removesuffix(".jsonl"): f for f in folder.iterdir() if ".jsonl" in f.name}
    if name not in files:
        raise ValueError(f"no bundled tasks {name!r:.200}; there are {sorted(files)}")
    return parse_jsonl(files[name].read_bytes(), f"bundled:{name}")


def parse_jsonl(content: bytes, where: str) -> list[Row]:
    """The objects of a JSONL file; `where` names it in errors.

    Raises:
        ValueError: a line is no JSON object in UTF-8; the message names the line.
    """
    rows: list[Row] = []
    # Not str.splitlines: it also splits at U+2028 and others, which JSON strings may hold.
    for number, line in enumerate(content.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{where}, line {number}"
        row = json_of(line, place)
        if not isinstance(row, dict):
            raise ValueError(f"{place}: expected an object, got {type(row).__name__}")
        rows.append(row)
    return rows


def hub_rows(name: str, split: str) -> list[Row]:
    """Rows of a dataset that `datasets.load_dataset` can load, a local folder included.

    Args:
        name: "<dataset>" or "<dataset>:<hub split>"; without the second part, the hub split named
            like `split` is read if there is one, else the only split there is. "<dataset>#<config>"
            names a configuration; of several, "main" or "default" is taken.
        split: the split asked of the environment.

    Raises:
        ImportError: `datasets` is not installed.
        ValueError: the hub split or the configuration does not exist, or must be named because
            there are several.
    """
    try:
        import datasets
    except ImportError as error:
        raise ImportError(
            "tasks='hub:...' needs `datasets`: pip install 'llm-marl-envs[eval]'"
        ) from error
    dataset, _, wanted = name.partition(":")
    dataset, _, config = dataset.partition("#")
    configs = datasets.get_dataset_config_names(dataset)
    if not config and len(configs) > 1:
        config = next((c for c in ("main", "default") if c in configs), "")
    if len(configs) > 1 and config not in configs:
        raise ValueError(
            f"tasks='hub:{name}' has the configurations {configs}: name one, as "
            f"'hub:{dataset}#<configuration>'"
        )
    available = datasets.get_dataset_split_names(dataset, config or None)
    ours = {"val": ("val", "validation")}.get(split, (split,))
    if not wanted:
        named = next((s for s in ours if s in available), None)
        wanted = named or (available[0] if len(available) == 1 else "")
    if wanted not in available:
        raise ValueError(
            f"tasks='hub:{name}' has the splits {available}: name one, as 'hub:{dataset}:<split>'"
        )
    rows: list[Row] = [
        dict(row) for row in datasets.load_dataset(dataset, config or None, split=wanted)
    ]
    # Of a dataset with several splits, the one that bears our name *is* ours. A lone split (as
    # HumanEval's "test") is divided by hash, or "train" and "test" would share its rows.
    whole = wanted in ours and len(available) > 1
    return [{**row, "split": split} for row in rows] if whole else rows
