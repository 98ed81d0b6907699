"""Typical mistakes at the command line: one readable line and status 2, no traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.models import untrained

from llm_marl_envs.cli import main

RUN = """
model: base
env: matrix_game-v1
trainer:
  output_dir: run
  max_steps: 1
  tasks_per_update: 1
  num_generations: 2
  max_completion_length: 4
  use_cpu: true
  save_strategy: steps
  save_steps: 1
"""
BAR = re.compile(r"Loading weights: .*\|")
"""How far transformers is."""
CHANGED = ["--override", "resume_from_checkpoint=true", "--override", "learning_rate=0.5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its run file, the run, and what mistakes are made with."""
    folder = tmp_path_factory.mktemp("mistakes")
    model, tokenizer = untrained()
    for name in ("base", "bare"):
        model.save_pretrained(folder / name)
    tokenizer.save_pretrained(folder / "base")
    (folder / "run.yaml").write_text(RUN)
    (folder / "key.yaml").write_text(RUN.replace("max_steps", "max_stepz"))
    (folder / "seat.yaml").write_text(f"{RUN}partners: {{player_7: random}}\n")
    (folder / "a_file").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "--config", "run.yaml"]) == 0
    return folder


TRAIN = ["train", "--config", "run.yaml", "--override"]
EVAL = ["eval", "coop_coding-v0", "--team", "expert"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param(["play", "coop_codin-v0"], "coop_coding-v0", id="wrong id"),
        pytest.param(["train", "--config", "key.yaml"], "max_steps", id="wrong key"),
        pytest.param(["train", "--config", "no.yaml"], "no.yaml", id="missing file"),
        pytest.param([*EVAL, "--set", "tasks=no.jsonl"], "no.jsonl", id="missing tasks"),
        pytest.param([*TRAIN, "max_steps=two"], "whole number", id="wrong type"),
        pytest.param([*EVAL, "--set", "turns=two"], "whole number", id="wrong type of an argument"),
        pytest.param([*TRAIN, "model=bare"], "tokenizer.json", id="no tokenizer"),
        pytest.param(["train", "--config", "run.yaml"], "output_dir", id="second run"),
        pytest.param(["train", "--config", "run.yaml", *CHANGED], "learning_rate", id="changed"),
        pytest.param(["train", "--config", "seat.yaml"], "player_7", id="wrong partner"),
        pytest.param(["play", "coop_coding-v0", "--agent", "x_0"], "main_0", id="wrong seat"),
        pytest.param([*TRAIN, "max_steps=-2"], "max_steps", id="negative setting"),
        pytest.param([*EVAL, "--tasks", "-3"], "--tasks", id="negative count"),
        pytest.param(["demo", "--tasks", "0"], "--tasks", id="no tasks"),
        pytest.param(["demo", "--seed", "-1"], "seed", id="negative seed"),
        pytest.param(
            ["eval", "matrix_game-v1", "--team", "random"], "--tasks all", id="too many tasks"
        ),
        pytest.param([*EVAL, "--output", "a_file/x"], "a_file", id="a file for a folder"),
        pytest.param([*TRAIN, "output_dir=/proc/x"], "/proc/x", id="folder that is refused"),
        pytest.param(["demo", "--output", "/proc/x"], "/proc/x", id="folder of a demo"),
    ],
)
def test_a_mistake_is_answered_in_one_line(
    command: list[str],
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LLM_MARL_CACHE", str(folder / "cache"))  # no model is made before it
    before = sorted(folder.rglob("*"))
    try:
        status = main(command)
    except SystemExit as stop:  # of argparse
        status = stop.code
    lines = [line for line in capsys.readouterr().err.splitlines() if line and not BAR.match(line)]
    assert status == 2
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"llm-marl {command[0]}: ")
    assert words in lines[0]
    assert sorted(folder.rglob("*")) == before
