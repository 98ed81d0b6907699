"""What every update plays and with which randomness: nothing skipped, nothing drawn twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.models import SETTINGS, make_trainer, settings
from support.toys import BareParallel, Lower, Relay, WordPair

from llm_marl_envs.policies import RandomPolicy
from llm_marl_envs.records import EpisodeGroup, Request, Response
from trainers.algorithms import make_algorithm
from trainers.config import MAGRPOConfig
from trainers.update.collect import Collector
from trainers.update.schedules import TaskSchedule

SIZES = [(1, 1), (2, 1), (7, 7), (10, 4), (12, 5), (30, 4), (3, 8), (97, 12)]


def visits(schedule: TaskSchedule, updates: int) -> list[int | None]:
    return [task for update in range(updates) for task in schedule.tasks(update)]


@pytest.mark.parametrize(("n_tasks", "per_update"), SIZES)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_epoch_visits_every_task_once(n_tasks: int, per_update: int, seed: int):
    schedule = TaskSchedule(n_tasks, per_update, seed)
    played = visits(schedule, 4 * schedule.updates_per_epoch)
    assert len(played) >= 4 * n_tasks
    assert all(len(schedule.tasks(update)) == per_update for update in range(5))
    for first in range(0, 4 * n_tasks, n_tasks):
        assert set(played[first : first + n_tasks]) == set(range(n_tasks))


def test_an_epoch_is_as_many_updates_as_visit_all_tasks():
    assert TaskSchedule(12, 4, 0).updates_per_epoch == 3
    assert TaskSchedule(13, 4, 0).updates_per_epoch == 4
    assert TaskSchedule(3, 4, 0).updates_per_epoch == 1
    assert TaskSchedule(None, 4, 0).updates_per_epoch == 1
    assert TaskSchedule(None, 4, 0).tasks(5) == [None] * 4


def test_epochs_and_runs_have_orders_of_their_own():
    orders = []
    for seed in range(4):
        played = visits(TaskSchedule(20, 5, seed), 12)
        orders += [tuple(played[first : first + 20]) for first in (0, 20, 40)]
    assert len(set(orders)) == 12
    assert tuple(range(20)) not in orders
    # No task has a place of its own: each of 20 places is held by many tasks over 12 orders.
    assert all(len(set(place)) > 5 for place in zip(*orders, strict=True))


def test_the_schedule_is_a_function_of_its_seed_and_the_update():
    one, other = TaskSchedule(20, 3, 5), TaskSchedule(20, 3, 5)
    backwards = {update: other.tasks(update) for update in reversed(range(15))}
    assert all(one.tasks(update) == backwards[update] for update in range(15))
    assert one.reset_seed(3, 1) == other.reset_seed(3, 1)


def test_no_reset_seed_comes_twice():
    """Not over updates, not within one, not in runs of other seeds."""
    found = [
        TaskSchedule(20, 8, run).reset_seed(update, position)
        for run in range(4)
        for update in range(100)
        for position in range(8)
    ]
    assert len(set(found)) == len(found)
    assert all(0 <= seed < 2**32 for seed in found)


# -- the same of what is really played -------------------------------------------------------------
class Noting:
    """Random text; keeps the seeds that it was given."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def act(self, requests: Sequence[Request]) -> list[Response]:
        self.seeds += [request.seed for request in requests]
        return RandomPolicy().act(requests)


def play(
    folder: Path, env: Callable[[], Any], updates: int, **changes: Any
) -> tuple[list[EpisodeGroup], list[int]]:
    """The groups of the first updates, and the seeds of all samples in them."""
    args = settings(folder, **changes)
    agents = env().possible_agents
    algorithm = make_algorithm(args.algorithm, args)
    collector = Collector(env, algorithm, args, agents, {agent: agent for agent in agents})
    policy = Noting()
    groups = [
        group
        for update in range(updates)
        for group in collector.play(update, dict.fromkeys(agents, policy))
    ]
    return groups, policy.seeds


def test_a_run_plays_every_task_in_an_order_of_its_own(tmp_path: Path):
    runs = []
    for seed in (1, 2):
        groups, _ = play(tmp_path, WordPair, 15, tasks_per_update=4, num_generations=2, seed=seed)
        tasks = [group.task_id for group in groups]
        assert set(Counter(tasks[:30]).values()) == {1}
        assert set(Counter(tasks[30:]).values()) == {1}
        runs += [tasks[:30], tasks[30:]]
    assert all(one != other for one, other in combinations(runs, 2))


@pytest.mark.parametrize("env", [WordPair, lambda: Relay(rounds=2), BareParallel])
def test_no_group_is_reset_and_no_turn_sampled_with_a_seed_that_was_used(
    tmp_path: Path, env: Callable[[], Any]
):
    """Over episodes, agents, turns, groups, updates and runs."""
    resets, samples = [], []
    for run in (1, 2):
        groups, seeds = play(tmp_path, env, 5, seed=run, num_generations=3)
        resets += [group.seed for group in groups]
        samples += seeds
        turns = sum(len(e.turns) for group in groups for e in group.episodes)
        assert len(seeds) == turns
        for group in groups:
            assert {episode.seed for episode in group.episodes} == {group.seed}
    assert len(set(resets)) == len(resets) == 20
    assert len(set(samples)) == len(samples)


def test_several_processes_share_out_what_one_would_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    changes = {"tasks_per_update": 4, "num_generations": 2}
    alone, seeds = play(tmp_path, WordPair, 2, **changes)
    monkeypatch.setattr(MAGRPOConfig, "world_size", 2)
    shares = []
    for rank in (0, 1):
        monkeypatch.setattr(MAGRPOConfig, "process_index", rank)
        shares.append(play(tmp_path, WordPair, 2, **changes))
    (first, of_first), (second, of_second) = shares
    assert [*first[:2], *second[:2], *first[2:], *second[2:]] == alone
    assert sorted([*of_first, *of_second]) == sorted(seeds)


# -- the noise itself ------------------------------------------------------------------------------
def sampled_tokens(trainer: Any, updates: int) -> np.ndarray:
    """(streams, tokens): what a model without preferences says, -1 where it had ended.

    Its sample is the largest noise, so equal tokens are equal noise. A stream is one action.
    """
    length = trainer.args.max_completion_length
    with torch.no_grad():
        for policy in trainer.team.policies:
            trainer.team.activate(policy)
            trainer.team.model_of(policy).get_output_embeddings().weight.zero_()
    return np.array(
        [
            [*ids, *[-1] * (length - len(ids))]
            for update in range(updates)
            for group in trainer.collector.play(update, trainer.seating)
            for episode in group.episodes
            for turn in episode.turns
            if (ids := turn.response.completion_ids)
        ]
    )


@pytest.mark.parametrize("mode", ["adapters", "shared", "separate"])
def test_no_two_samples_share_their_noise(tmp_path: Path, mode: str):
    """Not two turns, positions, agents, episodes, groups or updates, shifted or not."""
    changes: dict[str, Any] = {} if mode == "adapters" else {"adapters": False, "weights": mode}
    trainer = make_trainer(tmp_path, Lower, sampling_batch_size=5, **changes)
    tokens = sampled_tokens(trainer, 3)
    streams, length = tokens.shape
    assert (streams, length) == (96, 6)  # 3 updates, 2 tasks, 4 episodes, 2 turns, 2 agents
    chance = 1 / SETTINGS.vocab_size

    def as_by_chance(equal: int, pairs: int) -> bool:
        return equal < chance * pairs + 6 * (chance * pairs) ** 0.5

    for position in range(length):
        column = tokens[:, position]
        column = column[column >= 0]
        equal = sum(n * (n - 1) // 2 for n in Counter(column.tolist()).values())
        assert as_by_chance(equal, streams * (streams - 1) // 2), f"position {position}"
    within = sum(
        int((tokens[:, i] == tokens[:, j])[tokens[:, j] >= 0].sum())
        for i, j in combinations(range(length), 2)
    )
    assert as_by_chance(within, streams * length * (length - 1) // 2), "within an action"
    runs = [tuple(row[i : i + 3]) for row in tokens.tolist() for i in range(length - 2)]
    runs = [run for run in runs if -1 not in run]
    assert len(set(runs)) == len(runs), "three tokens in a row, twice"
