"""Scripted experts who calculate together: one reads out the cards, the other works with them.

Cards can be read out from the first to the last or from the last to the first. Nothing in the
numbers says which, so one who reads them the other way takes the wrong cards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in
from llm_marl_envs.envs.math.answers import APPROVAL, TELLERS, VERIFIER, read_line, same_value
from llm_marl_envs.envs.math.card_tasks import Cards, cards_of, of_cards
from llm_marl_envs.envs.math.cards import Deal, best_guess
from llm_marl_envs.envs.questions import question_of
from llm_marl_envs.envs.questions.evidence_experts import DIRECT

ORDERS = ("forward", "backward")
TOLD = re.compile(r"[0-9]{1,3}(?: [0-9]{1,3})*")


class CardExperts(ListeningExperts):
    """The experts of `math_team-v1`.

    Args:
        divided: whether one seat knows the cards alone and the other the question.
    """

    def __init__(self, divided: bool) -> None:
        self.divided = divided
        self.fixed = ORDERS if divided else (DIRECT,)

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The cards; the answer that they give, or the best guess before they were told."""
        if convention not in self.fixed:
            raise ValueError(f"convention {convention!r}: expected one of {self.fixed}")
        heard = [texts[-1] for texts in statements_in(messages).values()]
        if not self.divided:
            return _direct(task, agent, heard)
        cards = cards_of(task)
        if agent in TELLERS:
            return told(cards.deal, convention)
        deal = _understood(cards, heard, convention)
        return answer_line(
            best_guess(cards.asked, *cards.numbers) if deal is None else cards.asked.answer(deal)
        )

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The order in which the cards were read out; None for both, none, and other seats."""
        if not self.divided or agent not in TELLERS:
            return None
        deal = cards_of(task).deal
        orders = [order for order in ORDERS if told(deal, order) == action.strip()]
        return orders[0] if len(orders) == 1 else None


def told(deal: Deal, order: str) -> str:
    """The cards as they are read out."""
    return " ".join(map(str, deal if order == ORDERS[0] else deal[::-1]))


def answer_line(answer: object) -> str:
    """The documented format."""
    return f"Answer: {answer}"


def _understood(cards: Cards, heard: Sequence[str], convention: str) -> Deal | None:
    """The cards that a partner read out last; None where it read out none."""
    lines = [line.strip() for text in heard for line in text.split("\n")]
    numbers = [line.split() for line in lines if TOLD.fullmatch(line)]
    if not numbers or len(numbers[-1]) != len(cards.deal):
        return None
    deal = tuple(map(int, numbers[-1]))
    return deal if convention == ORDERS[0] else deal[::-1]


def _direct(task: Task, agent: str, heard: Sequence[str]) -> str:
    """The right answer, or an approval of it."""
    right: Fraction | str
    if of_cards(task):
        cards = cards_of(task)
        right = cards.asked.answer(cards.deal)
    else:
        right = question_of(task).answer
    answer = read_line(heard[-1]) if heard else None
    if agent == VERIFIER and answer is not None and same_value(answer, str(right)):
        return APPROVAL
    return answer_line(right)
