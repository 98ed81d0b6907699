"""Where the time of a run goes: which process works, and who answers for it.

Owns a page of memory that the judge writes and the parent reads, also when the judge was killed in
the middle of a value. Does not own what is concluded from it (`blame`).

The page holds numbers of eight bytes: when the present turn began (monotonic clock, 0 before the
first), the place of its seconds, then a square of seconds, one row per process and one column per
author. The last row is the judge itself, the last column nobody.
"""

from __future__ import annotations

import array
import mmap
import os
import time
from collections.abc import Sequence
from typing import Any

PAGE = 4096  # bytes; room for 21 programs
NOBODY = JUDGE = ""
_SINCE, _PLACE, _SQUARE = 0, 1, 2

Seconds = dict[tuple[str, str], float]
"""(process, author) -> seconds; process `JUDGE` is that of the tests, author `NOBODY` is no
program."""


def open_page(fd: int) -> mmap.mmap:
    """Map the page behind a descriptor, which is closed. Raises OSError."""
    try:
        return mmap.mmap(fd, PAGE)
    finally:
        os.close(fd)


class Ledger:
    """The writing side: one run of the judge."""

    def __init__(self, programs: Sequence[str], page: mmap.mmap | None = None) -> None:
        """Begin with nothing. Without a `page` nobody else reads."""
        self.cells: Any = memoryview(page or bytearray(PAGE)).cast("d")
        self.width = len(programs) + 1
        self.index = {name: number for number, name in enumerate([*programs, JUDGE])}
        self.cells[_SQUARE : _SQUARE + self.width**2] = array.array("d", bytes(8 * self.width**2))
        self.place = self._place(JUDGE, NOBODY)
        self.cells[_PLACE] = self.place
        self.cells[_SINCE] = time.monotonic()

    def turn(self, process: str, author: str) -> None:
        """From now on `process` works, and `author` answers for it."""
        now = time.monotonic()
        cells = self.cells
        cells[self.place] += now - cells[_SINCE]
        self.place = self._place(process, author)
        cells[_PLACE] = self.place
        cells[_SINCE] = now

    def _place(self, process: str, author: str) -> int:
        return _SQUARE + self.index[process] * self.width + self.index[author]


def read(fd: int, programs: Sequence[str]) -> Seconds:
    """The seconds so far, the present turn included; empty before the first turn."""
    cells = array.array("d", os.pread(fd, PAGE, 0))
    if not cells[_SINCE]:
        return {}
    cells[int(cells[_PLACE])] += time.monotonic() - cells[_SINCE]
    names = [*programs, JUDGE]
    return {
        (process, author): cells[_SQUARE + row * len(names) + column]
        for row, process in enumerate(names)
        for column, author in enumerate(names)
    }
