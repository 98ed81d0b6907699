"""Branches in an update: token ids, weights, gradients, budgets, failures, processes, resuming."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support import formula
from support.gradients import MODES, TEMPERATURE, assert_same, gradients
from support.models import make_trainer, settings, weights
from support.toys import BareAEC, BareParallel, Coin, CoinInTurn, Lower, Relay, shaky
from transformers import TrainerCallback

from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.core.records import read_jsonl
from llm_marl_envs.play.branches import NotReplayableError
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.replay import replay
from llm_marl_envs.policies import RandomPolicy
from trainers.algorithms import make_algorithm
from trainers.algorithms.advantage_alignment import AdvantageAlignment
from trainers.algorithms.at_grpo import ATGRPO
from trainers.algorithms.c3 import C3, C3Sim
from trainers.algorithms.difference import Difference
from trainers.algorithms.magrpo_tree import MAGRPOTree
from trainers.experience.collect import Collector
from trainers.running.costs import update_costs

pytestmark = pytest.mark.full  # `make test-all` runs it

KINDS = (MAGRPOTree, C3, C3Sim, Difference, ATGRPO, AdvantageAlignment)
NAMES = {kind: f"{kind.__module__}:{kind.__name__}" for kind in KINDS}
TREE, SIM, BLANKED, BEST = (NAMES[kind] for kind in (MAGRPOTree, C3Sim, Difference, ATGRPO))
SIZES: dict[str, Any] = {"num_generations": 2, "tasks_per_update": 2, "rows_per_micro_batch": 8}


class LowerInTurn(Relay):
    """Three seats, one after the other; each message pays all its share of lower-case letters."""

    def play_one(self, agent: str, action: str) -> Outcome:
        share = sum(c.isascii() and c.islower() for c in action) / max(len(action), 1)
        return dataclasses.replace(
            super().play_one(agent, action),
            reward_terms={a: {"lower": share} for a in self.agents},
        )


CASES = [(TREE, Lower), (SIM, Lower), (BLANKED, Lower), (NAMES[C3], LowerInTurn)]
CASES += [(BEST, Lower), (BEST, LowerInTurn), (NAMES[AdvantageAlignment], Lower)]
cases = pytest.mark.parametrize(("algorithm", "env"), CASES)


def branching(folder: Path, algorithm: str, env: Any = Lower, **changes: Any) -> Any:
    chosen = {"name": algorithm, "alternatives": 3} if ".c3:" in algorithm else algorithm
    credit = "own" if algorithm == NAMES[AdvantageAlignment] else "team"
    return make_trainer(folder, env, algorithm=chosen, **{**SIZES, "credit": credit, **changes})


# -- what is played -------------------------------------------------------------------------------
@cases
def test_branches_reuse_the_ids_of_what_was_said(tmp_path: Path, algorithm: str, env: Any) -> None:
    """Up to their point all is as recorded, and the prompt there is the recorded one, id for id."""
    trainer = branching(tmp_path, algorithm, env)
    sampled: list[Any] = []
    sample = trainer.engine.sample
    trainer.engine.sample = lambda draws, **how: sampled.extend(draws) or sample(draws, **how)
    groups = trainer.collector.play(0, trainer.seating)
    left = [
        (g, episode, episode.branch) for g in groups for episode in g.episodes if episode.branch
    ]
    assert left
    for group, episode, branch in left:
        parent = group.episodes[branch.parent]
        record = {(t.agent, t.index): t for t in parent.turns}
        for turn in episode.turns:
            here = (turn.agent, turn.index) == (branch.agent, branch.turn)
            if turn.given and not (here and branch.instead is not None):
                assert turn.response is record[turn.agent, turn.index].response
            if here and branch.instead is None:
                before = record[turn.agent, turn.index].response
                assert turn.response.prompt_ids == before.prompt_ids
                assert turn.response.completion_ids != before.completion_ids
    new = [t for g in groups for e in g.episodes for t in e.turns if not t.given]
    assert len(sampled) == len(new)
    assert update_costs(groups, {}).tokens == sum(len(t.response.completion_ids) for t in new)


@pytest.mark.parametrize(
    "mode", ["adapters", *(pytest.param(m, marks=pytest.mark.long) for m in ("shared", "separate"))]
)
@cases
def test_the_gradient_counts_every_sample_once(
    tmp_path: Path, algorithm: str, env: Any, mode: str
) -> None:
    """Sum over what was sampled and is trained on of weight * advantage * grad log pi."""
    if mode != "adapters" and algorithm != TREE:
        return
    trainer = branching(tmp_path, algorithm, env, temperature=TEMPERATURE, **MODES[mode])
    played: dict[str, Any] = {}
    judge = trainer.collector.judge

    def noted(update: int, groups: Any) -> Any:
        played["inputs"], played["advantages"] = judge(update, groups)
        return played["inputs"], played["advantages"]

    trainer.collector.judge = noted
    trainer.current_gradient_accumulation_steps = trainer.plan.total
    trainer.model.train()
    trainer.model.zero_grad()
    for _ in range(trainer.plan.total):
        batch = trainer._prepare_inputs(None)
        trainer.compute_loss(trainer.model, batch).backward()
        trainer._step += 1
    gradient = gradients(trainer)
    trainer.model.zero_grad()
    inputs = played["inputs"]
    weighed = played["advantages"] * trainer.algorithm.weights(inputs)
    for p, group in enumerate(inputs.groups):
        for g, episode in group.living:
            for turn in episode.turns:
                weight = weighed[p, g, inputs.agents.index(turn.agent), turn.index]
                if turn.given or not weight:
                    continue
                policy = trainer.team.policy_of[turn.agent]
                trainer.team.activate(policy)
                response = turn.response
                tokens = formula.TurnOf(response.prompt_ids, response.completion_ids, 0.0)
                logp = formula.log_probs(trainer.model, [tokens], TEMPERATURE).sum()
                seats = sum(trainer.team.policy_of[a] == policy for a in inputs.agents)
                planned = 2 * 2 * seats  # tasks, episodes
                (-weight * logp / planned / trainer.args.max_completion_length).backward()
    assert_same(gradient, gradients(trainer))


# -- an environment that stops to replay -----------------------------------------------------------
class Moody(Lower):
    """Answers by its seed and what was said; while `moody`, by a draw of the system's noise."""

    moody = False

    def play(self, joint_action: Any) -> Outcome:
        outcome = super().play(joint_action)
        if not self.moody:
            return outcome
        noise = os.urandom(8).hex()
        return dataclasses.replace(outcome, feedback=dict.fromkeys(self.agents, noise))


class Turns(TrainerCallback):
    """The environment turns moody after an update."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        Moody.moody = state.global_step >= self.after


@pytest.mark.parametrize("after", [0, 1])
def test_an_environment_that_stops_to_replay_loses_no_finished_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The run ends; mended it goes on, and ends as one that was never broken."""
    monkeypatch.setattr(Moody, "moody", False)
    broken = branching(tmp_path, TREE, Moody, callbacks=[Turns(after)])
    Moody.moody = after == 0
    with pytest.raises(NotReplayableError) as stopped:
        broken.train()
    message = str(stopped.value)
    assert f"update {after}, environment " in message
    assert "Moody" in message
    assert "reset seed" in message
    assert "'magrpo'" in message
    Moody.moody = False
    kept = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
    assert kept == (["checkpoint-1"] if after else [])
    assert "Mend the environment" in message
    notes = getattr(stopped.value, "__notes__", [])
    assert [f"{tmp_path / 'checkpoint-1'} keeps what" in note for note in notes] == [True] * after
    if after:
        mended = branching(tmp_path, TREE, Moody)
        mended.train(resume_from_checkpoint=True)
        unbroken = branching(tmp_path / "unbroken", TREE, Moody)
        unbroken.train()
        for name, weight in weights(mended).items():
            assert torch.equal(weight, weights(unbroken)[name])


# -- what it needs --------------------------------------------------------------------------------
class Forgetful(BareAEC):
    """Another observation in every episode."""

    lives = 0

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        super().reset(seed, options)
        Forgetful.lives += 1

    def observe(self, agent: str) -> str:
        return f"life {Forgetful.lives}, {self.count} actions so far"


FOREIGN = {"max_turns": 3, "max_steps": 1}


@pytest.mark.parametrize(
    ("algorithm", "env", "changes", "error", "words"),
    [
        (TREE, Forgetful, FOREIGN, NotReplayableError, "function of its reset .* such as 'magrpo'"),
        (TREE, BareAEC, {"max_steps": 1}, ValueError, "set max_turns, the most actions of one"),
        (TREE, Lower, {"beta": 0.1}, ValueError, "beta must be 0.0, because a KL term"),
        (TREE, Lower, {"loss_type": "dapo"}, ValueError, "loss_type must be 'dr_grpo', because"),
        (TREE, Lower, {"shuffle_rewards": True}, ValueError, "shuffle_rewards must be False"),
        (TREE, Lower, {"returns": "maporl"}, ValueError, "returns must be 'discounted'"),
        (C3, Lower, {}, ValueError, "act at the same time here, .* use 'c3_sim'"),
        # 2 tasks of 2 + 4 joint actions of 2 seats, 6 tokens each
        (TREE, Lower, {"max_update_tokens": 143}, ValueError, "may sample 144 tokens in an update"),
        ("magrpo", Lower, {"max_update_tokens": 95}, ValueError, r"96 tokens .* lower num_gen"),
        ("magrpo", BareAEC, {**FOREIGN, "chance": "episode"}, ValueError, "has no tasks, so the r"),
        ("magrpo", Lower, {"chance": "own"}, ValueError, "chance='own': expected one of"),
    ],
)
def test_what_a_run_lacks_is_said_at_its_construction(
    tmp_path: Path, algorithm: Any, env: Any, changes: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make_trainer(
            tmp_path, env, algorithm=NAMES.get(algorithm, algorithm), **{**SIZES, **changes}
        )


def test_the_budget_counts_every_seat_and_every_branch(tmp_path: Path) -> None:
    """Also a frozen one; what is sampled never exceeds it, and here reaches it in actions."""
    trainer = branching(tmp_path, TREE, frozen=["right_0"], max_update_tokens=144)
    groups = trainer.collector.play(0, trainer.seating)
    new = [t for g in groups for e in g.episodes for t in e.turns if not t.given]
    assert len(new) == 2 * trainer.collector.budget.actions == 24
    assert {t.agent for t in new} == {"left_0", "right_0"}
    assert update_costs(groups, {}).tokens <= 144


def test_more_turns_than_expected_are_an_error(tmp_path: Path) -> None:
    trainer = branching(tmp_path, TREE, BareParallel, max_turns=1, max_steps=1, tasks_per_update=1)
    with pytest.raises(ValueError, match="they took more turns than expected, set max_turns"):
        trainer.train()


# -- the run --------------------------------------------------------------------------------------
def _collector(args: Any) -> Collector:
    agents = Lower().possible_agents
    return Collector(Lower, make_algorithm(TREE, args), args, agents, {a: a for a in agents})


@pytest.mark.parametrize("chance", ["group", "episode"])
def test_each_process_grows_its_own_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chance: str
) -> None:
    args = settings(tmp_path, algorithm=TREE, num_generations=2, tasks_per_update=2, chance=chance)
    team = dict.fromkeys(Lower().possible_agents, RandomPolicy())
    alone = _collector(args).play(1, team)
    assert [len(group.episodes) for group in alone] == [4, 4]
    kind = type(args)
    monkeypatch.setattr(kind, "world_size", property(lambda self: 2))
    shares = []
    for rank in range(2):
        monkeypatch.setattr(kind, "process_index", property(lambda self, rank=rank: rank))
        shares += _collector(args).play(1, team)
    assert shares == alone
    seeds = {episode.seed for group in alone for episode in group.roots.episodes}
    assert len(seeds) == (2 if chance == "group" else 4)


def test_failed_episodes_are_no_leaves(tmp_path: Path) -> None:
    """Of a planned one nothing branches; what is lost below weighs nothing, its siblings more."""
    broken: Callable[[Any], bool] = lambda env: env.number % 3 == 2  # noqa: E731 - a rule in a line
    trainer = branching(
        tmp_path, TREE, shaky(Lower, broken, "later"), num_generations=3, max_failed_share=1.0
    )
    trainer.failures.after_update = lambda *args: None  # the first update bears none
    groups, inputs, advantages = trainer._experience()
    share = trainer.algorithm.weights(inputs)
    failed = [
        (p, g) for p, group in enumerate(groups) for g, e in enumerate(group.episodes) if e.failed
    ]
    assert any(groups[p].episodes[g].branch is None for p, g in failed)
    assert any(groups[p].episodes[g].branch is not None for p, g in failed)
    parents = {
        (p, e.branch.parent) for p, group in enumerate(groups) for e in group.episodes if e.branch
    }
    assert not parents & set(failed)
    for p, group in enumerate(groups):
        planned = len(group.roots.living)
        assert share[p, :, :, 0].sum() == pytest.approx(2 * planned)
        assert share[p, :, :, 1].sum() == pytest.approx(2 * planned)
    assert not any(share[place].any() or advantages[place].any() for place in failed)


@pytest.mark.parametrize(
    ("algorithm", "more"), [(TREE, 4), pytest.param(BLANKED, 16, marks=pytest.mark.long), (BEST, 4)]
)
def test_a_resumed_run_ends_as_the_unbroken_one(tmp_path: Path, algorithm: str, more: int) -> None:
    whole = branching(tmp_path / "whole", algorithm, save_strategy="steps", save_steps=1)
    whole.train()
    again = branching(tmp_path / "whole", algorithm, save_strategy="steps", save_steps=1)
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-1"))
    for policy, expected in weights(whole).items():
        assert torch.equal(weights(again)[policy], expected)
    logged = whole.state.log_history[0]
    assert logged["episodes/branches"] == more
    assert logged["num_tokens"] > 0


def test_transcripts_hold_branches(tmp_path: Path) -> None:
    trainer = branching(tmp_path, TREE, transcript_every=1, max_steps=1)
    trainer.train()
    (path,) = (tmp_path / "transcripts").glob("update-*.jsonl")
    kept = list(read_jsonl(path))
    assert [episode.branch is None for episode in kept] == [True, True, False, False]


COINS: dict[str, Any] = {
    "at once": partial(Coin, turns=3),
    "in turn": partial(CoinInTurn, rounds=1),
    "bets": partial(make, "matrix_game", game="risky", turns=3),
}


@pytest.mark.parametrize(("algorithm", "episodes"), [(TREE, 8), (BEST, 6)])
@pytest.mark.parametrize("coins", COINS)
def test_chance_of_each_branch_s_own_in_a_deep_tree(
    tmp_path: Path, algorithm: str, episodes: int, coins: str
) -> None:
    """Three steps, a coin at each; what the run writes down can be played again."""
    trainer = branching(
        tmp_path, algorithm, COINS[coins], chance="episode", transcript_every=1, max_steps=1
    )
    trainer.train()
    (path,) = (tmp_path / "transcripts").glob("update-*.jsonl")
    kept = list(read_jsonl(path))
    assert len(kept) == episodes  # of the first group
    assert max(len(episode.redraws) for episode in kept) == 2
    assert len({episode.redraws for episode in kept if episode.branch}) == episodes - 2
    for episode in kept:
        again = replay(episode, COINS[coins]())
        assert [turn.reward for turn in again.turns] == [turn.reward for turn in episode.turns]
        assert [turn.messages for turn in again.turns] == [turn.messages for turn in episode.turns]


@pytest.mark.long
@pytest.mark.parametrize("algorithm", [TREE, SIM, BLANKED, BEST])
def test_it_learns(tmp_path: Path, algorithm: str) -> None:
    """All weights: adapters of this rank hardly move an untrained model in so few updates."""
    trainer = branching(tmp_path, algorithm, adapters=False, num_generations=4, max_steps=24)
    trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.3


@pytest.mark.parametrize("algorithm", [pytest.param(SIM, marks=pytest.mark.long), TREE, BEST])
def test_a_horizon_holds_for_branches_too(tmp_path: Path, algorithm: str) -> None:
    grows = {"horizon": {"every": 1, "turns": [1, 2]}}
    trainer = branching(tmp_path, algorithm, schedules=grows, max_steps=2)
    trainer.train()
    for update, turns in ((0, 1), (1, 2)):
        groups = trainer.collector.play(update, trainer.seating)
        played = [episode for group in groups for episode in group.episodes]
        assert any(episode.branch for episode in played) is (algorithm == SIM or turns > 1)
        assert {max(turn.index for turn in episode.turns) + 1 for episode in played} == {turns}
        assert {episode.env_kwargs["turns"] for episode in played} == {turns}


def test_what_fails_under_a_horizon_is_replaced_by_as_short_a_copy(tmp_path: Path) -> None:
    """Else the next branch would find an episode that is longer than its record."""
    grows = {"horizon": {"turns": [1]}}
    fails = shaky(Lower, lambda env: env.number == 6 and env.episode == 0)
    trainer = branching(tmp_path, SIM, fails, schedules=grows, max_failed_share=1.0)
    groups = trainer.collector.play(0, trainer.seating)
    played = [episode for group in groups for episode in group.episodes]
    assert any(episode.failed for episode in played)
    assert {len(episode.turns) for episode in played if not episode.failed} == {2}
    assert trainer.collector.env.max_turns == 2
