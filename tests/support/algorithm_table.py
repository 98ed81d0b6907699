"""The table of algorithms: what their classes declare, as Markdown in docs/algorithms/index.md."""

from __future__ import annotations

import re
from pathlib import Path

from trainers.algorithms import ALGORITHMS, algorithm_class
from trainers.algorithms.relations import Relation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "algorithms" / "index.md"
PAGES = {"c3_sim": "c3"}
"""Algorithms on the page of another."""
BLOCK = re.compile(r"(<!-- relations -->\n).*?(<!-- /relations -->)", re.DOTALL)


def declared() -> list[tuple[str, Relation]]:
    """(name, relation) of all algorithms of this library, names sorted."""
    return [(name, one) for name in ALGORITHMS.names() for one in algorithm_class(name).declares]


def table() -> str:
    """Markdown, one row for each relation."""
    rows = ["| algorithm | is | of | when | what it follows instead |", "|---" * 5 + "|"]
    for name, one in declared():
        cells = [
            f"[{name}]({PAGES.get(name, name)}.md)",
            str(one.kind),
            one.of,
            one.when,
            one.named,
        ]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def page() -> str:
    """The page as it should be."""
    return BLOCK.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
