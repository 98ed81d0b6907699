"""The cache of models: where it lies, and what is said where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_marl_envs.files.cache import cache_folder, made_once


@pytest.mark.parametrize("variable", ["HOME", "LLM_MARL_CACHE"])
def test_a_cache_that_cannot_be_written_names_the_variable(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("LLM_MARL_CACHE", raising=False)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", Path("/proc/nowhere")):
        monkeypatch.setenv(variable, str(place))
        refusal = pytest.raises(ValueError, match="set LLM_MARL_CACHE")
        with refusal as refused, made_once(tmp_path / "model"):
            pass
        assert str(place) in str(refused.value)
        assert "\n" not in str(refused.value)


def test_without_a_home_the_variable_is_named(monkeypatch: pytest.MonkeyPatch):
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LLM_MARL_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(ValueError, match="no home folder: set LLM_MARL_CACHE"):
        cache_folder()
