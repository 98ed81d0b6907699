"""Episodes to read: side by side before and after, with rewards per turn and coloured tokens.

Owns which are shown and what of them, as records; `templates/episodes.html.j2` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_marl_envs.core.outcome import TINY
from llm_marl_envs.core.records import Episode, Idle, Turn, countable, measured
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.measure.numbers.format import number
from llm_marl_envs.report.sources import Trail, Transcript

LEVELS = 4
"""Strengths of a colour, for advantages and rewards alike."""
LONGEST_TEXT = 20_000
"""Characters of one text that are shown; what is left out is said."""

Scale = tuple[float, float]
"""The largest advantage and the largest reward of what is shown together, in size."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One task, played before and after; positions are those in the transcripts."""

    before: int
    after: int
    gain: float


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its text, the shade of its advantage, what pointing at it shows."""

    text: str
    shade: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """One action, and what its agent heard before it.

    Attributes:
        heard: messages since the agent's last action.
        agent: who acts.
        place: the number of the turn, from 1.
        reward: of the turn.
        shade: of the reward.
        marks: reward terms, the advantage, whether the action was cut.
        action: the text.
        tokens: the same as tokens, None where they were not recorded.
    """

    heard: tuple[Message, ...]
    agent: str
    place: int
    reward: str
    shade: str
    marks: tuple[str, ...]
    action: str
    tokens: tuple[Token, ...] | None


@dataclass(frozen=True, slots=True)
class Column:
    """One episode.

    Attributes:
        title: a heading, where there are several.
        turns: its actions.
        idle: agents that were paid and never acted: name, reward, reward terms.
        failure: what its environment raised.
    """

    title: str
    turns: tuple[TurnView, ...]
    idle: tuple[tuple[str, str, tuple[str, ...]], ...]
    failure: str | None


@dataclass(frozen=True, slots=True)
class Card:
    """Episodes of one task, to unfold.

    Attributes:
        task: its name.
        heading: what became of it.
        prompts: (agent, what it is told at first).
        columns: the episodes.
        layout: "pair" or "group", how columns stand beside each other; "" for a single one.
        opened: whether it is unfolded already.
    """

    task: str
    heading: str
    prompts: tuple[tuple[str, tuple[Message, ...]], ...]
    columns: tuple[Column, ...]
    layout: str = ""
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """Cards under a remark; `coloured` where some of them show tokens' advantages."""

    note: str
    cards: tuple[Card, ...] = ()
    coloured: bool = False


# -- choice ---------------------------------------------------------------------------------------
def pairs(before: Sequence[Episode], after: Sequence[Episode]) -> list[Pair]:
    """Episodes of the same task and reset seed, in the order of `before`, each used once.

    Those that cannot be counted have no pair.
    """
    places: dict[tuple[str, int], list[int]] = {}
    for place, episode in enumerate(after):
        if countable(episode):
            places.setdefault((episode.task_id, episode.seed), []).append(place)
    matches = []
    for place, episode in enumerate(before):
        others = places.get((episode.task_id, episode.seed))
        if others and countable(episode):
            other = others.pop(0)
            both = measured([episode, after[other]])
            old, new = (played.team_task_return for played in both)
            matches.append(Pair(place, other, new - old))
    return matches


def telling(matches: Sequence[Pair], most: int) -> list[Pair]:
    """At most `most` pairs: the largest gains (half), the largest losses (a quarter), others."""
    gains = sorted((p for p in matches if p.gain > 0), key=lambda p: -p.gain)
    losses = sorted((p for p in matches if p.gain < 0), key=lambda p: p.gain)
    chosen = [*gains[: -(-most // 2)], *losses[: most // 4]]
    rest = [p for p in matches if p not in chosen]
    return [*chosen, *rest[: max(0, most - len(chosen))]][:most]


# -- listings -------------------------------------------------------------------------------------
def side_by_side(before: Transcript, after: Transcript, most: int) -> Listing:
    """Tasks that both transcripts hold, chosen by `telling`."""
    matches = pairs(before.episodes, after.episodes)
    if not matches:
        return Listing(
            f"{before.file} and {after.file} share no task and seed, so nothing is paired."
        )
    chosen = telling(matches, most)
    cards = []
    for place, pair in enumerate(chosen):
        old, new = before.episodes[pair.before], after.episodes[pair.after]
        trails = _of(before, pair.before), _of(after, pair.after)
        scale = _scale([old, new], trails)
        columns = (
            _column(before.label, old, trails[0], scale),
            _column(after.label, new, trails[1], scale),
        )
        heading = f"{outcome(old)} → {outcome(new)}"
        cards.append(_card(old, heading, columns, "pair", opened=place == 0))
    return Listing(
        f"{len(chosen)} of {len(matches)} pairs: the largest gains first (up to half), then the "
        "largest losses (up to a quarter), then others in order.",
        tuple(cards),
    )


def listed(transcript: Transcript, most: int) -> Listing:
    """The first episodes of one transcript."""
    episodes = transcript.episodes[:most]
    trails = [_of(transcript, place) for place in range(len(episodes))]
    scale = _scale(episodes, trails)
    cards = [
        _card(e, outcome(e), (_column("", e, trails[i], scale),), opened=i == 0)
        for i, e in enumerate(episodes)
    ]
    note = f"The first {len(episodes)} of {len(transcript.episodes)} episodes."
    return Listing(note, tuple(cards), coloured=bool(transcript.trails))


def groups(transcripts: Sequence[Transcript], most: int) -> Listing:
    """Groups of training, `most` of them: the first, the last, and between them."""
    places = {round(i * (len(transcripts) - 1) / max(1, most - 1)) for i in range(most)}
    shown = [transcripts[place] for place in sorted(places)]
    note = (
        f"{len(shown)} of {len(transcripts)} recorded groups, first to last. The episodes of a "
        "group play one task; what each earned against the others is its advantage."
    )
    cards = tuple(_group(transcript) for transcript in shown if transcript.episodes)
    return Listing(note, cards, coloured=any(transcript.trails for transcript in shown))


def _group(transcript: Transcript) -> Card:
    """The episodes that were compared with each other."""
    episodes = transcript.episodes
    trails = [_of(transcript, place) for place in range(len(episodes))]
    scale = _scale(episodes, trails)
    columns = tuple(
        _column(f"episode {place + 1}: {outcome(episode)}", episode, trails[place], scale)
        for place, episode in enumerate(episodes)
    )
    # What was learned from: with what wrappers paid.
    returns = ", ".join("failed" if e.failed else number(e.team_return) for e in episodes)
    return _card(episodes[0], f"{transcript.label}: team returns {returns}", columns, "group")


# -- one episode ----------------------------------------------------------------------------------
def _of(transcript: Transcript, episode: int) -> dict[int, Trail]:
    """Position of a turn -> its tokens, where they were recorded."""
    turns = range(len(transcript.episodes[episode].turns))
    return {t: transcript.trails[episode, t] for t in turns if (episode, t) in transcript.trails}


def outcome(episode: Episode) -> str:
    """What became of an episode: solved or not, and what the task paid the team."""
    if episode.failed:
        return "failed: the environment raised"
    solved = {True: "solved", False: "not solved", None: "played"}[episode.success]
    return f"{solved} ({number(episode.team_task_return)})"


def _card(
    episode: Episode,
    heading: str,
    columns: tuple[Column, ...],
    layout: str = "",
    *,
    opened: bool = False,
) -> Card:
    prompts = tuple(
        (agent, _cut(turns[0].messages))
        for agent in episode.agents
        if (turns := episode.trajectory(agent))
    )
    task = episode.task_id or f"seed {episode.seed}"
    return Card(task, heading, prompts, columns, layout, opened)


def _cut(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(Message(m.role, shortened(m.content)) for m in messages)


def shortened(text: str) -> str:
    """`text`, or its first `LONGEST_TEXT` characters and how many are left."""
    left = len(text) - LONGEST_TEXT
    return text if left <= 0 else f"{text[:LONGEST_TEXT]}\n[{left} more characters]"


def _column(title: str, episode: Episode, trails: Mapping[int, Trail], scale: Scale) -> Column:
    latest: dict[str, Turn] = {}
    views: list[TurnView] = []
    for place, turn in enumerate(episode.turns):
        heard = _cut(_heard(latest.get(turn.agent), turn))
        views.append(_view(turn, heard, trails.get(place), scale))
        latest[turn.agent] = turn
    idle = tuple((agent, number(pay.reward), _terms(pay)) for agent, pay in episode.idle.items())
    failure = None if episode.failure is None else shortened(episode.failure)
    return Column(title, tuple(views), idle, failure)


def _scale(episodes: Sequence[Episode], trails: Sequence[Mapping[int, Trail]]) -> Scale:
    """What the strongest colours stand for."""
    advantages = [abs(a) for by_turn in trails for t in by_turn.values() for a in t.advantages]
    rewards = [abs(turn.reward) for episode in episodes for turn in episode.turns]
    return max(advantages, default=0.0), max(rewards, default=0.0)


def _heard(before: Turn | None, turn: Turn) -> tuple[Message, ...]:
    """What an agent was told since its last action; nothing before its first."""
    if before is None:
        return ()
    count = len(before.messages) + 1  # and its own action
    old = turn.messages[: len(before.messages)] == before.messages
    return turn.messages[count:] if old else turn.messages


def _terms(paid: Turn | Idle) -> tuple[str, ...]:
    """The terms of what was paid, those beside the task marked so."""
    own = {name: v - paid.added_terms.get(name, 0.0) for name, v in paid.reward_terms.items()}
    own = {name: v for name, v in own.items() if name not in paid.added_terms or abs(v) > TINY}
    return (
        *(f"{name} {number(value)}" for name, value in own.items()),
        *(f"beside the task: {name} {number(v)}" for name, v in paid.added_terms.items()),
    )


def _view(turn: Turn, heard: tuple[Message, ...], trail: Trail | None, scale: Scale) -> TurnView:
    marks = [*_terms(turn)]
    if trail is not None and trail.advantages:
        low, high = min(trail.advantages), max(trail.advantages)
        shown = number(low) if high - low < 1e-9 else f"{number(low)} to {number(high)}"
        marks.append(f"advantage {shown}")
    if turn.response.cut:
        marks.append("cut at the token limit")
    return TurnView(
        heard=heard,
        agent=turn.agent,
        place=turn.index + 1,
        reward=number(turn.reward),
        shade=shade(turn.reward, scale[1]),
        marks=tuple(marks),
        action=shortened(turn.action),
        tokens=None if trail is None else _tokens(trail, scale[0]),
    )


def _tokens(trail: Trail, scale: float) -> tuple[Token, ...]:
    each = zip(trail.texts, trail.advantages, trail.logprobs, strict=True)
    return tuple(
        Token(text, shade(a, scale), f"advantage {number(a)}, log-prob {number(logprob)}")
        for text, a, logprob in each
    )


def shade(value: float, scale: float) -> str:
    """`p1` to `p4` above zero, `n1` to `n4` below, `z` at zero or where it is no number."""
    if not (abs(value) > 0 and abs(value) <= scale < float("inf")):
        return "z"
    level = min(LEVELS, 1 + int(abs(value) / scale * LEVELS * 0.999))
    return f"{'p' if value > 0 else 'n'}{level}"
