"""What the bridge to CoMLRL does without CoMLRL: replays, prompts, refusals."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from support.models import tiny_tokenizer
from support.toys import Relay, WordPair

from llm_marl_envs.bridges.comlrl import Replay, for_comlrl, prompt_of
from llm_marl_envs.core.spaces import Message, Observation
from llm_marl_envs.wrappers import Partners

SEEN = Observation.of([Message("system", "Be short."), Message("user", "Your word: fig")])
TASK = "apple-birch"


def test_an_episode_again_from_its_beginning():
    replay = Replay(WordPair(), 3)
    seen, paid = replay.after(TASK, ())
    assert (seen["left_0"].messages[-1].content, paid) == ("Your word: apple", 0.0)
    first, second = ("apple", "no"), ("no", "birch")
    for turns in ([first], [first, second], [first]):
        assert replay.after(TASK, turns)[1] == 0.5
    assert replay.after(TASK, [first, first])[1] == 0.0  # a gain is paid once
    seen, _ = replay.after(TASK, [first])
    assert [m.content for m in seen["left_0"].messages[-2:]] == ["apple", "Again."]


def test_a_turn_after_the_end_pays_nothing():
    both = ("apple", "birch")
    replay = Replay(WordPair(), 0)
    assert replay.after(TASK, [both])[1] == 1.0
    seen, paid = replay.after(TASK, [both, both])
    assert paid == 0.0
    assert set(seen) == {"left_0", "right_0"}


def test_the_partners_of_a_replay_say_the_same_again():
    replay = Replay(Partners(Relay(), {"runner_0": "expert", "runner_2": "expert"}), 5)
    assert replay.seats == ["runner_1"]
    first = replay.after("cedar-fig", [("cedar",)])
    assert replay.after("cedar-fig", [("cedar",)]) == first
    assert first[1] == 1.0


def test_another_number_of_agents():
    with pytest.raises(ValueError, match=r"got 3 texts; its seats are \['left_0', 'right_0'\]"):
        Replay(WordPair(), 0).after(TASK, [("a", "b", "c")])


def test_prompts_are_in_the_chat_template():
    assert prompt_of(tiny_tokenizer(), SEEN, {}) == (
        "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nYour word: fig<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert "user\nbare ü<|im_end|>" in prompt_of(tiny_tokenizer(), "bare ü", {})


def test_a_beginning_that_the_tokenizer_writes_itself_is_written_once():
    tokenizer: Any = tiny_tokenizer()
    tokenizer.bos_token = "<|im_start|>"
    assert prompt_of(tokenizer, SEEN, {}).startswith("<|im_start|>system")

    class WithBeginning:
        """A tokenizer that puts its first token before each text."""

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]}

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

    assert prompt_of(WithBeginning(), SEEN, {}).startswith("system")


def test_a_padding_token_in_the_prompt_is_refused():
    tokenizer: Any = tiny_tokenizer()
    tokenizer.pad_token = "<|im_end|>"
    with pytest.raises(ValueError, match=r"writes '<\|im_end\|>', which is the padding token"):
        prompt_of(tokenizer, SEEN, {})
    tokenizer.pad_token = None  # CoMLRL takes the end token then
    with pytest.raises(ValueError, match="give the tokenizer another pad_token"):
        prompt_of(tokenizer, SEEN, {})


def test_turn_based_environments_are_refused():
    with pytest.raises(ValueError, match="debate-v0 is turn-based, and CoMLRL asks all of"):
        for_comlrl("debate-v0", tiny_tokenizer(), 4)
    left = Partners(Relay(), {"runner_0": "expert"})
    with pytest.raises(ValueError, match=r"asks all of \['runner_1', 'runner_2'\]"):
        for_comlrl(left, tiny_tokenizer(), 4)


def test_another_number_of_tokenizers():
    with pytest.raises(ValueError, match=r"got 3 tokenizers: expected .* \['left_0', 'right_0'\]"):
        for_comlrl(WordPair(), [tiny_tokenizer()] * 3, 4)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch):
    real = importlib.import_module

    def missing(name: str, *rest: Any) -> Any:
        if name == "comlrl":
            raise ImportError("No module named 'comlrl'")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'llm-marl-envs\[comlrl\]'"):
        for_comlrl(WordPair(), tiny_tokenizer(), 4)
