"""(e) What an update costs against agents, turns, group and length: fitted exponents.

    python -m benchmarks.speed.scaling [--repetitions 5] [--sizes turns]

One size grows, the others stay small. An exponent is the slope of a line through the logarithms of
sizes and process seconds, 1 is linear; "upper half" is that of the larger sizes alone, where what
does not grow hides less. "Around the model" is the same with a model of next to nothing, so that
what the trainer adds is seen. "Bare" is that of the bare limit (`limit.py`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.speed import toy
from benchmarks.speed.limit import bare
from benchmarks.speed.record import REPETITIONS, Row, alternate, exponent, keep
from trainers.weights.tiny import TinySettings

SIZES: Mapping[str, Sequence[int]] = {
    "agents": (2, 4, 8, 16, 32),
    "turns": (1, 2, 4, 8),
    "group": (4, 8, 16, 32, 64),
    "length": (32, 64, 128, 256, 512, 1024),
}
SMALLEST = {name: sizes[0] for name, sizes in SIZES.items()}
MODEL = toy.SIZES.changed(num_layers=2)
NEXT_TO_NOTHING = toy.SIZES.changed(
    vocab_size=280, hidden_size=8, num_layers=1, num_heads=1, intermediate_size=8
)


def seconds_of(sizes: Mapping[str, int], model: TinySettings, repetitions: int) -> list[float]:
    """Process seconds of updates of these sizes."""
    return toy.measured(
        "shared",
        {},
        repetitions,
        agents=sizes["agents"],
        turns=sizes["turns"],
        num_generations=sizes["group"],
        max_completion_length=sizes["length"],
        sizes=model,
    )["update"]


def bare_seconds(sizes: Mapping[str, int], repetitions: int) -> list[float]:
    """Those of the bare limit."""
    model, tokenizer = toy.model_and_tokenizer(MODEL)
    rows = sizes["agents"] * sizes["group"]
    job = bare(model, tokenizer, rows, sizes["length"], sizes["turns"])
    return alternate({"bare": job}, repetitions)["bare"]


def grown(name: str, repetitions: int) -> Row:
    """One row of the table."""
    values = SIZES[name]
    raw: dict[str, list[list[float]]] = {"update": [], "around": [], "bare": []}
    for value in values:
        sizes = {**SMALLEST, name: value}
        raw["update"].append(seconds_of(sizes, MODEL, repetitions))
        raw["around"].append(seconds_of(sizes, NEXT_TO_NOTHING, repetitions))
        raw["bare"].append(bare_seconds(sizes, repetitions))

    def fitted(part: str, first: int = 0) -> float:
        return exponent(values[first:], [median(one) for one in raw[part]][first:])

    upper = len(values) // 2
    return {
        "grows": name,
        "sizes": ", ".join(f"{value:,}" for value in values),
        "exponent": fitted("update"),
        "upper half": fitted("update", upper),
        "around the model": fitted("around"),
        "around, upper half": fitted("around", upper),
        "bare": fitted("bare"),
        "bare, upper half": fitted("bare", upper),
        "s per update, largest": median(raw["update"][-1]),
        "raw": raw,
    }


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    options = parser.parse_args()
    some = "" if options.sizes == list(SIZES) else "_" + "_".join(options.sizes)
    keep(f"scaling{some}", [grown(name, options.repetitions) for name in options.sizes])


if __name__ == "__main__":
    main()
