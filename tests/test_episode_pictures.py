"""The pictures of played episodes on the pages: made by code, well formed, and up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.pages import module_of
from support.paths import ROOT

from llm_marl_envs.core.rendering import Cell, table_svg

pytestmark = pytest.mark.full  # `make test-all` runs it

NAMES = (
    "agents_net",
    "collab_maze",
    "commons",
    "donor",
    "plan_path",
    "public_goods",
    "referential",
    "sokoban",
    "sudoku",
    "tic_tac_toe",
    "trust_split",
)


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import episode_pictures

    return episode_pictures


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_of_a_page_is_its_episode(pictures: Any, name: str):
    assert tuple(pictures.EPISODES) == NAMES
    kwargs, texts = pictures.EPISODES[name]
    path = pictures.path_of(name)
    assert path.read_text(encoding="utf-8") == pictures.picture(name, kwargs, texts)
    page = (ROOT / "docs" / "environments" / f"{name}.md").read_text(encoding="utf-8")
    assert f"]({path.name})" in page
    shown = Path(str(module_of(name).__file__)).read_text(encoding="utf-8")
    for text in (*texts, pictures.TASKS.get(name, "train/0")):
        assert text in shown
    with pytest.raises(ValueError, match="not over"):
        pictures.picture(name, kwargs, texts[:-1] if name != "agents_net" else ())


def test_a_table_holds_any_text():
    wrong = '<script>"&\x1b\u202e'
    drawn = table_svg("kind", [[Cell(wrong, framed=False)], [Cell("a"), Cell("bcd", "#123456")]])
    root = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    texts = [one.text for one in root.iter(f"{space}text")]
    assert texts == ['<script>"&\\x1b\\u202e', "a", "bcd"]
    assert [one.get("fill") for one in root.iter(f"{space}rect")] == [*["#ffffff"] * 2, "#123456"]
    wide = int(root.get("width", 0))
    for one in root.iter(f"{space}rect"):
        assert int(one.get("x", 0)) + int(one.get("width", 0)) <= wide
