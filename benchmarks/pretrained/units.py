"""The runs of the study, each a unit of work: what it trains, and what it leaves behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pretrained.sets import ENV, SEATS, write_texts, written
from llm_marl_envs import make
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.policies.named import Context, Sampling, named_team
from trainers.models.imported import model_folder
from trainers.models.warm_start import WarmStart, warm_started
from trainers.running.memory import peak_mib
from trainers.running.run_folder import get_last
from trainers.train import build_trainer, read_run, settled

RESULTS = Path(__file__).parents[1] / "results" / "pretrained"
RUNS = Path("runs/pretrained")
PRESET = "coop_coding_smollm2"
WARM_STARTS, TEAMS = 3, 3
CONVENTIONS = ["item", "args", "list"]
"""One of each kind: the ceiling."""
TEXT_SEED = 7
LENGTH = 56
"""Most tokens of a text, as in the preset."""

Result = dict[str, Any]


def units() -> dict[str, Callable[[], Result]]:
    """Name -> what makes its result, in an order in which all can be made."""
    found: dict[str, Callable[[], Result]] = {"base": _base}
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
    return found


def make_unit(name: str) -> Result:
    """The result of a unit, from its file or made now."""
    path = RESULTS / f"{name}.json"
    if path.is_file():
        return read_json(path)
    result = units()[name]()
    write_json(path, {"unit": name, **result})
    return read_json(path)


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


def _team(name: str, warm: int, seed: int, overrides: list[str] | None = None) -> Result:
    make_unit(f"warm-{warm}")
    folder = RUNS / name
    changes = [
        f"model={RUNS / f'warm-{warm}'}",
        "warm_start=null",
        f"output_dir={folder}",
        f"seed={seed}",
        "disable_tqdm=false",
        "transcript_every=0",
        *(overrides or []),
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
        "updates": trainer.state.global_step,
        "generated_tokens": trainer.costs.tokens,
        "success": [entry["success"] for entry in log],
        "seconds": sum(entry["time/rollout"] + entry["time/update"] for entry in log),
        "peak_mib": round(peak_mib(trainer.accelerator.device)),
    }
    return {**learned, **costs(), **_texts(name, str(folder / "team"))}


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


def _texts(name: str, team: str) -> Result:
    """Write the texts of a team's seats at temperature 1; what the result says of them."""
    sampling = Sampling(temperature=1.0, max_completion_length=LENGTH)
    named = named_team(team, Context(env=make(ENV), sampling=sampling))
    begun = time.process_time()
    texts = written(named.seats[SEATS[0]], TEXT_SEED)
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_texts(RESULTS / f"{name}.texts.jsonl.gz", texts)
    seconds = round(time.process_time() - begun, 1)
    return {"texts": len(texts), "text_cpu_seconds": seconds}


@contextmanager
def _counted(name: str) -> Iterator[Callable[[], Result]]:
    """CPU seconds of the block, with those of earlier calls that were stopped."""
    path, begun = RUNS / f"{name}.cpu.json", time.process_time()
    before: Any = read_json(path) if path.is_file() else []

    def so_far() -> Result:
        spent: Any = read_json(path)
        return {"cpu_seconds": round(sum(spent), 1), "calls": len(before) + 1}

    try:
        yield so_far
    finally:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, [*before, time.process_time() - begun])
