"""What reading texts costs, and that the quick ways of reading give what the plain ways give."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from support.cost import milliseconds

from llm_marl_envs import make
from llm_marl_envs.writing.contradiction import contradicts, read_said
from llm_marl_envs.writing.evidence import Line, _copied, _places
from llm_marl_envs.writing.grounding import grounded_terms
from llm_marl_envs.writing.words import clean, sentences_of, words_of

LONGEST = 4096


def test_one_character_is_at_most_four() -> None:
    for code in range(0x110000):
        assert len(clean(chr(code))) <= 4, hex(code)
    assert clean("\ufdfa and \u3316") == "\u0635 and \u30ad"
    assert len(clean("\ufdfa" * LONGEST)) == LONGEST


def test_marks_that_nobody_sees_are_taken_out() -> None:
    assert clean("e\u0301 a\u00adb \ud800x \u2019") == "\u00e9 ab x '"
    assert clean("a" + "\u0301\u0323" * 1000 + "b") == "\u1ea1\u0301b".replace("\u0301", "")
    assert words_of("caf\u00e9" + "!" * 90 + "\u2014" * 90 + "x") == ["caf\u00e9", "x"]


@pytest.mark.parametrize(
    "text",
    [
        "\ufdfa" * LONGEST,
        "\u3316" * LONGEST,
        "\u0301\u0323" * (LONGEST // 2),
        "\u2028" * (LONGEST - 1) + "a",
        "\n" * (LONGEST - 1) + "a",
    ],
)
def test_a_text_of_odd_characters_costs_no_more_than_others(text: str) -> None:
    """About 1.5; 5 to 80 where each is read as it stands."""
    assert milliseconds(lambda: [words_of(sentence) for sentence in sentences_of(text)]) < 5


@pytest.mark.parametrize("name", ["coop_writing_tldr-v0", "coop_writing_arxiv-v0"])
def test_a_turn_of_odd_characters_costs_little(name: str) -> None:
    env = make(name)
    for text in ("\ufdfa" * LONGEST, "\u2028" * LONGEST):

        def turn(text: str = text) -> None:
            env.reset(seed=0)
            env.step(dict.fromkeys(env.agents, text))

        assert milliseconds(turn, times=3) < 25


def test_scoring_texts_of_usual_length_costs_about_a_millisecond() -> None:
    """A source of 400 words and texts of 230: about 2.5."""
    file = Path(__file__).parent / "honest_pairs.jsonl"
    pairs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    own = " ".join(pair["second"] for pair in pairs if pair["kind"] == "post").split()
    rows = make("coop_writing_tldr-v0", tasks="bundled:writing_posts", split="all").source
    source = " ".join("\n".join(task.data["text"] for task in rows).split()[:400])
    texts = (" ".join(own[:60]), " ".join(own[:170]))
    grounded_terms("post", source, texts)  # the source is read once
    assert milliseconds(lambda: grounded_terms("post", source, texts), times=20) < 8


def plain_copied(line: Line, words: Sequence[str], gap: int, longest: int = 12) -> float:
    """The mean run, the plain way: all pairs of places, tried one after the other."""

    def grown(order: Sequence[str], source: Sequence[str]) -> list[dict[int, int]]:
        found: list[dict[int, int]] = []
        for i, word in enumerate(order):
            here: dict[int, int] = {}
            for place, step in itertools.product(range(len(source)), (1, gap)):
                if source[place] == word and i and place - step in found[-1]:
                    here[place] = max(here.get(place, 0), found[-1][place - step] + 1)
            for place, one in enumerate(source):
                if one == word and word in line.starts and place not in here:
                    led: list[int] = []
                    at = place
                    while len(led) < i:
                        steps = [s for s in (1, gap) if at - s >= 0]
                        fits = [at - s for s in steps if source[at - s] == order[i - 1 - len(led)]]
                        if not fits:
                            break
                        at = fits[0]
                        led.append(at)
                    for back, one_place in enumerate(led):
                        lengths = found[i - 1 - back]
                        lengths[one_place] = max(lengths.get(one_place, 0), len(led) - back)
                    here[place] = 1 + len(led)
            found.append(here)
        return found

    source = line.words[:-2]
    until = grown(words, source)
    turned = grown(words[::-1], source[::-1])[::-1]
    since = [{len(source) - 1 - place: n for place, n in one.items()} for one in turned]
    total = 0
    for up, on in zip(until, since, strict=True):
        runs = [up.get(p, 1) + on.get(p, 1) - 1 for p in {*up, *on}]
        total += min(max(runs, default=0), longest)
    return total / max(len(words), 1)


def test_copied_runs_are_those_of_the_plain_way() -> None:
    rng = Random(0)
    seen = set()
    for _ in range(400):
        letters = "abcdxyz"[: rng.randint(2, 7)]
        source = rng.choices(letters, k=rng.randint(1, 14))
        words = rng.choices(letters, k=rng.randint(0, 12))
        if rng.random() < 0.5:
            words[3:3] = source[rng.randrange(len(source)) :]
        starts = {word: found for word, found in _places(source).items() if word < "x"}
        line = Line((*source, "", ""), starts)
        for gap in (1, 2):
            value = _copied(line, words, gap)
            assert value == plain_copied(line, words, gap)
            seen.add(value)
    assert len(seen) > 100


def test_a_sentence_without_negation_can_turn_a_negated_one() -> None:
    said = read_said([["the", "neighbour", "never", "watered", "the", "roses"]])
    assert said.negated == {"water"}
    assert contradicts(said, ["the", "neighbour", "watered", "the", "roses"])
    assert not contradicts(said, ["the", "neighbour", "never", "watered", "the", "roses"])
    stated = read_said([["the", "neighbour", "watered", "the", "roses"]])
    assert stated.negated == frozenset()
    assert contradicts(stated, ["the", "neighbour", "never", "watered", "the", "roses"])


def plain_sentences(text: str) -> list[str]:
    """Pieces between the ends, the plain way, line ends one by one."""
    pieces = [""]
    plain = clean(text)
    for i, character in enumerate(plain):
        pieces[-1] += character
        rest = plain[i + 1 :]
        point = character in ".!?" and (not rest or rest[0].isspace() or rest[0] in "\"')]")
        name = character == "." and i > 0 and (plain[i - 1].isalnum() or plain[i - 1] == "_")
        name = name and len(rest) > 1 and "A" <= rest[0] <= "Z" and "a" <= rest[1] <= "z"
        if point or name or character in ";\n\r\u2028\u2029":
            pieces.append("")
    return [piece.strip() for piece in pieces if words_of(piece)]


def test_sentences_are_those_of_the_plain_way() -> None:
    rng = Random(1)
    parts = ["a", "Bc", "3.5", ".", "?", "!", ";", " ", "\n", "\r", "\u2028", "\u2026", '"', "\t"]
    for _ in range(3000):
        text = "".join(rng.choices(parts, k=rng.randint(0, 14)))
        assert sentences_of(text) == plain_sentences(text), repr(text)
