"""What rows begin with is computed once: gradients and log-probs of whole rows."""

from __future__ import annotations

import dataclasses
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import DEEP, lora, make_trainer, small, tiny_tokenizer, weights
from support.toys import Relay, WordPair
from torch.nn.functional import log_softmax
from transformers import (
    BloomForCausalLM,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MambaForCausalLM,
    MistralForCausalLM,
    OPTForCausalLM,
    Qwen2ForCausalLM,
)
from trl.trainer.utils import add_fused_lm_head

from trainers.batch import prefixes
from trainers.batch.shared_prompts import SharedPrompts, why_whole

pytestmark = pytest.mark.full  # `make test-all` runs it

MODES: dict[str, dict[str, Any]] = {
    "shared": {"adapters": False, "weights": "shared"},
    "adapters": {},
    "separate": {"adapters": False, "weights": "separate"},
}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "OPT": (OPTForCausalLM, {"word_embed_proj_dim": 32, "dropout": 0.0}),
    "Llama": (LlamaForCausalLM, {"num_key_value_heads": 1, "intermediate_size": 32}),
    "Qwen2": (Qwen2ForCausalLM, {"num_key_value_heads": 2, "intermediate_size": 32}),
    "GPT-2": (GPT2LMHeadModel, {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}),
}


@pytest.fixture(autouse=True)
def any_saving_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts of these tests are short."""
    monkeypatch.setattr(prefixes, "CALL", 0)


def rows_of_a_tree() -> list[list[int]]:
    """Two prompts; of the first, two answers that go on in three ways each."""
    rng = random.Random(0)

    def drawn(length: int) -> list[int]:
        return rng.choices(range(64, 256), k=length)

    long, short = drawn(30), drawn(21)
    answers = [long + drawn(20) for _ in range(2)]
    rows = [answer + drawn(3 + n) for answer in answers for n in range(3)]
    return [*rows, *(short + drawn(9 - n) for n in range(3)), drawn(12)]


def scored(model: Any, ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> Any:
    return model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_gradients_are_those_of_whole_rows(kind: str) -> None:
    """Also of tokens that rows share, each weighed by another number in every row."""
    model_class, config = KINDS[kind]
    model = small(model_class, tiny_tokenizer(), **config)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    rows = rows_of_a_tree()
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :10] = -100
    torch.manual_seed(0)
    weigh = torch.randn(len(rows), width - 1)
    results = []
    shared = SharedPrompts(model, model, model)
    for computed in (model, shared):
        model.zero_grad()
        out = scored(computed, ids, mask, labels)
        ((out.log_probs + 0.3 * out.entropy) * weigh).sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        results.append((out.log_probs.detach(), out.entropy.detach(), gradient))
    assert shared.read < 0.6 * shared.whole
    whole, cut = results
    assert torch.allclose(cut[0], whole[0], atol=1e-5)
    assert torch.allclose(cut[1], whole[1], atol=1e-5)
    assert float((cut[2] - whole[2]).norm()) < 1e-5 * float(whole[2].norm())
    # And whole rows are what a model says without any of this.
    plain = log_softmax(model(input_ids=ids, attention_mask=mask).logits[:, :-1], dim=-1)
    asked = labels[:, 1:].clamp(min=0)
    expected = plain.gather(-1, asked.unsqueeze(-1)).squeeze(-1) * (labels[:, 1:] != -100)
    assert torch.allclose(cut[0], expected, atol=1e-5)


def test_only_own_tokens_are_scored() -> None:
    model = small(LlamaForCausalLM, tiny_tokenizer(), intermediate_size=32)
    add_fused_lm_head(model)
    ids = torch.tensor(rows_of_a_tree()[:1] * 3)
    own = torch.zeros(3, 8, dtype=torch.long)
    own[:, 5] = 1
    labels = ids.clone()
    labels[:, :-8] = -100
    out = scored(SharedPrompts(model, model, model, own), ids, torch.ones_like(ids), labels)
    assert (
        out.log_probs.ne(0).nonzero()[:, 1].tolist() == [ids.shape[1] - 1 - 3] * 3
    )  # of tokens from the second on


def test_equal_rows_train_on_different_tokens() -> None:
    """Each has the scores and the gradient of what it trains on, and none of the others'."""
    model = small(LlamaForCausalLM, tiny_tokenizer(), intermediate_size=32)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    ids = torch.tensor([rows_of_a_tree()[0]] * 3 + [[*rows_of_a_tree()[0][:-1], 70]])
    torch.manual_seed(1)
    own = torch.randint(0, 2, (4, 12))
    own[:3, 5] = torch.tensor([0, 1, 0])  # the first row does not train on it, the second does
    labels = ids.clone()
    labels[:, :-12] = -100
    mine = labels.clone()
    mine[:, -12:].masked_fill_(own == 0, -100)
    found = []
    for computed, asked in ((SharedPrompts(model, model, model, own), labels), (model, mine)):
        model.zero_grad()
        out = scored(computed, ids, torch.ones_like(ids), asked)
        weigh = torch.randn(out.log_probs.shape, generator=torch.Generator().manual_seed(2))
        ((out.log_probs + 0.3 * out.entropy * (mine[:, 1:] != -100)) * weigh).sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append((out.log_probs.detach(), gradient))
    (shared, moved), (whole, expected) = found
    assert shared.ne(0).equal(mine[:, 1:] != -100)
    assert torch.allclose(shared, whole, atol=1e-5)
    assert float((moved - expected).norm()) < 1e-5 * float(expected.norm())


SETTINGS: dict[str, dict[str, Any]] = {
    "one pass": {},
    "KL and two iterations": {"beta": 0.1, "num_iterations": 2},
    "a row at a time": {"rows_per_micro_batch": 1},
    "in sequence": {"schedules": {"sequential": {}}},
    "branches": {"algorithm": "magrpo_tree"},
    "a head": {"algorithm": {"name": "iac", "critic": "head"}},
    "turn by turn": {"env": Relay, "algorithm": "c3", "tasks_per_update": 1},
    "no rows to keep": {"kept_rows_mb": 0},
    "a frozen seat": {"frozen": ["left_0"]},
}
LEFT_OUT = [("a frozen seat", "shared"), ("a frozen seat", "separate"), ("in sequence", "shared")]
"""What needs two policies in one model, or two at all."""
LEFT_OUT += [("turn by turn", "shared"), ("turn by turn", "separate")]  # as "branches"


@pytest.mark.parametrize(
    ("how", "mode"),
    [(how, mode) for how in SETTINGS for mode in MODES if (how, mode) not in LEFT_OUT],
)
def test_runs_learn_what_whole_rows_learn(tmp_path: Path, mode: str, how: str) -> None:
    """Two steps of plain gradient; every token that was sampled is compared, too."""
    runs = []
    for shares in (False, True):
        changes = {
            "env": WordPair,
            "optim": "sgd",
            "learning_rate": 1.0,
            "max_grad_norm": 0.0,
            "max_steps": 2,
            "max_completion_length": 4,
            "rows_per_micro_batch": 16,
            **SETTINGS[how],
            **MODES[mode],
        }
        trainer = make_trainer(
            tmp_path / str(shares),
            changes.pop("env"),
            sizes=DEEP,
            share_prompts=shares,
            compare_sampling=True,
            **changes,
        )
        begun = weights(trainer)
        trainer.train()
        engine: Any = trainer.engine
        assert engine.kept.bytes == 0  # the rollouts are over
        runs.append((begun, weights(trainer), trainer.state.log_history))
    (begun, whole, _), (_, shared, log) = runs
    for policy, value in whole.items():
        step = float((value - begun[policy]).norm())
        assert float((shared[policy] - value).norm()) <= 1e-5 * step
    if how != "a row at a time":
        assert min(entry["sharing/rows"] for entry in log if "sharing/rows" in entry) < 0.9
    assert min(entry["sharing/prompts"] for entry in log if "sharing/prompts" in entry) < 0.9
    assert max(entry["sampling/joint/largest"] for entry in log if "reward" in entry) < 1e-4


def test_nothing_is_kept_after_an_evaluation(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, WordPair, eval_env=WordPair, eval_tasks=4)
    trainer.evaluate()
    engine: Any = trainer.engine
    assert engine.shared_tokens > 0
    assert engine.kept.bytes == 0


def refused(kind: Any, **config: Any) -> str:
    return str(why_whole(small(kind, tiny_tokenizer(), **config)))


def test_why_rows_are_computed_whole() -> None:
    """A model that cannot go on from a repeated cache, or takes no positions."""
    assert why_whole(small(LlamaForCausalLM, tiny_tokenizer(), intermediate_size=32)) is None
    sliding = {"sliding_window": 8, "num_key_value_heads": 2, "intermediate_size": 32}
    assert "keys and values of all tokens" in refused(MistralForCausalLM, **sliding)
    assert "keys and values of all tokens" in refused(MambaForCausalLM)
    assert "position_ids" in refused(BloomForCausalLM, n_head=2)
    assert "dropout" in refused(GPT2LMHeadModel)
    assert "dropout" in refused(LlamaForCausalLM, intermediate_size=32, attention_dropout=0.1)
    assert "dropout" in refused(
        OPTForCausalLM, word_embed_proj_dim=32
    )  # its layers call a function
    still = {"dropout": 0.0, "activation_dropout": 0.0, "attention_dropout": 0.0}
    assert "dropout" not in refused(OPTForCausalLM, word_embed_proj_dim=32, **still)
    model = small(LlamaForCausalLM, tiny_tokenizer(), intermediate_size=32)
    model.config._attn_implementation = "flex_attention"
    assert "'flex_attention' was not tried" in str(why_whole(model))
    model.gradient_checkpointing_enable()
    assert "gradient_checkpointing" in str(why_whole(model))


def test_whole_rows_are_said_and_learned_from(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "1", WordPair, gradient_checkpointing=True)
    with pytest.warns(UserWarning, match="prompts once per row: with gradient_checkpointing"):
        trainer.train()
    assert "sharing/rows" not in trainer.state.log_history[0]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*per row")
        make_trainer(tmp_path / "2", WordPair, share_prompts=False).train()
        make_trainer(tmp_path / "3", WordPair, peft_config=lora()).train()


def test_adapters_that_drop_compute_whole_rows(tmp_path: Path) -> None:
    """Their dropout is a module's; the model's config has none."""
    dropping = dataclasses.replace(lora(), lora_dropout=0.1)
    trainer = make_trainer(tmp_path, WordPair, peft_config=dropping, max_steps=1)
    with pytest.warns(UserWarning, match="prompts once per row: dropout"):
        trainer.train()
    assert "sharing/rows" not in trainer.state.log_history[0]


def nothing_left(*_: Any) -> None:
    """As a machine with less memory: torch's own error."""
    torch.empty(2**60)


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (False, "while sampling: lower sampling_batch_size, kept_rows_mb"),
        (True, "while learning: lower rows_per_micro_batch"),
    ],
)
def test_what_bounds_memory_is_named(tmp_path: Path, reading: bool, words: str) -> None:
    trainer = make_trainer(tmp_path, WordPair)
    for base in trainer.team.bases:
        base.register_forward_pre_hook(
            lambda module, args: nothing_left() if module.training is reading else None
        )
    with pytest.raises(MemoryError, match=words):
        trainer.train()


def test_the_head_scores_what_agents_said_and_no_more(tmp_path: Path) -> None:
    """Not what the environment says between two turns."""
    trainer = make_trainer(tmp_path, WordPair, max_steps=1, rows_per_micro_batch=16)
    scored: list[int] = []

    def note(module: Any, args: Any, kwargs: Any) -> None:
        if module.training:
            scored.append(int((kwargs["labels"] != -100).sum()))

    for base in trainer.team.bases:
        base.register_forward_pre_hook(note, with_kwargs=True)
    trainer.train()
    tokens = trainer.costs.tokens
    assert 0.8 * tokens < sum(scored) <= tokens
