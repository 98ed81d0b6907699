"""The tables and pictures of docs/claims.md, from the runs in docs/claims/*.json.

    python -m benchmarks.claims.page      # after a claim was run anew

Each table stands between two marks of the page. The tests of all claims together are adjusted by
Holm's method here, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.claims.common import FOLDER
from benchmarks.rates import holm
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.measure.numbers.format import interval, number, p_value

PAGE = FOLDER.parent / "claims.md"
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", re.DOTALL)
COLORS = {
    **dict.fromkeys(("magrpo", "naive"), "tab:gray"),
    **dict.fromkeys(("dr_mas", "magrpo_tree", "difference", "aligned"), "tab:blue"),
    **dict.fromkeys(("grpo_global", "c3_sim", "sum"), "tab:orange"),
    **dict.fromkeys(("central_critic", "aligned, as many actions"), "tab:green"),
}

Summary = Mapping[str, Any]
Columns = Mapping[str, Callable[[Any], str]]


def share(found: Summary) -> str:
    """Count, number and exact interval of a share."""
    return f"{found['count']} of {found['n']} {interval(found['ci95'])}"


COLUMNS: dict[str, Columns] = {
    "gradient_spikes": {
        "spike, median": lambda one: number(one["spike"]),
        "right, mean": lambda one: number(one["right"]),
        "all seats right in all tasks": lambda one: share(one["success"]),
    },
    "shared_histories": {
        "right, mean": lambda one: number(one["right"]),
        "deviation": lambda one: number(one["deviation"]),
        "0.9 or more": lambda one: share(one["success"]),
    },
    "lazy_agent": {
        "found": lambda one: share(one["found"]),
        "with a quarter, a half": lambda one: ", ".join(
            number(one["found_at"][at]) for at in ("0.25", "0.5")
        ),
        "learners right, mean": lambda one: number(one["right"]),
        "both 0.9 or more": lambda one: share(one["success"]),
    },
    "dilemma": {
        "both cooperate": lambda one: number(one["both cooperate"]),
        "pay a turn": lambda one: number(one["pay"]),
        "cooperates": lambda one: share(one["cooperates"]),
        "gap to defection": lambda one: number(one["gap_defect"]),
        "gap to best response": lambda one: number(one["gap_best"]),
        "cooperates, exploited by neither": lambda one: share(one["all"]),
    },
}
"""Claim -> column of its table -> what stands there, from the summary of a method."""


def records() -> dict[str, dict[str, Any]]:
    """Claim -> what its file holds; claims that were not run to their end are missing."""
    files = {name: FOLDER / f"{name}.json" for name in COLUMNS}
    found = {name: read_json(file) for name, file in files.items() if file.exists()}
    return {name: one for name, one in found.items() if "summary" in one}


def table(name: str, record: Summary) -> str:
    """Methods in every game of a claim."""
    columns = COLUMNS[name]
    lines = [["game", "method", *columns], ["---"] * (2 + len(columns))]
    for game, found in record["summary"].items():
        for method, one in found.get("methods", {}).items():
            lines.append([game, method, *(show(one) for show in columns.values())])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def tests_of(all_records: Mapping[str, Summary]) -> Iterator[tuple[str, str, str, Summary]]:
    """(claim, game, test, result) of every test."""
    for name, record in all_records.items():
        for game, found in record["summary"].items():
            for test, result in found.get("tests", {}).items():
                yield name, game, test, result


def tests(all_records: Mapping[str, Summary]) -> str:
    """Every test with its p-value as it is, and adjusted for all of them."""
    found = {" | ".join(key): result for *key, result in tests_of(all_records)}
    adjusted = holm([one["p"] for one in found.values()])
    lines = ["| claim | game | test | difference | p | p, Holm |", "|---|---|---|---|---|---|"]
    for (key, one), corrected in zip(found.items(), adjusted, strict=True):
        size = ""
        if "difference" in one:
            size = f"{number(one['difference'], sign=True)} {interval(one['ci95'], sign=True)}"
        lines.append(f"| {key} | {size} | {p_value(one['p'])} | {p_value(corrected)} |")
    return "\n".join(lines)


def page() -> str:
    """The page as it should be."""
    all_records = records()
    blocks = {name: table(name, one) for name, one in all_records.items()}
    blocks["tests"] = tests(all_records)

    def filled(found: re.Match[str]) -> str:
        return f"{found[1]}{blocks.get(found[2], '')}\n{found[3]}"

    return BLOCK.sub(filled, PAGE.read_text(encoding="utf-8"))


# -- pictures --------------------------------------------------------------------------------------
def fresh_runs(record: Summary, start: str) -> list[dict[str, Any]]:
    """The runs on fresh seeds whose name begins so."""
    return [one for key, one in record["runs"].items() if key.startswith(f"fresh/{start}/")]


def methods_of(record: Summary, game: str) -> list[str]:
    return list(record["summary"][game]["methods"])


def strip(axes: Any, place: float, values: list[float], method: str) -> None:
    """One point per seed, and their median."""
    shaken = place + np.linspace(-0.1, 0.1, len(values))
    axes.plot(shaken, values, ".", color=COLORS[method], alpha=0.6)
    axes.hlines(np.median(values), place - 0.2, place + 0.2, color=COLORS[method])


def draw_gradient_spikes(figure: Any, record: Summary) -> None:
    """Spikes of each seed, by game, optimizer and method."""
    games = list(record["summary"])
    for axes, game in zip(figure.subplots(1, len(games), sharey=True), games, strict=True):
        name, kind = game.split(", ")
        for place, method in enumerate(methods_of(record, game)):
            runs = fresh_runs(record, f"{kind}/{name}/{method}")
            strip(axes, place, [one["spike"] for one in runs], method)
        named(axes, game, methods_of(record, game))
        axes.set_yscale("log")
    figure.axes[0].set_ylabel("largest norm / median norm")


def draw_shared_histories(figure: Any, record: Summary) -> None:
    """How often words are right, by bonus and method."""
    games = list(record["summary"])
    for axes, game in zip(figure.subplots(1, len(games), sharey=True), games, strict=True):
        for place, method in enumerate(methods_of(record, game)):
            runs = fresh_runs(record, f"{game}/{method}")
            strip(axes, place, [one["tuned_on"] for one in runs], method)
        named(axes, game, methods_of(record, game))
    figure.axes[0].set_ylabel("probability of right words")


def draw_lazy_agent(figure: Any, record: Summary) -> None:
    """How often the lazy seat is found, by what was spent."""
    games = list(record["summary"])
    for axes, game in zip(figure.subplots(1, len(games), sharey=True), games, strict=True):
        for method, one in record["summary"][game]["methods"].items():
            spent = [float(at) for at in one["found_at"]]
            axes.plot(spent, [*one["found_at"].values()], "o-", color=COLORS[method], label=method)
        axes.axhline(1 / 8, color="black", linestyle=":")
        axes.set_title(game, fontsize=9)
        axes.set_xlabel("share of the budget")
    figure.axes[0].set_ylabel("share of seeds that find it")
    figure.axes[0].legend(fontsize=8)


def draw_dilemma(figure: Any, record: Summary) -> None:
    """Cooperation against what either partner makes of a seat."""
    both = {"gap_defect": "always defects", "gap_best": "best response"}
    for axes, (gap, title) in zip(figure.subplots(1, 2, sharey=True), both.items(), strict=True):
        for method in methods_of(record, "tables"):
            runs = fresh_runs(record, f"tables/{method}")
            cooperation, gaps = [one["tuned_on"] for one in runs], [one[gap] for one in runs]
            axes.plot(cooperation, gaps, "o", color=COLORS[method], alpha=0.6, label=method)
        axes.axhline(1.0, color="black", linestyle=":")
        axes.set_title(f"partner: {title}", fontsize=9)
        axes.set_xlabel("share of turns in which both cooperate")
    figure.axes[0].set_ylabel("partner's pay beyond the seat's, a turn")
    figure.axes[0].legend(fontsize=8)


def named(axes: Any, title: str, methods: list[str]) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xticks(range(len(methods)), methods, rotation=60, fontsize=8)


DRAWN: dict[str, Callable[[Any, Summary], None]] = {
    "gradient_spikes": draw_gradient_spikes,
    "shared_histories": draw_shared_histories,
    "lazy_agent": draw_lazy_agent,
    "dilemma": draw_dilemma,
}


def main() -> None:
    from matplotlib.figure import Figure

    for name, record in records().items():
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        DRAWN[name](figure, record)
        figure.savefig(FOLDER / f"{name}.png", dpi=110)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
