"""What pages show of an episode with people in it: bubbles, who earned what, the experts beside it.

Pure functions of records; `templates/` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.measure.numbers.format import NOTHING, number
from llm_marl_envs.report.episodes import Card, Listing, listed, outcome, shortened, side_by_side
from llm_marl_envs.report.sources import Transcript
from llm_marl_envs.report.tables import Table, table

HIDDEN_INFO = ("turn", "action_truncated", "task_id", "task_clusters")
LONGEST_INFO = 60
MOST, LEAST = 200, 6
"""Messages of a chat, and turns of an episode, that a page shows; messages where seats are many."""


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message: who wrote it, whether the seat itself did, its text."""

    who: str
    own: bool
    text: str


def bubbles(agent: str, messages: Sequence[Message], most: int = MOST) -> tuple[Bubble, ...]:
    """A seat's chat: what it is told, and what it said; of a long one the first and the last."""
    who = {"assistant": agent, "user": "environment"}
    out = max(0, len(messages) - most)
    shown = tuple(
        Bubble(who.get(m.role, m.role), m.role == "assistant", shortened(m.content))
        for m in (*messages[:1], *messages[1 + out :])
    )
    gap = (Bubble("", False, f"({out} messages are left out)"),) if out else ()
    return (*shown[:1], *gap, *shown[1:])


def all_bubbles(chats: Mapping[str, Sequence[Message]]) -> dict[str, tuple[Bubble, ...]]:
    """Seat -> its chat; many seats show the fewer messages each, so that a page stays small."""
    most = max(LEAST, MOST // max(1, len(chats)))
    return {agent: bubbles(agent, messages, most) for agent, messages in chats.items()}


def rewards(episode: Episode) -> Table:
    """A row for each seat: its return and the terms that make it up."""
    terms = {agent: episode.terms_of(agent) for agent in episode.agents}
    names = list(dict.fromkeys(name for by_name in terms.values() for name in by_name))
    rows = [
        [
            agent,
            number(episode.undiscounted_return(agent)),
            *(number(terms[agent].get(name)) for name in names),
        ]
        for agent in episode.agents
    ]
    return table(["seat", "return", *names], rows)


def judged(episode: Episode) -> Table | None:
    """What the environment says of each seat's last action: who was right, and the like."""
    last = {
        agent: turns[-1].info for agent in episode.agents if (turns := episode.trajectory(agent))
    }
    names = [
        name
        for name in dict.fromkeys(key for info in last.values() for key in info)
        if name not in HIDDEN_INFO and any(_plain(info.get(name)) for info in last.values())
    ]
    rows = [
        [name.replace("_", " "), *(_text(info.get(name)) for info in last.values())]
        for name in names
    ]
    return table(["last action", *last], rows) if rows else None


def _plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) or (
        isinstance(value, str) and 0 < len(value) <= LONGEST_INFO
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not _plain(value):
        return NOTHING
    return number(value) if isinstance(value, float) else str(value)


def beside(episodes: Mapping[str, Episode]) -> Listing:
    """One episode, or two of one task and seed beside each other."""
    made = [Transcript(label, label, (episode,)) for label, episode in episodes.items()]
    listing = side_by_side(*made, most=1) if len(made) == 2 else listed(made[0], 1)
    listing = listing if listing.cards else listed(made[0], 1)
    # A card's own words are of one team before and after it learned.
    heading = "; ".join(f"{label}: {outcome(episode)}" for label, episode in episodes.items())
    cards = (_cut(replace(card, heading=heading)) for card in listing.cards)
    return replace(listing, cards=tuple(cards))


def _cut(card: Card) -> Card:
    """A card with the last turns of a long episode."""
    if max((len(column.turns) for column in card.columns), default=0) <= MOST:
        return card
    columns = (replace(column, turns=column.turns[-MOST:]) for column in card.columns)
    heading = f"{card.heading}; the last {MOST} turns, the transcript has all"
    return replace(card, heading=heading, columns=(*columns,))
