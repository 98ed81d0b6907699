"""Scripted seats that give: they announce it while there is talk, then do what their script does.

What they do is `gift_scripts.py`. Who grabs promises to give all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.societies.gift_scripts import (
    FOLLOWER,
    GRABBER,
    GRIM,
    PUNISHER,
    SCORER,
    SHARER,
    STANDER,
    Script,
    plans_of,
)
from llm_marl_envs.envs.societies.gift_texts import Sight, sights_of
from llm_marl_envs.envs.societies.gifts import Deed, Rules
from llm_marl_envs.envs.societies.rounds import TALK

SAYS = {
    SHARER: "I give all that I have.",
    GRABBER: "I promise: I give all that I have.",
    SCORER: "I give all that I have to those who gave all that they had.",
    STANDER: "I give all that I have, but nothing to those who kept from one who gives.",
    FOLLOWER: "I give as large a part as the other gave.",
    GRIM: "I give all that I have, as long as all do.",
    PUNISHER: "I give all that I have, and punish those who kept from one who gives.",
}
"""What experts announce."""


class GiftExperts(ListeningExperts):
    """The experts of `donor-v0`, one per plan.

    Args:
        rules: of a task.
        phase: turn, from 1 -> what it is for.
    """

    def __init__(self, rules: Callable[[Task], Rules], phase: Callable[[int], str]) -> None:
        self.rules, self.phase = rules, phase

    def conventions(self, task: Task) -> tuple[str, ...]:
        """The plans; `punisher` where seats may punish."""
        return plans_of(self.rules(task))

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """An announcement, or an amount."""
        if convention not in self.conventions(task):
            raise ValueError(f"plan {convention!r}: expected one of {self.conventions(task)}")
        if self.phase(1 + sum(message.role == "assistant" for message in messages)) == TALK:
            return SAYS[convention]
        endowment, script = self.rules(task).endowment, Script(convention)
        texts = [message.content for message in messages if message.role == "user"]
        sights = sights_of(texts) or [Sight(1, endowment, endowment, (), ())]
        seen = [deed for sight in sights for deed in (*sight.got, *sight.chain)]
        now = sights[-1]
        return told_as(script.deed(now.had, now.other, now.chain, script.heeds(seen, False)))

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The first plan that begins with this text."""
        plans = self.conventions(task)
        return next((p for p in plans if self.first(task, agent, p) == action.strip()), None)


def told_as(deed: Deed) -> str:
    """The action that does a deed."""
    return f"punish {deed.spent}" if deed.spent else str(deed.gave)
