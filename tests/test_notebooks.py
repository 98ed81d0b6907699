"""The notebooks run from the first cell to the last, and are stored without output."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from llm_marl_envs.files.cache import cache_folder

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LONG = {
    "02_evaluate_baselines",
    "03_train_a_team",
    "04_compare_algorithms",
    "05_add_your_own_environment",
    "07_a_pretrained_team",
}
PRETRAINED = {"07_a_pretrained_team"}
"""Needs SmolLM2, which no test fetches."""
ELSEWHERE = {"06_plug_into_another_trainer": "tests/bridges/test_notebook.py"}
"""Needs other trainers: `make test-bridges` runs it where they are installed."""
SECONDS = 540
"""A cell's longest time, on a busy machine too."""


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_first_cell_installs_where_nothing_is_installed(path: Path):
    """As the first notebook's does, but for the extras; test_packaging.py runs that one."""
    first, tried = (nbformat.read(one, as_version=4).cells[0] for one in (path, NOTEBOOKS[0]))
    assert first.cell_type == "code"
    with_extras = re.compile(r"\[[a-z,]+notebooks[a-z,]*\]|\[notebooks\]")
    assert with_extras.search(first.source)
    assert with_extras.sub("", first.source).startswith(with_extras.sub("", tried.source))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the notebooks keep the embedded model; the first one builds it."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("path", [marked(one) for one in NOTEBOOKS if one.stem not in ELSEWHERE])
def test_runs(path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", paths)
    if path.stem not in PRETRAINED:
        monkeypatch.setenv("LLM_MARL_CACHE", str(cache))
    elif not (cache_folder() / "smollm2").is_dir():
        pytest.skip(f"needs llm-marl import-model smollm2 {cache_folder() / 'smollm2'}")
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=SECONDS, resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [out for cell in book.cells for out in cell.get("outputs", [])]
    assert any("image/png" in out.get("data", {}) for out in outputs), "a notebook shows a plot"
