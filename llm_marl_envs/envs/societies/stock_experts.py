"""Scripted seats of a shared stock: they announce an amount while there is talk, then name one.

What they name is `stock_scripts.py`. Who grabs promises its part first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.societies.stock import Rules
from llm_marl_envs.envs.societies.stock_scripts import (
    FOLLOWER,
    GRABBER,
    GRIM,
    PLANS,
    SHARER,
    Script,
    share,
)
from llm_marl_envs.envs.societies.stock_texts import Skin, months_of

SAYS = {
    SHARER: "I {verb} {amount}.",
    GRABBER: "I promise: I {verb} {amount}.",
    GRIM: "I {verb} {amount}, as long as all keep to their part.",
    FOLLOWER: "I {verb} {amount}, as all do.",
}
"""What experts announce."""
Game = Callable[[Task], tuple[Rules, int]]
"""Task -> its rules, and the units of the first month."""


class StockExperts(ListeningExperts):
    """The experts of `commons-v0`, one per plan.

    Args:
        seats: in order.
        game: of a task.
        acts: turn, from 1 -> whether seats name amounts in it.
        skin: in what words.
    """

    fixed = PLANS

    def __init__(
        self, seats: Sequence[str], game: Game, acts: Callable[[int], bool], skin: Skin
    ) -> None:
        self.seats, self.game, self.acts, self.skin = list(seats), game, acts, skin

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """An announcement, or an amount."""
        if convention not in PLANS:
            raise ValueError(f"plan {convention!r}: expected one of {PLANS}")
        (rules, stock), seat, script = self.game(task), self.seats.index(agent), Script(convention)
        told = [message.content for message in messages if message.role == "user"]
        month, mind = 1, 0
        for named, after in months_of(told):
            others = [amount for other, amount in named.items() if other != agent]
            mind = int(script.heard(rules, month, stock, mind, others))
            month, stock = month + 1, after
        amount = script.named(rules, month, stock, mind, seat)
        if self.acts(1 + sum(message.role == "assistant" for message in messages)):
            return str(amount)
        promised = share(rules, month, stock, seat) if convention == GRABBER else amount
        return SAYS[convention].format(verb=self.skin.verb, amount=promised)

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The first plan that begins with this text."""
        plans = (plan for plan in PLANS if self.first(task, agent, plan) == action.strip())
        return next(plans, None)
