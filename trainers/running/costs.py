"""What a run has cost so far: tokens, calls of the evaluator, updates, time.

Owns what counts. Everything is counted from the records of an update, of all processes, so a
resumed run counts as an unbroken one; only `seconds` is measured. Evaluations during training
(`eval_strategy`) cost nothing here: they teach nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import takewhile
from typing import Any

from llm_marl_envs.core.records import EpisodeGroup
from trainers.algorithms.trees import left_at, step_of

CRITIC_TOKENS = "critic_tokens"
"""In `Algorithm.counters`: tokens that a critic read in the last update."""
NAMES = {"tokens": "num_tokens", "prompt_tokens": "num_prompt_tokens"}
"""Costs that a log knows by another name than `cost/<name>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Counts; those of calls are None where records hold no steps, which `rollout` did not write.

    Attributes:
        tokens: sampled by local models in whichever seat: trained ones, frozen ones, partners;
            in alternatives and in what follows branches, in episodes that failed, too.
        prompt_tokens: read before these were sampled, the whole prompt of every request.
        new_prompt_tokens: what a cache of prefixes leaves of that: nothing of a prompt that was
            sent to the same weights before in the group, else what lies beyond the seat's last
            prompt and answer in the episode.
        calls: of the evaluator: steps of the environment, in each of which it judges one joint
            action (one action, where agents act in turn), replayed ones included.
        replayed_calls: those of them that only bring a branch to where it leaves its record.
        critic_tokens: as the algorithm counts them (`CRITIC_TOKENS`).
        updates: rollouts that were learned from.
        seconds: of training, saving and evaluation included.
    """

    tokens: int = 0
    prompt_tokens: int = 0
    new_prompt_tokens: int = 0
    calls: int | None = 0
    replayed_calls: int | None = 0
    critic_tokens: int = 0
    updates: int = 0
    seconds: float = 0.0

    def plus(self, more: Costs) -> Costs:
        """The sum; what either does not know stays unknown."""
        sums: dict[str, Any] = {
            one.name: None if None in both else both[0] + both[1]
            for one in fields(Costs)
            for both in [(getattr(self, one.name), getattr(more, one.name))]
        }
        return Costs(**sums)

    def logged(self) -> dict[str, float]:
        """Name in the log -> count, for those that are known."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {NAMES.get(name, f"cost/{name}"): float(value) for name, value in known.items()}


def update_costs(
    groups: Sequence[EpisodeGroup],
    counters: Mapping[str, float],
    tried_again: Sequence[str] = (),
) -> Costs:
    """The costs of one update, but for its time.

    Args:
        groups: with branches and failed episodes.
        counters: of the algorithm.
        tried_again: agents each of whose messages was judged once more, beside experts.
    """
    calls, replayed = _calls(groups)
    sampled = [
        turn.response
        for group in groups
        for episode in group.episodes
        for turn in episode.turns
        if not turn.given
    ]
    again = sum(
        turn.agent in tried_again
        for group in groups
        for _, episode in group.living
        for turn in episode.turns
    )
    return Costs(
        tokens=sum(len(one.completion_ids or ()) for one in sampled),
        prompt_tokens=sum(len(one.prompt_ids or ()) for one in sampled),
        new_prompt_tokens=sum(map(_new_prompt_tokens, groups)),
        calls=None if calls is None else calls + again,
        replayed_calls=replayed,
        critic_tokens=int(counters.get(CRITIC_TOKENS, 0)),
        updates=1,
    )


def _calls(groups: Sequence[EpisodeGroup]) -> tuple[int, int] | tuple[None, None]:
    """Steps of the environments, and those of them that replayed a record.

    Not known of records that hold no steps, which `rollout` did not write.
    """
    episodes = [episode for group in groups for episode in group.episodes]
    if any(turn.step is None for episode in episodes for turn in episode.turns):
        return None, None
    calls = replayed = 0
    for group in groups:
        for episode in group.episodes:
            steps = max((step_of(turn) + 1 for turn in episode.turns), default=0)
            calls += steps
            replayed += min(left_at(group, episode), steps)
    return calls, replayed


def _new_prompt_tokens(group: EpisodeGroup) -> int:
    found, seen = 0, set()
    for episode in group.episodes:
        last: dict[tuple[str, str], tuple[int, ...]] = {}
        for turn in episode.turns:
            answer = turn.response
            prompt = answer.prompt_ids
            if prompt is None:
                continue
            seat = turn.agent, answer.policy
            if not turn.given and (answer.policy, prompt) not in seen:
                found += len(prompt) - _shared(last.get(seat, ()), prompt)
                seen.add((answer.policy, prompt))
            last[seat] = prompt + (answer.completion_ids or ())
    return found


def _shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Tokens at their beginnings that are the same."""
    if other[: len(one)] == one:
        return len(one)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
