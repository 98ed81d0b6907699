"""Tiny untrained models for tests, and trainers on them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from accelerate.utils import imports
from peft import LoraConfig
from support.toys import WORDS

from trainers.config import MAGRPOConfig
from trainers.trainer import MAGRPOTrainer
from trainers.weights.sharding import full
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer

# Accelerate asks for packages at every start and step, and reads files each time.
imports._is_package_available = cache(imports._is_package_available)

TEXTS = [f"Your word: {word}\nSay your word." for word in WORDS]
SETTINGS = TinySettings(
    vocab_size=300,
    hidden_size=32,
    num_layers=1,
    num_heads=2,
    intermediate_size=64,
    max_position_embeddings=512,
)
DEEP = SETTINGS.changed(num_layers=2)
"""For what keeps numbers of each layer: caches, adapters stacked, weights in parts."""


def tiny_tokenizer() -> Any:
    return build_tokenizer(TEXTS, SETTINGS.vocab_size)


def untrained(seed: int = 0, sizes: TinySettings = SETTINGS) -> tuple[Any, Any]:
    """(model, tokenizer), float32, a function of the seed."""
    tokenizer = tiny_tokenizer()
    return build_model(tokenizer, seed, sizes), tokenizer


def small(kind: Any, tokenizer: Any, seed: int = 0, **config: Any) -> Any:
    """An untrained model of any class of Transformers, float32, a function of the seed.

    `config` has the names of BERT's, which the configs of other models take too.
    """
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(seed)
    return kind(kind.config_class(vocab_size=len(tokenizer), **{**sizes, **config}))


def lora(rank: int = 4) -> LoraConfig:
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj"])


def settings(folder: Any, **changes: Any) -> MAGRPOConfig:
    """A run of seconds; `changes` are fields of the config."""
    base: dict[str, Any] = {
        "max_steps": 2,
        "tasks_per_update": 2,
        "num_generations": 4,
        "rows_per_micro_batch": 4,
        "max_completion_length": 6,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "transcript_every": 0,
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 3,
    }
    return MAGRPOConfig(str(folder), **{**base, **changes})


SHORT = {
    "tasks_per_update": 1,
    "num_generations": 2,
    "max_completion_length": 4,
    "save_strategy": "steps",
    "save_steps": 1,
    "use_cpu": True,
    "disable_tqdm": True,
}
"""Trainer settings of a run file whose updates take no time."""


def make_trainer(
    folder: Any, env: Any, *, adapters: bool = True, sizes: TinySettings = SETTINGS, **changes: Any
) -> MAGRPOTrainer:
    """A trainer on an untrained model; `peft_config`, `partners`, ... go to the constructor."""
    constructor = {
        key: changes.pop(key)
        for key in ("peft_config", "partners", "eval_env", "callbacks")
        if key in changes
    }
    if adapters:
        constructor.setdefault("peft_config", lora())
    model, tokenizer = untrained(sizes=sizes)
    args = settings(folder, **changes)
    return MAGRPOTrainer(model, env, args, processing_class=tokenizer, **constructor)


def weights(trainer: MAGRPOTrainer) -> dict[str, torch.Tensor]:
    """policy -> its trainable parameters as one vector, copied."""
    return {
        policy: torch.cat([full(p).flatten() for p in trainer.team.parameters(policy)]).clone()
        for policy in trainer.team.policies
    }
