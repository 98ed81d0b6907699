"""A run file that names what is not in this library: environment, algorithm, policy, plug-ins."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.models import untrained
from support.paths import ROOT

from trainers.algorithms import ALGORITHMS, Algorithm, algorithm_class, register_algorithm
from trainers.algorithms.magrpo import MAGRPO
from trainers.studies.demo import run_demo
from trainers.train import read_run, run_train

STRANGER = ROOT / "tests" / "support" / "stranger_package"


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that trains one seat of the stranger's environment beside the stranger's policy."""
    shutil.copytree(STRANGER / "stranger_marl", tmp_path / "mine_marl")
    monkeypatch.syspath_prepend(tmp_path)
    model, tokenizer = untrained()
    for name in ("model", "other"):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    run = {
        "model": str(tmp_path / "model"),
        "env": "mine_marl:Echo",
        "partners": {"right_0": "mine_marl:parrot"},
        "trainer": {
            "output_dir": str(tmp_path / "run"),
            "algorithm": "mine_marl.algorithms:Halved",
            "max_steps": 1,
            "tasks_per_update": 2,
            "num_generations": 2,
            "max_completion_length": 4,
            "report_to": "none",
        },
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(run))
    return path


def settings(path: Path) -> Any:
    return json.loads((path.parent / "run" / "settings.json").read_text())["settings"]


def test_a_run_of_a_stranger_s_parts(run_file: Path) -> None:
    folder = run_train(run_file)
    assert (folder / "team.json").is_file()
    found = settings(run_file)
    assert found["env"] == "mine_marl:Echo"
    assert found["trainer"]["algorithm"] == "mine_marl.algorithms:Halved"
    assert [*found["partners"]] == ["right_0"]


def test_a_model_for_each_policy(run_file: Path) -> None:
    run = yaml.safe_load(run_file.read_text())
    folder = run_file.parent
    run["model"] = {"left_0": str(folder / "model"), "right_0": str(folder / "other")}
    run["partners"] = {}
    run["trainer"]["weights"] = "separate"
    run_file.write_text(yaml.safe_dump(run))
    described = json.loads((run_train(run_file) / "team.json").read_text())
    assert described["agents"]
    with pytest.raises(ValueError, match="model: expected one for all policies here"):
        run_demo(output=str(folder / "demo"), preset=str(run_file))
    run["model"] = {"left_0": 3}
    run_file.write_text(yaml.safe_dump(run))
    with pytest.raises(ValueError, match="needs 'model', a text, or a map from policy to text"):
        read_run(run_file)


def test_plugins_of_a_run_file_register(run_file: Path, own_registry: None) -> None:
    (run_file.parent / "brings_halved.py").write_text(
        "from mine_marl.algorithms import Halved\n"
        "from trainers.algorithms import register_algorithm\n"
        "register_algorithm('halved', Halved)\n"
    )
    run = yaml.safe_load(run_file.read_text())
    run["plugins"] = ["brings_halved"]
    run["trainer"]["algorithm"] = "halved"
    run_file.write_text(yaml.safe_dump(run))
    run_train(run_file)
    assert settings(run_file)["trainer"]["algorithm"] == "halved"
    run["plugins"] = "brings_halved"
    run_file.write_text(yaml.safe_dump(run))
    with pytest.raises(ValueError, match="plugins: expected a list of modules"):
        read_run(run_file)


def test_algorithms_by_name(own_registry: None) -> None:
    assert {"magrpo", "rejection"} <= {*ALGORITHMS.names()}
    register_algorithm("mine", MAGRPO)
    assert algorithm_class("mine") is MAGRPO
    with pytest.raises(ValueError, match="algorithm 'magrpo' is there already"):
        register_algorithm("magrpo", MAGRPO)
    with pytest.raises(ValueError, match="no algorithm 'magrp'; did you mean 'magrpo'"):
        algorithm_class("magrp")
    with pytest.raises(TypeError, match="expected a subclass of Algorithm"):
        algorithm_class("json:loads")
    register_algorithm("nameless", type("Nameless", (Algorithm,), {}))
    with pytest.raises(TypeError, match="algorithm 'nameless': Nameless has no name"):
        algorithm_class("nameless")
