"""Scripted debaters: report the own part in one convention, read the others in the same one.

First they report and give no answer; later they answer with what their own part and the others'
first reports give. They believe every report. Where a report alone does not say which convention it
follows, they note theirs and how they read each report; notes are thinking, which others are not
shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.deliberation.statements import statements_in, words_of
from llm_marl_envs.questions import KINDS, Question
from llm_marl_envs.questions.vocabulary import listed
from llm_marl_envs.spaces import Message

NOTE = "I name the words by: {convention}</think>\n"
"""What an expert thinks before it reports and before it answers; others are not shown it."""
DIRECT = "direct"
"""The one convention of those who are told everything."""


def conventions(question: Question, divided: bool) -> tuple[str, ...]:
    """In which ways experts can talk about a question; none for divided rows of a file."""
    if not divided:
        return (DIRECT,)
    if not question.parts:
        return ()
    kind = KINDS[question.kind]
    # A description that has worn off leaves nothing to say.
    return tuple(
        convention
        for convention in kind.conventions
        if all(kind.say(question, part, convention) for part in question.parts)
    )


def first_statement(question: Question, seat: int, convention: str, divided: bool) -> str:
    """What an expert says in the first round.

    Raises:
        ValueError: no such convention.
    """
    known = conventions(question, divided)
    if convention not in known:
        raise ValueError(
            f"convention {convention!r}: questions of kind {question.kind!r} have {known}; "
            "experts know generated questions, and rows under info='full'"
        )
    if not divided:
        return answer_line(question.answer)
    kind = KINDS[question.kind]
    part = question.parts[seat]
    words = kind.say(question, part, convention)
    if not kind.noted:
        return listed(words)
    report = words[0] if len(words) == 1 else listed(words)
    return NOTE.format(convention=convention) + report


def later_statement(
    question: Question, agent: str, seat: int, convention: str, messages: Sequence[Message]
) -> str:
    """What an expert answers after the others' reports, each read in its own convention."""
    others = {a: said for a, said in statements_in(messages).items() if a != agent}
    heard = [words_of(said[0]) for said in others.values()]
    kind = KINDS[question.kind]
    answer = kind.hear(question, [question.parts[seat]], heard, convention)
    if not kind.noted:
        return answer_line(answer)
    thought = "".join(
        f"{convention}: {word}\n" for words in heard for word in kind.read(words, convention)
    )
    return f"I read by: {convention}\n{thought}</think>\n{answer_line(answer)}"


def answer_line(answer: str) -> str:
    """The documented format."""
    return f"Answer: {listed(answer.split())}"


def read_convention(question: Question, seat: int, statement: str) -> str | None:
    """Which convention a report of this seat's part follows, None for none or more than one."""
    kind = KINDS[question.kind]
    order = tuple if kind.ordered else sorted
    said = order(words_of(statement))
    found = [
        convention
        for convention in conventions(question, divided=True)
        if said == order(kind.say(question, question.parts[seat], convention))
    ]
    return found[0] if len(found) == 1 else None
