"""Saved teams, models and servers in seats, with real weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.endpoint_server import Server, completion, serving
from support.models import untrained

from llm_marl_envs.app.folders import Folders
from llm_marl_envs.app.games import Game, Setup
from llm_marl_envs.app.matches import Match
from llm_marl_envs.app.players import Players
from trainers.weights.team_files import build_team_model, save_team

SETUP = Setup(env_id="crowd-v0", env_kwargs={}, task=0)
SEATS = ["member_0", "member_1", "member_2", "member_3"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights") / "runs"
    model, tokenizer = untrained()
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    team = build_team_model(str(folder / "model"), ["member_0"], weights="shared")
    about = {"env_id": "crowd-v0", "env_kwargs": {}, "max_completion_length": 8}
    save_team(team, folder / "trained" / "team", env={**about, "temperature": 1.0})
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    yield from serving(monkeypatch)


def test_each_kind_takes_a_seat(runs: Path, server: Server) -> None:
    server.script = lambda body, number: completion("Answer: of a server")
    endpoint = f"endpoint:{server.url}#tiny"
    players = Players(Folders([runs]), [endpoint])
    names = ["folder:runs/trained/team", "folder:runs/model", f"named:{endpoint}", "random"]
    chosen = dict(zip(SEATS, names, strict=True))
    games = [Game(SETUP, players, chosen) for _ in range(3)]
    for game in games:
        game.begin()
    for game in games:  # at once, and the weights are loaded once and used by one after the other
        game.rest(120)
        assert game.error is None
        assert game.episode is not None
        assert {t.agent for t in game.episode.turns if t.response.completion_ids} == {*SEATS[:2]}
        assert game.episode.trajectory("member_2")[0].action == "Answer: of a server"
    assert len(players._made) == 3
    played = [game.episode for game in games if game.episode is not None]
    first, *others = [[turn.action for turn in episode.turns] for episode in played]
    assert others == [first, first]  # the same seed, whoever was asked at the same time


def test_a_team_sits_in_its_own_seats_alone(runs: Path) -> None:
    players = Players(Folders([runs]))
    chosen = dict.fromkeys(SEATS, "folder:runs/trained/team")
    with pytest.raises(ValueError, match="member_1"):
        Match(SETUP, players, {"left": chosen})


def test_a_server_that_is_gone_is_said_in_a_line(server: Server) -> None:
    players = Players(Folders([]), [f"endpoint:{server.url}#tiny"])
    server.script = lambda body, number: (400, {}, b'{"error": "no such thing"}')
    game = Game(SETUP, players, dict.fromkeys(SEATS, f"named:{players.named[0]}"))
    game.begin()
    game.rest(60)
    assert game.episode is None
    assert game.error
    assert "Traceback" not in game.error
