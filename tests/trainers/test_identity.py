"""The gradient of each update is that of its own records (`support/identity.py`).

Episodes are sampled by the trainer, from an untrained model that says few things, so that episodes
begin alike and branches say what was said before. All that lies between a record and the weights
is in the comparison: advantages, weights, packing, shared prompts, micro-batches, TRL's loss.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoHaConfig, LoraConfig
from support import identity
from support.engine_server import StubEngine
from support.models import DEEP, make_trainer, weights
from support.process_cases import own_base
from support.toys import Lower, Relay, Whims
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.core.errors import WorkFailedError
from llm_marl_envs.wrappers import Memory
from trainers.algorithms import ALGORITHMS
from trainers.batch import prefixes, shared_prompts
from trainers.batch.drift import EngineDriftError
from trainers.batch.identity import LostGradientError
from trainers.recipes import RECIPES

CLOSE = 2e-6
"""Of float32; measured 2e-7 to 5e-7."""


@pytest.fixture(autouse=True)
def any_saving_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows here are short; what they begin with is shared all the same."""
    monkeypatch.setattr(prefixes, "CALL", 0)
    monkeypatch.setattr(prefixes, "APART", 1)


class LowerInTurn(Relay):
    """Each seat is paid the share of its text that is lower-case letters."""

    append_only = True

    def play_one(self, agent: str, action: str) -> Outcome:
        share = sum(c.isascii() and c.islower() for c in action) / max(len(action), 1)
        return replace(super().play_one(agent, action), reward_terms={agent: {"lower": share}})


class Judged(Lower):
    """Says who is right, as debates do."""

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        right = {agent: any(map(str.islower, text)) for agent, text in joint_action.items()}
        facts = {agent: {"right": one} for agent, one in right.items()}
        return replace(super().play(joint_action), facts=facts)


def trainer_of(folder: Path, env: Any, **changes: Any) -> Any:
    sizes = {
        "num_generations": 3,
        "tasks_per_update": 2,
        "max_completion_length": 2,
        "temperature": 0.15,  # an untrained model says everything alike at 1
        "rows_per_micro_batch": 16,
    }
    return make_trainer(folder, env, **{**sizes, **changes})


NEEDS: Mapping[str, Mapping[str, Any]] = {
    "advantage_alignment": {"credit": "own"},
    "c3": {"env": LowerInTurn},
    "maporl": {"env": Judged},
}
"""What an algorithm needs other than two seats that act at once."""


@pytest.mark.parametrize("name", [*ALGORITHMS.names(), *RECIPES.names()])
def test_every_algorithm_and_recipe(tmp_path: Path, name: str) -> None:
    changes = {"env": Lower, "algorithm": name, **NEEDS.get(name, {})}
    assert identity.error(trainer_of(tmp_path, changes.pop("env"), **changes)) < CLOSE


def loses_tokens(*_: Any) -> Any:
    """Stands in for the tokens that any row of a part asks for: those of its first row."""
    asked, places, parts = _
    first = [int((places == part).nonzero()[0]) for part in range(parts)]
    return asked[first]


FEW = {"algorithm": "at_grpo", "max_completion_length": 1, "temperature": 0.07}
"""What is said is said again by other episodes and branches, which train on other turns of it."""


def test_a_lost_token_is_noticed_by_the_test_and_by_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As shared prompts once lost them: what equal rows train on was taken from one of them."""
    assert identity.error(trainer_of(tmp_path / "1", Lower, **FEW)) < CLOSE
    monkeypatch.setattr(shared_prompts, "_of_any", loses_tokens)
    assert identity.error(trainer_of(tmp_path / "2", Lower, **FEW)) > 0.01
    with pytest.raises(WorkFailedError, match="no step was taken"):
        trainer_of(tmp_path / "3", Lower, **FEW).train()


@pytest.mark.parametrize("unknown", [{"delta": 0.9}, {"off_policy_mask_threshold": 1.0}])
def test_a_lost_token_is_noticed_whatever_the_loss_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unknown: Mapping[str, float]
) -> None:
    """Also of a loss whose gradient nobody knows beforehand: by the log-probs alone."""
    trainer_of(tmp_path / "1", Lower, **FEW, **unknown).train()
    monkeypatch.setattr(shared_prompts, "_of_any", loses_tokens)
    with pytest.raises(EngineDriftError, match="no step was taken"):
        trainer_of(tmp_path / "2", Lower, **FEW, **unknown).train()


def test_a_token_that_the_loss_forgets_stops_the_run_before_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = GRPOTrainer._compute_loss

    def forgets(trainer: Any, model: Any, inputs: Any) -> Tensor:
        mask = inputs["completion_mask"].clone()
        mask[:, inputs["advantages"].abs().sum(0).argmax()] = 0
        return computed(trainer, model, {**inputs, "completion_mask": mask})

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", forgets)
    trainer = trainer_of(tmp_path, Lower)
    begun = weights(trainer)
    with pytest.raises(LostGradientError, match=r"update 0: task .* by 0, .*no step was taken"):
        trainer.train()
    assert all(torch.equal(value, begun[policy]) for policy, value in weights(trainer).items())


LOSSES = ("grpo", "dr_grpo", "dapo", "luspo", "sapo", "cispo", "vespo")
ADAPTED = {"r": 4, "target_modules": ["q_proj", "v_proj"]}
DROPS = {"peft_config": LoraConfig(**ADAPTED, lora_dropout=0.3), "num_iterations": 2}
NO_FAULTS: Mapping[str, Mapping[str, Any]] = {
    "ratios of 1 weigh less": {"loss_type": "cispo"},
    "ratios of 1 are clipped": {"delta": 0.9},
    "dropout clips ratios": {**DROPS, "learning_rate": 0.3, "max_steps": 6},
    "adapters that drop": {
        "peft_config": LoHaConfig(**ADAPTED, rank_dropout=0.5),
        "learning_rate": 0.3,
        "max_steps": 6,
    },
}
"""In all of these the loss is as it was asked for."""


@pytest.mark.parametrize("changes", NO_FAULTS.values(), ids=[*NO_FAULTS])
def test_what_is_no_fault_stops_no_run(tmp_path: Path, changes: Mapping[str, Any]) -> None:
    plan = {"temperature": 1.0, "max_completion_length": 3, "rows_per_micro_batch": 8, **changes}
    trainer = trainer_of(tmp_path, Lower, **plan)
    trainer.train()
    assert trainer.state.global_step == trainer.state.max_steps


@pytest.mark.full
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_moves_as_its_formula_says(tmp_path: Path, loss: str, level: str) -> None:
    """With a KL term that the ratio multiplies; and where dropout changes ratios."""
    plan = {"loss_type": loss, "importance_sampling_level": level, "beta": 0.1, "temperature": 1.0}
    trainer_of(tmp_path / "1", Lower, use_bias_correction_kl=True, **plan).train()
    trainer_of(tmp_path / "2", Lower, **DROPS, learning_rate=0.3, max_steps=6, **plan).train()


# -- the other settings, in pairs ------------------------------------------------------------------
AXES: dict[str, tuple[Any, ...]] = {
    "algorithm": ("magrpo", "at_grpo", "c3_sim", "marft"),
    "weights": ("adapters", "shared", "separate"),
    "engine": ("generate", "server"),
    "share_prompts": (True, False),
    "beside": ("nothing", "asides", "memory"),
    "who": ("seats", "population"),
    "iteration": (0, 1),
}
Case = tuple[Any, ...]


def allowed(case: Case) -> bool:
    """What the trainer or the server does not refuse."""
    one = dict(zip(AXES, case, strict=True))
    plain = one["beside"] == "nothing" and one["who"] == "seats"
    alone = plain or one["algorithm"] == "magrpo"
    served = one["engine"] == "generate" or one["weights"] != "separate"
    many = one["who"] == "seats" or one["weights"] == "adapters"
    return alone and served and many


CASES = [case for case in itertools.product(*AXES.values()) if allowed(case)]


def in_pairs() -> Iterator[Case]:
    """Cases in which each pair of values that occurs in any of them occurs."""
    left = {pair for case in CASES for pair in itertools.combinations(enumerate(case), 2)}
    while left:
        best = max(CASES, key=lambda c: len(left & {*itertools.combinations(enumerate(c), 2)}))
        left -= {*itertools.combinations(enumerate(best), 2)}
        yield best


PAIRS = [*in_pairs()]
MOVES = {"adapters": 0.3, "shared": 0.03, "separate": 0.03}


def environment(beside: str) -> Any:
    env = Lower()
    if beside == "asides":
        env.habits, env.beside = (Whims,), dict.fromkeys(env.possible_agents, 2)
    return Memory(env, max_chars=8, resets=2) if beside == "memory" else env


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.full if case in PAIRS else pytest.mark.long)
        for case in CASES
    ],
    ids=lambda case: ", ".join(map(str, case)),
)
def test_whatever_else_is_set(tmp_path: Path, case: Case) -> None:
    one = dict(zip(AXES, case, strict=True))
    changes: dict[str, Any] = {"weights": one["weights"], "adapters": one["weights"] == "adapters"}
    if one["who"] == "population":
        changes["schedules"] = {"population": {"size": 3}}
    with contextlib.ExitStack() as stack:
        if one["engine"] == "server":
            served = stack.enter_context(contextlib.closing(StubEngine(own_base(tmp_path))))
            changes["engine"] = {"name": "vllm", "urls": [served.url], "exact": True}
            changes["temperature"] = 1.0
        trainer = trainer_of(
            tmp_path / "run",
            partial(environment, one["beside"]),
            algorithm=one["algorithm"],
            share_prompts=one["share_prompts"],
            num_iterations=1 + one["iteration"],
            beta=0.1 * (one["iteration"] and one["algorithm"] in ("magrpo", "marft")),
            sizes=DEEP,
            **changes,
        )
        assert identity.error(trainer, one["iteration"], MOVES[one["weights"]]) < CLOSE


# -- what is logged of it --------------------------------------------------------------------------
MEANS = ("entropy", "kl", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean")


@pytest.mark.full
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("beside", ["memory", "nothing"])
def test_logged_means_do_not_depend_on_micro_batches(
    tmp_path: Path, beside: str, level: str
) -> None:
    """Two iterations with a KL term; some micro-batches are padding alone."""
    logs = []
    for rows, shares in ((1, True), (3, True), (64, True), (3, False)):
        trainer = trainer_of(
            tmp_path / f"{rows}-{shares}",
            partial(environment, beside),
            rows_per_micro_batch=rows,
            share_prompts=shares,
            num_iterations=2,
            beta=0.1,
            temperature=1.0,
            importance_sampling_level=level,
            epsilon=0.01 if level == "token" else 0.001,
            logging_steps=2,
            max_steps=2,
            optim="sgd",
            learning_rate=5.0,
            max_grad_norm=0.0,
        )
        trainer.train()
        logs.append(trainer.state.log_history[0])
    assert logs[0]["entropy"] == pytest.approx(5.69, abs=0.02)  # ln 300 = 5.70: it is untrained
    assert min(logs[0][name] for name in MEANS[1:]) > 1e-5
    for other in logs[1:]:
        for name in MEANS:
            assert other[name] == pytest.approx(logs[0][name], rel=1e-3, abs=1e-6), name
