"""What a run file may say, and what is refused before torch is imported."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llm_marl_envs.cli import main
from trainers import run_file
from trainers.config import MAGRPOConfig
from trainers.run_file import EXPECTED, check_first, expected, presets

CALL = """
import sys
from llm_marl_envs.cli import main
status = main(sys.argv[1:])
assert "torch" not in sys.modules, "torch was imported first"
sys.exit(status)
"""


def test_mistakes_are_said_before_torch_is_imported():
    words = ["train", "--config", "coop_coding_tiny", "--override", "partners.x=expert"]
    done = subprocess.run([sys.executable, "-c", CALL, *words], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "partners: unknown key 'x'; known: ['helper_0', 'main_0']" in done.stderr
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
    ],
)
def test_what_is_refused_first(tmp_path: Path, override: str, words: str):
    (tmp_path / "file").write_text("")
    override = override.replace("{file}", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=re.escape(words)):
        check_first("coop_coding_tiny", [override])


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
