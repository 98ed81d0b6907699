"""What debaters say to each other: how a statement is quoted, and how it is read back.

A quoted line begins with `> `, so nothing that a debater writes can pass for a line of the
environment, of another debater or of the reader: not a header, not an answer line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from llm_marl_envs.core.answers import ANSWER_MARK, read_answer
from llm_marl_envs.core.parsing import QUOTE, answer_of, lines_of, quote
from llm_marl_envs.core.spaces import Message

HEADER = re.compile(r"(\w+_[0-9]+) says:")
BRACKETS = re.compile(r"\[([^\[\]\n]{1,80})\]")
MAX_WORDS = 256
# Marks that make a reader's screen show a line in another order than it is written.
DIRECTION_MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Said:
    """A statement, read once when it is made.

    Attributes:
        agent: who made it.
        answer: as `read_answer` gives it.
        quotation: as a judge who sits in no seat is shown it.
        heard: listener -> what it is to be shown of the text.
    """

    agent: str
    answer: str | None
    quotation: str
    heard: Mapping[str, str]

    @classmethod
    def of(cls, agent: str, text: str, heard: Mapping[str, str] | None = None) -> Said:
        """Read a statement; without `heard` nobody is to be shown it."""
        return cls(agent, read_answer(text), quoted(agent, text), heard or {})

    def quoted_to(self, listener: str) -> str:
        """The statement as a listener is shown it."""
        return quoted(self.agent, self.heard[listener])


def quoted(agent: str, statement: str) -> str:
    """A statement as others are shown it: a line that names the agent, every line quoted.

    Thinking, which is everything up to the last `</think>`, is not shown, nor are marks that change
    the direction of writing.
    """
    return f"{agent} says:\n{quote(told(statement))}"


def told(statement: str) -> str:
    """What others are shown of a text: no thinking, no marks of direction, no space around it."""
    return DIRECTION_MARKS.sub("", answer_of(statement)).strip()


def statements_in(messages: Sequence[Message]) -> dict[str, list[str]]:
    """Each agent's statements, in order, as quoted in messages; a line ends with a line break."""
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
    text = answer_of(statement)
    if ANSWER_MARK in text.lower():
        text = "\n".join(
            line
            for line in lines_of(text)
            if line.strip()[: len(ANSWER_MARK)].lower() != ANSWER_MARK
        )
    words = tuple(word[1] for word in islice(BRACKETS.finditer(text), MAX_WORDS))
    alone = text.replace("\n", "").strip()
    if not words and alone and len(alone) <= 80 and not any(c in alone for c in " []"):
        return (alone,)
    return words
