"""Sweeps: which runs there are, which are skipped, and what becomes of the others."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import prepared
from support.models import untrained
from support.paths import ROOT

from llm_marl_envs.core import plugins
from llm_marl_envs.core.errors import Stopped
from trainers.studies import sweep_run
from trainers.studies.sweep import Point, collect_results, read_sweep
from trainers.studies.sweep_run import BUSY, Children, main, run_point, run_sweep, write_slurm

pytestmark = pytest.mark.full  # `make test-all` runs it

RUN = """
model: {base}
env: coop_coding-v0
env_kwargs: {{split: train}}
lora: {{r: 2, target_modules: [q_proj]}}
trainer:
  max_steps: 1
  tasks_per_update: 1
  num_generations: 2
  max_completion_length: 4
  transcript_every: 0
  use_cpu: true
  disable_tqdm: true
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    (tmp_path / "run.yaml").write_text(RUN.format(base=tmp_path / "base"))
    return write(tmp_path, grid={"learning_rate": [1e-3, 2e-3]}, seeds=[0, 5])


@pytest.fixture
def quick_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs begin with their imports made; the script for SLURM is run without this."""
    monkeypatch.setattr(sys, "executable", prepared.python())


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(
        json.dumps({"run": "run.yaml", "output": str(folder / "out"), **changes}), encoding="utf-8"
    )
    return path


def finish(point: Point, **results: float) -> None:
    point.folder.mkdir(parents=True, exist_ok=True)
    (point.folder / "summary.json").write_text(
        json.dumps({"digest": point.digest, "results": results})
    )


def test_the_runs_are_the_grid_times_the_seeds(sweep: Path):
    points = read_sweep(sweep)
    assert [(p.settings["learning_rate"], p.seed) for p in points] == [
        (1e-3, 0),
        (1e-3, 5),
        (2e-3, 0),
        (2e-3, 5),
    ]
    assert points[3].name == "learning_rate-0.002_seed-5"
    assert points[3].run["trainer"]["seed"] == 5
    assert points[3].run["trainer"]["learning_rate"] == 2e-3
    assert points[3].run["trainer"]["output_dir"] == str(points[3].folder / "train")
    assert len({p.digest for p in points}) == 4


def test_odd_values_make_distinct_folders(sweep: Path):
    targets = [["q_proj"], ["q_proj", "v_proj"], "all-linear", "a/../../b"]
    points = read_sweep(write(sweep.parent, grid={"lora.target_modules": targets}))
    assert len({p.folder for p in points}) == 4
    for point in points:
        assert point.folder.parent == sweep.parent / "out"
        assert point.folder.resolve().parent == (sweep.parent / "out").resolve()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grids": {}}, "unknown key 'grids'; did you mean 'grid'"),
        ({"grid": {"learning_rat": [1]}}, "did you mean 'learning_rate'"),
        ({"grid": {"learning_rate": 1}}, "needs a list of values, got 1"),
        ({"grid": {"learning_rate": []}}, "needs a list of values"),
        ({"grid": {"seed": [1]}}, "'seed' is decided by the sweep"),
        ({"grid": [1]}, "expected a map from settings to lists"),
        ({"grid": {"learning_rate": [1, 1]}}, "is a value listed twice"),
        ({"grid": {"trainer.seed": [1]}}, "'seed' is decided by the sweep"),
        ({"grid": {"lora": [{"r": 2}], "lora.r": [2]}}, "'lora' and 'lora.r' set the same thing"),
        (
            {"grid": {"learning_rate": [1], "trainer.learning_rate": [2]}},
            "'learning_rate' and 'trainer.learning_rate' set the same thing",
        ),
        ({"grid": {"trainer": [{}], "max_steps": [2]}}, "'trainer' and 'max_steps' set the same"),
        ({"variants": {"a": {"lora": {}, "lora.r": 2}}}, "'lora' and 'lora.r' set the same thing"),
        ({"variants": {"a": {}, "b": {}}}, "'variant-a_.*' and 'variant-b_.*' are the same run"),
        ({"seeds": 0}, "expected a number >= 1 or a list"),
        ({"seeds": [True]}, "expected a number >= 1 or a list"),
        ({"evaluate": {"task": 3}}, "did you mean 'tasks'"),
        ({"evaluate": {"tasks": 10**6}}, "evaluate: n_tasks=1000000: expected 1 to"),
        ({"evaluate": {"split": "vall"}}, "evaluate: .*'vall'"),
        ({"run": "nothing"}, "no such file, and no preset"),
        ({"output": None}, "needs 'output', a text"),
    ],
)
def test_wrong_sweep_files_say_what_is_wrong(sweep: Path, changes: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        read_sweep(write(sweep.parent, **changes))


def test_files_that_are_no_sweep(tmp_path: Path):
    with pytest.raises(ValueError, match="no such file"):
        read_sweep(tmp_path / "nothing.yaml")
    for text, words in (("run: [", "malformed YAML"), ("- a", "expected a map")):
        (tmp_path / "s.yaml").write_text(text)
        with pytest.raises(ValueError, match=words):
            read_sweep(tmp_path / "s.yaml")


def test_one_run_trains_evaluates_and_is_not_repeated(sweep: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(sweep.parent, seeds=[3], evaluate={"tasks": 2})
    point = read_sweep(path)[0]
    summary = run_point(point)
    assert summary["results"]["updates"] == 1
    assert summary["results"]["mean_return"] >= 0
    # One task, two episodes, two agents, at most four tokens each.
    assert 4 <= summary["results"]["tokens"] <= 16
    manifest = json.loads((point.folder / "train" / "run_manifest.json").read_text())
    assert manifest["config"]["trainer"]["seed"] == 3
    assert (point.folder / "team" / "team.json").is_file()
    monkeypatch.setattr(sweep_run, "_carry_out", lambda point: pytest.fail("ran again"))
    assert run_point(point) == summary


def test_a_half_written_summary_is_no_summary(sweep: Path):
    point = read_sweep(sweep)[0]
    finish(point, success=1.0)
    assert point.summary() is not None
    path = point.folder / "summary.json"
    path.write_text(path.read_text()[:-5])
    assert point.summary() is None


def test_a_folder_of_other_settings_is_refused(sweep: Path):
    finish(read_sweep(sweep)[0], success=1.0)
    text = (sweep.parent / "run.yaml").read_text()
    (sweep.parent / "run.yaml").write_text(text.replace("max_steps: 1", "max_steps: 2"))
    with pytest.raises(ValueError, match="a run of other settings lies there"):
        read_sweep(sweep)[0].summary()


def test_a_crashed_run_goes_on_from_its_checkpoint(sweep: Path, monkeypatch: pytest.MonkeyPatch):
    from trainers import train as module

    overrides = {"max_steps": [2], "save_strategy": ["steps"], "save_steps": [1]}
    point = read_sweep(write(sweep.parent, grid=overrides))[0]
    asked: list[Any] = []
    original = module.MAGRPOTrainer.train

    def crash(self: Any, resume: Any = None, *rest: Any) -> Any:
        asked.append(resume)
        if len(asked) == 1:
            self.args.max_steps = 1
            original(self, resume, *rest)
            raise RuntimeError("power cut")
        return original(self, resume, *rest)

    monkeypatch.setattr(module.MAGRPOTrainer, "train", crash)
    with pytest.raises(RuntimeError, match="power cut"):
        run_point(point)
    assert point.summary() is None
    assert run_point(point)["results"]["updates"] == 2
    assert asked == [None, True]
    manifest = json.loads((point.folder / "train" / "run_manifest.json").read_text())
    assert [one["status"] for one in manifest["sessions"]] == ["failed", "finished"]


def test_a_run_whose_evaluation_was_cut_off_is_not_trained_again(
    sweep: Path, monkeypatch: pytest.MonkeyPatch
):
    point = read_sweep(write(sweep.parent, seeds=[3], evaluate={"tasks": 2}))[0]
    measure = sweep_run.measure_point

    def cut(*given: Any) -> Any:
        measure(*given)
        raise RuntimeError("power cut")

    monkeypatch.setattr(sweep_run, "measure_point", cut)
    with pytest.raises(RuntimeError, match="power cut"):
        run_point(point)
    assert point.summary() is None
    monkeypatch.setattr(sweep_run, "measure_point", measure)
    monkeypatch.setattr(sweep_run, "_train", lambda point: pytest.fail("trained again"))
    results = run_point(point)["results"]
    assert results["updates"] == 1
    assert 4 <= results["tokens"] <= 16
    assert "mean_return" in results


def test_an_evaluation_of_a_team_that_is_trained_again_is_dropped(sweep: Path):
    point = read_sweep(write(sweep.parent, seeds=[3], evaluate={"tasks": 2}))[0]
    (point.folder / "eval").mkdir(parents=True)
    (point.folder / "eval" / "plan.json").write_text('{"version": 1, "team": "another"}')
    assert "mean_return" in run_point(point)["results"]


def test_what_a_run_is_evaluated_with(sweep: Path):
    """The run's partners, template and length of action; the sweep's split and temperature."""
    run = (sweep.parent / "run.yaml").read_text()
    run += "  chat_template_kwargs: {tag: x}\npartners: {helper_0: expert}\n"
    (sweep.parent / "run.yaml").write_text(run)
    asked = {"tasks": 2, "split": "val", "temperature": 0.5, "seed": 7}
    point = read_sweep(write(sweep.parent, evaluate=asked))[0]
    run_point(point)
    plan = json.loads((point.folder / "eval" / "plan.json").read_text())
    assert plan["team"]["helper_0"] == "expert"
    shown = 'at most 4 tokens, temperature 0.5, template {"tag": "x"}'
    assert shown in plan["team"]["main_0"]
    assert (plan["env_kwargs"], plan["seeds"]) == ({"split": "val"}, [7])
    team = json.loads((point.folder / "team" / "team.json").read_text())
    assert team["chat_template_kwargs"] == {"tag": "x"}
    for change in ({"tasks": 3}, {"split": "test"}, {"temperature": 1.0}, {"seed": 8}):
        other = read_sweep(write(sweep.parent, evaluate={**asked, **change}))[0]
        with pytest.raises(ValueError, match="a run of other settings lies there"):
            other.summary()


def test_a_training_that_was_stopped_is_not_finished(sweep: Path, monkeypatch: pytest.MonkeyPatch):
    def stopped(run: Any) -> Any:
        raise Stopped("stopped at update 1 of 2")

    monkeypatch.setattr("trainers.train.train", stopped)
    point = read_sweep(sweep)[0]
    assert main([str(sweep), "--index", "0"]) == 130
    assert point.summary() is None


def test_a_training_of_other_settings_is_not_taken(sweep: Path):
    path = write(sweep.parent, seeds=[3])
    point = read_sweep(path)[0]
    point.folder.mkdir(parents=True)
    for results in ({"updates": 9}, None):
        trained = {"digest": "another" if results else point.digest, "results": results}
        (point.folder / "trained.json").write_text(json.dumps(trained))
        if results:
            with pytest.raises(ValueError, match=r"trained\.json: a run of other settings"):
                run_point(point)
    assert run_point(point)["results"]["updates"] == 1  # trained: the file said nothing


def test_no_other_lack_is_taken_for_a_busy_folder(
    sweep: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def no_more_processes(point: Point) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(sweep_run, "_carry_out", no_more_processes)
    assert main([str(sweep), "--index", "0"]) == 2
    assert "temporarily" in capsys.readouterr().err


def test_two_processes_do_not_work_on_one_run(sweep: Path):
    point = read_sweep(sweep)[1]
    point.folder.mkdir(parents=True)
    with open(point.folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main([str(sweep), "--index", "1"]) == BUSY


def test_results_are_means_over_seeds(sweep: Path):
    points = read_sweep(sweep)
    for point, success in zip(points[:3], (0.2, 0.6, 0.9), strict=True):
        finish(point, success=success)
    found = collect_results(points)
    assert found["missing"] == [points[3].name]
    first, second = found["groups"]
    assert first["seeds"] == [0, 5]
    assert first["results"]["success"]["mean"] == pytest.approx(0.4)
    assert first["results"]["success"]["ci95"] is None
    assert first["results"]["success"]["why"] == "too few runs: 2"
    assert (second["seeds"], second["results"]["success"]["n"]) == ([0], 1)


@pytest.mark.usefixtures("quick_starts")
def test_the_pool_skips_what_is_done_and_names_what_failed(
    sweep: Path, capsys: pytest.CaptureFixture[str]
):
    points = read_sweep(sweep)
    for point in points[:3]:
        finish(point, success=1.0)
    base = sweep.parent / "base"
    base.rename(sweep.parent / "away")
    with pytest.raises(ValueError, match=r"1 of 4 runs failed.*seed-5/log\.txt: .*base"):
        run_sweep(sweep)
    (sweep.parent / "away").rename(base)
    results = run_sweep(sweep, jobs=2)
    assert [run["seed"] for run in results["runs"]] == [0, 5, 0, 5]
    assert json.loads((sweep.parent / "out" / "results.json").read_text()) == json.loads(
        json.dumps(results)
    )
    assert "4 runs, 3 finished before" in capsys.readouterr().out


def test_jobs_and_devices_fit(sweep: Path):
    with pytest.raises(ValueError, match="one device for each job"):
        run_sweep(sweep, jobs=2, devices=["0"])
    with pytest.raises(ValueError, match="jobs=0"):
        run_sweep(sweep, jobs=0)


@pytest.mark.long
def test_a_slurm_script_runs_its_point(sweep: Path, tmp_path: Path):
    script = tmp_path / "array.sbatch"
    assert write_slurm(sweep, script, ["--time=1:00:00"]) == 4
    text = script.read_text()
    assert "#SBATCH --array=0-3\n" in text
    assert "#SBATCH --time=1:00:00\n" in text
    point = read_sweep(sweep)[2]
    finish(point, success=1.0)  # skipped, so the script ends at once and well
    done = subprocess.run(
        ["bash", str(script)],
        env={**os.environ, "SLURM_ARRAY_TASK_ID": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert (point.folder / ".lock").exists()
    write_slurm(sweep, script, ["--array=0-3%2"])
    assert script.read_text().count("--array") == 1
    with pytest.raises(ValueError, match="SLURM option"):
        write_slurm(sweep, script, ["time"])


@pytest.mark.usefixtures("quick_starts")
def test_plug_ins_of_the_command_line_reach_the_runs(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "stops_it.py").write_text("raise ValueError('before any training')\n")
    monkeypatch.setattr(plugins, "GIVEN", ["stops_it"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    for point in read_sweep(sweep)[:-1]:
        finish(point, success=1.0)
    with pytest.raises(ValueError, match="plug-in 'stops_it': ValueError: before any training"):
        run_sweep(sweep)
    write_slurm(sweep, tmp_path / "array.sbatch")
    assert "--plugin stops_it" in (tmp_path / "array.sbatch").read_text()


def test_variants_are_settings_that_belong_together(sweep: Path):
    variants = {"team": {}, "alone": {"frozen": ["main_0"], "lora.r": 4}}
    points = read_sweep(
        write(sweep.parent, variants=variants, grid={"learning_rate": [1e-3, 2e-3]})
    )
    assert [(p.settings["variant"], p.settings["learning_rate"]) for p in points] == [
        ("team", 1e-3),
        ("team", 2e-3),
        ("alone", 1e-3),
        ("alone", 2e-3),
    ]
    assert points[2].name == "variant-alone_learning_rate-0.001_seed-0"
    assert points[2].run["lora"]["r"] == 4
    assert points[0].run["lora"]["r"] == 2
    assert points[3].run["trainer"]["frozen"] == ["main_0"]
    results = run_point(points[2])["results"]
    assert results["trained_parameters"] == trained(points[2], seats=1)
    assert run_point(points[0])["results"]["trained_parameters"] == trained(points[0], seats=2)


def trained(point: Point, seats: int) -> int:
    """LoRA weights by hand: r (inputs + outputs) of each layer's projection, for each seat."""
    config = json.loads((Path(point.run["model"]) / "config.json").read_text())
    size = config["hidden_size"] + config["hidden_size"]
    return seats * point.run["lora"]["r"] * size * config["num_hidden_layers"]


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        ([], "expected a map from names"),
        ({"a": 1}, "'a' needs a map of settings"),
        ({"a": {"seed": 1}}, "'seed' of 'a' is decided by the sweep"),
        ({"a": {"learning_rate": 1}}, "'learning_rate' of 'a' is decided by the grid"),
        ({"a": {"learning_rat": 1}}, "unknown key 'learning_rat'"),
        ({"a": {"trainer.output_dir": "x"}}, "'output_dir' of 'a' is decided by the sweep"),
        ({"a": {"trainer.learning_rate": 1}}, "'learning_rate' of 'a' is decided by the grid"),
    ],
)
def test_wrong_variants_say_what_is_wrong(sweep: Path, variants: Any, words: str):
    with pytest.raises(ValueError, match=words):
        read_sweep(write(sweep.parent, grid={"learning_rate": [1]}, variants=variants))


def test_the_embedded_model_of_a_run_has_its_seed(tmp_path: Path):
    path = write(tmp_path, run="coop_coding_tiny", seeds=[2, 5])
    assert [point.run["tiny"]["seed"] for point in read_sweep(path)] == [2, 5]
    path = write(tmp_path, run="coop_coding_tiny", seeds=[2, 5], grid={"tiny.seed": [0]})
    assert [point.run["tiny"]["seed"] for point in read_sweep(path)] == [0, 0]


def test_a_signal_reaches_every_run_and_none_begins_after(tmp_path: Path):
    """Children that end at a signal, as training runs do."""
    program = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(130))\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "time.sleep(60)"
    )
    children = Children()
    started = [tmp_path / name for name in "ab"]

    def interrupt() -> None:
        while not all(path.exists() for path in started):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    def run(path: Path) -> int:
        return children.run([sys.executable, "-c", program, str(path)])

    with children.passing_signals_on(), ThreadPoolExecutor(3) as pool:
        pool.submit(interrupt)
        ended = [pool.submit(run, path) for path in started]
        assert [one.result() for one in ended] == [130, 130]
        assert run(tmp_path / "c") == 130
    assert not (tmp_path / "c").exists()
    assert children.signum == signal.SIGINT


def test_a_stopped_sweep_is_no_failed_one(sweep: Path, monkeypatch: pytest.MonkeyPatch):
    def stopped(children: Children, *_: Any) -> int:
        children.signum = signal.SIGTERM
        return 143

    monkeypatch.setattr(sweep_run, "_spawn", stopped)
    with pytest.raises(Stopped, match="the same command goes on") as stop:
        run_sweep(sweep)
    assert stop.value.status == 143


def test_a_run_killed_before_its_first_checkpoint_begins_anew(sweep: Path):
    point = read_sweep(sweep)[0]
    train = point.folder / "train"
    train.mkdir(parents=True)
    (train / "log.jsonl").write_text('{"loss": 1}\n')
    assert run_point(point)["results"]["updates"] == 1
    assert '"loss": 1}' not in (train / "log.jsonl").read_text()
