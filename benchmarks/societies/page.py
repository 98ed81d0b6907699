"""The tables and pictures of docs/societies.md, from benchmarks/results/societies.

    python -m benchmarks.societies.page      # after a study was run anew

Each table stands between two marks of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.claims.common import ROOT
from benchmarks.claims.page import BLOCK, share
from benchmarks.rates import holm
from benchmarks.societies import FOLDER
from benchmarks.societies.lineages import TEXTS as LINEAGE_TEXTS
from benchmarks.societies.lineages import step as lineage_step
from benchmarks.societies.villages import TEXTS, chain, walked
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.files.pictures import require_matplotlib
from llm_marl_envs.measure.numbers.format import interval, number, p_value

PAGE = ROOT / "docs" / "societies.md"
STUDIES = ("learners", "starts", "givers", "exploration", "tipping", "villages", "lineages")
Found = Mapping[str, Any]


def records() -> dict[str, Found]:
    """Study -> what its file holds."""
    return {name: read_json(FOLDER / f"{name}.json") for name in STUDIES}


def rows(head: str, lines: list[list[str]]) -> str:
    """Markdown."""
    bar = "|" + "---|" * (head.count("|") - 1)
    return "\n".join([head, bar, *(f"| {' | '.join(line)} |" for line in lines)])


def span(values: list[float]) -> str:
    return f"{number(min(values))} to {number(max(values))}"


def learners(record: Found) -> str:
    """Each method from each start."""
    lines = []
    for start, found in record["summary"].items():
        for name, one in found["methods"].items():
            numbers = [number(one[key]) for key in ("survival", "gini", "gap")]
            lines.append([start, name, f"{number(one['efficiency'])}, {span(one['span'])}"])
            lines[-1] += [*numbers, share(one["lasts"])]
    return rows(
        "| start | learners | efficiency, mean, span | survival | Gini | gain of a best response "
        "| stock lasts |",
        lines,
    )


def starts(record: Found) -> str:
    """Where the exact gradient ends."""
    return rows(
        "| game, return | pay: least, median, most | grab at once, in equilibrium | at the optimum "
        "| largest gain of a best response |",
        [
            [
                name,
                ", ".join(number(one) for one in found["span"]),
                number(found["grabs"]),
                number(found["optimal"]),
                number(found["largest gain"]),
            ]
            for name, found in record["summary"]["commons"]["methods"].items()
        ],
    )


def givers(record: Found) -> str:
    """Each method from each start, then the test between starts."""
    lines = []
    for start, found in record["summary"].items():
        for name, one in found["methods"].items():
            numbers = [number(one[key]) for key in ("giving", "to_bad", "gini", "gap")]
            lines.append([start, name, f"{number(one['efficiency'])}, {span(one['span'])}"])
            lines[-1] += [*numbers, share(one["gives"])]
    head = (
        "| start | learners | efficiency, mean, span | given | to who kept | Gini "
        "| gain of a best response | a half or more is given |"
    )
    return rows(head, lines)


def exploration(record: Found) -> str:
    """Each arm, then both contrasts."""
    found = record["summary"]["commons"]
    arms = [
        [
            name,
            *(number(one[key]) for key in ("lasts", "efficiency", "gini")),
            share(one["kept"]),
        ]
        for name, one in found["methods"].items()
    ]
    tests = [
        [
            name,
            f"{number(one['difference'], sign=True)} {interval(one['ci95'], sign=True)}",
            p_value(one["p"]),
        ]
        for name, one in found["tests"].items()
    ]
    head = "| weights, temperature | stock lasts | efficiency | Gini | seeds that keep it |"
    return rows(head, arms) + "\n\n" + rows("| contrast | difference | p |", tests)


def tipping(record: Found) -> str:
    """Each team and what it is told, then the tests."""
    found = record["summary"]["rule"]
    lines = []
    for name, one in found["methods"].items():
        violation = one["violation"]
        places = (0, len(violation) // 2 - 1, len(violation) - 1)
        after = [_or_none(one["after"][key]) for key in ("break", "none")]
        lines.append([name, ", ".join(number(violation[n]) for n in places), share(one["tips"])])
        lines[-1] += [_or_none(one["median"]), ", ".join(after)]
    tests = [
        [name, "yes" if one["more"] else "no", p_value(one["p"])]
        for name, one in found["tests"].items()
    ]
    head = (
        "| team, told of | violation in rounds 1, 10, 20 | seeds that tip | median round "
        "| breaking after a break, after none |"
    )
    return rows(head, lines) + "\n\n" + rows("| seeds that tip | more | p |", tests)


def _or_none(value: float | None) -> str:
    return "none" if value is None else number(value)


def villages(record: Found) -> str:
    """Grabbers by generation, played and exact."""
    lines = []
    for name, one in record["summary"]["commons"]["methods"].items():
        for kind in ("played", "exact"):
            lines.append([name, kind, *by_generation(one[kind]), number(one[f"few, {kind}"])])
    return rows(
        "| grabbers at first | | generation 1 | 2 | 3 | 5 | 10 | at most a half in the end |", lines
    )


def lineages(record: Found) -> str:
    """Grabbers by generation among texts, then keepers among tables."""
    texts, tables = (record["summary"][key]["methods"] for key in ("texts", "tables"))
    lines = [
        [name, kind, *by_generation(one[kind]), _few(one, kind)]
        for name, one in texts.items()
        for kind in ("played", "exact")
        if kind in one
    ]
    more = [
        [name, *by_generation(one["share"]), number(one["paid"][-1]), share(one["few"])]
        for name, one in tables.items()
    ]
    return "\n\n".join(
        [
            rows(
                "| beside grabbers | | generation 1 | 2 | 3 | 5 | 10 | at most a half in the end |",
                lines,
            ),
            rows(
                "| tables, arm | generation 1 | 2 | 3 | 5 | 10 | efficiency in the end "
                "| at most a half in the end |",
                more,
            ),
        ]
    )


def _few(one: Found, kind: str) -> str:
    return share(one["few"]) if kind == "played" else number(one["few, exact"])


def by_generation(shares: list[float]) -> list[str]:
    """Those of generations 1, 2, 3, 5 and the last one."""
    return [number(shares[min(n, len(shares) - 1)]) for n in (0, 1, 2, 4, len(shares) - 1)]


TABLES: dict[str, Callable[[Found], str]] = {
    "learners": learners,
    "starts": starts,
    "givers": givers,
    "exploration": exploration,
    "tipping": tipping,
    "villages": villages,
    "lineages": lineages,
}


def all_tests(found: Mapping[str, Found]) -> str:
    """Every test of the page, adjusted for their number by Holm's method."""
    named = {
        f"{study} | {name}": one["p"]
        for study, record in found.items()
        for part in record["summary"].values()
        for name, one in part.get("tests", {}).items()
    }
    adjusted = holm([*named.values()])
    lines = [
        [name, p_value(p), p_value(corrected)]
        for (name, p), corrected in zip(named.items(), adjusted, strict=True)
    ]
    return rows("| study | test | p | p, Holm |", lines)


def page() -> str:
    """The page as it should be."""
    found = records()
    blocks = {name: TABLES[name](record) for name, record in found.items()}
    blocks["tests"] = all_tests(found)

    def filled(mark: re.Match[str]) -> str:
        return f"{mark[1]}{blocks.get(mark[2], '')}\n{mark[3]}"

    return BLOCK.sub(filled, PAGE.read_text(encoding="utf-8"))


# -- pictures --------------------------------------------------------------------------------------
def fresh_of(record: Found, start: str) -> list[Found]:
    """The runs on fresh seeds whose name begins so."""
    return [one for key, one in record["runs"].items() if key.startswith(f"fresh/{start}/")]


def strip(axes: Any, arms: Mapping[str, list[float]], label: str) -> None:
    """A point for each seed."""
    for place, values in enumerate(arms.values()):
        shaken = place + np.linspace(-0.15, 0.15, len(values))
        axes.plot(shaken, values, ".", color=f"C{place}", alpha=0.6)
    axes.set_xticks(range(len(arms)), [*arms], rotation=30, fontsize=8)
    axes.set_ylabel(label)
    axes.set_ylim(-0.03, 1.03)


def draw_learners(figure: Any, record: Found) -> None:
    """Efficiency of each seed, by start; that of taking all at once."""
    draw_efficiency(figure, record, levels=(20 / 130,))


def draw_givers(figure: Any, record: Found) -> None:
    """Efficiency of each seed, by start; where nobody gives, and where all do but at the end."""
    draw_efficiency(figure, record, levels=(0.2, 0.8))


def draw_efficiency(figure: Any, record: Found, levels: Sequence[float]) -> None:
    """Efficiency of each seed, a picture for each start, and what it is known to be elsewhere."""
    several = figure.subplots(1, len(record["summary"]), sharey=True)
    for axes, (start, found) in zip(several, record["summary"].items(), strict=True):
        arms = {
            name: [one["efficiency"] for one in fresh_of(record, f"{start}/{name}")]
            for name in found["methods"]
        }
        strip(axes, arms, "efficiency" if start == "any" else "")
        for level in levels:
            axes.axhline(level, color="black", linestyle=":", lw=1)
        axes.set_title(f"start: {start}", fontsize=9)


def draw_exploration(figure: Any, record: Found) -> None:
    """What the stock's chance is, by how often a seat missed at first."""
    axes = figure.subplots(1, 2, sharey=True)
    for name in record["summary"]["commons"]["methods"]:
        weights, temperature = name.split(", ")
        of = sorted(fresh_of(record, name), key=lambda one: one["misses"])
        at, values = [one["misses"] for one in of], [one["lasts"] for one in of]
        side = axes[int(weights == "separate")]
        side.plot(at, values, "o-", ms=3, lw=1, alpha=0.7, label=f"temperature {temperature}")
        side.set(title=weights, xscale="log", xlabel="a seat misses at first")
    axes[0].set_ylabel("the stock lasts")
    axes[0].legend(fontsize=8)


def draw_tipping(figure: Any, record: Found) -> None:
    """Violation by round."""
    found = record["summary"]["rule"]
    for axes, kind in zip(figure.subplots(1, 2, sharey=True), ("frozen", "learning"), strict=True):
        for name, one in found["methods"].items():
            if name.startswith(kind):
                turns = range(1, len(one["violation"]) + 1)
                axes.plot(turns, one["violation"], label=name.split(", ")[1])
        if kind == "frozen":
            expected = found["expected"]
            axes.plot(range(1, len(expected) + 1), expected, "k:", lw=1, label="own, exact")
            axes.legend(fontsize=8)
        axes.set(title=kind, xlabel="round", ylim=(-0.03, 1.03))
    figure.axes[0].set_ylabel("violation, mean over seeds")


def draw_villages(figure: Any, record: Found) -> None:
    """Grabbers by generation; the chance that they stay few, by how many there are at first."""
    left, right = figure.subplots(1, 2)
    for colour, (name, one) in enumerate(record["summary"]["commons"]["methods"].items()):
        turns = range(1, len(one["played"]) + 1)
        left.plot(turns, one["exact"], f"C{colour}", lw=1)
        left.plot(turns, one["played"], f"C{colour}o", ms=4, label=f"{name} at first")
    left.set(xlabel="generation", ylabel="grabbers", title="points: played; lines: exact")
    left.legend(fontsize=8)
    few = [chain(start, 10)[-1][: TEXTS // 2 + 1].sum() for start in range(TEXTS + 1)]
    right.plot(range(TEXTS + 1), few, "k.-")
    right.set(
        xlabel=f"grabbers of {TEXTS} at first", title="exact: at most a half in generation 10"
    )


def draw_lineages(figure: Any, record: Found) -> None:
    """Grabbers among texts by generation and by their first number; keepers among tables."""
    left, middle, right = figure.subplots(1, 3)
    texts, tables = (record["summary"][key]["methods"] for key in ("texts", "tables"))
    for colour, (name, one) in enumerate(texts.items()):
        turns = range(1, len(one["played"]) + 1)
        left.plot(turns, one["played"], f"C{colour}o", ms=4, label=name)
        if "exact" in one:
            left.plot(turns, one["exact"], f"C{colour}", lw=1)
            few = [
                walked(lineage_step(name), start, 10)[-1][: LINEAGE_TEXTS // 2 + 1].sum()
                for start in range(LINEAGE_TEXTS + 1)
            ]
            middle.plot(range(LINEAGE_TEXTS + 1), few, f"C{colour}.-")
    left.set(xlabel="generation", ylabel="grabbers", title="points: played; lines: exact")
    left.legend(fontsize=7)
    middle.set(
        xlabel=f"grabbers of {LINEAGE_TEXTS} at first", title="exact: at most a half in the end"
    )
    for colour, (name, one) in enumerate(tables.items()):
        start, arm = name.split(", ", 1)
        style, label = ("--", None) if start == "sharers" else ("-", arm)
        turns = range(1, len(one["share"]) + 1)
        right.plot(turns, one["share"], style, color=f"C{colour % 3}", label=label)
    right.set(xlabel="generation", title="tables: keepers; dashed: sharers", ylim=(-0.1, 1.03))
    right.legend(fontsize=6, loc="lower right")
    for axes in (left, middle, right):
        axes.title.set_fontsize(9)


DRAWN: dict[str, Callable[[Any, Found], None]] = {
    "learners": draw_learners,
    "givers": draw_givers,
    "exploration": draw_exploration,
    "tipping": draw_tipping,
    "villages": draw_villages,
    "lineages": draw_lineages,
}


def main() -> None:
    found = records()
    for name, draw in DRAWN.items():
        figure = require_matplotlib()(figsize=(9, 3.2), layout="constrained")
        draw(figure, found[name])
        path: Path = PAGE.parent / f"societies_{name}.png"
        figure.savefig(path, dpi=100, metadata={"Software": None})
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
