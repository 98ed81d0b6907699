"""What is kept of a thing, and when two of them differ.

A thing is exact or it is not. Of an exact one (texts, ids, counts, rewards) there is a digest,
which is the same on every machine; a playthrough is kept as it reads, in a file of its own. Of one
that a processor rounds (weights, losses) there are a few numbers, which must agree to `TOLERANCE`;
on another kind of machine they are shown and not judged, for there one rounding can choose another
token.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

Value = str | list[float]
Things = Iterator[tuple[str, Value]]
"""(name, what is kept of it)"""
FILE = Path(__file__).parent / "golden.json"
TEXTS = "playthroughs/"
"""What is named so is a text, in a file of its own: `tests/playthroughs/<rest of the name>.txt`."""
SHOWN = 12
"""Lines of two texts' difference that are told."""
TOLERANCE = 1e-5
"""Of numbers, as a share of the larger one, or of 1."""
NONE = "nothing"


def digest(thing: object) -> str:
    """Of the `repr` of plain data and frozen records."""
    return hashlib.sha256(repr(thing).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def numbers(values: Any) -> list[float]:
    """Sum, norm and a projection of an array of any shape: few numbers that any change moves."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    pattern = np.cos(np.arange(1, flat.size + 1))
    return [_short(one) for one in (flat.sum(), math.sqrt(flat @ flat), flat @ pattern)]


def _short(number: Any) -> float:
    return float(f"{number:.9g}")


def machine() -> dict[str, str]:
    """What decides how numbers are rounded."""
    return {
        "processor": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        "torch": torch.__version__.split("+")[0],
        "numpy": np.__version__,
    }


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was.

    Attributes:
        name: of the thing.
        was: the value in the file, `NONE` where there is none.
        now: the value now, `NONE` where the thing is gone.
        judged: whether it counts here.
    """

    name: str
    was: Value
    now: Value
    judged: bool

    def __str__(self) -> str:
        if NONE in (self.was, self.now):
            return f"{self.name}: {'new' if self.was == NONE else 'gone'}"
        if self.name.startswith(TEXTS):
            return f"{self.name}:\n{_changes(str(self.was), str(self.now))}"
        note = "" if self.judged else "  (rounded elsewhere, not judged)"
        return f"{self.name}: was {self.was}, is {self.now}{note}"


def _changes(was: str, now: str) -> str:
    lines = [*difflib.unified_diff(was.splitlines(), now.splitlines(), n=1, lineterm="")][2:]
    more = [f"... {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return "\n".join(f"    {line}" for line in [*lines[:SHOWN], *more])


def differences(
    was: Mapping[str, Value], now: Mapping[str, Value], *, same_machine: bool
) -> list[Difference]:
    """Everything of both that is not alike, by name."""
    found = []
    for name in sorted({*was, *now}):
        old, new = was.get(name, NONE), now.get(name, NONE)
        if not alike(old, new):
            rounded = isinstance(old, list) and isinstance(new, list)
            found.append(Difference(name, old, new, judged=same_machine or not rounded))
    return found


def alike(old: Value, new: Value) -> bool:
    """Digests that are equal, or as many numbers that agree."""
    if isinstance(old, str) or isinstance(new, str):
        return old == new
    pairs = zip(old, new, strict=False)
    return len(old) == len(new) and all(
        a == b or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in pairs
    )


def read(file: Path = FILE) -> tuple[dict[str, str], dict[str, Value]]:
    """(the machine that made it, name -> value)"""
    kept = json.loads(file.read_text(encoding="utf-8"))
    texts = {
        f"{TEXTS}{one.stem}": one.read_text(encoding="utf-8") for one in _folder(file).glob("*.txt")
    }
    return kept["made on"], {**kept["things"], **texts}


def _folder(file: Path) -> Path:
    """Of the texts beside a file."""
    return file.parent.parent / TEXTS


def write(things: Mapping[str, Value], file: Path = FILE) -> None:
    """One line for each thing, in order, so that a renewal can be read as a diff."""
    texts = {name for name in things if name.startswith(TEXTS)}
    _folder(file).mkdir(exist_ok=True)
    for old in _folder(file).glob("*.txt"):
        old.unlink()
    for name in texts:
        one = _folder(file) / f"{name.removeprefix(TEXTS)}.txt"
        one.write_text(str(things[name]), encoding="utf-8")
    named = sorted({*things} - texts)
    lines = [f"  {json.dumps(name)}: {json.dumps(things[name])}" for name in named]
    made_on = json.dumps(machine())
    text = '{"made on": ' + made_on + ',\n "things": {\n' + ",\n".join(lines) + "\n}}\n"
    file.write_text(text, encoding="utf-8")


def gathered(parts: Iterable[Things]) -> dict[str, Value]:
    """All things of some parts.

    Raises:
        ValueError: two things have one name.
    """
    found: dict[str, Value] = {}
    for part in parts:
        for name, value in part:
            if name in found:
                raise ValueError(f"two things are called {name!r}")
            found[name] = value
    return found
