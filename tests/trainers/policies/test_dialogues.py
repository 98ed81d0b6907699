"""Whole updates with the chat templates and tokenizers that real models come with.

The policy samples real two-turn episodes; then three things must hold: each prompt is what the
template renders, the behaviour log-probs are those of the sequence that is trained on, and the
gradient is the formula's.
"""

from __future__ import annotations

import copy
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import formula
from support.crossed import in_pairs
from support.gradients import TEMPERATURE, assert_same, gradients
from support.models import SETTINGS, settings
from support.templates import FORGETFUL
from support.toys import WORDS, Lower

from trainers.trainer import MAGRPOTrainer
from trainers.weights.tiny import (
    CHAT_TEMPLATE,
    TinySettings,
    build_model,
    build_tokenizer,
    warm_start,
)

LENGTH = 16
THOUGHT = "<think>\nhm\n</think>\n\n"
# Ignores `add_generation_prompt`: the header of an answer stands only before an answer.
NO_PROMPT = CHAT_TEMPLATE.split("{% if add_generation_prompt %}")[0]
# As Llama 2 and Mistral write it: nothing but a bracket marks the answer's begin.
BRACKETS = (
    "{% for m in messages %}{% if m['role'] == 'assistant' %}{{ m['content'] }}<|im_end|>"
    "{% else %}[INST] {{ m['content'] }} [/INST]{% endif %}{% endfor %}"
)


@cache
def _speaker(*, think: bool = False, pad_is_eos: bool = False, template: str | None = None) -> Any:
    """A model that says a word (after a thought), in one seed's own way."""
    prefix = THOUGHT if think else ""
    tokenizer = build_tokenizer([*WORDS, THOUGHT, "Say your word."] * 5, 290)
    if template is not None:
        tokenizer.chat_template = template
    if pad_is_eos:
        tokenizer.pad_token = tokenizer.eos_token
    system = {"role": "system", "content": "Say your word."}
    demonstrations = [
        ([system, {"role": "user", "content": f"Your word: {a}"}], prefix + b)
        for a in WORDS
        for b in WORDS
    ]
    sizes = TinySettings(
        vocab_size=290, hidden_size=32, num_layers=2, num_heads=2, intermediate_size=64, steps=200
    )
    model = build_model(tokenizer, 0, SETTINGS)
    if think:  # an untrained model would never close a thought
        warm_start(model, tokenizer, demonstrations, 0, sizes)
    return model, tokenizer


def speaker(kind: str) -> Any:
    return copy.deepcopy(_speaker(**KINDS[kind]))


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strips thinking": {"template": FORGETFUL, "think": True},
    "pad is EOS": {"pad_is_eos": True},
    "no generation prompt": {"template": NO_PROMPT},
    "brackets": {"template": BRACKETS},
}


def trainer_of(folder: Path, kind: str, **changes: Any) -> MAGRPOTrainer:
    model, tokenizer = speaker(kind)
    sizes = {"max_completion_length": LENGTH, "temperature": TEMPERATURE, "weights": "separate"}
    with warnings.catch_warnings():
        if kind == "strips thinking":
            warnings.simplefilter("ignore", UserWarning)  # it says so: see test_chat.py
        return MAGRPOTrainer(
            model,
            Lower,
            settings(folder, rows_per_micro_batch=3, **{**sizes, **changes}),
            processing_class=tokenizer,
        )


def rendered(trainer: MAGRPOTrainer, turn: Any, tokenizer: Any) -> str:
    chat = [{"role": m.role, "content": m.content} for m in turn.messages]
    text = str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
    if tokenizer.chat_template == NO_PROMPT:
        text += "<|im_start|>assistant\n"
    return text


@pytest.mark.parametrize(
    ("kind", "loss_type", "limit"), in_pairs(KINDS, ["dr_grpo", "dapo"], [LENGTH, 5])
)
def test_an_update_is_exact(tmp_path: Path, kind: str, loss_type: str, limit: int):
    trainer = trainer_of(tmp_path, kind, loss_type=loss_type, max_completion_length=limit)
    groups = trainer.collector.play(0, trainer.seating)
    inputs, advantages = trainer.collector.judge(0, groups)
    episodes = [episode for group in groups for episode in group.episodes]
    assert any(turn.index == 1 for e in episodes for turn in e.turns)
    for episode in episodes:
        for turn in episode.turns:
            tokenizer = trainer.team.tokenizers[turn.response.policy]
            shown = tokenizer.decode(list(turn.response.prompt_ids or ()))
            # Bytes that are no text and sampled special tokens are kept as ids, not as text.
            if "\ufffd" not in shown and not specials_sampled(tokenizer, episode, turn):
                assert shown == rendered(trainer, turn, tokenizer)
    assert_log_probs_are_those_of_the_sampler(trainer, episodes)

    trainer.collector.play = lambda update, team: groups
    trainer.current_gradient_accumulation_steps = trainer.plan.total
    trainer.model.train()
    trainer.model.zero_grad()
    for _ in range(trainer.plan.total):
        batch = trainer._prepare_inputs(None)
        trainer.compute_loss(trainer.model, batch).backward()
        trainer._step += 1
    gradient = gradients(trainer)
    trainer.model.zero_grad()
    for number, policy in enumerate(trainer.team.policies):
        trainer.team.activate(policy)
        per_place = [[{policy: advantages[p, g, number]} for g in range(4)] for p in range(2)]
        costs = []
        for row in formula.rows_of(groups, [policy], per_place):
            weights = torch.tensor([t.advantage for t in row for _ in t.action])
            costs.append(-weights * formula.log_probs(trainer.model, row, TEMPERATURE))
        formula.together(loss_type, costs, limit).backward()
    assert inputs.alive.any()
    assert_same(gradient, gradients(trainer))


def specials_sampled(tokenizer: Any, episode: Any, turn: Any) -> bool:
    earlier = [t for t in episode.trajectory(turn.agent) if t.index < turn.index]
    ids = {i for t in earlier for i in t.response.completion_ids[: None if t.response.cut else -1]}
    return bool(ids & set(tokenizer.all_special_ids))


def assert_log_probs_are_those_of_the_sampler(trainer: Any, episodes: list[Any]) -> None:
    for episode in episodes:
        for turn in episode.turns:
            response = turn.response
            trainer.team.activate(response.policy)
            row = [formula.TurnOf(response.prompt_ids, response.completion_ids, 0.0)]
            with torch.no_grad():
                again = formula.log_probs(trainer.model, row, TEMPERATURE)
            assert np.allclose(response.logprobs, again.numpy(), atol=1e-4)


def test_stripped_thoughts_are_trained_where_they_were_sampled(tmp_path: Path):
    """One row per turn: the first with its thought, the second after a history without it."""
    trainer = trainer_of(tmp_path, "strips thinking")
    groups = trainer.collector.play(0, trainer.seating)
    trainer.collector.play = lambda update, team: groups
    batches = trainer._new_batches()
    tokenizer = trainer.team.tokenizers["left_0"]
    turns = [t for g in groups for e in g.episodes for t in e.trajectory("left_0")]
    second = next(t for t in turns if t.index == 1 and "</think>" in t.messages[2].content)
    assert second.messages[2].content.startswith("<think>")
    assert "hm" not in tokenizer.decode(list(second.response.prompt_ids or ()))
    rows = sum(
        label != "padding" for b in batches if b["policy"] == "left_0" for label in b["labels"]
    )
    assert rows == len(turns)


@pytest.mark.parametrize("kind", KINDS)
def test_it_trains(tmp_path: Path, kind: str):
    trainer = trainer_of(tmp_path, kind, weights="shared", max_steps=2)
    before = [p.detach().clone() for p in trainer.team.parameters("shared")]
    trainer.train()
    assert trainer.state.global_step == 2
    after = trainer.team.parameters("shared")
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
