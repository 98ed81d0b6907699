"""The vocabulary of the procedural coding tasks: predicates, private operations, reductions.

This module owns the words of each primitive, the Python text of it and the callable that decides
what is right. How primitives are put together into tasks is `functions.py`.

A primitive's `words` are also its key, so that a task reads like its own description:
`Composition("item", ("even",), "x times x", "the sum of {}")`. A test holds that `code` and `call`
agree on every probe.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Primitive:
    """One building block of a task."""

    words: str
    """How prompts say it. Reductions have one `{}` for what is reduced."""
    code: str
    """A Python expression over the parameter names of its table; reductions have one `{}`."""
    call: Callable[..., Any]
    """The same as a callable: what is right is decided by this and never by model text."""


def _table(*rows: tuple[str, str, Callable[..., Any]]) -> dict[str, Primitive]:
    return {words: Primitive(words, code, call) for words, code, call in rows}


PREDICATES = _table(  # of one int, x
    ("even", "x % 2 == 0", lambda x: x % 2 == 0),
    ("odd", "x % 2 == 1", lambda x: x % 2 == 1),
    ("positive", "x > 0", lambda x: x > 0),
    ("negative", "x < 0", lambda x: x < 0),
    ("over 4", "x > 4", lambda x: x > 4),
    ("under 6", "x < 6", lambda x: x < 6),
    ("over 1", "x > 1", lambda x: x > 1),
    ("under 3", "x < 3", lambda x: x < 3),
    ("divisible by 3", "x % 3 == 0", lambda x: x % 3 == 0),
    ("not divisible by 3", "x % 3 != 0", lambda x: x % 3 != 0),
    ("not divisible by 5", "x % 5 != 0", lambda x: x % 5 != 0),
    ("between 0 and 9", "0 <= x <= 9", lambda x: 0 <= x <= 9),
)

PREDICATE_PAIRS = (  # the longer compositions, all in the `ood` split
    ("even", "under 6"),
    ("odd", "positive"),
    ("under 6", "not divisible by 3"),
    ("over 1", "not divisible by 5"),
)

# Every operation on one int raises on a list: where helper and main disagree on the interface the
# program must fail. (`x * 2` would repeat the list, and the sum of that is the right answer.)
ITEM_OPS = _table(  # of one int, x
    ("x times x", "x * x", lambda x: x * x),
    ("x plus 3", "x + 3", lambda x: x + 3),
    ("7 minus x", "7 - x", lambda x: 7 - x),
    ("minus x", "-x", lambda x: -x),
    ("1 less than twice x", "2 * x - 1", lambda x: 2 * x - 1),
    ("2 more than three times x", "3 * x + 2", lambda x: 3 * x + 2),
    ("1 more than x times x", "x * x + 1", lambda x: x * x + 1),
    ("the absolute value of x", "abs(x)", lambda x: abs(x)),
    ("the distance between x and 5", "abs(x - 5)", lambda x: abs(x - 5)),
    ("half of x rounded down", "x // 2", lambda x: x // 2),
    ("a third of x rounded down", "x // 3", lambda x: x // 3),
    ("x modulo 4", "x % 4", lambda x: x % 4),
    ("x modulo 7", "x % 7", lambda x: x % 7),
    ("the larger of x and 2", "max(x, 2)", lambda x: max(x, 2)),
    ("the smaller of x and 7", "min(x, 7)", lambda x: min(x, 7)),
    ("1 if x is over 2 and 0 otherwise", "int(x > 2)", lambda x: int(x > 2)),
)

FOLD_OPS = _table(  # of two ints, a (what has been gathered) and b (the next number)
    ("a plus b", "a + b", lambda a, b: a + b),
    ("a minus b", "a - b", lambda a, b: a - b),
    ("b minus a", "b - a", lambda a, b: b - a),
    ("a minus twice b", "a - 2 * b", lambda a, b: a - 2 * b),
    ("b more than twice a", "2 * a + b", lambda a, b: 2 * a + b),
    ("b minus twice a", "b - 2 * a", lambda a, b: b - 2 * a),
    ("a plus b times b", "a + b * b", lambda a, b: a + b * b),
    ("the larger of a and b", "max(a, b)", lambda a, b: max(a, b)),
    ("the smaller of a and b", "min(a, b)", lambda a, b: min(a, b)),
    ("the distance between a and b", "abs(a - b)", lambda a, b: abs(a - b)),
    ("half of a rounded down, plus b", "a // 2 + b", lambda a, b: a // 2 + b),
    ("(a + b) modulo 7", "(a + b) % 7", lambda a, b: (a + b) % 7),
)

SEQUENCE_OPS = _table(  # of a list of ints, xs; the value of one place depends on other places
    (
        "its running sums",
        "[sum(xs[:i + 1]) for i in range(len(xs))]",
        lambda xs: [sum(xs[: i + 1]) for i in range(len(xs))],
    ),
    (
        "its running maxima",
        "[max(xs[:i + 1]) for i in range(len(xs))]",
        lambda xs: [max(xs[: i + 1]) for i in range(len(xs))],
    ),
    ("its numbers without repeats", "list(dict.fromkeys(xs))", lambda xs: list(dict.fromkeys(xs))),
    ("all but its first number", "xs[1:]", lambda xs: xs[1:]),
    (
        "each number but the first minus the one before it",
        "[b - a for a, b in zip(xs, xs[1:])]",
        lambda xs: [b - a for a, b in pairwise(xs)],
    ),
    (
        "each number but the first plus the one before it",
        "[b + a for a, b in zip(xs, xs[1:])]",
        lambda xs: [b + a for a, b in pairwise(xs)],
    ),
)

REDUCTIONS = _table(  # of a list of ints
    ("the sum of {}", "sum({})", lambda values: sum(values)),
    (
        "the largest of {}, or 0 if there are none",
        "max({}, default=0)",
        lambda values: max(values, default=0),
    ),
    (
        "the smallest of {}, or 0 if there are none",
        "min({}, default=0)",
        lambda values: min(values, default=0),
    ),
    ("the list of {}, in the same order", "{}", lambda values: values),
    ("the sorted list of {}", "sorted({})", lambda values: sorted(values)),
    (
        "the sum of all but the largest of {}",
        "sum(sorted({})[:-1])",
        lambda values: sum(sorted(values)[:-1]),
    ),
    ("the list of {}, from last to first", "{}[::-1]", lambda values: values[::-1]),
)

STARTS = (0, 1, 2, 3, 5, 7, 10)

HELD_OUT_REDUCTION = "the list of {}, from last to first"

HELD_OUT_PAIRS = frozenset(
    {
        ("x times x", "the sorted list of {}"),
        ("half of x rounded down", "the sum of {}"),
        ("7 minus x", "the largest of {}, or 0 if there are none"),
        ("x modulo 4", "the list of {}, in the same order"),
        ("its running sums", "the smallest of {}, or 0 if there are none"),
        ("all but its first number", "the sum of {}"),
        ("a minus twice b", "1"),
        ("the larger of a and b", "3"),
    }
)
"""(operation, reduction or start) that no train, val or test task puts together."""
