"""A small entailment model, trained here on generated documents: no download, half a minute.

It learns from pairs (a sentence or two of a document, a sentence). *entailment*: they say it.
*not_entailment*: a word of what they say is another, a "not" came or went, roles are swapped, or it
is another fact of the document. It has seen no text but these.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from llm_marl_envs.writing.documents import LEXICONS, Fact, Kind, say
from llm_marl_envs.writing.generate import document_at
from llm_marl_envs.writing.plans import plans, write

LABELS = ("entailment", "not_entailment")
STEPS, BATCH = 900, 64
EASY = 250 * BATCH
"""Pairs at the beginning whose premise is one sentence."""

MAX_LENGTH = 14
"""Tokens of a pair: one or two sentences and one more; longer sources are read in windows."""

Pair = tuple[str, str, int]


def train_entailment(kind: Kind, folder: Path, seed: int = 0) -> str:
    """The folder of a model that tells `LABELS` apart, for one kind of document."""
    torch.manual_seed(seed)
    tokenizer = _tokenizer(kind)
    model = _model(tokenizer)
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


def _model(tokenizer: Any) -> Any:
    model: Any = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
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
    for number in itertools.count():
        facts = rng.choice(documents)
        premise = rng.sample(facts, 1 if number < EASY else rng.choice((1, 1, 2)))
        if sum(3 if fact.holds else 5 for fact in premise) > MAX_LENGTH - 6:
            premise.pop()  # it would be cut
        said = rng.choice(premise)
        label = rng.randrange(2)
        fact = said
        if label:
            others = [fact for fact in facts if fact not in premise]
            fact = rng.choice(others) if rng.random() < 0.3 else _false(said, words, rng)
        yield " ".join(say(kind, one) for one in premise), say(kind, fact), label


def _false(fact: Fact, words: Mapping[str, list[str]], rng: random.Random) -> Fact:
    """A fact with its polarity, its roles or one of its words changed."""
    draw = rng.random()
    if draw < 0.35:
        return replace(fact, holds=not fact.holds)
    if draw < 0.6:
        return replace(fact, subject=fact.object, object=fact.subject)
    part = rng.choice(("subject", "relation", "object"))
    others = [word for word in words[part] if word != getattr(fact, part)]
    return replace(fact, **{part: rng.choice(others)})


def _tokenizer(kind: Kind) -> Any:
    """One token for each word of the generator's tables; "the" and full stops have none."""
    lexicon = LEXICONS[kind]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "did", "does", "not"]
    words += sorted({*lexicon.entities, *lexicon.forms})
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    raw.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace(Regex(r"\.|\bthe\b"), " ")]
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
