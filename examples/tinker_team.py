"""Tinker: its cookbook trains a team; here its rollouts run without the hosted service."""

from __future__ import annotations

import asyncio
from typing import Any

from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.train import Config

from llm_marl_envs.bridges.harness import play_episode
from llm_marl_envs.play.registry import make
from trainers.bridges.tinker import TeamDatasetBuilder, TeamGroup, prompt_of
from trainers.weights.tiny import build_tokenizer


def config(env: str = "debate-v0", model: str = "Qwen/Qwen3-8B") -> Config:
    """What to train on the service: `asyncio.run(tinker_cookbook.rl.train.main(config()))`."""
    renderer = "qwen3_disable_thinking"
    builder = TeamDatasetBuilder(
        env_id=env,
        model_name=model,
        renderer_name=renderer,
        tasks=512,
        groups_per_batch=16,
        episodes=8,
    )
    return Config(
        model_name=model,
        recipe_name="llm_marl_envs",
        renderer_name=renderer,
        dataset_builder=builder,
        learning_rate=4e-5,
        max_tokens=256,
        log_path="runs/tinker",
    )


class Sampler(TokenCompleter):
    """In the service's place: token ids of what experts said in process to the same prompts."""

    def __init__(self, renderer: Any, episode: Any) -> None:
        (end,) = renderer.get_stop_sequences()
        self.said = {
            tuple(prompt_of(renderer, turn.messages).to_ints()): [
                *renderer.tokenizer.encode(turn.action, add_special_tokens=False),
                end,
            ]
            for turn in episode.turns
        }

    async def __call__(self, model_input: Any, stop: Any, **_: Any) -> TokensWithLogprobs:
        """The tokens; a prompt that no expert saw is a KeyError."""
        tokens = self.said[tuple(model_input.to_ints())]
        return TokensWithLogprobs(tokens=tokens, maybe_logprobs=[0.0] * len(tokens))


async def played(env: str, task: str, seed: int, **arguments: Any) -> list[tuple[float, float]]:
    """Returns of each seat in the cookbook's rollout of two episodes, and in process."""
    renderer = get_renderer("qwen3_disable_thinking", build_tokenizer([]), model_name="tiny")
    seats = make(env, **arguments).possible_agents
    experts = dict.fromkeys(seats, "expert")
    episode = await play_episode(env, task, seats=experts, seed=seed, env_kwargs=arguments)
    group = TeamGroup(env, task, renderer, episodes=2, arguments=arguments, seed=seed)
    there = await do_group_rollout(group, Sampler(renderer, episode))
    here = [episode.undiscounted_return(seat) for seat in seats] * 2
    return list(zip(there.get_total_rewards(), here, strict=True))


def play(seed: int) -> list[tuple[float, float]]:
    """Pairs (return over there, return in process), one per seat and episode."""
    config()
    games: list[tuple[str, dict[str, Any]]] = [
        ("coop_writing_tldr-v0", {}),
        ("coop_coding-v0", {"turns": 2}),
        ("debate-v0", {}),
    ]
    return [
        pair
        for env, arguments in games
        for task in ("train/0", "train/7")
        for pair in asyncio.run(played(env, task, seed, **arguments))
    ]


if __name__ == "__main__":
    print(play(seed=0))
