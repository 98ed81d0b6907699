"""What follows what in English: the table, and what it says of English and of shuffled words."""

from __future__ import annotations

import json
import math
import runpy
from importlib import resources
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from llm_marl_envs.writing.order import (
    DOUBT,
    END,
    LOOSE,
    SLOTS,
    START,
    TABLE,
    class_of,
    order,
    read_table,
    slot,
    tight,
)
from llm_marl_envs.writing.words import sentences_of, words_of


def test_classes_of_words() -> None:
    classes = [class_of(word) for word in ("the", "31", "took", "sorting", "boats", "up", "xyz")]
    assert classes == ["the", "#", "~ed", "~ing", "~s", "up", "~"]
    assert class_of("red") == "~"  # an ending leaves at least three letters
    assert class_of("reed") == "~d"


def test_slots_and_loose_words() -> None:
    assert slot("my") == slot("the") != slot("he")
    assert slot("sewing") == slot("sewed") == "sew"
    assert tight(["he", "also", "sews", "very", "badly"]) == ["he", "sews", "badly"]
    words = [word for group in SLOTS.values() for word in group]
    assert len(words) == len(set(words))
    assert not LOOSE & {"not", "never", "and", "because", "the", "no"}


def test_a_table_by_hand() -> None:
    table = read_table(["a\t10\t4\tb 6 a 3", "b\t10\t16\ta 4 b 5"])
    assert table.pairs == {("a", "b"): 6, ("a", "a"): 3, ("b", "a"): 4, ("b", "b"): 5}
    assert table.before == {"a": 10, "b": 10}
    assert table.after == {"a": 4 / 20, "b": 16 / 20}


def test_worth_of_a_pair_by_hand() -> None:
    """474817 pairs in all: 21545 begin with "of", 40205 end with "the", 7304 are "of the"."""
    chance = 21545 * 40205 / 474817
    assert order("of", "the") == pytest.approx(math.log((7304 + DOUBT) / (chance + DOUBT)))
    assert order("of", "and") < -2
    assert order("\u0436\u0443\u043a", "\u0436\u0443\u043a") == order("zzzz", "zzzz")


def texts() -> list[str]:
    found = []
    for name, key in (("writing_posts", "post"), ("writing_abstracts", "abstract")):
        file = resources.files("llm_marl_envs") / "data" / f"{name}.jsonl"
        found += [json.loads(line)[key] for line in file.read_text("utf-8").splitlines()]
    return found


def worth(sentences: list[list[str]]) -> float:
    pairs = [
        pair for words in sentences for pair in zip([START, *words], [*words, END], strict=True)
    ]
    return mean(order(left, right) for left, right in pairs)


def test_english_above_zero_and_shuffled_words_below() -> None:
    rng = Random(0)
    for text in texts():
        sentences = [tight(words_of(sentence)) for sentence in sentences_of(text)]
        shuffled = [rng.sample(words, len(words)) for words in sentences]
        assert worth(sentences) > 0.0 > worth(shuffled), text


def test_how_the_table_is_made(tmp_path: Path) -> None:
    script = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "word_order.py"))
    text = (
        "A HEADLINE\n\n" + "The boat of the man is old. The boat also sank there in the sea. " * 2
    )
    pairs = script["counted"](text)
    assert pairs[START, "the"] == 4
    assert pairs["the", "~t"] == 4  # boat
    assert pairs["~t", "~"] == 2  # boat (also) sank
    assert ("~t", "also") not in pairs
    lines = script["table"](pairs).splitlines()
    row = next(line for line in lines if line.startswith("the\t"))
    # the boat, man, boat, sea, twice each; after a start twice each, of, in.
    assert row.split("\t")[:3] == ["the", "8", "8"]
    assert read_table(lines).pairs["the", "~t"] == 4
    file = resources.files("llm_marl_envs") / "data" / TABLE
    assert all(len(line.split("\t")) == 4 for line in file.read_text("utf-8").splitlines())
