"""Episodes and advantages to the padded tensors that TRL's loss reads.

One row per (episode, agent): all turns of that agent in one sequence, the environment's tokens
between them masked. Where a later prompt does not extend the ids before it (a template that
rewrites history, a fresh context, a control token within an action), a new row begins.

At this boundary TRL's names hold: `completion_mask` marks real tokens, `tool_mask` the agent's own.

Shapes: P tasks, G episodes, A agents, K turns, B rows, T completion tokens.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import nn
from trl.trainer.utils import pad

from llm_marl_envs.core.records import Episode, EpisodeGroup, Turn

RowLoss = Literal["grpo", "dr_grpo", "luspo", "sapo"]
"""Losses that TRL divides by the rows of the micro-batch; the others, by `num_items_in_batch`."""
Loss = Literal[RowLoss, "dapo", "cispo", "vespo"]


@dataclass(frozen=True, slots=True)
class LossScale:
    """What a loss of TRL is divided by, whatever its micro-batches are.

    Attributes:
        by_rows: by rows, all of the policy's; else by its own tokens.
        planned: by the trajectories that were planned and did not fail, however many rows came of
            them.
    """

    by_rows: bool
    planned: bool


def scale_of(loss_type: str) -> LossScale:
    """How a loss of TRL is scaled."""
    return LossScale(by_rows=loss_type in get_args(RowLoss), planned=loss_type == "dr_grpo")


# Padding is masked everywhere, so any id that every vocabulary has will do.
PAD = 0
PADDING = "padding"
"""The label of rows that weigh nothing."""


@dataclass(slots=True)
class Row:
    """One training sequence.

    Attributes:
        policy: the weights that acted.
        label: names the episode and agent in errors.
        prompt_ids: everything before the first action.
        completion_ids: actions, and the environment's tokens between them.
        own: 1 where the agent sampled the token and the turn is trained on, per completion token.
        advantages: per completion token, 0 where not own.
        logprobs: behaviour log-probs per completion token, 0 where not own.
        steps: of the environment, in which each own completion token was said; -1 where not own.
        episode: its task's place in the process's share, and its own place in the group.
    """

    policy: str
    label: str
    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    episode: tuple[int, int] = (-1, -1)

    def extended_by(self, prompt_ids: Sequence[int]) -> bool:
        """Whether a later prompt continues this row's ids."""
        ids = [*self.prompt_ids, *self.completion_ids]
        return list(prompt_ids[: len(ids)]) == ids

    def add(self, turn: Turn, advantage: float, trained: bool) -> None:
        """Append one turn, with the environment's tokens that lead to it."""
        prompt, sampled, logprobs = _tokens(turn)
        between = prompt[len(self.prompt_ids) + len(self.completion_ids) :]
        self.completion_ids += [*between, *sampled]
        self.own += [0] * len(between) + [int(trained)] * len(sampled)
        self.advantages += [0.0] * len(between) + [advantage * trained] * len(sampled)
        self.logprobs += [0.0] * len(between) + list(logprobs)
        step = turn.index if turn.step is None else turn.step
        self.steps += [-1] * len(between) + [step] * len(sampled)


def _tokens(turn: Turn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
    response = turn.response
    if response.prompt_ids is None or response.completion_ids is None or response.logprobs is None:
        raise ValueError(
            f"turn {turn.index} of {turn.agent} has no token ids; only seats played by a "
            "TokenPolicy can be trained"
        )
    return response.prompt_ids, response.completion_ids, response.logprobs


def turns_taken(
    groups: Sequence[EpisodeGroup], agents: Sequence[str]
) -> Iterator[tuple[tuple[int, int, int, int], Turn]]:
    """Every turn of these agents and its place (p, g, a, k); a failed episode took none."""
    for p, group in enumerate(groups):
        for g, episode in group.living:
            for turn in episode.turns:
                if turn.agent in agents:
                    yield (p, g, agents.index(turn.agent), turn.index), turn


def reward_array(
    groups: Sequence[EpisodeGroup], agents: Sequence[str], credit: str = "own"
) -> tuple[Any, Any]:
    """Rewards (P, G, A, K), float64, and which turns were taken, bool; K is the longest episode.

    An episode that failed took no turn, and a group with fewer episodes than the largest is filled
    up with such. With `credit="team"` each turn earns the mean over agents
    of what its steps paid; where the environment pays all agents alike that is the same number.
    """
    played = [episode for group in groups for _, episode in group.living]
    indices = [turn.index for episode in played for turn in episode.turns]
    if played and not indices:
        raise ValueError("no agent acted in any episode of the update: nothing to train on")
    turns = max(indices, default=0) + 1
    most = max(len(group.episodes) for group in groups)
    rewards = np.zeros((len(groups), most, len(agents), turns))
    alive = np.zeros(rewards.shape, dtype=bool)
    for where, turn in turns_taken(groups, agents):
        team = credit == "team" and turn.team_reward is not None
        rewards[where] = turn.team_reward if team else turn.reward
        alive[where] = True
    return rewards, alive


def pack_rows(
    groups: Sequence[EpisodeGroup],
    agents: Sequence[str],
    advantages: np.ndarray,
    keep: np.ndarray,
) -> list[Row]:
    """Rows of all trained agents, ordered by policy-independent (task, episode, agent).

    Episodes that failed have none. A branch has one where something in it is trained on, and ends
    with that.

    Args:
        groups: P groups of G episodes.
        agents: the A trained agents.
        advantages: (P, G, A, K).
        keep: bool, (P, G, A, K), the turns to train on.

    Raises:
        ValueError: a trained turn carries no token ids.
    """
    rows: list[Row] = []
    for p, group in enumerate(groups):
        for g, episode in group.living:
            for a, agent in enumerate(agents):
                rows += _pack_trajectory(episode, agent, advantages[p, g, a], keep[p, g, a], (p, g))
    return rows


def _pack_trajectory(
    episode: Episode,
    agent: str,
    advantages: np.ndarray,
    keep: np.ndarray,
    place: tuple[int, int],
) -> list[Row]:
    rows: list[Row] = []
    turns = episode.trajectory(agent)
    if episode.branch is not None:
        last = max((turn.index for turn in turns if keep[turn.index]), default=-1)
        turns = tuple(turn for turn in turns if turn.index <= last)
    for turn in turns:
        prompt, _, _ = _tokens(turn)
        if not rows or not rows[-1].extended_by(prompt):
            label = f"task {episode.task_id!r}, episode {place[1]} of its group, {agent}"
            rows.append(Row(turn.response.policy, label, list(prompt), episode=place))
        rows[-1].add(turn, float(advantages[turn.index]), bool(keep[turn.index]))
    return rows


def uncut(groups: Sequence[EpisodeGroup], agents: Sequence[str], shape: tuple[int, ...]) -> Any:
    """bool, (P, G, A, K): turns that ended by themselves, for `mask_truncated_completions`."""
    whole = np.ones(shape, dtype=bool)
    for where, turn in turns_taken(groups, agents):
        whole[where] = not turn.response.cut
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPlan:
    """How rows become micro-batches; equal on every rank.

    Attributes:
        micro_batches: policy -> number of micro-batches in one update.
        loss_type: TRL's.
        trajectories: policy -> (episode, agent) pairs of one update on this rank.
        rows_per_micro_batch: most rows of one forward pass.
        in_sequence: whether policies take their steps one after the other; then all have as many
            micro-batches.
    """

    micro_batches: Mapping[str, int]
    loss_type: str
    trajectories: Mapping[str, int]
    rows_per_micro_batch: int
    in_sequence: bool = False

    @property
    def total(self) -> int:
        """Micro-batches of one step of the optimiser: the gradient accumulation steps."""
        counts = self.micro_batches.values()
        return max(counts) if self.in_sequence else sum(counts)

    @property
    def passes(self) -> int:
        """Steps of the optimiser until every policy has taken one."""
        return len(self.micro_batches) if self.in_sequence else 1


def plan_micro_batches(
    trajectories: Mapping[str, int],
    rows_each: Mapping[str, int],
    rows_per_micro_batch: int,
    loss_type: str,
    *,
    in_sequence: bool = False,
) -> PackPlan:
    """How many micro-batches each policy gets; rows of two policies never share one.

    Arguments as in `PackPlan`; `rows_each` is policy -> most rows that one trajectory becomes.
    """
    counts = {
        policy: -(-count * rows_each[policy] // rows_per_micro_batch)
        for policy, count in trajectories.items()
    }
    if in_sequence:
        counts = dict.fromkeys(counts, max(counts.values()))
    return PackPlan(
        micro_batches=counts,
        in_sequence=in_sequence,
        loss_type=loss_type,
        trajectories=trajectories,
        rows_per_micro_batch=rows_per_micro_batch,
    )


def micro_batches(
    rows: Sequence[Row],
    plan: PackPlan,
    device: torch.device,
    most_rows: Mapping[str, int] | None = None,
) -> list[dict[str, Any]]:
    """The micro-batches of one update, each of one policy, policies in the order of the plan.

    Each holds TRL's tensors (prompt_ids, prompt_mask, completion_ids, completion_mask, tool_mask,
    advantages, num_items_in_batch, sampling_per_token_logps (B, T)), and ours: "steps" (B, T),
    "policy", "policy_rows", "labels", "episodes", "own_tokens" (how many) and "loss_scale", by
    which TRL's loss is multiplied so that neither the split into micro-batches nor the number of
    policies changes a gradient. A policy with fewer rows than micro-batches gets rows of weight
    zero; so does a process with fewer rows of a policy than another, because TRL gathers numbers
    per row (`most_rows`: policy -> rows on the busiest one).
    """
    batches: list[dict[str, Any]] = []
    losses = scale_of(plan.loss_type)
    for policy, count in plan.micro_batches.items():
        mine = _by_prompt([row for row in rows if row.policy == policy])
        tokens = sum(sum(row.own) for row in mine)
        total = plan.trajectories[policy] if losses.planned else len(mine)
        most = max(len(mine), (most_rows or {}).get(policy, 0))
        padded = [*mine, *(_empty_row(policy) for _ in range(most - len(mine)))]
        size = max(plan.rows_per_micro_batch, -(-most // count))
        if size > plan.rows_per_micro_batch:
            warnings.warn(
                f"{len(mine)} rows of {policy} in {count} micro-batches: {size} rows at once, more "
                f"than rows_per_micro_batch={plan.rows_per_micro_batch}. The episodes took more "
                "turns than expected: set max_turns; or models wrote control tokens within "
                "actions, after which a new row begins",
                stacklevel=2,
            )
        for i in range(count):
            part = padded[i * size : (i + 1) * size] or [_empty_row(policy)]
            batch = _tensors(part, device)
            batch["num_items_in_batch"] = torch.tensor(float(tokens), device=device)
            # TRL: mean over the B rows here, divided by all accumulation steps of the update.
            scale = plan.total * len(part) / max(total, 1)
            batch["loss_scale"] = scale if losses.by_rows else 1.0
            batch["policy"] = policy
            batch["policy_rows"] = len(mine)
            batch["labels"] = [row.label for row in part]
            batch["episodes"] = [row.episode for row in part]
            batch["own_tokens"] = float(sum(sum(row.own) for row in part))
            batches.append(batch)
    return batches


def _by_prompt(rows: Sequence[Row]) -> list[Row]:
    """Rows with one prompt together, so that they share micro-batches; else in their order."""
    first: dict[tuple[int, ...], int] = {}
    for place, row in enumerate(rows):
        first.setdefault(tuple(row.prompt_ids), place)
    return sorted(rows, key=lambda row: first[tuple(row.prompt_ids)])


def count_everywhere(
    batches: Sequence[dict[str, Any]],
    groups: Sequence[EpisodeGroup],
    loss_type: str,
    total: Callable[[torch.Tensor], float],
    processes: int,
) -> None:
    """Let the losses of this process's micro-batches divide by what all have, in place.

    `groups` are the episodes of all processes; `total` sums a scalar over them.
    """
    planned = [group.roots for group in groups]  # their turns weigh 1 each, see `Algorithm.weights`
    episodes = sum(len(group.episodes) for group in planned)
    played = sum(len(group.living) for group in planned)
    losses = scale_of(loss_type)
    for batch in batches:
        batch["own_tokens"] = total(torch.tensor(batch["own_tokens"]))
        tokens = batch["num_items_in_batch"]
        batch["num_items_in_batch"] = torch.full_like(tokens, total(tokens))
        if losses.planned:  # an episode that failed is no trajectory
            batch["loss_scale"] *= episodes / max(played, 1)
        elif losses.by_rows:
            local = float(batch["policy_rows"])
            batch["loss_scale"] *= local * processes / max(total(torch.tensor(local)), 1.0)


def total_weight(batches: Sequence[Mapping[str, Any]], policy: str) -> torch.Tensor:
    """Sum of |advantage| over a policy's own tokens; 0 means there is nothing to learn."""
    own = [batch for batch in batches if batch["policy"] == policy]
    weights = ((batch["advantages"] * batch["tool_mask"]).abs().sum().cpu() for batch in own)
    return sum(weights, torch.zeros(()))


def own_tokens(batches: Sequence[Mapping[str, Any]], policy: str) -> torch.Tensor:
    """How many tokens of a policy are trained on."""
    own = [batch for batch in batches if batch["policy"] == policy]
    return sum((batch["tool_mask"].sum().cpu() for batch in own), torch.zeros(()))


def not_finite_rows(batch: Mapping[str, Any], logprobs: torch.Tensor) -> list[str]:
    """Labels of the rows with a log-prob (B, T) of a sampled token that is not finite."""
    bad = (~torch.isfinite(logprobs) & batch["tool_mask"].bool()).any(dim=1)
    return [label for label, hit in zip(batch["labels"], bad.tolist(), strict=True) if hit]


def _empty_row(policy: str) -> Row:
    return Row(policy, PADDING, [PAD], [PAD], [0], [0.0], [0.0], [-1])


def _split_at(row: Row, length: int) -> Row:
    """The same row, its prompt `length` tokens long; a padding row gets a prompt of that length."""
    if row.label == PADDING:
        return dataclasses.replace(row, prompt_ids=[PAD] * length)
    moved = row.prompt_ids[length:]
    return dataclasses.replace(
        row,
        prompt_ids=row.prompt_ids[:length],
        completion_ids=[*moved, *row.completion_ids],
        own=[0] * len(moved) + row.own,
        advantages=[0.0] * len(moved) + row.advantages,
        logprobs=[0.0] * len(moved) + row.logprobs,
        steps=[-1] * len(moved) + row.steps,
    )


def _tensors(rows: Sequence[Row], device: torch.device) -> dict[str, Any]:
    """Rows padded on the right only, so that a model which counts positions counts them rightly.

    TRL pads prompts on the left. Here the "prompt" is what all rows have at least, and the rest of
    a longer prompt opens its completion, weighing nothing. There are at least two columns of
    completions: what TRL logs of a tensor with one column is a mean over rows, padding included.
    """
    real = [row for row in rows if row.label != PADDING] or rows
    shortest = min(len(row.prompt_ids) for row in real)
    rows = [_split_at(row, shortest) for row in rows]

    def right(values: Sequence[Sequence[float]], dtype: torch.dtype, value: int = 0) -> Any:
        tensors = [torch.tensor(v, dtype=dtype, device=device) for v in values]
        padded = pad(tensors, padding_value=value, padding_side="right")
        return nn.functional.pad(padded, (0, max(2 - padded.shape[1], 0)), value=value)

    prompts = torch.tensor([row.prompt_ids for row in rows], dtype=torch.long, device=device)
    return {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": right([r.completion_ids for r in rows], torch.long, PAD),
        "completion_mask": right([[1] * len(r.completion_ids) for r in rows], torch.long),
        "tool_mask": right([r.own for r in rows], torch.long),
        "steps": right([r.steps for r in rows], torch.long, -1),
        "advantages": right([r.advantages for r in rows], torch.float32),
        "sampling_per_token_logps": right([r.logprobs for r in rows], torch.float32),
    }
