"""Scripted experts of two sides and their judges: debaters quote, a judge hears them."""

from __future__ import annotations

from collections.abc import Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.debate import sides as rules
from llm_marl_envs.envs.debate.quotes import lines_of
from llm_marl_envs.envs.debate.side_judge import scripted_verdict
from llm_marl_envs.envs.questions import Question, question_of

PRO, CON = "pro_0", "con_0"
CONVENTIONS = ("against", "for")


class SideExperts(ListeningExperts):
    """Debaters that quote the next best lines, and judges that believe verified quotations.

    Args:
        quotes: how many lines a statement may quote.
    """

    fixed = CONVENTIONS  # lines "against" the other claim, or "for" their own

    def __init__(self, quotes: int) -> None:
        self.quotes = quotes

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The next best lines; a judge's verdict, "" before it has heard the debaters.

        Raises:
            ValueError: no such convention.
        """
        if convention not in CONVENTIONS:
            raise ValueError(f"convention {convention!r}: expected one of {CONVENTIONS}")
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
