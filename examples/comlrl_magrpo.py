"""CoMLRL: its MAGRPO trains two models on a task of two seats."""

from __future__ import annotations

import torch
from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_marl_envs.bridges.comlrl import for_comlrl


def train(
    seed: int, env: str = "coop_writing_tldr-v0", model: str = "Qwen/Qwen3-0.6B"
) -> list[float]:
    """Mean team rewards, one per 64 episodes."""
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(model)
    rewards: list[float] = []

    def note(reward: float) -> float:
        rewards.append(reward)
        return reward

    config = MAGRPOConfig(
        num_train_epochs=2,
        agent_learning_rate=1e-3,  # of a tiny model; 1e-5 for one of 0.6 billion parameters
        num_generations=8,
        max_new_tokens=128,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        num_turns=1,
        early_termination_threshold=None,  # its default would end nearly every episode
        rollout_buffer_size=4,
        eval_interval=0,
    )
    trainer = MAGRPOTrainer(
        agents=[AutoModelForCausalLM.from_pretrained(model) for _ in range(2)],
        tokenizer=tokenizer,
        args=config,
        reward_processor=note,
        **for_comlrl(
            env, tokenizer, 64, seed=seed, chat_template_kwargs={"enable_thinking": False}
        ),
    )
    trainer.train()
    return [sum(rewards[i : i + 64]) / 64 for i in range(0, len(rewards), 64)]


if __name__ == "__main__":
    print(train(seed=0))
