"""Makes the units that are named, or lists them; see the package."""

from __future__ import annotations

import argparse
import time

import torch

from benchmarks.pretrained import __doc__ as about
from benchmarks.pretrained.units import RESULTS, make_unit, units


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pretrained",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("unit", nargs="*", help="names; all that are missing where none is given")
    parser.add_argument("--list", action="store_true", help="what is there, and what is missing")
    parser.add_argument("--threads", type=int, default=2, help="cores (default 2)")
    parser.add_argument("--minutes", type=float, default=600.0, help="no unit begins after them")
    options = parser.parse_args()
    known = units()
    unknown = [name for name in options.unit if name not in known]
    if unknown:
        parser.error(f"no such units: {unknown}; expected some of {list(known)}")
    if options.list:
        for name in known:
            print("there  " if (RESULTS / f"{name}.json").is_file() else "missing", name)
        return
    torch.set_num_threads(options.threads)
    end = time.monotonic() + 60 * options.minutes
    for name in options.unit or known:
        if time.monotonic() > end:
            break
        result = make_unit(name)
        print(name, {key: value for key, value in result.items() if key != "success"}, flush=True)


if __name__ == "__main__":
    main()
