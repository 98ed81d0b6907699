"""Scripted experts of roles: report the own part in a convention, conclude from what was reported.

They read others in their own convention and believe every report. Generated questions only.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.deliberation.debaters import DIRECT, answer_line, conventions
from llm_marl_envs.deliberation.statements import statements_in, words_of
from llm_marl_envs.questions import KINDS, Question
from llm_marl_envs.questions.vocabulary import listed
from llm_marl_envs.spaces import Message


def conventions_of(question: Question, seats: int, divided: bool) -> tuple[str, ...]:
    """In which ways experts can talk; none where there is not one part for each of `seats`."""
    if divided and len(question.parts) != seats:
        return ()
    return conventions(question, divided)


def check_convention(question: Question, convention: str, known: Sequence[str]) -> None:
    """Raise `ValueError` for a convention that is none of those `known` to experts."""
    if convention not in known:
        raise ValueError(
            f"convention {convention!r}: this question of kind {question.kind!r} has "
            f"{tuple(known)}; experts know generated questions in as many parts as seats hold "
            "evidence, and all questions under info='full'"
        )


def report(question: Question, seat: int, convention: str) -> str:
    """One part of the evidence in a convention; nothing where everybody is told everything."""
    if convention == DIRECT:
        return ""
    return listed(KINDS[question.kind].say(question, question.parts[seat], convention))


def conclusion(
    question: Question, seat: int | None, convention: str, messages: Sequence[Message]
) -> str:
    """The answer of one who knows the part `seat` (None: no part) and was shown `messages`.

    The first report of each speaker counts; "" where nothing can be concluded.
    """
    if convention == DIRECT:
        return question.answer
    known = [] if seat is None else [question.parts[seat]]
    reports = [words_of(said[0]) for said in statements_in(messages).values()]
    return KINDS[question.kind].hear(question, known, reports, convention)


def reported(text: str, answer: str) -> str:
    """A report and an answer line; either may be empty."""
    return "\n".join([*([text] if text else []), *([answer_line(answer)] if answer else [])])
