"""What a run costs, and a budget of tokens that ends it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import make_trainer, settings, weights
from support.toys import Lower

from llm_marl_envs.core.records import Branch, Episode, EpisodeGroup, Response, StopReason, Turn
from trainers.running.costs import CRITIC_TOKENS, Costs, update_costs


def turn(agent: str, index: int, prompt: str, said: str, *, given: bool = False) -> Turn:
    """A turn whose tokens are characters; both agents act in the step that `index` numbers."""
    ids: Any = {"prompt_ids": tuple(map(ord, prompt)), "completion_ids": tuple(map(ord, said))}
    answer = Response(text=said, policy="both", **ids)
    return Turn(
        agent=agent,
        index=index,
        messages=(),
        response=answer,
        reward=0.0,
        given=given,
        step=index,
    )


def episode(*turns: Turn, branch: Branch | None = None) -> Episode:
    return Episode(
        env_id="toy",
        env_kwargs={},
        task_id="t",
        seed=0,
        agents=("a", "b"),
        turns=turns,
        stop_reason=StopReason.TERMINATED,
        success=None,
        branch=branch,
    )


def test_costs_of_an_update_by_hand():
    first = episode(
        turn("a", 0, "ab", "x"),
        turn("b", 0, "abc", "yy"),
        turn("a", 1, "abx!!", "z"),  # goes on from "ab" + "x": two tokens are new
        turn("b", 1, "abz", "z"),  # shares "ab" with "abc" + "yy": one is new
    )
    second = episode(turn("a", 0, "ab", "w"))  # its prompt was sent before
    branched = episode(
        turn("a", 0, "ab", "x", given=True),
        turn("b", 0, "abc", "yy", given=True),
        turn("a", 1, "abx!!", "u"),  # its prompt was sent before
        turn("b", 1, "abz", "z", given=True),
        branch=Branch(parent=0, agent="a", turn=1, held=True),
    )
    group = EpisodeGroup(task_id="t", seed=0, episodes=(first, second, branched))
    found = update_costs([group], {CRITIC_TOKENS: 7.0}, ())
    assert found == Costs(
        tokens=1 + 2 + 1 + 1 + 1 + 1,
        prompt_tokens=2 + 3 + 5 + 3 + 2 + 5,
        new_prompt_tokens=2 + 3 + 2 + 1,
        calls=2 + 1 + 2,
        replayed_calls=1,
        critic_tokens=7,
        updates=1,
    )
    twice = update_costs([group, group], {}, ("b",))
    assert twice.calls == 2 * 5 + 2 * 4  # each message of b was judged once more
    assert twice.new_prompt_tokens == 2 * 8
    assert found.plus(twice).tokens == 3 * 7


@pytest.mark.parametrize(
    ("algorithm", "calls", "replayed"),
    [
        ("magrpo", 4, 0),
        # A second sample at the reset is an episode of its own; one at turn 1 replays a step.
        ("magrpo_tree", 2 * 2 + 2 * 2, 2),
        # 2 episodes of 2 steps; 2 messages at each step, each played again from there.
        ("difference", 4 + 2 * 2 * 2 * 2, 2 * 2),
    ],
)
def test_branches_are_not_free(tmp_path: Path, algorithm: str, calls: int, replayed: int):
    size: dict[str, Any] = {"num_generations": 2, "tasks_per_update": 1, "max_steps": 1}
    trainer = make_trainer(tmp_path, lambda: Lower(turns=2), algorithm=algorithm, **size)
    trainer.train()
    (logged, *_) = trainer.state.log_history
    assert (logged["cost/calls"], logged["cost/replayed_calls"]) == (calls, replayed)
    assert logged["cost/updates"] == 1
    assert logged["cost/new_prompt_tokens"] < logged["num_prompt_tokens"]
    assert logged["cost/seconds"] > 0


def spent(trainer: Any) -> list[float]:
    return [one["num_tokens"] for one in trainer.state.log_history if "num_tokens" in one]


@pytest.mark.parametrize(
    ("adapters", "changes"),
    [
        (True, {}),
        pytest.param(False, {}, marks=pytest.mark.long),
        pytest.param(False, {"weights": "separate"}, marks=pytest.mark.long),
        pytest.param(True, {"num_iterations": 2}, marks=pytest.mark.long),
    ],
    ids=["adapters", "shared", "separate", "iterations"],
)
def test_a_budget_ends_a_run_exactly(tmp_path: Path, adapters: bool, changes: dict[str, Any]):
    """After the update that reaches it, resumed or not, alone or beside a number of updates."""
    saved = {"save_strategy": "steps", "save_steps": 100, **changes}
    each = changes.get("num_iterations", 1)
    plan: dict[str, Any] = {**changes, "max_steps": 4 * each}
    free = make_trainer(tmp_path / "free", Lower, adapters=adapters, **plan)
    free.train()
    tokens = spent(free)  # of each rollout

    def run(name: str, most: float, **more: Any) -> Any:
        resume = more.pop("resume", None)
        plan = {**saved, "max_steps": 0, "max_tokens": int(most), **more}
        trainer = make_trainer(tmp_path / name, Lower, adapters=adapters, **plan)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    reached = run("alone", tokens[1])
    assert reached.state.global_step == 2 * each
    assert reached.costs.tokens == tokens[1]
    assert (tmp_path / "alone" / f"checkpoint-{2 * each}").is_dir()
    again = run("alone", tokens[1], resume=True)
    assert (again.state.global_step, again.costs.tokens) == (2 * each, tokens[1])
    further = run("alone", tokens[1] + 1, resume=True)
    assert further.state.global_step == 3 * each
    assert not further.stopped
    assert run("both", tokens[1], max_steps=4 * each).state.global_step == 2 * each
    whole = run("alone", tokens[3], resume=True)
    for policy, value in weights(free).items():
        assert torch.equal(value, weights(whole)[policy])
    assert {**asdict(whole.costs), "seconds": 0} == {**asdict(free.costs), "seconds": 0}


def test_a_budget_says_what_it_needs(tmp_path: Path):
    with pytest.raises(ValueError, match="set lr_scheduler_type='constant', or max_steps"):
        settings(tmp_path, max_steps=0, max_tokens=9, lr_scheduler_type="linear")
    with pytest.raises(ValueError, match=r"save_steps=0\.5 with max_tokens alone"):
        settings(tmp_path, max_steps=0, max_tokens=9, save_steps=0.5)
    with pytest.raises(ValueError, match=r"max_tokens=0: expected .*at least 1"):
        settings(tmp_path, max_tokens=0)
    bound = settings(tmp_path, max_steps=3, max_tokens=9, lr_scheduler_type="linear")
    assert bound.max_steps == 3
    # Of an update that samples one token there are four steps to take.
    assert settings(tmp_path, max_steps=0, max_tokens=9, num_iterations=4).max_steps == 4 * 9


def test_a_manifest_holds_the_costs(tmp_path: Path):
    from llm_marl_envs.measure.run_manifest import recording

    with recording(tmp_path, "train", {}) as costs:
        costs.tokens, costs.counts = 5, asdict(Costs(tokens=5, calls=2))
    kept = json.loads((tmp_path / "run_manifest.json").read_text())
    assert (kept["tokens"], kept["costs"]["calls"]) == (5, 2)
