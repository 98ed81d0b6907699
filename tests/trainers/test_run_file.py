"""What a run file may say, and what is refused before torch is imported."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llm_marl_envs.cli import main
from trainers import run_file
from trainers.algorithms import ALGORITHMS
from trainers.algorithms.magrpo import MAGRPO
from trainers.config import MAGRPOConfig
from trainers.run_file import EXPECTED, check_first, expected, presets, read

CALL = """
import sys
from llm_marl_envs.cli import main
status = main(sys.argv[1:])
assert "torch" not in sys.modules, "torch was imported first"
sys.exit(status)
"""


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("partners.x=expert", "partners: unknown key 'x'; known: ['helper_0', 'main_0']"),
        ("algorithm=magrp", "no such algorithm; did you mean 'magrpo'"),
    ],
)
def test_mistakes_are_said_before_torch_is_imported(override: str, said: str):
    words = ["train", "--config", "coop_coding_tiny", "--override", override]
    done = subprocess.run([sys.executable, "-c", CALL, *words], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("lr=1e-3", "trainer: unknown key 'lr'; did you mean 'learning_rate'"),
        ("env=coop_codng-v0", "coop_coding-v0"),
        ("env_kwargs.turn=2", "turns"),
        ("eval_env_kwargs.splt=val", "split"),
        ("partners.helper_0=exprt", "expert"),
        ("model={main: tiny}", "model: unknown key 'main'"),
        ("output_dir={file}", "a file"),
        ("plugins=[1]", "expected a list of modules"),
        ("env_kwargs={1: 2}", "env_kwargs: expected texts as keys, got 1"),
        ("eval_env_kwargs={split: vall}", "eval_env_kwargs: "),
    ],
)
def test_what_is_refused_first(tmp_path: Path, override: str, words: str):
    (tmp_path / "file").write_text("")
    override = override.replace("{file}", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=re.escape(words)):
        check_first("coop_coding_tiny", [override], trains=True)


def test_a_recipe_changes_the_seats(tmp_path: Path):
    """`cory` seats a pioneer and an observer, which only the recipe knows."""
    run = "model: {pioneer_0: tiny, observer_0: tiny}\nenv: matrix_game-v1\n"
    run += "partners: {observer_0: silent}\ntrainer: {algorithm: ALGORITHM, weights: separate}\n"
    for name in ("cory", "{name: cory}"):
        (tmp_path / "run.yaml").write_text(run.replace("ALGORITHM", name))
        assert check_first(tmp_path / "run.yaml", trains=True) == tmp_path / "run.yaml"
    (tmp_path / "run.yaml").write_text(run.replace("ALGORITHM", "magrpo"))
    with pytest.raises(ValueError, match="observer_0"):
        check_first(tmp_path / "run.yaml")


def test_an_algorithm_that_a_plugin_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = "from trainers.algorithms import register_algorithm\n"
    text += "from trainers.algorithms.magrpo import MAGRPO\n"
    (tmp_path / "own_kind.py").write_text(text + "register_algorithm('own_kind', MAGRPO)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ALGORITHMS, "added", {})
    check_first("coop_coding_tiny", ["plugins=[own_kind]", "algorithm=own_kind"])
    assert ALGORITHMS.get("own_kind") is MAGRPO


def test_an_error_of_any_kind_names_the_arguments_of_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Errors of JSON are values, too, and cannot be made of a text alone."""
    text = "import json\nfrom llm_marl_envs import make\ndef Env(text='{}', **more):\n"
    text += "    json.loads(text)\n    return make('matrix_game-v1')\n"
    (tmp_path / "own_env.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    changes = ["env=own_env:Env", "env_kwargs={}", "eval_env_kwargs={text: '{'}"]
    check_first("coop_coding_tiny", changes)
    with pytest.raises(ValueError, match="eval_env_kwargs: Expecting"):
        check_first("coop_coding_tiny", changes, trains=True)


def test_what_a_training_alone_needs_is_not_asked_of_others(tmp_path: Path):
    (tmp_path / "file").write_text("")
    changes = [f"output_dir={tmp_path / 'file'}", "eval_env_kwargs.split=vall"]
    check_first("coop_coding_tiny", changes)
    with pytest.raises(ValueError, match="a file"):
        check_first("coop_coding_tiny", changes, trains=True)


def test_a_folder_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="a file"):
        check_first("coop_coding_tiny", ["output_dir=~/file"], trains=True)


def test_malformed_yaml_names_its_line(tmp_path: Path):
    (tmp_path / "run.yaml").write_text("model: tiny\n env: coop_coding-v0\n")
    with pytest.raises(ValueError, match=r"run\.yaml, line 2: malformed YAML"):
        check_first(tmp_path / "run.yaml")


@pytest.mark.parametrize("long", ["x" * 5_000, "ab " * 1_700], ids=["word", "words"])
@pytest.mark.parametrize(
    "text",
    [
        "env: LONG",
        "model: {LONG: tiny}",
        "LONG: 1",
        "LONG: 1\nLONG: 2",
        "env_kwargs: {LONG: 1}",
        "env_kwargs: {split: LONG}",
        "env_kwargs: {turns: LONG}",
        "env_kwargs: {memory: {LONG: 1}}",
        "env_kwargs: {tools: {LONG: [LONG]}}",
        "eval_env_kwargs: {split: LONG}",
        "partners: {LONG: expert}",
        "partners: {debater_0: LONG/a/b}",
        "plugins: [LONG]",
        "plugins: LONG",
        "prompts: LONG",
        "prompts: {LONG: a}",
        "a: [LONG",
        "a: *LONG",
        "a: !LONG 1",
    ],
)
def test_a_long_text_is_quoted_in_part(tmp_path: Path, text: str, long: str):
    written = text if "*" in text or "!" in text else text.replace("LONG", json.dumps(long))
    run = {"model": "model: tiny", "env": "env: debate-v0"}
    lines = [line for key, line in run.items() if not text.startswith(f"{key}:")]
    file = tmp_path / "run.yaml"
    file.write_text("\n".join([*lines, written.replace("LONG", "x" * 5_000)]))
    with pytest.raises((ValueError, TypeError, ImportError)) as caught:
        check_first(file, trains=True)
    assert not re.search(r"x{201}|(ab ){67}", str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["memory: {3: 1}", "channel: {2026-01-01: 1}", "tools: {null: [x]}"]
)
def test_keys_that_are_no_texts_are_a_line(tmp_path: Path, text: str):
    file = tmp_path / "run.yaml"
    file.write_text(f"model: tiny\nenv: debate-v0\nenv_kwargs: {{{text}}}")
    with pytest.raises(TypeError, match="expected texts as keys, got"):
        check_first(file)


ACCENTS = "env: caf\u00e9\nmodel: tiny\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-32-be", "latin-1"])
def test_a_file_of_another_encoding_says_how_to_save_it(tmp_path: Path, encoding: str):
    file = tmp_path / "run.yaml"
    file.write_bytes(ACCENTS.encode(encoding))
    with pytest.raises(ValueError, match=r"run.yaml: .*save it as UTF-8") as refused:
        read(file)
    assert "\n" not in str(refused.value)
    file.write_bytes(ACCENTS.encode("utf-8-sig"))
    assert read(file)[1]["env"] == "caf\u00e9"


def test_a_pipe_is_a_run_file_that_is_read_twice():
    reads, writes = os.pipe()
    with open(writes, "w") as into:
        into.write(ACCENTS)
    for _ in range(2):
        assert read(f"/dev/fd/{reads}")[1]["model"] == "tiny"
    os.close(reads)


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("trainers.run_file.PATIENCE", 0.1)
    os.mkfifo(tmp_path / "silent")
    for place, words in (
        (tmp_path, "a folder; expected a file, or a preset"),
        (tmp_path / "silent", "nothing came within 0.1 s"),
        ("/dev/zero", "more than 10000000 bytes"),
        ("/dev/null", "expected a map"),
        ("", "no such file"),
    ):
        with pytest.raises(ValueError, match=words):
            read(place)


@pytest.mark.parametrize("name", presets())
def test_every_preset_passes(name: str):
    check_first(name)
    assert presets()[name].read_text().startswith(EXPECTED)
    assert len(expected(presets()[name])) > 20


def test_what_the_file_says_of_the_config_is_true():
    given = {field.name: field.default for field in dataclasses.fields(MAGRPOConfig)}
    assert {name: given[name] for name in run_file.NAMED} == run_file.NAMED
    assert not set(run_file.COMMON_NAMES) & set(given)
    assert set(run_file.COMMON_NAMES.values()) <= set(given)


def test_presets_are_listed_and_printed(capsys: pytest.CaptureFixture[str]):
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * len(presets())
    assert lines[0] == "agents_net_tiny  (agents_net-v0)"
    assert all("minute" in line or "second" in line or " s of" in line for line in lines[1::2])
    assert main(["presets", "kuhn_poker_tiny"]) == 0
    assert capsys.readouterr().out == presets()["kuhn_poker_tiny"].read_text()
    assert main(["presets", "kuhn_poker"]) == 2
    assert "did you mean 'kuhn_poker_tiny'" in capsys.readouterr().err
