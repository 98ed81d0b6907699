"""Trained baselines: which runs there are, that they cost the same, and what is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.toys import Lower, WordPair, word_tasks

from llm_marl_envs import make
from llm_marl_envs.cli import main
from llm_marl_envs.core import specs
from llm_marl_envs.core.specs import EnvSpec
from llm_marl_envs.files.json_files import write_json
from trainers import MAGRPOConfig
from trainers.algorithms import make_algorithm
from trainers.studies import trained_baselines
from trainers.studies.sweep import collect_results, read_sweep
from trainers.studies.sweep_run import alone, run_point
from trainers.studies.trained_baselines import (
    TUNING_SEED,
    best_rates,
    methods,
    run_trained_baselines,
)
from trainers.studies.trained_baselines_report import baselines_table, headline, save_picture
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer

pytestmark = pytest.mark.full  # `make test-all` runs it


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run file with an untrained model whose context holds what a single writer is told."""
    told = make("coop_coding-v0").opening(make("coop_coding-v0").source[0])
    tokenizer = build_tokenizer([message.content for message in told["main_0"]], 300)
    sizes = TinySettings(hidden_size=16, num_layers=1, num_heads=2, intermediate_size=16)
    build_model(tokenizer, 0, sizes).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    trainer = {
        "max_steps": 3,
        "tasks_per_update": 1,
        "num_generations": 2,
        "max_completion_length": 5,
        "learning_rate": 1e-3,
        "transcript_every": 0,
        "use_cpu": True,
        "disable_tqdm": True,
    }
    run = {
        "model": str(tmp_path / "base"),
        "env": "coop_coding-v0",
        "env_kwargs": {"split": "train"},
        "lora": {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]},
        "trainer": trainer,
    }
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(run))
    return file


@pytest.fixture
def lower_case(monkeypatch: pytest.MonkeyPatch) -> str:
    """An environment that pays differently for any two texts, so that every update trains."""

    def entry_point(split: str = "train") -> Lower:
        return Lower(tasks=word_tasks(split), turns=1)

    spec = EnvSpec(id="lower_case-v0", entry_point=entry_point)
    monkeypatch.setitem(specs._specs(), spec.id, spec)
    return spec.id


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Carry out sweeps here: a process of its own for each run takes long to start."""

    def carry_out(file: Path, *, jobs: int) -> dict[str, Any]:
        points = read_sweep(file)
        waiting = [point for point in points if point.summary() is None]
        print(f"{len(points)} runs, {len(points) - len(waiting)} finished before")
        for point in waiting:
            run_point(point)
        results = collect_results(points)
        write_json(points[0].folder.parent / "results.json", results)
        return results

    monkeypatch.setattr(trained_baselines, "run_sweep", carry_out)


ROWS = {"tasks": "bundled:coop_problems", "info": "full", "split": "all"}


def described(**changes: Any) -> dict[str, Any]:
    run = {
        "model": "tiny",
        "env": "debate-v0",
        "env_kwargs": {"n_agents": 3},
        "lora": {"r": 4, "lora_alpha": 6},
        "trainer": {"max_steps": 8},
    }
    return {**run, **changes}


def test_each_method_has_the_same_budget():
    """Three debaters: the single policy's rank is 3 x 4; 8 updates are 3 + 3 + 2."""
    found = {method.name: method for method in methods(described())}
    assert list(found) == ["team", "single", "alone", "rejection"]
    assert found["team"].runs == {"team": {}}
    assert found["single"].runs["single"] == {
        "env_kwargs.single_seat": True,
        "lora.r": 12,
        "lora.lora_alpha": 18,
    }
    alone = found["alone"]
    assert alone.seats == {f"debater_{i}": f"alone_debater_{i}" for i in range(3)}
    assert [one["max_steps"] for one in alone.runs.values()] == [3, 3, 2]
    assert alone.runs["alone_debater_1"]["frozen"] == ["debater_0", "debater_2"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lora": None}, "lora=None: expected a section with settings"),
        ({"lora": True}, "lora=True: expected a section"),
        ({"lora": {"r": 4, "modules_to_save": ["lm_head"]}}, r"\['lora.modules_to_save'\] set"),
        ({"lora": {"r": 4, "bias": "all", "use_dora": True}}, r"\['lora.use_dora', 'lora.bias'\]"),
        ({"trainer": {"max_steps": 2}}, "max_steps=2: expected at least one for each seat"),
        ({"trainer": {"max_steps": "8"}}, "max_steps='8'"),
        ({"trainer": {}}, "max_steps=0"),
        ({"partners": {"debater_0": "expert"}}, r"\['partners'\] set"),
        ({"trainer": {"max_steps": 8, "frozen": ["debater_0"]}}, r"\['trainer.frozen'\] set"),
        ({"trainer": {"max_steps": 8, "weights": "shared"}}, "weights='shared': expected an"),
        ({"trainer": {"max_steps": 8, "returns": "maporl"}}, "trainer.returns"),
        ({"trainer": {"max_steps": 8, "discount": 0.5}}, "discount: expected 1"),
        (
            {"trainer": {"max_steps": 8, "policy_learning_rates": {"debater_0": 1.0}}},
            "trainer.policy_learning_rates",
        ),
        ({"env_kwargs": {"single_seat": True}}, "expected two or more"),
        ({"env_kwargs": {"split": "test"}}, "split 'test': expected another one"),
        ({"env": "coop_coding-v0", "env_kwargs": ROWS}, "split 'all': expected another one"),
    ],
)
def test_runs_whose_costs_cannot_be_made_equal_are_refused(changes: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=f"cannot be made equal to this run: .*{words}"):
        methods(described(**changes))


def test_settings_that_change_nothing_are_no_obstacle():
    off = {"weights": "adapters", "returns": "discounted", "frozen": [], "policies": {}}
    lora = {"r": 4, "bias": "none", "use_dora": False}
    assert len(methods(described(trainer={"max_steps": 8, **off}, lora=lora))) == 4


@pytest.mark.parametrize(
    ("asked", "left_out"),
    [({"scale_rewards": "group"}, "none"), ({"baseline": "mean"}, "leave_one_out")],
)
def test_rejection_runs_without_a_scale_or_a_baseline(asked: dict[str, str], left_out: str):
    imitating = methods(described(trainer={"max_steps": 8, **asked}))[-1].runs["rejection"]
    assert imitating == {"algorithm": "rejection", **dict.fromkeys(asked, left_out)}
    make_algorithm("rejection", MAGRPOConfig("runs/none", **imitating))


def test_adapters_of_the_default_rank_have_a_budget_too():
    assert methods(described(lora={}))[1].runs["single"]["lora.r"] == 24  # PEFT's 8 for 3 seats


def test_a_team_that_imitates_already_is_not_compared_with_itself():
    run = described(trainer={"max_steps": 8, "algorithm": "rejection"}, env_kwargs=None)
    assert [method.name for method in methods(run)] == ["team", "single", "alone"]


def test_the_best_rate_is_chosen_for_each_run_and_the_first_of_equals():
    def one(name: str, rate: float, earned: float) -> dict[str, Any]:
        settings = {"variant": name, "learning_rate": rate}
        return {"settings": settings, "results": {"mean_return": earned}}

    runs = [
        one("a", 1, 0.2),
        one("b", 1, 0.9),
        one("a", 2, 0.5),
        one("b", 2, 0.9),
        one("a", 3, 0.4),
    ]
    assert best_rates({"runs": runs}) == {"a": 2, "b": 1}


def test_the_table_pairs_seeds():
    """The team is ahead of "single" by 0.5 and 0.3: 0.40, Student's t 12.706 x 0.1."""

    def one(seed: int, before: float, after: float, start: str, read: Any) -> dict[str, Any]:
        measured = [{"mean_return": value, "cooperation": value} for value in (before, after)]
        costs = {"tokens": 100.0, "prompt_tokens": read, "parameters": 7, "updates": 3}
        return {"seed": seed, "before": measured[0], "after": measured[1], "start": start, **costs}

    found = {
        "methods": {
            "team": [one(0, 0.1, 0.9, "t0", 500), one(1, 0.3, 0.7, "t1", 501)],
            "single": [one(0, 0.2, 0.4, "s0", 900), one(1, 0.2, 0.4, "t1", None)],
        },
        "learning_rates": {"team": 1e-3, "single": 2e-3},
        "trials": 2,
        "tasks": 64,
    }
    team, single = baselines_table(found).splitlines()[1:3]
    row = "team - 0.80 [too few runs: 2] 0.80 [too few runs: 2] 0.20 A 100 500 7 3 0.001"
    assert team.split() == row.split()
    few = "[too few runs: 2]"
    row = f"single - 0.40 {few} 0.40 {few} 0.20 0.40 {few} B 100 - 7 3 0.002"
    assert single.split() == row.split()
    del found["methods"]["single"][1]["after"]["cooperation"]
    assert headline(found) == "mean_return"


@pytest.mark.usefixtures("in_process")
def test_all_methods_are_tuned_trained_and_measured(
    run: Path, lower_case: str, tmp_path: Path, capsys: Any
):
    asked: dict[str, Any] = {"output": tmp_path / "out", "seeds": 1, "tasks": 2}
    asked |= {"learning_rates": [2e-3, 3e-3], "overrides": [f"env={lower_case}"]}
    found = run_trained_baselines(run, **asked)
    out = tmp_path / "out"
    for sweep, split in (("tuning", "val"), ("final", "test")):
        plans = [json.loads(file.read_text()) for file in out.glob(f"{sweep}/*/eval/plan.json")]
        assert len(plans) == (10 if sweep == "tuning" else 5)
        assert {plan["env_kwargs"]["split"] for plan in plans} == {split}
    for point in read_sweep(out / "final.yaml"):
        rate = found["learning_rates"][point.settings["variant"]]
        assert point.run["trainer"]["learning_rate"] == rate in (2e-3, 3e-3)
    tuning = json.loads((tmp_path / "out" / "tuning" / "results.json").read_text())
    assert {one["seed"] for one in tuning["runs"]} == {TUNING_SEED}
    assert len(tuning["runs"]) == 2 * 5
    assert found["learning_rates"] == best_rates(tuning)
    trained = {name: some[0] for name, some in found["methods"].items()}
    # One q_proj of 16 x 16: r (16 + 16) weights for each seat, twice r for the single policy.
    assert {one["parameters"] for one in trained.values()} == {2 * 2 * (16 + 16)}
    assert {one["updates"] for one in trained.values()} == {3}
    # At most 5 tokens of 2 seats in 2 episodes of 3 updates, frozen seats included.
    assert all(30 < one["tokens"] <= 60 for one in trained.values())
    # The methods begin alike with a model that the run file names. Each action reads its own
    # prompt, and the environment's first message is the same for a seat in every one of them.
    assert {one["start"] for one in trained.values()} == {str(tmp_path / "base")}
    assert trained["team"]["prompt_tokens"] == trained["rejection"]["prompt_tokens"] > 12 * 10
    # Seats that train alone meet other tasks, whose words are a token longer or shorter.
    assert abs(trained["team"]["prompt_tokens"] - trained["alone"]["prompt_tokens"]) <= 12
    assert trained["single"]["prompt_tokens"] > trained["team"]["prompt_tokens"]
    for one in trained.values():
        for when in (one["after"], one["before"]):  # a match where some seat shows a convention
            assert set(when) - {"match"} == {"mean_return", "success", "cooperation"}
    table = baselines_table(found)
    assert [line.split()[0] for line in table.splitlines()[1:5]] == [*trained]
    assert save_picture(found, tmp_path / "out").stat().st_size > 10_000
    with_curves = (out / "trained_baselines.png").read_bytes()
    for log in out.glob("final/*/train/log.jsonl"):
        log.unlink()
    assert save_picture(found, out).read_bytes() != with_curves
    capsys.readouterr()
    assert run_trained_baselines(run, **asked) == found
    assert "5 runs, 5 finished before" in capsys.readouterr().out


@pytest.mark.usefixtures("in_process")
def test_what_is_wrong_is_said_before_anything_is_trained_or_written(
    run: Path, lower_case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trained_baselines, "run_sweep", lambda *_, **__: pytest.fail("trained"))
    asked: dict[str, Any] = {"output": tmp_path / "out", "learning_rates": [1e-3, 2e-3], "tasks": 2}
    asked["overrides"] = [f"env={lower_case}"]
    for wrong, words in (
        ({"tasks": 10**6}, "n_tasks=1000000"),
        ({"seeds": 0}, "seeds=0: expected at least 1"),
        ({"learning_rates": [1e-3, 1e-3]}, "is a value listed twice"),
    ):
        with pytest.raises(ValueError, match=words):
            run_trained_baselines(run, **{**asked, **wrong})
        assert not list((tmp_path / "out").glob("*.yaml"))


@pytest.mark.usefixtures("in_process")
@pytest.mark.long
def test_a_comparison_of_other_settings_leaves_the_folder_as_it_was(
    run: Path, lower_case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: dict[str, Any] = {"output": tmp_path / "out", "seeds": 1, "tasks": 2}
    own = [f"env={lower_case}", "max_steps=2"]
    run_trained_baselines(run, **asked, overrides=own)
    files = {file: file.read_bytes() for file in (tmp_path / "out").glob("*.*")}
    with pytest.raises(ValueError, match="a run of other settings lies there"):
        run_trained_baselines(run, **asked, overrides=[f"env={lower_case}", "max_steps=4"])
    assert {file: file.read_bytes() for file in (tmp_path / "out").glob("*.*")} == files
    # Also before anything is tuned; a comparison with one of the rates is no other one.
    monkeypatch.setattr(trained_baselines, "run_sweep", lambda *_, **__: pytest.fail("trained"))
    for rates, error in (
        ([2e-3, 3e-3], pytest.raises(ValueError, match="a run of other settings lies there")),
        ([1e-3, 2e-3], pytest.raises(pytest.fail.Exception, match="trained")),
    ):
        assert {file: file.read_bytes() for file in files} == files
        with error:
            run_trained_baselines(run, **asked, overrides=own, learning_rates=rates)


def test_two_processes_do_not_work_on_one_comparison(
    run: Path, lower_case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: dict[str, Any] = {"output": tmp_path / "out", "seeds": 1, "tasks": 2}
    asked["overrides"] = [f"env={lower_case}"]
    with (
        alone(tmp_path / "out"),
        pytest.raises(ValueError, match="out: another process works on it"),
    ):
        run_trained_baselines(run, **asked)
    busy = {"runs": [], "missing": ["variant-team_seed-0"]}
    monkeypatch.setattr(trained_baselines, "run_sweep", lambda *_, **__: busy)
    for rates in ([], [1e-3, 2e-3]):  # a tuning that is not whole chooses nothing
        with pytest.raises(ValueError, match=r"variant-team_seed-0'\]: worked on by another"):
            run_trained_baselines(run, **asked, learning_rates=rates)


@pytest.mark.usefixtures("in_process")
def test_the_seats_that_were_trained_alone_are_put_together(
    run: Path, lower_case: str, tmp_path: Path
):
    overrides = [f"env={lower_case}", "max_steps=2"]
    run_trained_baselines(run, output=tmp_path / "out", seeds=1, tasks=2, overrides=overrides)
    assert not (tmp_path / "out" / "tuning").exists()
    final = tmp_path / "out" / "final"
    together = json.loads((final / "alone_seed-0" / "plan.json").read_text())["team"]
    assert together["left_0"] != together["right_0"]
    for seat in WordPair().possible_agents:
        (own,) = final.glob(f"variant-alone_{seat}_*")
        alone = json.loads((own / "eval" / "plan.json").read_text())["team"]
        assert together[seat] == alone[seat]


@pytest.mark.long
def test_from_the_command_line(run: Path, tmp_path: Path, capsys: Any):
    folder = tmp_path / "out"
    command = ["train-baselines", str(run), "--seeds", "1", "--tasks", "2", "--output", str(folder)]
    assert main([*command, "--override", "max_steps=2"]) == 0
    assert "rejection" in capsys.readouterr().out
    assert (folder / "trained_baselines.png").stat().st_size > 1000
    assert main([*command, "--override", "lora=null"]) == 2
    assert "lora=None: expected a section" in capsys.readouterr().err
