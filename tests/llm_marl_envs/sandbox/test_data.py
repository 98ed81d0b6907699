"""Rows in the shape of HumanEval: references pass, stubs do not, apart and as teams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import llm_marl_envs
from llm_marl_envs.envs.coding.rows import task_of_row
from llm_marl_envs.sandbox import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

BUNDLED = Path(llm_marl_envs.__file__).parent / "data" / "coop_problems.jsonl"
STUB = "    return None\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _job(row: dict[str, Any], source: Any, **more: Any) -> dict[str, Any]:
    """Tests as tasks have them: behind what the problem statement defines."""
    tests = task_of_row(row).data["tests"]
    return {"source": source, "entry_point": row["entry_point"], "tests": tests, **more}


def test_bundled_rows(sandbox: Sandbox) -> None:
    rows = _rows(BUNDLED)
    exports = {"helper": ["aux"]}
    teams = [_job(r, {"helper": r["helper"], "main": r["main"]}, exports=exports) for r in rows]
    joined = [_job(r, r["helper"] + "\n\n" + r["main"]) for r in rows]
    stubs = [_job(r, r["prompt"] + STUB) for r in rows]
    for row, apart, whole in zip(rows, sandbox.map(teams), sandbox.map(joined), strict=True):
        assert (apart.status, whole.status) == ("pass", "pass"), (row["task_id"], apart, whole)
        assert apart.total == whole.total > 0
    assert [v.status for v in sandbox.map(stubs) if v.ok] == []


def test_rows_of_a_local_file(sandbox: Sandbox) -> None:
    """With a HumanEval file at hand: `HUMANEVAL=path pytest -k test_rows_of_a_local_file`."""
    path = os.environ.get("HUMANEVAL")
    if not path:
        pytest.skip("the environment variable HUMANEVAL names no file in HumanEval's schema")
    rows = _rows(Path(path))
    references = [_job(r, r["prompt"] + r["canonical_solution"]) for r in rows]
    stubs = [_job(r, r["prompt"] + STUB) for r in rows]
    failed = [
        (row["task_id"], verdict.status, verdict.detail)
        for row, verdict in zip(rows, sandbox.map(references), strict=True)
        if not verdict.ok
    ]
    assert failed == []
    assert [v for v in sandbox.map(stubs) if v.ok] == []
