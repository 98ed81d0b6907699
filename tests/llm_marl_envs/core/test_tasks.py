from __future__ import annotations

import json
import os
import pickle
import signal
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from llm_marl_envs.core.tasks import (
    SPLITS,
    IndexedSource,
    ListSource,
    Task,
    TaskSource,
    bundled_rows,
    open_tasks,
    parse_jsonl,
    read_once,
    split_of_row,
    unit_hash,
)


def from_row(row: Mapping[str, Any]) -> Task:
    if "id" not in row:
        raise ValueError(f"no 'id' among {sorted(row)}")
    return Task(str(row["id"]), split_of_row(row, str(row["id"])), row)


def generated(split: str) -> TaskSource:
    return ListSource([Task(f"{split}/{i}", split, {}) for i in range(3)], split)


def opened(tasks: Any, split: str = "all") -> TaskSource:
    return open_tasks(tasks, split=split, procedural=generated, from_row=from_row)


def test_tasks_are_data() -> None:
    data = {"words": ("a", "b")}
    task = Task("t", "train", data)
    data["words"] = ("c", "d")
    assert task.data["words"] == ("a", "b")
    with pytest.raises(TypeError):
        task.data["words"] = ()  # type: ignore[index]
    assert pickle.loads(pickle.dumps(task)) == task


def test_procedural_is_the_default() -> None:
    assert [task.id for task in opened(None, "val")] == ["val/0", "val/1", "val/2"]
    assert [task.id for task in opened("procedural", "ood")] == ["ood/0", "ood/1", "ood/2"]
    ready = generated("test")
    assert opened(ready) is ready
    with pytest.raises(ValueError, match="split 'all' is for given rows"):
        opened(None, "all")


def test_rows_in_a_list() -> None:
    rows = [{"id": i, "split": "val" if i < 2 else "train"} for i in range(5)]
    assert [task.id for task in opened(rows)] == ["0", "1", "2", "3", "4"]
    assert [task.id for task in opened(rows, "val")] == ["0", "1"]
    assert opened(rows).find("3").data["id"] == 3


@pytest.mark.parametrize(
    ("tasks", "split", "error", "words"),
    [
        ([], "all", ValueError, "no rows at all"),
        (
            [{"id": 1, "split": "val"}, {"id": 2, "split": "val"}, {"id": 3, "split": "test"}],
            "train",
            ValueError,
            "no tasks in split 'train': there are 2 in 'val', 1 in 'test'; name another split",
        ),
        ([{"id": 1}, {"id": 1}], "all", ValueError, "task id '1' appears more than once"),
        ([{"id": 1}, {"di": 2}], "all", ValueError, r"row 2: no 'id' among \['di'\]"),
        ([{"id": 1}, 5], "all", TypeError, "row 2: expected a dict, got int"),
        ([{"id": 1, "split": "dev"}], "all", ValueError, "row 1: split 'dev': expected one of"),
        (5, "all", TypeError, "got int"),
        ("nowhere.jsonl", "all", ValueError, "tasks='nowhere.jsonl': no such file"),
        ("bundled:nothing", "all", ValueError, "no bundled tasks 'nothing'; there are"),
        (None, "dev", ValueError, "split 'dev': expected one of"),
    ],
)
def test_what_cannot_be_used_is_said(
    tasks: Any, split: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        opened(tasks, split)


def test_jsonl_files(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    texts = ["plain", "\u2028 \x85 \x0b", "漢字"]  # str.splitlines would break the second
    lines = [json.dumps({"id": i, "text": t}, ensure_ascii=False) for i, t in enumerate(texts)]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode() + b"\n")
    for given in (path, str(path)):
        assert [task.data["text"] for task in opened(given)] == texts


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"id": 1}\n\n{"id": 2', "line 3: no JSON"),
        (b'{"id": 1}\n[2]\n', "line 2: expected an object, got list"),
        (b'{"id": 1}\n"\xff"\n', "line 2: no JSON .*utf-8"),
        (b'{"id": 1}\n{"di": 1}', r"x.jsonl', row 2: no 'id'"),
        (b"", "no rows at all"),
    ],
)
def test_malformed_jsonl_is_refused_with_its_line(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        opened(str(path))


def test_parse_jsonl_names_what_it_reads() -> None:
    with pytest.raises(ValueError, match="somewhere, line 1"):
        parse_jsonl(b"{", "somewhere")


def test_bundled_files_can_be_read() -> None:
    with pytest.raises(ValueError, match="there are") as error:
        bundled_rows("nothing")
    names = str(error.value).partition("there are ")[2]
    for name in names.strip("[]").replace("'", "").split(", "):
        assert not name or bundled_rows(name)


@pytest.mark.parametrize("form", ["{}", "../data/{}", "./{}", "../../{}", "{}.jsonl", "x/../{}"])
def test_bundled_names_do_not_leave_their_folder(form: str, tmp_path: Path) -> None:
    """Real files at the ends of real paths: the bundled one by another way, and a stranger's."""
    outside = tmp_path / "private.jsonl"
    outside.write_text('{"id": 1}\n')
    home = Path(str(resources.files("llm_marl_envs"))) / "data"
    for target in ("coop_problems", str(outside.with_suffix("")), os.path.relpath(outside, home)):
        name = form.format(target)
        if name == "coop_problems":
            assert bundled_rows(name)
            continue
        with pytest.raises(ValueError, match="no bundled tasks"):
            opened(f"bundled:{name}")
    for name in ("", ".", "..", "README.md", "README", "coop_problems\x00", "COOP_PROBLEMS"):
        with pytest.raises(ValueError, match="no bundled tasks"):
            bundled_rows(name)


def test_split_of_a_row_is_its_own_or_hashed() -> None:
    assert split_of_row({"split": "ood"}, "x") == "ood"
    counts = Counter(split_of_row({}, str(i)) for i in range(2000))
    assert set(counts) <= set(SPLITS)
    # Pinned: a row that changes its split is trained on here and tested on there.
    assert dict(counts) == {"train": 1465, "val": 162, "test": 373}
    for i in range(2000):
        draw = unit_hash(str(i))
        own = "train" if draw < 0.7 else "val" if draw < 0.8 else "test"
        assert split_of_row({}, str(i)) == own
        halves = split_of_row({}, str(i), (("val", 0.5), ("ood", 0.5)))
        assert halves == ("val" if draw < 0.5 else "ood")


def test_unit_hash_is_the_same_everywhere() -> None:
    assert unit_hash("apple") == 0.22845196030360967
    assert 0 <= unit_hash("\ud800") < 1


def test_find_names_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no task 'x' among the 3 tasks of 'val', e.g. 'val/0'"):
        generated("val").find("x")


def test_hub_rows_of_a_local_dataset(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    for name in ("train", "validation"):
        rows = [{"id": f"{name}-{i}", "note": "x"} for i in range(4)]
        text = "\n".join(json.dumps(row) for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    hub = f"hub:{tmp_path}"
    assert [task.id for task in opened(hub, "val")] == [f"validation-{i}" for i in range(4)]
    assert {task.split for task in opened(hub, "train")} == {"train"}
    assert len(opened(f"{hub}:train", "all")) == 4
    with pytest.raises(ValueError, match="name one, as 'hub:"):
        opened(hub, "test")


class Squares(IndexedSource):
    def __len__(self) -> int:
        return 12

    def make(self, index: int, task_id: str) -> Task:
        return Task(task_id, self.split, {"square": index * index, "kept": object()})


def test_an_indexed_source_makes_each_task_once_and_finds_it_by_its_id() -> None:
    source = Squares("val")
    assert [task.data["square"] for task in source][:4] == [0, 1, 4, 9]
    assert all(source.find(task.id) is task for task in source)
    for index in (-1, 12):
        with pytest.raises(IndexError, match=r"'val' has tasks 0 to 11"):
            source[index]


class Slow(Squares):
    """Its first task takes a while."""

    begun: Event

    def make(self, index: int, task_id: str) -> Task:
        if index == 0:
            self.begun.set()
            time.sleep(0.2)
        return super().make(index, task_id)


@pytest.fixture
def slow() -> Slow:
    source = Slow("val")
    source.begun = Event()
    return source


def test_a_task_that_two_threads_want_is_made_once(slow: Slow) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(slow.__getitem__, [0, 0])
    assert one is other


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_process_that_is_forked_while_a_thread_makes_a_task_makes_the_others(slow: Slow) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(slow.__getitem__, 0)
        assert slow.begun.wait(60)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends a child that waits for the lock
            tasks = [slow[11]]
            thread = Thread(target=lambda: tasks.extend(slow))
            thread.start()
            thread.join()
            os._exit(0 if len(tasks) == 13 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert first.result() is slow[0]


@pytest.mark.parametrize(
    "wrong",
    ["val/12", "train/1", "val/01", "val/-1", "val/+1", "1", "val/", "val/\u0661", "val/1 "],
)
def test_only_the_id_of_a_task_finds_one(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected 'val/0' to 'val/11'"):
        Squares("val").find(wrong)


def test_an_id_of_many_digits_is_unknown() -> None:
    with pytest.raises(ValueError, match="expected 'val/0'"):
        Squares("val").find("val/" + "9" * 5000)


def test_what_a_text_names_is_read_once_and_a_changed_file_again(tmp_path: Path) -> None:
    reads: list[Any] = []

    @read_once
    def opener(tasks: Any, split: str, *, more: int = 0) -> TaskSource:
        reads.append((tasks, split, more))
        return opened(tasks, split)

    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": 1}\n')
    first = opener(file, "all")
    assert opener(str(file), "all") is first
    assert opener(file, "all", more=1) is not first
    file.write_text('{"id": 1}\n{"id": 2}\n')
    os.utime(file, ns=(1, 1))
    assert len(opener(file, "all")) == 2
    rows = [{"id": 1}]
    assert opener(rows, "all") is not opener(rows, "all")
    assert reads == [
        *((str(file), "all", more) for more in (0, 1, 0)),
        *((rows, "all", 0) for _ in range(2)),
    ]
