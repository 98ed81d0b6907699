"""Training where environments raise: masked, counted, and stopped where it is too much."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.crossed import in_pairs
from support.gradients import MODES, assert_same, give, played, trainer_of, update, written_out
from support.models import make_trainer, settings, weights
from support.toys import Lower, WordPair, shaky

from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.core.records import EpisodeGroup, StopReason, Turn, living, read_jsonl
from llm_marl_envs.play.rollout import EpisodesFailedError
from llm_marl_envs.policies import ScriptedPolicy
from trainers.algorithms import ALGORITHMS, algorithm_class
from trainers.batch.packing import own_tokens, total_weight
from trainers.running import metrics
from trainers.running.costs import update_costs
from trainers.running.failures import FAILURE_WINDOW, FailureWindow
from trainers.running.transcripts import write_group
from trainers.schedules.schedules import TaskSchedule

BEARING: dict[str, Any] = {"max_failed_share": 1.0}
pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:update .* episodes failed:UserWarning"),
]


def failed_at(groups: Sequence[EpisodeGroup], *places: tuple[int, int]) -> list[EpisodeGroup]:
    """The groups, episodes at (p, g) failed, longer than the others and with absurd rewards."""

    def fail(episode: Any) -> Any:
        last = episode.turns[-1]
        more = [dataclasses.replace(last, index=last.index + k) for k in (1, 2, 3)]
        turns: list[Turn] = [
            dataclasses.replace(
                turn,
                reward=1e9,
                team_reward=None,
                reward_terms={"absurd": 1e9},
                response=dataclasses.replace(turn.response, cut=True),
            )
            for turn in (*episode.turns, *more)
        ]
        return dataclasses.replace(
            episode,
            turns=tuple(turns),
            stop_reason=StopReason.FAILED,
            failure="Traceback: broke",
            success=None,
        )

    return [
        dataclasses.replace(
            group,
            episodes=tuple(
                fail(e) if (p, g) in places else e for g, e in enumerate(group.episodes)
            ),
        )
        for p, group in enumerate(groups)
    ]


def without(groups: Sequence[EpisodeGroup]) -> list[EpisodeGroup]:
    """The groups as if the failed episodes had never been planned."""
    return [dataclasses.replace(g, episodes=tuple(living(g.episodes))) for g in groups]


class Debate(Lower):
    """`Lower` whose infos say who was right."""

    def play(self, joint_action: Any) -> Outcome:
        facts = {a: {"right": "e" in text} for a, text in joint_action.items()}
        return dataclasses.replace(super().play(joint_action), facts=facts)


# -- advantages -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"algorithm": name, "credit": "team" if name == "marft" else "own"}
            for name in ALGORITHMS.names()
            if not algorithm_class(name).branching
        ),
        {"scale_rewards": "group"},
        {"shuffle_rewards": True},
        {"returns": {"name": "maporl", "bonus": "paper"}},
        {"returns": "maporl", "shuffle_rewards": True},
        {"credit": "own", "discount": 0.5},
    ],
    ids=str,
)
def test_advantages_are_those_of_the_group_without_it(tmp_path: Path, changes: Any) -> None:
    trainer = make_trainer(tmp_path, Debate, tasks_per_update=1, num_generations=6, **changes)
    groups = failed_at(trainer.collector.play(0, trainer.seating), (0, 1), (0, 4))
    rest = [0, 2, 3, 5]
    fresh = make_trainer(tmp_path, Debate, tasks_per_update=1, num_generations=4, **changes)
    expected, small = fresh.collector.judge(0, without(groups))
    inputs, advantages = trainer.collector.judge(0, groups)
    assert small.any()
    assert np.allclose(advantages[:, rest], small, rtol=1e-12, atol=0)  # sums of other lengths
    assert not advantages[:, [1, 4]].any()
    assert not inputs.alive[:, [1, 4]].any()
    assert np.array_equal(inputs.rounding, expected.rounding)
    assert trainer.algorithm.counters == fresh.algorithm.counters
    assert trainer.algorithm.state_dict() == fresh.algorithm.state_dict()
    numbers = metrics.group_metrics(groups, inputs.returns)
    assert numbers.pop("episodes/failed") == 2
    other = metrics.group_metrics(without(groups), expected.returns)
    assert other.pop("episodes/failed") == 0
    assert numbers == pytest.approx(other)


def test_one_that_is_left_alone_is_compared_with_the_past(tmp_path: Path) -> None:
    """Deviation 3 of MAGRPO; and a group of one says nothing of how much returns vary."""
    trainer = make_trainer(tmp_path, Lower, tasks_per_update=2, num_generations=3)
    groups = trainer.collector.play(0, trainer.seating)
    alone = failed_at(groups, (0, 0), (0, 2))
    inputs, _ = trainer.collector.judge(0, alone)
    assert trainer.algorithm.counters["running_baseline"] == 4  # two agents, two turns
    numbers = metrics.group_metrics(alone, inputs.returns)
    whole = metrics.group_metrics(groups[1:], inputs.returns[1:])
    for name in ("reward_std", "frac_reward_zero_std"):
        assert numbers[name] == whole[name]


def test_tokens_of_failed_episodes_are_counted_and_not_trained_on(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, Lower, tasks_per_update=1)
    groups = failed_at(trainer.collector.play(0, trainer.seating), (0, 3))
    whole, rest = update_costs(groups, {}), update_costs(without(groups), {})
    assert whole.tokens > rest.tokens
    prompts = [t.response.prompt_ids or () for e in groups[0].episodes for t in e.turns]
    assert whole.prompt_tokens == sum(map(len, prompts))
    assert (whole.prompt_tokens or 0) > (rest.prompt_tokens or 0) > 0
    advantages = np.ones((4, 2, 2))
    path = tmp_path / "group.jsonl"
    write_group(path, groups[0], advantages, trainer.trained, trainer.team.tokenizers)
    text = path.read_text().splitlines()
    assert ['"tokens"' in line for line in text] == [True, True, True, False]
    assert list(read_jsonl(path))[3].failure == "Traceback: broke"


# -- gradients ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "loss", "places"),
    in_pairs(
        ["adapters", "shared"],
        ["dr_grpo", "grpo", "dapo"],
        [[(0, 1)], [(1, 0), (1, 1), (1, 2), (1, 3)]],
    ),
)
def test_the_gradient_is_that_of_the_others(
    tmp_path: Path, mode: str, loss: str, places: list[tuple[int, int]]
) -> None:
    """Of one failed episode, and of a group that failed altogether."""
    trainer = trainer_of(
        tmp_path, "a_0", "b_0", loss_type=loss, rows_per_micro_batch=3, **MODES[mode], **BEARING
    )
    whole, advantages = played(trainer)
    groups = failed_at(whole, *places)
    give(trainer, groups, advantages)
    trainer._step = trainer.plan.total  # not the first update
    gradient = update(trainer)
    rest = without(groups)
    kept = {
        seat: [[a for g, a in enumerate(each) if (p, g) not in places] for p, each in enumerate(of)]
        for seat, of in advantages.items()
    }
    assert_same(gradient, written_out(trainer, rest, kept))  # type: ignore[arg-type]


def test_a_played_group_of_five_with_one_failed_is_one_of_four(tmp_path: Path) -> None:
    """From rewards to gradients: places 4 and 9 fail in the first one and 8 are left in both."""
    gradients = []
    for size, numbers in ((5, (5, 10)), (4, ())):
        env = shaky(Lower, lambda env, numbers=numbers: env.number in numbers, "later")
        trainer = make_trainer(tmp_path, env, num_generations=size, temperature=0.8, **BEARING)
        trainer._step = trainer.plan.total
        trainer.current_gradient_accumulation_steps = trainer.plan.total
        trainer.model.train()
        gradients.append(update(trainer))
        assert trainer.failures.window.totals()[:2] == (len(numbers), 2 * size)
    assert_same(*gradients)


# -- runs -----------------------------------------------------------------------------------------
def seeds_of(updates: Sequence[int], places: Sequence[int] = (0, 1)) -> set[int]:
    """Reset seeds of these updates and groups in a run as `make_trainer` makes it."""
    schedule = TaskSchedule(30, 2, 3)
    return {schedule.reset_seed(u, p) for u in updates for p in places}


def broken_in(
    updates: Sequence[int], places: Sequence[int] = (0, 1), base: Any = Lower, **pays: Any
) -> Any:
    seeds = seeds_of(updates, places)
    return shaky(base, lambda env: env.seed in seeds, "later", **pays)


def logged(trainer: Any, name: str) -> list[float]:
    return [log[name] for log in trainer.state.log_history if name in log]


def test_a_failed_episode_does_not_end_the_run(tmp_path: Path) -> None:
    env = shaky(Lower, lambda env: (env.number, env.episode) == (3, 1), "later")
    trainer = make_trainer(tmp_path, env, max_steps=3)
    before = weights(trainer)
    with pytest.warns(UserWarning, match=r"update 1: 1 of 8 episodes failed \(.*failed-000001"):
        trainer.train()
    assert trainer.state.global_step == 3
    assert logged(trainer, "episodes/failed") == [0, 1, 0]
    assert len(logged(trainer, "reward")) == 3
    assert not torch.equal(weights(trainer)["left_0"], before["left_0"])
    (kept,) = read_jsonl(tmp_path / "transcripts" / "failed-000001.jsonl")
    assert "OSError: environment 3 broke in its episode 1" in str(kept.failure)
    assert len(kept.turns) == 4
    assert trainer.failures.window.totals()[:2] == (1, 24)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algorithm": "magrpo_tree", "num_generations": 2},
        pytest.param({"eval": True}, id="eval"),
    ],
    ids=str,
)
def test_a_reward_that_is_no_number_is_as_an_exception(tmp_path: Path, changes: Any) -> None:
    """The same weights, log and transcripts, in branches and evaluations, too."""
    runs = []
    ways: Any = ({}, {"reward": math.nan})
    for pays in ways:
        env: Any = broken_in([1], [0], **pays)
        plan: dict[str, Any] = {"max_steps": 3, **BEARING, **changes}
        if plan.pop("eval", False):
            env = Lower
            plan |= {"eval_strategy": "steps", "eval_steps": 1, "eval_tasks": 3}
            plan["eval_env"] = shaky(Lower, lambda env: env.number == 1, "later", **pays)
        folder = tmp_path / ("paid" if pays else "raised")
        trainer = make_trainer(folder, env, **plan)
        trainer.train()
        failed = [
            dataclasses.replace(e, failure="")
            for file in sorted((folder / "transcripts").glob("failed-*"))
            for e in read_jsonl(file)
        ]
        runs.append((trainer, failed))
    (raised, its), (paid, others) = runs
    assert others == its
    assert its
    for policy, value in weights(paid).items():
        assert torch.equal(value, weights(raised)[policy])
    for name in ("reward", "reward_std", "episodes/failed", "eval_failed", "eval_reward"):
        assert logged(paid, name) == logged(raised, name)


def test_an_environment_that_fails_in_the_first_update_stops_at_once(tmp_path: Path) -> None:
    """With its own error, whatever share may fail."""
    env = shaky(Lower, lambda env: env.number == 3)
    trainer = make_trainer(tmp_path, env, **BEARING)
    before = weights(trainer)
    with pytest.raises(OSError, match="environment 3 broke") as error:
        trainer.train()
    assert "update 0: 1 of 8 episodes failed" in str(error.value.__notes__)
    assert "task '" in str(error.value.__notes__)
    assert [e.failed for e in read_jsonl(tmp_path / "transcripts" / "failed-000000.jsonl")] == [
        True
    ]
    assert not list(tmp_path.glob("checkpoint-*"))
    for policy, value in weights(trainer).items():
        assert torch.equal(value, before[policy])


def test_observations_that_are_no_text_are_a_type_error(tmp_path: Path) -> None:
    class Numbers(Lower):
        def reset(self, seed: Any = None, options: Any = None) -> Any:
            _, infos = super().reset(seed, options)
            return dict.fromkeys(self.agents, 7), infos

    with pytest.raises(TypeError, match="only text environments"):
        make_trainer(tmp_path, Numbers).train()


def test_what_a_partner_raises_ends_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    """The same run with the partner back ends as if it had never gone."""
    gone: list[int] = []

    def said(request: Any) -> str:
        if gone and request.seed == gone[0]:
            raise ConnectionError("the server is gone")
        gone.append(request.seed)
        return "x"

    def run(folder: Path, resume: Any = None) -> Any:
        partners = {"right_0": ScriptedPolicy(said)}
        trainer = make_trainer(folder, Lower, partners=partners, max_steps=4, **BEARING)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    whole = run(tmp_path / "whole")
    gone[:] = [gone[len(gone) * 5 // 8]]  # of the third update
    with pytest.raises(ConnectionError, match="server is gone") as stopped:
        run(tmp_path)
    (note,) = stopped.value.__notes__
    kept = tmp_path / "checkpoint-2"
    assert note == f"{kept} keeps what was learned before; go on with resume_from_checkpoint=true"
    gone.clear()
    for policy, value in weights(run(tmp_path, resume=True)).items():
        assert torch.equal(value, weights(whole)[policy])


def test_too_many_stop_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    """And the run goes on from there once the environment is mended, as if it had never failed."""
    trainer = make_trainer(tmp_path, broken_in([2, 3], [1]), max_steps=4)
    with pytest.raises(EpisodesFailedError) as error:
        trainer.train()
    message = str(error.value)
    seed = TaskSchedule(30, 2, 3).reset_seed(2, 1)
    for words in (
        "update 2: 4 of 8 episodes failed",
        str(tmp_path / "transcripts" / "failed-000002.jsonl"),
        "In the last 3 updates 4 of 24 did, more than max_failed_share=0.05",
        "task '",
        f"reset seed {seed}",
        "Traceback (most recent call last)",
        "OSError: environment",
    ):
        assert words in message
    assert [p.name for p in tmp_path.glob("checkpoint-*")] == ["checkpoint-2"]
    assert len(list(read_jsonl(tmp_path / "transcripts" / "failed-000002.jsonl"))) == 4
    again = make_trainer(tmp_path, broken_in([2, 3], [1]), max_steps=4)
    with pytest.raises(EpisodesFailedError, match="update 2"):
        again.train(resume_from_checkpoint=True)
    mended = make_trainer(tmp_path, Lower, max_steps=4)
    mended.train(resume_from_checkpoint=True)
    assert mended.failures.window.totals() == (0, 32, "")
    unbroken = make_trainer(tmp_path / "other", Lower, max_steps=4)
    unbroken.train()
    for policy, value in weights(mended).items():
        assert torch.equal(value, weights(unbroken)[policy])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="", marks=pytest.mark.long),
        pytest.param({"num_iterations": 2}, id="mid-buffer"),
    ],
)
def test_a_resumed_run_remembers_what_failed(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Its weights, log and count are those of the unbroken one; failing again is no first time."""
    plan: dict[str, Any] = {"max_steps": 5, "save_strategy": "steps", "save_steps": 3, **changes}
    env = broken_in([1, 3], [0])
    unbroken = make_trainer(tmp_path, env, **plan, **BEARING)
    unbroken.train()
    resumed = make_trainer(tmp_path, env, **plan, **BEARING)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.failures.window.totals()[0] == (4 if changes else 8)
    # Which copy raised differs, so the words do.
    assert [u[:2] for u in resumed.failures.window.updates] == [
        u[:2] for u in unbroken.failures.window.updates
    ]
    for policy, value in weights(resumed).items():
        assert torch.equal(value, weights(unbroken)[policy])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.long),
        {"beta": 0.1},
        pytest.param({"loss_type": "dapo"}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_an_update_that_failed_altogether_moves_nothing(tmp_path: Path, changes: Any) -> None:
    """Not by momentum, not by weight decay, not by a KL term."""
    plan: dict[str, Any] = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1}
    plan |= {"weight_decay": 0.1, **changes, **BEARING}
    trainer = make_trainer(tmp_path, broken_in([1]), **plan)
    trainer.train()
    saved = [torch.load(tmp_path / f"checkpoint-{n}" / "optimizer.pt") for n in (1, 2, 3)]
    steps = [max(float(s["step"]) for s in checkpoint["state"].values()) for checkpoint in saved]
    assert steps == [1, 1, 2]
    adapters = [sorted((tmp_path / f"checkpoint-{n}").rglob("*.safetensors")) for n in (1, 2, 3)]
    contents = [[file.read_bytes() for file in files] for files in adapters]
    assert contents[0] == contents[1]
    assert contents[1] != contents[2]
    assert logged(trainer, "episodes/failed") == [0, 8, 0]
    assert len(logged(trainer, "reward")) == 2
    assert not trainer.collector.env.closed, "what checkpoints describe is a living environment"
    batches = trainer._buffered_inputs or []
    assert float(own_tokens(batches, "left_0")) > 0
    assert float(total_weight(batches, "left_0")) > 0


def test_evaluation_during_training_counts_them(tmp_path: Path) -> None:
    """Its means hold the smallest return; the other two play as beside the first they would."""
    plan: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 1, "eval_tasks": 3}
    whole = make_trainer(tmp_path / "whole", Lower, eval_env=Lower, **plan)
    seeds: list[int] = []
    watched = shaky(Lower, lambda env: seeds.append(env.seed), "reset")
    whole.make_eval_env = watched
    whole.evaluate()
    env = shaky(Lower, lambda env: env.seed == seeds[0], "later")
    trainer = make_trainer(tmp_path, Lower, eval_env=env, **plan)
    with pytest.warns(UserWarning, match="1 of 3 episodes of the evaluation failed"):
        trainer.train()
    assert logged(trainer, "eval_failed") == [1, 1]
    assert len(logged(trainer, "eval_reward")) == len(logged(trainer, "eval_success")) == 2
    (kept,) = read_jsonl(tmp_path / "transcripts" / "failed-eval-000002.jsonl")
    assert kept.failed
    groups = failed_at(trainer.collector.play(0, trainer.seating), (0, 2))
    rest = living(groups[0].episodes)
    assert metrics.evaluation_metrics(groups[0].episodes, "eval") == {"eval_failed": 1}
    counted = [dataclasses.replace(e, floor=-1.0) if e.failed else e for e in groups[0].episodes]
    numbers = metrics.evaluation_metrics(counted, "eval")
    assert numbers.pop("eval_failed") == 1
    assert numbers["eval_reward"] == pytest.approx((sum(e.team_return for e in rest) - 1) / 4)
    assert numbers["eval_success"] == sum(bool(e.success) for e in rest) / 4


def test_an_evaluation_that_cannot_be_counted_stops_with_a_checkpoint(tmp_path: Path) -> None:
    plan: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 2, "eval_tasks": 3}
    env = shaky(Lower, lambda env: env.number == 1)
    env.reward_range = None
    trainer = make_trainer(tmp_path, Lower, eval_env=env, max_steps=5, **plan)
    with pytest.raises(OSError, match="broke") as error:
        trainer.train()
    assert "it declares no `reward_range`" in str(error.value.__notes__)
    assert (tmp_path / "checkpoint-2").is_dir()


def test_an_evaluation_that_fails_altogether_stops_with_a_checkpoint(tmp_path: Path) -> None:
    plan: dict[str, Any] = {"eval_strategy": "steps", "eval_steps": 2, "eval_tasks": 3}
    env = shaky(Lower, lambda env: True)
    trainer = make_trainer(tmp_path, Lower, eval_env=env, max_steps=5, **plan)
    with pytest.raises(OSError, match="broke") as error:
        trainer.train()
    assert "3 of 3 episodes of the evaluation failed" in str(error.value.__notes__)
    resumed = make_trainer(tmp_path, Lower, eval_env=Lower, max_steps=5, **plan)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert resumed.state.global_step == 5


def test_failed_episodes_raise_no_alarm_of_flat_rewards(tmp_path: Path) -> None:
    """A group with one episode left cannot vary, and is not said to be flat."""
    env = shaky(Lower, lambda env: env.number % 4 and env.episode)
    trainer = make_trainer(tmp_path, env, max_steps=3, **BEARING)
    trainer.train()
    assert len(logged(trainer, "frac_reward_zero_std")) < 3
    assert 1.0 not in logged(trainer, "frac_reward_zero_std")


# -- how many are too many ------------------------------------------------------------------------
def window(*updates: tuple[int, int]) -> FailureWindow:
    return FailureWindow(
        tuple((failed, played, f"{failed} of {played}") for failed, played in updates)
    )


def test_the_window_by_hand() -> None:
    assert not window((5, 100)).exceeds(0.05)
    assert window((6, 100)).exceeds(0.05)
    assert not window((29, 100)).exceeds(0.29)  # 0.29 * 100 is below 29 in float arithmetic
    assert not window((1, 8)).exceeds(0.05), "one episode ends no run"
    assert window((1, 8)).exceeds(0.0)
    assert window((1, 8), (1, 8)).exceeds(0.05)
    assert not window((8, 8)).exceeds(1.0)
    assert not window((0, 8)).exceeds(0.0)
    assert window((0, 8), (1, 8), (2, 8)).totals() == (3, 24, "0 of 8")


def test_the_window_forgets_after_twenty_updates(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, WordPair, tasks_per_update=1)
    good = trainer.collector.play(0, trainer.seating)[0].episodes
    bad = failed_at(
        [EpisodeGroup(task_id=good[0].task_id, seed=good[0].seed, episodes=good)], (0, 1)
    )
    window = FailureWindow().after(bad[0].episodes)
    assert window.totals()[:2] == (1, 4)
    assert "Traceback: broke" in window.totals()[2]
    assert f"task {good[0].task_id!r}, reset seed {good[0].seed}" in window.totals()[2]
    for _ in range(FAILURE_WINDOW - 1):
        window = window.after(good)
    assert window.totals()[:2] == (1, 80)
    assert window.after(good).totals() == (0, 80, "")


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "0.1", True, None])
def test_the_share_is_checked(tmp_path: Path, share: Any) -> None:
    error = ValueError if isinstance(share, float) else TypeError
    with pytest.raises(error, match="max_failed_share"):
        settings(tmp_path, max_failed_share=share)
