"""TorchRL: GRPO teaches a language model that plays both seats."""

from __future__ import annotations

import torch
from torchrl.data import LazyStackStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.modules.llm import TransformersWrapper
from torchrl.objectives.llm import GRPOLoss, MCAdvantage
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_marl_envs import make
from llm_marl_envs.bridges.torchrl import OnlyActing, TextChatEnv, trajectories

GROUP = 8  # episodes of one task


def train(
    seed: int, env: str = "coop_writing_tldr-v0", model: str = "Qwen/Qwen3-0.6B"
) -> list[float]:
    """Mean team returns, one per update of 16 episodes."""
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(model)
    weights = AutoModelForCausalLM.from_pretrained(model).eval()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    sampling = {"do_sample": True, "temperature": 1.0, "max_new_tokens": 64, **ends}
    actor = TransformersWrapper(
        weights,
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
        input_mode="history",
        generate_kwargs=sampling,
    )
    scorer = TransformersWrapper(
        weights, tokenizer=tokenizer, input_mode="tokens", generate=False, pad_model_input=True
    )
    loss = GRPOLoss(scorer, entropy_bonus=False)
    # The rate of a tiny model; 1e-6 for one of 0.6 billion parameters.
    optimizer = torch.optim.AdamW(weights.parameters(), lr=1e-3)
    chats = TextChatEnv([make(env) for _ in range(2 * GROUP)], groups=GROUP, seed=seed)
    buffer = ReplayBuffer(
        storage=LazyStackStorage(1000),
        sampler=SamplerWithoutReplacement(),
        batch_size=16,
        transform=MCAdvantage(grpo_size=GROUP, prompt_key="group"),
    )
    curve = []
    for _ in range(15):
        with torch.no_grad():
            played = trajectories(chats.rollout(100, policy=OnlyActing(actor)))
            for turns in played:
                scored = scorer(turns.copy())
                for turn, row in zip(turns.unbind(0), scored.unbind(0), strict=True):
                    turn["log_probs", "full"] = row["log_probs", "full"]
                buffer.extend(turns)
        returns = [turns["next", "reward"].sum().item() for turns in played]
        curve.append(sum(returns) / len(returns))
        for batch in buffer:
            batch["advantage"] = batch["advantage"].unsqueeze(-1)  # (rows, 1) -> (rows, tokens, 1)
            optimizer.zero_grad()
            loss(batch).loss_objective.backward()
            optimizer.step()
        buffer.empty()
    return curve


if __name__ == "__main__":
    print(train(seed=0))
