"""A bridge without its library says which extra brings it."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("bridge", "library"),
    [
        ("benchmarl", "benchmarl"),
        ("inspect", "inspect_ai"),
        ("openenv", "openenv"),
        ("torchrl", "torchrl"),
        ("verifiers", "verifiers"),
    ],
)
def test_the_error_names_the_extra(
    bridge: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [module for module in sys.modules if module.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"llm_marl_envs.bridges.{bridge}", raising=False)
    message = rf"needs the extra '{bridge}': pip install 'llm-marl-envs\[{bridge}\]'"
    with pytest.raises(ImportError, match=message):
        importlib.import_module(f"llm_marl_envs.bridges.{bridge}")
