"""The runs of the study, each a unit of work: what it trains, and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.pretrained.pairings import Judge, agreement
from benchmarks.pretrained.sets import (
    ENV,
    HELPER,
    MAIN,
    SEATS,
    SETS,
    TUNING,
    TaskSet,
    read_texts,
    write_texts,
    written,
)
from llm_marl_envs import make
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.policies.named import Context, Sampling, named_team
from trainers.running.folder import newest_checkpoint
from trainers.running.memory import peak_mib
from trainers.train import build_trainer, model_path, read_run, settled
from trainers.weights.imported import model_folder, sha256
from trainers.weights.warm_start import WarmStart, warm_started

RESULTS = Path(__file__).parents[1] / "results" / "pretrained"
RUNS = Path("runs/pretrained")
PRESET = "coop_coding_smollm2"
WARM_STARTS, TEAMS = 3, 3
CONVENTIONS = ["item", "args"]
"""One of each kind that has two: the ceiling."""
WEIGHTS = "model.safetensors"
"""File of a model's folder."""
TEXT_SEED = 7
LENGTH = 56
"""Most tokens of a text, as in the preset."""

LORA_RATES, FULL_RATES = ("2e-4", "4e-4", "8e-4"), ("1e-5", "2e-5", "4e-5")
RATES = {"adapters": LORA_RATES, "shared": LORA_RATES, "separate": FULL_RATES}
"""Way to hold weights -> rates that are tried."""
TUNING_SEED, TUNING_UPDATES = 3999, 24
WEIGHT_SEEDS = (3000, 3001)

Result = dict[str, Any]


def units() -> dict[str, Callable[[], Result]]:
    """Name -> what makes its result, in an order in which all can be made."""
    found: dict[str, Callable[[], Result]] = {"base": _base}
    for arm, rates in RATES.items():
        for rate in rates:
            found[f"rate-{arm}-{rate}"] = lambda arm=arm, rate=rate: _tuning(arm, rate)
    for warm in range(WARM_STARTS):  # one after the other: its weights must lie here for the rest
        found[f"warm-{warm}"] = lambda warm=warm: _warm(f"warm-{warm}", 1000 + warm)
        for run in range(TEAMS):
            name, seed = f"team-{warm}-{run}", 2000 + 10 * warm + run
            found[name] = lambda name=name, warm=warm, seed=seed: _team(name, warm, seed)
        found[f"random-{warm}"] = lambda warm=warm: _team(
            f"random-{warm}", warm, 2100 + warm, ["random_partner=true"]
        )
        found[f"rejection-{warm}"] = lambda warm=warm: _rejection(warm)
        found[f"more-{warm}"] = lambda warm=warm: _more(warm)
    found["one"] = lambda: _warm("one", 1003, conventions=CONVENTIONS)
    for arm in RATES:
        for seed in WEIGHT_SEEDS:
            found[f"{arm}-{seed}"] = lambda arm=arm, seed=seed: _weights(arm, seed)
    return found


def made(name: str) -> bool:
    """Whether a unit's result is there."""
    return _result_of(name).is_file()


def make_unit(name: str) -> Result:
    """The result of a unit, from its file or made now."""
    if not made(name):
        write_json(_result_of(name), {"unit": name, **units()[name]()})
    return result(name)


def result(name: str) -> Result:
    """What a unit left behind.

    Raises:
        ValueError: it is not made yet: a unit makes no other one, whose costs would be its own.
    """
    if not made(name):
        raise ValueError(f"{name} is missing; make it first: python -m {__package__} {name}")
    return read_json(_result_of(name))


def _result_of(name: str) -> Path:
    return RESULTS / f"{name}.json"


def _base() -> Result:
    return _texts("base", model_folder("smollm2"))


def _warm(name: str, seed: int, **changes: Any) -> Result:
    folder = RUNS / name

    def make_it() -> Result:
        warm_started(
            model_folder("smollm2"), ENV, settings=WarmStart(seed=seed, **changes), folder=folder
        )
        loss = read_json(folder / "warm_start.json")["loss"]
        return {"seed": seed, "loss": loss, "weights": sha256(folder / WEIGHTS)}

    learned = _counted(name, make_it)
    return {**learned, **_texts(name, str(folder))}


def again(name: str) -> None:
    """Make the weights of a warm start whose result is there, and nothing else."""
    settings = WarmStart(seed=result(name)["seed"])
    warm_started(model_folder("smollm2"), ENV, settings=settings, folder=RUNS / name)


def _tuning(arm: str, rate: str) -> Result:
    """From a warm start that no other unit uses, judged on tasks that no other unit sees."""
    name, base = f"rate-{arm}-{rate}", model_path(read_run(PRESET), seed=0)
    overrides = [*_held(arm), f"learning_rate={rate}", f"max_steps={TUNING_UPDATES}"]
    learned = _trained(name, base, TUNING_SEED, overrides)
    judge = Judge(TUNING["val"])
    seats = judge.seats(read_texts(texts_of(name)))
    helper, main = seats[HELPER], seats[MAIN]
    found = {"agreement": agreement(helper, main), "success_val": judge.success(helper, main)}
    return {**learned, **found}


def rate_of(arm: str) -> str:
    """The rate with the highest agreement on `val`; of equal ones the lowest."""
    return max(RATES[arm], key=lambda rate: result(f"rate-{arm}-{rate}")["agreement"])


def _weights(arm: str, seed: int) -> Result:
    overrides = [*_held(arm), f"learning_rate={rate_of(arm)}"]
    return _team(f"{arm}-{seed}", 0, seed, overrides)


def _held(arm: str) -> list[str]:
    return [f"weights={arm}", *(["lora=null"] if arm == "separate" else [])]


def _team(name: str, warm: int, seed: int, overrides: list[str] | None = None) -> Result:
    """Trained from a warm start of the study, at the rate that was chosen for adapters."""
    changes = [f"learning_rate={rate_of('adapters')}", *(overrides or [])]
    return _trained(name, _base_of(warm), seed, changes)


def _base_of(warm: int) -> str:
    """The folder of a warm start, made again where it is not on this machine."""
    name = f"warm-{warm}"
    first, folder = result(name), RUNS / name
    if not (folder / WEIGHTS).is_file():  # in a process of its own: its costs are not the unit's
        again = [sys.executable, "-m", __package__, name, "--again"]
        subprocess.run([*again, "--threads", str(first["threads"])], check=True)
    if sha256(folder / WEIGHTS) != first["weights"]:
        raise ValueError(
            f"{folder}: other weights than those that {name} was measured with; machines round "
            f"differently: remove the results of {name} and of all that began with it"
        )
    return str(folder)


def _trained(name: str, base: str, seed: int, overrides: list[str]) -> Result:
    folder = RUNS / name
    changes = [
        f"model={base}",
        "warm_start=null",
        f"output_dir={folder}",
        f"seed={seed}",
        "disable_tqdm=false",
        "transcript_every=0",
        *overrides,
    ]
    if newest_checkpoint(folder) is not None:
        changes.append("resume_from_checkpoint=true")

    def make_it() -> Result:
        trainer = build_trainer(settled(read_run(PRESET, changes)))
        trainer.train(newest_checkpoint(folder) is not None)
        if trainer.stopped:
            raise SystemExit(f"{name}: stopped; call again to go on")
        trainer.save_team(folder / "team")
        log = [entry for entry in trainer.state.log_history if "success" in entry]
        return {
            "seed": seed,
            "base": sha256(Path(base) / WEIGHTS),
            "learning_rate": trainer.args.learning_rate,
            "updates": trainer.state.global_step,
            "generated_tokens": trainer.costs.tokens,
            "success": [entry["success"] for entry in log],
            "seconds": sum(entry["time/rollout"] + entry["time/update"] for entry in log),
        }

    learned = _counted(name, make_it)
    sets = TUNING if name.startswith("rate-") else SETS
    return {**learned, **_texts(name, str(folder / "team"), sets)}


def _rejection(warm: int) -> Result:
    budget = _median(warm, "generated_tokens")
    overrides = ["algorithm=rejection", f"max_tokens={round(budget)}", "max_steps=200"]
    return _team(f"rejection-{warm}", warm, 2200 + warm, overrides)


def _more(warm: int) -> Result:
    """The warm start goes on, for as many CPU seconds as training took."""
    name, folder, first = f"more-{warm}", RUNS / f"more-{warm}", result(f"warm-{warm}")
    of_a_step = first["cpu_seconds"] / WarmStart().steps
    steps = max(1, round(_median(warm, "cpu_seconds") / of_a_step))
    settings = WarmStart(
        seed=4000 + warm, steps=steps, demonstrations=steps * WarmStart().batch_size
    )

    base = _base_of(warm)

    def make_it() -> Result:
        warm_started(base, ENV, settings=settings, folder=folder)
        return {"seed": settings.seed, "steps": steps}

    learned = _counted(name, make_it)
    return {**learned, **_texts(name, str(folder))}


def _median(warm: int, key: str) -> float:
    return median(result(f"team-{warm}-{run}")[key] for run in range(TEAMS))


def texts_of(name: str) -> Path:
    """Where the texts of a unit are kept."""
    return RESULTS / f"{name}.texts.jsonl.gz"


def _texts(name: str, team: str, sets: Mapping[str, TaskSet] = SETS) -> Result:
    """Write the texts of a team's seats at temperature 1; what the result says of them."""
    sampling = Sampling(temperature=1.0, max_completion_length=LENGTH)
    named = named_team(team, Context(env=make(ENV), sampling=sampling))
    begun = time.process_time()
    texts = written(named.seats[SEATS[0]], TEXT_SEED, sets)
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_texts(texts_of(name), texts)
    seconds = round(time.process_time() - begun, 1)
    return {"texts": len(texts), "text_cpu_seconds": seconds}


def _counted(name: str, make_it: Callable[[], Result]) -> Result:
    """What a unit has learned and what that cost, with earlier calls that were stopped.

    Kept as soon as it is there, so that texts can be written again. What was spent on a run whose
    folder has gone does not count.
    """
    path = RUNS / f"{name}.costs.json"
    there = path.is_file() and any(one.is_dir() for one in RUNS.glob(f"{name}*"))
    found: Result = read_json(path) if there else {"cpu_seconds": 0.0, "peak_mib": 0, "calls": 0}
    if "seed" in found:
        return found
    learned: Result = {}
    begun = time.process_time()
    try:
        learned = make_it()
    finally:
        costs = {
            "cpu_seconds": round(found["cpu_seconds"] + time.process_time() - begun, 1),
            "peak_mib": max(found["peak_mib"], round(peak_mib(torch.device("cpu")))),
            "calls": found["calls"] + 1,
            "threads": torch.get_num_threads(),
        }
        write_json(path, {**learned, **costs})
    return {**learned, **costs}
