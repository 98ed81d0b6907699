"""Prompts in other words: what seats are told, and that nothing else changes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.toys import BareParallel

from llm_marl_envs import list_envs, make, make_vec
from llm_marl_envs.core.records import read_jsonl, write_jsonl
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.testing import check_text_env
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.wrappers import Prompts

CODING = "coop_coding-v0"
TEXTS = {"main": "{prompt}\nLike {{this}}.", "helper_0": "Write aux. {task} Code only."}


def played(env: Any, tasks: int = 4) -> list[Any]:
    team = {agent: ExpertPolicy(env) for agent in env.possible_agents}
    return [
        *rollout(
            VectorTextEnv([env]), team, [Start(task=env.source[i], seed=i) for i in range(tasks)]
        )
    ]


def test_seats_are_told_what_was_asked_for() -> None:
    plain, env = make(CODING), make(CODING, prompts=TEXTS)
    for index in range(5):
        task = plain.source[index]
        before, after = plain.first_words(task), env.first_words(task)
        assert after["main_0"][0].content == f"{before['main_0'][0].content}\nLike {{this}}."
        own = plain.prompt_words(task)["helper_0"]["task"]
        assert own in before["helper_0"][0].content
        assert after["helper_0"][0].content == f"Write aux. {own} Code only."
        assert own not in after["main_0"][0].content


def test_all_else_is_as_it_was() -> None:
    before, after = played(make(CODING)), played(make(CODING, prompts=TEXTS))
    for plain, other in zip(before, after, strict=True):
        assert [turn.action for turn in plain.turns] == [turn.action for turn in other.turns]
        assert [turn.reward for turn in plain.turns] == [turn.reward for turn in other.turns]
        ended = [{**x.turns[-1].info, "task_clusters": ()} for x in (plain, other)]  # of prompts
        assert ended[0] == ended[1]


def test_records_replay_and_copies_are_told_the_same(tmp_path: Path) -> None:
    env = make(CODING, prompts=TEXTS)
    episodes = played(env)
    assert episodes[0].env_kwargs["prompts"] == TEXTS
    write_jsonl(tmp_path / "x.jsonl", episodes)
    for episode in read_jsonl(tmp_path / "x.jsonl"):
        assert replay(episode) == episode
    copies = make_vec(CODING, 2, prompts=TEXTS).envs
    for other in (copy.copy(env), pickle.loads(pickle.dumps(env)), *copies):
        assert other.first_words(env.source[0]) == env.first_words(env.source[0])
    shown = {chat[0].content for chat, _ in demonstrations(env, 20, 0)}
    assert all(text.startswith("Write aux. ") or text.endswith("Like {this}.") for text in shown)


def test_a_role_is_all_its_seats_and_a_seat_goes_first() -> None:
    env = make("debate-v0", prompts={"debater": "A {prompt}", "debater_1": "B {prompt}"})
    chats = env.unwrapped.first_words(env.unwrapped.source[0])
    assert [chats[agent][-1].content[0] for agent in env.possible_agents][:3] == ["A", "B", "A"]


@pytest.mark.parametrize("name", list_envs())
def test_every_environment_takes_them_and_keeps_its_contract(name: str) -> None:
    agent = make(name).possible_agents[0]
    texts = {agent: "In other words: {prompt}"}
    env = make(name, prompts=texts)
    assert env.env_kwargs == {"prompts": texts}
    inner = env.unwrapped
    chat = inner.first_words(inner.source[0])[agent]
    plain = make(name).unwrapped.first_words(inner.source[0])[agent]
    assert chat[-1].content == f"In other words: {plain[-1].content}"
    assert chat[:-1] == plain[:-1]
    check_text_env(lambda: make(name, prompts=texts), seeds=(0,))


def test_with_a_channel_its_notice_still_ends_the_prompt() -> None:
    env = make("debate-v0", prompts={"debater": "Speak. {prompt}"}, channel={"max_chars": 9})
    prompt = env.unwrapped.first_words(env.unwrapped.source[0])["debater_0"][-1].content
    assert prompt.startswith("Speak. ")
    assert prompt.splitlines()[-1].startswith("Channel: ")


@pytest.mark.parametrize(
    ("texts", "error", "named"),
    [
        ({"mian": "x"}, ValueError, "mian"),
        ({"main": "{prompt"}, ValueError, "brace"),
        ({"main": "{secret}"}, ValueError, "secret"),
        ({"main": "{prompt.__class__}"}, ValueError, "prompt.__class__"),
        ({"main": "{prompt!r}"}, ValueError, "prompt"),
        ({"main": "{0}"}, ValueError, "0"),
        ({"main": 3}, TypeError, "text"),
        ("hello", TypeError, "dict"),
    ],
)
def test_refused(texts: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        make(CODING, prompts=texts)


def test_another_library_s_environment_is_refused() -> None:
    with pytest.raises(TypeError, match="this library"):
        Prompts(BareParallel(), {})


def test_a_mapping_of_prompts_is_recorded_as_it_was_given() -> None:
    prompts: Mapping[str, str] = {"main": "{prompt}"}
    assert make(CODING, prompts=prompts).env_kwargs["prompts"] == prompts


@pytest.mark.parametrize("kwargs", [{"single_seat": True}, {"pioneer_observer": True}])
def test_who_plays_several_seats_is_told_their_words(kwargs: dict[str, Any]) -> None:
    name = CODING if "single_seat" in kwargs else "matrix_game-v1"
    texts = TEXTS if name == CODING else {"player": "Choose! {prompt}"}
    if name == "matrix_game-v1":
        kwargs = {**kwargs, "single_seat": True}
    env = make(name, prompts=texts, **kwargs)
    env.reset(seed=1)
    mark = "Like {this}." if name == CODING else "Choose! "
    openings = [env.unwrapped.chat(agent)[0].content for agent in env.possible_agents]
    assert all(mark in opening for opening in openings)
    assert env.env_kwargs["prompts"] == texts
