"""A quick pass of the benchmarks of speed that fails where a ratio fell: `make bench`.

    python -m benchmarks.speed.guard

Ratios only, for seconds belong to a machine, and with wide margins: a bound is crossed where
something became slower by a quarter or grows in another way. The tables of docs/speed.md have their
own commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.speed import envs, limit, scaling
from benchmarks.speed.record import Row, exponent, table

FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A ratio and what it must keep.

    Attributes:
        name: what was measured.
        value: the ratio.
        least: or
        most: the bound.
    """

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the value is within; NaN is not."""
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)

    @property
    def row(self) -> Row:
        """For the table."""
        bound = f">= {self.least}" if self.least is not None else f"<= {self.most}"
        return {"ratio": self.name, "value": self.value, "bound": bound, "kept": self.kept}


def of_limit() -> Iterator[Bound]:
    """Share of the bare limit, one task of 64 tokens."""
    for mode, least in (("shared", 0.8), ("adapters", 0.75), ("separate", 0.65)):
        share = limit.cell(mode, limit.CELLS[0], FEW)["share of the limit"]
        yield Bound(name=f"update, {mode}, share of the bare limit", value=share, least=least)


def of_sizes() -> Iterator[Bound]:
    """How an update grows with agents, turns and group, beside next to no model."""
    for name in ("agents", "turns", "group"):
        sizes = scaling.SIZES[name][1::2]
        seconds = [
            median(
                scaling.seconds_of({**scaling.SMALLEST, name: size}, scaling.NEXT_TO_NOTHING, FEW)
            )
            for size in sizes
        ]
        yield Bound(
            name=f"update without a model, exponent of {name}",
            value=exponent(sizes, seconds),
            most=1.6,
        )


def of_environments() -> Iterator[Bound]:
    """A step among 256 copies against one alone."""
    ratio = "cost of a step, 256 to 1"
    row = envs.environment("debate-v0", (1, 256), FEW)
    yield Bound(name=f"debate-v0, {ratio}", value=row[ratio], most=2)


PARTS: tuple[Callable[[], Iterator[Bound]], ...] = (of_limit, of_sizes, of_environments)


def main() -> int:
    """Print all ratios; 1 where one left its bound."""
    bounds = [bound for part in PARTS for bound in part()]
    print(table([bound.row for bound in bounds]))
    return int(not all(bound.kept for bound in bounds))


if __name__ == "__main__":
    sys.exit(main())
