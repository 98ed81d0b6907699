"""Scripted speakers and listeners, each with a code: which message stands for which object.

    code            "big red star": values 1, 0 and 2 of their attributes
    values          di ba ku       a token for each attribute's value, in the order of the words
    other_values    ku di mo       the same, other tokens
    backward        ku ba di       the same as `values`, the last attribute first
    holistic        ku ku ku       a message for each object, of which no part has a meaning
    rank, rank_back                a message for its place among the candidates, in the order of
                                   the alphabet, or from its end
    description     big red star   in the language "words"

Two who follow one code are right whenever the budget allows it. Which codes there are depends on
the language and the budget. Where names are drawn anew, only ranks can be told, by `pattern`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message as ChatMessage
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in
from llm_marl_envs.envs.signals.messages import (
    RENAMED,
    TOKENS,
    WORDS,
    edit_distance,
    hear,
    nth,
    pattern,
    spelled,
)
from llm_marl_envs.envs.signals.objects import NEW_TABLES, TABLES, VALUES, Object, described

SPEAKER = "speaker"
CODES = ("values", "other_values", "backward", "holistic")
RANKS = ("rank", "rank_back")
DESCRIPTION = "description"


class SignalExperts(ListeningExperts):
    """The experts of `referential-v0`.

    Args:
        language: one of `messages.LANGUAGES`.
        budget: as there.
    """

    def __init__(self, language: str, budget: int) -> None:
        self.language, self.budget = language, budget

    def conventions(self, task: Task) -> tuple[str, ...]:
        """The codes that a team can agree on."""
        things = task.data["candidates"]
        if self.language == WORDS:
            fits = max(len(described(thing)) for thing in things) <= self.budget
            return (DESCRIPTION, *RANKS) if fits else RANKS
        fits = len(things[0]) <= self.budget and all(map(numbers_of, things))
        return (*CODES, *RANKS) if fits and self.language != RENAMED else RANKS

    def reply(
        self, task: Task, agent: str, convention: str, messages: Sequence[ChatMessage]
    ) -> str:
        """The target's message, or the object whose message is most like what was heard."""
        if convention not in self.conventions(task):
            raise ValueError(f"code {convention!r}: expected one of {self.conventions(task)}")
        code = self._code(task, convention)
        if agent.startswith(SPEAKER):
            return code[task.data["target"]]
        statements = [texts[-1] for texts in statements_in(messages).values()]
        heard = self._read(statements[-1]) if statements else ()
        nearest = min(code, key=lambda thing: edit_distance(self._read(code[thing]), heard))
        return described(nearest)

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The code of a speaker's message; None for none, several, and listeners."""
        if not agent.startswith(SPEAKER):
            return None
        heard, target = hear(action, self.language, self.budget), task.data["target"]
        codes = [
            name
            for name in self.conventions(task)
            if heard.readable and self._code(task, name)[target] == heard.text
        ]
        return codes[0] if len(codes) == 1 else None

    def _code(self, task: Task, convention: str) -> dict[Object, str]:
        """Each candidate's message, in the order in which a listener prefers them."""
        things = sorted(task.data["candidates"], reverse=convention == RANKS[1])
        return {thing: self._message(thing, at, convention) for at, thing in enumerate(things)}

    def _message(self, thing: Object, rank: int, convention: str) -> str:
        if convention == DESCRIPTION:
            return described(thing)
        if convention in CODES:
            return spelled(coded(thing, convention))
        return nth(rank, self.language, self.budget)

    def _read(self, text: str) -> Sequence[object]:
        """The parts of a message that a listener compares."""
        heard = hear(text, self.language, self.budget)
        if self.language == WORDS:
            return heard.text.split()
        return pattern(heard.tokens) if self.language == RENAMED else heard.tokens


def numbers_of(thing: Object) -> tuple[int, ...] | None:
    """Which value of each attribute an object has; None for one of other words."""
    for of in (TABLES, NEW_TABLES):
        listed = [*of.values()][-len(thing) :]
        if len(thing) == len(listed) and all(map(tuple.__contains__, listed, thing)):
            return tuple(table.index(word) for table, word in zip(listed, thing, strict=True))
    return None


def coded(thing: Object, code: str) -> tuple[int, ...]:
    """The tokens that stand for an object of the generator's."""
    values = numbers_of(thing)
    assert values is not None, thing
    if code == "holistic":
        return _holistic(len(values))[values]
    if code == "backward":
        return values[::-1]
    return tuple((value + (code == "other_values")) % len(TOKENS) for value in values)


@lru_cache(maxsize=8)
def _holistic(attributes: int) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Every combination of values -> a message as long, drawn once."""
    values = list(product(range(VALUES), repeat=attributes))
    drawn = values.copy()
    random.Random(f"signalling/holistic/{attributes}").shuffle(drawn)
    return dict(zip(values, drawn, strict=True))
