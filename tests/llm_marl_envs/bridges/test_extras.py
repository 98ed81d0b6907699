from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("bridge", "missing"), [("torchrl", "torchrl"), ("benchmarl", "benchmarl")]
)
def test_a_missing_library_is_an_error_that_names_the_extra(
    bridge: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"llm_marl_envs.bridges.{bridge}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"pip install 'llm-marl-envs\[{bridge}\]'"):
        importlib.import_module(module)
