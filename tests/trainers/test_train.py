"""Run files: what they may say, and what a wrong one gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models import SETTINGS, tiny_tokenizer, untrained
from support.pages import measured
from support.toys import WordPair

import llm_marl_envs
from llm_marl_envs import make
from llm_marl_envs.core.records import read_jsonl
from llm_marl_envs.core.specs import list_envs
from llm_marl_envs.envs.games.right_words import score
from llm_marl_envs.measure import Plan
from llm_marl_envs.measure.studies.measure import run_eval
from llm_marl_envs.policies.named import Context, named_partners
from trainers.train import build_trainer, read_run, run_train
from trainers.weights.team_files import load_team
from trainers.weights.tiny import build_model

RUN = """
model: {model}
env: coop_coding-v0
env_kwargs: {{split: train}}
lora: {{r: 4, target_modules: [q_proj, v_proj]}}
partners: {{helper_0: "expert:item"}}
trainer:
  output_dir: {output}
  max_steps: 1
  tasks_per_update: 1
  num_generations: 2
  max_completion_length: 8
  learning_rate: 1e-3
  transcript_every: 1
  use_cpu: true
  disable_tqdm: true
"""


GPU = Path(llm_marl_envs.__file__).parent.parent / "benchmarks" / "gpu"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_run_file_trains_and_saves_a_team(tmp_path: Path):
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    text = RUN.format(model=tmp_path / "base", output=tmp_path / "out")
    folder = run_train(write(tmp_path / "run.yaml", text), ["num_generations=3"])
    assert load_team(folder).policies == ("main_0",)
    assert (tmp_path / "out" / "transcripts" / "update-000000.jsonl").read_text().count("\n") == 3
    manifest = json.loads((tmp_path / "out" / "run_manifest.json").read_text())
    assert manifest["sessions"][0]["status"] == "finished"
    assert manifest["config"]["trainer"]["num_generations"] == 3
    assert manifest["config"]["model"] == str(tmp_path / "base")
    assert 3 <= manifest["tokens"] <= 3 * 8  # three actions of main of at most eight tokens
    assert manifest["packages"]["trl"].startswith("1.")


def test_the_manifest_says_how_the_first_model_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The model lies in the cache of one machine; what made it must be in the record."""
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    monkeypatch.setattr("trainers.train.models_of", lambda run: str(tmp_path / "base"))
    text = RUN.format(model="tiny", output=tmp_path / "out") + "\ntiny: {steps: 3}\n"
    run_train(write(tmp_path / "run.yaml", text))
    config = json.loads((tmp_path / "out" / "run_manifest.json").read_text())["config"]
    assert (config["model"], config["tiny"]) == ("tiny", {"steps": 3})
    assert config["folders"] == str(tmp_path / "base")


def test_tokens_are_counted_whatever_is_logged(tmp_path: Path):
    """A count, not the mean over the updates between two entries of the log; resumed, too."""
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")

    def tokens(name: str, *more: str) -> list[int]:
        output = tmp_path / name
        text = RUN.format(model=tmp_path / "base", output=output)
        run_train(write(tmp_path / "run.yaml", text), ["max_steps=4", *more])
        log = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
        logged = [entry["num_tokens"] for entry in log if "num_tokens" in entry]
        read[name] = [entry["num_prompt_tokens"] for entry in log if "num_tokens" in entry]
        return [*logged, json.loads((output / "run_manifest.json").read_text())["tokens"]]

    read: dict[str, list[int]] = {}

    each = tokens("each", "logging_steps=1")
    assert len(each) == 5
    assert each == sorted(each)
    assert each[0] > 0
    assert tokens("some", "logging_steps=2") == [each[1], each[3], each[3]]
    assert tokens("last", "logging_steps=3")[-1] == each[3]
    kept = tokens("kept", "save_strategy=steps", "save_steps=2")
    again = tokens("kept", "save_strategy=steps", "save_steps=2", "resume_from_checkpoint=true")
    assert kept[-1] == again[-1] == each[3]
    assert len({*read["each"]}) == 4
    assert read["each"] == sorted(read["each"])
    assert all(count % 2 == 0 for count in read["each"])  # two actions after the same prompt
    assert read["some"][-1] == read["kept"][-1] == read["each"][-1]


def test_a_team_with_a_scripted_partner_is_measured_with_it(tmp_path: Path):
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    text = RUN.format(model=tmp_path / "base", output=tmp_path / "out")
    folder = str(run_train(write(tmp_path / "run.yaml", text)))
    with pytest.raises(ValueError, match=r"missing \['helper_0'\]"):
        run_eval("coop_coding-v0", team=folder, plan=Plan(n_tasks=2))
    summary = run_eval(
        "coop_coding-v0",
        team=folder,
        plan=Plan(n_tasks=2),
        partners={"helper_0": "expert"},
        output=str(tmp_path / "eval"),
    )
    assert summary["n_tasks"] == 2
    assert json.loads((tmp_path / "eval" / "summary.json").read_text())["seed"] == 0
    assert len(list(read_jsonl(tmp_path / "eval" / "episodes.jsonl"))) == 2


def test_overrides_reach_sections_and_settings(tmp_path: Path):
    path = write(tmp_path / "run.yaml", RUN.format(model="m", output="o"))
    run = read_run(path, ["env_kwargs.turns=2", "seed=5", "model=tiny", "learning_rate=3e-4"])
    assert run["env_kwargs"] == {"split": "train", "turns": 2}
    assert run["trainer"]["seed"] == 5
    assert run["model"] == "tiny"
    assert run["trainer"]["learning_rate"] == pytest.approx(3e-4)
    assert isinstance(run["trainer"]["learning_rate"], float)


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "2e5", "0.001", "1.5e-3", "-.5", "3.0"])
def test_numbers_as_people_write_them(tmp_path: Path, text: str):
    run = read_run(
        write(tmp_path / "r.yaml", f"model: m\nenv: e\ntrainer: {{learning_rate: {text}}}")
    )
    assert run["trainer"]["learning_rate"] == float(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: [", "malformed YAML"),
        ("- a", "expected a map"),
        ("model: m", "needs 'env'"),
        ("model: m\nenv: e\nlra: {}", "unknown key 'lra'; did you mean 'lora'"),
        ("model: m\nenv: e\ntrainer: {learning_rat: 1}", "did you mean 'learning_rate'"),
    ],
)
def test_wrong_files_say_what_is_wrong(tmp_path: Path, text: str, words: str):
    with pytest.raises(ValueError, match=words.replace("[", r"\[")):
        read_run(write(tmp_path / "r.yaml", text))


def test_unknown_presets_are_listed():
    with pytest.raises(ValueError, match="coop_coding_tiny"):
        read_run("nothing")
    with pytest.raises(ValueError, match="did you mean 'coop_coding_tiny'") as caught:
        read_run("coop_codng_tiny")
    assert "debate_tiny" in str(caught.value)  # beside the list


def test_every_preset_is_readable_and_says_what_to_expect():
    folder = Path(llm_marl_envs.__file__).parent.parent / "trainers" / "presets"
    presets = sorted(folder.glob("*.yaml"))
    assert presets
    for preset in presets:
        assert read_run(preset)["env"] in list_envs()
        assert preset.read_text().startswith("# Expected: "), preset.name


def test_evaluations_have_the_arguments_of_training_but_for_what_they_change(tmp_path: Path):
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    text = RUN.format(model=tmp_path / "base", output=tmp_path / "out")
    changes = ["env_kwargs.turns=2", "eval_env_kwargs.split=val"]
    trainer = build_trainer(read_run(write(tmp_path / "run.yaml", text), changes))
    assert trainer.make_eval_env is not None
    env = trainer.make_eval_env().unwrapped
    assert (env.source.split, env.max_turns) == ("val", 2)


@pytest.mark.parametrize(
    ("name", "turns", "key", "size"),
    [
        ("plan_path", 5, "map", 10 * 10),
        ("sokoban", 5, "map", 6 * 6),
        ("sudoku", 5, "solution", 4 * 4),
        ("math_team", 1, "text", len("What is 6/4?")),
    ],
)
def test_run_files_of_published_sizes_fit_their_environments(
    tmp_path: Path, name: str, turns: int, key: str, size: int
):
    """All but the model and the rows: both environments, settings, algorithm and adapters."""
    tokenizer = tiny_tokenizer()
    long = SETTINGS.changed(max_position_embeddings=40_960)  # as Qwen3's
    build_model(tokenizer, 0, long).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    rows = [
        {"problem": "What is 6/4?", "solution": f"\\boxed{{{n}}}", "split": split}
        for n, split in enumerate(("train", "test"))
    ]
    tasks = write(tmp_path / "math.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    changes = [f"model={tmp_path / 'base'}", f"output_dir={tmp_path / 'out'}", "use_cpu=true"]
    changes += [f"env_kwargs.tasks={tasks}"] * (name == "math_team")
    path = GPU / f"{name}.yaml"
    assert "Not run yet." in path.read_text().partition("\n")[0]
    trainer = build_trainer(read_run(path, changes))
    assert trainer.make_eval_env is not None
    for env in (trainer.collector.env.unwrapped, trainer.make_eval_env().unwrapped):
        assert (env.max_turns, len(env.source[0].data[key])) == (turns, size)
        assert env.info_mode == "full"
        assert env.source.split == ("train" if env is trainer.collector.env.unwrapped else "test")


def test_what_presets_of_test_beds_could_reach():
    """As their pages say: of the crowd's arms, and of members of `regime-v0` with one word each."""
    crowd_run = read_run("crowd_tiny")
    right = np.array([1, 1, 1, 1, 1 / 3, 0])  # four learn, one says words at random, one is wrong
    assert crowd_run["partners"] == {"member_4": "expert", "member_5": "expert:wrong_1"}
    for arm in ("sum", "pairs"):
        most = float(score(arm, right, crowd_run["env_kwargs"]["weights"]))
        rows = [one for one in measured("crowd").splitlines() if one.startswith(f"| {arm}")]
        assert rows
        assert all(one.endswith(f"| {most:.3f} |") for one in rows)
    rights = make("regime-v0", **read_run("regime_tiny")["env_kwargs"]).source[0].data["rights"]
    said = [max(map(seat.count, seat)) / 2 for seat in zip(*rights, strict=True)]
    page = " ".join(measured("regime").split())
    assert f"one word each in all turns is worth {sum(said):g} at most" in page


def test_partners_have_names():
    names = {"left_0": "random", "right_0": "expert:upper"}
    made: dict[str, Any] = named_partners(names, Context(env=WordPair()))
    assert made["right_0"].convention == "upper"
    with pytest.raises(ValueError, match="no policy 'rando'; did you mean 'random'"):
        named_partners({"left_0": "rando"}, Context(env=WordPair()))
