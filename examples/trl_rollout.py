"""TRL: its GRPOTrainer trains one seat; the others are played by scripted partners."""

from __future__ import annotations

from trl import GRPOConfig, GRPOTrainer

from llm_marl_envs import make
from trainers.bridges.trl import SeatRollout, episode_return


def train(seed: int, env: str = "debate-v0", model: str = "Qwen/Qwen3-0.6B") -> list[float]:
    """Mean returns of the seat, one per update of 32 episodes."""
    others = make(env).possible_agents[1:]
    rollout = SeatRollout(env, dict.fromkeys(others, "expert"), max_completion_length=64, seed=seed)
    config = GRPOConfig(
        "runs/trl",
        max_steps=60,
        per_device_train_batch_size=32,
        num_generations=8,
        learning_rate=1e-3,  # of a tiny model; 1e-6 for one of 0.6 billion parameters
        warmup_steps=10,
        bf16=False,  # true on a GPU
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        seed=seed,
    )
    trainer = GRPOTrainer(
        model,
        reward_funcs=episode_return,
        rollout_func=rollout,
        train_dataset=rollout.dataset(64),
        args=config,
    )
    trainer.train()
    return [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]


if __name__ == "__main__":
    print(train(seed=0))
