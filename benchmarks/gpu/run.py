"""One agent, two agents, shared prompts and vLLM on a GPU: tokens per second, memory, log-probs.

    python -m benchmarks.gpu.run MODEL [--vllm PYTHON] [--random]
    python -m benchmarks.gpu.run MODEL --cpu --dtype float32 --rows 8 --tokens 16 --updates 2

MODEL is a folder of any causal Hugging Face model with a chat template; 0.5 to 1.5 billion
parameters are meant. With `--random` its weights are drawn anew, so that its config and tokenizer
are enough. `--vllm` is the Python of an environment that has vLLM: a server is started with it, on
the second GPU where there is one. Each cell is a process of its own and trains LoRA adapters:

    one        one agent, all rows by `generate`
    two        two agents, as many rows in all
    whole      the same, each row with its prompt (`share_prompts: false`)
    vllm       two agents, sampled by the server (with --vllm)

Writes OUTPUT/gpu.json and prints its table.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from peft import LoraConfig
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from benchmarks.speed.record import ROOT, Row, table
from benchmarks.speed.sharing import Told, openings
from llm_marl_envs.files.json_files import write_json
from trainers.config import MAGRPOConfig
from trainers.engines.vllm_server import ServerCall
from trainers.trainer import MAGRPOTrainer

AGENTS = {"one": 1, "two": 2, "whole": 2, "vllm": 2}
GROUP = 4
RANK = 16
MOST_MEMORY = 1.1
"""What two agents may take, in times of one."""
LOGGED = "sampling/"


class BesideTrainer(ServerCall):
    """A server that leaves room for a trainer on the same GPU."""

    @property
    def command(self) -> list[str]:
        """As `ServerCall`."""
        return [*ServerCall.command.fget(self), "--gpu-memory-utilization", "0.4"]  # type: ignore[misc]


class Seconds(TrainerCallback):
    """Wall seconds of each update."""

    def __init__(self) -> None:
        self.ends = [time.perf_counter()]

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the time once the device is idle."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())


def peak_mib() -> float:
    """Of the GPU, or of the process where there is none."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def cell(name: str, options: argparse.Namespace) -> Row:
    """One row of the table, measured in this process."""
    agents = AGENTS[name]
    folder = options.output / name
    shutil.rmtree(folder, ignore_errors=True)  # of a measurement before this one
    args = MAGRPOConfig(
        str(folder),
        num_generations=GROUP,
        tasks_per_update=options.rows // (GROUP * agents),
        rows_per_micro_batch=min(options.rows // agents, 16),
        max_completion_length=options.tokens,
        max_steps=options.updates + 1,
        learning_rate=1e-5,
        lr_scheduler_type="constant",
        gradient_checkpointing=False,  # with it, prompts are not shared in the update
        bf16=options.dtype == "bfloat16" and not options.cpu,
        transcript_every=0,
        disable_tqdm=True,
        use_cpu=options.cpu,
        share_prompts=name != "whole",
        engine={"name": "vllm", "urls": [options.url]} if name == "vllm" else "generate",
    )
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=getattr(torch, options.dtype))
    lora = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    told = openings(tokenizer, options.prompt)[0][:agents]
    trainer = MAGRPOTrainer(
        model, partial(Told, told=told), args, peft_config=lora, processing_class=tokenizer
    )
    clock, clipped = Seconds(), count_clipped(trainer)
    trainer.add_callback(clock)
    trainer.train()
    log = [entry for entry in trainer.state.log_history if "time/rollout" in entry][1:]
    spent = [b - a for a, b in zip(clock.ends, clock.ends[1:], strict=False)][1:]
    totals = [entry["num_tokens"] for entry in trainer.state.log_history if "num_tokens" in entry]
    tokens = [b - a for a, b in zip(totals, totals[1:], strict=False)]
    rates = [n / entry["time/rollout"] for n, entry in zip(tokens, log, strict=True)]
    logged = {
        key: median(entry[key] for entry in log)
        for key in log[0]
        if key.startswith(LOGGED) and "talker" not in key
    }
    return {
        "cell": name,
        "agents": agents,
        "rows x tokens": f"{options.rows} x ({options.prompt} + {options.tokens})",
        "s per update": median(spent),
        "sampling, s": median(entry["time/rollout"] for entry in log),
        "sampled tokens/s": median(rates),
        "peak MiB": peak_mib(),
        **logged,
        **({"clipped share of ratios": sum(clipped) / len(clipped)} if clipped else {}),
    }


def count_clipped(trainer: Any) -> list[float]:
    """Filled while it trains: per micro-batch, the share of own tokens whose ratio is cut."""
    found: list[float] = []
    check = trainer._check_engine

    def checked(batches: list[dict[str, Any]]) -> None:
        check(batches)
        for batch in batches:
            own = batch["tool_mask"].bool()
            ratio = batch["importance_sampling_ratio"][own]
            most = trainer.args.vllm_importance_sampling_clip_max
            found.append(float((ratio >= most).float().mean()))

    trainer._check_engine = checked
    return found


def apart(name: str, options: argparse.Namespace, url: str = "") -> Row:
    """The same, in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.gpu.run", str(options.model), "--cell", name]
    words += ["--url", url, "--dtype", options.dtype, "--output", str(options.output)]
    words += ["--rows", str(options.rows), "--tokens", str(options.tokens)]
    words += ["--prompt", str(options.prompt)]
    words += ["--updates", str(options.updates), *(["--cpu"] if options.cpu else [])]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def by_server(options: argparse.Namespace) -> Row:
    """The cell that samples with vLLM."""
    serving = runpy.run_path(str(ROOT / "tests" / "engines" / "test_vllm_server.py"))["serving"]
    kind = ServerCall if options.cpu or torch.cuda.device_count() > 1 else BesideTrainer
    call = kind(
        model=str(options.model),
        adapters=2,
        rank=RANK,
        python=options.vllm,
        dtype=options.dtype,
        cpu=options.cpu,
    )
    with serving(call, options.output / "server.txt") as (url, _):
        return apart("vllm", options, url)


def with_random_weights(options: argparse.Namespace) -> Path:
    """A folder with the model's config and tokenizer, and weights drawn from a seed."""
    folder = options.output / "model"
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(options.model), dtype=getattr(torch, options.dtype)
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(options.model).save_pretrained(folder)
    return folder


def machine() -> Mapping[str, Any]:
    """What this ran on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"machine": platform.machine(), "gpu": gpu, "torch": torch.__version__}


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--random", action="store_true", help="draw the weights anew")
    parser.add_argument("--vllm", default="", help="Python of an environment with vLLM")
    parser.add_argument("--rows", type=int, default=128, help="of an update, a multiple of 8")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=256, help="of an answer")
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--cpu", action="store_true", help="to see that it runs")
    parser.add_argument("--output", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--cell", choices=AGENTS, help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run all cells, print their table, write them."""
    options = parsed()
    options.output = options.output.absolute()
    options.model = options.model.absolute()
    if options.cell:
        print(json.dumps(cell(options.cell, options)))
        return
    options.output.mkdir(parents=True, exist_ok=True)
    if options.random:
        options.model = with_random_weights(options)
    rows: list[Row] = []

    def add(row: Row) -> None:
        """Written at once, so that a run that is stopped keeps what it has."""
        rows.append(row)
        write_json(options.output / "gpu.json", {**machine(), "rows": rows})

    for name in ("one", "two", "whole"):
        add(apart(name, options))
    rows[1]["memory, times one agent"] = rows[1]["peak MiB"] / rows[0]["peak MiB"]
    rows[1]["times faster than whole"] = rows[2]["s per update"] / rows[1]["s per update"]
    if options.vllm:
        row = by_server(options)
        faster = row["sampled tokens/s"] / rows[1]["sampled tokens/s"]
        add({**row, "tokens/s, times `generate`": faster})
    write_json(options.output / "gpu.json", {**machine(), "rows": rows})
    print(table(rows))
    kept = rows[1]["memory, times one agent"] <= MOST_MEMORY
    print(f"memory of two agents: {'within' if kept else 'above'} {MOST_MEMORY} times one agent's")


if __name__ == "__main__":
    main()
