"""Rows as tasks: the bundled problems, JSONL files, local datasets, columns of other names."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.envs.coding.rows import read_tests, task_of_row
from llm_marl_envs.play.demonstrations import demonstrations

ID = "coop_coding-v0"
HUMANEVAL = {
    "task_id": "Mini/0",
    "prompt": (
        "from typing import List\n\n\ndef twice(x: int) -> int:\n    return 2 * x\n\n\n"
        "def doubled(xs: List[int]) -> List[int]:\n"
        '    """Double each number, see twice.\n\n    >>> doubled([1])\n    [2]\n    """\n'
    ),
    "entry_point": "doubled",
    "canonical_solution": "    return [twice(x) for x in xs]\n",
    "test": (
        "METADATA = {'author': 'us'}\n\n\ndef check(candidate):\n"
        "    assert candidate([1, 2]) == [twice(1), 4]\n    assert candidate([]) == []\n"
    ),
}
SOLUTION = {
    HELPER: "def aux(x: List[int]) -> int:\n    return twice(x)",
    MAIN: "def doubled(xs: List[int]) -> List[int]:\n    return [aux(x) for x in xs]",
}
MBPP = {
    "task_id": 11,
    "text": "Write a function to remove the first and last occurrence of a given character.",
    "code": "def remove_Occ(s,ch):\n    return s.replace(ch, '')",
    "test_setup_code": "import math",
    "test_list": [
        "assert remove_Occ('hello','l') == 'heo'",
        "assert remove_Occ('abca','a') == 'bc'",
    ],
}


@pytest.fixture(scope="module")
def bundled() -> CoopCodingEnv:
    return make(ID, tasks="bundled:coop_problems", split="all", reward="paper")


def test_references_earn_everything(bundled: CoopCodingEnv) -> None:
    assert len(bundled.source) == 44
    for task in bundled.source:
        actions = {
            agent: experts_of(bundled).first(task, agent, "reference") for agent in (HELPER, MAIN)
        }
        bundled.reset(seed=0, options={"task": task})
        _, rewards, _, _, infos = bundled.step(actions)
        assert rewards == {HELPER: 4.0, MAIN: 4.0}, task.id
        info = infos[MAIN]
        assert info["success"], task.id
        assert info["tests_passed"] == info["tests_total"] >= 3, task.id


def test_problem_statements_give_no_reference_away(bundled: CoopCodingEnv) -> None:
    for task in bundled.source:
        for messages in bundled.opening(task).values():
            text = messages[0].content
            assert task.data["prompt"] in text
            assert task.data["signature"] in text
            assert "{" not in text.split("\n\n")[0]
            assert task.data["helper"] not in text
            assert task.data["main"] not in text


def test_splits_of_the_bundled_problems_are_disjoint() -> None:
    seen: set[str] = set()
    for split in ("train", "val", "test"):
        ids = {task.id for task in make(ID, tasks="bundled:coop_problems", split=split).source}
        assert ids
        assert not ids & seen
        seen |= ids
    assert len(seen) == 44


def test_demonstrations_of_rows(bundled: CoopCodingEnv) -> None:
    pairs = demonstrations(bundled, 10, seed=0)
    assert all("def " in text for _, text in pairs)
    assert len(pairs) == 10


def played(env: CoopCodingEnv, actions: dict[str, str]) -> dict[str, Any]:
    env.reset(seed=0)
    return env.step(actions)[4][MAIN]


def test_a_jsonl_file_in_the_schema_of_humaneval(tmp_path: Path) -> None:
    path = tmp_path / "mini.jsonl"
    path.write_text(json.dumps(HUMANEVAL) + "\n\n", encoding="utf-8")
    env = make(ID, tasks=str(path), split="all")
    assert (env.info_mode, env.reward_scheme) == ("full", "tests")
    info = played(env, SOLUTION)
    assert info["success"], info
    assert (info["tests_passed"], info["tests_total"]) == (2, 2)


def test_a_local_dataset(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [HUMANEVAL, {**HUMANEVAL, "task_id": "Mini/1"}]
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "set" / "test-00000.parquet")
    env = make(ID, tasks=f"hub:{tmp_path / 'set'}", split="all", reward="tests")
    assert [task.id for task in env.source] == ["Mini/0", "Mini/1"]
    assert played(env, SOLUTION)["reward_terms"]["tests"] == pytest.approx(0.8)


def test_columns_of_mbpp() -> None:
    task = task_of_row(MBPP)
    assert task.id == "11"
    assert task.data["entry_point"] == "remove_Occ"
    assert task.data["signature"] == "remove_Occ(s, ch)"
    assert len(read_tests(task.data["tests"], "remove_Occ")) == 2
    env = make(ID, tasks=[MBPP], split="all", reward="tests")
    helper = "def aux(s, ch):\n    return s.replace(ch, '')"
    info = played(env, {HELPER: helper, MAIN: "def remove_Occ(s, ch):\n    return aux(s, ch)"})
    assert info["success"], info


def test_the_entry_point_is_what_nothing_else_defines() -> None:
    tests = ["import math", "assert math.isclose(sum(sorted(scaled([1]))), 2)", "assert scaled([])"]
    row = {"text": "Scale it.", "test_list": tests}
    assert task_of_row(row).data["entry_point"] == "scaled"


def test_the_statement_says_what_to_write() -> None:
    env: TextEnv = make(ID, tasks=[HUMANEVAL], split="all")
    opening = env.opening(env.source[0])
    signature = "doubled(xs: List[int]) -> List[int]"
    assert f"Write only the Python function {signature}." in opening[MAIN][0].content
    assert f"Your partner writes {signature}" in opening[HELPER][0].content


def test_lines_of_load_errors_are_those_of_the_author() -> None:
    env = make(ID, tasks=[HUMANEVAL], split="all", turns=2)
    env.reset(seed=0)
    seen = env.step({**SOLUTION, HELPER: "x = 1\ny = undefined"})[0]
    text = seen[HELPER].messages[-1].content
    assert "Your code failed: NameError: name 'undefined' is not defined, line 2." in text
    assert "Your partner's code failed, so no test was run." in seen[MAIN].messages[-1].content


FUTURE = "from __future__ import annotations"


@pytest.mark.parametrize(
    "head",
    [
        f"{FUTURE}\n",
        f'"""Mine, é."""; {FUTURE}; mine = len("é")\n',
        f"# no import\n'one'\n{FUTURE} # two\nfrom __future__ import (\n    division)\n",
        f"# {FUTURE}\n",
        f'TEXT = """\n{FUTURE}\n"""\n',
    ],
)
def test_a_program_may_import_from_the_future(head: str) -> None:
    """It has what the statement defines all the same, and lines are counted in its own text."""
    env = make(ID, tasks=[HUMANEVAL], split="all", turns=2)
    env.reset(seed=0)
    actions = {agent: head + text for agent, text in SOLUTION.items()}
    assert env.step(actions)[4][MAIN]["success"]
    for text, line in (
        (f"{head}x = 1\ny = undefined", head.count("\n") + 2),
        (f"# mine\n{FUTURE}2\n", 2),
    ):
        env.reset(seed=0)
        seen = env.step({**SOLUTION, HELPER: text})[0][HELPER].messages[-1].content
        assert re.search(rf"Your code failed: \w+: .*, line {line}\b", seen), seen


def test_rows_of_one_content_share_a_split() -> None:
    other = {**HUMANEVAL, "task_id": "Other/9", "prompt": HUMANEVAL["prompt"] + "\n"}
    assert task_of_row(other).split == task_of_row(HUMANEVAL).split
    assert task_of_row({**HUMANEVAL, "split": "val"}).split == "val"


def test_rows_without_references_have_no_expert() -> None:
    env = make(ID, tasks=[HUMANEVAL], split="all")
    task: Task = env.source[0]
    assert experts_of(env).conventions(task) == ()
    assert experts_of(env).read(task, MAIN, SOLUTION[MAIN]) is None
    with pytest.raises(ValueError, match="Mini/0"):
        experts_of(env).first(task, MAIN, "reference")
    with pytest.raises(ValueError, match="Mini/0"):
        env.bounds(task)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in HUMANEVAL.items() if key != name}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (without("prompt"), "row 2: no prompt: expected one of the columns"),
        (without("test"), "row 2: no tests: expected one of the columns"),
        ({**HUMANEVAL, "test": "def check(candidate): ("}, "row 2: unusable tests"),
        ({**HUMANEVAL, "test": "x = 1"}, "row 2: unusable tests"),
        (
            {
                **HUMANEVAL,
                "test": "def check(candidate):\n    assert isclose(candidate([]), twise(1))",
            },
            "row 2: unusable tests: .* names that nothing defines: isclose, twise; define",
        ),
        ({**HUMANEVAL, "entry_point": "not a name"}, "row 2: entry_point 'not a name'"),
        (without("entry_point"), "row 2: entry_point ''"),
        ({**HUMANEVAL, "split": "dev"}, "row 2: split 'dev'"),
        ({}, "row 2: no prompt"),
    ],
)
def test_bad_rows_are_named(row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(ID, tasks=[{**HUMANEVAL, "task_id": "first"}, row], split="all")


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "mini.jsonl"
    path.write_text(json.dumps(HUMANEVAL), encoding="utf-8")
    first = make(ID, tasks=path, split="all").source
    assert make(ID, tasks=str(path), split="all").source is first
    path.write_text(json.dumps({**HUMANEVAL, "task_id": "Mini/2"}), encoding="utf-8")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
    assert make(ID, tasks=path, split="all").source[0].id == "Mini/2"


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(HUMANEVAL) + "\n{no json}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2"):
        make(ID, tasks=path)
    with pytest.raises(ValueError, match="no such file"):
        make(ID, tasks=str(tmp_path / "absent.jsonl"))
