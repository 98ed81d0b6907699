"""(f) Peak memory of the three weight modes, of the length of rows, and of shared prompts.

    python -m benchmarks.speed.memory

Each cell is a process of its own, forked from one that has imported everything, that makes two
updates of a model of 13 million parameters. What the process has at its start is subtracted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
from functools import partial

from benchmarks.speed import toy
from benchmarks.speed.limit import MODES
from benchmarks.speed.record import Row, keep
from benchmarks.speed.sharing import Told, openings

SIZES = toy.SIZES.changed(hidden_size=512, num_heads=8, intermediate_size=2048, num_layers=3)
AGENTS = (1, 2, 4)
SHORT, LENGTHS = 32, (32, 128, 512)
ROWS = 4
"""Of a micro-batch, and episodes of a task."""
PROMPT = 8 * SHORT
"""Tokens of a prompt that rows share."""
UPDATES = 1  # and one before, as everywhere
KIB_PER_MIB = 1024


def peak_mib() -> float:
    """Most resident memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MIB


def grown_mib(mode: str, agents: int, length: int) -> float:
    """What updates take, in this process."""
    before = peak_mib()
    toy.measured(
        mode,
        {},
        UPDATES,
        sizes=SIZES,
        agents=agents,
        num_generations=ROWS,
        rows_per_micro_batch=ROWS,
        max_completion_length=length,
    )
    return peak_mib() - before


def apart(mode: str, agents: int, length: int) -> float:
    """The same, in a process of its own."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(grown_mib, (mode, agents, length))


def grown_by_prompts(mode: str, shares: bool) -> float:
    """What updates with long prompts take, in this process."""
    tokenizer = toy.model_and_tokenizer(SIZES)[1]
    texts, _ = openings(tokenizer, PROMPT)
    before = peak_mib()
    toy.measured(
        mode,
        {},
        UPDATES,
        sizes=SIZES,
        env=partial(Told, told=texts),
        max_completion_length=SHORT,
        share_prompts=shares,
    )
    return peak_mib() - before


def of_prompts(mode: str) -> Row:
    """One row of the third table."""
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        whole, shared = (pool.apply(grown_by_prompts, (mode, one)) for one in (False, True))
    return {
        "weights": mode,
        "MiB, whole rows": whole,
        "MiB, shared prompts": shared,
        "shared to whole": shared / whole,
    }


def of_mode(mode: str) -> Row:
    """One row of the first table."""
    mib = {agents: apart(mode, agents, SHORT) for agents in AGENTS}
    row: Row = {"weights": mode}
    row |= {f"MiB, agents: {agents}": one for agents, one in mib.items()}
    return row | {"2 agents to 1": mib[2] / mib[1], "4 agents to 1": mib[4] / mib[1]}


def main() -> None:
    """Measure and keep."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    keep("memory", [of_mode(mode) for mode in MODES])
    lengths = {length: apart("shared", 2, length) for length in LENGTHS}
    keep("memory_of_rows", [{"new tokens": k, "MiB": mib} for k, mib in lengths.items()])
    keep("memory_of_prompts", [of_prompts(mode) for mode in MODES])


if __name__ == "__main__":
    main()
