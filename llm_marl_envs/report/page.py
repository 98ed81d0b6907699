"""One self-contained HTML file of a folder of results: what `llm-marl report` does.

Owns the order of the parts and the frame around them. The page has no script, asks the network for
nothing (its policy forbids both), and is the same bytes for the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from llm_marl_envs import __version__
from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.report import episodes, sections
from llm_marl_envs.report import pairings as crossing
from llm_marl_envs.report.markup import Markup, join, tag
from llm_marl_envs.report.sources import Results, Transcript, read_results

EPISODES = 12
"""Episodes or pairs shown where the caller does not say."""
UPDATES = 4
"""Training groups shown: the first, the last, and between them."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
INTERVALS = (
    "Intervals cover 95 %. Those of episodes are percentile bootstraps over tasks (2000 "
    "resamplings; episodes of one task count as one draw); a change is paired over the tasks that "
    "both sides played."
)


def write_report(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    against: str | Path | None = None,
    cross_play: str | Path | None = None,
    most_episodes: int = EPISODES,
) -> Path:
    """Write the report of a folder; returns its path.

    Args:
        folder: what a demo, a training run or an evaluation wrote.
        output: the file; `report.html` in the folder where None. An existing one is replaced at
            once, never half.
        against: another folder, to stand beside this one; both go by their folders' names.
        cross_play: a JSON file {"teams": [...], "matrix": [[...]]} outside of the folder.
        most_episodes: how many episodes, or pairs of them, are shown.

    Raises:
        FileNotFoundError: no such folder or file.
        ValueError: a malformed file, nothing to report, or a negative number of episodes.
    """
    if most_episodes < 0:
        raise ValueError(f"most_episodes={most_episodes}: expected 0 or more")
    results = read_results(folder, against=against, cross_play=cross_play)
    path = Path(folder) / "report.html" if output is None else Path(output)
    with replacing(path) as partial:
        partial.write_text(render(results, most_episodes), encoding="utf-8")
    return path


def render(results: Results, most_episodes: int = EPISODES) -> str:
    """The page as text."""
    title = f"Report: {' against '.join(results.sides) or results.name}"
    parts = _parts(results, most_episodes)
    links = [tag("a", name, href=f"#part-{place}") for place, name in enumerate(parts)]
    body = [
        tag("section", tag("h2", name), part, id=f"part-{place}")
        for place, (name, part) in enumerate(parts.items())
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(_style())),
    )
    page = tag(
        "html",
        head,
        tag("body", _header(title, results), tag("nav", *links), tag("main", *body), _footer()),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def _style() -> str:
    return (resources.files(__package__ or "") / "style.css").read_text(encoding="utf-8")


def _header(title: str, results: Results) -> Markup:
    shown = [*results.measured.values(), *results.updates, *results.failed]
    environments = list(dict.fromkeys(e.env_id for t in shown for e in t.episodes))
    named = results.summary.get("env") or results.summary.get("env_id")
    if not named and results.cross_play is not None:
        named = results.cross_play.env_id
    what = ", ".join(environments or ([str(named)] if named else []))
    return tag(
        "header",
        tag("h1", title),
        tag("p", what) if what else None,
        *(tag("p", note, class_="warning") for note in results.notes),
    )


def _footer() -> Markup:
    return tag("footer", tag("p", INTERVALS), tag("p", f"llm-marl-envs {__version__}"))


def _parts(results: Results, most: int) -> dict[str, Markup]:
    """Heading -> content, of what there is."""
    measured = {label: one for label, one in results.measured.items() if one.episodes}
    scores = {label: sections.scores(one) for label, one in measured.items()}
    parts: dict[str, Markup] = {}
    if scores:
        failed = {k: sum(e.failed for e in one.episodes) for k, one in measured.items()}
        figures = sections.key_figures(scores, failed)
        parts["Summary"] = join(figures, sections.summary_table(scores, results.pair))
    runs = [run for run in results.runs if run.log]
    if charts := sections.curves(runs, scores):
        parts["Learning"] = tag("div", *charts, class_="charts")
    if charts := sections.term_curves(runs):
        parts["Reward terms over time"] = tag("div", *charts, class_="charts")
    if charts := sections.histograms(measured):
        parts["Distributions"] = tag("div", *charts, class_="charts")
    if results.cross_play is not None:
        parts["Cross-play"] = crossing.section(results.cross_play)
    if measured and most:
        parts["Episodes"] = _episodes(measured, results.pair, most)
    if results.updates:
        parts["Training groups"] = _groups(results)
    if results.failed and most:
        parts["Failed in training"] = join(*(episodes.listed(one, most) for one in results.failed))
    if results.summary:
        whose = f" of {results.sides[0]}" if results.sides else ""
        parts[f"Recorded in summary.json{whose}"] = sections.recorded(results.summary)
    if (scalars := sections.other_scalars(runs)) is not None:
        parts["Every logged number"] = tag(
            "details", tag("summary", "First and last value of each"), scalars
        )
    if results.files:
        parts["Files"] = tag("ul", *(tag("li", file) for file in results.files))
    return parts


def _episodes(
    measured: Mapping[str, Transcript], pair: tuple[str, str] | None, most: int
) -> Markup:
    given = dict(measured)
    parts = []
    if pair and set(pair) <= set(given):
        parts.append(episodes.side_by_side(given.pop(pair[0]), given.pop(pair[1]), most))
    parts += [episodes.listed(one, most) for one in given.values()]
    return join(*parts)


def _groups(results: Results) -> Markup:
    updates = results.updates
    places = {round(i * (len(updates) - 1) / max(1, UPDATES - 1)) for i in range(UPDATES)}
    shown = [updates[place] for place in sorted(places)]
    coloured = any(one.trails for one in shown)
    note = (
        f"{len(shown)} of {len(updates)} recorded groups, first to last. The episodes of a group "
        "play one task; what each earned against the others is its advantage."
    )
    return join(
        tag("p", note, class_="note"),
        episodes.token_legend() if coloured else None,
        *(episodes.group(one) for one in shown),
    )
