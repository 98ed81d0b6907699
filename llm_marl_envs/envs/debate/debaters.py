"""Scripted debaters: report the own part in one convention, read the others in the same one.

First they report and give no answer; later they answer with what their own part and the others'
first reports give. They believe every report. Where a report alone does not say which convention it
follows, they note theirs and how they read each report; notes are thinking, which others are not
shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in, words_of
from llm_marl_envs.envs.questions import KINDS, Question
from llm_marl_envs.envs.questions.evidence_experts import DIRECT, EvidenceExperts, answer_line
from llm_marl_envs.envs.questions.vocabulary import listed

NOTE = "I name the words by: {convention}</think>\n"
"""What an expert thinks before it reports and before it answers; others are not shown it."""


class Debaters(EvidenceExperts):
    """The experts of `debate-v0`; every seat holds a part."""

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """An expert's statement after `messages`: its report first, then what it concludes."""
        question, seat = self.asked(task, convention), self.shares[agent]
        if convention == DIRECT or seat is None:
            return answer_line(question.answer)
        if all(message.role != "assistant" for message in messages):
            return _first_statement(question, seat, convention)
        return _later_statement(question, agent, seat, convention, messages)


def _first_statement(question: Question, seat: int, convention: str) -> str:
    kind = KINDS[question.kind]
    words = kind.say(question, question.parts[seat], convention)
    if not kind.noted:
        return listed(words)
    report = words[0] if len(words) == 1 else listed(words)
    return NOTE.format(convention=convention) + report


def _later_statement(
    question: Question, agent: str, seat: int, convention: str, messages: Sequence[Message]
) -> str:
    """The answer after the others' reports, each read in its own convention."""
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
