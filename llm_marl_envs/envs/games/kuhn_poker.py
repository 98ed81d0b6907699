"""# kuhn_poker-v1: one hand of poker with three cards and one bet.

## Description
A test bed for learners with opposed interests. Two players put in 1 each and are dealt one of three
cards, jack, queen and king. Each says `pass` or `bet`, a bet is answered once, and the stronger
card wins (Kuhn 1950). The game is so small that the exploitability of a team is computed exactly.
docs/environments/kuhn_poker.md has the equilibria, and how to measure a team.

## An episode
A hand of `train/0` (reset seed 0) in which the first was dealt the jack, the second the queen.

    player_0 is told   Kuhn poker. Cards: jack, queen, king. Each put in 1, a bet
                       is 1 more. You hold the jack.
                       Answer with one line: pass or bet.
    player_1 is told   You hold the queen.

    player_0 says      pass
    player_1 hears     The other passes.
    player_1 says      bet
    player_0 hears     The other bets. Bet to call, pass to fold.
    player_0 says      That is a bluff.
                       Action: bet
    player_0 earns     -2.0
    player_1 earns     2.0

    player_1 says      I would rather not bet.
    player_0 earns     -1.0
    player_1 earns     1.0

The last text takes no action and counts as a pass.

## Agents
`player_0` acts first, `player_1` second (AEC). After a pass and a bet `player_0` acts again.

## Observations
Chat messages, append-only: the rules and the own card; then what the other did. The cards are the
private part: no seat is told the other's.

## Actions
`pass` or `bet`, read as in `matrix_game-v1`: exactly one line of the text is the word alone, or
behind `Action:`. Everything else counts as a pass, which upon a bet is to fold. So a text policy is
a table of 12 probabilities of betting, and what else it says adds nothing.

## Rewards
| term | value |
|---|---|
| winnings | at the end: 1 or 2 times the ante for the winner, the same negative for the other |

The sum is 0, so train on own rewards (`credit="own"`). The range is -2 to 2 in train.

**Entries of `info`**: `readable`, the text took an action; `choice`, "pass" or "bet". `success` is
None: nobody solves anything. `bounds` knows none: the team's mean is always 0.

## Episode end
When the hand is over, after two or three actions. Never truncated.

## Arguments
`llm-marl spec kuhn_poker` lists them.

## Tasks and licence
A task is an ante, and the reset seed deals: each of the six deals is as likely. So no task id names
a card. `train` has an ante of 1. There are no other deals, so `val`, `test` and `ood` have other
antes (0.7 and 1.4; 0.6 and 1.7; 0.3 and 2.9). Settings are chosen on `val`, by learning it anew,
and not at the stakes that are measured. In an evaluation each sample is another deal. In training
the episodes of a group share their reset seed, and so their deal, unless a run says `chance:
episode`. A row with `deal` fixes it; its id is then known to go
with those cards.

## Version history
- v1: a task is an ante. In v0 it was a deal, and its id, which policies are told, named the cards.
- v0: first version.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from llm_marl_envs.core.actions import read_action
from llm_marl_envs.core.environment import Outcome, TextAECEnv, TextEnv, described
from llm_marl_envs.core.options import TaskOptions, tasks_field
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import (
    ListSource,
    Row,
    Task,
    hash_of,
    split_of_row,
)
from llm_marl_envs.envs.games import kuhn_rules as kuhn
from llm_marl_envs.envs.games.experts import GameExperts
from llm_marl_envs.envs.games.kuhn_rules import BET, CARDS, DEALS, PASS
from llm_marl_envs.envs.games.scales import FACTORS, scale_of_row
from llm_marl_envs.policies import ScriptedPolicy

SEATS = ("player_0", "player_1")
WORDS = (PASS, BET)

RULES = (
    "Kuhn poker. Cards: jack, queen, king. Each put in {ante:g}, a bet is {ante:g} more. "
    "You hold the {card}.\nAnswer with one line: pass or bet."
)
PASSES = "The other passes."
BETS = "The other bets. Bet to call, pass to fold."


class KuhnPokerOptions(TaskOptions):
    """The arguments of kuhn_poker."""

    tasks: Any = tasks_field("Rows have an `ante`, a `deal` (two different cards), or both.")


class KuhnPokerEnv(TextAECEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an unknown split, or a row that is no deal.
    """

    metadata: ClassVar[dict[str, Any]] = described("kuhn_poker-v1")
    Options = KuhnPokerOptions

    def __init__(self, **arguments: Any) -> None:
        options = KuhnPokerOptions(**arguments)
        super().__init__(
            agents=SEATS,
            source=options.opened(hands, hand_of_row),
            max_turns=2,
            render_mode=options.render_mode,
        )
        most = 2 * max(task.data["ante"] for task in self.source)
        self.reward_range = (-most, most)

    def experts(self) -> KuhnExperts:
        """Players who always pass, or always bet."""
        return KuhnExperts()

    def _choose(self, wanted: Any) -> Task:
        """A task, and the cards that the reset seed deals where it names none."""
        task = super()._choose(wanted)
        dealt = task.data["deal"] or self.chance.choice(DEALS)
        return replace(task, data={**task.data, "deal": dealt})

    def begin_episode(self) -> None:
        """Nobody has acted."""
        self._history: tuple[bool, ...] = ()
        self._facts: dict[str, dict[str, Any]] = {}  # of each seat's last text

    def brief(self, task: Task, agent: str) -> str:
        """The rules and the own card; of a task before it is dealt, the first deal's."""
        return rules(task, SEATS.index(agent))

    def play_one(self, agent: str, action: str) -> Outcome:
        """One action; the hand is paid at its end."""
        word = read_action(action, WORDS)
        bet = word == BET
        self._history = (*self._history, bet)
        self._facts[agent] = {"readable": word is not None, "choice": BET if bet else PASS}
        if kuhn.acting(self._history) is not None:
            other = SEATS[1 - SEATS.index(agent)]
            news = {other: BETS if bet else PASSES}
            return Outcome(reward_terms={}, feedback=news, facts=dict(self._facts))
        won = kuhn.payoff(self.task.data["deal"], self._history) * self.task.data["ante"]
        return Outcome(
            reward_terms={SEATS[0]: {"winnings": won}, SEATS[1]: {"winnings": -won}},
            ended=True,
            facts=dict(self._facts),
        )


class KuhnExperts(GameExperts):
    """Players who do one thing whatever they hold."""

    fixed = WORDS

    def legal(self, task: Task, agent: str) -> Sequence[str]:
        """Pass and bet."""
        return WORDS

    def at_random(self, env: TextEnv, agent: str, rng: random.Random) -> str:
        """Bet with a chance of 0.4, 0.5 or 0.6 by the card; upon a bet 0.25, 0.5 or 0.75.

        So the words depend on all that a seat knows, and the card counts as it should: a model
        that was fitted to words that do not looks at none of it, and one that was fitted to call
        with the jack and fold with the king learned to bet whatever it holds.
        """
        card, betting = env.task.data["deal"][SEATS.index(agent)], env.chat(agent)[-1].content
        chance = ((0.25, 0.5, 0.75) if betting == BETS else (0.4, 0.5, 0.6))[card]
        return BET if rng.random() < chance else PASS

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The word."""
        if convention not in WORDS:
            raise ValueError(f"plan {convention!r}: expected one of {WORDS}")
        return convention

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The word that a text says."""
        return read_action(action, WORDS)


def rules(task: Task, seat: int) -> str:
    """What a seat is told first."""
    dealt = task.data["deal"] or DEALS[0]
    return RULES.format(ante=task.data["ante"], card=CARDS[dealt[seat]])


@lru_cache(maxsize=len(FACTORS))
def hands(split: str) -> ListSource:
    """One task for each ante of a split."""
    tasks = [
        Task(f"{split}/{place}", split, {"deal": None, "ante": ante})
        for place, ante in enumerate(FACTORS[split])
    ]
    return ListSource(tasks, split)


def hand_of_row(row: Row) -> Task:
    """The task of a row.

    Raises:
        ValueError: neither `deal` nor `ante`, no two different cards, or no ante above 0.
    """
    if not {"deal", "ante"} & set(row):
        raise ValueError(f"deal=None: expected `deal`, `ante` or both, got {sorted(map(str, row))}")
    named = row.get("deal")
    cards = list(named) if isinstance(named, (list, tuple)) else []
    deals = {tuple(CARDS[card] for card in deal): deal for deal in DEALS}
    if named is not None and tuple(cards) not in deals:
        raise ValueError(f"deal={named!r}: expected two different cards of {CARDS}")
    ante = scale_of_row(row, 1, "ante")[0]
    dealt = deals.get(tuple(cards))
    key = f"{dealt}/{ante}"
    name = str(row.get("id") or f"row-{hash_of(key):016x}")
    return Task(name, split_of_row(row, key), {"deal": dealt, "ante": ante})


# -- tables and texts -----------------------------------------------------------------------------
def situations(env: KuhnPokerEnv) -> dict[str, list[tuple[Message, ...]]]:
    """Seat -> what it is shown in each of its six situations, as `kuhn_rules.py` numbers them.

    Of the ante of the environment's first task. A seat's own earlier text is `pass`.
    """
    ante = env.source[0].data["ante"]
    shown: dict[str, list[tuple[Message, ...]]] = {}
    for seat, agent in enumerate(SEATS):
        news = ("", BETS) if seat == 0 else (PASSES, BETS)
        shown[agent] = []
        for heard in news:
            for card in range(len(CARDS)):
                deal = (card, (card + 1) % 3) if seat == 0 else ((card + 1) % 3, card)
                task = Task("", "train", {"deal": deal, "ante": ante})
                messages = [Message("user", rules(task, seat))]
                if seat == 0 and heard:
                    messages.append(Message("assistant", PASS))
                messages += [Message("user", heard)] if heard else []
                shown[agent].append(tuple(messages))
    return shown


def player_of_tables(first: ArrayLike, second: ArrayLike) -> ScriptedPolicy:
    """A policy that plays tables of `games/kuhn_rules.py`, drawing from each request's seed.

    Raises:
        ValueError: no tables of six probabilities.
    """
    tables: dict[str, Any] = dict(zip(SEATS, (first, second), strict=True))
    for table in tables.values():
        kuhn.check_table(table)

    def script(request: Request) -> str:
        opening = request.messages[0].content
        card = next(n for n, name in enumerate(CARDS) if f"You hold the {name}." in opening)
        chance = tables[request.agent][kuhn.situation(card, [request.messages[-1].content == BETS])]
        return BET if random.Random(request.seed).random() < chance else PASS

    return ScriptedPolicy(script)
