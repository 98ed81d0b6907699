"""A society over time: its first episode beside its newest one, round by round.

Owns which episodes are shown and what is said of a round; whatever environment tells facts of a
society has the part. Facts and their drawing are `core/society.py` and `core/society_drawing.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.society import OVER_USE, Facts, Society, round_of_each, society_of
from llm_marl_envs.core.society_drawing import shown, society_svg
from llm_marl_envs.report.charts import Chart
from llm_marl_envs.report.episodes import outcome, shortened
from llm_marl_envs.report.sources import Results, Transcript

MOST_ROUNDS = 100
"""Rounds of an episode whose texts are shown."""
Said = tuple[str, str]
"""Who, and what."""


@dataclass(frozen=True, slots=True)
class RoundView:
    """A round to unfold: what was done in it, and texts in order, but for bare numbers."""

    heading: str
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """One episode of a society."""

    title: str
    picture: Markup
    rounds: tuple[RoundView, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Societies:
    """The part of a page: curves over updates, and episodes that stand beside each other."""

    charts: Sequence[Chart]
    rows: tuple[tuple[Story, ...], ...]


def societies(results: Results, charts: Sequence[Chart], *, episodes: bool) -> Societies | None:
    """What is known of societies; None where nothing is.

    Args:
        results: of the folder.
        charts: what its runs logged of them.
        episodes: whether any are to be shown.
    """
    folders = [source.file.rpartition("/")[0] for source in results.updates]
    first_run = [t for t, at in zip(results.updates, folders, strict=True) if at == folders[0]]
    sources = ([*results.measured.values()], first_run) if episodes else ()
    rows = tuple(row for transcripts in sources if (row := tuple(_ends(transcripts))))
    return Societies(charts, rows) if charts or rows else None


def _ends(transcripts: Sequence[Transcript]) -> Iterator[Story]:
    """The first episode that tells of a society, and the newest one.

    The newest is one of the first one's task and seed where a later transcript has it.
    """
    telling = [t for t in transcripts if any(map(_society, t.episodes))]
    if not telling:
        return
    old, new = telling[0], telling[-1]
    first = next(filter(_society, old.episodes))
    yield _story(old.label, first)

    def differs(episode: Episode) -> bool:
        same = (episode.task_id, episode.seed) == (first.task_id, first.seed)
        return new is not old and not same

    latest_first = new.episodes[::-1]
    for episode in sorted(latest_first, key=differs):
        if episode is not first and _society(episode):
            yield _story(new.label, episode)
            return


def _society(episode: Episode) -> Society | None:
    """What an episode tells of a society; None where it tells of none."""
    if not any(OVER_USE in turn.info for turn in episode.turns):
        return None
    infos = {agent: [turn.info for turn in episode.trajectory(agent)] for agent in episode.agents}
    return society_of(infos)


def _story(label: str, episode: Episode) -> Story:
    society = _society(episode)
    assert society is not None
    rounds = [*_rounds(episode, society)]
    return Story(
        title=f"{label}, {episode.task_id}: {outcome(episode)}",
        picture=Markup(society_svg(society)),
        rounds=tuple(rounds[:MOST_ROUNDS]),
        left_out=max(0, len(rounds) - MOST_ROUNDS),
    )


def _rounds(episode: Episode, society: Society) -> Iterator[RoundView]:
    """All rounds, and what was said after the last one that was played."""
    numbers = {
        agent: iter(round_of_each([turn.info for turn in episode.trajectory(agent)]))
        for agent in {turn.agent for turn in episode.turns}
    }
    said: dict[int, list[Said]] = defaultdict(list)
    for turn in episode.turns:
        number = next(numbers[turn.agent])
        if not turn.action.strip().isdecimal():
            said[number].append((turn.agent, shortened(turn.action)))
    for number in range(max([len(society.rounds), *said]) + 1):
        texts = tuple(said[number])
        if number < len(society.rounds):
            done = ", ".join(_deed(s, f, society) for s, f in society.rounds[number].items() if f)
            yield RoundView(f"Round {number + 1}: {done}", texts)
        elif texts:
            yield RoundView(f"Round {number + 1}, not played", texts)


def _deed(seat: str, facts: Facts, society: Society) -> str:
    """What a seat did in a round, in words."""
    amount, named, had = (facts.get(name) for name in (society.amount, "named", "had"))
    of = had if had is not None else named if named != amount else None
    marks = [
        *(["over-use"] if facts.get(OVER_USE) else []),
        *([f"fines {shown(facts['spent'])}"] if facts.get("spent") else []),
        *([f"fined {shown(facts['fined'])}"] if facts.get("fined") else []),
    ]
    words = [seat, shown(amount), *([f"of {shown(of)}"] if of is not None else [])]
    return " ".join([*words, *([f"({', '.join(marks)})"] if marks else [])])
