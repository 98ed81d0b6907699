"""Short training runs that several processes must do alike; also a program for torchrun.

python -m torch.distributed.run --nproc_per_node=2 process_cases.py FOLDER [CASE ...]

runs every case, or those named, and leaves FOLDER/<case>-<rank>.pt: the error that stopped it, if
any, the step it reached and its weights.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import save_file
from support.engine_server import StubEngine
from support.models import DEEP, make_trainer, untrained, weights
from support.strangers import Growing
from support.toys import Lower
from torch.distributed.tensor import DTensor

from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.wrappers import Memory
from trainers.batch import prefixes
from trainers.experience.collect import not_finite
from trainers.running import resume as resumption
from trainers.schedules.schedules import TaskSchedule


class Uneven(Lower):
    """Ends the episode early where somebody wrote an "e", so that episodes differ in length."""

    def play(self, joint_action: Any) -> Outcome:
        ended = any("e" in text for text in joint_action.values())
        return dataclasses.replace(super().play(joint_action), ended=ended)


class UnevenGrowing(Growing):
    """A stranger's environment whose episodes differ in length; fresh contexts give uneven rows."""

    def step(self, actions: dict[str, str]) -> Any:
        if any("e" in text for text in actions.values()):
            self.log += "More."
        return super().step(actions)


def forgetful() -> Any:
    """Seats take notes, after which a new row begins: trajectories become one row, two or three."""
    return Memory(Uneven(turns=3), max_chars=20)


SHAKY = {TaskSchedule(30, 2, 3).reset_seed(update, place) for update in (1, 2) for place in (0, 1)}


class ShakyLower(Lower):
    """Raises after the first update where `left_0` wrote an "a", in its second turn."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.shaky = seed in SHAKY
        return super().reset(seed, options)

    def play(self, joint_action: Any) -> Outcome:
        if self.shaky and self._taken["left_0"] == 2 and "a" in joint_action["left_0"]:
            raise OSError("an environment broke")
        return super().play(joint_action)


class PaysNaN(ShakyLower):
    """Pays NaN where `ShakyLower` raises."""

    def play(self, joint_action: Any) -> Outcome:
        try:
            return super().play(joint_action)
        except OSError:
            return Outcome(reward_terms={"right_0": {"lower": math.nan}})


class BrokenAtTheEnd(Lower):
    """Raises in the group of the second update that another process plays."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed == TaskSchedule(30, 2, 3).reset_seed(1, 1):
            raise OSError("an environment broke")
        return super().reset(seed, options)


class BrokenAtOnce(Lower):
    """Raises in the group of the first update that another process plays."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed == TaskSchedule(30, 2, 3).reset_seed(0, 1):
            raise OSError("an environment broke")
        return super().reset(seed, options)


class OtherSeats(Lower):
    """Has its seats in another order on another process."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if os.environ.get("RANK") == "1":
            self.possible_agents = self.possible_agents[::-1]


class RankedLower(Lower):
    """Pays each process differently, as programs that time out on one of them would."""

    def play(self, joint_action: Any) -> Outcome:
        outcome = super().play(joint_action)
        sign = -1.0 if os.environ.get("RANK") == "1" else 1.0
        terms = {
            agent: {"lower": sign * sum(parts.values()) * self._taken[agent]}
            for agent, parts in outcome.reward_terms.items()
        }
        return dataclasses.replace(outcome, reward_terms=terms)


MODES: dict[str, dict[str, Any]] = {
    "adapters": {},
    "shared": {"adapters": False},
    "separate": {"adapters": False, "weights": "separate"},
}
# Plain gradient steps, so that what differs in the last digit is not blown up by Adam.
PLAIN = {"optim": "sgd", "learning_rate": 3.0, "max_grad_norm": 0.0, "max_steps": 3}
SAVING = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1, "beta": 0.1}
# Whole rows: sharded weights share no prompts in the update, and are compared to the last digits.
SAVING |= {"num_iterations": 2, "share_prompts": False}
SHARDED = {"shard_weights": True}
STRANGER = {"env": UnevenGrowing, "context": "fresh", "max_turns": 2}
CASES: dict[str, dict[str, Any]] = {
    **{f"plain {mode}": {**PLAIN, **changes} for mode, changes in MODES.items()},
    **{f"plain {loss}": {**PLAIN, "loss_type": loss} for loss in ("grpo", "dapo", "luspo")},
    "plain sequence": {**PLAIN, "schedules": {"sequential": {}}},
    **{f"uneven {loss}": {**PLAIN, **STRANGER, "loss_type": loss} for loss in ("grpo", "dapo")},
    **{f"saving {mode}": {**SAVING, **changes} for mode, changes in MODES.items()},
    **{f"resumed {mode}": {**SAVING, **changes} for mode, changes in MODES.items()},
    **{
        f"sharded {kind} {mode}": {**SAVING, **MODES[mode], **SHARDED}
        for kind in ("saving", "resumed")
        for mode in ("adapters", "separate")
    },
    "plain branches": {**PLAIN, "algorithm": "at_grpo"},
    "plain memory": {**PLAIN, "env": forgetful},
    "plain critic": {**PLAIN, "algorithm": {"name": "central_critic", "critic": "model"}},
    "served adapters": {**PLAIN, "engine": "a stub per node"},
    "plain shaky": {**PLAIN, "env": ShakyLower, "max_failed_share": 1.0},
    "pays nan": {**PLAIN, "env": PaysNaN, "max_failed_share": 1.0},
    "sick": {"env": Lower, "max_steps": 3},
    "other seats": {"env": OtherSeats},
    "own folders": {"max_steps": 1},
    "broken": {"env": BrokenAtTheEnd},
    "broken at once": {"env": BrokenAtOnce},
    "best": {
        "max_steps": 4,
        "eval_env": RankedLower,
        "eval_strategy": "steps",
        "eval_steps": 1,
        "eval_tasks": 2,
        "save_strategy": "best",
        "metric_for_best_model": "eval_reward",
        "greater_is_better": True,
    },
}

LONG_CASES: dict[str, dict[str, Any]] = {
    **{f"sharded plain {m}": {**PLAIN, **c, **SHARDED} for m, c in MODES.items()},
    "sharded plain frozen": {**PLAIN, **SHARDED, "frozen": ["left_0"]},
    "sharded plain checkpointing": {**PLAIN, **SHARDED, "gradient_checkpointing": True},
    "sharded plain clipped": {**PLAIN, **SHARDED, "max_grad_norm": 0.01},
    **{
        f"{how}served inexact {mode}": {**PLAIN, **changes, **more, "engine": "a stub per node"}
        for mode, changes in MODES.items()
        if mode != "separate"  # each model needs a server of its own
        for how, more in (("", {}), ("sharded ", SHARDED))
    },
    "sharded best": {**CASES["best"], **SHARDED},
    "sharded sick": {**CASES["sick"], **SHARDED},
}


def held(trainer: Any) -> float:
    """The share of the weights that this process keeps."""
    weights: list[Any] = list(trainer.team.module.parameters())
    kept = [part.to_local() if isinstance(part, DTensor) else part for part in weights]
    return sum(map(torch.numel, kept)) / sum(map(torch.numel, weights))


def sicken(trainer: Any) -> None:
    """Let a log-prob that this process samples in the second update be no number."""
    once = trainer.stage.once

    def sick(update: int) -> Any:
        if update == 1:
            raise not_finite(update, "log-prob nan of left_0")
        return once(update)

    trainer.stage.once = sick


def own_base(folder: Path) -> str:
    """A folder of this process with the model of `make_trainer`."""
    base = folder / f"base-{os.environ.get('RANK')}"
    model, tokenizer = untrained(sizes=DEEP)
    # `save_pretrained` of a model writes on the first process alone.
    base.mkdir(exist_ok=True)
    model.config.save_pretrained(base)
    save_file(dict(model.named_parameters()), base / "model.safetensors", {"format": "pt"})
    tokenizer.save_pretrained(base)
    return str(base)


@patch.object(prefixes, "CALL", 0)  # rows are short, and share what they begin with
def run(folder: Path, name: str, **other: Any) -> dict[str, Any]:
    """One case, with other settings where given; its result as a plain record."""
    changes = {**CASES, **LONG_CASES}[name] | other
    env = changes.pop("env", Uneven)
    directory = folder / name.replace("resumed", "saving")
    if name == "own folders":
        directory = folder / f"{name} {os.environ.get('RANK')}"
        resumption.SECONDS_TO_SEE = 1
    stub = None
    if "engine" in changes:
        stub = StubEngine(own_base(folder))  # that this process alone knows
        exact = "inexact" not in name
        changes["engine"] = {"name": "vllm", "urls": [stub.url], "exact": exact, "per_node": True}
    if isinstance(changes.get("algorithm"), dict):
        changes["algorithm"] = {**changes["algorithm"], "body": own_base(folder)}
    try:
        trainer = make_trainer(directory, env, sizes=DEEP, **changes)
    except ValueError as refused:
        return {"error": str(refused)}
    before = weights(trainer)
    error = ""
    if "sick" in name and os.environ.get("RANK") == "1":
        sicken(trainer)
    try:
        resume = str(directory / "checkpoint-1") if "resumed" in name else None
        trainer.train(resume_from_checkpoint=resume)
    except (FloatingPointError, RuntimeError, OSError, ValueError) as stopped:
        error = str(stopped)
    return {
        "error": error,
        "step": trainer.state.global_step,
        "held": held(trainer),
        "asked": stub and dict(stub.asked),
        "before": before,
        "after": weights(trainer),
        "algorithm": trainer.algorithm.state_dict(),
        "logs": trainer.state.log_history,
    }


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    rank = os.environ.get("RANK", "0")
    for name in sys.argv[2:] or CASES:
        result = run(folder, name)
        torch.save(result, folder / f"{name}-{rank}.pt")


if __name__ == "__main__":
    main()
