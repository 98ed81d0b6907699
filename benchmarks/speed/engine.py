"""(h) Sampling by vLLM servers: what the client costs, and tokens per second beside `generate`.

    python -m benchmarks.speed.engine [--client]

The first table is of the client alone, against a server that answers at once. The second needs the
environment of `make test-engines` (runs/engines/vllm, 2.5 GB); `--client` leaves it out. There a
server of vLLM for CPUs and `generate` sample the same rows of two adapters; tokens per CPU second,
those of the server's processes counted in.
"""

from __future__ import annotations

import argparse
import runpy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch
from support.engine_server import StubEngine

from benchmarks.speed import toy
from benchmarks.speed.record import REPETITIONS, ROOT, Row, keep, ratio
from trainers.engines.base import Draw
from trainers.engines.generate import GenerateEngine
from trainers.engines.vllm import VLLMEngine
from trainers.engines.vllm_server import ServerCall
from trainers.weights.adapters import AdapterWeights

SEATS = {"talker_0": "talker_0", "talker_1": "talker_1"}
ROWS, TOKENS, PROMPT = 64, 64, 32
PYTHON = ROOT / "runs" / "engines" / "vllm" / "bin" / "python"


class Instant(StubEngine):
    """Answers each request at once, with the same tokens."""

    def _generated(self, body: Any) -> tuple[int, Any]:
        content = [{"logprob": -1.0}] * TOKENS
        choice = {"token_ids": list(range(3, 3 + TOKENS)), "logprobs": {"content": content}}
        return 200, {"model": body["model"], "choices": [choice]}


def team_at(folder: Path) -> AdapterWeights:
    """Two adapters of the toy's model, whose base lies in the folder."""
    sizes = toy.SIZES.changed(max_position_embeddings=512)  # 4 heads of 32, as vLLM needs
    model, tokenizer = toy.model_and_tokenizer(sizes)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return AdapterWeights(model, tokenizer, SEATS, toy.lora())


def move(team: AdapterWeights) -> None:
    """New weights, so that they are published anew."""
    with torch.no_grad():
        for policy in team.policies:
            for parameter in team.parameters(policy):
                parameter.add_(torch.randn_like(parameter) * 0.01)


def draws(rows: int) -> list[Draw]:
    """Rows of both policies."""
    seats = list(SEATS)
    return [Draw(seats[row % 2], tuple(range(3, 3 + PROMPT)), row) for row in range(rows)]


def timed(act: Callable[[], object], clock: Callable[[], float]) -> list[float]:
    """Seconds of each repetition after the first."""
    seconds = []
    for _ in range(REPETITIONS + 1):
        begun = clock()
        act()
        seconds.append(clock() - begun)
    return seconds[1:]


def client(folder: Path) -> Row:
    """Publishing and asking, wall and CPU; the server's threads are in this process."""
    team = team_at(folder / "base")
    server = Instant(str(folder / "base"))
    engine = VLLMEngine(team, folder / "versions", urls=[server.url])
    updates = iter(range(10_000))

    def publish() -> None:
        move(team)
        engine.publish(next(updates))

    publishing = timed(publish, time.perf_counter)
    rows = draws(ROWS)
    asking = timed(
        lambda: engine.sample(rows, max_tokens=TOKENS, temperature=1.0), time.process_time
    )
    server.close()
    return {
        "publish, ms a policy": 1e3 * median(publishing) / len(SEATS),
        "CPU ms a request, server counted in": 1e3 * median(asking) / ROWS,
        "raw": {"publish": publishing, "sample": asking},
    }


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """Of these processes and their children."""
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def against_generate(folder: Path) -> Row:
    """The same rows by both, by turns."""
    team = team_at(folder / "base")
    serving = runpy.run_path(str(ROOT / "tests" / "engines" / "test_vllm_server.py"))["serving"]
    call = ServerCall(model=str(folder / "base"), adapters=2, python=str(PYTHON), cpu=True)
    call = replace(call, dtype="float32")
    here = GenerateEngine(team)
    found: dict[str, list[float]] = {"vllm": [], "generate": [], "publish": []}
    with serving(call, folder / "log.txt") as (url, process):
        there = VLLMEngine(team, folder / "versions", urls=[url])
        root = psutil.Process(process.pid)
        tree = [psutil.Process(), root, *root.children(recursive=True)]
        for update in range(REPETITIONS + 1):
            move(team)
            begun = time.perf_counter()
            there.publish(update)
            found["publish"].append(time.perf_counter() - begun)
            for name, engine in (("vllm", there), ("generate", here)):
                begun = cpu_seconds(tree)
                drawn = engine.sample(draws(ROWS), max_tokens=TOKENS, temperature=1.0)
                tokens = sum(len(one.ids) for one in drawn)
                found[name].append(tokens / (cpu_seconds(tree) - begun))
    kept = {name: numbers[1:] for name, numbers in found.items()}
    return {
        "rows x tokens": f"{ROWS} x {TOKENS}",
        "`generate`, tokens per CPU s": median(kept["generate"]),
        "vLLM": median(kept["vllm"]),
        "vLLM to `generate`": ratio(kept["vllm"], kept["generate"]),
        "publish, ms a policy (wall)": 1e3 * median(kept["publish"]) / len(SEATS),
        "raw": kept,
    }


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", action="store_true", help="the client alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        keep("engine_client", [client(Path(folder))])
    if options.client:
        return
    if not PYTHON.exists():
        raise SystemExit(f"{PYTHON} is not there: run `make test-engines` once, or use --client")
    with TemporaryDirectory() as folder:
        keep("engine", [against_generate(Path(folder))])


if __name__ == "__main__":
    main()
