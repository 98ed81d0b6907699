"""Cuts of rows: by hand, and on random trees that every token is read and scored once."""

from __future__ import annotations

import random

import numpy as np
import pytest

from trainers.batch import prefixes
from trainers.batch.prefixes import BLANK, calls, places_of_scores, seen, tokens_read


def padded(rows: list[list[int]]) -> np.ndarray:
    ids = np.full((len(rows), max(map(len, rows))), BLANK)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    return ids


def drawn(rng: random.Random, length: int) -> list[int]:
    return rng.choices(range(1000), k=length)


def test_one_prompt() -> None:
    """Eight rows of 100 + 10 tokens: 100, and 8 times 11; whole rows are 880."""
    rng = random.Random(0)
    prompt = drawn(rng, 100)
    plan = calls(padded([prompt + drawn(rng, 10) for _ in range(8)]))
    assert [len(call.rows) for call in plan] == [1, 8]
    assert plan[0].ends.tolist() == [100]
    assert plan[1].begins.tolist() == [99] * 8
    assert plan[1].ends.tolist() == [110] * 8
    assert tokens_read(plan) == 100 + 8 * 11


def test_prompts_of_unlike_lengths() -> None:
    """Two of 150 and 90 tokens, four rows each: both are cut at their own end."""
    rng = random.Random(0)
    prompts = drawn(rng, 150), drawn(rng, 90)
    rows = padded([prompt + drawn(rng, 20) for prompt in prompts for _ in range(4)])
    plan = calls(rows)
    ends = {
        int(rows[row, 0]): int(end) for row, end in zip(plan[0].rows, plan[0].ends, strict=True)
    }
    assert ends == {prompts[0][0]: 150, prompts[1][0]: 90}
    assert tokens_read(plan) == 2 * 150 + 8 * 21


def test_a_row_that_shares_nothing_makes_no_call_wider() -> None:
    """Beside rows of 100 + 10 tokens it is cut where they are."""
    rng = random.Random(0)
    prompt = drawn(rng, 100)
    rows = [drawn(rng, 110), *(prompt + drawn(rng, 10) for _ in range(4))]
    assert tokens_read(calls(padded(rows))) == 2 * 100 + 5 * 11


def test_a_tree() -> None:
    """A prompt of 200; after it two answers of 150, each with four ends of 10."""
    rng = random.Random(0)
    prompt = drawn(rng, 200)
    answers = [prompt + drawn(rng, 150) for _ in range(2)]
    plan = calls(padded([answer + drawn(rng, 10) for answer in answers for _ in range(4)]))
    assert [len(call.rows) for call in plan] == [1, 2, 8]
    assert tokens_read(plan) == 200 + 2 * 151 + 8 * 11


def test_equal_rows_are_one() -> None:
    row = drawn(random.Random(0), 30)
    plan = calls(padded([row, row, row[:20], row]))
    assert len(plan) == 1
    assert len(plan[0].rows) == 2
    assert plan[0].places.tolist() == [plan[0].places[0]] * 2 + [plan[0].places[2]] + [
        plan[0].places[0]
    ]


@pytest.mark.parametrize("rows", [[[5]], [[5], [5]], [[5], [6]], [[1, 2, 3], [1, 2], [9]]])
def test_what_is_short_stays_whole(rows: list[list[int]]) -> None:
    assert len(calls(padded(rows))) == 1


def grown(rng: random.Random, depth: int, base: list[int]) -> list[list[int]]:
    """Rows of a random tree; some answers begin alike by chance, some are equal."""
    if depth == 0:
        return [base + drawn(rng, rng.randrange(1, 12))] * rng.choice([1, 1, 2])
    trunk = base + drawn(rng, rng.choice([0, 3, 40]))
    return [
        row
        for _ in range(rng.randrange(1, 4))
        for row in grown(rng, depth - 1, trunk + drawn(rng, rng.randrange(1, 3)))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_every_token_is_scored_where_it_was_read(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that scores a token has the row's own tokens before it, each once, in its view."""
    rng = random.Random(seed)
    monkeypatch.setattr(prefixes, "CALL", rng.choice([0, 5, 100]))
    monkeypatch.setattr(prefixes, "APART", rng.choice([1, 8]))
    rows = [row for _ in range(rng.randrange(1, 4)) for row in grown(rng, 3, [])]
    rng.shuffle(rows)
    ids = padded(rows)
    plan = calls(ids)
    assert tokens_read(plan) <= ids.size
    scored, held = {}, {}  # place -> what it is the score of; (call, part) -> columns of the cache
    place = 1
    for number, call in enumerate(plan):
        view = seen(plan, number)
        for part, row in enumerate(call.rows):
            before = held[number - 1, call.parents[part]] if number else []
            begin, end = call.begins[part], call.ends[part]
            here = [int(ids[row, n]) if n < end else None for n in range(begin, begin + call.width)]
            columns = before + here
            held[number, part] = columns
            shown = [column for column, looks in zip(columns, view[part], strict=True) if looks]
            assert shown == rows[row][:end]
            for n in range(begin + 1, begin + call.width):
                if n < end:
                    scored[place] = tuple(rows[row][: n + 1])
                place += 1
    for row, places in zip(rows, places_of_scores(plan, ids.shape[1]), strict=True):
        assert places[0] == 0
        assert [scored[n] for n in places[1 : len(row)]] == [
            tuple(row[: n + 1]) for n in range(1, len(row))
        ]
        assert not places[len(row) :].any()
