"""Teams by name: saved ones, models, scripts; what does not fit is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.cli import main
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.measure.runner import Plan
from llm_marl_envs.measure.studies.measure import run_eval
from llm_marl_envs.policies import RandomPolicy
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.policies.named import (
    Context,
    Sampling,
    identity_of,
    named_policy,
    named_team,
)
from trainers.policies.local import LocalPolicy
from trainers.policies.named import fingerprint

ENV = "coop_writing_tldr-v0"
SEATS = ("brief_0", "detailed_0")
SHORT = Sampling(max_completion_length=4)


def here(sampling: Sampling = SHORT) -> Context:
    return Context(env=make(ENV), sampling=sampling)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tiny untrained model."""
    pytest.importorskip("torch")
    from support.models import SETTINGS

    from trainers.weights.tiny import build_model, build_tokenizer

    folder = tmp_path_factory.mktemp("model")
    texts = [message.content for message in make(ENV).opening(make(ENV).source[0])["brief_0"]]
    tokenizer = build_tokenizer(texts, SETTINGS.vocab_size)
    wide = SETTINGS.changed(max_position_embeddings=4096)
    build_model(tokenizer, 0, wide).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def saved(model: str, tmp_path: Path) -> Any:
    """Saves a team for seats of an environment; returns its folder."""
    from trainers.weights.team_files import build_team_model, save_team

    def save(env_id: str = ENV, seats: Any = SEATS) -> str:
        team = build_team_model(model, seats, weights="shared")
        save_team(team, tmp_path / "team", env={"env_id": env_id, "max_completion_length": 4})
        return str(tmp_path / "team")

    return save


def asked(agent: str, seed: int, text: str = "Sum up.") -> Request:
    return Request(
        env_id="e",
        agent=agent,
        turn=0,
        episode=0,
        task_id="t",
        messages=(Message("user", text),),
        observation=text,
        seed=derive_seed(seed),
    )


def test_a_local_model_plays_any_seat_whatever_its_neighbours(model: str):
    policy = LocalPolicy(model, max_completion_length=5, batch_size=3)
    requests = [asked(agent, i, "Sum up. " * i) for i, agent in enumerate("abcdab", start=1)]
    together = policy.act(requests)
    assert [response.text for response in together] == [policy.act([r])[0].text for r in requests]
    assert all(
        response.tokens is not None and 1 <= response.tokens[1] <= 5 for response in together
    )
    assert len({response.text for response in together}) > 1
    longer = policy.stretched(3).act(requests)
    assert max(response.tokens[1] for response in longer if response.tokens is not None) > 5
    assert [response.text for response in policy.act(requests)] == [
        response.text for response in together
    ]
    greedy = LocalPolicy(model, max_completion_length=5, temperature=0)
    assert greedy.act([asked("a", 1)])[0].text == greedy.act([asked("b", 2)])[0].text


def test_a_model_is_measured_with_its_tokens(model: str, tmp_path: Path):
    result = run_eval(
        ENV, team=model, plan=Plan(n_tasks=2, samples=2), sampling=SHORT, output=str(tmp_path)
    )
    assert result["cost"]["completion_tokens"] <= 8
    assert result["cost"]["tokens_per_second"] > 0
    assert "sha256" in result["identity"]["brief_0"]
    manifest = json.loads((tmp_path / "run_manifest.json").read_text())
    assert manifest["tokens"] == 4 * result["cost"]["completion_tokens"]
    assert manifest["config"]["sampling"]["max_completion_length"] == 4
    again = run_eval(
        ENV, team=model, plan=Plan(n_tasks=2, samples=2), sampling=SHORT, output=str(tmp_path)
    )
    assert again["cost"]["completion_tokens"] == result["cost"]["completion_tokens"]
    with pytest.raises(ValueError, match="temperature 0"):
        run_eval(
            ENV,
            team=model,
            plan=Plan(n_tasks=2),
            sampling=Sampling(temperature=0, max_completion_length=4),
            output=str(tmp_path),
        )
    # What was refused left no trace.
    sessions = json.loads((tmp_path / "run_manifest.json").read_text())["sessions"]
    assert [session["status"] for session in sessions] == ["finished", "finished"]


def test_other_weights_in_the_same_folder_are_another_team(model: str, tmp_path: Path):
    before = fingerprint(model)
    (tmp_path / "m").mkdir()
    for file in Path(model).iterdir():
        (tmp_path / "m" / file.name).write_bytes(file.read_bytes())
    assert fingerprint(tmp_path / "m") == before
    weights = tmp_path / "m" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert fingerprint(tmp_path / "m") != before


def test_a_team_is_the_same_wherever_it_lies_and_another_with_other_settings(
    model: str, tmp_path: Path
):
    from peft import LoraConfig

    from trainers.weights.team_files import build_team_model, save_team

    base = tmp_path / "base"
    shutil.copytree(model, base)
    lora = LoraConfig(r=2, target_modules="all-linear")
    team = build_team_model(str(base), SEATS, weights="adapters", peft_config=lora)
    save_team(team, tmp_path / "team", env={"env_id": ENV, "max_completion_length": 4})

    def identity(folder: Path | str, **sampling: Any) -> str:
        (identity,) = set(named_team(str(folder), here(Sampling(**sampling))).identity.values())
        return identity

    first = identity(tmp_path / "team")
    shutil.copytree(tmp_path / "team", tmp_path / "moved")
    assert identity(tmp_path / "moved") == identity(f"{tmp_path}/team/") == first
    assert identity(tmp_path / "team", max_completion_length=4) == first  # as it was trained
    others = [
        identity(tmp_path / "team", max_completion_length=5),
        identity(tmp_path / "team", temperature=0.5),
    ]
    (base / "generation_config.json").write_text("{}")  # its adapters' base counts, too
    assert len({first, *others, identity(tmp_path / "team")}) == 4
    models = [identity(base), identity(base, max_completion_length=5), identity(model)]
    assert len(set(models)) == 3


@pytest.mark.parametrize("adapters", [True, False])
def test_damaged_weights_are_named(model: str, tmp_path: Path, adapters: bool):
    from peft import LoraConfig

    from trainers.weights.team_files import build_team_model, save_team

    lora = LoraConfig(r=2, target_modules="all-linear") if adapters else None
    weights = "adapters" if adapters else "shared"
    team = build_team_model(model, SEATS, weights=weights, peft_config=lora)
    save_team(team, tmp_path, env={"env_id": ENV})
    for file in tmp_path.rglob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match="its weights are damaged"):
        named_team(str(tmp_path), here())


def test_large_files_count_by_both_ends(tmp_path: Path):
    big = bytearray(3 << 20)
    (tmp_path / "w").write_bytes(big)
    before = fingerprint(tmp_path)
    big[-1] = 1
    (tmp_path / "w").write_bytes(big)
    assert fingerprint(tmp_path) != before


def test_a_saved_team_plays_its_own_environment(saved: Any):
    named = named_team(saved(), here(Sampling()))
    assert set(named.seats) == set(SEATS)
    result = run_eval(ENV, team=saved(), plan=Plan(n_tasks=1))
    assert result["cost"]["completion_tokens"] <= 8  # the length it was trained with


def test_a_saved_team_in_a_folder_called_like_a_kind(saved: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(Path(saved()).parent)
    assert set(named_team("team", here(Sampling())).seats) == set(SEATS)


def test_a_team_of_another_version_is_refused(saved: Any, capsys: pytest.CaptureFixture[str]):
    folder = saved("coop_writing_tldr-v7")
    assert main(["eval", ENV, "--team", folder, "--tasks", "1"]) == 2
    error = capsys.readouterr().err
    assert f"trained in coop_writing_tldr-v7, and {ENV} is asked for" in error
    assert (
        f"Measurements take it with --transfer; in training and play use a team of {ENV}" in error
    )
    assert main(["eval", ENV, "--team", folder, "--tasks", "1", "--transfer"]) == 0


def test_mismatched_seats_are_named(saved: Any):
    with pytest.raises(ValueError, match=r"missing \['detailed_0'\]"):
        named_team(saved(seats=SEATS[:1]), here())
    whole = named_team(saved(seats=SEATS[:1]), here(), {"detailed_0": "expert"})
    assert isinstance(whole.seats["detailed_0"], ExpertPolicy)
    with pytest.raises(ValueError, match=r"unknown \['main_0'\]"):
        named_team("random", here(), {"main_0": "expert"})


def test_a_seat_can_be_played_by_another_saved_team_s_member(saved: Any):
    folder = saved(seats=SEATS[:1])
    mixed = named_team("random", here(), {"brief_0": folder})
    assert isinstance(mixed.seats["detailed_0"], RandomPolicy)
    assert (
        mixed.identity["brief_0"]
        == named_team(folder, here(), {"detailed_0": "random"}).identity["brief_0"]
    )
    with pytest.raises(ValueError, match=r"this team plays \['brief_0'\], and no 'detailed_0'"):
        named_team("random", here(), {"detailed_0": folder})


def test_a_member_of_another_team_takes_the_seat_of_a_saved_team(model: str, tmp_path: Path):
    from support.models import lora

    from trainers.weights.team_files import build_team_model, save_team

    for name, seed in (("own", 0), ("other", 1)):
        team = build_team_model(model, SEATS, weights="adapters", peft_config=lora(), seed=seed)
        save_team(team, tmp_path / name, env={"env_id": ENV, "max_completion_length": 4})
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    alone = named_team(own, here()).seats
    strangers: Any = named_team(other, here()).seats
    mixed: Any = named_team(own, here(), {"detailed_0": other}).seats
    assert mixed["brief_0"] is not mixed["detailed_0"]
    for seat, from_other in (("brief_0", False), ("detailed_0", True)):
        weights = [
            seats[seat].team.parameters(seat)[0].detach().tolist() for seats in (mixed, strangers)
        ]
        assert (weights[0] == weights[1]) is from_other
    assert alone["brief_0"] is alone["detailed_0"]


def test_a_saved_team_keeps_the_variables_of_its_chat_template(saved: Any):
    folder = Path(saved())
    described = json.loads((folder / "team.json").read_text())
    described["chat_template_kwargs"] = {"enable_thinking": False, "tag": "a"}
    (folder / "team.json").write_text(json.dumps(described))
    policy: Any = named_team(str(folder), here()).seats["brief_0"]
    assert policy.template_kwargs == {"enable_thinking": False, "tag": "a"}
    other = named_team(str(folder), here(replace(SHORT, template={"tag": "b"})))
    policy = other.seats["brief_0"]
    assert policy.template_kwargs == {"enable_thinking": False, "tag": "b"}
    assert other.identity["brief_0"].endswith('template {"tag": "b"}')


def test_the_chat_template_s_variables_of_a_model(model: str, capsys: pytest.CaptureFixture[str]):
    sampling = replace(SHORT, template={"tag": "b"})
    identity = identity_of(named_policy(model, here(sampling)))
    assert identity.endswith('template {"tag": "b"}')
    command = ["eval", ENV, "--team", "endpoint:http://localhost:9", "--tasks", "1"]
    assert main([*command, "--template", "enable_thinking=false"]) == 2
    assert (
        "the server applies its chat template; set ['enable_thinking']" in capsys.readouterr().err
    )


def test_how_agents_call_tools_is_a_team_s_own_or_asked_for(model: str, saved: Any):
    """These models have no format of calls, and are refused where one is wanted."""
    folder = Path(saved())
    described = json.loads((folder / "team.json").read_text())
    (folder / "team.json").write_text(json.dumps({**described, "tool_format": "native"}))
    with pytest.raises(ValueError, match="tool_format"):
        named_team(str(folder), here())
    lines = named_team(str(folder), here(replace(SHORT, tool_format="line")))
    assert "calls" not in lines.identity["brief_0"]
    with pytest.raises(ValueError, match="tool_format"):
        named_policy(model, here(replace(SHORT, tool_format="native")))


def test_damaged_and_empty_folders_are_named(tmp_path: Path, saved: Any):
    folder = saved()
    (Path(folder) / "team.json").write_text('{"version": 1, "agents"')
    with pytest.raises(ValueError, match=r"team\.json"):
        named_team(folder, here())
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"neither team\.json nor config\.json"):
        named_team(str(tmp_path / "empty"), here())
    for missing in ("./no-such-team", "runs/no/team", str(tmp_path / "none")):
        with pytest.raises(ValueError, match=f"{missing}: no such folder"):  # not a hub's name
            named_team(missing, here())


def test_scripts_by_name():
    assert isinstance(named_policy("random", here()), RandomPolicy)
    policy = named_policy("expert:last", here())
    assert isinstance(policy, ExpertPolicy)
    assert (policy.convention, policy.identity) == ("last", "expert:last")
    mixed = named_team("random", here(), {"brief_0": "expert"})
    assert mixed.identity == {"detailed_0": "random", "brief_0": "expert"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--greedy", "--samples", "2"], "2 greedy samples of a task are all alike"),
        (["--set", "split=val", "--split", "test"], "--split test and --set split=val"),
        (["--set", "split=[test]", "--split", "test"], "--set split=['test']"),
        (["--max-tokens", "0"], "at most 0 tokens per action: expected at least 1"),
        (["--temperature", "-1"], "temperature=-1.0: expected a number >= 0"),
        (["--partner", "brief_0=expert:sideways"], "convention 'sideways': the first"),
        (["--tasks", "99999"], "expected 1 to"),
        (["--samples", "0"], "samples=0"),
        (["--seed", "1", "1"], "none twice"),
        (["--split", "holdout"], "split='holdout'"),
    ],
)
def test_bad_arguments_of_eval(more: list[str], words: str, capsys: pytest.CaptureFixture[str]):
    assert main(["eval", ENV, "--team", "random", "--tasks", "2", *more]) == 2
    assert words in capsys.readouterr().err


def test_tasks_are_a_number_or_all(capsys: pytest.CaptureFixture[str]):
    for bad in ("some", "0", "-3", "1.5"):
        with pytest.raises(SystemExit):
            main(["eval", ENV, "--team", "random", f"--tasks={bad}"])
        assert f"{bad!r}: expected a whole number from 1, or all" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more", [["--set", "split=val"], ["--split", "val"], ["--split", "val", "--set", "split=val"]]
)
def test_the_split_can_be_said_in_two_ways(more: list[str], tmp_path: Path):
    command = ["eval", ENV, "--team", "random", "--tasks", "2", "--output", str(tmp_path), *more]
    assert main(command) == 0
    assert json.loads((tmp_path / "summary.json").read_text())["env_kwargs"] == {"split": "val"}


def test_greedy_votes_are_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["baselines", ENV, "--policy", "random", "--tasks", "1", "--greedy"]) == 2
    assert "4 greedy samples of a task are all alike" in capsys.readouterr().err


def test_the_command_writes_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["eval", ENV, "--team", "expert", "--tasks", "4", "--seed", "0", "3", "--samples"]
    assert main([*command, "2", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "pass@4" in shown
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["env_id"], summary["team"], summary["seeds"]) == (ENV, "expert", [0, 3])
    assert sum(len(task["returns"]) for task in summary["tasks"]) == 16
    lines = (tmp_path / "episodes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "episodes.jsonl").write_text("".join(lines[:9]))
    assert main([*command, "2", "--output", str(tmp_path)]) == 0
    again = json.loads((tmp_path / "summary.json").read_text())
    for numbers in (summary, again):
        numbers["cost"].pop("seconds")
    assert again == summary


def test_a_team_plays_at_the_temperature_it_was_trained_at(model: str, tmp_path: Path):
    from trainers.weights.team_files import build_team_model, save_team

    team = build_team_model(model, SEATS, weights="shared")
    save_team(team, tmp_path / "team", env={"env_id": ENV, "temperature": 0.7})
    save_team(team, tmp_path / "old", env={"env_id": ENV})  # of a version that kept none

    def temperature(name: str, **sampling: Any) -> Any:
        named = named_team(name, here(Sampling(max_completion_length=4, **sampling)))
        temperatures = {
            identity.rpartition("temperature ")[2] for identity in named.identity.values()
        }
        assert temperatures == {f"{named.temperature:g}"}
        return named.temperature

    assert temperature(str(tmp_path / "team")) == 0.7
    assert temperature(str(tmp_path / "team"), temperature=0.0) == 0.0
    assert temperature(str(tmp_path / "team"), temperature=1.0) == 1.0
    assert temperature(str(tmp_path / "old")) == 1.0
    assert temperature(model) == 1.0
    own = shutil.copytree(model, tmp_path / "own") / "generation_config.json"
    own.write_text(json.dumps({**json.loads(own.read_text()), "temperature": 0.6}))
    assert temperature(str(tmp_path / "own")) == 1.0  # a model that does not sample names none
    own.write_text(json.dumps({**json.loads(own.read_text()), "do_sample": True}))
    assert temperature(str(tmp_path / "own")) == 0.6


def test_a_measurement_records_the_temperature_of_each_seat(model: str, tmp_path: Path):
    from trainers.weights.team_files import build_team_model, save_team

    team = build_team_model(model, SEATS, weights="shared")
    save_team(team, tmp_path / "team", env={"env_id": ENV, "temperature": 0.5})
    asked: dict[str, Any] = {"plan": Plan(n_tasks=1), "sampling": Sampling(max_completion_length=4)}
    result = run_eval(ENV, team=str(tmp_path / "team"), **asked)
    assert result["temperature"] == 0.5
    result = run_eval(ENV, team=str(tmp_path / "team"), partners={SEATS[0]: "expert"}, **asked)
    assert result["temperature"] == 0.5  # scripts have none
    result = run_eval(ENV, team=str(tmp_path / "team"), partners={SEATS[0]: model}, **asked)
    assert result["temperature"] == {SEATS[0]: 1.0, SEATS[1]: 0.5}
    assert run_eval(ENV, team="expert", plan=Plan(n_tasks=1))["temperature"] == 1.0


def test_a_team_is_measured_in_the_words_that_it_learned_from(saved: Any, tmp_path: Path) -> None:
    folder = Path(saved(ENV))
    prompts = {"brief": "Be brief. {prompt}"}
    about = json.loads((folder / "team.json").read_text())
    about["env_kwargs"] = {"prompts": prompts, "split": "train"}
    (folder / "team.json").write_text(json.dumps(about))
    plan = Plan(n_tasks=1)
    settings = {"team": str(folder), "plan": plan, "sampling": SHORT}
    summary = run_eval(ENV, output=str(tmp_path / "out"), **settings)
    assert summary["env_kwargs"] == {"split": "test", "prompts": prompts}
    (line,) = (tmp_path / "out" / "episodes.jsonl").read_text().splitlines()
    assert "Be brief. " in line
    other = {"brief": "Otherwise. {prompt}"}
    with pytest.warns(UserWarning, match="prompts="):
        summary = run_eval(ENV, env_kwargs={"prompts": other}, **settings)
    assert summary["env_kwargs"]["prompts"] == other


def test_a_temperature_that_is_no_number_is_refused(saved: Any) -> None:
    folder = Path(saved(ENV))
    about = json.loads((folder / "team.json").read_text())
    (folder / "team.json").write_text(json.dumps({**about, "temperature": "hot"}))
    with pytest.raises(ValueError, match="temperature 'hot'"):
        named_team(str(folder), here())
