"""What each author contributed, found by replacing the helper and running the tests again.

Owns the replacement programs and the arithmetic of contributions. Running them is the sandbox's
business, paying for them `rewards.py`'s.

The helper's contribution is the share of tests that are lost when `aux` is replaced, in the
replacement that loses least. Each replacement answers one kind of forged cooperation:

| replacement of `aux` | who gains nothing under it |
|---|---|
| three plausible wrong values, one of the same shape | main that uses no value, or a length only |
| its first argument | a helper that is the identity |
| its most frequent value, with the helper's own code behind it and without | a password |
| the length of its first argument | a helper that only measures |
| an exception | main that has a solution of its own to fall back on |

A test is lost to wrong values only if main's three answers are not all the same: a main that
solves the task alone and gives up when `aux` differs from its own value answers the same each time.
Where main's answer or every value of the helper is a bool there is one wrong value only, and the
rule is left out.

Main's contribution is the share of tests that pass though main's result is none of the helper's
values, nor what two trivial mains make of them: the first item, or another type.

This is a heuristic, not a proof. Empty inputs and the like pass without the helper, so an honest
helper's share is rarely 1 (5/9 to 7/8 for the references of the bundled problems), and that share
is all that a forged team loses. A main that recomputes the helper's value, compares, and makes up
something that varies with a wrong one cannot be told from one that uses it; nor can a main that
decodes an answer which the helper has encoded be told from one that works on a helper's result.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.coding.syntax import Program, find_function
from llm_marl_envs.sandbox import HelperCall, Verdict
from llm_marl_envs.sandbox.jail.source import ERRORS, parse

# Runs behind the helper's own source. `_seen` keeps recursion of the helper out of it: only the
# value that leaves the program is replaced.
_WRAPPER = """

def _llm_marl_replace(function):
    inside = []
    def aux(*args, **kwargs):
        if inside:
            return function(*args, **kwargs)
        inside.append(True)
        try:
            value = function(*args, **kwargs)
            if hasattr(value, "__next__"):
                value = list(value)
        finally:
            inside.clear()
        return _llm_marl_value(value, args)
    return aux

aux = _llm_marl_replace(aux)
"""

_WRONG = """

def _llm_marl_value(value, args):
    draw = 0
    try:
        text = repr(args)
    except ValueError:
        text = ""
    for character in text[:2000]:
        draw = (draw * 31 + ord(character)) % 1000003
    return _llm_marl_wrong(value, draw)

def _llm_marl_letter(c, step):
    if c.isdigit():
        return chr(48 + (ord(c) + step) % 10)
    return chr(97 + (ord(c) + step) % 26) if c.isalpha() else c

def _llm_marl_wrong(value, draw):
    near = 1 + draw % 3
    step = {step}
    kind = type(value)
    if kind is bool:
        return not value
    if kind in (int, complex):
        return value + step
    if kind is float:
        return value + step / 2
    if kind is str:
        wrong = "".join(_llm_marl_letter(c, step) for c in value)
        wrong = wrong if wrong != value else value[:-1] + chr(100 + step)
        return {text}
    if kind in (list, tuple):
        wrong = [_llm_marl_wrong(item, draw + i) for i, item in enumerate(value)]
        return kind({sequence})
    if kind in (set, frozenset):
        return kind(_llm_marl_wrong(item, draw) for item in value) or kind([step])
    if kind is dict:
        return {{key: _llm_marl_wrong(item, draw) for key, item in value.items()}} or {{step: step}}
    return step if value is None else value
"""
# What a wrong value is made with: the distance of numbers and letters (`near` is 1, 2 or 3 and
# depends on the arguments), the text and the sequence (`wrong` has the length of `value`). No two
# give the same number. The first keeps lengths, so that a look at one is no use of the value.
_RECIPES = (
    ("near", "wrong", "wrong or [step]"),
    ("-near", 'wrong[1:] + wrong[:2] or "b"', "wrong[1:] + wrong[:2] or [step]"),
    ("near + 3", 'wrong[::-1] + "c"', "(wrong[::-1] + [value[0]]) if value else [step]"),
)

_UNPACK = """
    if isinstance(value, dict):
        value = list(value.values())
    return value[0]
"""
_CONVERT = """
    if isinstance(value, (str, float)):
        return int(value)
    if isinstance(value, int):
        return str(value)
    return tuple(value) if isinstance(value, list) else list(value)
"""


@dataclass(frozen=True, slots=True)
class Contribution:
    """Who contributed to the tests that pass, in shares of all tests.

    Attributes:
        helper: tests lost without the helper's value, in the replacement that loses least.
        main: tests passed on which main's result is, type-strictly, none of the values that `aux`
            returned, and that no trivial main passes.
        cooperative_success: all tests pass, and under no replacement do they all pass still.
        complete: all runs were made; else the shares are the least that they can be.
    """

    helper: float
    main: float
    cooperative_success: bool
    complete: bool = True


def wrong_helpers(source: str) -> list[str]:
    """The helper with each of its values replaced by a plausible wrong one, in three ways.

    A wrong value depends on the way, the arguments and the value alone.
    """
    return [
        source + _WRONG.format(step=step, text=text, sequence=sequence) + _WRAPPER
        for step, text, sequence in _RECIPES
    ]


def trivial_helpers(helper: Program, trace: Sequence[HelperCall]) -> list[str]:
    """Helpers that know nothing: an argument, a length, a constant, an exception; no duplicates.

    Args:
        helper: the helper's program, which defines `aux`.
        trace: the calls made of it.
    """
    values = [
        "args[0] if args else None",
        "len(args[0]) if args and hasattr(args[0], '__len__') else 0",
    ]
    constant = _most_frequent([call[3] for call in trace])
    if constant is not None:
        values.append(constant)
    wrapped = [
        f"{helper.source}\n\ndef _llm_marl_value(value, args):\n    return {value}\n{_WRAPPER}"
        for value in values
    ]
    # With the helper's own parameters, so that main cannot tell by calling it wrongly.
    parameters = _parameters(helper)
    bare = [f"def aux({parameters}):\n    raise ValueError('no value')\n"]
    if constant is not None:
        bare.append(f"def aux({parameters}):\n    return {constant}\n")
    return list(dict.fromkeys([*wrapped, *bare]))


def trivial_mains(entry_point: str) -> list[str]:
    """Mains that leave all work to `aux`: its first item, its value as another type."""
    return [
        f"def {entry_point}(*args, **kwargs):\n    value = aux(*args, **kwargs)\n{body}"
        for body in (_UNPACK, _CONVERT)
    ]


def judge(
    intact: Verdict,
    wrong: Sequence[Verdict],
    trivial: Sequence[Verdict],
    mains: Sequence[Verdict],
) -> Contribution:
    """Contributions from the run as it was and the runs with replaced helpers.

    Args:
        intact: the team's own run; `outcomes` holds one entry per test.
        wrong: runs with `wrong_helpers`.
        trivial: runs with `trivial_helpers`.
        mains: runs with `trivial_mains`.
    """
    total = len(intact.outcomes)
    passing = [i for i, outcome in enumerate(intact.outcomes) if outcome.passed]
    boolean = all(isinstance(call[3], bool) for call in intact.helper_trace)
    reacting = [i for i in passing if boolean or _reacts(i, wrong)]
    losses = [sum(not _passed(run, i) for i in reacting) for run in wrong]
    losses += [sum(not _passed(run, i) for i in passing) for run in trivial]
    main = sum(
        not intact.outcomes[i].relayed and not any(_passed(run, i) for run in mains)
        for i in passing
    )
    return Contribution(
        helper=min(losses, default=0) / total,
        main=main / total,
        cooperative_success=len(passing) == total and min(losses, default=0) > 0,
    )


def _passed(run: Verdict, test: int) -> bool:
    return test < len(run.outcomes) and run.outcomes[test].passed


def _reacts(test: int, wrong: Sequence[Verdict]) -> bool:
    """Whether main's answers to different wrong values differ, or could not."""
    answers = {
        "passed" if _passed(run, test) else run.outcomes[test].error
        for run in wrong
        if test < len(run.outcomes)
    }
    return len(answers) > 1 or any(a.endswith(("returned True", "returned False")) for a in answers)


def _most_frequent(values: Sequence[Any]) -> str | None:
    """The most frequent value as source, the earliest of equals; None where none has a source."""
    counts = Counter(text for text in map(_source_of, values) if text is not None)
    return counts.most_common(1)[0][0] if counts else None


def _source_of(value: Any) -> str | None:
    """A value as a literal; None where it has none: nan, a Decimal, an opaque or a huge value."""
    try:
        text = repr(value)
        ast.literal_eval(parse(text, mode="eval"))
    except ERRORS:
        return None
    return text


def _parameters(helper: Program) -> str:
    """The parameters of `aux`, by their names: what else stands there may be of any depth."""
    function = find_function(helper, "aux")
    if function is None:
        return "*args, **kwargs"
    given = function.args
    return ast.unparse(
        ast.arguments(
            posonlyargs=_bare(given.posonlyargs),
            args=_bare(given.args),
            vararg=given.vararg and ast.arg(given.vararg.arg),
            kwonlyargs=_bare(given.kwonlyargs),
            kw_defaults=[default and ast.Constant(None) for default in given.kw_defaults],
            kwarg=given.kwarg and ast.arg(given.kwarg.arg),
            defaults=[ast.Constant(None) for _ in given.defaults],
        )
    )


def _bare(parameters: Sequence[ast.arg]) -> list[ast.arg]:
    return [ast.arg(parameter.arg) for parameter in parameters]
