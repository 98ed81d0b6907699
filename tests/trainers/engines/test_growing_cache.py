"""A cache that is written in place changes no number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.models import small, tiny_tokenizer
from transformers import (
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MambaForCausalLM,
    Qwen2ForCausalLM,
)

from trainers.engines.growing_cache import LEAST, GrowingLayer, growing_cache

LLAMA = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 4}
LLAMA |= {"num_hidden_layers": 2, "num_key_value_heads": 2}


def generated(model: Any, **kwargs: Any) -> Any:
    ids = torch.arange(10, 22).reshape(3, 4)
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    return model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=2 * LEAST + 10,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
        **kwargs,
    )


@pytest.mark.parametrize(
    ("kind", "config"),
    [(LlamaForCausalLM, LLAMA), (GPT2LMHeadModel, {"n_embd": 16, "n_layer": 2, "n_head": 2})],
)
def test_every_score_is_that_of_the_cache_of_transformers(kind: Any, config: dict[str, Any]):
    model = small(kind, tiny_tokenizer(), **config).eval()
    cache = growing_cache(model)
    assert cache is not None
    ours, theirs = generated(model, past_key_values=cache), generated(model)
    assert torch.equal(ours.sequences, theirs.sequences)
    assert all(map(torch.equal, ours.scores, theirs.scores))
    layers: Any = cache.layers
    assert all(isinstance(layer, GrowingLayer) for layer in layers)
    assert layers[0].keys.data_ptr() == layers[0].room[0].data_ptr()


def test_a_model_with_another_kind_of_memory_keeps_it():
    """Windows of attention, and states that are no keys and values."""
    window = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    sliding = small(Qwen2ForCausalLM, tiny_tokenizer(), **LLAMA, **window)
    states = small(MambaForCausalLM, tiny_tokenizer(), hidden_size=16, num_hidden_layers=1)
    assert growing_cache(sliding) is growing_cache(states) is None
