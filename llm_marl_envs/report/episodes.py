"""Episodes to read: side by side before and after, with rewards per turn and coloured tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_marl_envs.records import Episode, Turn
from llm_marl_envs.report.axes import number
from llm_marl_envs.report.markup import Markup, tag
from llm_marl_envs.report.sources import Trail, Transcript
from llm_marl_envs.spaces import Message

LEVELS = 4
"""Strengths of a colour, for advantages and rewards alike."""
LONGEST_TEXT = 20_000
"""Characters of one text that are shown; what is left out is said."""

Trails = Mapping[tuple[int, int], Trail]


@dataclass(frozen=True, slots=True)
class Pair:
    """One task, played before and after; positions are those in the transcripts."""

    before: int
    after: int
    gain: float


# -- choice ---------------------------------------------------------------------------------------
def pairs(before: Sequence[Episode], after: Sequence[Episode]) -> list[Pair]:
    """Episodes of the same task and reset seed, in the order of `before`, each used once.

    Those that failed have no pair.
    """
    places: dict[tuple[str, int], list[int]] = {}
    for place, episode in enumerate(after):
        if not episode.failed:
            places.setdefault((episode.task_id, episode.seed), []).append(place)
    found = []
    for place, episode in enumerate(before):
        others = places.get((episode.task_id, episode.seed))
        if others and not episode.failed:
            other = others.pop(0)
            found.append(Pair(place, other, after[other].team_return - episode.team_return))
    return found


def telling(found: Sequence[Pair], most: int) -> list[Pair]:
    """At most `most` pairs: the largest gains (half), the largest losses (a quarter), others."""
    gains = sorted((p for p in found if p.gain > 0), key=lambda p: -p.gain)
    losses = sorted((p for p in found if p.gain < 0), key=lambda p: p.gain)
    chosen = [*gains[: -(-most // 2)], *losses[: most // 4]]
    rest = [p for p in found if p not in chosen]
    return [*chosen, *rest[: max(0, most - len(chosen))]][:most]


# -- sections -------------------------------------------------------------------------------------
def side_by_side(before: Transcript, after: Transcript, most: int) -> Markup:
    """Tasks that both transcripts hold, chosen by `telling`."""
    found = pairs(before.episodes, after.episodes)
    if not found:
        return tag(
            "p", f"{before.file} and {after.file} share no task and seed, so nothing is paired."
        )
    chosen = telling(found, most)
    cards = []
    for place, pair in enumerate(chosen):
        old, new = before.episodes[pair.before], after.episodes[pair.after]
        trails = _of(before.trails, pair.before), _of(after.trails, pair.after)
        scale = _scale([old, new], trails)
        columns = tag(
            "div",
            _column(before.label, old, trails[0], scale),
            _column(after.label, new, trails[1], scale),
            class_="pair",
        )
        heading = f"{_outcome(old)} → {_outcome(new)}"
        cards.append(_card(old, heading, columns, opened=place == 0))
    note = (
        f"{len(chosen)} of {len(found)} pairs: the largest gains first (up to half), then the "
        "largest losses (up to a quarter), then others in order."
    )
    return tag("div", tag("p", note, class_="note"), *cards)


def listed(transcript: Transcript, most: int) -> Markup:
    """The first episodes of one transcript."""
    episodes = transcript.episodes[:most]
    trails = [_of(transcript.trails, place) for place in range(len(episodes))]
    scale = _scale(episodes, trails)
    cards = [
        _card(e, _outcome(e), _column(None, e, trails[i], scale), opened=i == 0)
        for i, e in enumerate(episodes)
    ]
    note = f"The first {len(episodes)} of {len(transcript.episodes)} episodes."
    return tag("div", tag("p", note, class_="note"), *cards)


def group(transcript: Transcript) -> Markup:
    """One group of training: the episodes that were compared with each other."""
    trails = [_of(transcript.trails, place) for place in range(len(transcript.episodes))]
    scale = _scale(transcript.episodes, trails)
    columns = [
        _column(f"episode {place + 1}: {_outcome(episode)}", episode, trails[place], scale)
        for place, episode in enumerate(transcript.episodes)
    ]
    if not columns:
        return tag("p", f"{transcript.file} holds no episode.")
    first = transcript.episodes[0]
    returns = ", ".join(
        "failed" if e.failed else number(e.team_return) for e in transcript.episodes
    )
    body = tag("div", *columns, class_="group")
    return _card(first, f"{transcript.label}: team returns {returns}", body)


def token_legend() -> Markup:
    """What the colours of tokens mean."""
    words = ("far below", "below", "above", "far above")
    keys = [
        tag("li", tag("span", word, class_=f"t {shade}"))
        for word, shade in zip(words, ("n4", "n2", "p2", "p4"), strict=True)
    ]
    return tag("ul", tag("li", "Advantage of a token, against its group:"), *keys, class_="legend")


# -- one episode ----------------------------------------------------------------------------------
def _of(trails: Trails, episode: int) -> dict[int, Trail]:
    return {turn: trail for (place, turn), trail in trails.items() if place == episode}


def _outcome(episode: Episode) -> str:
    if episode.failed:
        return "failed: the environment raised"
    solved = {True: "solved", False: "not solved", None: "played"}[episode.success]
    return f"{solved} ({number(episode.team_return)})"


def _card(episode: Episode, heading: str, body: Markup, *, opened: bool = False) -> Markup:
    told = [
        tag("div", tag("h5", agent), *(_message(m) for m in turns[0].messages))
        for agent in episode.agents
        if (turns := episode.trajectory(agent))
    ]
    return tag(
        "details",
        tag("summary", tag("b", episode.task_id or f"seed {episode.seed}"), " ", heading),
        tag("details", tag("summary", "What each agent is told"), *told, class_="told"),
        body,
        class_="card",
        open="" if opened else None,
    )


def _message(message: Message) -> Markup:
    return tag("div", tag("span", message.role, class_="role"), _text(message.content))


def _text(text: str) -> Markup:
    left = len(text) - LONGEST_TEXT
    shown = text if left <= 0 else f"{text[:LONGEST_TEXT]}\n[{left} more characters]"
    return tag("pre", shown, dir="auto")


def _column(
    title: str | None,
    episode: Episode,
    trails: Mapping[int, Trail],
    scale: tuple[float, float],
) -> Markup:
    said: dict[str, Turn] = {}
    rows: list[Markup] = []
    for place, turn in enumerate(episode.turns):
        heard = _heard(said.get(turn.agent), turn)
        if heard:
            rows.append(tag("div", *(_message(m) for m in heard), class_="heard"))
        rows.append(_turn(turn, trails.get(place), scale))
        said[turn.agent] = turn
    if episode.failure is not None:
        rows.append(tag("div", tag("p", "What it raised", class_="turn"), _text(episode.failure)))
    return tag("section", None if title is None else tag("h4", title), *rows)


def _scale(
    episodes: Sequence[Episode], trails: Sequence[Mapping[int, Trail]]
) -> tuple[float, float]:
    """Largest size of an advantage and of a reward; what the strongest colour stands for."""
    advantages = [abs(a) for one in trails for trail in one.values() for a in trail.advantages]
    rewards = [abs(turn.reward) for episode in episodes for turn in episode.turns]
    return max(advantages, default=0.0), max(rewards, default=0.0)


def _heard(before: Turn | None, turn: Turn) -> tuple[Message, ...]:
    """What an agent was told since its last action; nothing before its first."""
    if before is None:
        return ()
    known = len(before.messages) + 1  # and its own action
    old = turn.messages[: len(before.messages)] == before.messages
    return turn.messages[known:] if old else turn.messages


def _turn(turn: Turn, trail: Trail | None, scale: tuple[float, float]) -> Markup:
    terms = [
        tag("span", f"{name} {number(value)}", class_="term")
        for name, value in turn.reward_terms.items()
    ]
    marks = [tag("span", "cut at the token limit", class_="term")] if turn.response.cut else []
    if trail is not None and trail.advantages:
        low, high = min(trail.advantages), max(trail.advantages)
        shown = number(low) if high - low < 1e-9 else f"{number(low)} to {number(high)}"
        marks.insert(0, tag("span", f"advantage {shown}", class_="term"))
    head = tag(
        "p",
        tag("b", turn.agent),
        f", turn {turn.index + 1}: reward {number(turn.reward)} ",
        *terms,
        *marks,
        class_="turn",
    )
    body = _text(turn.action) if trail is None else _coloured(trail, scale[0])
    return tag("div", head, body, class_=f"act {_shade(turn.reward, scale[1])}")


def _coloured(trail: Trail, scale: float) -> Markup:
    spans = [
        tag(
            "span",
            text,
            class_=f"t {_shade(advantage, scale)}",
            title=f"advantage {number(advantage)}, log-prob {number(logprob)}",
        )
        for text, advantage, logprob in zip(
            trail.texts, trail.advantages, trail.logprobs, strict=True
        )
    ]
    return tag("pre", *spans, dir="auto")


def _shade(value: float, scale: float) -> str:
    """`p1` to `p4` above zero, `n1` to `n4` below, `z` at zero or where it is no number."""
    if not (abs(value) > 0 and abs(value) <= scale < float("inf")):
        return "z"
    level = min(LEVELS, 1 + int(abs(value) / scale * LEVELS * 0.999))
    return f"{'p' if value > 0 else 'n'}{level}"
