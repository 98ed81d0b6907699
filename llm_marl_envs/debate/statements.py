"""What debaters say to each other: how a statement is quoted, and how it is read back.

A quoted line begins with `> `, so nothing that a debater writes can pass for a line of the
environment, of another debater or of the reader: not a header, not an answer line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from llm_marl_envs.parsing import answer_of
from llm_marl_envs.questions.answers import ANSWER_MARK
from llm_marl_envs.spaces import Message

QUOTE = "> "
HEADER = re.compile(r"(\w+_[0-9]+) says:")
BRACKETS = re.compile(r"\[([^\[\]\n]{1,80})\]")
MAX_WORDS = 256


def quoted(agent: str, statement: str) -> str:
    """A statement as others are shown it: a line that names the agent, every line quoted.

    All line ends that Unicode knows begin a quoted line, not only the newline. Thinking, which is
    everything up to the last `</think>`, is not shown.
    """
    lines = answer_of(statement).strip().splitlines() or [""]
    return "\n".join([f"{agent} says:", *(f"{QUOTE}{line}" for line in lines)])


def statements_in(messages: Sequence[Message]) -> dict[str, list[str]]:
    """Each agent's statements, in order, as quoted in messages of the environment."""
    heard: dict[str, list[str]] = {}
    for message in messages:
        if message.role != "user":
            continue
        speaker = None
        for line in message.content.split("\n"):
            header = HEADER.fullmatch(line)
            if header is not None:
                speaker = header[1]
                heard.setdefault(speaker, []).append("")
            elif speaker is not None and line.startswith(QUOTE):
                heard[speaker][-1] += line.removeprefix(QUOTE) + "\n"
            else:
                speaker = None
    return heard


def words_of(statement: str) -> tuple[str, ...]:
    """The words in brackets of a statement, outside of its answer line; at most `MAX_WORDS`.

    A statement of one word needs no brackets.
    """
    found: list[str] = []
    lines = [
        line
        for line in answer_of(statement).split("\n")
        if line.strip()[: len(ANSWER_MARK)].lower() != ANSWER_MARK
    ]
    for line in lines:
        found += BRACKETS.findall(line)
        if len(found) >= MAX_WORDS:
            break
    alone = "".join(lines).strip()
    if not found and alone and len(alone) <= 80 and not any(c in alone for c in " []"):
        return (alone,)
    return tuple(found[:MAX_WORDS])
