"""Topographic similarity: do messages that are alike mean things that are alike?

    small red circle   ba ba ba        The more attributes two objects differ in, the more tokens
    small red square   ba ba di        their messages differ in: the similarity is 1.
    big blue square    di di di

Spearman's correlation, over all pairs of meanings, of the distance of two meanings (the attributes
in which they differ) and that of their messages (Brighton and Kirby 2006; Chaabouni et al. 2020).
Meanings are what an environment says with `meaning(task)`, messages what stands in
`info["message"]` of a turn.

A code that is compositional has a high one; whether a team succeeds, it does not say.

Deviations from the papers, whose languages have one message for each meaning:

1. Of a meaning that was named by several messages their mean distance to others counts, because a
   policy samples, and what it says depends on the other candidates, too.
2. Pairs of messages of one meaning do not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.records import Episode
from llm_marl_envs.envs.signals.messages import edit_distances
from llm_marl_envs.measure.numbers.estimates import quantile_interval

PERMUTATIONS = 999
FEWEST = 3
"""Meanings; of two there is one pair, and no correlation."""

Meaning = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topography:
    """How alike the order of meanings and the order of messages are.

    Attributes:
        value: the correlation, from -1 to 1; NaN where there is none, see `reason`.
        p: share of `PERMUTATIONS` + 1 ways to deal the messages to the meanings, the present one
            among them, that correlate as much or more (a Mantel test); NaN as `value`.
        chance95: what 95 % of the others lie in; None as `value`.
        meanings: how many were named.
        reason: why there is no value; "" where there is one.
    """

    value: float
    p: float
    chance95: tuple[float, float] | None
    meanings: int
    reason: str = ""


def topographic_similarity(
    pairs: Sequence[tuple[Meaning, Sequence[Any]]], *, seed: int = 0
) -> Topography:
    """The topographic similarity of a language.

    Args:
        pairs: (meaning, message) as they were said. Meanings have one value per attribute, as many
            each; messages are sequences of symbols. Of a meaning that was named several times the
            messages' mean distance counts.
        seed: of the permutations.
    """
    messages: dict[Meaning, list[Sequence[Any]]] = {}
    for meaning, message in pairs:
        messages.setdefault(tuple(meaning), []).append(tuple(message))
    meanings = [*messages]
    reason = _undefined(meanings, messages)
    if reason:
        return _none(len(meanings), reason)
    apart = _ranked(_differing(meanings))
    spelled = _ranked(_distances(messages))
    for name, ranks in (("meanings", apart), ("messages", spelled)):
        if not ranks.any():
            return _none(len(meanings), f"all {name} are equally far apart")
    rng = np.random.default_rng(seed)
    value = float((apart * spelled).sum())
    dealt = []
    for _ in range(PERMUTATIONS):
        order = rng.permutation(len(meanings))
        dealt.append(float((apart * spelled[np.ix_(order, order)]).sum()))
    as_much = sum(by_chance >= value - 1e-12 for by_chance in dealt)
    return Topography(
        value=value,
        p=(1 + as_much) / (1 + PERMUTATIONS),
        chance95=quantile_interval(dealt),
        meanings=len(meanings),
    )


def topographies(env: Any, episodes: Sequence[Episode]) -> dict[str, Topography]:
    """The topographic similarity of each agent that sends messages.

    Args:
        env: one copy of the environment that the episodes were played in. Symbols of a message are
            its words.
        episodes: of a team; what was said before one failed counts.
    """
    inner = getattr(env, "unwrapped", env)
    if not isinstance(inner, TextEnv):
        return {}
    pairs: dict[str, list[tuple[Meaning, Sequence[str]]]] = {}
    for episode in episodes:
        for turn in episode.turns:
            if "message" not in turn.info:
                continue
            meaning = inner.meaning(inner.source.find(episode.task_id))
            if meaning is not None:
                words = str(turn.info["message"]).split()
                pairs.setdefault(turn.agent, []).append((meaning, words))
    return {agent: topographic_similarity(of_agent) for agent, of_agent in pairs.items()}


def _none(meanings: int, reason: str) -> Topography:
    return Topography(value=math.nan, p=math.nan, chance95=None, meanings=meanings, reason=reason)


def _undefined(meanings: Sequence[Meaning], messages: Mapping[Meaning, Sequence[Any]]) -> str:
    """Why the messages of these meanings have no topographic similarity; "" where they may."""
    if len(meanings) < FEWEST:
        return f"{len(meanings)} different meanings: expected {FEWEST} or more"
    if len({len(meaning) for meaning in meanings}) > 1:
        return "meanings of different lengths: expected one value per attribute in each"
    if len({message for each in messages.values() for message in each}) == 1:
        return "every message is the same"
    return ""


def _differing(meanings: Sequence[Meaning]) -> np.ndarray:
    """(n, n), in how many attributes each two meanings differ."""
    counts = np.zeros((len(meanings), len(meanings)))
    for values in zip(*meanings, strict=True):
        codes: dict[Any, int] = {}
        which = np.array([codes.setdefault(value, len(codes)) for value in values])
        counts += which[:, None] != which
    return counts


def _distances(messages: Mapping[Meaning, Sequence[Sequence[Any]]]) -> np.ndarray:
    """(n, n), the mean distance of the messages of each two meanings."""
    spelled = list(dict.fromkeys(message for each in messages.values() for message in each))
    place = {message: at for at, message in enumerate(spelled)}
    between = edit_distances(spelled).astype(float)
    shares = np.zeros((len(messages), len(spelled)))
    for at, each in enumerate(messages.values()):
        for message in each:
            shares[at, place[message]] += 1 / len(each)
    return (shares @ between @ shares.T).round(9)  # ties stay ties


def _ranked(distances: Any) -> np.ndarray:
    """Ranks of the distances of pairs, centred and of length 1 over all pairs; 0 if all are alike.

    (n, n), symmetric, 0 on the diagonal and below it counted with the pair above: each pair stands
    twice, with half of its weight.
    """
    from scipy.stats import rankdata

    n = len(distances)
    above = np.triu_indices(n, 1)
    ranks = rankdata(np.asarray(distances, dtype=float)[above])
    centred = ranks - ranks.mean()
    length = float(np.sqrt((centred**2).sum()))
    upper = np.zeros((n, n))
    upper[above] = centred / length / math.sqrt(2) if length > 0 else 0.0
    return upper + upper.T
