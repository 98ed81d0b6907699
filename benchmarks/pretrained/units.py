"""The runs of the study, each a unit of work: what it trains, and what it leaves behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

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
from trainers.models.imported import model_folder
from trainers.models.warm_start import WarmStart, warm_started
from trainers.running.memory import peak_mib
from trainers.running.run_folder import get_last
from trainers.train import build_trainer, model_path, read_run, settled

RESULTS = Path(__file__).parents[1] / "results" / "pretrained"
RUNS = Path("runs/pretrained")
PRESET = "coop_coding_smollm2"
WARM_STARTS, TEAMS = 3, 3
CONVENTIONS = ["item", "args", "list"]
"""One of each kind: the ceiling."""
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
    for warm in range(WARM_STARTS):
        found[f"warm-{warm}"] = lambda warm=warm: _warm(f"warm-{warm}", 1000 + warm)
    for warm in range(WARM_STARTS):
        for run in range(TEAMS):
            name, seed = f"team-{warm}-{run}", 2000 + 10 * warm + run
            found[name] = lambda name=name, warm=warm, seed=seed: _team(name, warm, seed)
    found["one"] = lambda: _warm("one", 1003, conventions=CONVENTIONS)
    for warm in range(WARM_STARTS):
        found[f"random-{warm}"] = lambda warm=warm: _team(
            f"random-{warm}", warm, 2100 + warm, ["random_partner=true"]
        )
        found[f"rejection-{warm}"] = lambda warm=warm: _rejection(warm)
        found[f"more-{warm}"] = lambda warm=warm: _more(warm)
    for arm in RATES:
        for seed in WEIGHT_SEEDS:
            found[f"{arm}-{seed}"] = lambda arm=arm, seed=seed: _weights(arm, seed)
    return found


def made(name: str) -> bool:
    """Whether a unit's result is there."""
    return _result_of(name).is_file()


def make_unit(name: str) -> Result:
    """The result of a unit, from its file or made now."""
    path = _result_of(name)
    if not made(name):
        write_json(path, {"unit": name, **units()[name]()})
    return read_json(path)


def _result_of(name: str) -> Path:
    return RESULTS / f"{name}.json"


def _base() -> Result:
    return _texts("base", model_folder("smollm2"))


def _warm(name: str, seed: int, **changes: Any) -> Result:
    folder = RUNS / name
    with _counted(name) as costs:
        warm_started(
            model_folder("smollm2"), ENV, settings=WarmStart(seed=seed, **changes), folder=folder
        )
    about = read_json(folder / "warm_start.json")
    return {"seed": seed, "loss": about["loss"], **costs(), **_texts(name, str(folder))}


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
    return max(RATES[arm], key=lambda rate: make_unit(f"rate-{arm}-{rate}")["agreement"])


def _weights(arm: str, seed: int) -> Result:
    overrides = [*_held(arm), f"learning_rate={rate_of(arm)}"]
    return _team(f"{arm}-{seed}", 0, seed, overrides)


def _held(arm: str) -> list[str]:
    return [f"weights={arm}", *(["lora=null"] if arm == "separate" else [])]


def _team(name: str, warm: int, seed: int, overrides: list[str] | None = None) -> Result:
    """Trained from a warm start of the study, at the rate that was chosen for adapters."""
    make_unit(f"warm-{warm}")
    base = str(RUNS / f"warm-{warm}")
    changes = [f"learning_rate={rate_of('adapters')}", *(overrides or [])]
    return _trained(name, base, seed, changes)


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
    if get_last(folder) is not None:
        changes.append("resume_from_checkpoint=true")
    with _counted(name) as costs:
        trainer = build_trainer(settled(read_run(PRESET, changes)))
        trainer.train(get_last(folder) is not None)
        if trainer.stopped:
            raise SystemExit(f"{name}: stopped; call again to go on")
    trainer.save_team(folder / "team")
    log = [entry for entry in trainer.state.log_history if "success" in entry]
    learned = {
        "seed": seed,
        "learning_rate": trainer.args.learning_rate,
        "updates": trainer.state.global_step,
        "generated_tokens": trainer.costs.tokens,
        "success": [entry["success"] for entry in log],
        "seconds": sum(entry["time/rollout"] + entry["time/update"] for entry in log),
        "peak_mib": round(peak_mib(trainer.accelerator.device)),
    }
    sets = TUNING if name.startswith("rate-") else SETS
    return {**learned, **costs(), **_texts(name, str(folder / "team"), sets)}


def _rejection(warm: int) -> Result:
    budget = _median(warm, "generated_tokens")
    overrides = ["algorithm=rejection", f"max_tokens={round(budget)}", "max_steps=200"]
    return _team(f"rejection-{warm}", warm, 2200 + warm, overrides)


def _more(warm: int) -> Result:
    """The warm start goes on, for as many CPU seconds as training took."""
    name, folder, first = f"more-{warm}", RUNS / f"more-{warm}", make_unit(f"warm-{warm}")
    of_a_step = first["cpu_seconds"] / WarmStart().steps
    steps = max(1, round(_median(warm, "cpu_seconds") / of_a_step))
    settings = WarmStart(
        seed=4000 + warm, steps=steps, demonstrations=steps * WarmStart().batch_size
    )
    with _counted(name) as costs:
        warm_started(str(RUNS / f"warm-{warm}"), ENV, settings=settings, folder=folder)
    about = {"seed": settings.seed, "steps": steps}
    return {**about, **costs(), **_texts(name, str(folder))}


def _median(warm: int, key: str) -> float:
    return median(make_unit(f"team-{warm}-{run}")[key] for run in range(TEAMS))


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


@contextmanager
def _counted(name: str) -> Iterator[Callable[[], Result]]:
    """CPU seconds of the block, with those of earlier calls that were stopped."""
    path, begun = RUNS / f"{name}.cpu.json", time.process_time()
    before = read_json(path)["calls"] if path.is_file() else []

    def so_far() -> Result:
        spent = read_json(path)["calls"]
        return {"cpu_seconds": round(sum(spent), 1), "calls": len(spent)}

    try:
        yield so_far
    finally:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"calls": [*before, time.process_time() - begun]})
