"""A cell of the comparison, one method on one bed: its file of lines, and what is due next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

TUNING_SEED = 1000
"""The first of those that try rates; none of them is reported."""
REPORT_SEED = 100
"""The first of those that are reported."""
COSTS_SEED = 200
"""Of runs that are made for their costs alone; no score of them is reported."""
EXTENSIONS = 2
"""Rates that are tried beyond the first ones, at most, where the best is at an edge."""
FACTOR = 3.0


@dataclass(frozen=True, slots=True)
class Line:
    """One run.

    Attributes:
        part: "tuning", "report" or "costs".
        rate: its learning rate.
        seed: of everything.
        costs: tokens, evaluator calls, updates and replayed calls so far at each point; of a tuning
            run at its end alone.
        scores: at these points, 1 for the best there is.
        seconds: CPU time, that of a warm start included where it was not there yet.
        spent: what else the training of a language model cost: `prompt_tokens` without a cache of
            prefixes, `new_prompt_tokens` with one, `critic_tokens`, `wall_seconds`. Empty for
            tables, and in lines that were written before it was counted.
    """

    part: str
    rate: float
    seed: int
    costs: list[list[int]]
    scores: list[float]
    seconds: float
    spent: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one bed.

    Attributes:
        file: where its lines are.
        about: what it is; a file of another one is refused.
        rates: that are tried in any case, rising.
        tuning: seeds of each rate.
        seeds: that are reported.
    """

    file: Path
    about: dict[str, Any]
    rates: Sequence[float]
    tuning: Sequence[int]
    seeds: Sequence[int]

    @property
    def name(self) -> str:
        """Bed and method."""
        return f"{self.about['bed']}, {self.about['method']}"

    def check(self) -> None:
        """Begin the file, or refuse one of other settings.

        Raises:
            ValueError: the file is another cell's.
        """
        if not self.file.is_file():
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps(self.about) + "\n", encoding="utf-8")
            return
        if (found := about_of(self.file)) != self.about:
            raise ValueError(f"{self.file} is of {found}, expected {self.about}: move it away")
        text = self.file.read_text("utf-8")
        if not text.endswith("\n"):  # a run was killed while it wrote
            self.file.write_text(text[: text.rindex("\n") + 1], encoding="utf-8")

    def append(self, lines: Sequence[Line]) -> None:
        """Write runs, whole lines or none."""
        text = "".join(json.dumps(asdict(line)) + "\n" for line in lines)
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(text)


def about_of(file: Path) -> dict[str, Any]:
    """What a file's first line says it is of."""
    return json.loads(file.read_text("utf-8").split("\n", 1)[0])


def lines_of(file: Path) -> list[Line]:
    """The runs in a file; a last line that was cut off is none."""
    if not file.is_file():
        return []
    rows = file.read_text("utf-8").split("\n")[1:-1]
    return [Line(**json.loads(row)) for row in rows]


def tried(lines: Sequence[Line]) -> dict[float, dict[int, float]]:
    """Rate -> seed -> final score of the tuning runs, rates rising."""
    found: dict[float, dict[int, float]] = {}
    for line in lines:
        if line.part == "tuning":
            found.setdefault(line.rate, {})[line.seed] = line.scores[-1]
    return dict(sorted(found.items()))


def best_rate(scores: dict[float, dict[int, float]]) -> float:
    """The rate with the highest mean; the lowest of several."""
    return max(scores, key=lambda rate: (round(fmean(scores[rate].values()), 9), -rate))


def due(cell: Cell, chunk: int) -> tuple[str, float, list[int]] | None:
    """(part, rate, seeds) to run next; None where the cell is whole.

    Where more tuning seeds were asked for later and another rate is the best now, reported runs at
    the former one do not count.
    """
    lines = lines_of(cell.file)
    scores = tried(lines)
    for rate in sorted({*cell.rates, *scores}):
        left = [seed for seed in cell.tuning if seed not in scores.get(rate, {})]
        if left:
            return "tuning", rate, left[:chunk]
    best, rates = best_rate(scores), [*scores]
    if len(rates) < len(cell.rates) + EXTENSIONS and best in (rates[0], rates[-1]):
        further = best / FACTOR if best == rates[0] else best * FACTOR
        return "tuning", float(f"{further:.3g}"), [*cell.tuning][:chunk]
    reported = {line.seed for line in lines if (line.part, line.rate) == ("report", best)}
    left = [seed for seed in cell.seeds if seed not in reported]
    return ("report", best, left[:chunk]) if left else None


def costs_due(cell: Cell, chunk: int) -> tuple[str, float, list[int]] | None:
    """One run at the best rate, for its costs; None where there is one.

    Raises:
        ValueError: no rate was tried yet.
    """
    lines = lines_of(cell.file)
    scores = tried(lines)
    if not scores:
        raise ValueError(f"{cell.name}: no rate was tried yet, run it first without `--costs`")
    best = best_rate(scores)
    done = any((line.part, line.rate) == ("costs", best) for line in lines)
    return None if done else ("costs", best, [COSTS_SEED][:chunk])
