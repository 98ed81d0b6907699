"""Models and adapters of other kinds than the embedded one: what is trained is what was sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import IA3Config, LoraConfig, PromptTuningConfig
from support import formula
from support.gradients import Seats, assert_formula, trainer_of
from support.models import make_trainer, settings, small, tiny_tokenizer, untrained
from support.toys import Lower
from transformers import GPT2LMHeadModel

from trainers.trainer import MAGRPOTrainer
from trainers.weights.team_files import build_team_model


def gpt2() -> Any:
    """Learned absolute positions: a shifted row is another row."""
    tokenizer = tiny_tokenizer()
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    model = small(
        GPT2LMHeadModel,
        tokenizer,
        num_hidden_layers=2,
        max_position_embeddings=128,
        bos_token_id=1,
        eos_token_id=tokenizer.eos_token_id,
        **dropout,
    )
    return model, tokenizer


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_models_that_count_positions(tmp_path: Path, rows: int):
    model, tokenizer = gpt2()
    plain = trainer_of(tmp_path, "left_0", "right_0")
    trainer = MAGRPOTrainer(
        model,
        lambda: Seats("left_0", "right_0"),
        settings(
            tmp_path,
            weights="separate",
            tasks_per_update=2,
            num_generations=4,
            max_completion_length=plain.args.max_completion_length,
            temperature=plain.args.temperature,
            rows_per_micro_batch=rows,
            beta=0.1,
            num_iterations=2,
        ),
        processing_class=tokenizer,
    )
    assert_formula(trainer, moved=0.03)


def sampled_as_scored(trainer: MAGRPOTrainer) -> None:
    """The log-probs of the sampler are those of a plain forward pass under the seat's policy."""
    for episode in trainer.collector.play(0, trainer.seating)[0].episodes:
        for turn in episode.turns:
            response = turn.response
            trainer.team.activate(str(response.policy))
            row = [formula.TurnOf(response.prompt_ids or (), response.completion_ids or (), 0.0)]
            with torch.no_grad():
                again = formula.log_probs(trainer.team.module, row, trainer.temperature)
            assert np.allclose(response.logprobs or (), again.numpy(), atol=1e-4)


FOREIGN = {
    "suppress_tokens": [70, 71, 72],
    "bad_words_ids": [[75]],
    "no_repeat_ngram_size": 2,
    "repetition_penalty": 1.5,
    "min_new_tokens": 5,
    "forced_eos_token_id": 2,
    "exponential_decay_length_penalty": (1, 2.0),
    "max_time": 1e-6,
    "num_beams": 2,
    "stop_strings": ["a"],
    "top_k": 3,
    "do_sample": True,
}


@pytest.mark.parametrize("setting", FOREIGN)
@pytest.mark.parametrize("adapters", [True, pytest.param(False, marks=pytest.mark.long)])
def test_generation_settings_of_the_model_do_not_reach_the_sampler(
    tmp_path: Path, setting: str, adapters: bool
):
    trainer = make_trainer(tmp_path, Lower, adapters=adapters)
    expected = [e.turns for e in trainer.collector.play(0, trainer.seating)[0].episodes]
    model, tokenizer = untrained()
    setattr(model.generation_config, setting, FOREIGN[setting])
    other = MAGRPOTrainer(
        model,
        Lower,
        settings(tmp_path),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
        if adapters
        else None,
    )
    others = [e.turns for e in other.collector.play(0, other.seating)[0].episodes]
    assert [[t.action for t in turns] for turns in others] == [
        [t.action for t in turns] for turns in expected
    ]
    sampled_as_scored(other)
    assert getattr(model.generation_config, setting) == FOREIGN[setting], "kept for the saved model"


KINDS = {
    "lora": LoraConfig(r=4, target_modules=["q_proj", "v_proj"]),
    "dora": LoraConfig(r=4, target_modules=["q_proj", "v_proj"], use_dora=True),
    "saved modules": LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["norm"]),
    "ia3": IA3Config(target_modules=["k_proj", "v_proj"], feedforward_modules=[]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_seat_is_sampled_with_its_own_adapter(tmp_path: Path, kind: str):
    trainer = make_trainer(tmp_path, Lower, peft_config=KINDS[kind])
    with torch.no_grad():
        for number, policy in enumerate(trainer.team.policies, start=1):
            for parameter in trainer.team.parameters(policy):
                wave = torch.sin(number + torch.arange(parameter.numel(), dtype=torch.float32))
                parameter.add_(0.3 * wave.view_as(parameter))
    sampled_as_scored(trainer)
    trainer.train()
    assert trainer.state.global_step == 2


def test_learned_prompts_are_refused():
    model, tokenizer = untrained()
    with pytest.raises(ValueError, match="use LoRA"):
        build_team_model(
            model,
            ["left_0", "right_0"],
            weights="adapters",
            peft_config=PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2),
            tokenizer=tokenizer,
        )


@pytest.mark.parametrize("name", ["keys", "type", "a.b"])
def test_names_that_no_module_can_have_are_refused(name: str):
    model, tokenizer = untrained()
    with pytest.raises(ValueError, match="policies="):
        build_team_model(
            model, [name, "b_0"], weights="adapters", peft_config=KINDS["lora"], tokenizer=tokenizer
        )
    model, tokenizer = untrained()
    with pytest.raises(ValueError, match="policies="):
        build_team_model(model, [name, "right_0"], weights="separate", tokenizer=tokenizer)


def test_a_policy_s_weights_may_hold_a_plain_number():
    """The digest of a start must take parameters without dimensions."""
    model, tokenizer = untrained()
    model.register_parameter("scale", torch.nn.Parameter(torch.tensor(1.0)))
    team = build_team_model(model, ["left_0"], weights="shared", tokenizer=tokenizer)
    team.remember_start(team.policies)
    assert len(team.start_digest()) == 64


def test_models_that_count_positions_are_sampled_as_scored(tmp_path: Path):
    model, tokenizer = gpt2()
    trainer = MAGRPOTrainer(model, Lower, settings(tmp_path), processing_class=tokenizer)
    sampled_as_scored(trainer)
