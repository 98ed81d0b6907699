"""Who may sit: a closed list of what lies in the given folders and what was named at the start."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from llm_marl_envs import make
from llm_marl_envs.app.folders import DEEPEST, Folders
from llm_marl_envs.app.games import Game, Setup
from llm_marl_envs.app.matches import Match
from llm_marl_envs.app.players import Players
from llm_marl_envs.policies.scripted import RandomPolicy

DEBATE = Setup(env_id="debate-v0", env_kwargs={})


def a_team(folder: Path, env_id: str, agents: object) -> None:
    folder.mkdir(parents=True)
    (folder / "team.json").write_text(json.dumps({"env_id": env_id, "agents": agents}))


def test_teams_and_models_of_the_folders(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    a_team(runs / "right" / "team", "debate-v0", {"debater_0": "a", "debater_1": "a"})
    a_team(runs / "other" / "team", "coop_coding-v0", {"helper_0": "a"})
    (runs / "right" / "team" / "a").mkdir()
    (runs / "right" / "team" / "a" / "config.json").write_text("{}")  # a member, no model
    (runs / "model").mkdir()
    for name in ("config.json", "tokenizer.json"):
        (runs / "model" / name).write_text("{}")
    (runs / "mute").mkdir()
    (runs / "mute" / "config.json").write_text("{}")  # without a tokenizer it reads nothing
    (runs / "broken").mkdir()
    (runs / "broken" / "team.json").write_text("{")
    players = {p.name: p.seats for p in Players(Folders([runs])).of(make("debate-v0"))}
    assert players["folder:runs/right/team"] == ("debater_0", "debater_1")
    assert {name for name in players if name.startswith("folder:")} == {
        "folder:runs/right/team",
        "folder:runs/model",
    }


@pytest.mark.parametrize(
    "name", ["os:system", "/etc", "../secret", "folder:../x", "folder:/etc", "Qwen/Qwen3-0.6B", ""]
)
def test_no_other_name_takes_a_seat(tmp_path: Path, name: str) -> None:
    chosen = {"debater_0": "expert", "debater_1": name, "debater_2": "you"}
    with pytest.raises(ValueError, match="debater_1"):
        Game(DEBATE, Players(Folders([tmp_path])), chosen)


def test_a_name_for_no_seat_is_never_resolved(tmp_path: Path) -> None:
    players, seats = Players(Folders([tmp_path])), ("debater_0", "debater_1", "debater_2")
    chosen = dict.fromkeys(seats, "agreed") | {"debater_9": "support.toys:no_such_policy"}
    game = Game(DEBATE, players, chosen)
    assert tuple(game.chosen) == seats
    assert tuple(players.team(game.env, chosen, game)) == seats
    match = Match(DEBATE, players, {"left": chosen, "right": chosen})
    assert [tuple(side) for side in match.sides.values()] == [seats, seats]


def test_who_is_named_at_the_start_takes_a_seat() -> None:
    players = Players(Folders([]), ["random"])
    env = make("debate-v0")
    assert "named:random" in {player.name for player in players.of(env)}
    game = Game(DEBATE, players, dict.fromkeys(env.possible_agents, "named:random"))
    team = players.team(env, game.chosen, game)
    policies = {id(seated.policy) for seated in team.values()}  # type: ignore[attr-defined]
    assert len(policies) == 1
    again = players.team(env, game.chosen, game)["debater_0"]
    assert isinstance(again.policy, RandomPolicy)  # type: ignore[attr-defined]
    assert again.policy is team["debater_0"].policy  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="expect"):
        Players(Folders([]), ["expect"])


def test_folders_lead_nowhere_else(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "log.jsonl").write_text("")
    runs = tmp_path / "runs"
    deep = runs.joinpath(*map(str, range(DEEPEST + 1)))
    deep.mkdir(parents=True)
    for folder in (runs, deep, deep.parent):
        (folder / "log.jsonl").write_text("")
    (runs / "link").symlink_to(secret, target_is_directory=True)
    folders = Folders([runs])
    assert folders.holding("log.jsonl") == ["runs", "runs/0/1/2/3/4"]
    assert folders.path("runs/0") == runs / "0"
    for place in ("runs/link", "secret", "runs/../secret", "/etc", ""):
        with pytest.raises(ValueError, match="no such folder"):
            folders.path(place)


def test_a_folder_whose_name_is_no_text_is_left_out(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    odd = Path(os.fsdecode(os.fsencode(runs) + b"/odd\xff"))
    for folder in (runs / "even", odd):
        folder.mkdir(parents=True)
        (folder / "log.jsonl").write_text("")
    (runs / "pipe").mkdir()
    os.mkfifo(runs / "pipe" / "log.jsonl")
    assert Folders([runs]).holding("log.jsonl") == ["runs/even"]
    with pytest.raises(ValueError, match="rename"):
        Folders([odd])


def test_folders_are_named_apart(tmp_path: Path) -> None:
    (tmp_path / "a" / "runs").mkdir(parents=True)
    (tmp_path / "b" / "runs").mkdir(parents=True)
    assert Folders([tmp_path / "a" / "runs", tmp_path / "b" / "runs"]).names == ["a/runs", "b/runs"]
    with pytest.raises(ValueError, match="twice"):
        Folders([tmp_path / "a", tmp_path / "a" / "."])
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file"):
        Folders([tmp_path / "file"])
    assert Folders([tmp_path / "later"]).holding("log.jsonl") == []
