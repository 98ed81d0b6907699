"""Tables and pictures of the study, from `summary.json`, between marks of the pages.

    python -m benchmarks.pretrained.summary && python -m benchmarks.pretrained.page

What the pages say in words is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pretrained.sets import HELPER, MAIN
from benchmarks.pretrained.summary import PRIMARY, SUMMARY, TEAM_UNITS, TEAMS
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.measure.numbers.format import interval, number, p_value, whole

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"conventions": DOCS / "conventions.md", "weights": DOCS / "weights.md"}
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", re.DOTALL)
CONDITIONS = (
    "as it comes",
    "warm start",
    "own partner",
    "stranger, same warm start",
    "stranger, other warm start",
    "product of marginals",
    "commonest of each seat",
    "random partners",
    "rejection",
    "longer warm start",
    "one convention",
)
"""Rows, in order; those that were not run are left out."""

Summary = Mapping[str, Any]


def estimate(one: Mapping[str, Any] | None) -> str:
    """Mean and interval over warm starts; the mean alone of a single run."""
    if one is None:
        return ""
    return f"{number(one['mean'])} {interval(one['ci95'])}" if one["ci95"] else number(one["mean"])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def agreement(found: Summary) -> str:
    """Agreement in every set, for every condition."""
    return _of_sets(found, "agreement")


def readable(found: Summary) -> str:
    """The same among texts that both follow an interface."""
    return _of_sets(found, "agreement_of_readable")


def success(found: Summary) -> str:
    """Success in every set, for every condition."""
    return _of_sets(found, "success")


def _of_sets(found: Summary, key: str) -> str:
    sets = found["sets"]
    rows = (
        [condition, *(estimate(one[key].get(condition)) for one in sets.values())]
        for condition in CONDITIONS
        if condition in sets[PRIMARY][key]
    )
    return _table([key.replace("_", " "), *(f"`{name}`" for name in sets)], rows)


def competence(found: Summary) -> str:
    """What each seat is worth beside a scripted partner, on known and on new operations."""
    sets = {name: found["sets"][name]["competence"] for name in ("test", PRIMARY)}
    columns = [(name, agent) for name in sets for agent in (HELPER, MAIN)]
    rows = (
        [condition, *(estimate(sets[name][condition][agent]) for name, agent in columns)]
        for condition in CONDITIONS
        if condition in sets[PRIMARY]
    )
    head = ["beside a scripted partner", *(f"{agent}, `{name}`" for name, agent in columns)]
    return _table(head, rows)


def slices(found: Summary) -> str:
    """Agreement on parts of the primary set."""
    parts = found.get("slices", {})
    shown = [one for one in CONDITIONS if any(one in part for part in parts.values())]
    rows = (
        [name, whole(part["tasks"]), *(estimate(part.get(one)) for one in shown)]
        for name, part in parts.items()
    )
    return _table([f"of `{PRIMARY}`", "tasks", *shown], rows) if parts else ""


def state(found: Summary) -> str:
    """How many runs there are."""
    if found["made"] == found["units"]:
        return f"All {found['units']} runs of the plan are there."
    there = f"{found['made']} of {found['units']} runs are there"
    tested = "The nine teams are, with both tests; controls or ways to hold weights are missing."
    none = "The page shows them, and draws no conclusion yet."
    return f"**Not finished: {there}.** {tested if 'primary' in found else none}"


def tests(found: Summary) -> str:
    """Both tests that were planned; and the first in the other sets, and on each operation."""
    if "primary" not in found:
        return "No test is made before all nine teams are there."
    asked = {
        "own partner minus stranger of the same warm start": ("primary", "216 arrangements"),
        "strangers of the same warm start minus those of another": ("inherited", "280 groupings"),
    }
    rows = [
        [
            f"{what}, `{PRIMARY}`",
            number(found[key]["difference"], sign=True),
            f"p = {p_value(found[key]['p'])} ({ways})",
        ]
        for what, (key, ways) in asked.items()
    ]
    sets = {f"`{name}`": one["own"] for name, one in found["sets"].items() if name != PRIMARY}
    apart = {f"`{PRIMARY}`, {name}": one["own"] for name, one in found["slices"].items()}
    head = ["own partner minus stranger", "", "p", "by warm start"]
    further = [
        [
            name,
            number(one["difference"], sign=True),
            p_value(one["p"]),
            ", ".join(number(value, sign=True) for value in one["by warm start"]),
        ]
        for name, one in {**sets, **apart}.items()
    ]
    planned = _table(["difference of agreement", "", ""], rows)
    return f"{planned}\n\nThe first of the two elsewhere, not planned:\n\n{_table(head, further)}"


def weights(found: Summary) -> str:
    """Costs and results of every way to hold weights."""
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "success on `test`": lambda one: number(one["success"]),
        "agreement on `test`": lambda one: number(one["agreement"]),
        "CPU seconds": lambda one: whole(one["cpu_seconds"]),
        "peak memory, MiB": lambda one: whole(one["peak_mib"]),
    }
    if not found["weights"]:
        return "No way has both of its runs yet."
    rows = (
        [arm, of["rate"], *(", ".join(map(show, of["runs"])) for show in columns.values())]
        for arm, of in found["weights"].items()
    )
    return _table(["weights", "rate", *columns], rows)


def tuning(found: Summary) -> str:
    """What each rate reached on `val`."""
    rows = (
        [arm, rate, number(one["agreement"]), number(one["success_val"])]
        for arm, rates in found["tuning"].items()
        for rate, one in rates.items()
    )
    return _table(["weights", "rate", "agreement", "success"], rows)


TABLES = {
    one.__name__: one
    for one in (state, agreement, readable, success, competence, slices, tests, weights, tuning)
}


def page(text: str, found: Summary) -> str:
    """A page with its tables."""

    def filled(block: re.Match[str]) -> str:
        return f"{block[1]}{TABLES[block[2]](found)}\n{block[3]}"

    return BLOCK.sub(filled, text)


# -- pictures --------------------------------------------------------------------------------------
def draw_conventions(figure: Any, found: Summary) -> None:
    """All pairings on new operations; partners and strangers in every set."""
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    matrix = np.array(found["sets"][PRIMARY]["matrix"]["agreement"])
    image = left.imshow(matrix, vmin=0, vmax=1, cmap="viridis")
    for (i, j), value in np.ndenumerate(matrix):
        color = "white" if value < 0.6 else "black"
        left.text(j, i, number(value), ha="center", va="center", fontsize=6, color=color)
    names = [unit.removeprefix("team-") for unit in TEAM_UNITS]
    left.set_xticks(range(len(names)), names, fontsize=7)
    left.set_yticks(range(len(names)), names, fontsize=7)
    for edge in range(TEAMS, len(names), TEAMS):
        left.axhline(edge - 0.5, color="white", linewidth=2)
        left.axvline(edge - 0.5, color="white", linewidth=2)
    left.set_xlabel("main of team (warm start - run)")
    left.set_ylabel("helper of team")
    left.set_title(f"agreement on {PRIMARY}", fontsize=9)
    figure.colorbar(image, ax=left, shrink=0.7)
    _draw_sets(right, found)


def _draw_sets(axes: Any, found: Summary) -> None:
    shown = {
        "warm start": "tab:gray",
        "own partner": "tab:blue",
        "stranger, same warm start": "tab:orange",
        "stranger, other warm start": "tab:red",
        "random partners": "tab:green",
    }
    sets = found["sets"]
    for shift, (condition, color) in enumerate(shown.items()):
        label: str | None = condition
        for place, one in enumerate(sets.values()):
            values = one["agreement"].get(condition, {}).get("values", [])
            x = place + (shift - 2) * 0.15
            axes.plot([x] * len(values), values, "o", color=color, alpha=0.5, label=label)
            label = None
            if values:
                axes.hlines(np.mean(values), x - 0.06, x + 0.06, color=color, linewidth=2)
    axes.axhline(0.5, color="black", linestyle=":", linewidth=1)
    axes.set_xticks(range(len(sets)), sets)
    axes.set_ylim(0, 1)
    axes.set_title("agreement; a dot is the mean of a warm start (or of a pair)", fontsize=9)
    axes.legend(fontsize=7, loc="lower left")


def draw_weights(figure: Any, found: Summary) -> None:
    """Success, seconds and memory of each run."""
    columns = {"success": "success on test", "cpu_seconds": "CPU s", "peak_mib": "peak memory, MiB"}
    arms = found["weights"]
    for axes, (key, title) in zip(figure.subplots(1, 3), columns.items(), strict=True):
        for place, of in enumerate(arms.values()):
            axes.plot([place] * len(of["runs"]), [one[key] for one in of["runs"]], "o")
        axes.set_xticks(range(len(arms)), arms)
        axes.set_xlim(-0.5, len(arms) - 0.5)
        axes.set_ylim(0, 1 if key == "success" else None)
        axes.set_title(title, fontsize=9)


DRAWN = {"conventions": (draw_conventions, (11, 5)), "weights": (draw_weights, (9, 3))}


def main() -> None:
    """Write what can be written."""
    from matplotlib.figure import Figure

    found = read_json(SUMMARY)
    for name, path in PAGES.items():
        if path.is_file():
            path.write_text(page(path.read_text(encoding="utf-8"), found), encoding="utf-8")
        ready = found["weights"] if name == "weights" else "primary" in found
        if ready:
            draw, size = DRAWN[name]
            figure = Figure(figsize=size, layout="constrained")
            draw(figure, found)
            figure.savefig(DOCS / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
