"""Scripted players who divide things: honest ones, careful ones, and those who take.

Owns what each plan says and takes, and the best response to them among all that can be said in
their own words. The first turn of talk is a claim, the further ones are announcements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from llm_marl_envs.core.experts import ListeningExperts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import statements_in
from llm_marl_envs.envs.games.share_texts import (
    Choice,
    Claim,
    announcement,
    choice_text,
    claim_text,
    read_announcement,
    read_claim,
)
from llm_marl_envs.envs.games.shares import Rules, all_choices, owners, pays

HONEST, WARY, EQUAL, TAKER, LIAR, BREAKER = PLANS = (
    "honest",
    "wary",
    "equal",
    "taker",
    "liar",
    "breaker",
)


@dataclass(frozen=True, slots=True)
class Heard:
    """What one player knows when it speaks or chooses.

    Attributes:
        seat: its number.
        values: what things are worth to it.
        claims: seat -> what it said that things are worth to it; None: it said nothing of it.
        announced: seat -> what it said that it takes.
    """

    seat: int
    values: Claim
    claims: Mapping[int, Claim | None]
    announced: Mapping[int, Choice | None] = field(default_factory=dict)

    @property
    def table(self) -> tuple[Claim | None, ...]:
        """What things are worth to each player, as far as this one has heard."""
        rows = {**self.claims, self.seat: self.values}
        return tuple(rows[seat] for seat in sorted(rows))


def due(heard: Heard, seat: int, things: Sequence[str]) -> Choice:
    """What is worth most to a player by all that was claimed; nothing where nobody else spoke."""
    table = heard.table
    if sum(row is not None for row in table) < 2:
        return frozenset()
    return frozenset(
        thing for thing, owner in zip(things, owners(table), strict=True) if owner == seat
    )


def is_suspect(heard: Heard, things: Sequence[str]) -> bool:
    """Whether somebody made no claim, or one that does not add up, or announced more than it."""
    total = sum(heard.values)
    unsound = any(claim is None or sum(claim) != total for claim in heard.claims.values())
    return unsound or any(
        choice is not None and not choice <= due(heard, seat, things)
        for seat, choice in heard.announced.items()
    )


def chosen(plan: str, heard: Heard, things: Sequence[str]) -> Choice:
    """What a player takes in the end."""
    everything = frozenset(things)
    if plan == EQUAL:
        return frozenset()
    if plan in (TAKER, LIAR, BREAKER) or (plan == WARY and is_suspect(heard, things)):
        return everything
    others = frozenset[str]().union(*(choice or () for choice in heard.announced.values()))
    return due(heard, heard.seat, things) - others


def claimed(plan: str, values: Claim) -> Claim | None:
    """What a player says that things are worth to it; None: nothing."""
    if plan == LIAR:
        return (sum(values),) * len(values)
    return None if plan in (EQUAL, TAKER) else values


def announced(plan: str, heard: Heard, things: Sequence[str]) -> Choice:
    """What a player says that it takes."""
    if plan in (EQUAL, TAKER, LIAR):
        return chosen(plan, heard, things)
    return due(heard, heard.seat, things)


class ShareExperts(ListeningExperts):
    """The experts of `trust_split-v0`, one per plan.

    Args:
        seats: in order.
        talk: how many turns of talk there are.
        divided: whether each knows its own values only; else what is claimed is not needed.
    """

    fixed = PLANS

    def __init__(self, seats: Sequence[str], talk: int, divided: bool) -> None:
        self.seats, self.talk, self.divided = list(seats), talk, divided

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """A claim, an announcement, or the choice."""
        if convention not in PLANS:
            raise ValueError(f"plan {convention!r}: expected one of {PLANS}")
        things: Sequence[str] = task.data["things"]
        turn = sum(message.role == "assistant" for message in messages)
        heard = self._heard(task, agent, messages)
        if turn >= self.talk:
            return choice_text(chosen(convention, heard, things), things)
        if turn == 0:
            claim = claimed(convention, heard.values)
            if claim is not None:
                return claim_text(claim, things)
        return announcement(announced(convention, heard, things), things)

    def _heard(self, task: Task, agent: str, messages: Sequence[Message]) -> Heard:
        """What was said so far; the last readable claim and announcement of each count."""
        things, statements = task.data["things"], statements_in(messages)
        claims: dict[int, Claim | None] = {}
        plans: dict[int, Choice | None] = {}
        for seat, other in enumerate(self.seats):
            if other == agent:
                continue
            texts = statements.get(other, [])[::-1]
            readings = (read_claim(text, things) for text in texts)
            claims[seat] = next((claim for claim in readings if claim is not None), None)
            if not self.divided:
                claims[seat] = task.data["values"][seat]
            meant = (read_announcement(text, things) for text in texts)
            plans[seat] = next((plan for plan in meant if plan is not None), None)
        own = self.seats.index(agent)
        return Heard(own, task.data["values"][own], claims, plans)

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The first plan that begins with this text: who tells the truth is taken for honest."""
        plans = (plan for plan in PLANS if self.first(task, agent, plan) == action.strip())
        return next(plans, None)


# -- exploitability -------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Best:
    """A best response.

    Attributes:
        pay: what it earns, as a share of what all things are worth to it.
        claim: what it says that things are worth to it; None: nothing.
        announced: what it says that it takes; None: nothing.
        taken: what it takes.
    """

    pay: float
    claim: Claim | None
    announced: Choice | None
    taken: Choice


def claims_of(total: int, things: int) -> Iterator[Claim | None]:
    """Nothing; the most for everything, which cannot be; every claim that adds up, with zeros."""
    yield None
    yield (total,) * things
    for bars in combinations(range(total + things - 1), things - 1):
        ends = (-1, *bars, total + things - 1)
        yield tuple(high - low - 1 for low, high in zip(ends, ends[1:], strict=False))


def choices_of(
    task: Task,
    plans: Sequence[str | None],
    talk: int = 2,
    claim: Claim | None = None,
    intent: Choice | None = None,
) -> list[Choice]:
    """What players take who follow plans, when they have talked.

    Args:
        task: what they divide.
        plans: of each player; None: it makes this claim and this announcement, and takes nothing.
        talk: 0, 1 or 2 turns; further ones change nothing, as experts repeat themselves.
        claim: what who has no plan says that things are worth to it.
        intent: what it says that it takes, in the second turn.
    """
    things, values = task.data["things"], task.data["values"]
    claims = [
        None if not talk else claim if plan is None else claimed(plan, row)
        for plan, row in zip(plans, values, strict=True)
    ]

    def heard(seat: int, intents: Sequence[Choice | None]) -> Heard:
        others = [other for other in range(len(values)) if other != seat]
        return Heard(
            seat, values[seat], {s: claims[s] for s in others}, {s: intents[s] for s in others}
        )

    nobody: list[Choice | None] = [None] * len(values)
    announcing = (PLANS, (EQUAL, TAKER), ())[2 - min(talk, 2)]
    intents = [
        (intent if talk > 1 else None)
        if plan is None
        else announced(plan, heard(seat, nobody), things)
        if plan in announcing
        else None
        for seat, plan in enumerate(plans)
    ]
    return [
        frozenset() if plan is None else chosen(plan, heard(seat, intents), things)
        for seat, plan in enumerate(plans)
    ]


def meeting(task: Task, plans: Sequence[str], rules: Rules, talk: int = 2) -> list[float]:
    """What players earn who follow plans, as a share of what all things are worth to each."""
    things = task.data["things"]
    taken = [[thing in choice for thing in things] for choice in choices_of(task, plans, talk)]
    return [float(share) for share in pays(task.data["values"], taken, rules)]


def best_response(task: Task, seat: int, plan: str, rules: Rules, talk: int = 2) -> Best:
    """What a player can get at most beside others who all follow a plan, and by what.

    Everything is tried that can be said in the experts' own words: each claim, each announcement
    and each choice. So the result is exact for plans, which heed nothing else. It is found for each
    task by itself, as if the player knew the others' values: who does not gets no more.

    Args:
        task: what they divide; a generated one takes a quarter of a second.
        seat: of the player who responds.
        plan: of all the others.
        rules: of the environment.
        talk: turns of talk.
    """
    things, values = task.data["things"], task.data["values"]
    subsets = all_choices(len(things))
    choices = [
        frozenset(thing for thing, taken in zip(things, row, strict=True) if taken)
        for row in subsets
    ]
    plans: list[str | None] = [None if player == seat else plan for player in range(len(values))]
    best_replies: dict[tuple[Choice, ...], tuple[float, int]] = {}
    tried: list[Best] = []
    for claim in claims_of(sum(values[seat]), len(things)) if talk else [None]:
        for intent in [None, *choices] if talk > 1 else [None]:
            others = tuple(choices_of(task, plans, talk, claim, intent))
            if others not in best_replies:
                rows = [[thing in choice for thing in things] for choice in others]
                joint = [[*rows[:seat], list(own), *rows[seat + 1 :]] for own in subsets]
                earned = pays(values, joint, rules)[:, seat]
                best_replies[others] = float(earned.max()), int(earned.argmax())
            pay, at = best_replies[others]
            tried.append(Best(pay, claim, intent, choices[at]))
    return max(tried, key=lambda best: best.pay)
