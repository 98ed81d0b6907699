"""The vocabulary of the procedural coding tasks: predicates, private operations, reductions.

This module owns the words of each primitive, the Python text of it, the callable that decides what
is right, and the splits for which words are kept back. How primitives are put together into tasks
is `functions.py`.

A primitive's `words` are also its key, so that a task reads like its own description:
`Composition("item", ("even",), "x times x", "the sum of {}")`. A test holds that `code` and `call`
agree on every probe.
"""

from collections.abc import Callable, Iterator
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
    kept_for: str = ""
    """Why no prompt of `train`, `val` or `test` says it, "" for none: `test_prompts` where every
    word of it occurs in prompts of `train`, `ood` where some word does not, or an order of them."""


NUMBERS = range(2, 8)
"""What a numbered operation is about: one digit, and not 1, with which some of them do nothing."""


def _table(*rows: Primitive) -> dict[str, Primitive]:
    return {row.words: row for row in rows}


def _numbered(
    words: str, code: str, call: Callable[[int], Callable[..., Any]], unread: tuple[int, int]
) -> Iterator[Primitive]:
    """An operation for each of `NUMBERS`, for which `{}` stands; `unread` are for `test_prompts`.

    A third of the numbers, another third for the next operation: every number stays in use.
    """
    for n in NUMBERS:
        kept_for = "test_prompts" if n in unread else ""
        yield Primitive(words.format(n), code.format(n), call(n), kept_for)


def _running(reduce: Callable[[list[int]], int]) -> Callable[[list[int]], list[int]]:
    return lambda xs: [reduce(xs[: i + 1]) for i in range(len(xs))]


PREDICATES = _table(  # of one int, x
    Primitive("even", "x % 2 == 0", lambda x: x % 2 == 0),
    Primitive("odd", "x % 2 == 1", lambda x: x % 2 == 1),
    Primitive("positive", "x > 0", lambda x: x > 0),
    Primitive("negative", "x < 0", lambda x: x < 0),
    Primitive("over 4", "x > 4", lambda x: x > 4),
    Primitive("under 6", "x < 6", lambda x: x < 6),
    Primitive("over 1", "x > 1", lambda x: x > 1),
    Primitive("under 3", "x < 3", lambda x: x < 3),
    Primitive("divisible by 3", "x % 3 == 0", lambda x: x % 3 == 0),
    Primitive("not divisible by 3", "x % 3 != 0", lambda x: x % 3 != 0),
    Primitive("not divisible by 5", "x % 5 != 0", lambda x: x % 5 != 0),
    Primitive("between 0 and 9", "0 <= x <= 9", lambda x: 0 <= x <= 9),
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
    Primitive("x times x", "x * x", lambda x: x * x),
    Primitive("minus x", "-x", lambda x: -x),
    Primitive("the absolute value of x", "abs(x)", lambda x: abs(x)),
    *_numbered("x plus {}", "x + {}", lambda n: lambda x: x + n, (2, 5)),
    *_numbered("x minus {}", "x - {}", lambda n: lambda x: x - n, (3, 6)),
    *_numbered("{} minus x", "{} - x", lambda n: lambda x: n - x, (4, 7)),
    *_numbered("{} less than twice x", "2 * x - {}", lambda n: lambda x: 2 * x - n, (2, 5)),
    *_numbered("{} more than x times x", "x * x + {}", lambda n: lambda x: x * x + n, (3, 6)),
    *_numbered(
        "the distance between x and {}",
        "abs(x - {})",
        lambda n: lambda x: abs(x - n),
        (4, 7),
    ),
    *_numbered("x divided by {}, rounded down", "x // {}", lambda n: lambda x: x // n, (2, 5)),
    *_numbered("x modulo {}", "x % {}", lambda n: lambda x: x % n, (3, 6)),
    *_numbered("the larger of x and {}", "max(x, {})", lambda n: lambda x: max(x, n), (4, 7)),
    *_numbered("the smaller of x and {}", "min(x, {})", lambda n: lambda x: min(x, n), (2, 5)),
    Primitive("x to the power of 3", "x ** 3", lambda x: x**3, "ood"),
    Primitive("the number of digits of x", "len(str(abs(x)))", lambda x: len(str(abs(x))), "ood"),
)

INNER_OPS = (  # what the fourth author knows: few, so that each occurs beside every other word
    "x times x",
    "minus x",
    "the absolute value of x",
    "x plus 4",
    "3 minus x",
    "5 less than twice x",
    "x divided by 3, rounded down",
    "x modulo 4",
)

FOLD_OPS = _table(  # of two ints, a (what has been gathered) and b (the next number)
    Primitive("a plus b", "a + b", lambda a, b: a + b),
    Primitive("a minus b", "a - b", lambda a, b: a - b),
    Primitive("b minus a", "b - a", lambda a, b: b - a),
    Primitive("a plus b times b", "a + b * b", lambda a, b: a + b * b),
    Primitive("the larger of a and b", "max(a, b)", lambda a, b: max(a, b)),
    Primitive("the smaller of a and b", "min(a, b)", lambda a, b: min(a, b)),
    Primitive("the distance between a and b", "abs(a - b)", lambda a, b: abs(a - b)),
    *_numbered("a plus {} times b", "a + {} * b", lambda n: lambda a, b: a + n * b, (3, 6)),
    *_numbered("a minus {} times b", "a - {} * b", lambda n: lambda a, b: a - n * b, (4, 7)),
    *_numbered("{} minus a plus b", "{} - a + b", lambda n: lambda a, b: n - a + b, (2, 5)),
    *_numbered(
        "a divided by {} and rounded down, plus b",
        "a // {} + b",
        lambda n: lambda a, b: a // n + b,
        (3, 6),
    ),
    *_numbered("(a + b) modulo {}", "(a + b) % {}", lambda n: lambda a, b: (a + b) % n, (4, 7)),
    Primitive(
        "a if b is odd and b otherwise",
        "a if b % 2 == 1 else b",
        lambda a, b: a if b % 2 == 1 else b,
        "ood",
    ),
)

SEQUENCE_OPS = _table(  # of a list of ints, xs; the value of one place depends on other places
    Primitive(
        "its numbers without repeats", "list(dict.fromkeys(xs))", lambda xs: list(dict.fromkeys(xs))
    ),
    Primitive("its running sums", "[sum(xs[:i + 1]) for i in range(len(xs))]", _running(sum)),
    Primitive("its running maxima", "[max(xs[:i + 1]) for i in range(len(xs))]", _running(max)),
    *_numbered(
        "each number but the first plus {} times the one before it",
        "[b + {} * a for a, b in zip(xs, xs[1:])]",
        lambda n: lambda xs: [b + n * a for a, b in pairwise(xs)],
        (2, 5),
    ),
    *_numbered(
        "each number but the first minus {} times the one before it",
        "[b - {} * a for a, b in zip(xs, xs[1:])]",
        lambda n: lambda xs: [b - n * a for a, b in pairwise(xs)],
        (3, 6),
    ),
    *_numbered(
        "{} plus its running sums",
        "[{} + sum(xs[:i + 1]) for i in range(len(xs))]",
        lambda n: _running(lambda head: n + sum(head)),
        (4, 7),
    ),
    Primitive("every second one of its numbers", "xs[::2]", lambda xs: xs[::2], "ood"),
)

REDUCTIONS = _table(  # of a list of ints
    Primitive("the sum of {}", "sum({})", lambda values: sum(values)),
    Primitive(
        "the largest of {}, or 0 if there are none",
        "max({}, default=0)",
        lambda values: max(values, default=0),
    ),
    Primitive(
        "the smallest of {}, or 0 if there are none",
        "min({}, default=0)",
        lambda values: min(values, default=0),
    ),
    Primitive("the list of {}, in the same order", "{}", lambda values: values),
    Primitive("the sorted list of {}", "sorted({})", lambda values: sorted(values)),
    Primitive(
        "the sum of all but the largest of {}",
        "sum(sorted({})[:-1])",
        lambda values: sum(sorted(values)[:-1]),
    ),
    Primitive("the list of {}, from last to first", "{}[::-1]", lambda values: values[::-1], "ood"),
)

STARTS = (0, 1, 2, 3, 5, 7, 10)
