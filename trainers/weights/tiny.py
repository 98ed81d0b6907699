"""The embedded model: small enough to make, warm-start and train on a laptop's CPU in minutes.

A first run has no model hub to rely on, so this module makes an ordinary Transformers folder from
nothing: a byte-level BPE tokenizer with a ChatML template, a Llama model of about 0.3 million
parameters (not Qwen2: for that type `AutoTokenizer` replaces the tokenizer's own rules), and a
supervised warm start on demonstrations that the environments' scripted experts write. Experts
follow several conventions at random, so each seat of the warm-started model is competent alone and
the team is not coordinated: what is left to learn is to agree.

It knows no task: texts come in as demonstrations, (chat messages, answer) pairs. Nothing else in
`trainers` knows that the model is tiny; any other `from_pretrained` model takes its place.

Shapes: B rows of a batch, T tokens.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from llm_marl_envs.core.options import Options
from llm_marl_envs.files.cache import cache_folder, is_made, key_of, made_once, written_whole
from llm_marl_envs.measure.progress import counter
from trainers.weights.chat import ChatTemplate
from trainers.weights.shown import IGNORED, Demonstration, demonstrations_of, encoded

PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
PAD_ID, END_ID = 0, 2  # `build_tokenizer` puts the three first, in this order
RECORD = "tiny.json"
FORMAT = 2  # raised when this module makes another model from the same settings

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

WORD = r"[^()\[\]{}\d\s]+"

REPEATED = 0.2
"""Share of the prompts from which on a line of theirs is one of the tokenizer's `whole` lines."""


class TinySettings(Options):
    """Sizes of the embedded model and of its warm start.

    Together with the seed and the demonstrations they decide every weight.
    """

    within = "tiny"
    vocab_size: int = Field(
        default=1024,
        ge=259,
        description="most tokens of the vocabulary, the 256 bytes and 3 special ones included",
    )
    words_per_token: int = Field(
        default=1,
        ge=1,
        description="most words of one token. With 1 a new prompt of known words is one of known "
        "tokens. With more, rows are shorter and copying from a prompt is learned in fewer steps",
    )
    hidden_size: int = Field(default=96, ge=1, description="width")
    num_layers: int = Field(default=2, ge=1, description="depth")
    num_heads: int = Field(default=4, ge=1, description="heads of the attention")
    intermediate_size: int = Field(default=256, ge=1, description="width between two layers")
    max_position_embeddings: int = Field(
        default=2048, ge=1, description="most tokens of one dialogue"
    )
    demonstrations: int = Field(
        default=12_000,
        ge=1,
        description="how many demonstrations are asked for, over all environments",
    )
    steps: int = Field(default=600, ge=1, description="optimizer steps of the warm start")
    batch_size: int = Field(default=32, ge=1, description="demonstrations per step")
    learning_rate: float = Field(
        default=5e-3,
        gt=0,
        allow_inf_nan=False,
        description="peak of AdamW; a twentieth of the steps rising, then a half cosine to zero",
    )


def build_tokenizer(
    texts: Iterable[str],
    vocab_size: int = 1024,
    whole: Iterable[str] = (),
    words_per_token: int = 1,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer trained on `texts`, with a ChatML template.

    Merges cross neither digits nor brackets, and with `words_per_token=1` no words: a prompt of
    known words is one of known tokens, and an interface is a choice between the same few tokens in
    every program. Only in lines that are one of `whole` they do, so that what many prompts repeat
    costs a tiny model a token.
    Any Unicode text encodes, at worst as bytes.
    Padding on the left, as generation needs; EOS is `<|im_end|>`.
    """
    bpe = Tokenizer(models.BPE())
    parts = [*(f"^{re.escape(line)}$" for line in whole), *_parts(words_per_token)]  # of a line
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("|".join(parts)), behavior="isolated"),
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


def _parts(words: int) -> tuple[str, ...]:
    """What merges do not cross: a bracket, a digit, a line's beginning, at most so many words.

    Raises:
        ValueError: less than one word.
    """
    if words < 1:
        raise ValueError(f"words_per_token={words}: expected at least 1")
    some_words = rf" ?{WORD}(?: {WORD}){{0,{words - 1}}}"
    return (r"[()\[\]{}]", r" ?\d", r"\n *", some_words, r"\s")


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
        pad_token_id=PAD_ID,
        eos_token_id=END_ID,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(pad_token_id=PAD_ID, eos_token_id=END_ID)
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
    chat = ChatTemplate(tokenizer)
    rows = [_tensors(*encoded(chat, *demonstration)) for demonstration in demonstrations]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_cosine(settings.steps))
    batches = _deal(len(rows), settings.batch_size, seed)
    losses: list[float] = []
    model.train()
    with counter(settings.steps, "warm start", unit="step") as bar:
        for step in range(settings.steps):
            ids, labels, mask = _collate([rows[i] for i in next(batches)])  # (B, T)
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            if step % 20 == 0:
                bar.set_postfix(loss=f"{losses[-1]:.3f}")
            bar(1)
    model.eval()
    tail = losses[-max(1, len(losses) // 10) :]
    return sum(tail) / len(tail)


def _tensors(ids: Sequence[int], labels: Sequence[int]) -> tuple[Tensor, Tensor]:
    return torch.tensor(ids), torch.tensor(labels)


def _collate(rows: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, labels and attention mask of a batch, padded on the right, each (B, T)."""
    ids = pad_sequence([ids for ids, _ in rows], batch_first=True, padding_value=PAD_ID)
    labels = pad_sequence([labels for _, labels in rows], batch_first=True, padding_value=IGNORED)
    return ids, labels, torch.ne(ids, PAD_ID).long()


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


def tiny_model(
    path: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    fresh: bool = False,
    env_ids: Sequence[str] = ("coop_coding-v0",),
    env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    settings: TinySettings | None = None,
) -> str:
    """The folder of a warm-started tiny model, made on the first call.

    It is an ordinary Transformers folder: `AutoModelForCausalLM` and `AutoTokenizer` load it.
    `tiny.json` in it says how it was made. Without `path` it lies in `$LLM_MARL_CACHE`, else
    `~/.cache/llm-marl-envs`, under a name made from a key: a hash of the seed, the settings and
    every demonstration, so changed prompts or tables make a new model. A later call with the same
    key returns the folder at once. It is written beside its place and renamed, so no half-written
    folder is ever found there.

    Args:
        path: where the folder shall be instead; a folder there is used if its key is the same.
        seed: of the demonstrations, the initial weights and the order of the warm start.
        fresh: make it again even if it is there.
        env_ids: whose demonstrations to learn; each environment must have scripted experts.
        env_kwargs: further arguments of `make` for these environments, for all or one for each.
        settings: sizes of the model and the warm start.

    Raises:
        ValueError: `path` is there and holds something else, or an environment has no experts.
    """
    settings = settings or TinySettings()
    demonstrations = demonstrations_of(env_ids, settings.demonstrations, seed, env_kwargs)
    key = key_of(FORMAT, seed, settings.model_dump(), CHAT_TEMPLATE, demonstrations)
    folder = Path(path) if path is not None else cache_folder() / f"tiny-{key}"
    record = {"key": key, "seed": seed, "env_ids": list(env_ids), "settings": settings.model_dump()}
    with made_once(folder):
        if not is_made(folder / RECORD, key, "tiny model", fresh=fresh):
            with written_whole(folder) as made:
                _make(made, demonstrations, seed, settings, record)
    return str(folder)


def _make(
    folder: Path,
    demonstrations: Sequence[Demonstration],
    seed: int,
    settings: TinySettings,
    record: dict[str, Any],
) -> None:
    """Tokenizer, model, warm start, and the files of all three in `folder`."""
    texts, lines = _texts(demonstrations), _repeated_lines(demonstrations)
    tokenizer = build_tokenizer(texts, settings.vocab_size, lines, settings.words_per_token)
    model = build_model(tokenizer, seed, settings)
    loss = warm_start(model, tokenizer, demonstrations, seed, settings)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    (folder / RECORD).write_text(json.dumps({**record, "loss": loss}, indent=2) + "\n")


def _texts(demonstrations: Iterable[Demonstration]) -> Iterator[str]:
    """The texts between special tokens, as the tokenizer will meet them."""
    for messages, answer in demonstrations:
        for message in messages:
            yield f"{message['role']}\n"
            yield message["content"]
        yield "assistant\n"
        yield answer


def _repeated_lines(demonstrations: Sequence[Demonstration]) -> list[str]:
    """The lines that at least `REPEATED` of the prompts have, longest first."""
    counts = Counter(
        line
        for messages, _ in demonstrations
        for line in {line for message in messages for line in message["content"].splitlines()}
    )
    least = REPEATED * len(demonstrations)
    lines = [line for line, count in counts.items() if line and count >= least]
    return sorted(lines, key=lambda line: (-len(line), line))
