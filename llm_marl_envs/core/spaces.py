"""What agents read and write: messages, observations and the space of any text.

Owns the three value types that cross the environment boundary. Knows nothing of tasks, rewards or
tokens.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from gymnasium import spaces

ChatRole = Literal["system", "user", "assistant"]
CHAT_ROLES: tuple[str, ...] = get_args(ChatRole)

# Random actions come from this alphabet; membership is not limited to it.
SAMPLE_CHARSET = string.printable
# A uniform length up to `max_chars` would make every random action thousands of characters long.
SAMPLE_MAX_CHARS = 64


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message, as an agent's policy receives it.

    Attributes:
        role: "system", "user" (the environment speaks) or "assistant" (the agent's own action).
        content: the text, unrendered.
        result_of: the tool that it is a result of, where the agent called one; else "".
    """

    AS_LIST: ClassVar = True  # in transcripts, see `from_json`

    role: ChatRole
    content: str
    result_of: str = ""

    def __post_init__(self) -> None:
        if self.role not in CHAT_ROLES:
            raise ValueError(f"message role {self.role!r}: expected one of {CHAT_ROLES}")
        if not isinstance(self.content, str):
            raise TypeError(f"message content must be str, got {type(self.content).__name__}")


@dataclass(frozen=True, eq=False, slots=True)
class ToolSheet:
    """The tools of a seat, for a policy whose model has its own format of calls.

    Attributes:
        notice: what the seat is told first of its tools, lines that say how a line calls.
        native: what a model with a format of its own is told instead; it has the schemas, too.
        schemas: of each tool, as OpenAI's protocol and chat templates take them.
    """

    notice: str
    native: str
    schemas: tuple[dict[str, Any], ...]


def render_messages(messages: Sequence[Message]) -> str:
    """Chat messages as one text; appending a message only ever appends text."""
    parts = (m.content if m.role != "assistant" else f"You wrote:\n{m.content}" for m in messages)
    return "\n\n".join(parts)


class Observation(str):
    """All that an agent may see: a `str` (the rendered text) with `.messages` behind it.

    Equality and hash are those of the text; compare `.messages` too where roles matter.

    Attributes:
        messages: the chat, oldest first; each observation of an episode extends the one before.
        dtype: always `str`; PettingZoo's `api_test` compares it with the space's.
    """

    dtype = str
    messages: tuple[Message, ...]

    def __new__(cls, text: str, messages: Sequence[Message] = ()) -> Observation:
        """An observation of any text; `of` renders the text from the messages."""
        self = super().__new__(cls, text)
        self.messages = tuple(messages)
        return self

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Observation:
        """The observation whose text is the rendering of `messages`."""
        return cls(render_messages(messages), messages)

    def __getnewargs__(self) -> tuple[Any, ...]:  # copy, deepcopy and pickle
        return (str(self), self.messages)


class TextSpace(spaces.Text):
    """Every Unicode string of at most `max_chars` code points.

    `gymnasium.spaces.Text` tests each character against an enumerated charset: its default refuses
    spaces and newlines, and all of Unicode would take seconds to build. Here membership is a type
    and length test; only `sample` uses a charset (ASCII printable, at most 64 characters).

    Raises:
        ValueError: `max_chars` is less than 1.
    """

    def __init__(self, max_chars: int, seed: int | None = None) -> None:
        if max_chars < 1:
            raise ValueError(f"max_chars={max_chars}: expected at least 1")
        super().__init__(max_chars, min_length=0, charset=SAMPLE_CHARSET, seed=seed)

    @property
    def max_chars(self) -> int:
        """Longest text in the space, in Unicode code points."""
        return self.max_length

    def contains(self, x: Any) -> bool:
        """True for any `str` (subclasses too) that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Random printable text of 0 to 64 characters; masks of PettingZoo's tests are ignored."""
        length = int(self.np_random.integers(min(SAMPLE_MAX_CHARS, self.max_length) + 1))
        picks = self.np_random.integers(len(SAMPLE_CHARSET), size=length)
        return "".join(SAMPLE_CHARSET[i] for i in np.asarray(picks))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and other.max_length == self.max_length

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"
