"""The JSON schema of run files: presets fit, mistakes do not."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from llm_marl_envs.cli import main
from trainers.run_file import read_yaml
from trainers.run_schema import run_schema

PRESETS = sorted(Path(str(resources.files("trainers") / "presets")).glob("*.yaml"))


@pytest.fixture(scope="module")
def check() -> Draft202012Validator:
    schema = run_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("file", PRESETS, ids=lambda file: file.stem)
def test_every_preset_fits(check: Draft202012Validator, file: Path):
    assert [str(one) for one in check.iter_errors(read_yaml(file))] == []


RUN: dict[str, Any] = {
    "model": "tiny",
    "env": "crowd-v0",
    "env_kwargs": {"choices": 3, "single_seat": True},
    "lora": {"r": 4, "target_modules": "all-linear"},
    "trainer": {"algorithm": {"name": "hysteretic", "weight": 0.1}, "learning_rate": 1e-3},
}


@pytest.mark.parametrize(
    ("section", "name", "value", "words"),
    [
        ("", "modle", "tiny", "modle"),
        ("env_kwargs", "choices", 1, "minimum of 2"),
        ("env_kwargs", "nodes", 4, "nodes"),
        ("trainer", "learning_rat", 1e-3, "learning_rat"),
        ("trainer", "num_generations", "eight", "eight"),
        ("trainer", "algorithm", {"weight": 0.1}, "not valid"),
        ("lora", "rank", 4, "rank"),
    ],
)
def test_mistakes_are_seen(
    check: Draft202012Validator, section: str, name: str, value: Any, words: str
):
    run = deepcopy(RUN)
    assert [*check.iter_errors(run)] == []
    (run[section] if section else run)[name] = value
    (error,) = check.iter_errors(run)
    assert words in error.message


def test_settings_are_explained_where_they_are_typed(capsys: pytest.CaptureFixture[str]):
    assert main(["schema"]) == 0
    settings = json.loads(capsys.readouterr().out)["properties"]["trainer"]["properties"]
    assert settings["baseline"]["description"].startswith("What magrpo subtracts")
    assert {"magrpo", "cory"} <= {*settings["algorithm"]["anyOf"][0]["enum"]}
    assert "num_generations" in settings
    assert "use_vllm" not in settings
