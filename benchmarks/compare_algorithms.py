"""Algorithms compared at equal tokens, each at a learning rate of its own: runs, table, pictures.

    python -m benchmarks.compare_algorithms tabular --minutes 30
    python -m benchmarks.compare_algorithms text --bed climbing --minutes 60
    python -m benchmarks.compare_algorithms text --bed coop_writing --costs
    python -m benchmarks.compare_algorithms show
    python -m benchmarks.compare_algorithms power --rates 0.95 0.70 --seeds 20 50

What is finished is not run again, so every command goes on where it was. A cell is one method on
one bed. The protocol of a cell:

1. Its learning rate is tuned on other tasks than it is reported on: those of the `val` split, whose
   words are dealt anew and whose payoffs are rescaled. Each method tries the same rates with the
   same seeds. Where the best is the lowest or the highest, one more rate is tried beyond it, twice
   at most. Settings of its own stay at their defaults.
2. It is reported on the `train` task with fresh seeds.
3. A run ends after the update that reaches the budget of tokens, all of them counted.

`tabular` teaches softmax tables (`tables.py`), `text` the embedded language model
with the real trainer. One file of lines for each cell lies in `benchmarks/results/comparison`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.comparison.cells import REPORT_SEED, TUNING_SEED, Cell, Line, costs_due, due
from benchmarks.comparison.report import report
from benchmarks.rates import fisher_power

RESULTS = Path(__file__).parent / "results" / "comparison"
POINTS = 10
CHUNK = 10
"""Seeds that learn side by side, and are written together."""
GAMES = ("climbing", "penalty", "risky", "stag_hunt")


@dataclass(frozen=True)
class Method:
    """An algorithm with its settings.

    Attributes:
        algorithm: as a run file names it.
        options: settings of the trainer that differ.
        apart: whether it keeps something between updates, see `tables.Plan`.
        size: G.
        beds: where it is something else than another method; empty: everywhere.
    """

    algorithm: str
    options: dict[str, Any] = field(default_factory=dict)
    apart: bool = False
    size: int = 8
    beds: tuple[str, ...] = ()


METHODS: dict[str, Method] = {
    "magrpo": Method("magrpo"),
    "rejection": Method("rejection"),
    "hysteretic": Method("hysteretic"),
    "dr_mas": Method("dr_mas"),
    "magrpo_max": Method("magrpo", {"baseline": "max"}),
    "magrpo_none": Method("magrpo", {"baseline": "none"}),
    "magrpo_own": Method("magrpo", {"credit": "own"}, beds=("stag_hunt",)),
    "rae": Method("rae", apart=True),
    "difference": Method("difference"),
    "c3_sim": Method("c3_sim"),
    "magrpo_tree": Method("magrpo_tree", size=3, beds=("regime",)),
    "marshal": Method("marshal", apart=True, beds=("regime",)),
    "central_critic": Method("central_critic", apart=True, beds=("regime",)),
    "mappo": Method("mappo", apart=True, beds=("regime",)),
    "action_free_critic": Method("action_free_critic", apart=True, beds=("crowd",)),
}
BEDS = {**dict.fromkeys(GAMES, (3200, 12, 50)), "crowd": (14400, 6, 20), "regime": (5760, 6, 20)}
"""Bed -> budget in tokens, seeds of each rate that is tried, seeds that are reported."""
RATES = (0.02, 0.06, 0.2, 0.6)


def tabular_cells(beds: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    """Every method on every bed, beds first: a part of the time gives whole comparisons."""
    found = []
    for name in methods:
        for bed in beds:
            method, (budget, tuned, seeds) = METHODS[name], BEDS[bed]
            if bed not in (method.beds or BEDS):
                continue
            about = {"bed": bed, "method": name, "algorithm": method.algorithm, "budget": budget}
            about |= {"options": method.options, "size": method.size, "chance": "episode"}
            found.append(
                Cell(
                    file=RESULTS / bed / f"{name}.jsonl",
                    about=about,
                    rates=RATES,
                    tuning=[TUNING_SEED + i for i in range(tuned)],
                    seeds=[REPORT_SEED + i for i in range(seeds)],
                )
            )
    return found


def tabular(cell: Cell, part: str, rate: float, seeds: Sequence[int]) -> list[Line]:
    """Learn with these seeds; a tuning seed plays the `val` task of its number."""
    from benchmarks.tables import Plan, args_for, bed_of, learn
    from trainers.algorithms import make_algorithm

    method = METHODS[cell.about["method"]]

    def make(seed: int) -> Any:
        return make_algorithm(method.algorithm, args_for(method.options, method.size, seed))

    points = 1 if part == "tuning" else POINTS
    plan = Plan(rate=rate, budget=cell.about["budget"], points=points, apart=method.apart)
    split = "val" if part == "tuning" else "train"
    groups = [[seed] for seed in seeds] if part == "tuning" else [seeds]
    lines = []
    for some in groups:
        bed = bed_of(cell.about["bed"], split, some[0])
        begun = time.process_time()
        curves = learn(bed, make, some, plan)
        seconds = round((time.process_time() - begun) / len(some), 2)
        for seed, curve in zip(some, curves, strict=True):
            kept = curve if part == "report" else curve[-1:]
            costs = [[one.tokens, one.calls, one.updates, one.replayed_calls] for one, _ in kept]
            scores = [round(score, 4) for _, score in kept]
            lines.append(Line(part, rate, seed, costs, scores, seconds))
    return lines


def carry_out(
    cells: Sequence[Cell],
    run: Callable[[Cell, str, float, Sequence[int]], list[Line]],
    minutes: float,
    chunk: int,
    next_of: Callable[[Cell, int], tuple[str, float, list[int]] | None] = due,
) -> None:
    """Run what is due until the time is over; what has begun is finished."""
    end = time.monotonic() + 60 * minutes
    for cell in cells:
        cell.check()
        while (work := next_of(cell, chunk)) is not None:
            if time.monotonic() > end:
                print(f"time is over at {cell.name}; the same command goes on", flush=True)
                return
            cell.append(run(cell, *work))
        print(f"{cell.name}: whole", flush=True)
    print("everything is run")


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    forms = parser.add_subparsers(dest="form", required=True)
    one = forms.add_parser("tabular", help="softmax tables in the test beds")
    one.add_argument("--beds", nargs="+", choices=BEDS, default=[*BEDS])
    one.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    two = forms.add_parser("text", help="the embedded model with the real trainer")
    two.add_argument("--bed", default="climbing", help="of benchmarks/comparison/text.py")
    two.add_argument("--methods", nargs="+", help="default: those of the bed")
    two.add_argument("--seeds", type=int, help="default: those of the bed")
    two.add_argument("--costs", action="store_true", help="one run of each method, for its costs")
    for each in (one, two):
        each.add_argument("--minutes", type=float, default=60.0, help="then stop; default 60")
    forms.add_parser("show", help="write tables and pictures of what there is")
    power = forms.add_parser("power", help="of Fisher's test, exact")
    power.add_argument("--rates", nargs=2, type=float, required=True)
    power.add_argument("--seeds", nargs="+", type=int, required=True)
    return parser.parse_args()


def main() -> None:
    options = asked()
    if options.form == "tabular":
        cells = tabular_cells(options.beds, options.methods)
        carry_out(cells, tabular, options.minutes, CHUNK)
    elif options.form == "text":
        from benchmarks.comparison.text import text_cells, text_run

        cells = text_cells(RESULTS, options.bed, options.methods, options.seeds)
        run = partial(text_run, Path("runs") / "comparison")
        carry_out(cells, run, options.minutes, 1, costs_due if options.costs else due)
    elif options.form == "power":
        for n in options.seeds:
            print(f"{n} seeds a side: power {fisher_power(*options.rates, n):.2f}")
    else:
        report(RESULTS)


if __name__ == "__main__":
    main()
