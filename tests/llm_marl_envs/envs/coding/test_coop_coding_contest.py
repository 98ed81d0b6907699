"""Rows of contests: standard input and output become tests, and teams are scored on them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from llm_marl_envs.envs.coding.contest import with_tests
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.envs.coding.rows import read_tests, task_of_row

PAIRS = {"inputs": ["2\n3 4\n", "1\n-5\n"], "outputs": ["7 \n", "-5"]}
ROW = {"id": "sum", "question": "Print the sum.", "input_output": json.dumps(PAIRS)}
AUX = "def aux(stdin):\n    return [int(x) for x in stdin.split()[1:]]\n"
SOLVE = "def solve(stdin: str) -> str:\n    return f'{sum(aux(stdin))}\\n'\n"


def test_pairs_become_asserts() -> None:
    task = task_of_row(ROW)
    assert (task.data["entry_point"], task.data["signature"]) == (
        "solve",
        "solve(stdin: str) -> str",
    )
    assert read_tests(task.data["tests"], "solve") == (
        "assert lines_of(solve('2\\n3 4\\n')) == ['7']",
        "assert lines_of(solve('1\\n-5\\n')) == ['-5']",
    )
    assert task.data["prompt"].startswith("Print the sum.")
    assert "solve(stdin: str) -> str" in task.data["prompt"]


@pytest.mark.parametrize(
    "columns",
    [
        {"input_output": PAIRS},
        PAIRS,
        {"public_tests": {"input": PAIRS["inputs"], "output": PAIRS["outputs"]}},
        {
            "public_test_cases": json.dumps(
                [
                    {"input": i, "output": o, "testtype": "stdin"}
                    for i, o in zip(PAIRS["inputs"], PAIRS["outputs"], strict=True)
                ]
            )
        },
    ],
)
def test_columns_of_several_data_sets(columns: dict[str, Any]) -> None:
    task = task_of_row({"id": "sum", "prompt": "Print the sum.", **columns})
    assert task.data["tests"] == task_of_row(ROW).data["tests"]


def test_rows_with_tests_are_left_alone() -> None:
    row = {"prompt": "p", "test": "assert f(1) == 2", "inputs": ["1"], "outputs": ["2"]}
    assert with_tests(row) is row
    assert with_tests({"prompt": "p"}) == {"prompt": "p"}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"input_output": "{"}, "expected JSON"),
        ({"input_output": {"inputs": ["1"], "outputs": []}}, "1 inputs and 0 outputs"),
        ({"input_output": {"inputs": [[1]], "outputs": ["2"]}}, "expected texts, got list"),
        ({"input_output": {"fn_name": "f", "inputs": [[1]], "outputs": [2]}}, "function 'f'"),
        ({"test_cases": [{"input": "1", "output": "2", "testtype": "functional"}]}, "not of stand"),
        ({"test_cases": 3}, "got int"),
    ],
)
def test_what_is_no_contest_is_said(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        task_of_row({"prompt": "p", **columns})


@pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")
@pytest.mark.parametrize(
    ("helper", "main", "share"),
    [
        (AUX, SOLVE, 1.0),
        (AUX, SOLVE.replace("sum(", "max("), 0.5),
        (AUX, "def solve(stdin):\n    return sum(aux(stdin))\n", 0.0),  # a number is no text
        (AUX, "def solve(stdin):\n    print(sum(aux(stdin)))\n", 0.0),
        ("", SOLVE, 0.0),
    ],
)
def test_a_team_is_scored(helper: str, main: str, share: float) -> None:
    env = CoopCodingEnv(tasks=[ROW], reward="tests", split="all")
    env.reset(seed=0)
    _, _, _, _, infos = env.step({HELPER: helper, MAIN: main})
    assert infos[MAIN]["tests_passed"] / infos[MAIN]["tests_total"] == share
    assert infos[MAIN]["success"] is (share == 1.0)
