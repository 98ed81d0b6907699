"""JSON read as records, and folders that are claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs.files.json_files import claim, from_json, read_json


@dataclass(frozen=True)
class Leaf:
    share: float
    n: int | None = field(default=None, metadata={"key": "n_tasks"})


@dataclass(frozen=True)
class Tree:
    name: str
    leaves: tuple[Leaf, ...]
    pair: tuple[float, float] | None = field(default=None, metadata={"needed": True})
    more: Mapping[str, float | None] = field(default_factory=dict)
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def test_json_becomes_records() -> None:
    leaf = {"share": 1, "n_tasks": 2, "unknown": ...}
    value = {"name": "a", "leaves": [leaf, {"share": 0.5, "n": 3}], "pair": [0, 1], "more": None}
    leaves = (Leaf(1.0, 2), Leaf(0.5, 3))
    assert from_json(Tree, value, "f") == Tree("a", leaves, (0.0, 1.0))
    value |= {"pair": None, "more": {"x": None, "y": 2}, "kwargs": {"z": [{}]}}
    tree = from_json(Tree, value, "f")
    assert (tree.pair, tree.more, tree.kwargs) == (None, {"x": None, "y": 2.0}, {"z": [{}]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "f: name: expected a text, got 3"),
        ({"leaves": [{"share": 1}, {}]}, r"f: 'leaves\[1\]\.share' is missing"),
        ({"leaves": [{"share": True}]}, r"f: leaves\[0\]\.share: expected a finite number"),
        ({"leaves": [{"share": 1e200}]}, "expected a finite number"),
        ({"leaves": [{"share": 1, "n": 1.5}]}, r"leaves\[0\]\.n: expected a whole number, got 1.5"),
        ({"leaves": {}}, "leaves: expected a list, got {}"),
        ({"leaves": [[1]]}, r"leaves\[0\]: expected an object"),
        ({"pair": [1]}, "pair: expected 2 entries, got 1"),
        ({"more": {"x": "y"}}, r"more\.x: expected a finite number, got 'y'"),
        ({"more": {"x": float("nan")}}, r"more\.x: expected a finite number, got nan"),
        ({"pair": float("nan")}, "pair: expected a list, got nan"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], words: str) -> None:
    whole = {"name": "a", "leaves": [], "pair": None}
    with pytest.raises(ValueError, match=words):
        from_json(Tree, {**whole, **change}, "f")
    with pytest.raises(ValueError, match="f: 'pair' is missing"):
        from_json(Tree, {"name": "a", "leaves": []}, "f")


def test_a_folder_is_claimed_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / "plan.json"
    pinned = {"seeds": [0], "team": {"a": "x"}}
    for _ in range(2):
        claim(file, pinned, "evaluation")
    assert read_json(file) == pinned
    other = r"new holds another evaluation \(team\.a: 'x' there, 'y' asked\)"
    with pytest.raises(ValueError, match=other):
        claim(file, {**pinned, "team": {"a": "y"}}, "evaluation")
    assert read_json(file) == pinned
    file.write_text("{")
    with pytest.raises(ValueError, match="delete the folder to begin anew"):
        claim(file, pinned, "evaluation")
