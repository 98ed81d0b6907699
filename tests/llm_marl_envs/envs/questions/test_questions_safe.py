"""The kind `safe`: bounds by enumeration, balance, two right answers and nothing between them."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.tasks import ListSource
from llm_marl_envs.core.texts import words_of
from llm_marl_envs.envs.questions import (
    KINDS,
    ProceduralQuestions,
    Question,
    blind_guess,
    constant_accuracy,
    is_right,
    question_of,
    question_tasks,
    read_answer,
    task_of,
)
from llm_marl_envs.envs.questions.forms import WORN
from llm_marl_envs.envs.questions.kinds import SAFE
from llm_marl_envs.envs.questions.vocabulary import NAMES

pytestmark = pytest.mark.full  # `make test-all` runs it

PER_LEVEL = len(SAFE.tables(1)[0])
BOTH, NO_COLOURS, NO_SHAPES = 0, PER_LEVEL, 5 * PER_LEVEL
"""The first turns at level 1 of questions with both descriptions, and with one."""


class Picks(random.Random):
    """Chooses what it is told to: the places are counted up like the digits of a number."""

    def __init__(self) -> None:
        super().__init__(0)
        self.digits: list[int] = []
        self.sizes: list[int] = []

    def choice(self, seq: Any) -> Any:
        if len(self.sizes) == len(self.digits):
            self.digits.append(0)
        place = self.digits[len(self.sizes)]
        self.sizes.append(len(seq))
        return seq[place]

    def count_up(self) -> bool:
        """The next choices; False after the last ones."""
        while self.digits and self.digits[-1] + 1 == self.sizes[len(self.digits) - 1]:
            self.digits.pop()
        if not self.digits:
            return False
        self.digits[-1] += 1
        self.sizes = []
        return True


def every_question(parts: int, first_turn: int, level: int = 1) -> Iterator[Question]:
    """What `draw` can give in the turns in which the first dial shows each of its words."""
    for turn in range(first_turn, first_turn + PER_LEVEL * level):
        picks = Picks()
        while True:
            picks.sizes = []
            yield SAFE.draw(picks, level, parts, turn)
            if not picks.count_up():
                break


def best_guess(questions: Iterator[Question], seat: int) -> float:
    """How often the best answer to what one seat sees is right, by Bayes' rule."""
    seen: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    total = 0
    for question in questions:
        total += 1
        seen[(*question.shared, question.evidence[seat])].update(question.right)
    return sum(max(answers.values()) for answers in seen.values()) / total


@pytest.mark.parametrize("first_turn", [BOTH, NO_COLOURS, NO_SHAPES])
@pytest.mark.parametrize("seat", [0, 1])
def test_solo_is_what_one_of_two_seats_can_guess(first_turn: int, seat: int) -> None:
    assert best_guess(every_question(2, first_turn), seat) == pytest.approx(SAFE.solo(1, 2))
    assert SAFE.solo(1, 2) == 1 / 3  # not 1/4: the manual rules one word out


@pytest.mark.parametrize("seat", [0, 1, 2])
def test_solo_is_what_one_of_three_seats_can_guess(seat: int) -> None:
    assert best_guess(every_question(3, NO_SHAPES), seat) == pytest.approx(SAFE.solo(1, 3))
    assert SAFE.solo(1, 3) == pytest.approx(1 / 9)


def test_solo_at_level_2() -> None:
    assert best_guess(every_question(2, NO_COLOURS * 2, level=2), 1) == pytest.approx(1 / 7)
    assert SAFE.solo(2, 2) == pytest.approx(1 / 7)


def test_repeating_the_manual_is_never_right_not_even_in_one_place() -> None:
    for first_turn in (BOTH, NO_COLOURS, NO_SHAPES):
        for question in itertools.islice(every_question(2, first_turn), 0, None, 7):
            said = question.lure.split()
            for right in question.right:
                assert all(a != b for a, b in zip(said, right.split(), strict=True))


def drawn(level: int, parts: int, n: int) -> list[Question]:
    return [SAFE.draw(random.Random(f"{level}/{i}"), level, parts, i) for i in range(n)]


@pytest.mark.parametrize(("level", "parts"), [(1, 2), (1, 3), (2, 3), (3, 2), (1, 4)])
def test_only_unmixed_rows_are_right(level: int, parts: int) -> None:
    for question in drawn(level, parts, 40):
        rows = itertools.product(*({*part[1:]} - {""} for part in question.parts))
        right = {" ".join(row) for row in rows if is_right(question, " ".join(row))}
        assert right == set(question.right)


def test_no_word_is_of_both_descriptions_and_there_are_enough_for_every_level() -> None:
    colours, shapes = SAFE.tables(3)
    assert not {*colours} & {*shapes}
    assert len({*colours}) == len({*shapes}) == 3 * PER_LEVEL
    with pytest.raises(ValueError, match="level"):
        SAFE.draw(random.Random(0), 4, 3, 0)
    with pytest.raises(ValueError, match="parts"):
        SAFE.draw(random.Random(0), 1, 1, 0)


def test_a_quarter_leaves_one_description() -> None:
    source = ProceduralQuestions("test", kinds=["safe"])
    left = Counter(SAFE.conventions_of(question_of(source[i])) for i in range(128))
    assert left == {("colours", "shapes"): 96, ("shapes",): 16, ("colours",): 16}
    assert WORN.count(0) == WORN.count(1) == 1


def test_answers_are_balanced() -> None:
    source = ProceduralQuestions("train", kinds=["safe"])
    questions = [question_of(task) for task in source]
    for place in range(3):
        words = Counter(right.split()[place] for q in questions for right in q.right)
        each = sum(words.values()) / (2 * PER_LEVEL)  # 896 of 7168
        assert set(words) == {w for table in SAFE.tables(1) for w in table}
        assert all(abs(count - each) < 4 * each**0.5 for count in words.values())
    first = Counter(q.answer.split()[0] for q in questions if len(q.right) == 2)
    assert len(set(first.values())) == 1  # the first dial's words take turns
    # 4096 questions, the best of 128 constants with hindsight: 1/64, and four standard errors.
    assert constant_accuracy(source)["safe"] < 1 / 64 + 4 * (1 / 64 / 512) ** 0.5


def test_the_dials_are_independent() -> None:
    """No colour tells a shape, no dial tells another, and neither does the manual."""
    questions = [q for q in drawn(1, 3, 4096) if len(q.right) == 2]
    colours, shapes = zip(*(map(str.split, q.right) for q in questions), strict=True)
    manual = [q.lure.split() for q in questions]
    columns = [*zip(*colours, strict=True), *zip(*shapes, strict=True)]
    told = [*columns, *zip(*manual, strict=True)]
    for (i, one), (j, other) in itertools.product(enumerate(columns), enumerate(told)):
        if i == j or (j == i + 6 and i < 3):  # itself; the manual's word for this dial
            continue
        pairs = Counter(zip(one, other, strict=True))
        each = len(questions) / 16
        chi = sum((pairs[a, b] - each) ** 2 / each for a in set(one) for b in set(other))
        assert chi < 40  # 9 to 15 degrees of freedom


@pytest.mark.parametrize("parts", [2, 3, 5, 9])
def test_dials_that_look_alike_do_no_harm(parts: int) -> None:
    rows = [SAFE.draw(random.Random(i), 1, parts, NO_SHAPES) for i in range(20)]
    for question in (SAFE.draw(Picks(), 1, parts, 0), *rows):  # the first shows one word only
        check_every_seat(question)


def check_every_seat(question: Question) -> None:
    parts = len(question.parts)
    for right, convention in zip(question.right, SAFE.conventions, strict=False):
        words = [SAFE.say(question, part, convention) for part in question.parts]
        for seat in range(parts):
            others = words[:seat] + words[seat + 1 :]
            assert SAFE.hear(question, [question.parts[seat]], others, convention) == right


def test_experts_put_reports_in_order_and_believe_them() -> None:
    question = drawn(1, 3, 1)[0]
    (_, c0, _), (_, c1, s1), (_, c2, s2) = question.parts
    own = [question.parts[0]]
    assert SAFE.hear(question, own, [(c1,), (c2,)], "colours") == question.answer
    assert SAFE.hear(question, own, [(c1,), (s2,)], "colours") == f"{c0} {c1} {s2}"
    assert SAFE.hear(question, own, [(s1, c1), (c2, s2)], "colours") == question.answer
    assert SAFE.hear(question, own, [("door",), (c2,)], "colours") == f"{c0} door {c2}"
    assert SAFE.hear(question, own, [(), (c2,)], "colours") == question.lure
    assert SAFE.hear(question, own, [(c1,)], "colours") == question.lure
    assert SAFE.hear(question, [], [(c0,), (c1,), (c2,)], "colours") == question.answer


def followed(question: Question, report: str) -> str | None:
    """Which convention a report of the first part follows."""
    return SAFE.followed(question, question.parts[0], words_of(report))


def test_a_worn_description_is_no_convention() -> None:
    question = SAFE.draw(random.Random(0), 1, 3, NO_SHAPES)
    assert SAFE.conventions_of(question) == ("colours",)
    assert followed(question, f"[{question.parts[0][1]}]") == "colours"
    assert followed(question, "") is None  # saying nothing names no shape
    assert followed(question, "[star]") is None
    both = SAFE.draw(random.Random(0), 1, 3, BOTH)
    assert followed(both, "[{}][{}]".format(*both.parts[0][1:])) is None


@pytest.mark.parametrize(
    "text",
    [
        "Answer: {0} {1}",  # both
        "Answer: {0} or {1}",
        "Answer: {0} / {1}",
        "Answer: {1}, {0}",
        "Answer: {0}\nAnswer: {1}",
        "Answer: {0}\nAnswer: {0}",
        "Answer: {lure}",
        "Answer: {mixed}",
        "Answer: {reversed}",
        "Answer: {short}",
        "Answer: {0} {0}",
        "Answer: \u2067{0}",  # a mark of direction
        "Answer: {cyrillic}",
        "Answer: {wide}",
        "Answer: {zero}",
        "Answer: {joined}",
        "[{0}]",
    ],
)
def test_what_only_looks_right_is_wrong(text: str) -> None:
    question = next(q for q in drawn(1, 3, 9) if q.answer == "gold red blue")
    colours, shapes = question.right
    first, second, third = colours.split()
    given = text.format(
        *question.right,
        lure=question.lure,
        mixed=f"{first} {second} {shapes.split()[2]}",
        reversed=f"{third} {second} {first}",
        short=f"{first} {second}",
        cyrillic=colours.replace("e", "\u0435"),
        wide=colours.replace("e", "\uff45"),
        zero=colours.replace("e", "e\u200b"),
        joined=colours.replace(" ", ""),
    )
    assert first != third
    assert "e" in colours
    assert not is_right(question, read_answer(given))


@pytest.mark.parametrize(
    "text",
    ["[{}][{}][{}]", "{} {} {}", "[{} {} {}].", "  {}   [{}] {} ", "{}][{} {}", "[[{}] {} {}]"],
)
def test_brackets_case_and_spaces_do_not_matter(text: str) -> None:
    question = drawn(1, 3, 1)[0]
    for right in question.right:
        for said in (right, right.upper()):
            assert is_right(question, read_answer("Answer: " + text.format(*said.split())))


def test_all_right_answers_survive_being_a_task_in_json() -> None:
    for question in (*drawn(1, 3, 9), KINDS["trail"].draw(random.Random(0), 1, 3, 0)):
        task = task_of(question, "a", "train")
        again = type(task)(task.id, task.split, json.loads(json.dumps(dict(task.data))))
        assert question_of(again) == question


def test_possible_answers_by_hand() -> None:
    both, one = (SAFE.draw(random.Random(0), 1, 3, turn) for turn in (BOTH, NO_SHAPES))
    assert (SAFE.possible(both), SAFE.possible(one)) == (2 * 4**3, 4**3)
    assert blind_guess(both) == blind_guess(one) == 1 / 64
    assert blind_guess(SAFE.draw(random.Random(0), 2, 9, 0)) == 1 / 8**9


@pytest.mark.parametrize(("kind", "parts"), [("safe", 2), ("safe", 3), ("order", 2)])
def test_harder_questions_hold_a_word_that_easier_ones_cannot(kind: str, parts: int) -> None:
    source = ProceduralQuestions("ood", kinds=[kind], parts=parts)
    harder = [question_of(task) for task in source]
    assert len(harder) == 1024
    assert {KINDS[kind].lowest(question) for question in harder} == {2}
    names = {name for words in SAFE.tables(1) for name in words} | {*NAMES.at(1)}
    for question in harder:
        words = [word for part in question.parts for word in part] + question.lure.split()
        assert any(word and not word.isdigit() and word not in names for word in words)
    seen = {
        question_of(task).identity()
        for split in ("train", "val", "test")
        for task in ProceduralQuestions(split, kinds=[kind], parts=parts)
    }
    assert not seen & {question.identity() for question in harder}


def test_a_source_needs_no_hash() -> None:
    @dataclass
    class Mine(ListSource):
        name: str

        def __post_init__(self) -> None:
            ListSource.__init__(self, [task_of(drawn(1, 3, 1)[0], self.name, "train")], "train")

    source = Mine("a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(source)
    assert constant_accuracy(source) == {"safe": 1.0}
    env = make("debate-v0", tasks=source)
    env.reset(seed=0)
    while env.agents:
        env.step(None if env.terminations[env.agent_selection] else "Answer: red")
    many = [Mine(str(i)) for i in range(100)]
    assert constant_accuracy(source) is constant_accuracy(source)
    assert [constant_accuracy(one) for one in many] == [{"safe": 1.0}] * 100


def test_a_constant_is_measured_against_every_right_answer() -> None:
    rows = [{"question": f"{i}?", "answer": f"a{i}", "also": ["z"], "kind": "k"} for i in range(4)]
    assert constant_accuracy(question_tasks(rows, split="all")) == {"k": 1.0}
