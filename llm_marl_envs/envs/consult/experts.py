"""Scripted experts: an asker who asks as well as can be, and a person who answers.

A person can answer what it was asked and no more, or tell everything at once; an asker can ask for
one fact, or for everything. Who asks for everything loses a question beside a person who answers
single facts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in
from llm_marl_envs.envs.consult.builds import Build
from llm_marl_envs.envs.consult.chances import Case
from llm_marl_envs.envs.consult.plans import CasePlan, FamilyPlan
from llm_marl_envs.envs.consult.record import NOT_KNOWN, Fact, Record, asked_fact, stated_facts
from llm_marl_envs.envs.consult.subjects import Subject, plan_of, subject_of

ASKER, PERSON = "asker_0", "person_0"
ASKED, ALL = "asked", "all"
TELL_ALL = "Tell me all that you know."


class ConsultExperts(ListeningExperts):
    """The experts of `consult-v0`.

    Args:
        questions: how many the asker may ask.
        price: of each.
        seated: whether the person is a seat, which can tell everything.
        informed: whether the asker is told everything first.
    """

    def __init__(self, questions: int, price: float, seated: bool, informed: bool) -> None:
        self.questions, self.price, self.informed = questions, price, informed
        self.fixed = (ALL, ASKED) if seated else (ASKED,)

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """A question, an answer, or what the person knows."""
        if convention not in self.fixed:
            raise ValueError(f"convention {convention!r}: expected one of {self.fixed}")
        subject = subject_of(task)
        if agent == PERSON:
            return _answered(subject.record, convention, messages)
        return self._asked(subject, convention, messages)

    def _asked(self, subject: Subject, convention: str, messages: Sequence[Message]) -> str:
        chances, facts = subject.chances, subject.record.facts
        if chances is None:  # of a row nothing is known but what is right
            return answered(subject, subject.solution)
        known = heard(subject.record, messages)
        if self.informed:
            known = dict(enumerate(subject.record.values))
        left = max(self.questions - sum(message.role == "assistant" for message in messages), 0)
        if convention == ALL and left == self.questions > 0:
            plan = plan_of(chances, known, 0, self.price)
            if plan.knowing_all() - self.price > plan.at_once():
                return TELL_ALL
        place = _plan(chances, known, left, self.price).question()
        return answered(subject, chances.guess(known)) if place is None else ask(facts[place])

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """Whether an action asks for or tells everything, or one fact; None for other actions."""
        facts = subject_of(task).record.facts
        if agent == PERSON:
            count = len(stated_facts(action, facts))
            several = ALL if count > 1 else ASKED
            return several if count or action.strip() == NOT_KNOWN else None
        if action.strip() == TELL_ALL:
            return ALL
        return ASKED if asked_fact(action, facts) is not None else None


def _plan(
    chances: Case | Build, known: Mapping[int, str], questions: int, price: float
) -> CasePlan | FamilyPlan:
    """The best way to ask; of what is too large, the best for two questions at a time."""
    try:
        return plan_of(chances, known, questions, price)
    except ValueError:
        return plan_of(chances, known, 2, price)


def ask(fact: Fact) -> str:
    """A question for one fact."""
    return f"{fact.name}?"


def answered(subject: Subject, answer: str) -> str:
    """An answer in the documented form."""
    return f"Answer: {answer}" if subject.kind == "case" else answer


def heard(record: Record, messages: Sequence[Message]) -> dict[int, str]:
    """Place -> value of all that the asker was told, the complaint first."""
    known, asked = dict(record.opening), None
    for message in messages:
        if message.role == "assistant":
            asked = asked_fact(message.content, record.facts)
            continue
        for text in statements_in([message]).get(PERSON, ()):
            for place, value in stated_facts(text, record.facts, asked).items():
                known.setdefault(place, value)
    return known


def _answered(record: Record, convention: str, messages: Sequence[Message]) -> str:
    if convention == ALL:
        return record.lines()
    questions = statements_in(messages).get(ASKER, ())
    return record.reply(questions[-1]) if questions else NOT_KNOWN
