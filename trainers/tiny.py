"""The embedded model: small enough to make, warm-start and train on a laptop's CPU in minutes.

A first run has no model hub to rely on, so this module makes an ordinary Transformers folder from
nothing: a byte-level BPE tokenizer with a ChatML template, a Llama model of about half a million
parameters (not Qwen2: for that type `AutoTokenizer` replaces the tokenizer's own rules), and a supervised warm start on demonstrations that the environments' scripted experts
write. Experts follow several conventions at random, so each seat of the warm-started model is
competent alone and the team is not coordinated: what is left to learn is to agree.

It owns the tokenizer, the size of the model, the warm start and the cache. It knows no task: texts
come in as demonstrations, (chat messages, answer) pairs. Nothing else in `trainers` knows that the
model is tiny; any other `from_pretrained` model takes its place.

Shapes: B rows of a batch, T tokens.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
IGNORED = -100  # the label that the loss of Transformers leaves out

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

Demonstration = tuple[Sequence[dict[str, str]], str]
"""Chat messages up to where the agent speaks, as {"role", "content"}, and what the expert says."""


@dataclass(frozen=True, kw_only=True)
class TinySettings:
    """Sizes of the embedded model and of its warm start. Together with the seed and the
    demonstrations they decide every weight."""

    vocab_size: int = 768
    """Most tokens of the vocabulary, the 256 bytes and 3 special ones included."""
    hidden_size: int = 128
    num_layers: int = 3
    num_heads: int = 4
    intermediate_size: int = 384
    max_position_embeddings: int = 2048
    """Most tokens of one dialogue."""
    demonstrations: int = 12_000
    """How many demonstrations are asked for, over all environments."""
    steps: int = 500
    """Optimizer steps of the warm start."""
    batch_size: int = 64
    """Demonstrations per step."""
    learning_rate: float = 3e-3
    """Peak of AdamW; a twentieth of the steps rising, then a half cosine to zero."""


def build_tokenizer(texts: Iterable[str], vocab_size: int = 768) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer trained on `texts`, with a ChatML template.

    Merges may cross spaces but not line ends: sentences that every prompt repeats become one token,
    so that the rows of a tiny model are short. Any Unicode text still encodes, at worst as bytes.
    Padding on the left, as generation needs; EOS is `<|im_end|>`.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[^\n]*\n|[^\n]+"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[START],
        padding_side="left",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def build_model(
    tokenizer: PreTrainedTokenizerBase, seed: int, settings: TinySettings | None = None
) -> LlamaForCausalLM:
    """An untrained Llama model for `tokenizer`, float32, its weights a function of `seed`."""
    settings = settings or TinySettings()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=settings.intermediate_size,
        num_hidden_layers=settings.num_layers,
        num_attention_heads=settings.num_heads,
        num_key_value_heads=settings.num_heads,
        max_position_embeddings=settings.max_position_embeddings,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id
    )
    return model


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    demonstrations: Sequence[Demonstration],
    seed: int,
    settings: TinySettings | None = None,
) -> float:
    """Teach `model` in place to answer as the demonstrations do; the mean loss of the last tenth.

    The loss is the mean cross-entropy, in nats, of the answers' tokens and their end-of-turn token;
    prompts carry no loss. Batches are dealt from shuffled passes over the demonstrations, so each
    is used equally often: where the demonstrations balance the conventions, so does the training.
    Deterministic by (model, demonstrations, seed, settings) on one machine and thread count.
    Raises ValueError for no demonstrations.
    """
    settings = settings or TinySettings()
    if not demonstrations:
        raise ValueError("got no demonstrations to warm-start on, expected at least one")
    rows = [_encode(tokenizer, *demonstration) for demonstration in demonstrations]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_cosine(settings.steps))
    batches = _deal(len(rows), settings.batch_size, seed)
    losses: list[float] = []
    model.train()
    bar = tqdm(range(settings.steps), desc="warm start", unit="step")
    for step in bar:
        ids_BT, labels_BT, mask_BT = _collate([rows[i] for i in next(batches)], tokenizer)
        loss = model(input_ids=ids_BT, attention_mask=mask_BT, labels=labels_BT).loss
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 20 == 0:
            bar.set_postfix(loss=f"{losses[-1]:.3f}")
    model.eval()
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail)


def _encode(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]], answer: str
) -> tuple[Tensor, Tensor]:
    """Token ids and labels of one demonstration, both (T,)."""
    prompt = tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=True, tokenize=True, return_dict=False
    )
    spoken = [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id]
    labels = [IGNORED] * len(prompt) + spoken
    return torch.tensor([*prompt, *spoken]), torch.tensor(labels)


def _collate(
    rows: Sequence[tuple[Tensor, Tensor]], tokenizer: PreTrainedTokenizerBase
) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, labels and attention mask of a batch, padded on the right, each (B, T)."""
    pad = tokenizer.pad_token_id
    ids_BT = pad_sequence([ids for ids, _ in rows], batch_first=True, padding_value=pad)
    labels_BT = pad_sequence([one for _, one in rows], batch_first=True, padding_value=IGNORED)
    return ids_BT, labels_BT, (ids_BT != pad).long()


def _deal(n: int, batch_size: int, seed: int) -> Iterator[list[int]]:
    """Endless batches of indices below `n`, from shuffled passes."""
    generator = torch.Generator().manual_seed(seed)
    left: list[int] = []
    while True:
        while len(left) < batch_size:
            left += torch.randperm(n, generator=generator).tolist()
        yield left[:batch_size]
        left = left[batch_size:]


def _warm_cosine(steps: int) -> Callable[[int], float]:
    rising = max(1, steps // 20)

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / rising
        return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))

    return factor
