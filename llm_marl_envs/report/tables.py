"""Tables: what a report shows in rows, and how a mean stands in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import NOTHING, number, within


@dataclass(frozen=True, slots=True)
class Noted:
    """A cell with a remark in small print."""

    text: str
    note: str


Cell = str | Noted


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head; the first cell of a row, a text, names it."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def table(head: Iterable[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table of any sequences."""
    return Table(tuple(head), tuple(tuple(row) for row in rows))


def estimated(estimate: Estimate | None) -> Cell:
    """The mean, and in small print its interval, or why not, and of how many numbers it is."""
    if estimate is None:
        return NOTHING
    notes = [shown] if (shown := within(estimate)) else []
    notes += [] if estimate.n is None else [f"n = {estimate.n}"]
    return Noted(number(estimate.mean), ", ".join(notes))


def capital(name: str) -> str:
    """The name as a heading."""
    return name[:1].upper() + name[1:]
