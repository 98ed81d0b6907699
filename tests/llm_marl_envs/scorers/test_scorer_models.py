"""Scorers with real models: entailment trained here, sequence classifiers, a served judge."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import pytest
import torch
from support.attacks import ATTACKS, page_table
from support.entailment import LABELS, honest_rows, train_entailment
from support.models import small, tiny_tokenizer
from support.serving import served
from transformers import (
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
    Qwen2ForSequenceClassification,
)

from llm_marl_envs import make, make_vec
from llm_marl_envs.play.testing import JUNK
from llm_marl_envs.scorers import Submission, open_scorer
from trainers.scorers.classifier import DIGITS, PairClassifier
from trainers.scorers.entailment import MAX_SENTENCES, EntailmentScorer
from trainers.scorers.reward_model import RewardModelScorer
from trainers.weights.tiny import TinySettings, tiny_model

pytestmark = pytest.mark.full  # `make test-all` runs it

TLDR = "coop_writing_tldr-v0"


# -- nli ------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def entailment(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train_entailment("post", tmp_path_factory.mktemp("entailment"))


def test_an_entailment_model_pays_what_is_true(entailment: str) -> None:
    """Posts that the model has not seen, as rows from outside, in copies that step together."""
    rows, honest = honest_rows("post", 12)
    copies = make_vec(TLDR, len(rows), tasks=rows, split="all", reward=f"nli:{entailment}")
    scorer: Any = open_scorer(f"nli:{entailment}").scorer
    calls: list[int] = []
    score = scorer.score
    scorer.score = lambda batch: calls.append(len(batch)) or score(batch)

    def paid(texts: list[tuple[str, str]]) -> float:
        copies.reset(options=[{"task": index} for index in range(len(rows))])
        results = copies.step(
            [dict(zip(copies.envs[0].seats, pair, strict=True)) for pair in texts]
        )
        return mean(result[1]["brief_0"] for result in results)

    def attacked(name: str) -> float:
        texts = [
            ATTACKS[name](row["text"], pair, Random(f"{name}/{number}"))
            for number, (row, pair) in enumerate(zip(rows, honest, strict=True))
        ]
        return paid(texts)

    honest_pay = paid(honest)
    assert honest_pay > 0.2  # it covers a part of each post
    assert paid([*honest[1:], honest[0]]) < 0.4 * honest_pay  # the texts of another post
    assert attacked("statements turned false") < 0.4 * honest_pay
    assert attacked("first and last words exchanged") < 0.5 * honest_pay
    # The page's numbers are of 40 posts.
    (page,) = (column for name, column in page_table().items() if "`nli`" in name)
    for name in (
        "copy of the source",
        "salad of the source",
        '"None of this happened."',
        "nothing",
    ):
        assert attacked(name) / honest_pay == pytest.approx(float(page[name]), abs=0.15)
    assert len(calls) <= 8 * 4  # of 8 * 12 episodes, about two for each turn of all copies
    copies.close()
    open_scorer.cache_clear()


def test_sentences_are_supported_and_covered(entailment: str) -> None:
    scorer = EntailmentScorer(entailment)
    source = "Mia paid Tom.\nLeo fixed the key.\nTom sold the hose.\nMia blamed Leo."
    entailed = {
        (source, "Mia paid Tom."): True,
        (source, "Tom sold the pan."): False,
        ("Mia paid Tom.\nTom sold the pan.", "Mia paid Tom."): True,
    }
    scorer._entailed = lambda pairs: {pair: entailed.get(pair, False) for pair in pairs}
    (score,) = scorer.score(
        [Submission(source=source, texts=("Mia paid Tom.", "Tom sold the pan."))]
    )
    # Half of what they say is supported, a quarter of the source is covered.
    assert score == pytest.approx({"supported": 1 / 2, "missed": 1 / 8 - 1 / 2})


def test_a_long_premise_is_read_in_windows(entailment: str) -> None:
    scorer = EntailmentScorer(entailment)
    facts = ["Mia paid Tom.", "Leo fixed the key.", "Tom sold the hose.", "Mia blamed Leo."]
    windows = scorer._windows(" ".join(facts), facts[0])
    assert " ".join(windows) == " ".join(facts)
    assert len(windows) == 4
    limit = scorer.classifier.max_length
    assert all(scorer.classifier.length(window, facts[0]) <= limit for window in windows)
    assert scorer._windows(facts[0], facts[0]) == [facts[0]]


def test_sentences_beyond_the_limit_are_not_entailed(entailment: str) -> None:
    scorer = EntailmentScorer(entailment)
    scorer._entailed = lambda pairs: dict.fromkeys(pairs, True)
    texts = ("Mia paid Tom. " * MAX_SENTENCES, "Leo fixed the key. " * MAX_SENTENCES)
    (score,) = scorer.score([Submission(source="Mia paid Tom.", texts=texts)])
    assert score["supported"] == pytest.approx(0.5)


def test_a_score_depends_on_no_neighbour(entailment: str) -> None:
    scorer = EntailmentScorer(entailment)
    rows, honest = honest_rows("post", 6)
    batch = [
        Submission(source=row["text"], texts=pair) for row, pair in zip(rows, honest, strict=True)
    ]
    assert scorer.score(batch) == [scorer.score([single])[0] for single in batch]


def test_texts_of_models_never_raise(entailment: str, tmp_path: Path) -> None:
    rating = RewardModelScorer(classifier(tmp_path / "rating", num_labels=1))
    for scorer in (EntailmentScorer(entailment), rating):
        for text in (*JUNK, "x" * 4096, "a. " * 1300, "[SEP] [CLS] [PAD]", "\ud83d"):
            batch = [Submission(source="Mia paid Tom.", texts=(text, "Leo.")) for _ in range(2)]
            for score in scorer.score(batch):
                assert 0 <= sum(score.values()) <= 1


# -- reward ---------------------------------------------------------------------------------------
def classifier(folder: Path, **config: Any) -> str:
    """An untrained BERT over the tokenizer of the trainer's tests."""
    tokenizer = tiny_tokenizer()
    sizes = {"intermediate_size": 64, "max_position_embeddings": 130, "initializer_range": 0.5}
    model = small(BertForSequenceClassification, tokenizer, seed=1, **sizes, **config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def logits(folder: str, first: str, second: str) -> torch.Tensor:
    """What the model itself gives, alone and without padding."""
    tokenizer = tiny_tokenizer()
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**tokenizer(first, second, return_tensors="pt")).logits[0]


def test_a_reward_model_with_one_output(tmp_path: Path) -> None:
    folder = classifier(tmp_path / "one", num_labels=1)
    env = make(TLDR, tasks=[{"text": "A cat sat."}], split="all", reward=f"reward:{folder}")
    texts = ("A cat.", "A cat sat down and slept.")
    rated = [1 / (1 + math.exp(-logits(folder, "A cat sat.", text).item())) for text in texts]
    assert abs(rated[0] - rated[1]) > 0.01
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step(dict(zip(env.seats, texts, strict=True)))
    assert rewards["brief_0"] == pytest.approx(mean(rated), abs=10**-DIGITS)
    assert infos["brief_0"]["reward_terms"] == {"model": rewards["brief_0"]}
    silent = env.score_terms(env.task, ("A cat.", " \n"))
    assert silent["model"] == pytest.approx(rated[0] / 2, abs=10**-DIGITS)
    assert env.score_terms(env.task, ("", "")) == {"model": 0.0}
    open_scorer.cache_clear()


def test_a_reward_model_with_labels(tmp_path: Path) -> None:
    named = {0: "rejected", 1: "Chosen"}
    folder = classifier(tmp_path / "two", id2label=named, label2id={v: k for k, v in named.items()})
    (score,) = RewardModelScorer(folder).score([Submission(source="A b.", texts=("C d.", "C d."))])
    expected = logits(folder, "A b.", "C d.").softmax(-1)[1].item()
    assert score["model"] == pytest.approx(expected, abs=10**-DIGITS)
    unnamed = classifier(tmp_path / "unnamed", num_labels=2)
    with pytest.raises(ValueError, match="one output or one label"):
        RewardModelScorer(unnamed)
    with pytest.raises(ValueError, match="expected one label 'entailment'"):
        EntailmentScorer(unnamed)


def test_a_decoder_pads_with_what_it_has(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    model = small(
        Qwen2ForSequenceClassification,
        tokenizer,
        intermediate_size=64,
        num_key_value_heads=2,
        initializer_range=0.5,
        num_labels=1,
    )
    tokenizer.pad_token = None
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    rater = PairClassifier(str(tmp_path))
    pairs = [("A cat sat.", "A cat."), ("A cat sat on a mat.", "A cat sat down and slept.")]
    alone = torch.cat([rater.logits([pair]) for pair in pairs])
    assert torch.allclose(rater.logits(pairs), alone, atol=1e-4)
    assert abs(alone[0] - alone[1]) > 0.01


def test_what_is_no_classifier_is_refused(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "tiny", settings=TinySettings(steps=1, demonstrations=50))
    for scorer in (RewardModelScorer, EntailmentScorer):
        with pytest.raises(ValueError, match="expected a sequence classifier"):
            scorer(model)
        with pytest.raises(ValueError, match="cannot be loaded"):
            scorer(str(tmp_path / "nothing"))
    bare = Path(classifier(tmp_path / "bare", num_labels=1))
    (bare / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="cannot be loaded"):
        RewardModelScorer(str(bare))


def test_spelled_control_tokens_are_text(entailment: str) -> None:
    reader = PairClassifier(entailment)
    alone = reader.length("mia", "tom")
    assert alone == 5  # with one token before, between and behind
    assert reader.length("mia [SEP]", "tom") > alone + 1  # more than one token of control
    assert reader.labels == list(LABELS)


# -- judge ----------------------------------------------------------------------------------------
@pytest.mark.long
def test_a_served_model_is_a_judge(tmp_path: Path) -> None:
    """Its grades are nonsense, for it is tiny and has learned to program; the path is real."""
    model = tiny_model(tmp_path / "tiny", settings=TinySettings(steps=30, demonstrations=500))
    rows = [{"text": "A cat sat. A dog ran."}, {"text": "A bird sang."}]
    with served(model) as url:
        copies = make_vec(TLDR, 2, tasks=rows, split="all", reward=f"judge:{url}#{model}")
        copies.reset(options=[{"task": 0}, {"task": 1}])
        results = copies.step([dict.fromkeys(copies.envs[0].seats, "A cat.")] * 2)
        copies.close()
    for result in results:
        assert result[1]["brief_0"] == 0.0  # no JSON
        assert result[4]["brief_0"]["reward_terms"] == {"judge": 0.0}
    open_scorer.cache_clear()
