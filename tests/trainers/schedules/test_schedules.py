"""What every update plays and with which randomness: nothing skipped, nothing drawn twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import episodes
from support.models import SETTINGS, make_trainer, settings, weights
from support.toys import BareParallel, Lower, Relay, SameCase, WordPair, word_tasks

from llm_marl_envs.core.environment import TextParallelEnv
from llm_marl_envs.core.records import (
    Branch,
    EpisodeGroup,
    Request,
    Response,
    StopReason,
    Turn,
    read_jsonl,
)
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy
from llm_marl_envs.wrappers import PioneerObserver
from trainers.algorithms import make_algorithm
from trainers.config import MAGRPOConfig
from trainers.experience.collect import Collector
from trainers.schedules.schedules import TaskSchedule, make_schedules, settings_of
from trainers.weights.team_files import load_team, read_team_file

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
    schedule, other = TaskSchedule(20, 3, 5), TaskSchedule(20, 3, 5)
    backwards = {update: other.tasks(update) for update in reversed(range(15))}
    assert all(schedule.tasks(update) == backwards[update] for update in range(15))
    assert schedule.reset_seed(3, 1) == other.reset_seed(3, 1)


def test_no_reset_seed_comes_twice():
    """Not over updates, not within one, not in runs of other seeds."""
    seeds = [
        TaskSchedule(20, 8, run).reset_seed(update, position)
        for run in range(4)
        for update in range(100)
        for position in range(8)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)


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
    assert all(run != other for run, other in combinations(runs, 2))


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


# -- schedules that a run file asks for ------------------------------------------------------------
SEATS = ("left_0", "right_0")


def test_a_schedule_has_defaults_and_nothing_is_left_out():
    assert settings_of(make_schedules(None)) is None
    chosen = {"in_turn": {"every": 3}, "horizon": {"turns": [1, 2]}}
    assert settings_of(make_schedules(chosen)) == {
        "in_turn": {"every": 3, "order": None},
        "horizon": {"turns": [1, 2], "every": 100},
    }
    assert MAGRPOConfig("x", schedules=chosen).schedules == settings_of(make_schedules(chosen))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"horizn": {}}, "unknown key 'horizn'; did you mean 'horizon'"),
        ({"horizon": {"turns": [1], "evry": 2}}, "unknown key 'evry'; did you mean 'every'"),
        ({"horizon": {}}, "schedules, horizon, turns is missing"),
        ({"horizon": {"turns": []}}, "expected a list of at least 1, each a whole number"),
        ({"horizon": {"turns": [1, 0]}}, "each a whole number, at least 1"),
        ({"exchange": {"every": 0}}, "every=0: expected a whole number, at least 1"),
        ({"population": {"every": 0}}, "population, every=0: expected a whole number"),
        ({"in_turn": {"order": []}}, "expected lists of agents"),
        ({"in_turn": {"order": ["left_0"]}}, "expected lists of agents"),
        ({"difficulty": {"lowest": 0.8, "highest": 0.2}}, "expected 0 <= lowest <= highest <= 1"),
    ],
    ids=str,
)
def test_wrong_schedules_are_refused_when_the_run_is_configured(given: Any, words: str):
    with pytest.raises((ValueError, TypeError), match=words):
        MAGRPOConfig("runs/none", schedules=given)
    with pytest.raises(TypeError, match="expected a map"):
        MAGRPOConfig("runs/none", schedules={"exchange": 5})


@pytest.mark.parametrize(
    ("env", "changes", "words"),
    [
        (Lower, {"schedules": {"exchange": {}}, "adapters": False}, "a policy of its own"),
        (Lower, {"schedules": {"exchange": {}}, "frozen": ["left_0"]}, "expected two seats"),
        (Lower, {"schedules": {"population": {}}}, "two seats or more of one role"),
        ("crowd-v0", {"schedules": {"population": {}}, "adapters": False}, "a policy of its own"),
        ("crowd-v0", {"schedules": {"population": {}, "exchange": {}}}, "both say who sits where"),
        ("crowd-v0", {"schedules": {"population": {}, "pool": {}}}, "expected pool or population"),
        (Lower, {"schedules": {"in_turn": {"order": [["main_0"]]}}}, "'main_0'. are not trained"),
        (Lower, {"schedules": {"horizon": {"turns": [1, 3]}}}, "set env_kwargs: .turns: 3"),
        (BareParallel, {"schedules": {"horizon": {"turns": [1]}}}, "turns of .* cannot be set"),
        ("kuhn_poker-v1", {"schedules": {"horizon": {"turns": [1]}}}, "not have as many turns as"),
    ],
)
def test_a_run_that_cannot_follow_its_schedules_is_refused(
    tmp_path: Path, env: Any, changes: dict[str, Any], words: str
):
    with pytest.raises(ValueError, match=words):
        make_trainer(tmp_path, env, **changes)


def test_seats_are_exchanged_every_so_many_updates_and_come_round():
    schedules = make_schedules({"exchange": {"every": 2}})
    policies = {"a_0": "a", "b_0": "b", "c_0": "c", "d_0": "d"}
    seats = [schedules.seats(update, ("a_0", "b_0", "c_0"), policies, 0) for update in range(8)]
    assert ["".join(policies.values()) for policies in seats] == ["abcd"] * 2 + ["bcad"] * 2 + [
        "cabd"
    ] * 2 + ["abcd"] * 2


def test_a_population_draws_its_seats_by_role():
    """Every policy sits in every seat of its role as often, and draws of roles are their own."""
    trained = ("a_0", "b_0", "b_1", "b_2", "a_1")
    policies = {**{seat: seat.upper() for seat in trained}, "c_0": "frozen"}
    schedules = make_schedules({"population": {"every": 2}})
    seats = [schedules.seats(update, trained, policies, 5) for update in range(600)]
    assert seats[::2] == seats[1::2]
    assert schedules.seats(300, trained, policies, 5) == seats[300]
    assert [schedules.seats(update, trained, policies, 6) for update in range(600)] != seats
    for seating in seats:
        assert set(seating) == set(policies)
        assert seating["c_0"] == "frozen"
        assert {seating["a_0"], seating["a_1"]} == {"A_0", "A_1"}
        assert {seating["b_0"], seating["b_1"], seating["b_2"]} == {"B_0", "B_1", "B_2"}
    pairs = Counter((policies["a_0"], policies["b_0"]) for policies in seats[::2])
    assert len(pairs) == 6
    assert min(pairs.values()) > 300 / 6 - 4 * (300 * 5 / 36) ** 0.5


def test_seats_without_numbers_are_no_population():
    population = make_schedules({"population": {}}).population
    assert population is not None
    with pytest.raises(ValueError, match="two seats or more of one role"):
        population.check(("speaker", "listener"), {"speaker": "a", "listener": "b"})


class TwoPairs(Lower):
    """Pays as `Lower`, four seats of two roles."""

    def __init__(self) -> None:
        seats = ("left_0", "left_1", "right_0", "right_1")
        TextParallelEnv.__init__(
            self, agents=seats, source=word_tasks(), max_turns=1, max_action_chars=9,
            render_mode=None
        )  # fmt: skip

    def opening(self, task: Task) -> dict[str, tuple[Message, ...]]:
        return {agent: (Message("user", f"You are {agent}."),) for agent in self.possible_agents}


def test_a_population_meets_learns_and_resumes_as_unbroken(tmp_path: Path):
    plan: dict[str, Any] = {"max_steps": 3, "schedules": {"population": {}}, "transcript_every": 1}
    plan |= {"save_strategy": "steps", "save_steps": 2, "max_completion_length": 3, "seed": 7}
    unbroken = make_trainer(tmp_path, TwoPairs, **plan)
    start = weights(unbroken)
    unbroken.train()
    met = set()
    for file in sorted((tmp_path / "transcripts").glob("*.jsonl")):
        for episode in read_jsonl(file):
            sat = {turn.agent: turn.response.policy or "" for turn in episode.turns}
            assert set(sat.values()) == set(sat)
            assert all(policy[:-2] == seat[:-2] for seat, policy in sat.items())
            met |= {(sat["left_0"], sat["right_0"]), (sat["left_1"], sat["right_1"])}
    assert len(met) == 4
    resumed = make_trainer(tmp_path, TwoPairs, **plan)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    for policy, value in weights(resumed).items():
        assert torch.equal(value, weights(unbroken)[policy])
        assert not torch.equal(value, start[policy])
    seats = {seat: seat for seat in start}
    assert resumed.team.policy_of == seats
    assert read_team_file(tmp_path / "checkpoint-3")["agents"] == seats


def test_exchanged_policies_act_learn_and_are_saved_in_the_first_seats(tmp_path: Path):
    """At update 1 the policy of each seat samples, and is trained on, what the other seat saw."""
    trainer = make_trainer(
        tmp_path, Lower, schedules={"exchange": {"every": 1}, "in_turn": {"order": [["left_0"]]}}
    )
    for update, learner in enumerate(SEATS):
        trainer._step = update * trainer._per_rollout
        groups, inputs, _ = trainer._experience()
        acted = {
            (turn.agent, turn.response.policy)
            for group in groups
            for episode in group.episodes
            for turn in episode.turns
        }
        other = {"left_0": "right_0", "right_0": "left_0"}
        expected = dict(zip(SEATS, SEATS, strict=True)) if update == 0 else other
        assert acted == set(expected.items())
        assert inputs.policies == expected
        batches = trainer._new_batches()
        assert {b["policy"] for b in batches if b["tool_mask"].any()} == {learner}
    assert trainer.team.policy_of == dict(zip(SEATS, SEATS, strict=True))


@pytest.mark.long
def test_a_pioneer_and_an_observer_learn_from_the_mean_of_both_and_exchange_seats(tmp_path: Path):
    """CORY: a real training; the run folder says who acted, the saved team has the first seats."""
    seats = ("pioneer_0", "observer_0")
    trainer = make_trainer(
        tmp_path,
        lambda: PioneerObserver(Lower(turns=1)),
        adapters=False,
        weights="separate",
        rows_per_micro_batch=16,
        schedules={"exchange": {"every": 1}},
        transcript_every=1,
    )
    start = weights(trainer)
    trainer.train()
    files = sorted((tmp_path / "transcripts").glob("*.jsonl"))
    acted = [
        {
            (turn.agent, turn.response.policy)
            for episode in read_jsonl(file)
            for turn in episode.turns
        }
        for file in files
    ]
    own = set(zip(seats, seats, strict=True))
    assert acted == [own, set(zip(seats, reversed(seats), strict=True))]
    for turn in (turn for episode in read_jsonl(files[0]) for turn in episode.turns):
        assert ("pioneer_0 says:" in turn.messages[-1].content) is (
            turn.agent == "observer_0" and turn.index == 0
        )
    groups, inputs, _ = trainer._experience()
    for group, rewards in zip(groups, inputs.rewards, strict=True):
        for episode, (pioneer, observer) in zip(group.episodes, rewards, strict=True):
            paid = sum(turn.reward for turn in episode.turns) / 2
            assert pioneer[-1] == pytest.approx(paid)
            assert observer[-1] == pytest.approx(paid)
    assert all(not torch.equal(weight, start[seat]) for seat, weight in weights(trainer).items())
    trainer.save_model(str(tmp_path / "team"))
    saved = load_team(tmp_path / "team")
    assert saved.policy_of == dict(zip(seats, seats, strict=True))
    for seat, value in weights(trainer).items():
        kept = torch.cat([p.flatten() for p in saved.parameters(seat)])
        assert torch.equal(kept, value)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(None, ["left_0", "right_0"]), ([["right_0"]], ["right_0", "right_0"])],
    ids=["round-robin", "leader alone"],
)
def test_who_is_not_in_turn_plays_and_stays_as_it_is(tmp_path: Path, order: Any, expected: Any):
    schedules = {"in_turn": {"order": order}}
    trainer = make_trainer(tmp_path, Lower, max_steps=2, schedules=schedules, weight_decay=0.1)
    start = weights(trainer)
    trainer.train()
    moved = [p for p, value in weights(trainer).items() if not torch.equal(value, start[p])]
    assert moved == [seat for seat in SEATS if seat in expected]
    idle = [{p: log[f"{p}/idle"] for p in SEATS} for log in trainer.state.log_history[:2]]
    assert [min(policies, key=policies.__getitem__) for policies in idle] == expected
    assert [sum(policies.values()) for policies in idle] == [1.0, 1.0]


def test_turns_come_in_the_order_that_is_given():
    schedules = make_schedules({"in_turn": {"every": 2, "order": [["a_0", "b_0"], ["c_0"]]}})
    agents = ("a_0", "b_0", "c_0")
    turns = [schedules.trained_on(update, [], agents).shape for update in range(2)]
    assert turns == [(0, 1, 3, 1)] * 2
    learners = [schedules.in_turn.learners(update, agents) for update in range(5)]  # type: ignore[union-attr]
    assert learners == [("a_0", "b_0")] * 2 + [("c_0",)] * 2 + [("a_0", "b_0")]


def test_episodes_grow_and_the_last_length_stays(tmp_path: Path):
    changes = {"tasks_per_update": 1, "num_generations": 2}
    horizon = {"horizon": {"every": 2, "turns": [1, 2]}}
    args = settings(tmp_path, schedules=horizon, **changes)
    collector = Collector(
        Lower, make_algorithm(args.algorithm, args), args, SEATS, {a: a for a in SEATS}
    )
    lengths, turns = [], []
    for update in range(5):
        (group,) = collector.play(update, dict.fromkeys(SEATS, RandomPolicy()))
        lengths += [max(turn.index for turn in episode.turns) + 1 for episode in group.episodes]
        turns += [episode.env_kwargs["turns"] for episode in group.episodes]
        assert collector.env.unwrapped.max_turns == 2  # what is saved of a run is its own
    assert lengths == turns == [1] * 4 + [2] * 6


def test_groups_that_are_too_easy_or_too_hard_teach_nothing(tmp_path: Path):
    """Two words must be said: scripted seats that say them on some tasks only."""
    schedules = {"difficulty": {"lowest": 0.25, "highest": 0.75}}
    args = settings(tmp_path, schedules=schedules, tasks_per_update=4, num_generations=4)
    agents = SEATS
    collector = Collector(
        SameCase, make_algorithm("magrpo", args), args, agents, {a: a for a in agents}
    )
    seen: Counter[str] = Counter()

    def say(request: Request) -> str:
        """The n-th episode of a task is solved where n is below the task's place."""
        seen[request.task_id] += request.agent == "left_0"
        word = request.observation.split("Your word: ")[1].split()[0]
        solved = seen[request.task_id] <= [*seen].index(request.task_id)
        return word if solved or request.agent == "right_0" else "?"

    groups = collector.play(0, dict.fromkeys(agents, ScriptedPolicy(say)))
    shares = [sum(bool(episode.success) for episode in group.episodes) / 4 for group in groups]
    assert shares == [0.0, 0.25, 0.5, 0.75]
    keeps = collector.schedules.trained_on(0, groups, agents)
    assert keeps[:, 0, 0, 0].tolist() == [False, True, True, True]
    assert collector.schedules.logged(0, groups) == {"schedule/kept": 0.75}
    hard = make_schedules({"difficulty": {"highest": 0.5}})
    assert hard.trained_on(0, groups, agents)[:, 0, 1, 0].tolist() == [True, True, True, False]


def test_branches_make_a_task_neither_easier_nor_harder():
    """Two of four planned episodes are solved, one more failed; the branches are all alike."""
    turn = Turn(agent="a_0", index=0, messages=(), response=Response(text=""), reward=0.0)
    played = episodes.episode(("a_0",), [turn])
    planned = [replace(played, success=solved) for solved in (True, False, True, False)]
    planned.append(
        replace(
            played, success=True, stop_reason=StopReason.FAILED, failure="the environment broke"
        )
    )
    half = make_schedules({"difficulty": {"lowest": 0.5, "highest": 0.5}})
    for solved in (True, False):
        left = Branch(parent=0, agent="a_0", turn=0)
        branches = [replace(played, success=solved, branch=left)] * 5
        keeps = half.trained_on(0, [episodes.group_of([*planned, *branches])], ("a_0",))
        assert keeps[0].all()


@pytest.mark.parametrize("loss", ["dr_grpo", "dapo"])
def test_an_update_of_which_nothing_is_kept_moves_nothing(tmp_path: Path, loss: str):
    schedules = {"difficulty": {"lowest": 1.0}}
    trainer = make_trainer(tmp_path, Lower, max_steps=1, schedules=schedules, loss_type=loss)
    start = weights(trainer)
    trainer.train()
    assert all(torch.equal(value, start[p]) for p, value in weights(trainer).items())
    assert trainer.state.log_history[0]["schedule/kept"] == 0.0


def test_a_difficulty_needs_an_environment_that_says_what_succeeds(tmp_path: Path):
    groups, _ = play(tmp_path, BareParallel, 1, num_generations=2)
    with pytest.raises(ValueError, match="does not say whether an episode succeeded"):
        make_schedules({"difficulty": {}}).trained_on(0, groups, ("a_0",))
