"""A small model as a GGUF file, as llama.cpp would write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from support.models import SETTINGS
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from trainers.weights.tiny import CHAT_TEMPLATE, build_model

SPECIAL = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
NORMAL, CONTROL = 1, 3
"""Types of tokens in the file."""
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def gpt2_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE with GPT-2's splits, which is what such a file can hold."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    texts = ["Write the Python function aux.", "def solve(xs):\n    return sum(xs)"] * 9
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        texts,
        BpeTrainer(
            vocab_size=320,
            special_tokens=SPECIAL,
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[2],
        additional_special_tokens=[SPECIAL[1]],
        chat_template=CHAT_TEMPLATE,
    )


def write_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    template: bool = True,
    quantised: bool = False,
    layers: int | None = None,
) -> tuple[LlamaForCausalLM, Any]:
    """Write one; the model and the tokenizer that it holds. `layers`: what it says that it has."""
    import gguf

    tokenizer = gpt2_tokenizer()
    model = build_model(tokenizer, 0, SETTINGS)
    config: Any = model.config
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_name("small")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(layers or config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(tokenizer))
    ids = tokenizer.get_vocab()
    vocabulary = sorted(ids, key=ids.__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([CONTROL if one in SPECIAL else NORMAL for one in vocabulary])

    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(one) for one in merges])
    writer.add_bos_token_id(ids[SPECIAL[1]])  # as SmolLM2's file; older transformers need one
    writer.add_eos_token_id(ids[str(tokenizer.eos_token)])
    writer.add_pad_token_id(ids[str(tokenizer.pad_token)])
    if template:
        writer.add_chat_template(CHAT_TEMPLATE)
    for name, tensor in _tensors(model):
        if quantised and tensor.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model, tokenizer


def _tensors(model: LlamaForCausalLM) -> list[tuple[str, np.ndarray]]:
    state = model.model.state_dict()
    found = [
        ("token_embd.weight", _array(state["embed_tokens.weight"])),
        ("output_norm.weight", _array(state["norm.weight"])),
    ]
    for layer in range(model.config.num_hidden_layers):
        for ours, theirs in NAMES.items():
            weight = state[f"layers.{layer}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                weight = _interleaved(weight, model.config.num_attention_heads)
            found.append((f"blk.{layer}.{theirs}.weight", _array(weight)))
    return found


def _interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """llama.cpp turns neighbouring numbers of a head, transformers the two halves."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.transpose(1, 2).reshape(rows, columns)


def _array(weight: torch.Tensor) -> np.ndarray:
    return weight.detach().contiguous().numpy()
