"""A small entailment model, trained here on generated documents: no download, half a minute.

It learns from pairs (a sentence of a document, a sentence). *entailment*: they say the same.
*not_entailment*: a word is another, a "not" came or went, roles are swapped, a word is too many, or
it is another fact of the document. It has seen no text but these and reads a longer one sentence by
sentence.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from support.models import small
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from llm_marl_envs.envs.writing.divisions import plans, write
from llm_marl_envs.envs.writing.documents import LEXICONS, Fact, Kind, say
from llm_marl_envs.envs.writing.generate import document_at

LABELS = ("entailment", "not_entailment")
STEPS, BATCH = 400, 64
MAX_LENGTH = 11
"""Tokens of a pair: two sentences of three, or a longer one, and the marks between them."""

Pair = tuple[str, str, int]


def train_entailment(kind: Kind, folder: Path, seed: int = 0) -> str:
    """The folder of a model that tells `LABELS` apart, for one kind of document."""
    tokenizer = _tokenizer(kind)
    model = _model(tokenizer, seed)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.5e-3, total_steps=STEPS)
    examples = _pairs(kind, seed)
    for _ in range(STEPS):
        premises, sentences, labels = zip(*itertools.islice(examples, BATCH), strict=True)
        encoded = tokenizer(
            list(premises),
            list(sentences),
            padding=True,
            truncation=True,
            max_length=MAX_LENGTH,
            return_tensors="pt",
        )
        loss = model(**encoded, labels=torch.tensor(labels)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def honest_rows(kind: Kind, n: int) -> tuple[list[dict[str, str]], list[tuple[str, str]]]:
    """Documents of split `test` as rows from outside, and what their experts write.

    Both are plain sentences without the names of topics.
    """
    rows, texts = [], []
    for index in range(n):
        document = document_at(kind, 0, "test", index)
        facts = [fact for section in document.sections for fact in section.facts]
        rows.append({"text": "\n".join(say(kind, fact) for fact in facts)})
        plan = plans(document)[0]
        first, second = (re.sub(r"(?m)^\w+: ", "", write(document, s, plan)) for s in (0, 1))
        texts.append((first, second))
    return rows, texts


def _model(tokenizer: Any, seed: int) -> Any:
    model = small(
        BertForSequenceClassification,
        tokenizer,
        seed,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=MAX_LENGTH + 2,
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.125,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    # Words attend to themselves in the other sentence from the start, which saves most of the time.
    model.bert.embeddings.word_embeddings.weight.data *= 3
    for layer in model.bert.encoder.layer:
        layer.attention.self.query.weight.data *= 1.5
        layer.attention.self.key.load_state_dict(layer.attention.self.query.state_dict())
    return model


def _pairs(kind: Kind, seed: int) -> Iterator[Pair]:
    """(premise, sentence, label) without end, from documents of split `train`."""
    rng = random.Random(f"entailment/{kind}/{seed}")
    documents = [sorted(document_at(kind, 0, "train", index).facts) for index in range(400)]
    words = {
        "subject": sorted({fact.subject for facts in documents for fact in facts}),
        "relation": sorted(LEXICONS[kind].past),
        "object": sorted(LEXICONS[kind].entities),
    }
    while True:
        facts = rng.choice(documents)
        said = rng.choice(facts)
        label = int(rng.random() < 0.6)
        sentence = say(kind, _other(said, facts, words, rng) if label else said)
        if label and rng.random() < 0.2:
            parts = sentence.split()
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(["unheard", *words["object"]]))
            sentence = " ".join(parts)
        yield say(kind, said), sentence, label


def _other(
    fact: Fact, facts: Sequence[Fact], words: Mapping[str, list[str]], rng: random.Random
) -> Fact:
    """Another fact of the document, or this one made false: polarity, roles or one word."""
    draw = rng.random()
    if draw < 0.25:
        return rng.choice([other for other in facts if other != fact])
    if draw < 0.5:
        return replace(fact, holds=not fact.holds)
    if draw < 0.7:
        return replace(fact, subject=fact.object, object=fact.subject)
    part = rng.choice(("subject", "relation", "object"))
    others = [word for word in words[part] if word != getattr(fact, part)]
    return replace(fact, **{part: rng.choice(others)})


def _tokenizer(kind: Kind) -> Any:
    """One token for each word of the generator's tables, "did not" and its verb together.

    "the" and full stops have none, so every plain sentence is three tokens.
    """
    lexicon = LEXICONS[kind]
    denied = {f"not{base}" for base in lexicon.past}
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words += sorted({*lexicon.entities, *lexicon.forms, *denied})
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    raw.normalizer = normalizers.Sequence(
        [
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"\.|\bthe\b"), " "),
            normalizers.Replace(Regex(r"\b(did|does) not +"), "not"),
        ]
    )
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=MAX_LENGTH,
    )
