"""The notebooks run from the first cell to the last, and are stored without output."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LONG = {"03_train_a_team"}


def marked(path: Path) -> object:
    marks = [pytest.mark.long] if path.stem in LONG else []
    return pytest.param(path, marks=marks, id=path.stem)


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_output(path: Path):
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs"), "clear the outputs before committing"
        assert not cell.get("execution_count")


@pytest.mark.parametrize("path", [marked(path) for path in NOTEBOOKS])
def test_runs(path: Path, monkeypatch: pytest.MonkeyPatch):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", paths)
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", [])]
    assert any("image/png" in out.get("data", {}) for out in outputs), "a notebook shows a plot"
