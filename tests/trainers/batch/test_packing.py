r"""Rows and micro-batches of a two-agent, two-turn episode that is drawn here.

    agent   prompt  action 0    environment   action 1
    a_0     1 2     10 11 E     3             12 E
    b_0     1       20 E        4 5           21 22 (cut)

One row per agent: the environment's tokens are in the sequence and weigh nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from support.episodes import AGENTS, group, turn

from llm_marl_envs.core.records import Branch, Response, StopReason, Turn
from trainers.batch.packing import (
    PackPlan,
    Row,
    count_everywhere,
    micro_batches,
    pack_rows,
    plan_micro_batches,
    reward_array,
)

EOS, PAD = 99, 0
CPU = torch.device("cpu")


def drawn_turns(rewards: tuple[float, float] = (1.0, 2.0)) -> tuple[Turn, ...]:
    return (
        turn("a_0", 0, [1, 2], [10, 11, EOS], rewards[0]),
        turn("b_0", 0, [1], [20, EOS], rewards[0]),
        turn("a_0", 1, [1, 2, 10, 11, EOS, 3], [12, EOS], rewards[1]),
        turn("b_0", 1, [1, 20, EOS, 4, 5], [21, 22], rewards[1]),
    )


def plan(loss_type: str = "dr_grpo", **counts: int) -> PackPlan:
    return PackPlan(
        micro_batches=counts or {"a_0": 1, "b_0": 1},
        loss_type=loss_type,
        trajectories={"a_0": 1, "b_0": 1},
        rows_per_micro_batch=64,
    )


def drawn_rows() -> list[Any]:
    advantages = np.array([[[[5.0, 7.0], [-1.0, -2.0]]]])  # (P=1, G=1, A=2, K=2)
    return pack_rows([group(drawn_turns())], AGENTS, advantages, np.ones(advantages.shape, bool))


def test_rewards_are_laid_out_by_agent_and_turn():
    short = drawn_turns()[:2]
    rewards, alive = reward_array([group(drawn_turns(), short)], AGENTS)
    assert rewards.tolist() == [[[[1, 2], [1, 2]], [[1, 0], [1, 0]]]]
    assert alive.tolist() == [[[[True, True]] * 2, [[True, False]] * 2]]


def test_team_credit_is_what_each_step_paid_on_average():
    """Turn-based: what a step pays belongs to the open turn of every agent, and is averaged there.

    a_0 acts (pays 0 and 0), b_0 acts (pays a 1 and b 3), a_0 acts again (pays 2 and 2).
    """
    own = {("a_0", 0): 1.0, ("b_0", 0): 5.0, ("a_0", 1): 2.0}
    team = {("a_0", 0): 2.0, ("b_0", 0): 4.0, ("a_0", 1): 2.0}
    turns = tuple(
        dataclasses.replace(turns, reward=own[key], team_reward=team[key])
        for turns in drawn_turns()
        if (key := (turns.agent, turns.index)) in own
    )
    rewards, alive = reward_array([group(turns)], AGENTS, "team")
    assert rewards.tolist() == [[[[2, 2], [4, 0]]]]
    assert alive.tolist() == [[[[True, True], [True, False]]]]
    rewards, _ = reward_array([group(turns)], AGENTS, "own")
    assert rewards.tolist() == [[[[1, 2], [5, 0]]]]


def test_one_row_holds_all_turns_of_an_agent():
    a, b = drawn_rows()
    assert a.prompt_ids == [1, 2]
    assert a.completion_ids == [10, 11, EOS, 3, 12, EOS]
    assert a.own == [1, 1, 1, 0, 1, 1]
    assert a.advantages == [5.0, 5.0, 5.0, 0.0, 7.0, 7.0]
    assert a.logprobs == pytest.approx([-1.0, -1.1, -9.9, 0.0, -1.2, -9.9])
    assert b.completion_ids == [20, EOS, 4, 5, 21, 22]
    assert b.own == [1, 1, 0, 0, 1, 1]
    assert b.advantages == [-1.0, -1.0, 0.0, 0.0, -2.0, -2.0]


def test_a_prompt_that_rewrites_history_begins_a_new_row():
    turns = (turn("a_0", 0, [1, 2], [10, EOS], 0.0), turn("a_0", 1, [1, 2, 8], [12, EOS], 0.0))
    advantages = np.array([[[[5.0, 7.0]]]])
    rows = pack_rows([group(turns)], ("a_0",), advantages, np.ones(advantages.shape, bool))
    assert [row.prompt_ids for row in rows] == [[1, 2], [1, 2, 8]]
    assert [row.advantages for row in rows] == [[5.0, 5.0], [7.0, 7.0]]


def test_turns_that_are_not_kept_weigh_nothing_and_stay_in_the_context():
    keep = np.array([[[[False, True], [True, True]]]])
    row = pack_rows([group(drawn_turns())], AGENTS, np.ones(keep.shape), keep)[0]
    assert row.completion_ids == [10, 11, EOS, 3, 12, EOS]
    assert row.own == [0, 0, 0, 0, 1, 1]


def test_tensors_are_padded_left_before_and_right_after():
    batch = micro_batches([*drawn_rows(), drawn_rows()[0]], plan(a_0=1, b_0=1), CPU)[0]
    assert batch["policy"] == "a_0"
    assert batch["prompt_ids"].tolist() == [[1, 2], [1, 2]]
    assert batch["completion_mask"].tolist() == [[1] * 6] * 2
    assert batch["tool_mask"].tolist() == [[1, 1, 1, 0, 1, 1]] * 2
    assert batch["advantages"].tolist() == [[5.0, 5.0, 5.0, 0.0, 7.0, 7.0]] * 2
    assert float(batch["num_items_in_batch"]) == 10.0


def test_rows_of_different_length_are_padded_with_weight_zero():
    long, other = drawn_rows()[0], drawn_rows()[0]
    other.prompt_ids, other.completion_ids = [7], [10, EOS]
    other.own, other.advantages, other.logprobs = [1, 1], [1.0, 1.0], [-1.0, -1.0]
    batch = micro_batches([long, other], plan(a_0=1), CPU)[0]
    # The prompt is what both have at least; the rest of the longer one opens its completion.
    assert batch["prompt_ids"].tolist() == [[1], [7]]
    assert batch["prompt_mask"].tolist() == [[1], [1]]
    assert batch["completion_ids"].tolist() == [
        [2, 10, 11, EOS, 3, 12, EOS],
        [10, EOS, PAD, PAD, PAD, PAD, PAD],
    ]
    assert batch["completion_mask"].tolist() == [[1] * 7, [1, 1, 0, 0, 0, 0, 0]]
    assert batch["tool_mask"].tolist() == [[0, 1, 1, 1, 0, 1, 1], [1, 1, 0, 0, 0, 0, 0]]
    assert batch["advantages"].tolist() == [[0, 5, 5, 5, 0, 7, 7], [1, 1, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("loss_type", ["dr_grpo", "grpo"])
def test_scales_undo_trl_s_means_for_any_split(loss_type: str):
    rows = [drawn_rows()[0] for _ in range(5)]
    for count in (1, 2, 3):
        spec = PackPlan(
            micro_batches={"a_0": count, "b_0": 1},
            loss_type=loss_type,
            trajectories={"a_0": 5, "b_0": 5},
            rows_per_micro_batch=-(-5 // count),
        )
        batches = [b for b in micro_batches(rows, spec, CPU) if b["policy"] == "a_0"]
        # TRL divides a sum over rows by rows * total; the scale must leave sum / 5.
        assert len(batches) == count
        for batch in batches:
            rows_here = batch["prompt_ids"].shape[0]
            assert batch["loss_scale"] / (rows_here * spec.total) == pytest.approx(1 / 5)


@pytest.mark.parametrize(
    ("loss_type", "scale"),
    # Three of four planned episodes were played: 2 * 4 / 3. Rows: 2 * 3 * 2 processes / 6 rows.
    [("dr_grpo", 8 / 3), ("grpo", 2.0), ("dapo", 2.0)],
)
def test_losses_divide_by_the_planned_episodes_of_all_that_were_played(
    loss_type: str, scale: float
):
    """And by no branch, failed or not: a planned episode's turns weigh 1, branches share that."""
    lost = {"stop_reason": StopReason.FAILED, "failure": "broke"}
    planned = group(drawn_turns(), drawn_turns())
    first, second = planned.episodes
    left = Branch(parent=0, agent="a_0", turn=1)
    branches = [dataclasses.replace(first, branch=left)] * 4
    branches.append(dataclasses.replace(first, branch=left, **lost))
    grown = dataclasses.replace(planned, episodes=(first, second, *branches))
    broken = dataclasses.replace(planned, episodes=(first, dataclasses.replace(second, **lost)))
    batch = {
        "num_items_in_batch": torch.tensor(5.0),
        "loss_scale": 2.0,
        "policy_rows": 3,
        "own_tokens": 5.0,
    }
    count_everywhere([batch], [grown, broken], loss_type, lambda count: 2 * float(count), 2)
    if loss_type == "dapo":  # by tokens, of both processes
        assert float(batch["num_items_in_batch"]) == 10.0
        assert batch["own_tokens"] == 10.0
    assert batch["loss_scale"] == pytest.approx(scale)


def test_more_micro_batches_than_rows_gives_rows_of_weight_zero():
    batches = micro_batches(drawn_rows()[:1], plan(a_0=3, b_0=1), CPU)
    assert [b["policy"] for b in batches] == ["a_0", "a_0", "a_0", "b_0"]
    assert [int(b["tool_mask"].sum()) for b in batches] == [5, 0, 0, 0]
    assert all(bool(b["completion_mask"].any()) for b in batches)


def test_a_seat_without_token_ids_cannot_be_trained():
    bare = Turn(agent="a_0", index=0, messages=(), response=Response(text="x"), reward=0.0)
    with pytest.raises(ValueError, match="no token ids"):
        pack_rows([group((bare,))], ("a_0",), np.zeros((1, 1, 1, 1)), np.ones((1, 1, 1, 1), bool))


def test_rows_with_one_prompt_share_micro_batches():
    """Two seats of one policy, by turns: each prompt is in one micro-batch of two, in order."""
    rows = [Row("x", str(n), [5 + n % 2], [9], [1], [float(n)], [0.0], [0]) for n in range(4)]
    plan = plan_micro_batches({"x": 4}, {"x": 1}, 2, "dr_grpo")
    batches = micro_batches(rows, plan, torch.device("cpu"))
    assert [batch["prompt_ids"].flatten().tolist() for batch in batches] == [[5, 5], [6, 6]]
    assert [batch["labels"] for batch in batches] == [["0", "2"], ["1", "3"]]
