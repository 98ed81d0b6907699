"""What agents tell each other costs something: `make(id, channel={...})`, or `Channel(env, ...)`.

    make("debate-v0", channel={"max_chars": 24, "price": 0.001})

Every seat is told so in the last line of what it is told first:

    Channel: others read the first 24 characters of a text; each costs its writer 0.001.

So of

    Only I know the first dial. It is red.
    Answer: [red]

the others read `Only I know the first di`. The writer's reward holds a term `channel` of -0.024,
and its `info["sent"]` is 24.

A channel acts on *messages*: texts of one agent that another one is shown. An environment hands
each to `TextEnv.pass_on` when it is written. What the environment itself reads of an action (an
answer, a program, moves) is always whole, and what actions lead to (where somebody stands, which
tests pass, what the other chose) is no message. A text that nobody is shown, as the last answers of
a debate, costs nothing. Without a channel nothing changes.

What counts as a character: everything that would be shown. Thinking (up to the last `</think>`),
white space around a text and marks of direction are neither shown nor counted. A character outside
ASCII counts as many as its UTF-8 form has bytes, so no alphabet says more for the same price. A
text is paid for once, however many read it, and also if it is lost. Where one action holds a text
of its own for each listener, each is a text.

Nobody can tell a message that was lost, is late, was not sent or is not meant for it from an empty
one: all are shown as an empty text.

Chance follows from the episode's seed, the two seats and the message's number alone. So an episode
replays, and two budgets can be compared on the same draws.
"""

from __future__ import annotations

import random
import string
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import Field, field_validator

from llm_marl_envs.core.checks import refuse_other, refuse_unknown
from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.experts import text_env
from llm_marl_envs.core.options import EXPECTED, Options, Share
from llm_marl_envs.core.texts import told

ALPHABET = string.ascii_letters + string.digits + string.punctuation + " "
"""What noise puts in the place of a character: any other one of these."""
TOPOLOGIES = ("all", "ring", "star", "none")
MOST_BYTES = 4
"""What a character can count as."""


class Rules(Options):
    """The arguments of a channel; `Channel` says what they mean."""

    within = "channel"

    hears: str | Mapping[str, Sequence[str]] = Field(
        default="all",
        json_schema_extra={EXPECTED: f"one of {TOPOLOGIES} or a dict listener -> list of seats"},
    )
    max_chars: int | None = Field(default=None, ge=0)
    price: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    noise: Share = 0.0
    delay: int = Field(default=0, ge=0)
    drop: Share = 0.0
    silence: str = Field(
        default="", json_schema_extra={EXPECTED: "one line of text without space around it"}
    )

    @field_validator("hears")
    @classmethod
    def _is_a_topology(cls, hears: Any) -> Any:
        if isinstance(hears, str):
            refuse_other("hears", hears, TOPOLOGIES)
        return hears

    @field_validator("silence")
    @classmethod
    def _is_one_line(cls, silence: str) -> str:
        if told(silence) != silence or "\n" in silence:
            raise ValueError("several lines, or space around")
        return silence

    def sent(self, text: str) -> str:
        """What of a text goes out."""
        shown = told(text)
        if shown == self.silence:
            return ""
        return shown if self.max_chars is None else _clipped(shown, self.max_chars)

    def arrived(self, sent: str, chance: random.Random) -> str:
        """What comes of what went out."""
        if chance.random() < self.drop:
            return ""
        if not self.noise:
            return sent
        return "".join(
            chance.choice(ALPHABET.replace(char, "")) if chance.random() < self.noise else char
            for char in sent
        )

    def heard_by(
        self, seats: Sequence[str], links: Mapping[str, Collection[str]]
    ) -> dict[str, Any]:
        """Listener -> seats that it hears, of those that an environment shows it.

        Args:
            seats: all seats, in order.
            links: as `TextEnv.links`.

        Raises:
            ValueError: `hears` has a pair that the environment has not.
        """
        if isinstance(self.hears, str):
            wanted = _topology(self.hears, seats)
            return {a: [by for by in links.get(a, ()) if by in wanted[a]] for a in seats}
        wrong = [(a, by) for a, all_by in self.hears.items() for by in all_by]
        wrong = [(a, by) for a, by in wrong if by not in links.get(a, ())]
        wrong += [(a, "anybody") for a in self.hears if a not in seats]
        if wrong:
            raise ValueError(
                f"channel, hears: {wrong[0][0]!r:.200} cannot hear {wrong[0][1]!r:.200}; expected "
                f"pairs among { {a: list(by) for a, by in links.items()} }"
            )
        return {a: list(self.hears.get(a, ())) for a in seats}

    def notice(self) -> str:
        """What every seat is told; empty where there is nothing to tell."""
        limited = self.max_chars is not None
        late = f"{self.delay} turn{'s' * (self.delay > 1)}"
        clauses = [
            (limited, f"others read the first {self.max_chars} characters of a text"),
            (self.price, f"each {'' if limited else 'character '}costs its writer {self.price:g}"),
            (self.noise, f"a character becomes another one with probability {self.noise:g}"),
            (self.drop, f"a text is lost with probability {self.drop:g}"),
            (self.delay, f"texts arrive {late} late"),
            (self.silence, f"{self.silence} alone sends nothing and costs nothing"),
        ]
        sentences = "; ".join(text for holds, text in clauses if holds)
        return f"Channel: {sentences}." if sentences else ""


class Courier:
    """What the messages of one episode pass through; a `Line` of `outcome.py`.

    Args:
        rules: what happens to them.
        heard_by: listener -> seats that it hears.
        seed: what chance follows from.
    """

    def __init__(self, rules: Rules, heard_by: Mapping[str, Sequence[str]], seed: int) -> None:
        self.rules, self.heard_by, self.seed = rules, heard_by, seed
        self._sent: dict[str, list[dict[str, str]]] = {seat: [] for seat in heard_by}  # by turn
        self._bill: dict[str, int] = {}

    def carry(self, speaker: str, text: str, listeners: Sequence[str]) -> dict[str, str]:
        """As `Line.carry`."""
        audience = [listener for listener in listeners if speaker in self.heard_by[listener]]
        sent = self.rules.sent(text) if audience else ""
        turns = self._sent[speaker]
        if speaker not in self._bill:  # its first text in this turn
            turns.append({})
        self._bill[speaker] = self._bill.get(speaker, 0) + size(sent)
        turns[-1] |= dict.fromkeys(audience, sent)
        number = len(turns) - 1 - self.rules.delay
        if number < 0:
            return dict.fromkeys(listeners, "")
        return {
            listener: self._arrived(speaker, listener, number) if listener in audience else ""
            for listener in listeners
        }

    def _arrived(self, speaker: str, listener: str, number: int) -> str:
        chance = random.Random(f"channel/{self.seed}/{speaker}/{listener}/{number}")
        return self.rules.arrived(self._sent[speaker][number].get(listener, ""), chance)

    def bill(self) -> dict[str, tuple[int, float]]:
        """As `Line.bill`."""
        bill, self._bill = self._bill, {}
        return {seat: (count, count * self.rules.price) for seat, count in bill.items()}

    def redraw(self, seed: int) -> None:
        """As `Line.redraw`."""
        self.seed = seed


def size(text: str) -> int:
    """How many characters a text counts as: its bytes in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def _clipped(text: str, most: int) -> str:
    """The longest beginning of at most that size, of whole characters."""
    head = text[:most].encode("utf-8", "surrogatepass")[:most]
    while head:
        try:
            return head.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # ends in the middle of a character
            head = head[:-1]
    return ""


def _topology(name: str, seats: Sequence[str]) -> dict[str, list[str]]:
    """Listener -> seats that it hears; `Channel` says what the names mean."""
    if name == "none":
        return {seat: [] for seat in seats}
    if name == "ring":
        return {seat: [seats[place - 1]] for place, seat in enumerate(seats)}
    everybody = {seat: [other for other in seats if other != seat] for seat in seats}
    if name == "star":
        return everybody | {seat: [seats[0]] for seat in seats[1:]}
    return everybody


def Channel(env: Any, **options: Any) -> Any:  # noqa: N802 - a wrapper, as `Partners`
    """The environment, whose agents hear each other as the options say; see the module.

    Bounds stay those of the environment: `solo` hears nobody, `team` is the best with free talk. So
    the cooperation index says how much of what talking is worth comes through the channel. The
    price is learned from; it is in no return that is measured.

    Args:
        env: an environment of this library in which agents are shown what others wrote, of either
            form, also with PettingZoo's wrappers around. It is changed in its place.
        options: hears: who hears whom, of those whom the environment lets hear each other: "all";
            "ring" (each seat hears the one before it, the first the last); "star" (the first seat
            hears all and all hear it); "none"; or a dict listener -> list of seats, who is left out
            hears nobody.
            max_chars: how many characters of a text are sent, the first ones; None for all.
            price: what each character sent costs its writer, a reward term `channel`.
            noise: with which probability a character that was sent becomes another of `ALPHABET`.
            delay: a listener is shown the text of so many turns of the speaker before.
            drop: with which probability a listener is shown nothing of a text.
            silence: a text that as a whole sends nothing and costs nothing; an empty one always
                does.

    Raises:
        ValueError: an environment without messages, or in which some of what agents tell each
            other passes by; an option that is unknown or out of range; `hears` other than "all" and
            "none" where a task says who hears whom; a delay after which nothing can arrive.
        TypeError: another library's environment, one whose `links` have no counts, or an option of
            the wrong type.
    """
    inner = text_env(env, "channel")
    name = inner.metadata["name"]
    if inner.channel is not None:
        raise ValueError(f"channel: {name} has one already")
    refuse_unknown("channel", options, Rules.model_fields, listed="docs/howto/channel.md")
    rules = Rules(**options)
    links = _links(inner)
    if inner.links_drawn and rules.hears not in ("all", "none"):
        raise ValueError(
            f"channel, hears={rules.hears!r:.80}: in {name} each task says who hears whom; "
            "expected 'all' or 'none'"
        )
    heard_by = rules.heard_by(inner.possible_agents, links)
    _refuse_too_late(rules, max((links[a][by] for a in heard_by for by in heard_by[a]), default=0))
    _attach(inner, rules, heard_by)
    for layer in (env, inner):
        layer.env_kwargs = {**getattr(layer, "env_kwargs", {}), "channel": _plain(options)}
    return env


def _refuse_too_late(rules: Rules, most: int) -> None:
    """`ValueError` if of `most` texts, the most that one seat hears of another, none is in time."""
    if rules.delay and rules.delay >= most:
        fits = f"0 to {most - 1}" if most > 1 else "0"
        heard = f"{most} turn{'s' * (most != 1)}"
        raise ValueError(
            f"channel, delay={rules.delay}: nothing would ever arrive, for with these arguments a "
            f"seat hears at most {heard} of another one; expected a delay of {fits}, or more "
            "turns, rounds or talk"
        )


def _links(env: TextEnv) -> Mapping[str, Mapping[str, int]]:
    """As `TextEnv.links`; `ValueError` where there are none, `TypeError` where no one counts."""
    name = env.metadata["name"]
    try:
        links = env.links()
    except ValueError as error:
        raise ValueError(f"channel: {name}: {error}") from error
    if not links:
        raise ValueError(
            f"channel: in {name} no agent is shown what another one wrote, with these arguments; "
            "see the page of the environment for turns, rounds or talk"
        )
    if not all(isinstance(by, Mapping) for by in links.values()):
        raise TypeError(
            f"channel: {name}.links() is {links!r:.80}: expected listener -> speaker -> in how "
            "many turns of the speaker the listener is shown a text"
        )
    return links


def _attach(env: TextEnv, rules: Rules, heard_by: Mapping[str, Sequence[str]]) -> None:
    env.channel = partial(Courier, rules, heard_by)
    notice = {
        seat: " ".join(filter(None, [rules.notice(), _told_of(rules, seat, heard_by)]))
        for seat in env.possible_agents
    }
    env.notices = (*env.notices, notice)
    longest = MOST_BYTES * env.max_action_chars
    if rules.max_chars is not None:
        longest = min(rules.max_chars * env.texts_per_turn, longest)
    env.widen(-rules.price * longest * env.max_turns, 0.0)


def _told_of(rules: Rules, seat: str, heard_by: Mapping[str, Sequence[str]]) -> str:
    """What a seat is told of who hears whom."""
    if rules.hears == "all":
        return ""
    listeners = [listener for listener, by in heard_by.items() if seat in by]
    hears = ", ".join(heard_by[seat]) or "nobody"
    return f"You hear {hears}; you are heard by {', '.join(listeners) or 'nobody'}."


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON has them."""
    hears = options.get("hears")
    if not isinstance(hears, Mapping):
        return dict(options)
    return {**options, "hears": {listener: list(by) for listener, by in hears.items()}}
