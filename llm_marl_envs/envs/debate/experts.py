"""Scripted experts of debates: debaters, chains of roles, two sides and their judge.

Those who hold a part of the evidence report it in a convention and conclude from what the others
reported, whom they read in their own convention and believe (generated questions only). Where a
report alone does not say which convention it follows, debaters note theirs and how they read each
report; notes are thinking, which others are not shown. The two sides of `debate_pro_con-v0` quote a
source, and their judge believes verified quotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in, words_of
from llm_marl_envs.envs.debate import sides as rules
from llm_marl_envs.envs.debate.judges import scripted_verdict
from llm_marl_envs.envs.debate.quotes import lines_of
from llm_marl_envs.envs.debate.stations import CRITIC, REFINER
from llm_marl_envs.envs.questions import KINDS, Question, question_of, read_answer, same_answer
from llm_marl_envs.envs.questions.evidence_experts import DIRECT, EvidenceExperts, answer_line
from llm_marl_envs.envs.questions.vocabulary import listed

NOTE = "I name the words by: {convention}</think>\n"
"""What a debater thinks before it reports and before it answers; others are not shown it."""
SOLVER, EVALUATOR, SCORER = "solver_0", "evaluator", "scorer_0"
"""Seats of `solve_and_evaluate`; evaluators are numbered."""
PRO, CON = "pro_0", "con_0"
"""Seats of `debate_pro_con`, beside judges."""
QUOTING = ("against", "for")
"""Whether a side quotes lines against the other claim, or for its own."""


class Debaters(EvidenceExperts):
    """The experts of `debate-v0`: a report and no answer first, then what all reports give."""

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """An expert's statement after `messages`: its report first, then what it concludes."""
        question, seat = self.asked(task, convention), self.shares[agent]
        if convention == DIRECT:
            return answer_line(question.answer)
        if self.reports(seat, messages):
            return _noted_report(question, seat, convention)
        return _noted_answer(question, seat, convention, messages)

    def reports(self, seat: int | None, messages: Sequence[Message]) -> bool:
        """Whether an expert tells its part now, in place of an answer."""
        return all(message.role != "assistant" for message in messages)


class LedDebaters(Debaters):
    """The experts of a debate with a leader: debaters report every time, the leader concludes."""

    def reports(self, seat: int | None, messages: Sequence[Message]) -> bool:
        """Who holds a part tells it, in every round."""
        return seat is not None


def _noted_report(question: Question, seat: int | None, convention: str) -> str:
    """One part in a convention; a thought says which, where the report does not show it."""
    if seat is None:
        return ""
    kind = KINDS[question.kind]
    words = kind.say(question, question.parts[seat], convention)
    if not kind.noted:
        return listed(words)
    report = words[0] if len(words) == 1 else listed(words)
    return NOTE.format(convention=convention) + report


def _noted_answer(
    question: Question, seat: int | None, convention: str, messages: Sequence[Message]
) -> str:
    """What follows from the own part and all reports, with a thought on how they were read."""
    kind, heard = KINDS[question.kind], _reports(messages)
    answer = answer_line(_conclusion(question, seat, convention, messages))
    if not kind.noted:
        return answer
    readings = (word for words in heard for word in kind.read(words, convention))
    thought = "".join(f"{convention}: {word}\n" for word in readings)
    return f"I read by: {convention}\n{thought}</think>\n{answer}"


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
        statement = statements_in(messages).get(SOLVER, [""])[-1]
        score = f"Score: {3 if same_answer(read_answer(statement), answer) else 1}"
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
    parts = [] if seat is None else [question.parts[seat]]
    return KINDS[question.kind].hear(question, parts, _reports(messages), convention)


def _reports(messages: Sequence[Message]) -> list[tuple[str, ...]]:
    """The words of the first statement of each speaker."""
    return [words_of(texts[0]) for texts in statements_in(messages).values()]


def _reported(text: str, answer: str) -> str:
    """A report and an answer line; either may be empty."""
    return "\n".join([*([text] if text else []), *([answer_line(answer)] if answer else [])])


class SideExperts(ListeningExperts):
    """Debaters that quote the next best lines, and judges that believe verified quotations.

    Args:
        quotes: how many lines a statement may quote.
    """

    fixed = QUOTING

    def __init__(self, quotes: int) -> None:
        self.quotes = quotes

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The next best lines; a judge's verdict, "" before it has heard the debaters.

        Raises:
            ValueError: no such convention.
        """
        if convention not in QUOTING:
            raise ValueError(f"convention {convention!r}: expected one of {QUOTING}")
        if agent not in (PRO, CON):
            return scripted_verdict(messages) if messages else ""
        question = question_of(task)
        own = sides(question)[agent]
        other = sides(question)[CON if agent == PRO else PRO]
        best = rules.useful(own, other, source_of(question), convention == "against")
        begin = self.quotes * sum(message.role == "assistant" for message in messages)
        lines = [f"Quote: {line}" for line in best[begin : begin + self.quotes]]
        return "\n".join(lines) or f"I claim: [{own}]"


def sides(question: Question) -> dict[str, str]:
    """Debater -> its claim."""
    claims = rules.claims_of(question)
    return {PRO: claims.pro, CON: claims.con}


def source_of(question: Question) -> tuple[str, ...]:
    """What the debaters have read: every line of the shared knowledge and the evidence.

    Raises:
        ValueError: the question brings neither.
    """
    lines = lines_of([*question.shared, *question.evidence])
    if not lines:
        raise ValueError(
            f"a debate needs a source, and {question.text!r:.60} brings neither `evidence` nor "
            "`shared`"
        )
    return lines
