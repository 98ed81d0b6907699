from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_marl_envs.core.spaces import Message, Observation, TextSpace, render_messages

messages = st.lists(
    st.builds(Message, st.sampled_from(["system", "user", "assistant"]), st.text()), max_size=5
)


@given(st.text())
def test_any_text_that_is_short_enough_is_in_the_space(text: str) -> None:
    assert TextSpace(max(1, len(text))).contains(text)
    assert not text or not TextSpace(1).contains(text + text)


@pytest.mark.parametrize("value", [7, None, b"bytes", ["a"], 1.5])
def test_what_is_no_text_is_not_in_the_space(value: object) -> None:
    assert value not in TextSpace(100)


def test_samples_are_members_and_follow_the_seed() -> None:
    space, twin, short = TextSpace(50, seed=1), TextSpace(50, seed=1), TextSpace(2, seed=1)
    samples = [space.sample() for _ in range(50)]
    assert samples == [twin.sample() for _ in range(50)]
    assert len(set(samples)) > 25
    assert all(space.contains(s) for s in samples)
    assert all(short.contains(short.sample()) for _ in range(50))


def test_space_compares_by_length() -> None:
    assert TextSpace(5) == TextSpace(5, seed=3)
    assert TextSpace(5) != TextSpace(6)
    assert repr(TextSpace(5)) == "TextSpace(5)"
    with pytest.raises(ValueError, match="max_chars=0"):
        TextSpace(0)


@given(messages)
def test_observation_survives_copies(chat: list[Message]) -> None:
    seen = Observation.of(chat)
    for twin in (copy.copy(seen), copy.deepcopy(seen), pickle.loads(pickle.dumps(seen))):
        assert type(twin) is Observation
        assert (twin, twin.messages) == (seen, tuple(chat))


@given(messages, messages)
def test_more_messages_only_append_text(chat: list[Message], more: list[Message]) -> None:
    assert render_messages([*chat, *more]).startswith(render_messages(chat))


def test_observation_is_text() -> None:
    seen = Observation("plain")
    assert seen == "plain"
    assert seen.messages == ()
    assert seen.dtype is str
    assert seen.upper() == "PLAIN"


def test_messages_are_checked() -> None:
    with pytest.raises(ValueError, match="message role 'robot'"):
        Message("robot", "hi")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="content must be str, got int"):
        Message("user", 7)  # type: ignore[arg-type]
