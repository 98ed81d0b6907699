"""What neighbours write to each other: one line of text for each line of the network.

Owns the form of these texts. A text that is delivered has no line end, so it stands behind the
reader's `From 2:` and can pass for nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from llm_marl_envs.core.parsing import answer_of, lines_of
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.texts import DIRECTION_MARKS

LETTER = re.compile(r"[^\S\n]*(all|[0-9]{1,2})[^\S\n]*:[^\S\n]*(\S.*)", re.IGNORECASE)
HEARD = re.compile(r"^From ([0-9]{1,2}): (.*)$", re.MULTILINE)
MAX_LETTER_CHARS = 400
"""The rest of a longer text is not delivered."""


def letters_in(text: str, lines: int) -> list[str]:
    """What an action sends, by line; "" where it sends nothing.

    A text line `2: ...` is for line 2, `all: ...` for every line that has none of its own. Of
    several for one the last counts. What else stands there is delivered to nobody.

    Args:
        text: any.
        lines: how many lines the writer has.
    """
    own: dict[str, str] = {}
    for line in lines_of(DIRECTION_MARKS.sub("", answer_of(text))):
        if ":" in line and (match := LETTER.fullmatch(line)):
            own[match[1].lower().lstrip("0")] = match[2].strip()[:MAX_LETTER_CHARS]
    every = own.get("all", "")
    return [own.get(str(number), every) for number in range(1, lines + 1)] if own else [""] * lines


def news(received: Sequence[str]) -> str:
    """What a node is shown of the texts on its lines."""
    heard = [f"From {number}: {text}" for number, text in enumerate(received, 1) if text]
    silent = [str(number) for number, text in enumerate(received, 1) if not text]
    return "\n".join([*heard, f"Nothing from {', '.join(silent)}."] if silent else heard)


def heard_in(messages: Sequence[Message]) -> list[Mapping[int, str]]:
    """What a chat shows of each round: line, from 0, -> text."""
    asked = [message.content for message in messages if message.role == "user"]
    return [{int(number) - 1: text for number, text in HEARD.findall(shown)} for shown in asked[1:]]
