"""The scalars of one update, and of an evaluation during training.

Owns which episodes they are taken over. What each number means, and what computes it, is
`measure/numbers/metrics.py`; names follow TRL's where TRL has the same scalar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from llm_marl_envs.core.records import Episode, EpisodeGroup, countable, measured
from llm_marl_envs.measure.numbers.estimates import exact_mean
from llm_marl_envs.measure.numbers.metrics import METRICS
from llm_marl_envs.measure.numbers.values import mean, measure, over_actions

_OF_EPISODES = [one.name for one in METRICS.values() if one.of == "episode" and one.log]
_OF_ACTIONS = [one for one in METRICS.values() if one.of == "action" and one.log]
TOLD = ("overlong_actions",)
"""What the environment tells of every action, whoever acts."""
HELD_OUT = ("mean_return", "success")
"""What an evaluation during training logs."""


def group_metrics(groups: Sequence[EpisodeGroup], trained_on: np.ndarray) -> dict[str, float]:
    """Scalars of the episodes of one update; those that failed are counted, and in no mean.

    Branches are counted, too, and in no mean: some say what nobody would have said.

    Args:
        groups: P groups of G episodes, and their branches.
        trained_on: the returns that advantages are computed from, (P, G, A, K). Of a constant sum
            the team return never varies although each seat's own does.
    """
    every = [episode for group in groups for episode in group.episodes]
    metrics = {"episodes/failed": float(sum(episode.failed for episode in every))}
    branches = sum(episode.branch is not None for episode in every)
    if branches:
        metrics["episodes/branches"] = float(branches)
    groups = [group.roots for group in groups]
    episodes = [episode for group in groups for _, episode in group.living]
    if not episodes:
        return metrics
    return (
        metrics
        | _spread(groups, trained_on)
        | _means(episodes, _OF_EPISODES)
        # What is learned from: what wrappers pay included.
        | {"reward": exact_mean([episode.team_return for episode in episodes])}
        | _of_agents(episodes)
    )


def _means(episodes: Sequence[Episode], names: Sequence[str]) -> dict[str, float]:
    """Metrics of episodes under the names that a log gives them, mean over those that have one."""
    found = {}
    for name, values in measure(episodes, names).items():
        value = mean(values)
        if value is not None:
            found[METRICS[name].log[0] if name in METRICS else name] = value
    return found


def _spread(groups: Sequence[EpisodeGroup], trained_on: np.ndarray) -> dict[str, float]:
    """How much returns differ inside the groups that have something to compare."""
    stds: list[float] = []
    flat: list[bool] = []
    for group, returns in zip(groups, trained_on, strict=True):
        if len(group.living) > 1:
            stds.append(float(np.std([e.team_return for _, e in group.living], ddof=1)))
            flat.append(bool((np.ptp(returns[[g for g, _ in group.living]], axis=0) < 1e-9).all()))
    if not stds:
        return {}
    return {
        "reward_std": sum(stds) / len(stds),
        "frac_reward_zero_std": sum(flat) / len(flat),
    }


def _of_agents(episodes: Sequence[Episode]) -> dict[str, float]:
    """Metrics of each agent's actions, those of models where only a model can tell."""
    metrics: dict[str, float] = {}
    for agent in episodes[0].agents:
        turns = [turn for episode in episodes for turn in episode.trajectory(agent)]
        sampled = [turn for turn in turns if turn.response.completion_ids is not None]
        for metric in _OF_ACTIONS:
            value = over_actions(metric.name, turns if metric.name in TOLD else sampled)
            if value is not None:
                metrics[metric.log[0].replace("<agent>", agent)] = value
    return metrics


OF_TOKENS = (
    "entropy",
    "kl",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    "clip_ratio/region_mean",
    "cispo_clip_ratio",
    "vespo/phi_seq_mean",
)
"""Means that TRL takes over the own tokens of each micro-batch.

Advantages have a column for each token, so shares of clipped ratios have one, too, where a ratio is
that of a row.
"""


def weighed(logged: Mapping[str, list[float]], own_tokens: Sequence[float]) -> dict[str, float]:
    """Means over the tokens of all micro-batches, from what TRL takes of each.

    TRL logs the mean of these means, so that one token in a micro-batch of padding counts as much
    as a thousand elsewhere, and the number depends on the split and on the number of processes.

    Args:
        logged: name -> a number for each micro-batch.
        own_tokens: of each micro-batch, over all processes.
    """
    tokens = np.array(own_tokens)
    return {
        name: float((np.array(logged[name]) * tokens).sum() / max(tokens.sum(), 1))
        for name in OF_TOKENS
        if name in logged
    }


def evaluation_metrics(episodes: Sequence[Episode], prefix: str) -> dict[str, float]:
    """Scalars of an evaluation during training.

    Where every episode failed, or one that cannot be counted, only how many failed.
    """
    failed = sum(episode.failed for episode in episodes)
    values = {f"{prefix}_failed": float(failed)}
    if failed == len(episodes) or not all(map(countable, episodes)):
        return values
    means = _means(measured(episodes), HELD_OUT)
    return values | {f"{prefix}_{name}": one for name, one in means.items()}
