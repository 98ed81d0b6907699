"""Scripted experts of roles: report the own part in a convention, conclude from what was reported.

They read others in their own convention and believe every report. Generated questions only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in, words_of
from llm_marl_envs.envs.debate.stations import CRITIC, REFINER
from llm_marl_envs.envs.questions import KINDS, Question, read_answer, same_answer
from llm_marl_envs.envs.questions.evidence_experts import DIRECT, EvidenceExperts, answer_line
from llm_marl_envs.envs.questions.vocabulary import listed

SOLVER, EVALUATOR, SCORER = "solver_0", "evaluator", "scorer_0"
"""Seats of `solve_and_evaluate`; evaluators are numbered."""


class ChainExperts(EvidenceExperts):
    """Generator, critics and refiner: a report and a first impression, a report, the conclusion."""

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """An expert's text after `messages`."""
        question, share = self.asked(task, convention), self.shares[agent]
        role = agent.rpartition("_")[0]
        own = "" if role == REFINER else _report(question, share, convention)
        answer = _conclusion(question, share, convention, messages)
        return _reported(own, "" if role == CRITIC and own else answer)


class EvaluationExperts(EvidenceExperts):
    """Solver, evaluators and scorer: honest in every role, a report first, then what it concludes.

    Args:
        shares, parts, divided: as in `EvidenceExperts`.
        evaluators_score: whether evaluators score too.
    """

    def __init__(
        self,
        shares: Mapping[str, int | None],
        parts: int,
        divided: bool,
        evaluators_score: bool,
    ) -> None:
        super().__init__(shares, parts, divided)
        self.evaluators_score = evaluators_score

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """An expert's text after `messages`."""
        question, place = self.asked(task, convention), self.shares[agent]
        answer = _conclusion(question, place, convention, messages)
        own = _report(question, place, convention)
        if agent == SOLVER:
            spoken = any(message.role == "assistant" for message in messages)
            return _reported("" if spoken else own, answer)
        if agent != SCORER and not self.evaluators_score:
            return own or _reported("", answer)
        said = statements_in(messages).get(SOLVER, [""])[-1]
        score = f"Score: {3 if same_answer(read_answer(said), answer) else 1}"
        return "\n".join([own, score] if own and agent != SCORER else [score])


def _report(question: Question, seat: int | None, convention: str) -> str:
    """One part of the evidence in a convention; nothing of no part, nor where all know all."""
    if convention == DIRECT or seat is None:
        return ""
    return listed(KINDS[question.kind].say(question, question.parts[seat], convention))


def _conclusion(
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


def _reported(text: str, answer: str) -> str:
    """A report and an answer line; either may be empty."""
    return "\n".join([*([text] if text else []), *([answer_line(answer)] if answer else [])])
