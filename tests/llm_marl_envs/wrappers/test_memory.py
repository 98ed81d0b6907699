"""Chats that are summed up: when, what is left of them, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.toys import BareParallel

from llm_marl_envs import make
from llm_marl_envs.core.records import Episode, Request, read_jsonl, write_jsonl
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.testing import check_text_env
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.wrappers import Memory, Tools

LONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("agents_net-v0", {"nodes": 4, "turns": 4}),
    ("coop_coding-v0", {"turns": 3, "feedback": "partner"}),
    ("debate-v0", {"rounds": 3}),
    ("debate-v0", {"decides": "leader", "rounds": 3}),
    ("plan_path-v1", {"turns": 3}),
    ("solve_critique_refine-v0", {}),
)
DEMAND = "Write what you need to go on"


def talk(env: Any, say: Any = lambda request: f"{request.agent} says {request.turn}") -> Episode:
    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(say))
    (episode,) = rollout(VectorTextEnv([env]), team, [Start(task=0, seed=3)])
    return episode


def asked(turn: Any) -> bool:
    return turn.messages[-1].content.startswith(DEMAND)


def test_a_chat_begins_anew_from_its_opening_and_the_notes() -> None:
    env = make("debate-v0", rounds=3, memory={"max_chars": 60})

    def say(request: Request) -> str:
        if request.messages[-1].content.startswith(DEMAND):
            return "<think>long</think> I am\nred " + "x" * 99
        return "Only I know it.\nAnswer: [red]"

    episode = talk(env, say)
    own = episode.trajectory("debater_0")
    assert [asked(turn) for turn in own] == [False, True, False, True, False]
    opening = own[0].messages
    for notes, after in ((own[1], own[2]), (own[3], own[4])):
        assert notes.info["notes"] == 30
        assert notes.reward == 0
        *before, last = after.messages
        assert before == [*opening[:-1]]
        lines = last.content.removeprefix(opening[-1].content).splitlines()
        assert lines == ["", "Your notes:", "> I am", f"> red {'x' * 21}"]
    heard = "\n".join(message.content for turn in episode.turns for message in turn.messages)
    assert "debater_0 says:\n> I am" not in heard  # nobody else is shown notes
    assert episode.undiscounted_return("debater_0") == talk(
        make("debate-v0", rounds=3), say
    ).undiscounted_return("debater_0")


@pytest.mark.parametrize(("env_id", "kwargs"), LONG)
def test_no_chat_grows_so_long_nothing_changes(env_id: str, kwargs: dict[str, Any]) -> None:
    bare, kept = talk(make(env_id, **kwargs)), talk(
        make(env_id, **kwargs, memory={"max_chars": 10**6})
    )  # fmt: skip
    assert kept.turns == bare.turns


@pytest.mark.parametrize(("env_id", "kwargs"), LONG)
def test_the_contract_holds(env_id: str, kwargs: dict[str, Any]) -> None:
    check_text_env(lambda **more: make(env_id, **{**kwargs, "memory": {"max_chars": 40}, **more}))


@pytest.mark.parametrize(("env_id", "kwargs"), LONG)
@pytest.mark.parametrize(
    "more", [{}, {"tools": {"calls": 2}}, {"channel": {"max_chars": 9, "price": 0.01}}]
)
def test_episodes_replay(
    env_id: str, kwargs: dict[str, Any], more: Mapping[str, Any], tmp_path: Path
) -> None:
    seats = make(env_id, **kwargs).possible_agents
    layers: dict[str, Any] = {name: {**options} for name, options in more.items()}
    if "tools" in layers:
        layers["tools"] |= {seat: ["calculate"] for seat in seats}
    env = make(env_id, **kwargs, memory={"max_chars": 50, "resets": 2}, **layers)

    def say(request: Request) -> str:
        return "Call: calculate(1 + 1)" if request.turn % 2 == 0 else f"text {request.turn}" * 5

    episode = talk(env, say)
    assert any("notes" in turn.info for turn in episode.turns)
    for agent in seats:
        own = episode.trajectory(agent)
        assert sum("notes" in turn.info for turn in own) <= 2
        assert len(own) <= env.most_actions
        for turn in own:  # an action is one thing
            assert not ("notes" in turn.info and "call" in turn.info)
    write_jsonl(tmp_path / "episodes.jsonl", [episode])
    (back,) = read_jsonl(tmp_path / "episodes.jsonl")
    again = replay(back)
    assert [(t.agent, t.messages, t.reward) for t in again.turns] == [
        (t.agent, t.messages, t.reward) for t in episode.turns
    ]


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({}, ValueError, "max_chars"),
        ({"max_chars": 1}, ValueError, "max_chars"),
        ({"max_chars": 9.5}, TypeError, "max_chars"),
        ({"max_chars": 9, "resets": 0}, ValueError, "resets"),
        ({"max_char": 9}, ValueError, "max_chars"),
        (20, TypeError, "memory"),
    ],
)
def test_what_is_refused(options: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        make("debate-v0", memory=options)


def test_two_memories_or_another_library_are_refused() -> None:
    with pytest.raises(ValueError, match="already"):
        Memory(make("debate-v0", memory={"max_chars": 9}), max_chars=9)
    with pytest.raises(TypeError, match="memory"):
        Memory(BareParallel(), max_chars=9)


@pytest.mark.parametrize(("less", "due"), [(0, [3, 6]), (1, [2, 5])])
def test_notes_are_due_when_a_chat_is_longer_than_it_may_be(less: int, due: list[int]) -> None:
    """By one character: at first from the opening on, then with the notes, which count.

    A turn has 74 characters, said and heard. Two turns are as long as a chat may be, or longer by
    one. Notes have half of that, and what follows them is counted alike.
    """
    said = "a: " + "x" * 40
    (_, second, *_) = talk(make("agents_net-v0", nodes=4), lambda _: said).trajectory("node_0")
    assert len(said) + len(second.messages[-1].content) == 74
    memory = {"max_chars": 2 * 74 - less, "resets": 2}
    env = make("agents_net-v0", nodes=4, turns=7, memory=memory)

    def say(request: Request) -> str:
        return "n" * 99 if request.messages[-1].content.startswith(DEMAND) else said

    own = talk(env, say).trajectory("node_0")
    assert [place for place, turn in enumerate(own) if asked(turn)] == due


@pytest.mark.parametrize("resets", [1, 3])
def test_the_environment_says_how_many_chats_a_seat_may_have(resets: int) -> None:
    """A trainer plans rows for as many; the last one grows on."""
    env = make("agents_net-v0", nodes=4, turns=8, memory={"max_chars": 2, "resets": resets})
    episode = talk(env, lambda request: f"text {request.turn}")
    for agent in env.possible_agents:
        own = episode.trajectory(agent)
        begun = [turn for turn in own if turn.index == 0 or own[turn.index - 1].info.get("notes")]
        assert len(begun) == env.unwrapped.chats == 1 + resets
        assert len(own) == env.unwrapped.most_actions == 8 + resets


@pytest.mark.parametrize("tools_first", [True, False])
def test_notes_that_look_like_a_call_are_notes(tools_first: bool) -> None:
    """Else a seat could call for ever, and its chat would grow."""
    call = "Call: calculate(1 + 1)"
    env = make("debate-v0", rounds=3)
    tools = partial(Tools, given={"debater_0": ["calculate"], "calls": 9})
    memory = partial(Memory, max_chars=60)
    for wrap in (tools, memory) if tools_first else (memory, tools):
        env = wrap(env)
    episode = talk(env, lambda request: call if request.agent == "debater_0" else "x" * 50)
    own = episode.trajectory("debater_0")
    assert any(map(asked, own))
    for turn in own:
        assert ("notes" in turn.info) is asked(turn)
        assert ("call" in turn.info) is not asked(turn) or turn.index >= 9


def test_notes_of_many_lines_are_asked_for_once() -> None:
    """How notes are quoted does not count: a chat that begins anew is shorter than it may be."""
    env = make("agents_net-v0", nodes=4, turns=6, memory={"max_chars": 300, "resets": 50})
    episode = talk(env, lambda request: "\n".join("x" * 200))
    for agent in env.possible_agents:
        own = [asked(turn) for turn in episode.trajectory(agent)]
        assert any(own)
        assert not any(first and second for first, second in zip(own, own[1:], strict=False))


def test_the_opening_is_that_of_the_episode() -> None:
    """Also where it is drawn at each reset, and two agents play the task one after the other."""
    env = make("kuhn_poker-v1", pioneer_observer=True, memory={"max_chars": 2, "resets": 1})
    for seed in range(8):
        env.reset(seed=seed)
        agent = env.agent_selection
        first = env.observe(agent).messages[0].content
        env.step("pass")
        while env.agents and not env.observe(agent).messages[-1].content.startswith(DEMAND):
            env.step("pass")
        if env.agents:
            env.step("my notes")
            assert env.observe(agent).messages[0].content.startswith(first)


def test_one_agent_in_all_seats_keeps_its_chat() -> None:
    with pytest.raises(ValueError, match="memory"):
        make("collab_maze-v0", single_seat=True, memory={"max_chars": 100})
