"""Makes the units that are named, or lists them; see the package."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import torch

from benchmarks.pretrained import __doc__ as about
from benchmarks.pretrained.units import again, made, make_unit, units


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pretrained",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("unit", nargs="*", help="names; all that are missing where none is given")
    parser.add_argument("--list", action="store_true", help="what is there, and what is missing")
    parser.add_argument("--threads", type=int, default=1, help="cores (default 1, as planned)")
    parser.add_argument("--minutes", type=float, default=600.0, help="no unit begins after them")
    parser.add_argument(
        "--again", action="store_true", help="make the weights of warm starts that were measured"
    )
    options = parser.parse_args()
    known = units()
    unknown = [name for name in options.unit if name not in known]
    if unknown:
        parser.error(f"no such units: {unknown}; expected some of {list(known)}")
    if options.list:
        for name in known:
            print("there  " if made(name) else "missing", name)
        return
    if options.again:
        torch.set_num_threads(options.threads)
        for name in options.unit:
            again(name)
        return
    wanted = [name for name in options.unit or known if not made(name)]
    if len(wanted) > 1:  # each in its own process, so that peaks of memory are its own
        end = time.monotonic() + 60 * options.minutes
        for name in wanted:
            if time.monotonic() < end:
                command = [sys.executable, "-m", __package__, name]
                subprocess.run([*command, "--threads", str(options.threads)], check=True)
        return
    torch.set_num_threads(options.threads)
    for name in wanted:
        result = make_unit(name)
        print(name, {key: value for key, value in result.items() if key != "success"}, flush=True)


if __name__ == "__main__":
    main()
