"""What texts state: the reader of claims, the words below it, the plans above it."""

from __future__ import annotations

import random

import pytest

from llm_marl_envs.envs.writing.divisions import PLANS, plans, read_plan, write
from llm_marl_envs.envs.writing.documents import KINDS, LEXICONS, Fact, data_of, document_of, say
from llm_marl_envs.envs.writing.generate import document_at
from llm_marl_envs.envs.writing.reader import SMALL, read_claims
from llm_marl_envs.envs.writing.transitions import _LISTS, categories_in
from llm_marl_envs.envs.writing.vocabulary import ABSTRACT_LEXICON, POST_LEXICON
from llm_marl_envs.envs.writing.words import sentences_of, words_of


def stated(text: str) -> list[str]:
    """Claims as short texts: "mia pay tom", "!mia pay tom"."""
    return [
        f"{'' if c.holds else '!'}{c.subject} {c.relation} {c.object}"
        for c in read_claims(text, POST_LEXICON).claims
    ]


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Mia paid Tom.", ["mia pay tom"]),
        ("mia PAYS tom", ["mia pay tom"]),
        ("Mia did not pay Tom.", ["!mia pay tom"]),
        ("Mia didn\u2019t pay Tom.", ["!mia pay tom"]),
        ("Mia never refused to pay Tom.", ["mia pay tom"]),
        ("Tom was paid by Mia.", ["mia pay tom"]),
        ("Tom was not paid by Mia.", ["!mia pay tom"]),
        ("Tom was paid.", []),
        ("Tom was paid Mia.", []),
        ("Mia has stolen the cake.", ["mia steal cake"]),
        ("Mia stolen the cake.", []),
        ("Mia paid Tom and helped Leo.", ["mia pay tom", "mia help leo"]),
        ("Mia paid Tom and Leo helped Ann.", ["mia pay tom", "leo help ann"]),
        ("Mia paid Tom and Leo and helped Ann.", ["mia pay tom", "mia pay leo", "mia help ann"]),
        ("Mia and Tom paid Leo.", ["mia pay leo", "tom pay leo"]),
        ("Mia paid Tom but not Leo.", ["mia pay tom", "!mia pay leo"]),
        ("Mia paid Tom, who helped Leo.", ["mia pay tom", "tom help leo"]),
        ("Mia, who paid Tom, helped Leo.", ["mia pay tom", "mia help leo"]),
        ("Mia did not pay Tom because Leo helped Ann.", ["!mia pay tom", "leo help ann"]),
        ("Rent: Mia paid Tom. Kitchen: Leo fed Mia.", ["mia pay tom", "leo feed mia"]),
        ("- **Rent:** Mia paid Tom.\n2) Leo fed Mia.", ["mia pay tom", "leo feed mia"]),
        ("Then Mia paid Tom, and later Leo helped Ann.", ["mia pay tom", "leo help ann"]),
        ("Mia paid Tom, but never.", []),
        ("Mia did not, however, pay Tom.", ["!mia pay tom"]),
        (
            "Leo fed Mia, and Tom did not, however, pay Leo.",
            ["leo feed mia", "!tom pay leo"],
        ),
        ("Mia did not fail to pay Tom.", ["mia pay tom"]),
        ("Mia paid Tom but not Leo and not Ann.", ["mia pay tom", "!mia pay leo", "!mia pay ann"]),
        ("Tom was not then, so paid Leo.", []),
        ("As for the key, Tom fixed the pan.", []),
        ("It was Tom who fixed the pan.", []),
        ("Mia paid Tom, which is false.", []),
        ("Neither Mia nor Tom paid Leo.", []),
        ("Did Mia pay Tom.", []),
        ("Had Mia paid Tom, Leo helped Ann.", []),
        ("Mia might have paid Tom.", []),
        ("If Mia paid Tom, all is well.", []),
        ("Mia wanted to pay Tom.", []),
        ("Did Mia pay Tom?", []),
        ("She paid Tom.", []),
        ("Mia paid him.", []),
        ("Mia Tom paid Leo.", []),
        ("Mia paid", []),
        ("paid Tom", []),
        ("Mia's payment to Tom", []),
        ("The prepaid Mia card of Tom", []),
    ],
)
def test_what_a_sentence_states(text: str, claims: list[str]) -> None:
    assert stated(text) == claims


def test_what_sources_say_is_read_back() -> None:
    for kind in KINDS:
        for split in ("train", "ood"):
            for index in range(60):
                document = document_at(kind, 0, split, index)
                for fact in document.facts:
                    read = read_claims(say(kind, fact), document.lexicon).claims
                    assert read == (fact,)


def test_passives_of_every_fact_are_read_back() -> None:
    """A sentence no expert writes: what counts is what it says."""
    for index in range(60):
        document = document_at("abstract", 0, "ood", index)
        for fact in document.facts:
            participle = f"{fact.relation.rstrip('e')}ed"
            is_not = "is" if fact.holds else "is not"
            text = f"The {fact.object} {is_not} {participle} by a {fact.subject}."
            assert read_claims(text, ABSTRACT_LEXICON).claims == (fact,)


FRAMES = (
    "The liar said that {0}",
    "The opposite of what happened is that {0}",
    "It is not the case that {0}",
    "Lies: {0}",
    "False: {0}",
    "Leo was never: {0}",
    '"{0}"',
    "'{0}'",
    "\u2018{0}\u2019",
    "'{0}",
    "({0})",
    "~~{0}~~",
    "{0} (not)",
    "{0}, they say.",
    "{0} in a dream.",
    "In a dream, {0}",
    "Nobody believes that {0}",
    "{0} [citation needed]",
    "{0} \N{CROSS MARK}",
    "Rumour has it that {0}",
    "Never was that so, that {0}",
    "Never, that {0}",
    "{0}, but never",
    "{0}, was that so",
)
SENTENCES = (
    "None of this happened.",
    "All of this is false.",
    "Everything above is made up.",
    "What follows is untrue.",
    "Not.",
    "Never.",
    "But that was not.",
    "April fool!",
    "Read every line as its opposite",
    "\N{CROSS MARK}",
    "/s",
    "Is that so?",
    "Is that so.",
    "Was that Mia.",
    "Did Leo.",
    "Had",
)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_leaves_nothing_stated(frame: str) -> None:
    for fact in ("Mia paid Tom", "Tom did not sell the pan", "Leo was blamed by Mia"):
        assert stated(frame.format(fact)) == []
        assert not read_claims(frame.format(f"{fact}."), POST_LEXICON).closed


@pytest.mark.parametrize(
    "text",
    [
        "Mia never, never paid Tom.",
        "Mia did not, not pay Tom.",
        "Mia paid Tom and never, also, never helped Leo.",
        "Mia did not pay Tom and help Leo.",
        "Mia refused to pay Tom, help Leo and fix the key.",
        "Did Mia pay Tom and help Leo and fix the key.",
        "Did Mia pay and help Leo and fix the key.",
        "Had Mia paid Tom and helped Leo.",
        "Mia paid Tom not and helped Leo.",
        "Mia, not Tom, paid Leo.",
        "Mia paid not Tom but Leo.",
        "Mia has not. Mia paid Tom, so has not.",
        "Mia failed, then paid Tom.",
        "Omar warned Nina, that the key fixed Vera and Paul invited Ann.",
    ],
)
def test_a_form_with_two_readings_states_nothing(text: str) -> None:
    assert stated(text) == []
    assert not read_claims(text, POST_LEXICON).closed


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_that_nobody_can_read_opens_the_text(sentence: str) -> None:
    for text in (f"Mia paid Tom. {sentence}", f"{sentence}\nMia paid Tom."):
        reading = read_claims(text, POST_LEXICON)
        assert len(reading.claims) == 1
        assert not reading.closed


def test_words_that_are_struck_out_open_the_text() -> None:
    struck = "".join(letter + "\u0336" for letter in "Mia paid Tom.")
    assert not read_claims(struck, POST_LEXICON).closed
    assert not read_claims("Leo paid Ann. Mia pa\u0338id Tom.", POST_LEXICON).closed
    assert read_claims("Mia\u0301 paid Tom. Leo paid Ann.", POST_LEXICON).claims


def test_any_unknown_word_leaves_nothing_stated() -> None:
    """Every letter of any alphabet makes an unknown word, wherever it stands."""
    rng = random.Random(0)
    words = ["Rent", ":", "Mia", "did", "not", "pay", "Tom", "and", "Leo", ",", "but", "Ann"]
    for _ in range(300):
        odd = "".join(chr(rng.choice((rng.randrange(97, 123), rng.randrange(0x250, 0x2000)))))
        place = rng.randrange(len(words) + 1)
        text = " ".join([*words[:place], f"x{odd}q", *words[place:]])
        assert not read_claims(text, POST_LEXICON).closed, text
        assert stated(text) == [], text


def test_a_reading_counts_words() -> None:
    reading = read_claims("And then. Mia paid Tom.", POST_LEXICON)
    assert (reading.words, reading.stating_words, reading.closed) == (5, 3, True)
    assert (reading.verbs, reading.stating_verbs) == (1, 1)
    same = read_claims("Mia paid Tom, and Leo paid Ann, but Tom did not pay Leo.", POST_LEXICON)
    assert (same.verbs, same.stating_verbs) == (3, 3)
    broken = read_claims("Mia paid Tom and helped. Paid.", POST_LEXICON)
    assert (broken.verbs, broken.stating_verbs) == (3, 1)
    assert read_claims("word " * 5000, POST_LEXICON).words == 400


def test_long_lists_state_nothing() -> None:
    names = ("mia", "tom", "leo", "ruth", "omar", "nina", "paul", "vera", "hugo")
    for n in (8, 9):
        listed = " and ".join(names[:n])
        assert len(stated(f"{listed} paid Eva")) == (n if n == 8 else 0)
        assert len(stated(f"Eva paid {listed}")) == (n if n == 8 else 0)


def test_invisible_and_look_alike_characters() -> None:
    assert stated("M\u200bia pa\u00adid Tom.") == ["mia pay tom"]
    assert stated("\uff2d\uff49\uff41 paid Tom.") == ["mia pay tom"]
    assert stated("\u041c\u0456\u0430 paid Tom.") == []  # Cyrillic
    assert stated("Mia did n\u200bot pay Tom.") == ["!mia pay tom"]


# -- words ----------------------------------------------------------------------------------------
def test_no_word_of_a_lexicon_has_two_roles() -> None:
    for lexicon in LEXICONS.values():
        verbs = set(lexicon.forms)
        assert not verbs & lexicon.entities
        for word in verbs | lexicon.entities:
            assert words_of(word) == [word]
            assert word not in SMALL
        assert not lexicon.labels & (verbs | SMALL)


def test_words_and_sentences() -> None:
    assert words_of("It's 3.5 km, O\u2019Neill said!") == [
        "it's",
        "3",
        "5",
        "km",
        "o'neill",
        "said",
    ]
    assert sentences_of("One 3.5. Two?\nThree; four...  ") == [
        "One 3.5.",
        "Two?",
        "Three;",
        "four...",
    ]
    assert sentences_of(" ... \n!") == []


def test_transitions_are_whole_words() -> None:
    assert len(_LISTS) == 12
    assert categories_in(words_of("also")) == {"elaboration"}
    assert categories_in(words_of("basic iffy nasal thenar")) == frozenset()
    assert categories_in(words_of("As a result, it fell; on the other hand, it rose.")) == {
        "cause_effect",
        "contrast",
    }
    assert categories_in(words_of("as a")) == frozenset()


# -- plans ----------------------------------------------------------------------------------------
def test_plans_divide_or_share_all_sections() -> None:
    for first, second in PLANS["post", 2].values():
        assert first == second
    for first, second in PLANS["abstract", 2].values():
        assert sorted((*first, *second)) == [0, 1, 2, 3, 4, 5]


def test_plans_are_read_from_what_is_said() -> None:
    for kind in KINDS:
        for index in range(30):
            document = document_at(kind, 0, "val", index)
            assert document_of(data_of(document)) == document
            for seat in (0, 1):
                for plan in plans(document):
                    text = write(document, seat, plan)
                    assert read_plan(document, seat, text) == plan
                    lines = text.splitlines()
                    assert read_plan(document, seat, " ".join(lines[::-1])) == plan
                    assert read_plan(document, seat, lines[0]) is None
                    assert read_plan(document, seat, text.replace("not ", "")) in (plan, None)
    assert read_plan(document_at("post", 0, "val", 0), 0, "") is None


def test_an_impossible_plan_is_refused() -> None:
    documents = (document_at("post", 0, "val", i) for i in range(200))
    closed = next(d for d in documents if "first" not in plans(d))
    with pytest.raises(ValueError, match="this document allows"):
        write(closed, 0, "first")


def test_facts_are_said_plainly() -> None:
    assert say("post", Fact("mia", "pay", "tom", False)) == "Mia did not pay Tom."
    assert say("post", Fact("leo", "fix", "key", True)) == "Leo fixed the key."
    assert say("abstract", Fact("parser", "need", "noise", True)) == "The parser needs noise."
