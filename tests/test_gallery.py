"""The gallery: every environment is in it, its picture is small, and is of the episode as it is."""

from __future__ import annotations

from typing import Any

import pytest
from support.paths import ROOT

from llm_marl_envs import list_envs

MOST_BYTES = 1_500_000


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import gallery

    return gallery


def test_no_environment_is_missing(gallery: Any):
    names = {gallery.stem(env_id) for env_id in list_envs()}
    pictures = list(gallery.FOLDER.iterdir())
    assert {picture.name for picture in pictures} == {f"{name}.png" for name in names}
    assert sum(picture.stat().st_size for picture in pictures) < MOST_BYTES
    page = gallery.PAGE.read_text()
    for name in names:
        assert (ROOT / "docs" / "environments" / f"{name}.md").is_file()
        assert f"(environments/{name}.md)" in page
        assert f"(gallery/{name}.png)" in page


@pytest.mark.full
def test_the_page_is_of_the_episodes_as_they_are(gallery: Any):
    """Each picture's digest is that of the episode played now: `python -m benchmarks.gallery`."""
    pages = {env_id: gallery.page_of(env_id) for env_id in list_envs()}
    assert gallery.PAGE.read_text() == gallery.gallery(pages)
