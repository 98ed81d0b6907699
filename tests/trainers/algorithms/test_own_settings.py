"""Settings of one algorithm: in a run file, on the command line, in a sweep, in a resumed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.models import make_trainer, untrained, weights
from support.toys import Lower

from trainers.algorithms import ALGORITHMS, algorithm_class, chosen_algorithm
from trainers.config import MAGRPOConfig
from trainers.studies.sweep import read_sweep
from trainers.train import read_run

pytestmark = pytest.mark.full  # `make test-all` runs it


def test_a_name_stands_for_its_defaults():
    assert chosen_algorithm("hysteretic") == {"name": "hysteretic", "weight": 0.2}
    assert chosen_algorithm({"name": "hysteretic", "weight": 0}) == {
        "name": "hysteretic",
        "weight": 0,
    }
    assert chosen_algorithm({"name": "magrpo"}) == chosen_algorithm("magrpo") == "magrpo"
    assert MAGRPOConfig("x", algorithm="hysteretic").algorithm == chosen_algorithm("hysteretic")


@pytest.mark.parametrize(
    ("chosen", "error", "words"),
    [
        (
            {"name": "hysteretic", "weigth": 1},
            ValueError,
            "unknown key 'weigth'; did you mean 'weight'",
        ),
        (
            {"name": "magrpo", "weight": 1},
            ValueError,
            "algorithm, name='magrpo': unknown key 'weight'",
        ),
        (
            {"name": "hysteretic", "weight": "0.1"},
            TypeError,
            "expected a number, 0 to 10, without quotes",
        ),
        ({"name": "hysteretic", "weight": 11}, ValueError, "expected a number, 0 to 10"),
        (
            {"name": "hysteretik"},
            ValueError,
            "no algorithm 'hysteretik'; did you mean 'hysteretic'",
        ),
        ({"weight": 0.1}, ValueError, "expected a name, or a map with one as 'name'"),
        (3, TypeError, "algorithm=3: expected text or a map"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_when_the_run_is_configured(
    chosen: Any, error: type[Exception], words: str
):
    with pytest.raises(error, match=words):
        MAGRPOConfig("runs/none", algorithm=chosen)


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    model, tokenizer = untrained()
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "base")
    run = {
        "model": str(tmp_path / "base"),
        "env": "coop_coding-v0",
        "trainer": {"algorithm": "hysteretic", "max_steps": 1, "use_cpu": True},
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(run))
    return path


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["algorithm.weight=0.1"], {"name": "hysteretic", "weight": 0.1}),
        (["trainer.algorithm.weight=1e-1"], {"name": "hysteretic", "weight": 0.1}),
        (["algorithm=rae", "algorithm.rate=0.1"], {"name": "rae", "rate": 0.1}),
        (["algorithm={name: rae, rate: 0.1}"], {"name": "rae", "rate": 0.1}),
        (["algorithm.roles.a_0=x"], {"name": "hysteretic", "roles.a_0": "x"}),
    ],
    ids=str,
)
def test_an_override_reaches_one_setting(run_file: Path, overrides: list[str], expected: Any):
    assert read_run(run_file, overrides)["trainer"]["algorithm"] == expected


def test_so_with_every_part_that_has_settings(run_file: Path):
    trainer = read_run(run_file, ["returns.name=maporl", "returns.scale=2"])["trainer"]
    assert trainer["returns"] == {"name": "maporl", "scale": 2}
    assert read_run(run_file, ["engine.x=1"])["trainer"]["engine"] == {"name": "generate", "x": 1}
    with pytest.raises(ValueError, match="unknown key 'algorithms'"):
        read_run(run_file, ["algorithms.weight=0.1"])


def test_a_sweep_over_one_setting(run_file: Path):
    sweep = {"run": run_file.name, "output": str(run_file.parent / "out")}
    path = run_file.parent / "sweep.yaml"
    path.write_text(yaml.safe_dump({**sweep, "grid": {"algorithm.weight": [0.1, 0.5]}}))
    points = read_sweep(path)
    assert [point.name for point in points] == [
        "algorithm.weight-0.1_seed-0",
        "algorithm.weight-0.5_seed-0",
    ]
    assert points[1].run["trainer"]["algorithm"] == {"name": "hysteretic", "weight": 0.5}
    both = {"algorithm.weight": [0.1], "algorithm": ["rae"]}
    path.write_text(yaml.safe_dump({**sweep, "grid": both}))
    with pytest.raises(ValueError, match="set the same thing"):
        read_sweep(path)


FLAT = [name for name in ALGORITHMS.names() if not algorithm_class(name).branching]


@pytest.mark.parametrize("name", FLAT)  # those that branch: experience/test_branching.py
def test_a_run_of_two_updates(tmp_path: Path, name: str):
    """Every algorithm moves the weights of every policy."""
    credit = "team" if name == "marft" else "own"
    trainer = make_trainer(tmp_path, Lower, algorithm=name, credit=credit)
    start = weights(trainer)
    trainer.train()
    assert trainer.state.global_step == 2
    assert not any(torch.equal(value, start[p]) for p, value in weights(trainer).items())


def test_a_run_goes_on_with_its_own_settings_alone(tmp_path: Path):
    changes: dict[str, Any] = {"max_steps": 1, "save_strategy": "steps", "save_steps": 1}
    make_trainer(tmp_path, Lower, algorithm="hysteretic", **changes).train()
    assert "`hysteretic`" in (tmp_path / "checkpoint-1" / "README.md").read_text()
    other = {"name": "hysteretic", "weight": 0.75}
    with pytest.raises(ValueError, match=r"algorithm\.weight: 0\.2 -> 0\.75"):
        make_trainer(tmp_path, Lower, algorithm=other, **changes).train(resume_from_checkpoint=True)
    same = {"name": "hysteretic", "weight": 0.2}
    again = make_trainer(tmp_path, Lower, algorithm=same, **{**changes, "max_steps": 2})
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 2
