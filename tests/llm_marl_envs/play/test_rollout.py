from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import BaseParallelWrapper, OrderEnforcingWrapper
from support.toys import BareAEC, BareParallel, Relay, WordPair

from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.core.records import (
    Episode,
    Idle,
    Request,
    Response,
    StopReason,
    read_jsonl,
    write_jsonl,
)
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message, TextSpace
from llm_marl_envs.core.specs import register
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, RandomPolicy, ScriptedPolicy, Team
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.wrappers import Partners


class Counting:
    """Random text; notes how many requests each call had."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[int, str, int]]] = []

    def act(self, requests: Sequence[Request]) -> list[Response]:
        self.batches.append([(r.episode, r.agent, r.turn) for r in requests])
        return RandomPolicy().act(requests)


def played(
    env: Any, policy: Any, starts: Sequence[Start] = (Start(),), **more: Any
) -> list[Episode]:
    team: Team = {agent: policy for agent in env.possible_agents}  # noqa: C420 - keeps the type
    return rollout(VectorTextEnv([env]), team, starts, **more)


def both(policy: Policy) -> Team:
    return {"left_0": policy, "right_0": policy}


def say(text: str) -> ScriptedPolicy:
    return ScriptedPolicy(lambda request: text)


def test_a_solved_episode_is_recorded() -> None:
    env = WordPair()
    episode = played(env, ExpertPolicy(env), [Start(task="fig-apple", seed=4)])[0]
    assert (episode.task_id, episode.seed, episode.success) == ("fig-apple", 4, True)
    assert episode.stop_reason is StopReason.TERMINATED
    assert episode.env_id == "WordPair"
    assert [turn.action.lower() for turn in episode.turns] == ["fig", "apple"]
    assert [turn.reward_terms for turn in episode.turns] == [{"words": 1.0}] * 2
    assert "reward_terms" not in episode.turns[0].info


def test_one_policy_is_asked_once_for_all_its_seats() -> None:
    copies = VectorTextEnv([WordPair() for _ in range(3)])
    policy = Counting()
    team = both(policy)
    rollout(copies, team, [Start(seed=s) for s in range(5)])
    assert [len(batch) for batch in policy.batches] == [6, 6, 4, 4]  # 3 episodes, then 2
    assert policy.batches[2][0] == (3, "left_0", 0)


def test_turns_of_one_step_stand_in_the_order_of_the_seats() -> None:
    class Three(ParallelEnv[str, str, str]):
        metadata = {"name": "three"}  # noqa: RUF012 - as PettingZoo declares it
        possible_agents = ["a", "b", "c"]  # noqa: RUF012 - as PettingZoo declares it

        def observation_space(self, agent: str) -> TextSpace:
            return TextSpace(10)

        action_space = observation_space

        def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            self.agents = list(self.possible_agents)
            return dict.fromkeys(self.agents, "go"), {agent: {} for agent in self.agents}

        def step(self, actions: dict[str, str]) -> Any:
            names, self.agents = self.agents, []
            over, on = dict.fromkeys(names, True), dict.fromkeys(names, False)
            texts, infos = dict.fromkeys(names, "over"), {agent: {} for agent in names}
            return texts, dict.fromkeys(names, 0.0), over, on, infos

    own, shared = Counting(), Counting()
    episode = rollout(VectorTextEnv([Three()]), {"a": shared, "b": own, "c": shared}, [Start()])[0]
    assert [turn.agent for turn in episode.turns] == ["a", "b", "c"]
    assert [agent for _, agent, _ in shared.batches[0]] == ["a", "c"]


def test_the_result_does_not_depend_on_the_number_of_copies() -> None:
    starts = [Start(seed=s // 2, sample_seed=s) for s in range(7)]
    team = both(RandomPolicy())
    single, many = (
        rollout(VectorTextEnv([WordPair() for _ in range(n)]), team, starts) for n in (1, 4)
    )
    assert single == many
    assert single[0].task_id == single[1].task_id  # a shared reset seed is a shared task
    assert single[0].turns != single[1].turns  # and sampled differently


def test_no_two_actions_are_drawn_with_the_same_seed() -> None:
    """Not those of two turns, two seats or two episodes; the reset seed is of no account."""

    def seeds(*starts: Start) -> dict[tuple[int, str, int], int]:
        drawn: dict[tuple[int, str, int], int] = {}

        def noted(request: Request) -> str:
            drawn[request.episode, request.agent, request.turn] = request.seed
            return "?"  # so both turns are played

        played(WordPair(), ScriptedPolicy(noted), starts)
        return drawn

    here = seeds(*(Start(seed=1, sample_seed=s) for s in range(3)))
    assert len(here) == len({*here.values()}) == 3 * 2 * 2
    assert seeds(*(Start(seed=2, sample_seed=s) for s in range(3))) == here


def test_what_is_drawn_in_two_turns_is_independent() -> None:
    """Of 400 episodes a fair coin falls alike twice in half: 200, standard deviation 10."""

    def toss(request: Request) -> str:
        return f"{random.Random(request.seed).random() < 0.5}"

    starts = [Start(sample_seed=s) for s in range(400)]
    episodes = played(WordPair(), ScriptedPolicy(toss), starts)
    for agent in ("left_0", "right_0"):
        tosses = [[turn.action for turn in episode.trajectory(agent)] for episode in episodes]
        assert abs(sum(first == second for first, second in tosses) - 200) < 50


def test_progress_counts_episodes() -> None:
    counts: list[int] = []
    copies = VectorTextEnv([WordPair() for _ in range(2)])
    team = both(say(""))
    rollout(copies, team, [Start()] * 5, progress=counts.append)
    assert counts == [2, 2, 1]


def test_no_starts_no_episodes() -> None:
    assert played(WordPair(), say(""), []) == []


@pytest.mark.usefixtures("own_registry")
def test_both_forms_of_one_environment_give_the_same_episode() -> None:
    """The converted form leaves old infos standing between actions: no term counts twice."""
    register("rollout_pair-v0", WordPair)
    policy = ScriptedPolicy(lambda r: r.observation.split()[-1] if r.agent == "left_0" else "no")
    parallel, aec = (
        played(make("rollout_pair-v0", api=api), policy)[0] for api in ("parallel", "aec")
    )
    assert [turn.reward_terms for turn in aec.turns] == [{"words": w} for w in (0.5, 0.5, 0.0, 0.0)]
    assert aec.turns == parallel.turns
    assert replay(aec).turns == aec.turns


def test_the_turn_based_form_asks_only_who_acts() -> None:
    native = played(Relay(rounds=2), RandomPolicy(), [Start(seed=3)])[0]
    converted: Any = turn_based_aec_to_parallel(Relay(rounds=2))
    assert played(converted, RandomPolicy(), [Start(seed=3)])[0] == native


def test_an_episode_of_a_converted_environment_says_what_made_it() -> None:
    episode = played(make("debate-v0", api="parallel"), RandomPolicy())[0]
    assert (episode.env_id, episode.env_kwargs) == ("debate-v0", {"api": "parallel"})
    assert replay(episode).turns == episode.turns


def test_aec_rewards_reach_every_earlier_action() -> None:
    env = Relay()
    episode = played(env, ExpertPolicy(env))[0]
    assert [(t.agent, t.reward) for t in episode.turns] == [
        ("runner_0", 1.0),
        ("runner_1", 1.0),
        ("runner_2", 1.0),
    ]
    assert episode.success is True


def test_agents_that_leave_early() -> None:
    episode = played(BareParallel(), say("hi"))[0]
    assert [turn.agent for turn in episode.turns] == ["short_0", "tall_0", "tall_0", "tall_0"]
    assert episode.undiscounted_return("short_0") == 1.0
    assert episode.undiscounted_return("tall_0") == 0.75
    assert episode.success is None


def test_an_agent_that_dies_is_still_paid() -> None:
    episode = played(BareAEC(), say("hi"))[0]
    assert [turn.agent for turn in episode.turns] == ["first_0", "second_0", "second_0"]
    assert episode.undiscounted_return("first_0") == 4.0
    assert episode.stop_reason is StopReason.TRUNCATED


class PaysAhead(BareAEC):
    """`first_0` acts twice, then `second_0` twice; every action pays both, so twice too early."""

    def step(self, action: str | None) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self.count += 1
        self.rewards = {"first_0": 1.0, "second_0": 10.0**self.count}
        self.agent_selection = "first_0" if self.count < 2 else "second_0"
        self.terminations = dict.fromkeys(self.agents, self.count == 4)


def test_what_an_agent_earns_before_it_acts_belongs_to_its_first_action() -> None:
    episode = played(PaysAhead(), say("hi"))[0]
    assert [turn.reward for turn in episode.trajectory("first_0")] == [1.0, 3.0]
    assert [turn.reward for turn in episode.trajectory("second_0")] == [10.0 + 100 + 1000, 10_000.0]
    # What the team earned before is no consequence of the late one's actions.
    assert [turn.team_reward for turn in episode.trajectory("second_0")] == [1001 / 2, 10_001 / 2]
    assert episode.undiscounted_return("second_0") == 11_110.0


class Quits(Relay):
    """The first of three seats can end the episode: it is paid 1, the others -1 and -3."""

    reward_range = (-3.0, 1.0)

    def play_one(self, agent: str, action: str) -> Outcome:
        if action != "quit":
            return Outcome(reward_terms={}, feedback={self.next_agent(agent): "Go on."})
        paid = zip(self.possible_agents, (1.0, -1.0, -3.0), strict=True)
        return Outcome(reward_terms={a: {"quit": reward} for a, reward in paid}, ended=True)


def test_seats_that_never_act_are_paid(tmp_path: Path) -> None:
    episode = played(Quits(), say("quit"))[0]
    assert [turn.agent for turn in episode.turns] == [episode.agents[0]]
    assert [episode.undiscounted_return(agent) for agent in episode.agents] == [1.0, -1.0, -3.0]
    assert episode.team_return == episode.turns[0].team_reward == -1.0
    assert episode.idle == {
        agent: Idle(reward=paid, reward_terms={"quit": paid})
        for agent, paid in zip(episode.agents[1:], (-1.0, -3.0), strict=True)
    }
    write_jsonl(tmp_path / "one.jsonl", [episode])
    (restored,) = read_jsonl(tmp_path / "one.jsonl")
    assert restored.team_return == -1.0
    assert restored.idle == episode.idle
    assert [restored.terms_of(agent)["quit"] for agent in episode.agents] == [1.0, -1.0, -3.0]
    result = evaluate_team(Quits(), dict.fromkeys(episode.agents, say("quit")), n_tasks=2)
    assert result.mean_return == -1.0
    assert result.reward_terms == {"quit": -1.0}
    assert played(Quits(), say("no"))[0].idle == {}


def test_reward_terms_that_come_before_the_first_action_are_kept() -> None:
    """A solver that is right at once earns the verifier 1 before that one has said a word."""
    env = make("math_team-v1", form="solver_verifier", info="full")
    (episode,) = played(env, ExpertPolicy(env))
    assert [turn.agent for turn in episode.turns] == ["solver_0", "verifier_0"]
    assert episode.turns[1].reward == 1.0
    assert episode.turns[1].reward_terms == {"team": 1.0}
    alone = Partners(env, {"solver_0": "expert"})
    (left,) = played(alone, say("Verdict: right"))
    assert left.turns[0].reward == 1.0
    assert left.turns[0].reward_terms == {"team": 1.0}


def test_pettingzoos_wrappers_change_nothing() -> None:
    wrapped: Any = OrderEnforcingWrapper(BareAEC())
    assert played(wrapped, say("hi")) == played(BareAEC(), say("hi"))
    pair: Any = BaseParallelWrapper(WordPair())
    assert played(pair, RandomPolicy()) == played(WordPair(), RandomPolicy())


def test_bare_strings_become_a_chat() -> None:
    grown = played(BareParallel(), say("hi"))[0].trajectory("tall_0")
    assert grown[1].messages == (
        Message("user", "The log:"),
        Message("assistant", "hi"),
        Message("user", "\nshort_0: hi\ntall_0: hi"),
    )
    other = played(BareAEC(), say("hi"))[0].trajectory("second_0")
    assert [m.content for m in other[1].messages] == ["1 actions so far", "hi", "2 actions so far"]
    fresh = played(BareAEC(), say("hi"), context="fresh")[0].trajectory("second_0")
    assert [m.content for m in fresh[1].messages] == ["2 actions so far"]


class Showing(BareParallel):
    """Shows `tall_0` the given texts, one after the other."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.texts = texts

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        _, infos = super().reset(seed, options)
        self.agents, self.left = ["tall_0"], list(self.texts)
        return {"tall_0": self.left.pop(0)}, {"tall_0": infos["tall_0"]}

    def step(self, actions: dict[str, str]) -> Any:
        over = not self.left
        self.agents = [] if over else self.agents
        text = "over" if over else self.left.pop(0)
        return ({"tall_0": text}, {"tall_0": 0.0}, {"tall_0": over}, {"tall_0": False}, {})


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("Round score: 1", "Round score: 12", "Round score: 12"),  # inside a number
        ("You see a car", "You see a carpet", "You see a carpet"),  # inside a word
        ("You see a car", "You see a car and a bus", "You see a car and a bus"),  # inside a line
        ("You see a car", "You see a car.\nMove!", "You see a car.\nMove!"),
        ("Log:", "Log:\n1. left", "\n1. left"),  # the rest begins a line
        ("Log:\n", "Log:\n1. left\n", "1. left\n"),  # the one before ended its line
        ("Log:\r\n", "Log:\r\n1. left", "1. left"),
        ("Log:", "Log:\r\n1. left", "\r\n1. left"),
        ("Log:\r", "Log:\r\n1. left", "\n1. left"),
        ("Log:", "Log:\n\n  1. left", "\n\n  1. left"),
        ("Write.", "Write.", "Write."),  # unchanged
        ("Write.\n", "Write.\n", "Write.\n"),
        ("Write.", "Write.\n", "Write.\n"),  # nothing to read is added
        ("Write.\n", "Write.\n \t\n", "Write.\n \t\n"),
        ("", "Write.", "Write."),
        ("", "", ""),
        ("Write.", "", ""),
        ("\n", "\nWrite.", "Write."),
        ("Round 1\nGo.", "Round 2\nGo.", "Round 2\nGo."),  # another text
        ("Round 1\nGo.", "Round 1\n", "Round 1\n"),  # a shorter one
        ("Go.\n", "Now:\nGo.\nRun!", "Now:\nGo.\nRun!"),  # in the middle
    ],
)
def test_what_is_added_to_a_chat_is_whole_lines(before: str, after: str, shown: str) -> None:
    turns = played(Showing(before, after), say("hi"))[0].turns
    assert [m.content for m in turns[1].messages] == [before, "hi", shown]


def test_what_is_added_is_what_the_last_observation_lacked() -> None:
    texts = ("A", "A\nB", "A\nB\nC", "A\nB\nC", "A\nB\nC\nD")
    turns = played(Showing(*texts), say("hi"))[0].turns
    shown = [m.content for m in turns[-1].messages if m.role == "user"]
    assert shown == ["A", "\nB", "\nC", "A\nB\nC", "\nD"]
    fresh = played(Showing(*texts), say("hi"), context="fresh")[0].turns
    assert [[m.content for m in turn.messages] for turn in fresh] == [[text] for text in texts]


def test_unicode_goes_through() -> None:
    text = "naïve 漢字 🦜\n\ud800 \u2028"
    episode = played(WordPair(), say(text))[0]
    assert episode.trajectory("left_0")[1].messages[-2] == Message("assistant", text)


class Short:
    def act(self, requests: Sequence[Request]) -> list[Response]:
        return []


class Bare:
    def act(self, requests: Sequence[Request]) -> list[str]:
        return ["text"] * len(requests)


class Numbers(BareParallel):
    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        _, infos = super().reset(seed, options)
        return dict.fromkeys(self.agents, 3.5), infos


class Silent(BareParallel):
    def step(self, actions: dict[str, str]) -> Any:
        return ({}, *super().step(actions)[1:])


@pytest.mark.parametrize(
    ("env", "policy", "more", "error", "words"),
    [
        (Silent(), say(""), {}, ValueError, "Silent sent no observation for tall_0"),
        (WordPair(), Short(), {}, ValueError, "Short answered 2 requests with 0 responses"),
        (WordPair(), Bare(), {}, TypeError, "Bare answered with str; expected records.Response"),
        (WordPair(), say(3), {}, TypeError, "content must be str, got int"),  # type: ignore[arg-type]
        (Numbers(), say(""), {}, TypeError, "observation of short_0: expected str, got float"),
        (WordPair(), say(""), {"context": "all"}, ValueError, "context='all': expected one of"),
    ],
)
def test_what_does_not_fit_is_said(
    env: Any, policy: Any, more: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        played(env, policy, **more)


def test_all_seats_must_be_known() -> None:
    env = BareParallel()
    del env.possible_agents
    with pytest.raises(TypeError, match="BareParallel has no `possible_agents`"):
        rollout(VectorTextEnv([env]), {}, [Start()])
