"""Notebook 06, where its three trainers are installed: it runs, and each of them learns."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbclient import NotebookClient
from support.paths import ROOT

for library in ("torchrl", "sb3_contrib"):
    pytest.importorskip(library, reason="make test-bridges installs it")


def test_it_runs_and_the_rewards_rise(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    path = ROOT / "notebooks" / "06_plug_into_another_trainer.ipynb"
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(ROOT)}}).execute()
    printed = "".join(
        output.get("text", "")
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    said = re.findall(r"(.*): ([01]\.\d\d) at first, ([01]\.\d\d) over the last three", printed)
    assert [name for name, _, _ in said] == ["Stable-Baselines3", "TorchRL", "TRL"]
    for name, first, last in said:
        assert float(last) > float(first) + 0.1, name
