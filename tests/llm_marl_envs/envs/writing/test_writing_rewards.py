"""The numbers of both rewards, worked by hand: corners of every slope, the terms of small cases."""

from __future__ import annotations

import math

import pytest

from llm_marl_envs.envs.writing import factual
from llm_marl_envs.envs.writing.documents import Document, Fact, Section
from llm_marl_envs.envs.writing.factual import account, grounded_terms, ramp, word_budget
from llm_marl_envs.envs.writing.paper import NUMBERS, paper_terms, transitions, trapezoid


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
