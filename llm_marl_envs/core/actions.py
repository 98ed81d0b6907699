"""How a game reads an action from a text: one rule for all.

A text takes an action if exactly one of its lines is one: a word of the game alone, or behind
`Action:`. Case and spaces around it are ignored. Other lines may say anything, so a model can
reason first; what stands before the last `</think>` is not read. A word in prose is no action, and
neither are two.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.core.parsing import answer_of, lines_of

MAX_ACTION_CHARS = 1024
"""Of a text in a game; what is beyond is cut."""

MARK = "action:"


def read_action(text: str, legal: Sequence[str]) -> str | None:
    """The action that a text takes, as it is written in `legal`; None for none or several."""
    words = {word.lower(): word for word in legal}
    actions: list[str] = []
    for line in lines_of(answer_of(text)):
        action = line.strip().lower()
        action = action.removeprefix(MARK).strip()
        if action in words:
            actions.append(words[action])
    return actions[0] if len(actions) == 1 else None
