"""Training where seats do things beside the rules: calls and notes are turns like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.enumeration import algorithm_of
from support.models import make_trainer, weights
from support.toys import Whims, WordPair

from llm_marl_envs import make
from llm_marl_envs.wrappers import Memory


def whimsical() -> Any:
    env = WordPair()
    env.habits, env.beside = (Whims,), dict.fromkeys(env.possible_agents, 2)
    return env


def forgetful() -> Any:
    return Memory(whimsical(), max_chars=8, resets=2)


def judged(trainer: Any) -> list[tuple[Any, np.ndarray]]:
    """The groups and advantages of the updates of a run."""
    seen, judge = [], trainer.collector.judge

    def noted(update: int, groups: Any) -> Any:
        inputs, advantages = judge(update, groups)
        seen.append((groups, advantages))
        return inputs, advantages

    trainer.collector.judge = noted
    trainer.train()
    return seen


@pytest.mark.parametrize("adapters", [True, False])
def test_each_own_turn_has_the_return_of_what_follows(tmp_path: Path, adapters: bool) -> None:
    """Leave-one-out over the episodes in which the seat came to its k-th turn."""
    trainer = make_trainer(
        tmp_path, whimsical, adapters=adapters, max_steps=1, num_generations=6, credit="own"
    )
    ((groups, advantages),) = judged(trainer)
    lengths = [len(e.trajectory(a)) for group in groups for e in group.episodes for a in e.agents]
    assert len(set(lengths)) > 1, "no seat did anything beside the rules"
    most = whimsical().most_actions
    for p, group in enumerate(groups):
        for a, agent in enumerate(trainer.trained):
            rewards = [[t.reward for t in e.trajectory(agent)] for e in group.episodes]
            for k in range(most):
                returns = {g: sum(own[k:]) for g, own in enumerate(rewards) if len(own) > k}
                for g, value in returns.items():
                    others = [other for place, other in returns.items() if place != g]
                    if others:
                        expected = value - np.mean(others)
                        assert advantages[p, g, a, k] == pytest.approx(expected, abs=1e-6)


def test_notes_begin_a_new_row_and_the_weights_move(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, forgetful, max_steps=2, num_generations=6)
    before = {k: v.clone() for k, v in trainer.model.named_parameters() if v.requires_grad}
    seen = judged(trainer)
    turns = [turn for groups, _ in seen for g in groups for e in g.episodes for turn in e.turns]
    noted = [turn for turn in turns if "notes" in turn.info]
    assert noted
    assert all(turn.messages[-1].content.startswith("Write what") for turn in noted)
    after = dict(trainer.model.named_parameters())
    assert any((after[name] != value).any() for name, value in before.items())
    assert all(value.isfinite().all() for value in after.values())


def test_a_tree_of_seats_that_act_at_once_is_refused() -> None:
    env = make("coop_coding-v0", turns=2, tools={"main": ["calculate"]})
    with pytest.raises(ValueError, match="tools"):
        algorithm_of("magrpo_tree").check(env, env.possible_agents)
    turns = make("debate-v0", tools={"debater_0": ["calculate"]})
    algorithm_of("magrpo_tree").check(turns, turns.possible_agents)


def test_a_memory_is_what_makes_an_episode_fit(tmp_path: Path) -> None:
    """A chat that begins anew needs no room for all that was said; calls are those of a seat."""
    many: dict[str, Any] = {"turns": 400}
    short: dict[str, Any] = {"max_completion_length": 64}
    with pytest.raises(ValueError, match="context"):
        make_trainer(
            tmp_path / "a", lambda: make("agents_net-v0", **many), max_completion_length=64
        )
    forgets = {**many, "memory": {"max_chars": 100, "resets": 1000}}
    make_trainer(tmp_path / "b", lambda: make("agents_net-v0", **forgets), **short)


def test_a_resumed_run_is_the_unbroken_one(tmp_path: Path) -> None:
    """Asides and notes draw from the episode's seed alone, so a stopped run goes on the same."""
    plan: dict[str, Any] = {"max_steps": 3, "num_generations": 6}
    plan |= {"save_strategy": "steps", "save_steps": 2}
    unbroken = make_trainer(tmp_path, forgetful, **plan)
    episodes = [e for groups, _ in judged(unbroken) for group in groups for e in group.episodes]
    assert any("notes" in turn.info for episode in episodes for turn in episode.turns)
    resumed = make_trainer(tmp_path, forgetful, **plan)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    for policy, value in weights(resumed).items():
        assert torch.equal(value, weights(unbroken)[policy])
