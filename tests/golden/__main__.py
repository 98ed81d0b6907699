"""Compare what this checkout makes with `golden.json`, or renew it on purpose.

make golden                     compare everything; exit status 1 where something differs
make golden PARTS="tasks rows"  some parts
make golden RENEW=1             write what is made now; read the diff before you commit it
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from tqdm import tqdm

from golden import episodes, learning, playthroughs, runs
from golden.record import FILE, Things, Value, differences, gathered, machine, read, write

PARTS: dict[str, Callable[[Path], Things]] = {
    "tasks": lambda folder: episodes.of_tasks(),
    "benchmark": lambda folder: episodes.of_benchmarks(),
    "episodes": lambda folder: episodes.of_forms(),
    "playthroughs": lambda folder: playthroughs.of_forms(),
    "advantages": learning.of_advantages,
    "rows": lambda folder: learning.of_rows(),
    "presets": runs.of_presets,
    "modes": runs.of_modes,
    "processes": lambda folder: runs.of_processes(),
}


def made(parts: list[str]) -> dict[str, Value]:
    """Everything of these parts, with a bar of what is done."""
    with tempfile.TemporaryDirectory() as folder, tqdm(unit="things") as bar:

        def counted(part: str) -> Things:
            bar.set_description(part)
            for thing in PARTS[part](Path(folder)):
                bar.update()
                yield thing

        return gathered(map(counted, parts))


def part_of(name: str) -> str:
    """The part that makes a thing: its name begins with it."""
    return name.split("/")[0]


def told(was: Mapping[str, Value], now: Mapping[str, Value], made_on: Mapping[str, str]) -> int:
    """Print what differs; 1 where something does that is judged on this machine."""
    same_machine = made_on == machine()
    found = differences(was, now, same_machine=same_machine)
    wrong = sum(one.judged for one in found)
    for one in found:
        print(one)
    print(f"{len(now)} things compared: {wrong} differ")
    if not same_machine:
        print(f"{len(found) - wrong} more were rounded otherwise and are not judged: the file was")
        print(f"made on {dict(made_on)}, this is {machine()}")
    if wrong:
        print("If that is on purpose, say why in CHANGELOG.md and renew: make golden RENEW=1")
    return int(wrong > 0)


def main(arguments: list[str] | None = None) -> int:
    """0 where all is as it was."""
    parser = argparse.ArgumentParser(
        prog="python -m golden",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {[*PARTS]}; all without")
    parser.add_argument("--renew", action="store_true", help="write what is made now")
    parser.add_argument("--file", type=Path, default=FILE, help="JSON file")
    options = parser.parse_args(arguments)
    if unknown := {*options.parts} - {*PARTS}:
        parser.error(f"no parts {sorted(unknown)}; expected some of {[*PARTS]}")
    parts = options.parts or [*PARTS]
    now = made(parts)
    if options.renew:
        before = read(options.file)[1] if options.file.exists() else {}
        others = {name: value for name, value in before.items() if part_of(name) not in parts}
        write({**others, **now}, options.file)
        print(f"{len(now)} things written to {options.file}")
        return 0
    made_on, kept = read(options.file)
    was = {name: value for name, value in kept.items() if part_of(name) in parts}
    return told(was, now, made_on)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(main())
