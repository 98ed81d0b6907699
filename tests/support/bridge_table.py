"""The table of what was tried with other libraries: docs/bridges.json as Markdown in a page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "bridges.json"
PAGE = ROOT / "docs" / "howto" / "other_trainers.md"
BLOCK = re.compile(r"(<!-- bridges -->\n).*?(<!-- /bridges -->)", re.DOTALL)
RISE = 0.2
"""What the mean reward must gain between the first and the last fifth of a run."""
HEAD = "| library | version | the environment as | what ran: `examples/` | mean reward | seconds |"


def ends(curve: Sequence[float]) -> tuple[float, float]:
    """Means of the first and of the last fifth of a run, at least one number each."""
    fifth = max(1, len(curve) // 5)
    return mean(curve[:fifth]), mean(curve[-fifth:])


def same_returns(pairs: Sequence[Sequence[float]]) -> bool:
    """Whether episodes were played, and paid what they pay in process."""
    return bool(pairs) and all(abs(there - here) <= 1e-6 for there, here in pairs)


def failed(record: Mapping[str, Any]) -> list[str]:
    """One line per seed that failed."""
    lines = []
    for run in record["runs"]:
        where = f"{record['example']}, seed {run['seed']}"
        if "error" in run:
            lines.append(f"{where}: {run['error']}")
        elif run["kind"] == "train":
            first, last = ends(run["result"])
            if not last - first >= RISE:  # nan does not rise
                lines.append(f"{where}: {first:.2f} to {last:.2f}, expected a rise of {RISE}")
        elif run["kind"] == "play" and not same_returns(run["result"]):
            lines.append(f"{where}: returns there and in process: {run['result']}")
    return lines


def shown(record: Mapping[str, Any]) -> str:
    """What came of all seeds, in a cell."""
    if failed(record):
        return "**failed**"
    runs, kind = record["runs"], record["runs"][0]["kind"]
    if kind == "check":
        return record["checked"]
    if kind == "play":
        played = sum(len(run["result"]) for run in runs)
        return f"{played} returns, as in process"
    pairs = [ends(run["result"]) for run in runs]
    first, last = (median(values) for values in zip(*pairs, strict=True))
    worst = min(end for _, end in pairs)
    return f"{first:.2f} → {last:.2f} (worst of {len(runs)} seeds {worst:.2f})"


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, one row per example."""
    rows = [HEAD, "|---" * 6 + "|"]
    for one in records:
        seconds = [run["seconds"] for run in one["runs"] if "seconds" in run]
        cells = [
            one["library"],
            one["version"],
            f"`{one['form']}`",
            f"{one['ran']}: `{one['example']}.py`",
            shown(one),
            f"{median(seconds):.0f}" if seconds else "",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def with_table(page: str, text: str) -> str:
    """A page with the table between its two marks."""
    return BLOCK.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


def page() -> str:
    """The page as it should be."""
    return with_table(PAGE.read_text(), table(json.loads(RECORDS.read_text())))


def write_table() -> None:
    """Bring the page up to date."""
    PAGE.write_text(page())


if __name__ == "__main__":
    write_table()
