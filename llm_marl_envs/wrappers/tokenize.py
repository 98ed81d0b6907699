"""`Tokenize`: observations and actions are token ids. For networks that embed tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from llm_marl_envs.wrappers.codecs import Bytes, Writer
from llm_marl_envs.wrappers.numbers import Form, check_text, in_numbers, is_whole


class TokenForm(Form):
    """The form of `Tokenize`.

    Args:
        reader: observations -> ids.
        action_tokens: ids of an action.
        writer: ids -> text; None where there is a vocabulary.
        vocabulary: pieces of text in the place of a writer's.
    """

    name = "Tokenize"

    def __init__(
        self, reader: Writer, action_tokens: int, writer: Writer, vocabulary: Sequence[str] | None
    ) -> None:
        super().__init__(reader)
        self.action_tokens = action_tokens
        self.writer = writer
        self.vocabulary = None if vocabulary is None else tuple(vocabulary)
        self.size = writer.size if self.vocabulary is None else len(self.vocabulary)

    def action_space(self) -> spaces.Space[Any]:
        """MultiDiscrete: one id at each place."""
        return spaces.MultiDiscrete([self.size] * self.action_tokens)

    def text(self, env: Any, agent: str, action: Any) -> str:
        """The text of the ids.

        Raises:
            TypeError: these are no whole numbers.
            ValueError: there are more or fewer than `action_tokens`, or one is out of range.
        """
        if not is_whole(action, 1):
            raise TypeError(
                f"Tokenize: action of {agent}: expected {self.action_tokens} token ids, got "
                f"{action!r:.80}; the environment inside (`.env`) takes texts"
            )
        ids = np.asarray(action)
        if ids.shape != (self.action_tokens,) or (ids < 0).any() or (ids >= self.size).any():
            raise ValueError(
                f"Tokenize: action of {agent}: expected {self.action_tokens} ids from 0 to "
                f"{self.size - 1}, got {ids.tolist()!r:.80}"
            )
        if self.vocabulary is not None:
            return "".join(self.vocabulary[i] for i in ids)
        return self.writer.decode(ids.tolist())


def Tokenize(  # noqa: N802 - a wrapper, which has one class per form of environment
    env: Any,
    observation_tokens: int = 256,
    action_tokens: int = 16,
    codec: Callable[[int], Writer] = Bytes,
    vocabulary: Sequence[str] | None = None,
) -> Any:
    """A text environment whose observations and actions are token ids.

    Args:
        env: a text environment of either form; its own form is kept.
        observation_tokens: the end of an observation that is shown, in tokens, >= 1.
        action_tokens: tokens of each action, >= 1; a padding token ends the text before.
        codec: length -> codec, such as `Bytes` or `partial(Tokens, tokenizer)`.
        vocabulary: pieces of text that actions are made of, in the place of the codec's.

    Raises:
        TypeError: no PettingZoo environment of texts.
        ValueError: a length below 1, or an empty vocabulary.
    """
    check_text(env, "Tokenize")
    if vocabulary is not None and not vocabulary:
        raise ValueError("Tokenize: the vocabulary is empty; expected at least one piece of text")
    form = TokenForm(codec(observation_tokens), action_tokens, codec(action_tokens), vocabulary)
    return in_numbers(env, form)
