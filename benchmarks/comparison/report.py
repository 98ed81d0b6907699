"""The numbers of the comparison: who reaches the optimum how often, in a table and in pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.comparison.cells import Line, about_of, best_rate, lines_of, tried
from benchmarks.rates import ALPHA, clopper_pearson, fisher_p, holm
from llm_marl_envs.measure.numbers.estimates import interquartile_mean, over_runs
from llm_marl_envs.measure.numbers.format import number, p_value, with_interval

REACHED = 0.9
"""Share of the optimum from which a run has reached it."""
REFERENCE = "magrpo"
DOCS = Path(__file__).parents[2] / "docs"
PAGE = "conclusions.md"
MORE, LESS, UNDECIDED = "more often", "less often", "undecided"
"""What a comparison with the reference can say."""
AXES = ("tokens", "evaluator calls", "updates")
"""The costs of a line that curves are drawn over, in their order."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One cell that has been reported on, perhaps not with all of its seeds yet.

    Attributes:
        about: what it is.
        runs: reported ones.
        scores: rate -> seed -> score of the tuning runs.
        priced: runs of whose costs all is known, those made for them included.
    """

    about: Mapping[str, Any]
    runs: Sequence[Line]
    scores: Mapping[float, Mapping[int, float]]
    priced: Sequence[Line] = ()

    @property
    def finals(self) -> list[float]:
        """Final scores."""
        return [run.scores[-1] for run in self.runs]

    @property
    def reached(self) -> tuple[int, int]:
        """How many of how many runs reached the optimum."""
        return sum(score >= REACHED for score in self.finals), len(self.runs)

    @property
    def trials(self) -> set[int]:
        """The seeds that every rate was tried with."""
        return set.intersection(*(set(of) for of in self.scores.values()))

    def reached_within(self, calls: int) -> tuple[int, int]:
        """The same at the last point that took no more evaluator calls."""
        found = [
            [s for cost, s in zip(run.costs, run.scores, strict=True) if cost[1] <= calls][-1]
            for run in self.runs
        ]
        return sum(score >= REACHED for score in found), len(found)


Entries = dict[str, dict[str, Entry]]
"""Bed -> method -> its entry."""


def read(folder: Path) -> Entries:
    """What is there; methods without a reported run, or tuned on other seeds, are left out."""
    found: Entries = {}
    for file in sorted(folder.glob("*/*.jsonl")):
        about, lines = about_of(file), lines_of(file)
        scores = tried(lines)
        best = best_rate(scores) if scores else None
        runs = {line.seed: line for line in lines if (line.part, line.rate) == ("report", best)}
        if runs:
            known = [one for one in lines if one.spent and one.rate == best]
            priced = [one for one in known if one.part != "tuning"]
            entry = Entry(about, [*runs.values()], scores, priced)
            found.setdefault(about["bed"], {})[about["method"]] = entry
    return {
        bed: {name: one for name, one in some.items() if one.trials == some[REFERENCE].trials}
        for bed, some in found.items()
        if REFERENCE in some
    }


def verdicts(entries: Entries) -> dict[tuple[str, str], tuple[float, str]]:
    """(bed, method) -> p of Fisher's test against the reference, by Holm, and what it says."""
    pairs = [
        (bed, method) for bed, some in entries.items() for method in some if method != REFERENCE
    ]
    raw = [fisher_p(entries[b][m].reached, entries[b][REFERENCE].reached) for b, m in pairs]
    found: dict[tuple[str, str], tuple[float, str]] = {}
    for (bed, method), p in zip(pairs, holm(raw), strict=True):
        one, other = entries[bed][method].reached, entries[bed][REFERENCE].reached
        more = one[0] / one[1] > other[0] / other[1]
        found[bed, method] = p, (MORE if more else LESS) if p < ALPHA else UNDECIDED
    return found


def share(reached: tuple[int, int]) -> str:
    """`44 of 50 [0.76, 0.95]`, with the exact interval."""
    low, high = clopper_pearson(*reached)
    return f"{reached[0]} of {reached[1]} [{low:.2f}, {high:.2f}]"


def table(bed: str, some: Mapping[str, Entry], said: Mapping[Any, tuple[float, str]]) -> str:
    """Markdown: the primary figures first, costs last: means over runs, as all but the rate are."""
    calls = min(run.costs[-1][1] for entry in some.values() for run in entry.runs)
    heads = ["method", f"reached {REACHED:.0%} of the best", f"against {REFERENCE}", "p, by Holm"]
    heads += ["mean", "interquartile mean", f"reached within {calls} calls"]
    heads += ["rate (tried)", "updates", "calls (replayed)"]
    tables = "preset" not in some[REFERENCE].about  # CPU time of others holds warm starts
    heads += ["CPU seconds"] * tables
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for method, entry in sorted(some.items(), key=lambda one: -fmean(one[1].finals)):
        p, words = said.get((bed, method), (None, "-"))
        cells = [method, share(entry.reached), words, "-" if p is None else p_value(p)]
        cells += [with_interval(over_runs(entry.finals)), number(interquartile_mean(entry.finals))]
        cells += [share(entry.reached_within(calls)), f"{entry.runs[0].rate:g}"]
        cells[-1] += f" ({len(entry.scores)})"
        cells += updates_and_calls(entry.runs)
        cells += [f"{fmean(run.seconds for run in entry.runs):.1f}"] * tables
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def updates_and_calls(runs: Sequence[Line]) -> list[str]:
    """Means over runs: updates; evaluator calls, in brackets the replayed ones."""
    _, calls, updates, replayed = (
        mean(each) for each in zip(*(run.costs[-1] for run in runs), strict=True)
    )
    return [updates, f"{calls} ({replayed})"]


def mean(counts: Iterable[float]) -> str:
    """Of counts, with a digit behind the point where there is something."""
    return f"{fmean(counts):.1f}".removesuffix(".0")


def costs(some: Mapping[str, Entry]) -> str:
    """Markdown: all that a run of a language model costs, means over the runs that counted it."""
    heads = ["method", "runs", "tokens", "prompt tokens", "of them new to a prefix cache"]
    heads += ["critic tokens", "updates", "calls (replayed)"]
    heads += ["wall seconds of training", "CPU seconds"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for method, entry in some.items():
        if runs := entry.priced:
            kinds = ("prompt_tokens", "new_prompt_tokens", "critic_tokens")
            read = [mean(run.spent[kind] for run in runs) for kind in kinds]
            cells = [method, str(len(runs)), mean(run.costs[-1][0] for run in runs), *read]
            cells += updates_and_calls(runs)
            cells += [f"{fmean(run.spent['wall_seconds'] for run in runs):.0f}"]
            cells += [f"{fmean(run.seconds for run in runs):.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def rates(some: Mapping[str, Entry]) -> str:
    """Markdown: the mean tuning score at every rate; the chosen one is bold."""
    every = sorted({rate for entry in some.values() for rate in entry.scores})
    heads = ["method", *(f"{rate:g}" for rate in every)]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for method, entry in some.items():
        best = best_rate({rate: dict(of) for rate, of in entry.scores.items()})
        shown = {rate: number(fmean(of.values())) for rate, of in entry.scores.items()}
        shown[best] = f"**{shown[best]}**"
        lines.append(f"| {' | '.join([method, *(shown.get(rate, '') for rate in every)])} |")
    return "\n".join(lines)


def folded(title: str, text: str) -> str:
    """Markdown that a reader opens by its title, on the site and on GitHub."""
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{text}\n\n</details>'


def overview(entries: Entries, said: Mapping[Any, tuple[float, str]]) -> str:
    """Markdown: bed by bed, which methods reached the optimum more often, and which less often."""
    words = [one for _, one in said.values()]
    decided = len(words) - words.count(UNDECIDED)
    heads = ["test bed", f"`{REFERENCE}`", MORE, LESS, UNDECIDED]
    lines = [f"Decided: {decided} of {len(words)} comparisons with `{REFERENCE}`.", ""]
    lines += [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for bed, some in entries.items():
        found: dict[str, list[str]] = {MORE: [], LESS: [], UNDECIDED: []}
        for method in some:
            if method != REFERENCE:
                found[said[bed, method][1]].append(f"`{method}` {_of(some[method])}")
        cells = [f"[{bed}](#{bed})", _of(some[REFERENCE])]
        cells += [", ".join(found[kind]) or "none" for kind in (MORE, LESS)]
        lines.append(f"| {' | '.join([*cells, str(len(found[UNDECIDED]))])} |")
    return "\n".join(lines)


def _of(entry: Entry) -> str:
    return "{} of {}".format(*entry.reached)


def matrix(entries: Entries, said: Mapping[Any, tuple[float, str]]) -> str:
    """Markdown: methods by beds, with intervals; the decided ones say so."""
    methods = dict.fromkeys(method for some in entries.values() for method in some)
    lines = [f"| method | {' | '.join(entries)} |", "|" + "---|" * (len(entries) + 1)]
    for method in [REFERENCE, *(one for one in methods if one != REFERENCE)]:
        cells = [method]
        for bed, some in entries.items():
            words = said.get((bed, method), (None, UNDECIDED))[1]
            shown = share(some[method].reached) if method in some else ""
            cells.append(shown if words == UNDECIDED else f"**{shown} {words}**")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def blocks(entries: Entries) -> dict[str, str]:
    """Name of a block of the page -> its Markdown."""
    said = verdicts(entries)
    parts: list[str] = []
    for bed, some in entries.items():
        budget = some[REFERENCE].about["budget"]
        parts += [f"### {bed}", f"{budget} tokens a run."]
        parts += [folded(f"{bed}: {len(some)} methods", table(bed, some, said))]
        title = f"{bed}: mean score of the tuning runs at every rate that was tried"
        parts += [folded(title, rates(some))]
        if any(one.priced for one in some.values()):
            parts += [folded(f"{bed}: costs of one run", costs(some))]
    title = f"All {len(said)} comparisons, with 95 % intervals"
    both = f"{overview(entries, said)}\n\n{folded(title, matrix(entries, said))}"
    return {"overview": both, "tables": "\n\n".join(parts)}


def filled(page: str, entries: Entries) -> str:
    """The page with its blocks as they are now."""
    for name, text in blocks(entries).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}{text}\n{end}{rest.split(end, 1)[1]}"
    return page


def report(folder: Path) -> None:
    """Write the tables into the page and the pictures beside it."""
    entries = read(folder)
    page = DOCS / PAGE
    page.write_text(filled(page.read_text("utf-8"), entries), encoding="utf-8")
    draw_shares(entries, DOCS / "comparison.png")
    draw_curves(entries, DOCS / "comparison_curves.png")
    print(overview(entries, verdicts(entries)))


# -- pictures --------------------------------------------------------------------------------------
def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    wide, high = size[0] * columns, size[1] * rows
    return pyplot.subplots(rows, columns, figsize=(wide, high), squeeze=False, layout="constrained")


def draw_shares(entries: Entries, path: Path) -> None:
    """One panel per bed: the share of runs that reached the optimum, with exact intervals."""
    columns = min(3, len(entries))
    rows = -(-len(entries) // columns)
    figure, panels = _figure(rows, columns, (4.2, 2.9))
    for panel in panels.flat[len(entries) :]:
        panel.axis("off")
    for panel, (bed, some) in zip(panels.flat, entries.items(), strict=False):
        for place, (method, entry) in enumerate(reversed(some.items())):
            successes, n = entry.reached
            low, high = clopper_pearson(successes, n)
            color = "tab:orange" if method == REFERENCE else "tab:blue"
            panel.plot([low, high], [place, place], color=color, linewidth=2, alpha=0.5)
            panel.plot([successes / n], [place], "o", color=color)
        labels = [f"{method} ({entry.reached[1]})" for method, entry in reversed(some.items())]
        panel.set(title=bed, xlim=(-0.02, 1.02))
        panel.set_yticks(range(len(some)), labels, fontsize=8)
    figure.supxlabel("share of seeds (how many) that reach 90 % of the best, exact 95 % intervals")
    _save(figure, path, 110)


def draw_curves(entries: Entries, path: Path) -> None:
    """One row per bed: the mean score over each kind of cost; one colour for each method."""
    figure, panels = _figure(len(entries), len(AXES), (4.6, 2.7))
    beds = Counter(method for some in entries.values() for method in some)
    methods = sorted(beds, key=lambda method: (-beds[method], method))  # ten colours, solid first
    colors = {method: f"C{i % 10}" for i, method in enumerate(methods)}
    styles = {method: ("-", "--", ":")[i // 10 % 3] for i, method in enumerate(methods)}
    for row, (bed, some) in zip(panels, entries.items(), strict=True):
        for axis, panel in enumerate(row):
            for method, entry in some.items():
                mean = _mean_curve(entry.runs, lambda cost, axis=axis: cost[axis])
                wide = 2.5 if method == REFERENCE else 1.2
                panel.plot(*mean, styles[method], color=colors[method], label=method, lw=wide)
            panel.set(xlabel=AXES[axis], ylabel=f"{bed}: mean score", ylim=(-0.1, 1.05))
            panel.locator_params(axis="x", nbins=5)
        row[-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    _save(figure, path, 90)


def _save(figure: Any, path: Path, dpi: int) -> None:
    """With 128 colours, which is a third of the size."""
    from PIL import Image

    figure.savefig(path, dpi=dpi)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(128)
    few.save(path, optimize=True)


def _mean_curve(
    runs: Sequence[Line], of: Callable[[Sequence[int]], int]
) -> tuple[list[float], list[float]]:
    """Mean costs and scores at each point; runs of other lengths count as far as they go."""
    length = min(len(run.scores) for run in runs)
    costs = [fmean(of(run.costs[i]) for run in runs) for i in range(length)]
    return costs, [fmean(run.scores[i] for run in runs) for i in range(length)]
