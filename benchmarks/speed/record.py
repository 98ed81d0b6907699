"""What the benchmarks of speed share: how they measure, and docs/speed.json as tables of a page.

Each benchmark keeps rows under a name; the page has a table between the marks of that name. A row
is a dict of columns. Its entry "raw", the numbers of every repetition, is not shown.

    python -m benchmarks.speed.record      # write the tables anew
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from llm_marl_envs.files.json_files import write_json

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "speed.json"
PAGE = ROOT / "docs" / "speed.md"
BLOCK = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- /\2 -->)", re.DOTALL)
LIBRARIES = ("torch", "transformers", "trl", "peft", "comlrl")
REPETITIONS = 5

Row = dict[str, Any]


def alternate(
    jobs: Mapping[str, Callable[[], object]], repetitions: int = REPETITIONS
) -> dict[str, list[float]]:
    """Process seconds of each job, which take turns, so that a busy machine slows all alike.

    A round before the first warms up and is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repetitions + 1):
        for name, job in jobs.items():
            begun = time.process_time()
            job()
            seconds[name].append(time.process_time() - begun)
    return {name: found[1:] for name, found in seconds.items()}


def ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """Median of the ratios of neighbouring measurements."""
    return median(a / b for a, b in zip(of, to, strict=True))


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The power of the size that the seconds grow with: the slope of a line through logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def keep(name: str, rows: Sequence[Row]) -> None:
    """Print the rows, and put them into the record and the page in place of older ones."""
    print(table(rows))
    records = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    records[name] = {
        "command": " ".join(["python -m", _module(), *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, shared with other work",
        "threads": int(os.environ["OMP_NUM_THREADS"]),
        "versions": {"python": platform.python_version(), **_versions()},
        "rows": list(rows),
    }
    write_json(RECORD, dict(sorted(records.items())))
    PAGE.write_text(page())


def _module() -> str:
    found = Path(sys.argv[0]).resolve().relative_to(ROOT)
    return ".".join(found.with_suffix("").parts)


def _versions() -> dict[str, str]:
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:  # CoMLRL has an environment of its own
            continue
    return found


def table(rows: Sequence[Row]) -> str:
    """Markdown: the columns of all rows, in the order in which they come."""
    columns = list(dict.fromkeys(name for row in rows for name in row if name != "raw"))
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    """Whole numbers with separators, others with three digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)


def page() -> str:
    """The page as it should be: each table, and the command that made it."""
    records = json.loads(RECORD.read_text())

    def filled(found: re.Match[str]) -> str:
        if found[2] not in records:
            return found[0]
        record = records[found[2]]
        text = f"{table(record['rows'])}\n\n`{record['command']}`, {record['date']}.\n"
        return f"{found[1]}{text}{found[3]}"

    return BLOCK.sub(filled, PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
