"""Generated questions: exact, balanced, disjoint splits, and no part decides alone."""

from __future__ import annotations

import itertools
import pickle
import random
import runpy
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llm_marl_envs.core.tasks import SPLITS, Task
from llm_marl_envs.envs.questions import (
    KINDS,
    ProceduralQuestions,
    Question,
    constant_accuracy,
    is_right,
    question_of,
    question_tasks,
    task_of,
)
from llm_marl_envs.envs.questions.vocabulary import GAMES, LOST, Slots

pytestmark = pytest.mark.full  # `make test-all` runs it

STOCK = ("cups", "lights", "seats")
TWO = [name for name, kind in KINDS.items() if len(kind.conventions) == 2]


def drawn(kind: str, level: int = 1, parts: int = 3, n: int = 40) -> list[Question]:
    rng = random.Random(f"{kind}/{level}/{parts}")
    return [KINDS[kind].draw(rng, level, parts, turn) for turn in range(n)]


def answers(question: Question, said: tuple[str, ...], read: str) -> list[str]:
    """What each seat concludes that reads in `read` what the others said in `said[seat]`."""
    kind = KINDS[question.kind]
    reports = [kind.say(question, p, c) for p, c in zip(question.parts, said, strict=True)]
    return [
        kind.hear(question, [part], reports[:seat] + reports[seat + 1 :], read)
        for seat, part in enumerate(question.parts)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("level", "parts"), [(1, 2), (1, 3), (1, 5), (2, 2), (2, 3), (3, 3)])
def test_all_parts_decide_and_one_part_does_not(kind: str, level: int, parts: int) -> None:
    for question in drawn(kind, level, parts):
        assert len(question.parts) == len(question.evidence) == parts
        assert question.lure not in question.right
        assert bool(question.lure) == bool(question.shared)
        assert 1 <= len(question.right) < KINDS[kind].possible(question)
        if question.choices:
            assert set(question.right) < set(question.choices)
            assert question.lure in ("", *question.choices)
            assert len(set(question.choices)) == KINDS[kind].possible(question)
        reached = []
        for convention in KINDS[kind].conventions_of(question):
            told = set(answers(question, (convention,) * parts, convention))
            assert len(told) == 1
            reached += told
            silent = [KINDS[kind].hear(question, [p], [], convention) for p in question.parts]
            assert set(silent) == {question.lure}
            assert {KINDS[kind].hear(question, question.parts, [], convention)} == told
        assert set(reached) == set(question.right)
    assert KINDS[kind].solo(level, parts) <= 0.5


def solved_by_hand(question: Question) -> set[str]:
    """Every choice that fits the evidence, from the definition of each kind."""
    parts = question.parts
    if question.kind in ("suspects", "points", "meeting"):
        return set.intersection(*(set(part[: len(part) // 2]) for part in parts))
    if question.kind in ("lost", "games"):
        known = {word for part in parts for word in part[::2]}
        return {c for c in question.choices if set(c.split()) <= known}
    if question.kind == "order":
        pairs = [pair for part in parts for pair in zip(part[::2], part[1::2], strict=True)]
        return set(question.choices) - {young for _, young in pairs}
    if question.kind in STOCK:
        return {str(sum(int(part[0]) for part in parts))}
    if question.kind == "safe":
        _, *seen = zip(*parts, strict=True)  # all colours, all shapes; "" where worn off
        return {" ".join(words) for words in seen if all(words)}
    links = dict(pair for part in parts for pair in zip(part[::2], part[1::2], strict=True))
    place = "coin"
    while place in links:
        place = links[place]
    return {place}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_else_fits_than_what_is_right(kind: str) -> None:
    for level, parts in ((1, 2), (1, 3), (2, 3), (1, 4)):
        for question in drawn(kind, level, parts):
            assert solved_by_hand(question) == set(question.right)
            assert (len(question.right) == 1) or kind == "safe"


@pytest.mark.parametrize("kind", KINDS)
def test_each_part_alone_fits_a_wrong_answer_as_well(kind: str) -> None:
    for question in drawn(kind):
        if kind in ("suspects", "points", "meeting"):
            assert all(len(set(part[: len(part) // 2])) == 2 for part in question.parts)
        elif kind == "order":
            for part in question.parts:
                assert len(set(question.choices) - {part[1]}) > 1
        elif kind in ("lost", "games"):
            assert all(len({*part[::2]}) < 3 for part in question.parts)
        elif kind == "trail":
            for part in question.parts:  # the start, or the rooms, never both
                assert not ({"coin", question.answer} <= set(part))


@pytest.mark.parametrize("kind", TWO)
def test_reports_in_another_convention_mislead_the_majority(kind: str) -> None:
    one, other = KINDS[kind].conventions
    wrong = 0
    questions = drawn(kind, n=200)
    for question in list(questions):
        if len(KINDS[kind].conventions_of(question)) == 1:
            questions.remove(question)
            continue
        heard = answers(question, (other,) * 3, one)
        wrong += sum(is_right(question, answer) for answer in heard) < 2
    assert len(questions) >= 100
    assert wrong >= 0.8 * len(questions)


@pytest.mark.parametrize("kind", [kind for kind in TWO if kind != "safe"])
def test_conventions_look_alike(kind: str) -> None:
    """As many words, of the same words: the look of one report does not tell.

    Not so about the safe: everybody sees whether a word is a colour, and nobody can translate it.
    """
    one, other = KINDS[kind].conventions
    lengths: dict[str, Counter[int]] = {one: Counter(), other: Counter()}
    words: dict[str, set[str]] = {one: set(), other: set()}
    for question in drawn(kind, n=300):
        for part in question.parts:
            for convention in (one, other):
                report = KINDS[kind].say(question, part, convention)
                lengths[convention][len(report)] += 1
                words[convention].update(report)
    assert lengths[one] == lengths[other]
    assert words[one] == words[other]


def test_solo_bounds_by_hand() -> None:
    assert KINDS["suspects"].solo(1, 3) == 1 / 2
    assert KINDS["meeting"].solo(2, 3) == 1 / 3
    assert KINDS["trail"].solo(1, 3) == 1 / 2
    # Chain 0>1>2>3, lure 1 or 2, one pair (j, j+1): six equal cases. The lure is the younger
    # (0,1|1), (1,2|2): guess the older, 1 of 2. The lure is the older (1,2|1), (2,3|2): the oldest
    # is one of two unlinked. Neither (0,1|2), (2,3|1): the older, or the one unlinked non-lure.
    assert KINDS["order"].solo(1, 3) == pytest.approx((1 + 1 + 1) / 6)


@pytest.mark.parametrize("parts", [2, 3])
def test_the_solo_bound_of_stock_is_that_of_all_questions(parts: int) -> None:
    """All questions there are, each as often as it is drawn, by what one part and all see."""
    places, middle = 9, 9 * parts / 2
    below = [
        t for t in range(places * parts) if 0 < middle - t <= 7
    ]  # 7 on each side, none halfway
    looks: dict[object, Counter[int]] = {}
    for counts in itertools.product(range(places + 1), repeat=parts):
        total, misread = sum(counts), places * parts - sum(counts)
        if min(total, misread) not in below or total == misread:
            continue
        for others in itertools.combinations([t for t in below if t not in (total, misread)], 3):
            choices = frozenset({min(total, misread), *others})
            for lured in others:  # as often from below as from above
                looks.setdefault((counts[0], choices, lured), Counter())[total] += 1
    asked = Counter(total for seen in looks.values() for total in seen.elements())
    right = sum(max(n / asked[total] for total, n in seen.items()) for seen in looks.values())
    assert right / len(asked) == pytest.approx(KINDS["cups"].solo(1, parts))


@pytest.mark.parametrize("slots", [LOST, GAMES])
def test_a_word_is_in_one_pair_alone(slots: Slots) -> None:
    """Else its opposite would not be known."""
    words = [word for slot in slots for pair in slot for word in pair]
    assert len(words) == len(set(words))
    assert all(word.isalpha() and word.isascii() for word in words)


def test_splits_are_disjoint_by_identity_and_large() -> None:
    identities = {}
    for split in SPLITS:
        source = question_tasks(split=split)
        identities[split] = {question_of(task).identity() for task in source}
        assert len(identities[split]) > 0.8 * len(source)
    for one, other in itertools.combinations(SPLITS, 2):
        assert not identities[one] & identities[other]
    assert len(identities["train"]) > 3000


@pytest.mark.parametrize(("parts", "kinds"), [(3, [*KINDS]), (2, ["cups", "lost", "games"])])
def test_a_kind_has_a_thousand_questions_to_train_on(parts: int, kinds: list[str]) -> None:
    """However many kinds take turns."""
    asked: dict[str, set[str]] = {kind: set() for kind in kinds}
    for task in question_tasks(kinds=kinds, parts=parts):
        asked[task.data["kind"]].add(question_of(task).identity())
    assert min(map(len, asked.values())) >= 1000
    assert len(question_tasks(kinds=kinds, split="test")) == 1024


def test_identity_ignores_the_order_of_parts_and_choices() -> None:
    question = drawn("suspects")[0]
    turned = Question(
        **{
            **{name: getattr(question, name) for name in Question.__slots__},
            "choices": question.choices[::-1],
            "parts": question.parts[::-1],
            "evidence": question.evidence[::-1],
        }
    )
    assert turned.identity() == question.identity()
    assert drawn("suspects")[1].identity() != question.identity()


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_balanced_within_a_kind(kind: str) -> None:
    source = ProceduralQuestions("train", kinds=[kind])
    questions = [question_of(source[i]) for i in range(600)]
    words = Counter(question.answer for question in questions)
    if kind == "safe":  # nothing to choose from; see its own test
        return
    if kind not in ("lost", "games"):  # there each of the 2 x 2 x 2 choices takes its turn
        assert max(words.values()) - min(words.values()) <= 1
    places = Counter(question.choices.index(question.answer) for question in questions)
    assert len(places) == len(questions[0].choices)
    assert max(places.values()) - min(places.values()) <= 6
    assert constant_accuracy(source)[kind] <= 1 / len(questions[0].choices) + 0.02


def test_items_depend_on_the_seed_split_and_index_alone() -> None:
    forward = ProceduralQuestions("val", kinds=["suspects", "order"])
    backward = ProceduralQuestions("val", kinds=["suspects", "order"])
    ahead = backward[40]
    assert [forward[i] for i in range(41)] == [backward[i] for i in range(41)]
    assert forward[40] == ahead
    assert pickle.loads(pickle.dumps(backward))[41] == forward[41]


def test_threads_that_ask_one_source_get_what_one_thread_gets() -> None:
    def fresh() -> ProceduralQuestions:
        return ProceduralQuestions("val", kinds=["suspects", "order"])

    orders = [random.Random(number).sample(range(48), 48) for number in range(4)]
    alone, shared = list(itertools.islice(fresh(), 48)), fresh()

    def asked(order: Sequence[int]) -> list[Task]:
        found = {index: shared[index] for index in order}
        return [found[index] for index in range(48)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns within one question
    try:
        with ThreadPoolExecutor(len(orders)) as pool:
            assert all(found == alone for found in pool.map(asked, orders))
    finally:
        sys.setswitchinterval(interval)


def test_a_question_survives_being_a_task() -> None:
    question = drawn("trail")[0]
    assert question_of(task_of(question, "a", "train")) == question
    with pytest.raises(ValueError, match="no question"):
        question_of(Task("b", "train", {"text": "?"}))


def test_ood_is_harder_and_has_words_of_its_own() -> None:
    train = {w for t in question_tasks(split="train") for w in question_of(t).choices}
    harder = [question_of(t) for t in question_tasks(split="ood")]
    assert all(question.level == 2 for question in harder)
    assert {w for question in harder for w in question.choices} - train


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="kinds"):
        question_tasks(kinds=["riddles"])
    with pytest.raises(ValueError, match="level"):
        question_tasks(level=3, split="ood")
    with pytest.raises(ValueError, match="parts"):
        question_tasks(parts=1)
    with pytest.raises(ValueError, match="no task"):
        question_tasks().find("test/0")
    with pytest.raises(IndexError):
        question_tasks()[10**6]


def test_right_answers() -> None:
    question = drawn("cups")[0]
    assert is_right(question, question.answer)
    assert is_right(question, f" {question.answer}.0 ")
    assert not is_right(question, question.lure)
    assert not is_right(question, None)


def test_the_page_names_every_kind_beside_its_form() -> None:
    page = (Path(__file__).parents[4] / "docs" / "questions.md").read_text(encoding="utf-8")
    forms: dict[str, list[str]] = {}
    for name, kind in KINDS.items():
        forms.setdefault(type(kind).__name__, []).append(name)
    assert all(f"| {form} | {', '.join(kinds)} |" in page for form, kinds in forms.items())


@pytest.mark.long
def test_the_tables_of_the_page_are_measured() -> None:
    root = Path(__file__).parents[4]
    measured = runpy.run_path(str(root / "benchmarks" / "questions.py"))
    page = (root / "docs" / "questions.md").read_text(encoding="utf-8")
    assert measured["counts"]() in page
    assert measured["known_by_heart"]() in page
