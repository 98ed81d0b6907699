"""One self-contained HTML file of a folder of results: what `llm-marl report` does.

Owns the order of the parts and the templates that show them. Every value a template shows is text,
whatever it holds: `TEMPLATES` escapes it. The one markup that does not come from them is pictures:
shapes with numbers and names of metrics alone, and drawings of societies, which escape the names of
seats themselves (`core/society_drawing.py`). The page has no script, asks the network
for nothing (its policy forbids both), and is the same bytes for the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from llm_marl_envs import __version__
from llm_marl_envs.core.rendering import visible
from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.report import episodes, sections
from llm_marl_envs.report.credit import credit
from llm_marl_envs.report.pairings import pairings
from llm_marl_envs.report.societies import societies
from llm_marl_envs.report.sources import Results, Transcript, read_results

EPISODES = 12
"""Episodes or pairs shown where the caller does not say."""
UPDATES = 4
"""Training groups shown: the first, the last, and between them."""


def _text(value: Any) -> Any:
    """A value as its text, made `visible`; what a macro made stays markup."""
    return value if hasattr(value, "__html__") else visible(str(value))


TEMPLATES = Environment(
    loader=PackageLoader("llm_marl_envs.report"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_text,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


@dataclass(frozen=True, slots=True)
class Part:
    """A heading, the macro of `templates/sections.html.j2` under it, and what that shows."""

    title: str
    shape: str
    content: Any


@dataclass(frozen=True, slots=True)
class Page:
    """What `templates/page.html.j2` shows.

    Attributes:
        title: of the page.
        played: names of environments, "" where none is known.
        notes: what a reader must know about the files.
        parts: in order.
        version: of this package.
    """

    title: str
    played: str
    notes: tuple[str, ...]
    parts: tuple[Part, ...]
    version: str


def write_report(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    against: str | Path | None = None,
    cross_play: str | Path | None = None,
    credit_audit: str | Path | None = None,
    most_episodes: int = EPISODES,
) -> Path:
    """Write the report of a folder; returns its path.

    Args:
        folder: what a demo, a training run or an evaluation wrote.
        output: the file; `report.html` in the folder where None. An existing one is replaced at
            once, never half.
        against: another folder, to stand beside this one; both go by their folders' names.
        cross_play: a JSON file {"teams": [...], "matrix": [[...]]} outside of the folder.
        credit_audit: the folder of an audit of credit outside of the folder.
        most_episodes: how many episodes, or pairs of them, are shown.

    Raises:
        FileNotFoundError: no such folder.
        ImportError: there is something to draw, and matplotlib is not installed.
        ValueError: no such file, a malformed one, nothing to report, or a negative number of
            episodes.
    """
    if most_episodes < 0:
        raise ValueError(f"most_episodes={most_episodes}: expected 0 or more")
    results = read_results(
        folder, against=against, cross_play=cross_play, credit_audit=credit_audit
    )
    path = Path(folder) / "report.html" if output is None else Path(output)
    with replacing(path) as partial:
        partial.write_text(render(results, most_episodes), encoding="utf-8")
    return path


def render(results: Results, most_episodes: int = EPISODES) -> str:
    """The page as text."""
    page = page_of(results, most_episodes)
    return TEMPLATES.get_template("page.html.j2").render(page=page)


def page_of(results: Results, most_episodes: int) -> Page:
    """All that the page shows."""
    shown = [*results.measured.values(), *results.updates, *results.failed]
    environments = list(dict.fromkeys(e.env_id for t in shown for e in t.episodes))
    named = results.summary.get("env") or results.summary.get("env_id")
    if not named and results.cross_play is not None:
        named = results.cross_play.env_id
    return Page(
        title=f"Report: {' against '.join(results.sides) or results.name}",
        played=", ".join(environments or ([str(named)] if named else [])),
        notes=results.notes,
        parts=tuple(_parts(results, most_episodes)),
        version=__version__,
    )


def _parts(results: Results, most: int) -> Iterator[Part]:
    """What there is, in order."""
    measured = {label: t for label, t in results.measured.items() if t.episodes}
    scores = {label: sections.scores(t) for label, t in measured.items()}
    if scores:
        failed = {label: sum(e.failed for e in t.episodes) for label, t in measured.items()}
        yield Part("Summary", "summary", sections.summary(scores, failed, results.pair))
    runs = [run for run in results.runs if run.log]
    if findings := sections.diagnoses(runs):
        yield Part("Why it did not improve", "diagnoses", findings)
    if charts := sections.curves(runs, scores):
        yield Part("Learning", "charts", charts)
    if charts := sections.term_curves(runs):
        yield Part("Reward terms over time", "charts", charts)
    charts = sections.society_curves(runs)
    if (content := societies(results, charts, episodes=most > 0)) is not None:
        yield Part("A society over time", "societies", content)
    if charts := sections.histograms(scores):
        yield Part("Distributions", "charts", charts)
    if results.cross_play is not None:
        yield Part("Cross-play", "cross_play", pairings(results.cross_play, results.strangers))
    if results.credit is not None:
        yield Part("Credit", "credit", credit(results.credit))
    if measured and most:
        yield Part("Episodes", "listings", _episodes(measured, results.pair, most))
    if results.updates:
        yield Part("Training groups", "listings", [episodes.groups(results.updates, UPDATES)])
    if results.failed and most:
        listings = [episodes.listed(t, most) for t in results.failed]
        yield Part("Failed in training", "listings", listings)
    if results.summary:
        whose = f" of {results.sides[0]}" if results.sides else ""
        tables = sections.recorded(results.summary)
        yield Part(f"Recorded in summary.json{whose}", "tables", tables)
    if (scalars := sections.other_scalars(runs)) is not None:
        yield Part("Every logged number", "scalars", scalars)
    if results.files:
        yield Part("Files", "files", results.files)


def _episodes(
    measured: Mapping[str, Transcript], pair: tuple[str, str] | None, most: int
) -> list[episodes.Listing]:
    others = dict(measured)
    listings = []
    if pair and set(pair) <= set(others):
        listings.append(episodes.side_by_side(others.pop(pair[0]), others.pop(pair[1]), most))
    return [*listings, *(episodes.listed(t, most) for t in others.values())]
