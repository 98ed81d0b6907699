"""The numbers of docs/bench.md made again: floors, ceilings, digests, columns, and the table.

    python -m benchmarks.bench_columns --freeze    # scale and digests of data/bench-v2.yaml, too
    python -m benchmarks.bench_columns             # columns and table

`--freeze` is for the time before a benchmark is released, or for a new one: it writes each entry's
`floor` (what `--team wordless` returns), `floor_rule`, `ceiling` and `tasks_sha256`.

Then the teams of `PLAYED` are played, each into docs/bench/NAME.json. Columns of models are not
played: what they returned is in their files, and is scored again where environment, arguments and
tasks are still the same; other entries are left out. Last the table of the page is written, between
its two marks. One process, one thread, about five minutes.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import plain
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import with_interval
from llm_marl_envs.measure.runner import fingerprint_of_tasks, starts_of
from llm_marl_envs.measure.studies.bench_run import EVERY, run_benchmark
from llm_marl_envs.measure.studies.benchmark import (
    Benchmark,
    Entry,
    bench_rows,
    benchmark,
    read_bench,
    scored,
    summed_up,
)
from llm_marl_envs.measure.studies.fresh_tasks import rescaled, rule_of

ROOT = Path(__file__).parent.parent
PAGE, FILES = ROOT / "docs" / "bench.md", ROOT / "docs" / "bench"
NAME = "bench-v2"
FILE = ROOT / "llm_marl_envs" / "data" / f"{NAME}.yaml"
PLAYED: Mapping[str, tuple[str, bool]] = {
    "wordless": ("wordless", False),
    "random": ("random", False),
    "solo": ("agreed", True),
    "expert": ("expert", False),
    "agreed": ("agreed", False),
}
"""File -> team, and whether it plays one seat at a time."""
MODELS = ("tiny", "trained", "smollm2", "smollm2_warm", "smollm2_trained")
"""Files of models, which are scored again from what they returned."""
SILENT = "wordless", "best silent team: return"
"""The file of the team that every floor is of, and the heading of what it returns."""
HEADINGS = {
    "random": "random",
    "solo": "one expert, others silent",
    "expert": "experts, conventions by lot",
    "agreed": "experts that agree",
    "tiny": "tiny, warm-started",
    "trained": "tiny, trained",
    "smollm2": "SmolLM2, as it comes",
    "smollm2_warm": "SmolLM2, warm-started",
    "smollm2_trained": "SmolLM2, trained",
}
"""File -> heading of its column, in the order of the page."""
MARKS = "<!-- python -m benchmarks.bench_columns -->", "<!-- end -->"


def freeze(chosen: Benchmark) -> None:
    """Write scale, rule and digest of each entry into the benchmark's file."""
    text = FILE.read_text(encoding="utf-8")
    for name, entry in chosen.entries.items():
        env = entry.made()
        digest = fingerprint_of_tasks(env, starts_of(entry.plan, env)) or ""
        found = replace(rescaled(entry), tasks_sha256=digest, floor_rule=rule_of(entry))
        print(f"{name}: floor {found.floor:g} ({found.floor_rule}), ceiling {found.ceiling:g}")
        text = _with(text, name, found)
    FILE.write_text(text, encoding="utf-8")


def _with(text: str, name: str, entry: Entry) -> str:
    """The file's text with the numbers of an entry."""
    begun, block, rest = re.split(rf"(^  {name}:\n(?:    .*\n?)+)", text, flags=re.MULTILINE)
    for key in ("floor", "floor_rule", "ceiling", "tasks_sha256"):
        block = re.sub(rf"^    {key}: .*$", f"    {key}: {getattr(entry, key)}", block, flags=re.M)
    return begun + block + rest


def rescored(chosen: Benchmark, old: Mapping[str, Any]) -> dict[str, Any]:
    """A column of a model from what its tasks returned, where they are the tasks of the entry."""
    found = {}
    for name, one in old["entries"].items():
        entry = chosen.entries.get(name)
        now = entry and (entry.id, plain(entry.kwargs), entry.tasks_sha256)
        if entry and now == (one["env_id"], one["env_kwargs"], one["tasks_sha256"]):
            about = {"team": one["team"], "identity": one["identity"]}
            found[name] = scored(entry, one["returns"], about)
        else:
            print(f"{name}: its tasks have changed; left out")
    return {**summed_up(chosen, found, solo=old["solo"]), "library": old["library"]}


def columns(chosen: Benchmark) -> None:
    """Play the teams, score the models again, and write a file for each."""
    for name, (team, solo) in PLAYED.items():
        with tempfile.TemporaryDirectory() as folder:
            write_json(
                FILES / f"{name}.json", run_benchmark(chosen, {EVERY: team}, folder, solo=solo)
            )
    for name in MODELS:
        file = FILES / f"{name}.json"
        write_json(file, rescored(chosen, read_json(file)))


def table(chosen: Benchmark) -> str:
    """The page's table, in Markdown."""
    found = {
        heading: read_bench(FILES / f"{name}.json", chosen) for name, heading in HEADINGS.items()
    }
    silent = read_bench(FILES / f"{SILENT[0]}.json", chosen)["entries"]
    heading, *rows = bench_rows(found)
    heading.insert(1, SILENT[1])
    for row in rows:
        one = silent.get(row[0])
        row.insert(1, with_interval(one and Estimate(one["mean_return"], one["return_ci95"])))
    rows[-1][1] = ""  # returns of different scales have no mean
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--freeze", action="store_true", help="measure scale and digests, too")
    if parser.parse_args().freeze:
        freeze(benchmark(NAME))
    chosen = benchmark(NAME)
    columns(chosen)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    shown = f"{before}{MARKS[0]}\n\n{table(chosen)}\n\n{MARKS[1]}{after}"
    PAGE.write_text(shown, encoding="utf-8")
    print(f"written to {FILES} and {PAGE}")


if __name__ == "__main__":
    main()
