"""What an update makes of episodes: advantages of every algorithm, rows and micro-batches."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from support.episodes import episode, group_of
from support.models import settings
from support.toys import Relay, WordPair

from golden.record import Things, Value, digest, numbers
from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.core.records import Episode, EpisodeGroup, Response, Turn
from llm_marl_envs.core.seeds import RESET_SEEDS, derive_seed
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy
from trainers.algorithms import ALGORITHMS, AdvantageInputs, make_algorithm
from trainers.batch.packing import micro_batches, pack_rows, plan_micro_batches, reward_array
from trainers.batch.returns import discounted_returns
from trainers.experience.branching import grown


class OwnShares(WordPair):
    """Two turns at once; each seat is paid its own share of lower-case letters, and a coin."""

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        coin = self.rng.random()
        return Outcome(
            reward_terms={
                a: {"own": _lower(text), "coin": coin} for a, text in joint_action.items()
            },
            feedback=dict.fromkeys(joint_action, f"Again. {coin}"),
        )


class OwnSharesInTurn(Relay):
    """The same where three seats act one after the other, once."""

    def play_one(self, agent: str, action: str) -> Outcome:
        outcome, coin = super().play_one(agent, action), self.rng.random()
        return replace(outcome, reward_terms={agent: {"own": _lower(action), "coin": coin}})


def _lower(text: str) -> float:
    return sum(c.isascii() and c.islower() for c in text) / max(len(text), 1)


FORMS: dict[str, Any] = {"at once": OwnShares, "in turn": OwnSharesInTurn}
CREDITS = ("team", "own")
TASKS, SIZE, GROUPS = 3, 3, 20
MOST = 256
"""Episodes of a group, branches and all."""
AGENTS: tuple[str, ...] = ("left_0", "right_0")


def of_advantages(folder: Any) -> Things:
    """Two updates of every algorithm on the same episodes: the second remembers the first."""
    for form, make_env in FORMS.items():
        for credit in CREDITS:
            for name in ALGORITHMS.names():
                judged = _judged(folder, name, make_env, credit)
                yield f"advantages/{name}/{form}/{credit}", judged


def _judged(folder: Any, name: str, make_env: Any, credit: str) -> Value:
    copies = VectorTextEnv([make_env() for _ in range(8)])
    agents = tuple(copies.envs[0].possible_agents)
    args = settings(folder, num_generations=SIZE, credit=credit, chance="episode")
    try:
        algorithm = make_algorithm(name, args)
        algorithm.check(copies.envs[0], agents)
    except ValueError:
        return "refused"
    play = partial(rollout, copies, dict.fromkeys(agents, RandomPolicy(12)))
    found = []
    for update in range(2):
        seeds = [derive_seed(update, task) % RESET_SEEDS for task in range(TASKS)]
        starts = [algorithm.plan(task, SIZE, seed) for task, seed in enumerate(seeds)]
        groups = [_group(play(some), seed) for some, seed in zip(starts, seeds, strict=True)]
        if algorithm.branching:
            ask = partial(algorithm.branches, agents=agents)
            groups = grown(groups, starts, ask, play, MOST)
        inputs = _inputs(groups, agents, credit)
        found += [*numbers(algorithm.advantages(inputs)), *numbers(algorithm.weights(inputs))]
    return found


def _group(episodes: Sequence[Episode], seed: int) -> EpisodeGroup:
    task_id = episodes[0].task_id
    return EpisodeGroup(task_id=task_id, seed=seed, episodes=tuple(episodes), chance="episode")


def _inputs(groups: Sequence[EpisodeGroup], agents: Sequence[str], credit: str) -> AdvantageInputs:
    rewards, alive = reward_array(groups, agents, credit)
    return AdvantageInputs(
        returns=discounted_returns(rewards, alive, 0.9),
        rewards=rewards,
        alive=alive,
        agents=tuple(agents),
        policies={agent: agent for agent in agents},
        groups=tuple(groups),
    )


def of_rows() -> Things:
    """Packed tensors of groups whose ids, lengths and turns are drawn by lot, in every loss."""
    rng = random.Random(7)
    groups = [group_of([_episode(rng) for _ in range(SIZE)]) for _ in range(GROUPS)]
    turns = max(turn.index + 1 for group in groups for one in group.episodes for turn in one.turns)
    shape = (GROUPS, SIZE, len(AGENTS), turns)
    advantages = np.cos(np.arange(np.prod(shape))).reshape(shape).astype(np.float32)
    keep = np.ones(shape, bool)
    keep[::3, 0, 0, 0] = False
    rows = pack_rows(groups, AGENTS, advantages, keep)
    yield "rows/packed", digest(rows)
    planned: dict[str, int] = dict.fromkeys(AGENTS, GROUPS * SIZE)
    for loss in ("grpo", "dr_grpo", "dapo", "luspo"):
        plan = plan_micro_batches(planned, dict.fromkeys(AGENTS, 2), 16, loss)
        batches = micro_batches(rows, plan, torch.device("cpu"))
        yield f"rows/micro-batches/{loss}", digest([*map(_plain, batches)])


def _plain(batch: Any) -> list[Any]:
    return [
        (key, value.tolist() if isinstance(value, torch.Tensor) else value)
        for key, value in sorted(batch.items())
    ]


def _episode(rng: random.Random) -> Episode:
    """Up to three turns of either agent. Now and then a turn does not go on from the one before."""
    chats: dict[str, list[int]] = {agent: _ids(rng, 3, 9) for agent in AGENTS}
    turns = []
    for index in range(rng.randint(1, 3)):
        for agent in AGENTS:
            if rng.random() < 0.1:
                chats[agent] = _ids(rng, 2, 6)
            said = _ids(rng, 1, 7)
            response = Response(
                text="",
                prompt_ids=tuple(chats[agent]),
                completion_ids=tuple(said),
                logprobs=tuple(-one / 64 for one in said),
                policy=agent,
            )
            turns.append(Turn(agent=agent, index=index, messages=(), response=response, reward=0.5))
            chats[agent] = [*chats[agent], *said, *_ids(rng, 1, 4)]
    return episode(AGENTS, turns)


def _ids(rng: random.Random, least: int, most: int) -> list[int]:
    return [rng.randrange(5, 90) for _ in range(rng.randint(least, most))]
