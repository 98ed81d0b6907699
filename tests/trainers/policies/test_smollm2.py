"""SmolLM2 itself, where it is in the cache; no test fetches it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_marl_envs import make, make_vec
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.files.cache import cache_folder
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.policies.named import Context, Sampling, named_team
from trainers.train import run_train
from trainers.weights.chat import ChatTemplate
from trainers.weights.warm_start import WarmStart, warm_started

SMOLLM2 = cache_folder() / "smollm2"
ENV = "coop_coding-v0"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not SMOLLM2.is_dir(), reason=f"needs llm-marl import-model smollm2 {SMOLLM2}"
    ),
]


def test_it_speaks_english() -> None:
    """A wrong order of weights or of tokens would not."""
    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2)
    model: Any = AutoModelForCausalLM.from_pretrained(SMOLLM2)
    chat = ChatTemplate(tokenizer).opening([Message("user", "What is the capital of France?")])
    made = model.generate(torch.tensor([chat]), max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(made[0, len(chat) :])


def test_from_a_warm_start_to_a_team_that_plays(tmp_path: Path) -> None:
    settings = WarmStart(demonstrations=16, steps=4, batch_size=4, lora_rank=4)
    base = warm_started(str(SMOLLM2), ENV, settings=settings, folder=tmp_path / "warm")
    record = json.loads((tmp_path / "warm" / "warm_start.json").read_text())
    assert record["steps"] == 4
    overrides = [
        f"model={base}",
        "warm_start=null",
        f"output_dir={tmp_path / 'run'}",
        "max_steps=1",
        "tasks_per_update=1",
        "num_generations=2",
    ]
    run_train("coop_coding_smollm2", overrides)
    env = make(ENV, split="test")
    sampling = Sampling(max_completion_length=16)
    team = named_team(str(tmp_path / "run" / "team"), Context(env=env, sampling=sampling))
    assert team.temperature == 1.0
    (episode,) = rollout(make_vec(ENV, 1, split="test"), team.seats, [Start(task=0)])
    assert {turn.agent for turn in episode.turns} == {"helper_0", "main_0"}
