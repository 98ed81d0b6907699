"""Environments as OpenEnv servers, and servers as environments, over a real WebSocket."""

# pyright: reportMissingImports=false

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import random
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from support.serve_app import serve_app

from llm_marl_envs import list_envs, make
from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.testing import check_text_env
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy
from llm_marl_envs.policies.named import Context, seated

pytest.importorskip("openenv", reason="make test-bridges installs it")

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.generic_client import GenericEnvClient

from llm_marl_envs.bridges.openenv import OpenEnvSeat, RemoteParallel, RemoteTeam, RemoteTurns, app

TOYS = {"pair": "support.toys:WordPair", "relay": "support.toys:Relay"}


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """Addresses of servers of both forms."""
    with ExitStack() as stack:
        served = {name: stack.enter_context(serve_app(app(toy))) for name, toy in TOYS.items()}
        yield served


@pytest.fixture
def pair(urls: dict[str, str]) -> Iterator[Any]:
    with GenericEnvClient(urls["pair"]).sync() as client:
        yield client


@pytest.fixture
def relay(urls: dict[str, str]) -> Iterator[Any]:
    with GenericEnvClient(urls["relay"]).sync() as client:
        yield client


def test_a_joint_action_in_all_seats_out(pair: Any):
    first = pair.reset(seed=3, task="fig-apple", episode_id="mine")
    assert first.observation["acting"] == ["left_0", "right_0"]
    assert first.observation["chats"]["left_0"] == [
        {"role": "system", "content": "Say your word."},
        {"role": "user", "content": "Your word: fig"},
    ]
    assert first.reward is None
    result = pair.step({"actions": {"left_0": "fig", "right_0": "naïve 漢字 🦜\x00"}})
    assert result.reward == 0.5
    assert result.observation["rewards"] == {"left_0": 0.5, "right_0": 0.5}
    assert result.observation["chats"]["right_0"][2]["content"] == "naïve 漢字 🦜\x00"
    assert pair.state()["episode_id"] == "mine"
    result = pair.step({"actions": {"left_0": "", "right_0": "apple"}})  # the second turn
    assert result.done
    assert result.observation["terminations"] == {"left_0": True, "right_0": True}
    assert result.observation["infos"]["left_0"]["success"] is True
    assert (result.observation["acting"], result.observation["agents"]) == ([], [])
    assert pair.state()["step_count"] == 2


def test_only_who_is_to_act_does(relay: Any):
    result = relay.reset(task="cedar-fig")
    for agent in ("runner_0", "runner_1", "runner_2"):
        assert result.observation["acting"] == [agent]
        assert not result.done
        result = relay.step({"actions": {agent: "cedar"}})
    assert result.done
    assert result.observation["rewards"] == dict.fromkeys(result.observation["rewards"], 1.0)
    assert len(result.observation["rewards"]) == 3
    assert result.observation["infos"]["runner_0"]["success"] is True


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({"left_0": "a"}, r"missing \['right_0'\]"),
        ({"left_0": "a", "right_0": "b", "up_0": "c"}, r"not to act \['up_0'\]"),
        ({"left_0": 7, "right_0": "b"}, "action of left_0: expected str, got int"),
        ("a", "VALIDATION_ERROR"),
    ],
)
def test_a_wrong_joint_action_names_the_seat(pair: Any, actions: Any, message: str):
    pair.reset(seed=0)
    with pytest.raises(RuntimeError, match=f"(?s){message}"):
        pair.step({"actions": actions})
    assert pair.step({"actions": {"left_0": "a", "right_0": "b"}}).reward == 0.0  # it goes on


def test_a_seat_out_of_turn_is_named(relay: Any):
    relay.reset(seed=0)
    with pytest.raises(RuntimeError, match=r"missing \['runner_0'\], not to act \['runner_1'\]"):
        relay.step({"actions": {"runner_1": "a"}})


def test_what_a_reset_does_not_take(pair: Any):
    with pytest.raises(RuntimeError, match=r"reset: got \['split'\]; expected seed, episode_id"):
        pair.reset(split="test")
    with pytest.raises(RuntimeError, match="no task 'no-task'"):
        pair.reset(task="no-task")
    with pytest.raises(RuntimeError, match="no episode is running; send a reset"):
        pair.step({"actions": {}})


def test_wrong_arguments_are_refused_before_anything_is_served():
    with pytest.raises(ValueError, match=r"no environment 'debat-v0'.*debate-v0"):
        app("debat-v0")
    with pytest.raises(ValueError, match="splitt"):
        app("debate-v0", splitt="test")


def test_sessions_side_by_side(urls: dict[str, str]):
    with ExitStack() as stack:
        clients = [stack.enter_context(GenericEnvClient(urls["pair"]).sync()) for _ in range(3)]
        words = ["fig-apple", "birch-elder", "daisy-fig"]
        for client, task in zip(clients, words, strict=True):
            client.reset(task=task)
        for client, task in zip(clients, words, strict=True):
            actions = dict(zip(("left_0", "right_0"), task.split("-"), strict=True))
            assert client.step({"actions": actions}).reward == 1.0


def test_more_sessions_than_there_is_room_for():
    with serve_app(app(TOYS["pair"], sessions=1)) as url:
        first = RemoteTeam(url)
        # Which of both comes depends on who is quicker.
        with pytest.raises(
            (ConnectionError, RuntimeError), match=r"more sessions|CAPACITY_REACHED"
        ):
            RemoteTeam(url)
        assert first.reset(seed=0)
        first.close()


def test_http_alone_has_no_session(urls: dict[str, str]):
    body = json.dumps({"action": {"actions": {"left_0": "a", "right_0": "b"}}}).encode()
    request = urllib.request.Request(
        urls["pair"] + "/step", body, {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError, match="500"):
        urllib.request.urlopen(request, timeout=10)
    with urllib.request.urlopen(urls["pair"] + "/list_environments", timeout=10) as answer:
        [name] = json.loads(answer.read())
    with pytest.raises(urllib.error.HTTPError, match="501"):  # no Task API
        urllib.request.urlopen(f"{urls['pair']}/{name}/splits", timeout=10)
    with urllib.request.urlopen(urls["pair"] + "/metadata", timeout=10) as answer:
        assert json.loads(answer.read())["name"] == TOYS["pair"]


# -- back again ------------------------------------------------------------------------------------
def played(env: Any, team: Any, task: Any, seed: int) -> Episode:
    episode = rollout(VectorTextEnv([env]), team, [Start(task=task, seed=seed)])[0]
    return dataclasses.replace(episode, env_id="", env_kwargs={})


@pytest.mark.parametrize("env_id", list_envs())
def test_an_episode_is_the_one_in_process(env_id: str):
    here = make(env_id)
    team = seated(dict.fromkeys(here.possible_agents, "expert"), Context(env=here))
    with serve_app(app(env_id)) as url:
        remote = RemoteTeam(url)
        turns = here.spec is not None and here.spec.api == "aec"
        assert isinstance(remote, RemoteTurns if turns else RemoteParallel)
        for index in {0, min(7, len(here.source) - 1)}:
            assert played(remote, team, index, index + 3) == played(here, team, index, index + 3)
        remote.close()


@pytest.mark.parametrize("name", TOYS)
def test_a_remote_team_keeps_the_contract(urls: dict[str, str], name: str):
    made: list[Any] = []

    def remote() -> Any:
        made.append(RemoteTeam(urls[name]))
        return made[-1]

    seeds = (0,) if name == "relay" else (0, 1)
    check_text_env(remote, seeds=seeds)
    for env in made:
        env.close()


def test_copies_play_side_by_side(urls: dict[str, str]):
    starts = [Start(task=index, seed=index, sample_seed=index) for index in range(5)]
    copies = VectorTextEnv([RemoteTeam(urls["pair"]) for _ in range(3)])
    team: Any = dict.fromkeys(("left_0", "right_0"), RandomPolicy())
    remote = rollout(copies, team, starts)
    here = rollout(VectorTextEnv([make(TOYS["pair"])]), team, starts)
    assert [episode.turns for episode in remote] == [episode.turns for episode in here]
    copies.close()


def test_other_settings_reach_the_other_end():
    settings = {"split": "test", "turns": 2}
    with serve_app(app("coop_coding-v0", **settings)) as url:
        env = make("llm_marl_envs.bridges.openenv:RemoteTeam", server=url)
        here = make("coop_coding-v0", **settings)
        assert (env.max_turns, env.reward_range) == (2, here.reward_range)
        assert env.source[3].id == "test/3"
        silent = dict.fromkeys(env.possible_agents, ScriptedPolicy(lambda request: ""))
        assert played(env, silent, 3, 0) == played(here, silent, 3, 0)
        env.close()


def test_a_copy_has_a_session_of_its_own(urls: dict[str, str]):
    env: Any = RemoteTeam(urls["pair"])
    env.reset(options={"task": "fig-apple"})
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        other.reset(options={"task": "birch-elder"})
        assert other.step({"left_0": "birch", "right_0": "elder"})[1]["left_0"] == 1.0
        other.close()
    assert env.step({"left_0": "fig", "right_0": "apple"})[1]["left_0"] == 1.0
    env.close()


def test_nobody_is_there():
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9"):
        RemoteTeam("http://127.0.0.1:9")


# -- anybody's server ------------------------------------------------------------------------------
class Say(Action):
    message: str


class Heard(Observation):
    echo: str


class Guess(Environment[Say, Heard, State]):
    """Guess a digit: each wrong guess costs 0.1, the right one pays 1; "bug" breaks it."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    seeded = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Heard:
        self.digit = random.Random(seed if self.seeded else None).randrange(10)
        return Heard(
            echo=f"Guess; it is above {self.digit - 1}."
            if self.seeded
            else f"Guess {random.Random().random()}."
        )

    def step(self, action: Say, timeout_s: float | None = None, **_: Any) -> Heard:
        if action.message == "bug":
            raise ZeroDivisionError("a bug of the server")
        right = action.message == str(self.digit)
        return Heard(echo=f"You said {action.message}.", done=right, reward=1.0 if right else -0.1)

    @property
    def state(self) -> State:
        return State()


class Unseeded(Guess):
    seeded = False


@pytest.fixture(scope="module")
def guess() -> Iterator[str]:
    with serve_app(create_fastapi_app(Guess, Say, Heard, max_concurrent_envs=64)) as url:
        yield url


def told(text: str) -> int:
    """The digit to guess."""
    return int(text.split()[-1][:-1]) + 1


def test_any_server_is_an_environment(guess: str):
    env = OpenEnvSeat(server=guess, reward_range=(-6.4, 1.0))
    digit = {}

    def script(request: Any) -> str:
        digit["is"] = told(request.messages[0].content)
        return str(digit["is"] if request.turn else "naïve 漢字 🦜")

    episode = played(env, {"player_0": ScriptedPolicy(script)}, "train/4", 0)
    assert digit["is"] == random.Random(4).randrange(10)
    assert [turn.reward for turn in episode.turns] == [-0.1, 1.0]
    assert episode.turns[1].messages[-1].content == "You said naïve 漢字 🦜."
    env.close()


def test_a_seat_keeps_the_contract_where_the_server_keeps_its_seeds(guess: str):
    make_env = partial(OpenEnvSeat, server=guess, reward_range=(-6.4, 1.0), turns=3)
    check_text_env(make_env, seeds=(0,))


def test_a_server_that_ignores_seeds_is_found_out():
    with serve_app(create_fastapi_app(Unseeded, Say, Heard, max_concurrent_envs=64)) as url:
        make_env = partial(OpenEnvSeat, server=url, reward_range=(-6.4, 1.0), turns=2)
        with pytest.raises(AssertionError, match="equal actions differ"):
            check_text_env(make_env, seeds=(0,))


def test_what_a_server_raises_ends_the_episode(guess: str):
    env = OpenEnvSeat(server=guess, reward_range=(-2.0, 1.0))
    bug = {"player_0": ScriptedPolicy(lambda request: "bug")}
    episode = played(env, bug, 0, 0)
    assert [turn.reward for turn in episode.turns] == [-2.0]
    assert "a bug of the server" in episode.turns[0].info["error"]
    right = ScriptedPolicy(lambda request: str(told(request.messages[0].content)))
    assert played(env, {"player_0": right}, 0, 0).team_return == 1.0  # the session goes on
    env.close()


def test_own_mappings(guess: str):
    env = make(
        "llm_marl_envs.bridges.openenv:OpenEnvSeat",
        server=lambda: GenericEnvClient(guess),
        to_action=lambda text: {"message": text.strip("[]")},
        to_text=lambda observation: observation["echo"].upper(),
    )
    first, _ = env.reset(options={"task": "train/4"})
    assert first["player_0"].startswith("GUESS; IT IS ABOVE")
    digit = told(first["player_0"])
    assert env.step({"player_0": f"[{digit}]"})[1] == {"player_0": 1.0}
    env.close()


def test_wrong_arguments_of_a_seat(guess: str):
    with pytest.raises(ValueError, match=r"reward_range=\(1, 0\)"):
        OpenEnvSeat(server=guess, reward_range=(1, 0))
    with pytest.raises(ValueError, match="split='tst'"):
        OpenEnvSeat(server=guess, split="tst")
    with pytest.raises(ValueError, match="serves no environment of this library"):
        RemoteTeam(guess)
