"""The trainer as a user meets it: learns, resumes, refuses, stops, saves."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from support.full_disk import full_disk
from support.models import SETTINGS, make_trainer, settings, tiny_tokenizer, untrained, weights
from support.toys import BareAEC, BareParallel, Lower, Relay
from trl.trainer.grpo_config import GRPOConfig

from llm_marl_envs import make
from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.core.options import declared_fields
from llm_marl_envs.core.records import read_jsonl
from llm_marl_envs.core.tasks import ListSource, Task
from llm_marl_envs.measure.numbers.values import logged
from llm_marl_envs.policies import ScriptedPolicy
from trainers.batch.packing import pack_rows
from trainers.config import MAGRPOConfig
from trainers.experience.collect import not_finite
from trainers.trainer import MAGRPOTrainer
from trainers.weights.team_files import load_team, read_team_file
from trainers.weights.tiny import build_model, build_tokenizer


class Sick(Lower):
    """Pays NaN in the second episode of a task."""

    def play(self, joint_action: Any) -> Outcome:
        outcome = super().play(joint_action)
        bad = any("a" in text or "e" in text or len(text) > 2 for text in joint_action.values())
        terms = {"lower": math.nan if bad else 0.0}
        return Outcome(reward_terms=dict.fromkeys(outcome.reward_terms, terms))


def test_training_raises_the_reward(tmp_path: Path):
    trainer = make_trainer(
        tmp_path,
        lambda: Lower(turns=1),
        adapters=False,
        max_steps=12,
        tasks_per_update=2,
        num_generations=16,
        rows_per_micro_batch=64,
        learning_rate=1e-2,
    )
    trainer.train()
    rewards = [log["reward"] for log in trainer.state.log_history if "reward" in log]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2


def test_every_logged_scalar_has_an_entry(tmp_path: Path):
    held_out = {"eval_env": Lower, "eval_strategy": "steps", "eval_steps": 1, "eval_tasks": 2}
    trainer = make_trainer(tmp_path, Lower, beta=0.1, **held_out)
    trainer.train()
    names = {name for entry in trainer.state.log_history for name in entry}
    assert {"eval_failed", "left_0/cut", "kl", "clip_ratio/low_min"} <= names
    assert [name for name in sorted(names) if logged(name) is None] == []


def test_partners_play_and_are_not_trained(tmp_path: Path):
    partner = ScriptedPolicy(lambda request: "quiet")
    trainer = make_trainer(tmp_path, Lower, partners={"right_0": partner}, transcript_every=1)
    assert trainer.team.policies == ("left_0",)
    before = weights(trainer)
    trainer.train()
    assert not torch.equal(weights(trainer)["left_0"], before["left_0"])
    episode = next(read_jsonl(tmp_path / "transcripts" / "update-000000.jsonl"))
    assert {t.action for t in episode.trajectory("right_0")} == {"quiet"}
    assert len(episode.trajectory("left_0")) == 2


@pytest.mark.parametrize(
    "mode", [{}, {"adapters": False}, {"adapters": False, "weights": "separate"}]
)
def test_a_frozen_seat_plays_with_the_weights_it_began_with(tmp_path: Path, mode: dict[str, Any]):
    """Also where its policy moves on, because another seat shares and trains it."""
    trainer = make_trainer(tmp_path, Lower, frozen=["right_0"], **mode)
    before = said_by(trainer)
    trainer.train()
    after = said_by(trainer)
    assert after["right_0"] == before["right_0"]
    assert after["left_0"] != before["left_0"]
    trainer.save_team(tmp_path / "team")
    saved = read_team_file(tmp_path / "team")["agents"]
    assert ("right_0" in saved) is (mode != {"adapters": False})


def said_by(trainer: Any) -> dict[str, list[Any]]:
    """Agent -> first actions and their log-probs, with the same draws each time."""
    groups = trainer.collector.play(0, trainer.seating)
    turns = [t for g in groups for e in g.episodes for t in e.turns if t.index == 0]
    return {
        agent: [(t.action, t.response.logprobs) for t in turns if t.agent == agent]
        for agent in trainer.team.policy_of
    }


def test_two_seats_may_share_an_adapter(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower, policies={"left_0": "both", "right_0": "both"})
    trainer.train()
    assert trainer.team.policies == ("both",)
    assert trainer.plan.trajectories == {"both": 16}


def test_a_policy_with_nothing_to_learn_keeps_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """In update 2 every reward is equal: momentum and weight decay must not move the weights."""
    trainer = make_trainer(
        tmp_path, Turning, max_steps=1, weight_decay=0.1, save_strategy="steps", save_steps=1
    )
    trainer.train()
    after_one = weights(trainer)
    monkeypatch.setattr(Turning, "play", Flat.play)
    longer = make_trainer(tmp_path, Turning, max_steps=2, weight_decay=0.1)
    longer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert longer.state.global_step == 2
    for policy, value in weights(longer).items():
        assert torch.equal(value, after_one[policy])


class Turning(Lower):
    """Its rules change between two runs, which otherwise are one."""


class Flat(Lower):
    """Pays 0.1, whose mean over eight episodes is not 0.1 in float arithmetic."""

    def play(self, joint_action: Any) -> Outcome:
        return Outcome(reward_terms={agent: {"flat": 0.1} for agent in self.possible_agents})


class LeftOnly(Lower):
    """The second agent's reward never varies."""

    def play(self, joint_action: Any) -> Outcome:
        terms = dict(Lower.play(self, joint_action).reward_terms)
        return Outcome(
            reward_terms={**terms, "right_0": {"flat": 0.1}},
            feedback=dict.fromkeys(self.possible_agents, "Again."),
        )


@pytest.mark.parametrize("mode", [True, False], ids=["adapters", "separate"])
def test_clipping_one_policy_does_not_touch_another(tmp_path: Path, mode: bool):
    """The other's advantages times 1,000 leave this policy's weights bit-identical."""
    changes: dict[str, Any] = {} if mode else {"weights": "separate"}

    def run(factor: float) -> dict[str, torch.Tensor]:
        trainer = make_trainer(
            tmp_path / f"{factor}",
            Lower,
            adapters=mode,
            max_steps=1,
            max_grad_norm=0.01,
            **changes,
        )
        judge = trainer.collector.judge

        def scaled(update: int, groups: Any) -> Any:
            inputs, advantages = judge(update, groups)
            advantages[:, :, trainer.trained.index("right_0")] *= factor
            return inputs, advantages

        trainer.collector.judge = scaled  # type: ignore[method-assign]
        trainer.train()
        return weights(trainer)

    assert torch.equal(run(1.0)["left_0"], run(1000.0)["left_0"])


def test_a_reward_that_is_no_number_in_the_first_update_stops_the_run(tmp_path: Path):
    """As an exception of the environment does."""
    trainer = make_trainer(tmp_path, lambda: Sick(turns=1), num_generations=8)
    before = weights(trainer)
    words = "reward 'lower' of left_0, turn 0: expected a finite number, got nan"
    with pytest.raises(ValueError, match=words) as stopped:
        trainer.train()
    assert "update 0: " in str(stopped.value.__notes__)
    assert "task '" in str(stopped.value.__notes__)
    for policy, value in weights(trainer).items():
        assert torch.equal(value, before[policy])


def log_prob(trainer: MAGRPOTrainer) -> None:
    """A sampled log-prob of the third update is no number."""
    play = trainer.stage.once

    def sick(update: int) -> Any:
        if update == 2:
            raise not_finite(2, "log-prob nan of right_0")
        return play(update)

    trainer.stage.once = sick  # type: ignore[method-assign]


def advantage(trainer: MAGRPOTrainer) -> None:
    """An advantage of the third update is no number."""
    judge = trainer.algorithm.advantages
    trainer.algorithm.advantages = lambda inputs: (  # type: ignore[method-assign]
        judge(inputs) * (math.inf if trainer._update == 2 else 1)
    )


def loss(trainer: MAGRPOTrainer) -> None:
    """The loss of the third update's second micro-batch is no number."""
    extra = trainer.algorithm.extra_loss
    trainer.algorithm.extra_loss = lambda inputs, model: (  # type: ignore[method-assign]
        torch.tensor(math.nan)
        if trainer._step == 2 * trainer._per_rollout + 1
        else extra(inputs, model)
    )


def gradient(trainer: MAGRPOTrainer) -> None:
    """A gradient of the third update is no number, and its loss is one."""
    (parameter, *_) = trainer.team.parameters("left_0")
    parameter.register_hook(lambda found: found * (math.nan if trainer._update == 2 else 1))


@pytest.mark.parametrize(
    "breaks",
    [loss, *(pytest.param(b, marks=pytest.mark.full) for b in (log_prob, advantage, gradient))],
)
def test_a_number_that_is_not_finite_loses_no_finished_update(tmp_path: Path, breaks: Any):
    """The run that goes on from what was kept ends as one in which nothing broke."""
    whole = make_trainer(tmp_path / "whole", Lower, max_steps=4)
    whole.train()
    broken = make_trainer(tmp_path, Lower, max_steps=4)
    breaks(broken)
    with pytest.raises(FloatingPointError, match=r"update 2: .* is not finite") as stopped:
        broken.train()
    assert f"{tmp_path / 'checkpoint-2'} keeps what was learned" in stopped.value.__notes__[0]
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-2"]
    mended = make_trainer(tmp_path, Lower, max_steps=4)
    mended.train(resume_from_checkpoint=True)
    for policy, value in weights(mended).items():
        assert torch.equal(value, weights(whole)[policy])


def broken_in_step(trainer: MAGRPOTrainer, step: int) -> None:
    """Every gradient of a step of the optimiser is no number."""
    for policy in trainer.team.trained_policies:
        parameter = trainer.team.parameters(policy)[0]
        parameter.register_hook(
            lambda found: found * (math.nan if trainer.state.global_step == step else 1)
        )


ROLES = {"left_0": "left", "right_0": "right"}


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": {"name": "rae", "roles": ROLES}},
        {"schedules": {"sequential": {}}},
        pytest.param({"algorithm": "central_critic"}, marks=pytest.mark.full),
    ],
    ids=["running means", "in sequence", "a critic"],
)
def test_an_update_that_is_played_again_changes_nothing_twice(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """An error after the play: what that has changed beside the weights is taken back, too."""
    plan = {"max_steps": 4, "num_iterations": 2, "learning_rate": 0.05, **changes}
    whole = make_trainer(tmp_path / "whole", Lower, **plan)
    whole.train()
    broken = make_trainer(tmp_path / "run", Lower, **plan)
    broken_in_step(broken, 2)
    with pytest.raises(FloatingPointError):
        broken.train()
    mended = make_trainer(tmp_path / "run", Lower, **plan)
    mended.train(resume_from_checkpoint=True)
    for policy, value in weights(mended).items():
        assert torch.equal(value, weights(whole)[policy])
    assert str(mended.algorithm.state_dict()) == str(whole.algorithm.state_dict())
    assert mended.costs.tokens == whole.costs.tokens


@pytest.mark.parametrize(
    ("what", "saves"),
    [
        ("weights", True),
        pytest.param("weights", False, marks=pytest.mark.full),
        pytest.param("moments", False, marks=pytest.mark.full),
        pytest.param("algorithm", False, marks=pytest.mark.full),
    ],
)
def test_what_is_not_finite_is_not_kept(tmp_path: Path, what: str, saves: bool):
    """The newest checkpoint is one of before; where there is none, the note says so."""
    saving: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1} if saves else {}
    trainer = make_trainer(tmp_path, Lower, max_steps=3, **saving)
    once = trainer.stage.once

    def poisoned(update: int) -> Any:
        if what == "algorithm" and update == 1:  # what the last play did is taken back
            running: Any = trainer.algorithm
            running.past.running["x"] = math.nan
        if update < 2:
            return once(update)
        (parameter, *_) = trainer.team.parameters("right_0")
        with torch.no_grad():
            if what == "weights":
                parameter[0, 0] = math.nan
            elif what == "moments":
                trainer.optimizer.state[parameter]["exp_avg"][0, 0] = math.inf
        raise not_finite(2, "log-prob nan of right_0")

    trainer.stage.once = poisoned  # type: ignore[method-assign]
    with pytest.raises(FloatingPointError) as stopped:
        trainer.train()
    (note,) = stopped.value.__notes__
    newest = f"the newest checkpoint is {tmp_path / 'checkpoint-2'}"
    assert note.startswith("what the run has learned by step 2 is not finite and is not kept; ")
    assert note.endswith(newest if saves else "there is no checkpoint")
    kept = sorted(path.name for path in tmp_path.glob("checkpoint-*"))
    assert kept == (["checkpoint-1", "checkpoint-2"] if saves else [])


@pytest.mark.full
def test_where_nothing_can_be_kept_the_error_stays_what_it_was(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower, max_steps=3)
    log_prob(trainer)
    once = trainer.stage.once

    def full(update: int) -> Any:
        if update == 2:
            disk.enter_context(full_disk(100))
        return once(update)

    trainer.stage.once = full  # type: ignore[method-assign]
    with ExitStack() as disk, pytest.raises(FloatingPointError, match="log-prob nan") as stopped:
        trainer.train()
    (note,) = stopped.value.__notes__
    assert re.match(r"no checkpoint could be written \(.*checkpoint-2/.*: could not be", note)
    assert not list(tmp_path.glob("*checkpoint*"))


def test_an_advantage_or_loss_that_is_not_finite_stops_the_run(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower)
    trainer.algorithm.advantages = lambda inputs: inputs.returns * math.inf  # type: ignore[method-assign]
    with pytest.raises(FloatingPointError, match="advantage of"):
        trainer.train()
    trainer = make_trainer(tmp_path, Lower)
    before = weights(trainer)["right_0"]
    with torch.no_grad():
        trainer.team.parameters("left_0")[0][0, 0] = math.nan
    trainer.token_policy.engine = make_trainer(tmp_path / "x", Lower).engine  # which stays healthy
    with pytest.raises(FloatingPointError, match=r"loss nan of .*left_0"):
        trainer.train()
    assert torch.equal(weights(trainer)["right_0"], before)


def test_a_sampled_log_prob_that_is_not_finite_names_the_episode(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower)
    with torch.no_grad():
        trainer.team.parameters("right_0")[0][0, 0] = math.nan
    before = weights(trainer)["left_0"]
    with pytest.raises(FloatingPointError, match=r"log-prob nan of right_0, turn 0, task '"):
        trainer.train()
    assert torch.equal(weights(trainer)["left_0"], before)


@pytest.mark.parametrize("key", ["old", "ref"])
def test_a_scored_log_prob_that_is_not_finite_names_the_row(tmp_path: Path, key: str):
    changes: dict[str, Any] = {"num_iterations": 2} if key == "old" else {"beta": 0.1}
    trainer = make_trainer(tmp_path, Lower, **changes)
    trainer.token_policy.engine = make_trainer(tmp_path / "x", Lower).engine  # which stays healthy
    with torch.no_grad():
        if key == "old":
            trainer.team.parameters("right_0")[0][0, 0] = math.nan
        else:
            trainer.team._starts["right_0"][0][0, 0] = math.nan
    words = rf"{key}_per_token_logps of task '.*', episode 0 of its group, right_0"
    with pytest.raises(FloatingPointError, match=words):
        trainer.train()


@pytest.mark.parametrize(
    "mode",
    [pytest.param(True, id="adapters"), pytest.param(False, id="separate", marks=pytest.mark.long)],
)
def test_an_idle_policy_beside_one_that_learns_keeps_still(
    tmp_path: Path, mode: bool, monkeypatch: pytest.MonkeyPatch
):
    changes: dict[str, Any] = {} if mode else {"weights": "separate"}
    changes |= {"weight_decay": 0.1, "num_generations": 8, "credit": "own"}
    saving = {**changes, "save_strategy": "steps", "save_steps": 1}
    one = make_trainer(tmp_path, Turning, adapters=mode, max_steps=1, **saving)
    one.train()
    monkeypatch.setattr(Turning, "play", LeftOnly.play)
    longer = make_trainer(tmp_path, Turning, adapters=mode, max_steps=3, **changes)
    longer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert torch.equal(weights(longer)["right_0"], weights(one)["right_0"])
    assert not torch.equal(weights(longer)["left_0"], weights(one)["left_0"])


@pytest.mark.parametrize("env", [BareParallel, BareAEC, Relay], ids=["bare", "bare-aec", "aec"])
@pytest.mark.parametrize("context", ["append", "fresh"])
def test_any_text_environment_trains(tmp_path: Path, env: Any, context: str):
    trainer = make_trainer(tmp_path, env, context=context, rows_per_micro_batch=64)
    before = weights(trainer)
    trainer.train()
    assert trainer.state.global_step == 2
    assert weights(trainer).keys() == before.keys()


def test_a_seat_keeps_its_tokens_when_another_begins(tmp_path: Path):
    """In a turn-based environment a seat's first action must not make the others forget."""
    trainer = make_trainer(tmp_path, lambda: Relay(rounds=2), rows_per_micro_batch=64)
    groups = trainer.collector.play(0, trainer.seating)
    inputs, advantages = trainer.collector.judge(0, groups)
    rows = pack_rows(groups, trainer.trained, advantages, inputs.alive)
    assert inputs.alive.all()
    assert len(rows) == 2 * 4 * len(trainer.trained)


def test_tokens_that_nobody_sampled_cannot_make_a_kl_infinite(tmp_path: Path):
    """TRL takes exponentials of differences of log-probs before it masks them."""
    trainer = make_trainer(tmp_path, Lower, beta=0.1, num_iterations=2)
    for batch in trainer._new_batches():
        foreign = batch["tool_mask"] == 0
        assert foreign.any()
        assert bool((batch["ref_per_token_logps"][foreign] == -1e4).all())
        assert bool((batch["old_per_token_logps"][foreign] == 0.0).all())
        own = batch["ref_per_token_logps"][~foreign]
        assert torch.equal(own, batch["old_per_token_logps"][~foreign])


class ZeroSum(Lower):
    """Pays +0.7, -0.7 and rounding: what the team earns is what float arithmetic leaves."""

    def play(self, joint_action: Any) -> Outcome:
        lean = 0.1 * len(joint_action["left_0"])
        pays = {"left_0": 0.7 + lean, "right_0": -0.5 - lean - 0.2}
        return Outcome(reward_terms={agent: {"sum": pay} for agent, pay in pays.items()})


def test_sums_that_cancel_leave_nothing_to_learn(tmp_path: Path):
    trainer = make_trainer(tmp_path, ZeroSum, num_generations=8, max_completion_length=7)
    groups = trainer.collector.play(0, trainer.seating)
    inputs, advantages = trainer.collector.judge(0, groups)
    assert inputs.returns.any(), "rounding must leave something, else this shows nothing"
    assert not advantages.any()


def test_chunks_do_not_change_an_update(tmp_path: Path):
    """Only the matrix products of smaller batches round differently."""
    found = []
    for chunks in (1, 3):
        trainer = make_trainer(tmp_path, Lower, rollout_chunks=chunks)
        groups = trainer.collector.play(0, trainer.seating)
        found.append([turn.action for group in groups for e in group.episodes for turn in e.turns])
    assert found[0] == found[1]


def test_evaluation_during_training(tmp_path: Path):
    trainer = make_trainer(
        tmp_path, Lower, eval_env=Lower, eval_strategy="steps", eval_steps=1, eval_tasks=3
    )
    trainer.train()
    found = [log["eval_reward"] for log in trainer.state.log_history if "eval_reward" in log]
    assert len(found) == 2
    assert sum("reward" in log for log in trainer.state.log_history) == 2
    assert not any("reward" in log and "eval_reward" in log for log in trainer.state.log_history)
    assert all(0 <= value <= 1 * 2 for value in found)


def test_shuffled_rewards_are_the_same_rewards(tmp_path: Path):
    plain = make_trainer(tmp_path, Lower)
    mixed = make_trainer(tmp_path, Lower, shuffle_rewards=True)
    groups = plain.collector.play(0, plain.seating)
    a, _ = plain.collector.judge(0, groups)
    b, _ = mixed.collector.judge(0, groups)
    assert not (a.rewards == b.rewards).all()
    assert sorted(a.rewards.ravel()) == sorted(b.rewards.ravel())


def test_truncated_completions_can_be_masked(tmp_path: Path):
    """Actions of an untrained model end at the limit, so nearly nothing is left to train on."""
    trainer = make_trainer(
        tmp_path, Lower, mask_truncated_completions=True, max_completion_length=3
    )
    groups = trainer.collector.play(0, trainer.seating)
    cut = sum(t.response.cut for g in groups for e in g.episodes for t in e.turns)
    trainer.collector.play = lambda update, team: groups  # type: ignore[method-assign]
    own = sum(int(batch["tool_mask"].sum()) for batch in trainer._new_batches())
    everything = sum(
        len(t.response.completion_ids or ()) for g in groups for e in g.episodes for t in e.turns
    )
    assert cut > 0
    assert own == everything - 3 * cut


def test_models_of_different_families_train_together(tmp_path: Path):
    """Another size and another vocabulary for the second agent."""
    left, left_tokenizer = untrained(0)
    right_tokenizer = build_tokenizer(["zzz zzz zzz yyy"] * 3, 270)
    right = build_model(right_tokenizer, 1, SETTINGS.changed(hidden_size=48, vocab_size=270))
    trainer = MAGRPOTrainer(
        {"left_0": left, "right_0": right},
        Lower,
        settings(tmp_path, weights="separate"),
        processing_class={"left_0": left_tokenizer, "right_0": right_tokenizer},
    )
    before = weights(trainer)
    trainer.train()
    for policy, value in weights(trainer).items():
        assert not torch.equal(value, before[policy]), policy
    trainer.save_team(tmp_path / "team")
    again = load_team(tmp_path / "team")
    for policy in trainer.team.policies:
        ours, theirs = trainer.team.parameters(policy), again.parameters(policy)
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_learning_rate_per_policy(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower, policy_learning_rates={"right_0": 0.0}, max_steps=1)
    before = weights(trainer)
    trainer.train()
    after = weights(trainer)
    assert torch.equal(after["right_0"], before["right_0"])
    assert not torch.equal(after["left_0"], before["left_0"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_generations": 1}, "num_generations=1"),
        ({"algorithm": "magrp"}, "no algorithm 'magrp'; did you mean 'magrpo'"),
        ({"weights": "adapter"}, "weights='adapter'"),
        ({"loss_type": "bnpo"}, "split would change"),
        ({"top_p": 0.9}, "top_p=0.9 cannot be set here, leave it at 1.0: training samples from"),
        ({"top_k": 50}, "top_k=50"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"temperature": 0.0}, "temperature=0"),
        ({"discount": 1.5}, "discount=1.5"),
        ({"tasks_per_update": 0}, "tasks_per_update=0"),
        ({"credit": "mine"}, "credit='mine'"),
        ({"baseline": "median"}, "baseline='median': expected one of"),
        ({"baseline": None}, "baseline=None"),
        ({"entropy_coef": 0.1}, "entropy_coef"),
        ({"use_vllm": True}, "use_vllm"),
        ({"num_iterations": 0}, "num_iterations=0"),
        ({"importance_sampling_level": "word"}, "importance_sampling_level='word'"),
        ({"generation_kwargs": {"repetition_penalty": 1.3}}, "cannot be set here"),
        ({"per_device_train_batch_size": 4}, "rows_per_micro_batch"),
        ({"gradient_accumulation_steps": 4}, "gradient_accumulation_steps=4"),
        ({"load_best_model_at_end": True}, "cannot be set here"),
        ({"fp16": True}, "AVX-512"),
        ({"pad_to_multiple_of": 8}, "cannot be set here"),
        ({"neftune_noise_alpha": 5.0}, "cannot be set here, leave it at None: training samples"),
        ({"max_turns": 0}, "max_turns=0: .*at least 1"),
        ({"sampling_batch_size": 0}, "sampling_batch_size=0: .*at least 1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"learning_rate": float("inf")}, "learning_rate=inf: .*at least 0"),
        ({"max_failed_share": float("nan")}, "max_failed_share=nan: .*0 to 1"),
        ({"policy_learning_rates": {"a": -1.0}}, "policy_learning_rates, a=-1.0"),
        ({"seed": 2**32}, "seed=.* 0 to 4294967295"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        settings(tmp_path, **changes)


def test_every_number_of_ours_has_a_range():
    theirs = {field.name for field in dataclasses.fields(GRPOConfig)}
    hints = get_type_hints(MAGRPOConfig)
    numbers = {
        field.name
        for field in dataclasses.fields(MAGRPOConfig)
        if field.name not in theirs
        and {int, float} & {hints[field.name], *get_args(hints[field.name])}
    }
    assert {"discount", "max_turns"} <= numbers <= {*declared_fields(MAGRPOConfig).model_fields}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_generations": None}, "num_generations=None: expected a whole number"),
        ({"policy_learning_rates": {"a": "1"}}, "policy_learning_rates, a='1': expected a number"),
        ({"discount": "0.9"}, "discount='0.9': expected a number, .*without quotes"),
        ({"learning_rate": "abc"}, "learning_rate='abc': expected a number"),
        ({"num_generations": True}, "num_generations=True: expected a whole number"),
        ({"frozen": "left_0"}, "frozen='left_0': expected a list or nothing"),
        ({"use_cpu": "yes"}, "use_cpu='yes': expected true or false"),
        ({"policies": ["x"]}, r"policies=\['x'\]: expected a map or nothing"),
    ],
)
def test_values_of_the_wrong_type_are_refused(tmp_path: Path, changes: dict[str, Any], words: str):
    with pytest.raises(TypeError, match=words):
        settings(tmp_path, **changes)


def test_one_prompt_of_many_that_does_not_fit_is_found(tmp_path: Path):
    """Bytes count: a text of few characters may be of many tokens."""
    said = ["a b " * 20] * 40
    said[29] = "漢字" * 39
    tasks = [Task(f"t/{i}", "train", {"words": (text, "fig")}) for i, text in enumerate(said)]
    env = Lower(tasks=ListSource(tasks, "train"))
    with pytest.raises(ValueError, match=r"task 't/29': left_0 may need .* context holds 512"):
        make_trainer(tmp_path, lambda: env, max_completion_length=150)


def test_misfits_are_refused_before_any_work(tmp_path: Path):
    with pytest.raises(ValueError, match="partners for"):
        make_trainer(tmp_path, Lower, partners={"nobody_0": ScriptedPolicy(lambda r: "")})
    quiet = ScriptedPolicy(lambda r: "")
    with pytest.raises(ValueError, match="leave at least one"):
        make_trainer(tmp_path, Lower, partners={"left_0": quiet, "right_0": quiet})
    with pytest.raises(ValueError, match="model's context holds 512"):
        make_trainer(tmp_path, Lower, max_completion_length=400)
    with pytest.raises(ValueError, match="needs peft_config"):
        make_trainer(tmp_path, Lower, adapters=False, weights="adapters")
    with pytest.raises(ValueError, match="frozen="):
        make_trainer(tmp_path, Lower, frozen=["left_0", "right_0"])
    with pytest.raises(ValueError, match="frozen="):
        make_trainer(tmp_path, Lower, frozen=["up_0"])
    with pytest.raises(ValueError, match="policy_learning_rates"):
        make_trainer(tmp_path, Lower, policy_learning_rates={"up_0": 1.0}).train()
    with pytest.raises(ValueError, match="no environment"):
        make_trainer(tmp_path, "coop_codin-v0")
    with pytest.raises(ValueError, match="set max_steps"):
        make_trainer(tmp_path, BareParallel, max_steps=-1)


def test_a_tokenizer_without_chat_template_is_refused(tmp_path: Path):
    model, _ = untrained()
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        MAGRPOTrainer(model, Lower, settings(tmp_path), processing_class=tokenizer)


def test_defaults_come_from_the_paper_not_from_trl(tmp_path: Path):
    args = MAGRPOConfig(str(tmp_path))
    assert (args.loss_type, args.scale_rewards, args.beta) == ("dr_grpo", "none", 0.0)
    assert args.baseline == "leave_one_out"  # neither's: the gradient without a factor
    assert not args.bf16 or torch.cuda.is_available()
    assert json.dumps(args.to_dict(), default=str)


@pytest.mark.parametrize(("n_agents", "adapters"), [(3, True), (4, False)])
def test_teams_of_more_authors_train(tmp_path: Path, n_agents: int, adapters: bool) -> None:
    """One update of shared weights or of one adapter for each seat."""

    def team_env() -> Any:
        return make("coop_coding-v0", n_agents=n_agents)

    trainer = make_trainer(tmp_path, team_env, adapters=adapters, max_steps=1, transcript_every=1)
    assert len(trainer.team.policies) == (n_agents if adapters else 1)
    trainer.train()
    episode = next(read_jsonl(tmp_path / "transcripts" / "update-000000.jsonl"))
    assert {turn.agent for turn in episode.turns} == set(team_env().possible_agents)
    assert len(episode.turns) == n_agents
