"""Algorithms of papers by name: what a recipe sets, and what a run that differs is called."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.models import make_trainer
from support.toys import Lower

from llm_marl_envs import make
from trainers import MAGRPOConfig
from trainers.algorithms import ALGORITHMS
from trainers.recipes import RECIPES, Recipe, label, recipe_named
from trainers.train import read_run

WANTED = {
    "cory": {
        "algorithm": "magrpo",
        "schedules": {"exchange": {"every": 5}},
        "credit": "team",
        "beta": 0.01,
    },
    "maporl": {
        "algorithm": "magrpo",
        "returns": {"name": "maporl", "bonus": "potential", "discount": 0.3, "scale": 0.5},
    },
    "mareinforce": {"algorithm": "magrpo", "baseline": "none"},
    "maremax": {"algorithm": "magrpo", "baseline": "max"},
}


def config(folder: Path, **given: Any) -> MAGRPOConfig:
    return MAGRPOConfig(str(folder), use_cpu=True, **given)


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_name_sets_what_the_paper_says(tmp_path: Path, name: str):
    args = config(tmp_path, algorithm=name)
    assert {key: getattr(args, key) for key in WANTED[name]} == WANTED[name]
    assert args.recipe == name
    again = config(tmp_path, recipe=name, **WANTED[name])  # as a resumed run has it
    assert label(again, recipe_named(name).env_kwargs) == name  # type: ignore[union-attr]


def test_happo_takes_the_critic_of_mappo_and_learns_in_sequence(tmp_path: Path):
    args = config(tmp_path, algorithm={"name": "happo"})
    assert isinstance(args.algorithm, dict)
    assert args.algorithm["name"] == "mappo"
    assert (args.schedules, args.num_iterations) == ({"sequential": {"clip": None}}, 2)


def test_names_of_recipes_are_no_names_of_estimators():
    assert not set(RECIPES.names()) & set(ALGORITHMS.names())
    for name in RECIPES.names():
        recipe = recipe_named(name)
        assert recipe is not None
        assert recipe.paper
        assert recipe.about.endswith(".")
        assert recipe.deviations


def test_what_differs_is_called_modified(tmp_path: Path):
    reader = {"pioneer_observer": True}
    assert label(config(tmp_path, algorithm="cory"), reader) == "cory"
    assert label(config(tmp_path, algorithm="cory"), {}) == "cory (modified)"
    assert label(config(tmp_path, algorithm="cory", beta=0.1), reader) == "cory (modified)"
    every = {"exchange": {"every": 7}}
    assert label(config(tmp_path, algorithm="cory", schedules=every), reader) == "cory (modified)"
    assert label(config(tmp_path, algorithm="maremax"), {}) == "maremax"
    assert label(config(tmp_path), {}) is None


def test_a_setting_that_is_given_stays_also_at_its_default(tmp_path: Path):
    args = config(tmp_path, algorithm="cory", beta=0.0)
    assert (args.beta, args.credit, args.schedules) == (0.0, "team", {"exchange": {"every": 5}})
    assert label(args, {"pioneer_observer": True}) == "cory (modified)"
    file = tmp_path / "run.yaml"
    file.write_text("model: tiny\nenv: debate\ntrainer: {algorithm: happo, num_iterations: 1}\n")
    given = {**read_run(file)["trainer"], "output_dir": str(tmp_path), "use_cpu": True}
    assert MAGRPOConfig(**given).num_iterations == 1
    assert label(MAGRPOConfig(**given), {}) == "happo (modified)"


def test_copies_of_a_config_follow_the_same_recipe(tmp_path: Path):
    args = config(tmp_path, algorithm="cory", beta=0.0)
    for again in (copy.copy(args), copy.deepcopy(args), pickle.loads(pickle.dumps(args))):
        assert (again.recipe, again.algorithm, again.beta) == ("cory", "magrpo", 0.0)


def test_settings_beside_a_recipe_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="'cory' is a recipe"):
        config(tmp_path, algorithm={"name": "cory", "every": 3})
    with pytest.raises(ValueError, match="did you mean"):
        config(tmp_path, algorithm="magrop")


def test_a_run_file_gets_the_seats_that_a_recipe_needs(tmp_path: Path):
    file = tmp_path / "run.yaml"
    file.write_text("model: tiny\nenv: matrix_game\ntrainer: {algorithm: cory, beta: 0.02}\n")
    run = read_run(file)
    assert run["env_kwargs"] == {"pioneer_observer": True}
    assert (run["trainer"]["beta"], run["trainer"]["credit"]) == (0.02, "team")
    assert make("matrix_game", **run["env_kwargs"]).possible_agents == ["pioneer_0", "observer_0"]


def test_a_team_says_which_recipe_taught_it(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower, algorithm="mareinforce")
    trainer.train()
    trainer.save_team(tmp_path / "team")
    assert "mareinforce" in (tmp_path / "team" / "README.md").read_text()
    written = json.loads((tmp_path / "settings.json").read_text())["settings"]["trainer"]
    assert (written["recipe"], written["algorithm"], written["baseline"]) == (
        "mareinforce",
        "magrpo",
        "none",
    )
    other = make_trainer(tmp_path / "other", Lower, algorithm="mareinforce", baseline="max")
    assert other.args.recipe == "mareinforce (modified)"


def test_a_recipe_of_another_package_is_used_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    mine = Recipe(
        title="Mine",
        about="Half of the past counts.",
        paper="nobody",
        algorithm={"name": "hysteretic", "weight": 0.5},
        trainer={"discount": 0.5},
        deviations=("none",),
    )
    monkeypatch.setitem(RECIPES.added, "mine", mine)
    args = config(tmp_path, algorithm="mine")
    assert args.algorithm == {"name": "hysteretic", "weight": 0.5}
    assert (args.discount, label(args, {})) == (0.5, "mine")
