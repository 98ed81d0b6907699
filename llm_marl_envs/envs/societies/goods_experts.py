"""Scripted seats of a public good: they announce what they do, choose, give and punish.

What they do is `goods_scripts.py`. Who grabs promises to give first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.societies.goods import CHOOSE, GIVE, PUNISH, Groups, Rules, group_of
from llm_marl_envs.envs.societies.goods_scripts import (
    FOLLOWER,
    GRABBER,
    GRIM,
    PLANS,
    PUNISHER,
    SHARER,
    Mind,
    Script,
)
from llm_marl_envs.envs.societies.goods_texts import fine_text, given_in, groups_in, wish_text

SAYS = {
    SHARER: "I give {endowment}.",
    GRABBER: "I promise: I give {endowment}.",
    GRIM: "I give {endowment}, as long as all do.",
    FOLLOWER: "I give what the others give.",
    PUNISHER: "I give {endowment}, and punish who gives less.",
}
"""What experts announce."""


class GoodsExperts(ListeningExperts):
    """The experts of `public_goods-v0`, one per plan.

    Args:
        seats: in order.
        game: task -> its rules.
        phase: turn, from 1 -> what is done in it.
        punish: whether there are fines; else who punishes would do what the sharer does.
    """

    def __init__(
        self,
        seats: Sequence[str],
        game: Callable[[Task], Rules],
        phase: Callable[[int], str],
        punish: bool,
    ) -> None:
        self.seats, self.game, self.phase = list(seats), game, phase
        self.fixed = PLANS if punish else tuple(plan for plan in PLANS if plan != PUNISHER)

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """An announcement, a wish, an amount or fines."""
        if convention not in self.fixed:
            raise ValueError(f"plan {convention!r}: expected one of {self.fixed}")
        rules, seat, script = self.game(task), self.seats.index(agent), Script(convention)
        texts = [message.content for message in messages if message.role == "user"]
        mind, given, groups = self._remembered(rules, script, texts)
        phase = self.phase(1 + sum(message.role == "assistant" for message in messages))
        if phase == CHOOSE:
            others = [other for other in self.seats if other != agent]
            wishes = sorted(script.wishes(rules, mind, seat))
            return wish_text([self.seats[other] for other in wishes], others)
        if phase == GIVE:
            return str(script.gives(rules, mind, seat, group_of(groups[-1], seat)))
        if phase == PUNISH:
            return fine_text(script.fines(rules, given[-1], groups[-1], seat), self.seats)
        return SAYS[convention].format(endowment=rules.endowment)

    def _remembered(
        self, rules: Rules, script: Script, texts: Sequence[str]
    ) -> tuple[Mind, list[list[int | None]], list[Groups]]:
        """What a script has in mind; what was given, and who played together, in each round."""
        rounds = given_in(texts)
        given = [[named[agent] for agent in self.seats] for named in rounds]
        groups = [
            tuple(tuple(self.seats.index(agent) for agent in group) for group in pairs)
            for pairs in groups_in(texts)
        ]
        if not rules.choose:
            groups = [rules.everybody] * (len(given) + 1)
        mind: Mind = ()
        for named, pairs in zip(given, groups, strict=False):
            mind = script.heard(rules, mind, named, pairs)
        return mind, given, groups

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The first plan that begins with this text."""
        plans = (plan for plan in self.fixed if self.first(task, agent, plan) == action.strip())
        return next(plans, None)
