"""What a seat was told at first, and where it stands in its episode, read from its messages."""

from __future__ import annotations

import re

from llm_marl_envs.core.records import Request

ROUND = re.compile(r"(?:Round|Turn) ([0-9]+) of ([0-9]+)\.")


def opening_of(request: Request) -> str:
    """The opening of a seat."""
    return request.messages[0].content


def match_in(pattern: str, text: str) -> re.Match[str]:
    """What a text must hold.

    Raises:
        ValueError: it does not; the observation is none of those that the rules know.
    """
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(
            f"no {pattern!r} in {text!r:.200}: wordless teams know what the benchmark asks, and "
            "this is another form of the environment"
        )
    return match


def cells_in(text: str) -> str:
    """The square of single characters, with spaces between them, that a text shows."""
    rows = re.findall(r"^\S(?: \S)+$", text, re.MULTILINE)
    return "".join(row.replace(" ", "") for row in rows)


def answers_now(request: Request) -> bool:
    """Whether the last turn of a count has come, as "Round 2 of 2."; True where nobody counts."""
    counts = ROUND.findall(request.messages[-1].content)
    return not counts or counts[-1][0] == counts[-1][1]
