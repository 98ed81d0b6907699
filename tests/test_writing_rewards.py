"""The numbers of both rewards, worked by hand: corners of every slope, the terms of small cases."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from llm_marl_envs.writing import evidence, factual, grounding
from llm_marl_envs.writing.documents import Document, Fact, Section
from llm_marl_envs.writing.factual import account, grounded_terms, ramp, word_budget
from llm_marl_envs.writing.order import END, order
from llm_marl_envs.writing.paper import NUMBERS, paper_terms, transitions, trapezoid


# -- the paper's reward ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "term", "corners"),
    [
        ("post", "length", {1.09: None, 1.1: 0, 1.35: 0.5, 1.6: 1, 3.2: 1}),
        ("post", "length", {4.1: 0.5, 5.0: 0, 5.01: None}),
        ("abstract", "length", {0.79: None, 0.8: 0, 0.9: 0.5, 1.0: 1, 1.3: 1}),
        ("abstract", "length", {1.4: 0.5, 1.5: 0, 1.51: None}),
        ("post", "vocabulary", {1.29: None, 1.3: 0, 1.65: 0.5, 2.0: 1, 99.0: 1}),
        ("abstract", "vocabulary", {0.49: None, 0.5: 0, 0.6: 0.5, 0.7: 1, 1.3: 1}),
        ("abstract", "vocabulary", {1.5: 0.5, 1.7: 0, 1.71: None}),
    ],
)
def test_slopes_of_the_paper(kind: str, term: str, corners: dict[float, float | None]) -> None:
    for x, y in corners.items():
        found = trapezoid(x, getattr(NUMBERS[kind], term))  # type: ignore[index]
        assert found == (None if y is None else pytest.approx(y))


def test_numbers_of_the_paper() -> None:
    assert [NUMBERS[kind].words for kind in ("post", "abstract")] == [(8, 256), (128, 256)]
    assert [NUMBERS[kind].cap for kind in ("post", "abstract")] == [0.03, 0.23]
    assert [NUMBERS[kind].transitions for kind in ("post", "abstract")] == [0.6, 0.4]
    assert [NUMBERS[kind].both for kind in ("post", "abstract")] == [False, True]


def test_transitions_grow_with_the_logarithm() -> None:
    assert transitions(0, 0.6) == 0.0
    assert transitions(1, 0.6) == pytest.approx(0.6 * 0.693147, abs=1e-6)
    assert transitions(4, 0.6) == pytest.approx(0.965663, abs=1e-6)
    assert transitions(5, 0.6) == 1.0
    assert transitions(11, 0.4) == pytest.approx(0.993963, abs=1e-6)
    assert transitions(12, 0.4) == 1.0
    assert math.isinf(NUMBERS["post"].vocabulary[3])


def made_up(n: int, start: int = 0) -> list[str]:
    """`n` different words of five letters."""
    return ["q" + "".join("bcdfghjklm"[int(d)] for d in f"{i:04}") for i in range(start, start + n)]


def test_a_tldr_pair_by_hand() -> None:
    first = " ".join(made_up(10))  # 10 * 5 + 9 = 59 characters
    second = " ".join([*made_up(1), *made_up(19, 100)])  # 119 characters: ratio 2.02
    # One shared word of 29: 0.0345 is over the cap of 0.03, so J = 1; no transition.
    assert paper_terms("post", (first, second)) == pytest.approx(
        {"structure": 0.5, "length": 1.0, "vocabulary": 0.5, "style": 0.6}
    )
    # "also" is one category, and not "so" too: 0.4 * 0.6 * ln 2 more. 124 characters.
    with_also = paper_terms("post", (first, f"also {second}"))
    assert with_also["style"] == pytest.approx(0.6 + 0.4 * 0.6 * math.log(2))
    # The first text's transitions do not count in TLDR.
    assert paper_terms("post", (f"also {first}", second))["style"] == pytest.approx(0.6)


def test_the_papers_gates() -> None:
    first, second = " ".join(made_up(10)), " ".join(made_up(20, 50))
    zero = {"structure": 0.0, "length": 0.0, "vocabulary": 0.0, "style": 0.0}
    assert paper_terms("post", (" ".join(made_up(7)), second)) == zero
    assert paper_terms("post", (first, " ".join(made_up(257)))) == zero
    assert paper_terms("post", (" ".join(made_up(8)), " ".join(made_up(256))))["structure"] == 0.5
    # Equal lengths: the ratio 1.0 is below 1.1, which stops everything after the structure.
    assert paper_terms("post", (first, first)) == {**zero, "structure": 0.5}
    # The same ten words twice: long enough, but vocabulary 1.0 is below 1.3.
    assert paper_terms("post", (first, f"{first} {first}")) == {
        **zero, "structure": 0.5, "length": 1.0,
    }  # fmt: skip
    # Stop words count for the structure and not for the vocabulary.
    assert paper_terms("post", ("the " * 8, "of " * 20)) == {
        **zero,
        "structure": 0.5,
        "length": 1.0,
    }
    assert paper_terms("post", ("", "")) == zero


def test_an_arxiv_pair_by_hand() -> None:
    short = " ".join(made_up(127))
    first = " ".join(made_up(128))  # 767 characters
    second = " ".join([*made_up(64), *made_up(86, 1000)])  # 150 words, 899: ratio 1.17
    assert paper_terms("abstract", (short, second))["structure"] == 0.0
    # 64 of 214 words are shared: 0.299, over the cap of 0.23. Vocabulary 150 / 128 = 1.17.
    assert paper_terms("abstract", (first, second)) == pytest.approx(
        {"structure": 0.5, "length": 1.0, "vocabulary": 0.5, "style": 0.6}
    )
    # Half of the cap: 23 of 255 words are 0.0902, of 0.23 0.392.
    half = " ".join([*made_up(23), *made_up(127, 1000)])
    assert paper_terms("abstract", (first, half))["style"] == pytest.approx(0.6 * (23 / 255) / 0.23)
    both = paper_terms("abstract", (f"however {first}", f"therefore {second}"))
    assert both["style"] == pytest.approx(0.6 + 0.4 * 0.4 * math.log(3))


def test_the_papers_reward_never_looks_at_the_source() -> None:
    """Why it is not the default: made-up words and five transitions earn all of it."""
    first = " ".join(made_up(10))
    second = " ".join([*made_up(1), *made_up(19, 100)])
    second += " also however first overall meanwhile"
    assert sum(paper_terms("post", (first, second)).values()) == pytest.approx(3.0)


# -- grounded, facts known ------------------------------------------------------------------------
def fact(text: str) -> Fact:
    subject, relation, thing = text.removeprefix("!").split()
    return Fact(subject, relation, thing, not text.startswith("!"))


POST = Document(
    "post",
    tuple(
        Section(label, ((fact(gist),), (fact(detail),)), open=label != "band")
        for label, gist, detail in (
            ("rent", "mia pay tom", "leo fix key"),
            ("kitchen", "!tom feed leo", "mia sell pan"),
            ("garden", "leo help mia", "!tom fix hose"),
            ("car", "mia follow leo", "tom sell map"),
            ("office", "tom blame mia", "leo sell desk"),
            ("band", "leo join tom", "mia fix amp"),
        )
    ),
)
BRIEF = "Mia paid Tom.\nTom did not feed Leo.\nLeo helped Mia.\n"
DETAILED = "Leo fixed the key.\nMia sold the pan.\nTom did not fix the hose.\n"
OTHERS = "Tom sold the map. Leo sold the desk."


@pytest.mark.parametrize(
    ("brief", "detailed", "terms"),
    [
        (BRIEF, DETAILED, {"supported": 1.0}),
        # Two topics are in the brief alone, two in the details alone: four quarters of a topic.
        (BRIEF, f"Leo fixed the key. {OTHERS}", {"supported": 1 / 3, "together": -1 / 3}),
        (BRIEF, OTHERS, {"supported": 0.0}),
        (BRIEF, "Leo fixed the key.", {"supported": 1 / 3, "together": -2 / 12}),
        (
            BRIEF,
            "Leo fixed the key. Mia sold the pan. Tom sold the map.",
            {
                "supported": 2 / 3,
                "together": -2 / 12,
            },
        ),
        # One false statement costs a third, as much as a topic is worth; so does a repeat.
        (BRIEF, DETAILED + "Mia fixed the hose.", {"supported": 1.0, "contradicted": -1 / 3}),
        (BRIEF + "Mia paid Tom.", DETAILED, {"supported": 1.0, "contradicted": -1 / 3}),
        # Negated: one topic is lost and one statement false.
        (
            BRIEF.replace("Mia paid", "Mia did not pay"),
            DETAILED,
            {"supported": 2 / 3, "contradicted": -1 / 3, "together": -1 / 12},
        ),
        # Roles swapped: no topic, three false statements, no less than nothing.
        ("Tom paid Mia. Leo did not feed Tom. Mia helped Leo.", DETAILED, {"supported": 0.0}),
        # A topic that the outline leaves out is not worth anything.
        (
            "Mia paid Tom. Leo joined Tom.",
            "Leo fixed the key. Mia fixed the amp.",
            {"supported": 1 / 3},
        ),
        # Four topics each: all of them count, at most all is paid, and each text is one over the
        # quota of three: (2/3) * (2/3).
        (
            BRIEF + "Mia followed Leo.",
            DETAILED + "Tom sold the map.",
            {"supported": 1.0, "form": -5 / 9},
        ),
        (
            BRIEF + "Mia followed Leo. Tom blamed Mia. Leo joined Tom.",
            DETAILED,
            {"supported": 1.0, "together": -3 / 12, "form": -9 / 12},
        ),
        ("", DETAILED, {"supported": 0.0}),
        # Nobody can tell what an unknown word does to the rest.
        (BRIEF + "None of this is true.", DETAILED, {"supported": 1.0, "form": -1.0}),
        (BRIEF, "Here are the details. " + DETAILED, {"supported": 1.0, "form": -1.0}),
        (
            BRIEF.replace("Mia paid", "They say Mia paid"),
            DETAILED,
            {"supported": 2 / 3, "together": -1 / 12, "form": -7 / 12},
        ),
    ],
)
def test_posts_by_hand(brief: str, detailed: str, terms: dict[str, float]) -> None:
    zero = {"supported": 0.0, "contradicted": 0.0, "together": 0.0, "form": 0.0}
    assert grounded_terms(POST, (brief, detailed)) == pytest.approx({**zero, **terms})


def test_word_budgets_of_posts() -> None:
    assert word_budget(POST, 0) == 36  # three topics, a gist each
    assert word_budget(POST, 1) == 72  # three topics, gist and detail each
    long = "Mia paid Tom{}. Tom did not feed Leo. Leo helped Mia."  # 11 words
    for more, form in ((25, 1.0), (43, 0.5), (61, 0.0), (200, 0.0)):
        text = long.format(" then" * more)
        assert account(POST, 0, text).form == pytest.approx(form)
        assert len(account(POST, 0, text).true) == 3


def test_words_that_state_nothing() -> None:
    # 3 of n words stand in a sentence that states something.
    for filler, form in ((1, 1.0), (3, 0.5), (6, 0.0)):
        text = "Mia paid Tom. " + "then " * filler
        expected = ramp(3 / (3 + filler), 0.35, 0.65)
        assert expected == pytest.approx(form, abs=1e-9)
        assert account(POST, 0, text).form == pytest.approx(form)


def test_verbs_that_state_nothing() -> None:
    # One verb of n has a subject and an object.
    for broken, form in ((0, 1.0), (1, 0.5), (3, 0.0)):
        text = "Mia paid Tom and then and also and later" + " and paid" * broken
        assert account(POST, 0, text).form == pytest.approx(form)


ABSTRACT = Document(
    "abstract",
    tuple(
        Section(label, ((fact(text),) * (seat != 1), (fact(text),) * (seat != 0)))
        for label, text, seat in (
            ("problem", "encoder slow parser", 0),
            ("gap", "parser ignore noise", 2),
            ("data", "!sampler need drift", 2),
            ("model", "sampler reduce noise", 2),
            ("result", "encoder improve sampler", 2),
            ("use", "parser support encoder", 1),
        )
    ),
)
BACKGROUND = (
    "The encoder slows the parser. The parser ignores noise. The sampler does not need drift."
)
METHOD = (
    "The sampler reduces noise. The encoder improves the sampler. The parser supports the encoder."
)


@pytest.mark.parametrize(
    ("background", "method", "terms"),
    [
        (BACKGROUND, METHOD, {"supported": 1.0}),
        # Five of six facts, one of the five in both texts.
        (
            BACKGROUND,
            METHOD.replace("sampler reduces noise", "parser ignores noise"),
            {"supported": 5 / 6, "together": -5 / 6 / 5},
        ),
        # The same text twice: three of six facts, all of them duplicated.
        (BACKGROUND, BACKGROUND, {"supported": 0.5, "together": -0.5}),
        (
            BACKGROUND.replace("does not need", "needs"),
            METHOD,
            {"supported": 5 / 6, "contradicted": -1 / 6},
        ),
        (
            METHOD.replace("encoder improves the sampler", "sampler improves the encoder"),
            BACKGROUND,
            {"supported": 5 / 6, "contradicted": -1 / 6},
        ),
        # Four facts are one over the quota of three: a third of the form is lost.
        (
            f"{BACKGROUND} The sampler reduces noise.",
            METHOD.replace("The sampler reduces noise. ", ""),
            {"supported": 1.0, "form": -1 / 3},
        ),
        (BACKGROUND, "", {"supported": 0.5, "form": -0.5}),
        ("", "", {}),
    ],
)
def test_abstracts_by_hand(background: str, method: str, terms: dict[str, float]) -> None:
    zero = {"supported": 0.0, "contradicted": 0.0, "together": 0.0, "form": 0.0}
    assert grounded_terms(ABSTRACT, (background, method)) == pytest.approx({**zero, **terms})


def test_ramps() -> None:
    assert [ramp(x, 0.2, 0.5) for x in (0.1, 0.2, 0.5, 9.0)] == [0.0, 0.0, 1.0, 1.0]
    assert ramp(0.35, 0.2, 0.5) == pytest.approx(0.5)
    assert [ramp(x, 4, 2) for x in (1, 2, 3, 4, 5)] == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert factual.WORDS_PER_FACT == 12


# -- grounded, texts from outside -----------------------------------------------------------------
SOURCE = (
    "Nora sold her boat to Viktor. The boat did not float. "
    "Viktor wants 300 euros back, and Nora refuses to talk."
)


def weigh(text: str) -> evidence.Evidence:
    return evidence.weigh(evidence.read_source(SOURCE), text)


def test_evidence_by_hand() -> None:
    # Content words of the source: nora sell boat viktor boat float viktor want 300 euro back nora
    # refuse talk.
    one = weigh("Viktor wants his money back")  # viktor want money back; "his" is grammar
    assert one.grounded == pytest.approx(3 / 4)
    assert one.function_words == pytest.approx(1 / 5)
    assert one.words == 5
    assert one.length == pytest.approx(5 / 21)
    assert one.content == {"viktor", "want", "back"}
    assert weigh("Nora talked to Ingrid on 14 June").foreign == 3  # Ingrid, 14, June
    assert weigh("Nora \u0442\u0430lked").foreign == 1  # Cyrillic letters
    assert weigh("however and but so float").connectives == pytest.approx(4 / 5)
    # boat-talk are 9 content words apart at the least, nora-boat 2; nora-sold is the source's own.
    one = weigh("Nora boat talk. Nora sold")
    assert (one.near, one.pairs) == (1, 2)
    # boat-sold, viktor-boat and float-boat are inverted, of which two are forgiven.
    assert weigh("boat sold, Viktor boat, float boat").inverted == 1 / 5
    assert weigh("boat sold, Viktor boat").inverted == 0.0
    assert weigh("boat sank, boat sank, boat sank, boat sank").distinct == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("the boat did not sink", 4 * 4 / 5),  # four copied words, each in a run of four
        ("a boat does not sink", 4 * 4 / 5),  # a word of the same slot is the same
        ("the boat did also not sink", 4 * 4 / 5),  # "also" is loose: as if it were not there
        ("the boat not float", 4.0),  # one word of the source left out
        ("the boat float", (2 + 2 + 1) / 3),  # two left out: two runs
        ("sink float", 1 / 2),
        ("", 0.0),
        (SOURCE, 12.0),  # more counts no more
    ],
)
def test_length_of_copied_runs(text: str, length: float) -> None:
    assert weigh(text).copied == pytest.approx(length)


def test_length_of_copied_content() -> None:
    # nora sell boat viktor boat, whatever stands between them; then sink.
    text = "Nora also sold a boat to her Viktor; boat sinks"
    assert weigh(text).content_copied == pytest.approx(5 * 5 / 6)
    assert weigh("Nora sold. Viktor wants euros back").content_copied == pytest.approx(
        (2 * 2 + 2 * 2 + 2 * 2) / 6  # nora sell, viktor want, euro back; 300 is missing
    )


def test_what_an_author_added() -> None:
    assert weigh(SOURCE).own == 0.0  # nothing
    # Own are viktor-sold and boat-end: a sentence of the source begins with Viktor, it has "the
    # boat", and "sold her", whose slots are those of "sold the".
    own = order("viktor", "sold") + order("boat", END)
    worth = (2 * evidence.JOINED + own) / 4
    assert weigh("Viktor sold the boat").own == pytest.approx(worth)
    # A loose word joins nothing. It is a word, though.
    assert weigh("Viktor just sold the boat").own == pytest.approx(worth * 4 / 5)
    # "sold her" is "sold his": a word of the same slot.
    assert weigh("Nora sold his boat to Viktor").own == 0.0


@pytest.mark.parametrize(
    ("text", "sentences", "wrong"),
    [
        ("Nora sold the boat.", 1, 0),
        ("Viktor sold the boat to Nora.", 1, 1),
        ("The boat was sold by Nora to Viktor.", 1, 0),
        ("The boat floated.", 1, 1),
        ("The boat did not float.", 1, 0),
        ("Viktor does not want euros.", 1, 1),
        ("Ingrid does not want to swim.", 1, 0),  # somebody else wants something else
        ("Viktor wants euros. Nora never sold a boat.", 2, 1),
        ("During a boat sold Nora to Viktor.", 1, 0),  # no boat sells: a preposition governs it
    ],
)
def test_contradictions_that_can_be_seen(text: str, sentences: int, wrong: int) -> None:
    one = weigh(text)
    assert (one.sentences, one.contradicted) == (sentences, wrong)


@pytest.mark.parametrize(
    ("source", "text", "wrong"),
    [
        ("My friends ate the cake with me.", "I ate the cake with my friends.", 0),
        ("My friends ate the cake.", "The cake ate my friends.", 1),
        ("Silent cases remain dangerous.", "The dangerous cases, which are silent, count.", 0),
        ("He says it was a bargain.", "He calls it a bargain and says he likes it.", 0),
        ("He keeps the twins for two hours.", "The twins stay five hours with him.", 0),
    ],
)
def test_order_that_means_nothing(source: str, text: str, wrong: int) -> None:
    assert evidence.weigh(evidence.read_source(source), text).contradicted == wrong


def text_with(**changes: Any) -> evidence.Evidence:
    """The evidence of a flawless text, apart from `changes`."""
    flawless = evidence.Evidence(
        words=20,
        length=0.0,
        grounded=1.0,
        foreign=0,
        pairs=7,
        near=7,
        inverted=0.0,
        copied=3.0,
        content_copied=2.0,
        own=0.1,
        connectives=0.0,
        function_words=0.5,
        distinct=1.0,
        sentences=2,
        contradicted=0,
        content=frozenset({"a"}),
    )
    return replace(flawless, **changes)


@pytest.mark.parametrize(
    ("name", "corners"),
    [
        ("grounded", {0.3: 0, 0.4: 0.5, 0.5: 1}),
        ("foreign", {0: 1, 1: 2 / 3, 3: 0, 9: 0}),
        ("inverted", {0.08: 1, 0.12: 0.5, 0.16: 0}),
    ],
)
def test_slopes_of_support(name: str, corners: dict[float, float]) -> None:
    for x, y in corners.items():
        assert grounding.supported(text_with(**{name: x})) == pytest.approx(y)


@pytest.mark.parametrize(
    ("near", "pairs", "factor"),
    [
        (0, 0, 1.0),  # the three pairs that are granted
        (4, 7, 1.0),  # (4 + 3) / (7 + 3) = 0.7
        (3, 7, 0.5),  # 0.6
        (2, 7, 0.0),  # 0.5
    ],
)
def test_slope_of_nearness(near: int, pairs: int, factor: float) -> None:
    first, second = text_with(near=0, pairs=0), text_with(near=near, pairs=pairs)
    assert grounding.near(first, second) == pytest.approx(factor)
    assert grounding.near(second, first) == pytest.approx(factor)


def test_slope_of_contradictions() -> None:
    # Of twenty sentences none, three, six: the factor is 1, 0.5, 0.
    for wrong, factor in ((0, 1.0), (3, 0.5), (6, 0.0), (9, 0.0)):
        first = text_with(sentences=10, contradicted=wrong)
        second = text_with(sentences=10, contradicted=0)
        assert grounding.unspoilt(first, second) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("first", "second", "factor"),
    [
        (0.035, 0.035, 1.0),
        (0.025, 0.025, 0.5),
        (0.015, 0.015, 0.0),
        (0.0, 0.0, 0.0),  # copies
        (-0.07, 0.2, 1.0),  # a few odd joins of one author; both together 0.065
        (-0.095, 0.2, 0.5),
        (0.2, -0.12, 0.0),
        (-0.05, 0.1, 0.5),  # together 0.025
    ],
)
def test_slopes_of_order(first: float, second: float, factor: float) -> None:
    texts = text_with(own=first), text_with(own=second)  # of twenty words each
    assert grounding.in_order(*texts) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("name", "corners"),
    [
        ("words", {4: 0, 6: 0.5, 8: 1}),
        ("length", {0.4: 1, 0.575: 0.5, 0.75: 0}),
        ("connectives", {0.18: 1, 0.23: 0.5, 0.28: 0}),
        ("function_words", {0.1: 0, 0.16: 0.5, 0.22: 1, 0.7: 1, 0.775: 0.5, 0.85: 0}),
        ("distinct", {0.6: 0, 0.725: 0.5, 0.85: 1}),
    ],
)
def test_slopes_of_form(name: str, corners: dict[float, float]) -> None:
    for x, y in corners.items():
        found = grounding.form(text_with(**{name: x}), grounding.LENGTHS["post"][0])
        assert found == pytest.approx(y)


@pytest.mark.parametrize(
    ("name", "corners"),
    [("copied", {8.0: 1, 9.25: 0.5, 10.5: 0}), ("content_copied", {8.5: 1, 9.5: 0.5, 10.5: 0})],
)
def test_slopes_of_copying(name: str, corners: dict[float, float]) -> None:
    for x, y in corners.items():
        assert grounding.own_words(text_with(**{name: x})) == pytest.approx(y)


def test_the_page_of_the_numbers_is_right() -> None:
    """Every ramp of `grounding.py` has a row with its two numbers in the module's tables."""
    source = inspect.getsource(grounding)
    ramps = re.findall(r"ramp\((?:[^(),]|\([^()]*\))+, (-?[\d.]+), (-?[\d.]+)\)", source)
    assert len(ramps) == 20
    rows = [row.split("|") for row in str(grounding.__doc__).splitlines() if row.startswith("| ")]
    cells = [[{float(n) for n in re.findall(r"-?\d[\d.]*", cell)} for cell in row] for row in rows]
    for zero, full in ramps:
        ends = ({float(full)}, {float(zero)})
        spelt = [row for row in cells if len(row) > 3 and ends[1] <= row[3]]
        assert any(ends[0] <= row[2] or float(full) == 0.0 for row in spelt), (zero, full)


def test_what_two_texts_owe_each_other() -> None:
    source = evidence.read_source("Red fox. Blue owl. Green toad. White hen.")
    first = text_with(words=10, content=frozenset({"red", "fox"}))

    def together(kind: Any, words: int, *content: str) -> float:
        second = text_with(words=words, content=frozenset(content))
        return grounding.together(kind, source, first, second)

    # TLDR: two of four sentences, all of the brief, 1.5 times as long.
    assert together("post", 15, "red", "fox", "owl") == pytest.approx(1.0)
    assert together("post", 12, "red", "fox", "owl") == pytest.approx(0.4)  # (1.2 - 1) / 0.5
    assert together("post", 15, "red", "fox") == pytest.approx((0.25 - 0.15) / 0.35)
    assert together("post", 15, "owl", "toad") == 0.0  # nothing of the brief
    assert together("post", 15, "red", "owl") == pytest.approx(1.0)  # half of the brief
    # arXiv: three of four sentences, nothing twice; one of two words twice is 0.5, over 0.4.
    assert together("abstract", 10, "owl", "toad") == pytest.approx(1.0)
    assert together("abstract", 10, "owl") == pytest.approx(0.5)  # (0.5 - 0.3) / 0.4
    assert together("abstract", 10, "fox", "owl", "toad") == pytest.approx((0.7 - 0.5) / 0.3)


def test_terms_sum_to_the_product() -> None:
    terms = grounding.grounded_terms("post", SOURCE, ("Nora sold a boat.", "Viktor wants 9 euros."))
    names = ["supported", "contradicted", "copied", "order", "form", "together"]
    assert list(terms) == names
    assert terms["supported"] >= 0
    assert all(value <= 0 for name, value in terms.items() if name != "supported")
    assert 0 <= sum(terms.values()) <= 1
