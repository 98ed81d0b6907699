"""Where writing tasks come from: generated documents, bundled texts, rows of other datasets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.tasks import SPLITS, bundled_rows
from llm_marl_envs.envs.writing.divisions import PLANS, plans
from llm_marl_envs.envs.writing.documents import KINDS, document_of, identity
from llm_marl_envs.envs.writing.generate import SIZES, document_at, split_of
from llm_marl_envs.envs.writing.source import procedural_source, task_of_row
from llm_marl_envs.play.demonstrations import demonstrations

IDS = {"post": "coop_writing_tldr-v0", "abstract": "coop_writing_arxiv-v0"}
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.full
# -- generated ------------------------------------------------------------------------------------
@each_kind
def test_splits_are_disjoint_by_what_documents_say(kind: Any) -> None:
    found = {
        split: {identity(document_at(kind, 0, split, i)) for i in range(SIZES[split])}
        for split in SPLITS
    }
    for one in SPLITS:
        assert len(found[one]) >= SIZES[one] - 2  # repeats within a split are all but unknown
        for other in SPLITS:
            assert one == other or not found[one] & found[other]
    for split in ("train", "val", "test"):
        assert all(split_of(document_at(kind, 0, split, i)) == split for i in range(50))


@each_kind
def test_ood_documents_have_other_actors_and_more_facts(kind: Any) -> None:
    facts = {"post": {"train": 12, "ood": 18}, "abstract": {"train": 6, "ood": 12}}[kind]
    actors: dict[str, set[str]] = {}
    for split in ("train", "ood"):
        documents = [document_at(kind, 0, split, i) for i in range(200)]
        actors[split] = {fact.subject for d in documents for fact in d.facts}
        assert {len(document.facts) for document in documents} == {facts[split]}
    assert not actors["train"] & actors["ood"]


@each_kind
@pytest.mark.parametrize("split", ["train", "ood"])
def test_documents_are_sound(kind: Any, split: str) -> None:
    for index in range(500):
        document = document_at(kind, 0, split, index)
        assert document == document_at(kind, 0, split, index)
        assert document != document_at(kind, 1, split, index)
        facts = [(f.subject, f.relation, f.object) for f in document.facts]
        assert len(set(facts)) == len(facts)
        # Swapped roles are never a fact too, or a swapped text could be right.
        assert not {(o, r, s) for s, r, o in facts} & set(facts)
        assert plans(document)
        assert len({section.label for section in document.sections}) == 6


@each_kind
def test_every_plan_is_possible_about_as_often(kind: Any) -> None:
    counts = dict.fromkeys(PLANS[kind, 2], 0)
    alone = dict.fromkeys(PLANS[kind, 2], 0)
    for index in range(500):
        possible = plans(document_at(kind, 0, "train", index))
        for name in possible:
            counts[name] += 1
            alone[name] += len(possible) == 1
    assert min(counts.values()) >= 350
    assert min(alone.values()) >= 5


def test_knowledge_is_divided() -> None:
    for index in range(50):
        post = document_at("post", 0, "train", index)
        assert all(not set(s.told[0]) & set(s.told[1]) for s in post.sections)
        abstract = document_at("abstract", 0, "train", index)
        assert [bool(abstract.sections[0].told[seat]) for seat in (0, 1)] == [True, False]
        assert [bool(abstract.sections[5].told[seat]) for seat in (0, 1)] == [False, True]
        for section in abstract.sections:
            assert not all(section.told) or section.told[0] == section.told[1]


@each_kind
def test_ids_name_tasks(kind: Any) -> None:
    source = procedural_source(kind, "val", 2)
    assert source is procedural_source(kind, "val", 2)
    assert source.find("val/7") is source[7]
    assert document_of(json.loads(json.dumps(dict(source[7].data)))) == document_of(source[7].data)
    for wrong in ("val/100000", "train/7", "val/-1", "7", "val/x", "val/\u00b2"):
        with pytest.raises(ValueError, match="val/0"):
            source.find(wrong)
    with pytest.raises(IndexError):
        source[len(source)]


# -- bundled --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "kind", "references"),
    [
        ("writing_posts", "post", ("brief", "detailed")),
        ("writing_abstracts", "abstract", ("background", "method")),
    ],
)
def test_bundled_texts(name: str, kind: str, references: tuple[str, str]) -> None:
    rows = bundled_rows(name)
    assert len(rows) >= 40
    for number, row in enumerate(rows):
        assert row["task_id"] == f"{kind}/{number}"
        assert 60 <= len(row[kind].split()) <= 150
        known = {"task_id", kind} | ({"summary"} if kind == "post" else set())
        assert set(row) in (known, known | {*references})
    openings = {row[kind].split(".")[0] for row in rows}
    assert len(openings) == len(rows)
    env: Any = make(IDS[kind], tasks=f"bundled:{name}", split="all", reward="paper")
    assert env.info_mode == "full"
    with_references = [task for task in env.source if experts_of(env).conventions(task)]
    assert len(with_references) == 8
    assert len(demonstrations(env, 5, 0)) == 5
    train: Any = make(IDS[kind], tasks=f"bundled:{name}", split="train", reward="paper")
    assert 20 <= len(train.source) <= 35


def test_rows_without_references_have_no_experts() -> None:
    env: Any = make(IDS["post"], tasks=[{"post": "We sold a boat."}], split="all", reward="paper")
    assert experts_of(env).conventions(env.source[0]) == ()
    with pytest.raises(ValueError, match="none of these rows"):
        demonstrations(env, 1, 0)


# -- rows of other datasets -----------------------------------------------------------------------
REDDIT = (
    "SUBREDDIT: r/advice\n\nTITLE: My bike\n\nPOST: I sold my bike to a friend. "
    "He wants the money back.\n\nTL;DR:"
)


def test_rows_of_trl_tldr() -> None:
    task = task_of_row("post", {"prompt": REDDIT, "completion": " Friend wants money back."})
    assert task.data["text"].startswith("SUBREDDIT: r/advice")
    assert task.data["text"].endswith("He wants the money back.")
    assert task.data["summary"] == "Friend wants money back."  # for reward="reference"
    assert task.id == task_of_row("post", {"prompt": REDDIT}).id


def test_rows_of_arxiv_abstracts() -> None:
    row = {"article_id": "0704.0001", "abstract_text": "We count things.", "token_count": 3}
    task = task_of_row("abstract", row)
    assert (task.id, task.data["text"]) == ("0704.0001", "We count things.")
    again = task_of_row("abstract", {**row, "article_id": "other"})
    assert again.split == task.split  # the same text falls into one split


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": ""}, "no source text"),
        ({"prompt": 7}, "no source text"),
        ({"abstract": "x"}, "no source text"),
        ({"post": "x", "brief": 3}, "expected texts"),
        ({"post": "x", "split": "dev"}, "dev"),
    ],
)
def test_unusable_rows(row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task_of_row("post", row)


def test_jsonl_files(tmp_path: Path) -> None:
    path = tmp_path / "posts.jsonl"
    path.write_text(json.dumps({"prompt": REDDIT, "split": "val"}) + "\n", encoding="utf-8")
    env: Any = make(IDS["post"], tasks=path, split="val", reward="paper")
    observations, _ = env.reset(seed=0)
    assert "I sold my bike to a friend." in observations["brief_0"]
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="row 1"):
        make(IDS["post"], tasks=str(path), split="val", reward="paper")


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("post", {"prompt": REDDIT, "completion": " A secret."}),
        ("abstract", {"article_id": "1", "abstract_text": "We count.", "token_count": 2}),
    ],
)
def test_hub_datasets_of_the_same_schema(kind: str, row: dict[str, Any], tmp_path: Path) -> None:
    """A local folder, as `datasets` loads it, with the columns of the two Hub datasets."""
    datasets = pytest.importorskip("datasets")
    del datasets
    for split in ("train", "test"):
        text = json.dumps({key: f"{value} {split}" for key, value in row.items()})
        (tmp_path / f"{split}.jsonl").write_text(text + "\n", encoding="utf-8")
    env: Any = make(IDS[kind], tasks=f"hub:{tmp_path}", split="test", reward="paper")
    assert len(env.source) == 1
    observations, _ = env.reset(seed=0)
    for seen in observations.values():
        assert "secret" not in seen
        assert "test" in seen


def test_hub_needs_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"llm-marl-envs\[eval\]"):
        make(IDS["post"], tasks="hub:trl-lib/tldr")
