"""Seats that are played by policies, and what the seats that are left see and earn."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from support.toys import BareParallel, Relay, SameCase, WordPair

from llm_marl_envs import make
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.specs import env_arguments, env_name
from llm_marl_envs.play.registry import make_gym
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.wrappers import Choose, GymSeat, Partners, SingleSeat


class Noted:
    """Says its number of the turn; keeps what it was asked, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[Request]] = []

    def act(self, requests: Sequence[Request]) -> list[Response]:
        self.calls.append(list(requests))
        return [Response(text=f"turn {request.turn}") for request in requests]


def test_the_seat_left_plays_with_the_partner():
    env = Partners(SameCase(), {"right_0": "expert:upper"})
    assert env.possible_agents == ["left_0"]
    observations, infos = env.reset(seed=1, options={"task": "apple-birch"})
    assert [*observations] == [*infos] == env.agents == ["left_0"]
    _, rewards, ended, _, infos = env.step({"left_0": "APPLE"})
    assert (rewards, ended) == ({"left_0": 1.0}, {"left_0": True})
    assert infos["left_0"]["success"] is True
    assert env.agents == []
    env.reset(seed=1, options={"task": "apple-birch"})
    assert env.step({"left_0": "apple"})[1] == {"left_0": 0.0}


def test_partners_see_their_own_chats_and_are_asked_together():
    noted = Noted()
    env = Partners(make("debate-v0", api="parallel"), {"debater_1": noted, "debater_2": noted})
    env.reset(seed=2)
    env.step({"debater_0": "my answer"})
    first = [request for call in noted.calls for request in call]
    assert [request.agent for request in first] == ["debater_1", "debater_2"]
    assert all(request.task_id for request in first)
    assert all("debater_2, one of 3" in first[1].observation for _ in first)
    both = Partners(WordPair(), {"left_0": noted})
    noted.calls.clear()
    both.reset(seed=0)
    both.step({"right_0": "x"})
    both.step({"right_0": "x"})
    assert [[request.turn for request in call] for call in noted.calls] == [[0], [1]]
    assert [m.content for m in noted.calls[1][0].messages][-2:] == ["turn 0", "Again."]


def test_turns_of_partners_are_between_two_turns_of_the_learner():
    env = Partners(Relay(rounds=2), {"runner_1": "expert", "runner_2": "expert"})
    assert env.possible_agents == ["runner_0"]
    env.reset(seed=0, options={"task": "cedar-fig"})
    _, rewards, ended, _, _ = env.step({"runner_0": "cedar"})
    assert (rewards["runner_0"], ended["runner_0"]) == (0.0, False)
    _, rewards, ended, _, infos = env.step({"runner_0": "cedar"})
    # The last runner pays, after two turns of partners; its reward is part of this step.
    assert (rewards["runner_0"], ended["runner_0"]) == (1.0, True)
    assert infos["runner_0"]["reward_terms"] == {"relay": 1.0}


def test_several_seats_left_of_a_turn_based_environment_take_turns():
    env = Partners(Relay(), {"runner_1": "expert"})
    env.reset(seed=0, options={"task": "cedar-fig"})
    assert env.possible_agents == env.agents == ["runner_0", "runner_2"]
    env.step("nothing")
    assert env.agent_selection == "runner_2"
    assert "You hear: cedar" in env.last()[0]  # from the partner, who knows the word
    env.step("cedar")
    assert env.rewards == {"runner_0": 1.0, "runner_2": 1.0}
    for _ in range(2):
        assert env.last()[1:3] == (1.0, True)
        env.step(None)
    assert env.agents == []


def test_a_rollout_takes_what_is_left_as_an_environment():
    env = Partners(Relay(), {"runner_1": "expert", "runner_2": "expert"})
    team = {"runner_0": ScriptedPolicy(lambda request: "x")}
    (episode,) = rollout(VectorTextEnv([env]), team, [Start(task="fig-elder", seed=3)])
    assert episode.agents == ("runner_0",)
    assert [turn.reward for turn in episode.turns] == [1.0]
    assert [turn.reward_terms for turn in episode.turns] == [{"relay": 1.0}]
    assert episode.success is True


def test_an_episode_can_be_repeated_and_the_next_one_differs():
    def said(seeds: Sequence[int | None]) -> list[str]:
        env = Partners(SameCase(), {"right_0": ScriptedPolicy(lambda r: str(r.seed))})
        texts = []
        for seed in seeds:
            env.reset(seed=seed)
            env.step({"left_0": "x"})
            texts.append(env.unwrapped.chat("right_0")[-1].content)
        return texts

    assert said([5, None]) == said([5, None])
    assert len({*said([5, None]), *said([6])}) == 3


class Ending(Relay):
    """The first runner ends the episode by saying "end"."""

    def play_one(self, agent: str, action: str) -> Outcome:
        return Outcome(reward_terms={}, ended=action == "end", success=False)


def test_a_partner_that_ends_the_episode_first_begins_another():
    def ends(request: Request) -> str:
        return "end" if request.seed % 3 else "go on"

    env = Partners(Ending(), {"runner_0": ScriptedPolicy(ends)})
    for seed in range(20):
        env.reset(seed=seed)
        assert env.agents == ["runner_1", "runner_2"]
        assert env.agent_selection == "runner_1"
    never = Partners(Ending(), {"runner_0": ScriptedPolicy(lambda r: "end")})
    with pytest.raises(RuntimeError, match=r"100 episodes runner_0 ended .* runner_1 .* task '"):
        never.reset(seed=0)
    alone = Partners(Ending(), {"runner_0": ScriptedPolicy(lambda r: "end"), "runner_2": "expert"})
    with pytest.raises(RuntimeError, match=r"runner_0, runner_2 ended .* runner_1 could .*'fig-"):
        alone.reset(seed=0, options={"task": "fig-elder"})


class OpenedBy(WordPair):
    """`right_0` speaks first, alone, and may end the episode by saying "end"."""

    begun = 0

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.begun += 1
        out = super().reset(seed=seed, options=options)
        self.agents = ["right_0"]
        return out

    def step(self, actions: Any) -> Any:
        if self.agents == ["left_0", "right_0"]:
            return super().step(actions)
        self.agents = [] if actions["right_0"] == "end" else ["left_0", "right_0"]
        seats = self.possible_agents
        seen = {agent: self._observe(agent) for agent in seats}
        over = dict.fromkeys(seats, not self.agents)
        return seen, dict.fromkeys(seats, 0.0), over, over, {agent: {} for agent in seats}


def test_a_partner_that_ends_a_simultaneous_episode_first():
    def ends(request: Request) -> str:
        return "end" if request.turn == 0 and request.seed % 3 else "go on"

    inner = OpenedBy()
    env = Partners(inner, {"right_0": ScriptedPolicy(ends)})
    for seed in range(10):
        env.reset(seed=seed)
        assert env.agents == ["left_0"]
    assert inner.begun > 10
    inner = OpenedBy()
    never = Partners(inner, {"right_0": ScriptedPolicy(lambda request: "end")})
    words = r"in 100 episodes right_0 ended the episode before left_0 could act.* task 'fig-elder'"
    with pytest.raises(RuntimeError, match=words):
        never.reset(seed=0, options={"task": "fig-elder"})
    assert inner.begun == 101


def test_environments_of_other_libraries():
    env = Partners(BareParallel(), {"short_0": ScriptedPolicy(lambda request: "abc")})
    observations, _ = env.reset(seed=0)
    assert set(observations) == set(env.possible_agents)
    while env.agents:  # the partner leaves early
        _, rewards, *_ = env.step(dict.fromkeys(env.agents, "def"))
        assert set(rewards) == set(env.possible_agents)


@pytest.mark.parametrize(
    "team",
    [{}, {"left_0": "expert", "right_0": "expert"}, {"nobody_0": "expert"}],
    ids=["nobody", "everybody", "unknown"],
)
def test_seats_that_cannot_be(team: dict[str, str]):
    with pytest.raises(ValueError, match=r"partners: .*expected some of \['left_0', 'right_0'\]"):
        Partners(WordPair(), team)


class Paying(Relay):
    def play_one(self, agent: str, action: str) -> Outcome:
        terms = {seat: {agent: 1.0} for seat in self.possible_agents}
        return Outcome(reward_terms=terms, ended=agent == "runner_2")


def test_terms_stay_while_agents_of_an_ended_episode_leave():
    env = Partners(Paying(), {"runner_2": "expert"})
    env.reset(seed=0)
    env.step("x")
    env.step("x")
    terms = {"runner_1": 1.0, "runner_2": 1.0}
    seen = []
    while env.agents:
        assert env.last()[4]["reward_terms"] == terms
        seen.append(env.agent_selection)
        env.step(None)
    assert seen == ["runner_0", "runner_1"]


def test_what_partners_earn_before_the_first_action_is_shown_once():
    env = Partners(Paying(), {"runner_0": "expert"})
    env.reset(seed=0)
    shown = [(dict(env.rewards), [env.infos[a].get("reward_terms", {}) for a in env.agents])]
    for _ in range(2):
        env.step("x")
        shown.append((dict(env.rewards), [env.infos[a]["reward_terms"] for a in env.agents]))
    both = ("runner_1", "runner_2")
    assert shown == [
        (dict.fromkeys(both, 0.0), [{}] * 2),
        (dict.fromkeys(both, 2.0), [{"runner_0": 1.0, "runner_1": 1.0}] * 2),
        (dict.fromkeys(both, 1.0), [{"runner_2": 1.0}] * 2),
    ]


def test_copies_share_policies_and_are_told_apart():
    noted = Noted()
    env = Partners(SameCase(), {"right_0": noted})
    env.reset(seed=4)
    twin = copy.deepcopy(env)
    for copied in (env, twin):
        copied.step({"left_0": "x"})
    first, second = (call[0] for call in noted.calls)
    assert first.episode != second.episode
    assert dataclasses.replace(second, episode=first.episode) == first
    env.reset()
    assert twin.partners.rng.getstate() != env.partners.rng.getstate()


def test_actions_for_partners_are_refused():
    env = Partners(WordPair(), {"right_0": "expert"})
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"\['right_0'\]: partners play there.*\['left_0'\]"):
        env.step({"left_0": "x", "right_0": "y"})


@pytest.mark.parametrize(
    ("actions", "error", "words"),
    [
        ("x", TypeError, "expected a dict agent -> action, got str"),
        (None, TypeError, "expected a dict agent -> action, got NoneType"),
        ({}, ValueError, "expected one for each of"),
        ({"nobody_0": "x"}, ValueError, "'nobody_0'.* expected one for each of"),
    ],
    ids=["text", "nothing", "empty", "unknown"],
)
def test_actions_that_cannot_be(actions: Any, error: type[Exception], words: str):
    runners = {"runner_1": "expert", "runner_2": "expert"}
    for env in (Partners(WordPair(), {"right_0": "expert"}), Partners(Relay(), runners)):
        env.reset(seed=0)
        with pytest.raises(error, match=words):
            env.step(actions)


@pytest.mark.parametrize("action", [None, {"runner_0": "x"}], ids=["nothing", "a dict"])
def test_turns_that_cannot_be(action: Any):
    env = Partners(Relay(), {"runner_1": "expert"})
    env.reset(seed=0)
    with pytest.raises(TypeError, match="action of runner_0: expected str, got"):
        env.step(action)


def test_what_is_left_is_known_by_its_id():
    team = {"debater_1": "expert", "debater_2": "expert"}
    env = Partners(make("debate-v0", rounds=1), team)
    assert (env_name(env), env_arguments(env)) == ("debate-v0", {"rounds": 1})
    assert Choose(env).spec.id == "debate-v0"
    assert env_name(Partners(Relay(), {"runner_1": "expert", "runner_2": "expert"})) == "Relay"


def test_partners_that_are_none():
    policy: Any = object()
    with pytest.raises(TypeError, match=r"right_0: expected an object with act"):
        Partners(WordPair(), {"right_0": policy})
    with pytest.raises(TypeError, match="Partners: expected a PettingZoo environment, got int"):
        Partners(3, {"right_0": "expert"})
    several: Any = ["right_0"]
    with pytest.raises(TypeError, match=r"Partners: expected a dict seat -> policy, got \['right"):
        Partners(WordPair(), several)


def test_a_seat_needs_one_agent():
    with pytest.raises(ValueError, match=r"GymSeat: expected one seat.*`Partners`.*single_seat"):
        GymSeat(WordPair())
    with pytest.raises(ValueError, match=r"one seat, got \['runner_0', 'runner_2'\]; give the oth"):
        GymSeat(Choose(Partners(Relay(), {"runner_1": "expert"})))
    with pytest.raises(ValueError, match=r"one seat, got \['debater_0', 'debater_2'\]"):
        make_gym("debate-v0", partners={"debater_1": "expert"})
    with pytest.raises(TypeError, match="GymSeat: expected a PettingZoo environment, got str"):
        GymSeat("debate-v0")
    assert GymSeat(SingleSeat(WordPair())).seat == "writer_0"


def test_steps_without_an_episode():
    runners = {"runner_1": "expert", "runner_2": "expert"}
    for inner in (Partners(Relay(), runners), Partners(WordPair(), {"right_0": "expert"})):
        for env, action in ((GymSeat(inner), "x"), (GymSeat(Choose(inner)), 0)):
            with pytest.raises(RuntimeError, match=r"GymSeat: no episode is running; call reset"):
                env.step(action)
            env.reset(seed=0)
            while not env.step(action)[2]:
                pass
            with pytest.raises(RuntimeError, match=r"GymSeat: no episode is running; call reset"):
                env.step(action)
