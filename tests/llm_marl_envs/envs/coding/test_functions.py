"""The procedural coding tasks: every text, program, test, split and bound is checked against the
definition of the function, without running model text and without torch."""

import ast
import doctest
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from llm_marl_envs.envs.coding import composition as composition_module
from llm_marl_envs.envs.coding import functions
from llm_marl_envs.envs.coding.composition import (
    KINDS,
    Composition,
    conventions,
    describe_full,
    describe_helper,
    describe_main,
    evaluate,
    expert,
)
from llm_marl_envs.envs.coding.conventions import read_convention, roles_of
from llm_marl_envs.envs.coding.vocabulary import (
    FOLD_OPS,
    ITEM_OPS,
    PREDICATES,
    REDUCTIONS,
    SEQUENCE_OPS,
)

TASKS = [task for split in functions.SPLITS for task in functions.compositions(split)]
SAMPLE = TASKS[::17]
ROLES = roles_of(2)
SQUARES = Composition("item", ("even",), "x times x", "the sum of {}")
FOLD = Composition("fold", ("over 4",), "a minus 2 times b", "10")
KEPT_FOR_OOD = {
    one.words
    for table in (ITEM_OPS, FOLD_OPS, SEQUENCE_OPS, REDUCTIONS)
    for one in table.values()
    if one.kept_for == "ood"
}
RUNNING = Composition("sequence", ("odd",), "its running sums", "the sorted list of {}")


def run(*programs: str) -> dict[str, Any]:
    """Execute trusted programs, our own experts, in one namespace."""
    names: dict[str, Any] = {}
    for program in programs:
        exec(program, names)
    return names


def passed(task: Composition, helper: str, main: str) -> float:
    names = run(helper, main)
    count = 0
    for line in functions.asserts(task):
        try:
            exec(line, names)
            count += 1
        except (AssertionError, TypeError, ValueError):
            pass
    return count / len(functions.asserts(task))


def test_answers_worked_by_hand() -> None:
    assert evaluate(SQUARES, [1, 2, 4, -3]) == 4 + 16
    assert evaluate(FOLD, [5, 1, 6]) == (10 - 2 * 5) - 2 * 6
    assert evaluate(RUNNING, [5, 2, -7, 3]) == [-2, 1, 5]  # 5, -2, 1 sorted
    two = Composition("item", ("odd", "positive"), "minus x", "the list of {}, in the same order")
    assert evaluate(two, [3, 2, -1, 5]) == [-3, -5]
    assert evaluate(SQUARES, []) == 0


def test_texts() -> None:
    assert describe_helper(FOLD) == "The zup of a and b is a minus 2 times b."
    assert describe_main(FOLD) == (
        "Start with t = 10. For each number x in xs that is over 4, in order, set t to the zup "
        "of t and x. Return t."
    )
    assert describe_helper(RUNNING) == "The zup of a list is the list of its running sums."
    assert describe_full(SQUARES) == f"{describe_helper(SQUARES)} {describe_main(SQUARES)}"
    for task in TASKS:  # each seat lacks the other's part
        assert task.op not in describe_main(task)
        assert not any(name in describe_helper(task) for name in ("xs", "numbers in xs"))
    assert doctest.testmod(composition_module).failed == 0


def test_tables_code_is_their_callable() -> None:
    numbers = [-9, -4, -1, 0, 1, 2, 5, 6, 7, 10, 15]
    for one in (*PREDICATES.values(), *ITEM_OPS.values()):
        assert [eval(one.code, {"x": x}) for x in numbers] == [one.call(x) for x in numbers]
    for one in FOLD_OPS.values():
        for a, b in itertools.product(numbers, repeat=2):
            assert eval(one.code, {"a": a, "b": b}) == one.call(a, b)
    for xs in map(list, functions.TESTS):
        for one in SEQUENCE_OPS.values():
            assert eval(one.code, {"xs": xs}) == one.call(xs)
        for one in REDUCTIONS.values():
            assert eval(one.code.format("xs"), {"xs": xs}) == one.call(xs)


def test_agreeing_experts_pass_and_disagreeing_ones_fail() -> None:
    """Who disagrees passes a test only where no number is kept, so that `aux` is not called."""
    for task in SAMPLE[::3]:
        idle = sum(not composition_module.keep(task.predicates, xs) for xs in functions.TESTS)
        for ours, theirs in itertools.product(conventions(task), repeat=2):
            share = passed(
                task,
                expert(task, "helper", ours),
                expert(task, "main", theirs),
            )
            if ours == theirs:
                assert share == 1.0
            else:
                assert share <= idle / len(functions.TESTS) < 0.5


def test_no_operation_on_a_number_takes_a_list() -> None:
    for op in ITEM_OPS.values():
        with pytest.raises(TypeError):
            op.call([3, 4])


def test_conventions_of_experts_are_read() -> None:
    for task in SAMPLE:
        for role, convention in itertools.product(ROLES, conventions(task)):
            text = expert(task, role, convention)
            assert read_convention(task.kind, role, text) == convention


@pytest.mark.parametrize(
    ("kind", "role", "text", "convention"),
    [
        ("item", "helper", "def aux(n: int) -> int:\n    return max(n, 2)", "item"),
        ("item", "helper", "def aux(numbers: list[int]):\n    return numbers", "list"),
        (
            "item",
            "helper",
            "def aux(v):\n    out = []\n    for x in v:\n        out.append(x)",
            "list",
        ),
        ("item", "helper", "def aux(a, b):\n    return a", None),
        ("item", "helper", "def helper(x):\n    return x", None),
        ("item", "helper", "def aux(x)\n    return x", None),
        ("fold", "helper", "def aux(p):\n    return p[0] - p[1]", "pair"),
        ("fold", "helper", "def aux(a, b, c):\n    return a", None),
        ("item", "main", "def solve(xs):\n    return sum(map(aux, xs))", "item"),
        ("item", "main", "def solve(xs):\n    ys = [x for x in xs]\n    return aux(ys)", "list"),
        ("item", "main", "def solve(xs):\n    return aux(xs[1:])", "list"),
        ("item", "main", "def solve(xs):\n    return sum(xs)", None),
        ("fold", "main", "import functools\nt = functools.reduce(aux, [1, 2])", "args"),
        ("sequence", "main", "def solve(xs):\n    return [aux(x) for x in xs]", None),
        ("sequence", "main", "def solve(xs):\n    return aux(sorted(xs))", "list"),
    ],
)
def test_conventions_of_other_texts(
    kind: str, role: str, text: str, convention: str | None
) -> None:
    assert read_convention(kind, role, text) == convention


@pytest.mark.parametrize(
    "text",
    [
        "def aux(x):\n    return y" + "[0]" * 2000,
        "def aux(x):\n    return [y for y in " + "[y for y in " * 60 + "[]" + "]" * 61,
    ],
)
def test_conventions_are_read_in_linear_time(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A program's text must not keep the environment's own process busy."""
    seen = []
    children = ast.iter_child_nodes

    def counted(node: ast.AST) -> Iterator[ast.AST]:
        seen.append(node)
        return children(node)

    nodes = sum(1 for _ in ast.walk(ast.parse(text)))
    monkeypatch.setattr(ast, "iter_child_nodes", counted)
    for kind, role in itertools.product(("item", "fold", "sequence"), ROLES):
        read_convention(kind, role, text)
    assert len(seen) <= 20 * nodes


def test_tests_tell_every_task_from_every_other() -> None:
    """All tasks have the tests' inputs in common, so different answers are different tests."""
    answers = {tuple(map(str, functions.answers_of(task))) for task in TASKS}
    assert len(answers) == len(TASKS) >= 8000
    for task in SAMPLE:
        lines = functions.asserts(task)
        for line, xs in zip(lines, functions.TESTS, strict=True):
            assert line == f"assert solve({list(xs)}) == {evaluate(task, xs)}"
        right = Counter(line.split(" == ")[1] for line in lines)
        assert right.most_common(1)[0][1] <= functions.MAX_SAME_ANSWER == 3


PROMPTS = {
    split: (
        {describe_helper(task) for task in functions.compositions(split)},
        {describe_main(task) for task in functions.compositions(split)},
    )
    for split in functions.SPLITS
}


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+|[^\w\s]", text))


def test_splits() -> None:
    """The page's counts are these."""
    counts = {
        split: (len(functions.compositions(split)), *map(len, PROMPTS[split]))
        for split in functions.SPLITS
    }
    assert counts == {
        "train": (2373, 84, 152),
        "val": (375, 40, 34),
        "test": (686, 44, 58),
        "test_prompts": (763, 36, 76),
        "ood": (3882, 125, 294),
    }
    for split in functions.SPLITS:
        tasks = functions.compositions(split)
        assert {task.kind for task in tasks} == set(KINDS)
        assert {functions.split_of(task) for task in tasks[::7]} == {split}


def test_pairs_of_prompts_are_new_in_val_and_test() -> None:
    pairs = {
        split: {
            (describe_helper(task), describe_main(task)) for task in functions.compositions(split)
        }
        for split in functions.SPLITS
    }
    for one, other in itertools.combinations(functions.SPLITS, 2):
        assert not pairs[one] & pairs[other]
    for split in ("val", "test"):
        assert all(new <= read for new, read in zip(PROMPTS[split], PROMPTS["train"], strict=True))


@pytest.mark.parametrize("seat", [0, 1])
def test_prompts_are_new_in_test_prompts_and_their_words_are_not(seat: int) -> None:
    read, new = PROMPTS["train"][seat], PROMPTS["test_prompts"][seat]
    assert not read & new
    assert set().union(*map(words_of, new)) <= set().union(*map(words_of, read))


def test_one_seat_at_least_reads_something_unheard_of_in_ood() -> None:
    for task in functions.compositions("ood"):
        new = {task.op, task.ending} & KEPT_FOR_OOD
        assert new or len(task.predicates) == 2
    for split in ("train", "val", "test", "test_prompts"):
        for task in functions.compositions(split):
            assert not {task.op, task.ending} & KEPT_FOR_OOD
            assert len(task.predicates) == 1
    heard = {task.op for split in functions.SPLITS for task in functions.compositions(split)}
    assert heard == {*ITEM_OPS, *FOLD_OPS, *SEQUENCE_OPS}


def test_functions_without_need_of_the_operation_are_no_tasks() -> None:
    for op, ending in [
        ("x", "the sorted list of {}"),
        ("the absolute value of x", "the sum of {}"),  # the numbers are positive
    ]:
        assert Composition("item", ("positive",), op, ending) not in TASKS
    maxima = Composition(
        "sequence", ("odd",), "its running maxima", "the largest of {}, or 0 if there are none"
    )
    assert maxima not in TASKS
    assert functions.split_of(Composition("item", ("odd",), "x", "the sorted list of {}")) is None


def test_one_function_has_one_split_whatever_its_words() -> None:
    as_fold = Composition("fold", ("over 1",), "a plus b", "0")
    as_sum = Composition("item", ("over 1",), "x", "the sum of {}")
    assert functions.answers_of(as_fold) == functions.answers_of(as_sum)
    assert functions.split_of(as_sum) == functions.split_of(as_fold)
    assert functions.split_of(as_fold) in functions.SPLITS


def test_items_are_a_function_of_seed_split_and_index() -> None:
    train = functions.compositions("train")
    dealt = [functions.composition_at(3, "train", i) for i in range(len(train))]
    assert set(dealt) == set(train)
    assert functions.composition_at(3, "train", len(train) + 5) in train
    assert dealt[:9] != [functions.composition_at(4, "train", i) for i in range(9)]
    code = (
        "from llm_marl_envs.envs.coding import functions\n"
        "nine = [functions.composition_at(3, 'train', i) for i in range(9)]\n"
        "print(nine)\n"
        "print(functions.asserts(functions.composition_at(3, 'test', 0)))"
    )
    outputs = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert outputs.pop().split("\n")[0] == str(dealt[:9])


def test_errors_say_what_came_and_what_was_expected() -> None:
    with pytest.raises(ValueError, match="expected one of"):
        Composition("map", ("even",), "x times x", "the sum of {}")
    with pytest.raises(ValueError, match="vocabulary"):
        Composition("item", ("even",), "x squared", "the sum of {}")
    with pytest.raises(ValueError, match="vocabulary"):
        Composition("fold", ("even",), "a plus b", "the sum of {}")
    with pytest.raises(ValueError, match="convention"):
        expert(RUNNING, "helper", "item")
    with pytest.raises(ValueError, match="split is 'dev'"):
        functions.compositions("dev")
    with pytest.raises(ValueError, match="expected 0 or more"):
        functions.composition_at(0, "train", -1)
    with pytest.raises(ValueError, match="role"):
        read_convention("item", "judge", "")
