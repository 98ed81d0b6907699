"""Short runs of training: every preset and weight mode, resumed ones, one on two processes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from support.launch import on_two_nodes
from support.models import DEEP, make_trainer, weights
from support.paths import ROOT
from support.process_cases import MODES, Uneven

from golden.record import Things, Value, digest, numbers
from trainers.run_file import TINY
from trainers.train import build_trainer, read_run

STEPS = 3
SHORT = {
    "trainer.max_steps": STEPS,
    "trainer.tasks_per_update": 2,
    "trainer.num_generations": 4,
    "trainer.rows_per_micro_batch": 8,
    "trainer.report_to": "none",
    "trainer.use_cpu": "true",
    "trainer.disable_tqdm": "true",
    "tiny.steps": 8,
    "tiny.demonstrations": 40,
}
"""What is smaller in every preset; all else is the preset's."""
LOGGED = ("reward", "loss", "entropy", "grad_norm", "num_tokens", "turns", "kl")
PROGRAM = str(ROOT / "tests" / "support" / "process_cases.py")
TOGETHER = "saving adapters"


def of_presets(folder: Path) -> Things:
    """Weights and log after three updates, from a warm start of a few steps.

    Of the embedded model alone: others would be fetched.
    """
    presets = sorted(one.name for one in files("trainers").joinpath("presets").iterdir())
    for name in (one.removesuffix(".yaml") for one in presets if one.endswith(".yaml")):
        changes = {**SHORT, "output_dir": folder / name}
        run = read_run(name, [f"{key}={value}" for key, value in changes.items()])
        if run["model"] == TINY:
            yield from _trained(f"presets/{name}", build_trainer(run))


def of_modes(folder: Path) -> Things:
    """The same of an untrained model in each weight mode, and of a run from its checkpoint."""
    for mode, changes in MODES.items():
        short = {
            **changes,
            "sizes": DEEP,
            "max_steps": STEPS,
            "save_strategy": "steps",
            "save_steps": 1,
        }
        yield from _trained(f"modes/{mode}", make_trainer(folder / mode, Uneven, **short))
        again = make_trainer(folder / mode, Uneven, **short)
        resume = str(folder / mode / f"checkpoint-{STEPS - 2}")
        yield from _trained(f"modes/{mode}, resumed", again, resume)


def of_processes() -> Things:
    """Two processes, each on a node of its own."""
    with tempfile.TemporaryDirectory() as folder:
        on_two_nodes(PROGRAM, folder, TOGETHER)
        for rank in (0, 1):
            made = torch.load(Path(folder) / f"{TOGETHER}-{rank}.pt", weights_only=False)
            yield from _kept(f"processes/{rank}", made["before"], made["after"], made["logs"])


def _trained(name: str, trainer: Any, resume: str | None = None) -> Things:
    before = weights(trainer)
    trainer.train(resume_from_checkpoint=resume)
    yield from _kept(name, before, weights(trainer), trainer.state.log_history)


def _kept(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], logs: list[dict[str, Any]]
) -> Things:
    """How every policy's weights moved, and what the log says of each update."""
    for policy in sorted(after):
        moved = (after[policy] - before[policy]).detach().double().numpy()
        yield f"{name}/weights of {policy}", numbers(moved)
    entries = [one for one in logs if "reward" in one]
    found: dict[str, Value] = {
        key: [float(f"{one[key]:.9g}") for one in entries if key in one] for key in LOGGED
    }
    for key, values in found.items():
        if values:
            yield f"{name}/{key}", values
    keys = sorted({key for one in entries for key in one if not key.startswith("time/")})
    yield f"{name}/what is logged", digest(keys)
