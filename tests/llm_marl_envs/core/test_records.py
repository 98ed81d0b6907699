from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.toys import BareParallel, Relay, WordPair

from llm_marl_envs.core.records import (
    Episode,
    EpisodeGroup,
    Request,
    Response,
    StopReason,
    Turn,
    episode_from_dict,
    episode_to_dict,
    plain,
    read_jsonl,
    write_jsonl,
)
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy


def episode(text: str = "apple", **changes: object) -> Episode:
    response = Response(
        text=text, prompt_ids=(1, 2), completion_ids=(3,), logprobs=(-0.5,), cut=True, policy="p"
    )
    turn = Turn(
        agent="a_0",
        index=0,
        messages=(Message("user", text),),
        response=response,
        reward=0.1 + 0.2,
        reward_terms={"x": 0.1, "y": 0.2},
        info={"success": True},
    )
    fields = {
        "env_id": "e-v0",
        "env_kwargs": {"turns": 1},
        "task_id": "t",
        "seed": 3,
        "agents": ("a_0",),
        "turns": (turn,),
        "stop_reason": StopReason.TERMINATED,
        "success": True,
    }
    return Episode(**{**fields, **changes})  # type: ignore[arg-type]


@given(st.text(st.characters()))
def test_a_record_survives_json(text: str) -> None:
    one = episode(text)
    line = json.dumps(episode_to_dict(one, tokens=True))
    assert episode_from_dict(json.loads(line)) == one


SURROGATES = st.text(st.sampled_from(["\ud800", "\udbff", "\udc00", "\udfff", "😀", "a", "é", '"']))


@given(SURROGATES, SURROGATES, SURROGATES)
def test_surrogates_that_stand_side_by_side_stay_two(said: str, key: str, value: str) -> None:
    """In every text, in keys, and where nothing was written at all; two readings change nothing."""
    info = {"arguments": {f"{key}k": [value, {"deep": {f"{value}v": said}}]}}
    turn = dataclasses.replace(episode(said).turns[0], info=info)
    one = episode(turns=(turn,), task_id=value, env_kwargs={"word": key})
    data = episode_to_dict(one)
    once = json.loads(json.dumps(data))
    for read in (data, once, json.loads(json.dumps(once))):
        back = episode_from_dict(read)
        assert back.turns[0].action == said
        assert back.turns[0].info == info
        assert (back.task_id, back.env_kwargs) == (value, {"word": key})
        assert json.dumps(episode_to_dict(back)) == json.dumps(data)
    paired = re.search("[\ud800-\udbff][\udc00-\udfff]", f"{said} {key} {value}")
    assert ("apart" in data) is bool(paired)


@pytest.mark.parametrize(
    "apart",
    [
        *([[["turns", 3, "info"], [0], False]], [[["turns"], [0], False]], [[["x"], [0], True]]),
        *([[["task_id"], [0], False]], [[["task_id"], [99], False]], [[["task_id"], "x", False]]),
        *([[["env_kwargs", "turns"], [0], True]], [[[], [0], False]], 3, [3], None, {"a": 1}),
    ],
)
def test_places_of_surrogates_that_are_none_are_named(apart: object) -> None:
    data = {**episode_to_dict(episode()), "apart": apart}
    with pytest.raises(ValueError, match=r"transcript|apart|unpack"):
        episode_from_dict(data)


def test_tokens_are_left_out_unless_asked_for() -> None:
    back = episode_from_dict(episode_to_dict(episode()))
    assert back.turns[0].response == Response(text="apple", cut=True, policy="p", usage=(2, 1))


def test_transcripts_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "t.jsonl"
    episodes = [episode("one"), episode("\ud800\u2028\n🦜")]
    write_jsonl(path, episodes, tokens=True)
    assert list(read_jsonl(path)) == episodes
    assert [p.name for p in path.parent.iterdir()] == ["t.jsonl"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_jsonl(path, [episode()])
    with pytest.raises(AttributeError):
        write_jsonl(path, [episode("new"), None])  # type: ignore[list-item]
    assert [e.turns[0].action for e in read_jsonl(path)] == ["apple"]
    assert [p.name for p in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 3"),
        (b"[1]", "line 3: expected the object of an episode, got list"),
        (b"\xff\xfe", "line 3.*utf-8"),
        (b'{"version": 9}', "line 3: transcript version 9: this release reads 1"),
        (b'{"version": 1}', "line 3: transcript: 'env_id' is missing"),
        (None, "line 3: transcript: turns: expected a list, got 3"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes | None, words: str) -> None:
    good = json.dumps(episode_to_dict(episode())).encode()
    wrong = json.dumps({**episode_to_dict(episode()), "turns": 3}).encode()
    path = tmp_path / "t.jsonl"
    path.write_bytes(good + b"\n\n" + (line or wrong) + b"\n")
    lines = read_jsonl(path)
    next(lines)
    with pytest.raises(ValueError, match=words):
        next(lines)


HOSTILE = ("text", 3, 0.5, True, None, [], ["x"], [[1]], {}, {"a": 1}, {"": [None]})


def test_no_field_of_another_kind_is_read(tmp_path: Path) -> None:
    """Each value of an episode in turn is one of another kind: refused, or read as it is."""
    good = episode_to_dict(episode(), tokens=True)

    def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in inside:
            yield (*path, key)
            if isinstance(part, (dict, list)) and key not in ("info", "env_kwargs"):
                yield from places(part, (*path, key))

    refused = 0
    for path in places(good):
        for value in HOSTILE:
            data = copy.deepcopy(json.loads(json.dumps(good)))
            at = data
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            try:
                read = episode_from_dict(data)
            except ValueError as error:
                refused += 1
                assert len(str(error)) < 300  # noqa: PT017 - the others are read
            else:
                assert isinstance(read.env_id, str)
                assert all(isinstance(turn.info, Mapping) for turn in read.turns)
                json.dumps(episode_to_dict(read, tokens=True))
    assert refused > 200


def test_infos_that_are_no_json_are_made_plain(tmp_path: Path) -> None:
    env = BareParallel()
    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(lambda r: "hi"))
    one = rollout(VectorTextEnv([env]), team, [Start()])[0]
    write_jsonl(tmp_path / "t.jsonl", [one])
    info = next(read_jsonl(tmp_path / "t.jsonl")).turns[0].info
    assert info["seen"] == [1, 2]
    assert "BareParallel" in info["env"]


def test_plain() -> None:
    odd = {1: np.float32(0.5), "a": np.arange(2), "t": (True, None), "s": StopReason.TERMINATED}
    assert plain(odd) == {"1": 0.5, "a": [0, 1], "t": [True, None], "s": "terminated"}
    assert type(plain(StopReason.TERMINATED)) is str
    assert plain(len).startswith("<built-in")
    assert plain({"judge": object()}) == {"judge": "<object object>"}  # in every process


@pytest.mark.parametrize("make_env", [WordPair, lambda: Relay(rounds=2)])
def test_a_transcript_replays_to_the_same_rewards(tmp_path: Path, make_env: type) -> None:
    env = make_env()
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    played = rollout(VectorTextEnv([env]), team, [Start(seed=s) for s in range(3)])
    write_jsonl(tmp_path / "t.jsonl", played)
    for before in read_jsonl(tmp_path / "t.jsonl"):
        assert replay(before, make_env()) == before


def test_replay_needs_the_whole_record() -> None:
    env = WordPair()
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    one = rollout(VectorTextEnv([env]), team, [Start()])[0]
    short = Episode(
        **{
            **{n: getattr(one, n) for n in one.__dataclass_fields__},  # type: ignore[arg-type]
            "turns": one.turns[:2],
        }
    )
    with pytest.raises(ValueError, match="the record holds no turn 1 of left_0"):
        replay(short, WordPair())


def test_returns_of_an_episode() -> None:
    one = episode()
    assert one.undiscounted_return("a_0") == one.team_return == pytest.approx(0.3)
    assert one.trajectory("a_0") == one.turns
    assert one.trajectory("b_0") == ()


def test_a_group_shares_task_and_seed() -> None:
    EpisodeGroup(task_id="t", seed=3, episodes=(episode(), episode("b")))
    with pytest.raises(ValueError, match="holds an episode of task 't', seed 4"):
        EpisodeGroup(task_id="t", seed=3, episodes=(episode(), episode(seed=4)))


@pytest.mark.parametrize(
    ("agent", "role"), [("main_0", "main"), ("a_b_12", "a_b"), ("solo", "solo")]
)
def test_role(agent: str, role: str) -> None:
    request = Request(
        env_id="", agent=agent, turn=0, episode=0, task_id="", messages=(), observation="", seed=0
    )
    assert request.role == role
