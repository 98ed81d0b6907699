"""Every scalar a run logs, its unit and its meaning, in one table; and what computes them.

Names follow TRL's where TRL has the same scalar (`reward`, `reward_std`, `frac_reward_zero_std`,
`entropy`, `clip_ratio/*`, `grad_norm`, `step_time`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from llm_marl_envs.records import Episode, EpisodeGroup, Response, StopReason, living

METRICS: dict[str, tuple[str, str]] = {
    "reward": ("reward", "undiscounted team return, mean over the episodes of the update"),
    "reward_std": ("reward", "standard deviation of it inside a group, mean over groups"),
    "frac_reward_zero_std": (
        "share",
        "groups in which no trained seat's return varied, of those with two episodes or more",
    ),
    "success": ("share", "episodes that solved their task"),
    "episodes/failed": (
        "count",
        "episodes of the update whose environment raised; every other number but num_tokens and "
        "num_prompt_tokens is of the rest",
    ),
    "truncated": ("share", "episodes cut by a limit of the environment"),
    "turns": ("turns", "actions per agent and episode"),
    "reward_terms/<term>": ("reward", "a named part of the reward, summed over the episode"),
    "<agent>/tokens": ("tokens", "sampled per action, EOS included"),
    "<agent>/cut": ("share", "actions ended by max_completion_length instead of EOS"),
    "<agent>/action_truncated": ("share", "actions the environment cut at max_action_chars"),
    "<policy>/grad_norm": ("norm", "gradient norm of one policy before clipping"),
    "<policy>/idle": ("share", "updates in which the policy had nothing to learn and kept still"),
    "algorithm/<counter>": ("count", "what the algorithm counted in the update"),
    "time/rollout": ("seconds", "sampling, stepping the environments and packing"),
    "num_tokens": ("tokens", "sampled since the run began, by seats that are not trained too"),
    "num_prompt_tokens": (
        "tokens",
        "read before these were sampled: the whole prompt of each action, whatever it shares",
    ),
    "eval_reward": ("reward", "as `reward`, on the evaluation tasks, one episode each"),
    "eval_success": ("share", "as `success`, on the evaluation tasks"),
    "eval_failed": ("count", "as `episodes/failed`, on the evaluation tasks"),
}


def group_metrics(groups: Sequence[EpisodeGroup], trained_on: np.ndarray) -> dict[str, float]:
    """Scalars of the episodes of one update; those that failed are counted, and in no mean.

    Args:
        groups: P groups of G episodes.
        trained_on: the returns that advantages are computed from, (P, G, A, K). Of a constant sum
            the team return never varies although each seat's own does.
    """
    episodes = [episode for group in groups for _, episode in group.living]
    failed = sum(len(group.episodes) for group in groups) - len(episodes)
    metrics = {"episodes/failed": float(failed)}
    if not episodes:
        return metrics
    metrics |= {
        "reward": float(np.mean([e.team_return for e in episodes])),
        **_spread(groups, trained_on),
        "truncated": _mean(e.stop_reason is StopReason.TRUNCATED for e in episodes),
        "turns": _mean(e.turns_per_agent for e in episodes),
    }
    judged = [episode.success for episode in episodes if episode.success is not None]
    if judged:
        metrics["success"] = _mean(judged)
    return metrics | _terms(episodes) | _per_agent(episodes)


def _spread(groups: Sequence[EpisodeGroup], trained_on: np.ndarray) -> dict[str, float]:
    """How much returns differ inside the groups that have something to compare."""
    stds: list[float] = []
    flat: list[bool] = []
    for group, returns in zip(groups, trained_on, strict=True):
        if len(group.living) > 1:
            stds.append(float(np.std([e.team_return for _, e in group.living], ddof=1)))
            flat.append(bool((np.ptp(returns[[g for g, _ in group.living]], axis=0) < 1e-9).all()))
    return {"reward_std": _mean(stds), "frac_reward_zero_std": _mean(flat)} if stds else {}


def _terms(episodes: Sequence[Episode]) -> dict[str, float]:
    """Mean over episodes of each reward term, averaged over agents."""
    totals: dict[str, float] = defaultdict(float)
    for episode in episodes:
        for turn in episode.turns:
            for name, value in turn.reward_terms.items():
                totals[name] += value / len(episode.agents)
    return {f"reward_terms/{name}": total / len(episodes) for name, total in totals.items()}


def _per_agent(episodes: Sequence[Episode]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for agent in episodes[0].agents:
        turns = [turn for episode in episodes for turn in episode.trajectory(agent)]
        sampled = [t.response for t in turns if t.response.completion_ids is not None]
        if sampled:
            metrics[f"{agent}/tokens"] = _mean(len(r.completion_ids or ()) for r in sampled)
            metrics[f"{agent}/cut"] = _mean(r.cut for r in sampled)
        if turns:
            cut = _mean(bool(turn.info.get("action_truncated", False)) for turn in turns)
            metrics[f"{agent}/action_truncated"] = cut
    return metrics


def describe(name: str) -> tuple[str, str] | None:
    """Unit and meaning of a logged scalar, its placeholders matched; None if it has no entry."""
    if name in METRICS:
        return METRICS[name]
    head, _, tail = name.partition("/")
    for key in (f"{head}/<term>", f"{head}/<counter>", f"<agent>/{tail}", f"<policy>/{tail}"):
        if key in METRICS:
            return METRICS[key]
    return None


def _mean(values: Iterable[float | bool]) -> float:
    numbers = [float(value) for value in values]
    return sum(numbers) / len(numbers) if numbers else 0.0


def sampled_tokens(groups: Sequence[EpisodeGroup]) -> int:
    """Tokens that models sampled, in whichever seat; an endpoint's are not known."""
    return sum(len(one.completion_ids or ()) for one in _responses(groups))


def prompt_tokens(groups: Sequence[EpisodeGroup]) -> int:
    """Tokens that models read before they sampled, each action's whole prompt, in whichever seat.

    A later turn reads what went before again, and the episodes of a group each read their own copy.
    """
    return sum(len(one.prompt_ids or ()) for one in _responses(groups))


def _responses(groups: Sequence[EpisodeGroup]) -> Iterator[Response]:
    """Of every action, those of failed episodes included."""
    return (
        turn.response for group in groups for episode in group.episodes for turn in episode.turns
    )


def evaluation_metrics(episodes: Sequence[Episode], prefix: str) -> dict[str, float]:
    """Scalars of an evaluation during training; where every episode failed only their number."""
    played = living(episodes)
    values = {f"{prefix}_failed": float(len(episodes) - len(played))}
    if played:
        values[f"{prefix}_reward"] = _mean(episode.team_return for episode in played)
    judged = [episode.success for episode in played if episode.success is not None]
    if judged:
        values[f"{prefix}_success"] = _mean(judged)
    return values
