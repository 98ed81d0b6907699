"""Run one example with one seed and print what came of it as one line of JSON.

    python tests/bridges/one.py NAME SEED [ENV MODEL]

`tests/bridges/run.py` starts it with the Python of the library's own environment.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def main(name: str, seed: str, *toy: str) -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "examples")]
    from support.examples import example

    given: dict[str, Any] = {}
    if toy:
        from support.digits import register_toys

        register_toys()
        given = {"env": toy[0], "model": toy[1]}
    module = example(name)
    kind = next(one for one in ("train", "play", "check") if hasattr(module, one))
    started = time.perf_counter()
    result = getattr(module, kind)(int(seed), **given)
    seconds = time.perf_counter() - started
    print("\n" + json.dumps({"kind": kind, "result": result, "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
