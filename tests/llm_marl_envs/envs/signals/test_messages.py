"""What is heard of a text, and how many messages can be told apart: by hand and by brute force."""

from __future__ import annotations

import random
from itertools import islice, permutations, product
from time import process_time

import pytest

from llm_marl_envs.envs.signals.messages import (
    TOKENS,
    best,
    count,
    edit_distance,
    edit_distances,
    hear,
    messages,
    nth,
    pattern,
    patterns,
    renamed,
    told_apart,
)


@pytest.mark.parametrize(
    ("text", "heard", "readable", "cut"),
    [
        ("ba di", "ba di", True, False),
        ("  KU\t ba \n", "ku ba", True, False),
        ("Message: mo", "mo", True, False),
        ("I say\nMessage: mo\nfor you", "mo", True, False),
        ("", "", True, False),
        (" \n ", "", True, False),
        ("Message:", "", True, False),
        ("ba di ku mo", "ba di ku", True, True),
        ("ba\ndi", "", False, False),  # several messages are none
        ("small red circle", "", False, False),
        ("ba, di", "", False, False),
        ("ba circle", "", False, False),
        ("the second: ba", "", False, False),
        ("ba di</think>ku", "ku", True, False),
    ],
)
def test_what_is_heard_of_tokens(text: str, heard: str, readable: bool, cut: bool):
    for language in ("tokens", "renamed"):
        found = hear(text, language, 3)
        assert (found.text, found.readable, found.cut) == (heard, readable, cut)


def test_what_is_heard_of_words():
    assert hear("the\n  red </think> the\n\n one ", "words", 20).text == "the one"
    long = hear("the red one", "words", 7)
    assert (long.text, long.cut) == ("the red", True)
    assert (hear("the red", "words", 7).cut, hear("x", "words", 0).text) == (False, "")


def test_junk_is_heard_as_one_of_the_counted_messages():
    """No way of writing a text makes a message more than there are."""
    rims, marks = ("", " ", "x", "\n", "ba ", "\u200b"), ("", "Message: ", "MESSAGE:", "> ")
    texts = [
        rim + mark + body.swapcase() + end
        for rim, mark, end in product(rims, marks, rims)
        for body in ("", "ba", "di  ku", "ba\tba", "mo.", "ku\u00a0ku", "ba di ku mo")
    ]
    for budget in (0, 1, 2):
        heard = {hear(text, "tokens", budget).text for text in texts}
        assert len(heard) <= count(len(TOKENS), budget, names_kept=True)


@pytest.mark.parametrize("alphabet", [1, 2, 3, 4])
@pytest.mark.parametrize("budget", [0, 1, 2, 3, 4])
def test_counts_are_those_of_all_messages_under_all_renamings(alphabet: int, budget: int):
    every = list(messages(alphabet, budget))
    assert len(set(every)) == count(alphabet, budget, names_kept=True)
    orbits = {
        frozenset(renamed(one, names) for names in permutations(range(alphabet))) for one in every
    }
    assert len(orbits) == count(alphabet, budget, names_kept=False)
    assert {frozenset(pattern(one) for one in orbit) for orbit in orbits} == {
        frozenset([one]) for one in patterns(alphabet, budget)
    }


def test_counts_by_hand():
    """Of one token: nothing or something. Of three: also `aa`, `ab`, and five of three."""
    assert [count(4, budget, names_kept=True) for budget in range(4)] == [1, 5, 21, 85]
    assert [count(4, budget, names_kept=False) for budget in range(5)] == [1, 2, 4, 9, 24]
    assert list(patterns(4, 2)) == [(), (0,), (0, 0), (0, 1)]
    assert [told_apart("words", budget) for budget in (0, 1, 9)] == [1, 26, 26]


@pytest.mark.parametrize(("alphabet", "budget"), [(2, 0), (2, 1), (1, 2)])
@pytest.mark.parametrize("candidates", [2, 3, 4])
def test_the_best_team_of_all_teams(alphabet: int, budget: int, candidates: int):
    """Every speaker with every listener; no mixture of them earns more than the best."""
    sent = list(messages(alphabet, budget))
    targets = range(candidates)
    most = max(
        sum(choices[sent.index(said)] == target for target, said in enumerate(speaker))
        for speaker in product(sent, repeat=candidates)
        for choices in product(targets, repeat=len(sent))
    )
    assert best(count(alphabet, budget, names_kept=True), candidates) == most / candidates


@pytest.mark.parametrize(("alphabet", "budget"), [(2, 1), (3, 1), (2, 2)])
def test_the_best_team_whose_names_are_drawn_anew(alphabet: int, budget: int):
    """Exact, over all renamings: what survives is how many tokens there are and which are equal."""
    sent, candidates = list(messages(alphabet, budget)), 3
    names = list(permutations(range(alphabet)))
    most = 0.0
    for speaker in product(sent, repeat=candidates):
        # What each target's message is heard as, over all renamings; the listener's best answer to
        # what it hears is the target that is heard so most often.
        heard = [[renamed(said, one) for one in names] for said in speaker]
        right = sum(max(of.count(message) for of in heard) for message in sent)
        most = max(most, right / len(names) / candidates)
    distinct = count(alphabet, budget, names_kept=False)
    assert most == pytest.approx(best(distinct, candidates))
    if alphabet > 1 and budget == 1:  # of four or three messages two are left: silence and a token
        assert most == pytest.approx(2 / 3)


def test_the_nth_message_can_be_told_from_those_before_it():
    assert [nth(at, "tokens", 1) for at in range(6)] == ["", "ba", "di", "ku", "mo", "mo"]
    assert [nth(at, "renamed", 2) for at in range(5)] == ["", "ba", "ba ba", "ba di", "ba di"]
    assert [nth(at, "words", 1) for at in (0, 1)] == ["a", "b"]
    assert nth(3, "words", 0) == ""


def test_edit_distances_by_hand():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance((), (1, 2)) == 2
    assert edit_distance(("ba", "di"), ("di", "ba")) == 2
    assert edit_distance((1, 2, 3), (2, 3)) == 1


def test_edit_distances_of_all_pairs_are_those_of_each():
    rng = random.Random(7)
    texts = [tuple(rng.choices("abcd", k=rng.randint(0, 9))) for _ in range(60)]
    texts += [(), ("ab", 1), (1, "ab"), ("a",) * 30]
    found = edit_distances(texts)
    assert found.tolist() == [[edit_distance(a, b) for b in texts] for a in texts]
    assert edit_distances([]).shape == (0, 0)
    assert edit_distances(["", ""]).tolist() == [[0, 0], [0, 0]]


def test_a_thousand_messages_take_no_minutes(monkeypatch: pytest.MonkeyPatch):
    """500,000 pairs, in many parts: 0.1 s of a processor; one by one they took 13."""
    monkeypatch.setattr("llm_marl_envs.envs.signals.messages.PAIRS_AT_ONCE", 1000)
    few = [*messages(4, 3)]
    parts = edit_distances(few)
    monkeypatch.undo()
    assert (parts == edit_distances(few)).all()
    thousand = [*islice(messages(4, 5), 1000)]
    begun = process_time()
    found = edit_distances(thousand)
    assert process_time() - begun < 3
    assert found[1, 999] == edit_distance(thousand[1], thousand[999])
