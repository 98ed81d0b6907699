"""One procedural coding task: what its function is, how prompts say it, programs that solve it.

A task is a `Composition`: keep the numbers of `xs` that a predicate likes, apply a private
operation ("the zup"), finish. Only the helper is told what the zup is, only main is told what to do
with zups, so the tests pass exactly when both parts are right and the interface between them
agrees. Three kinds: `item` (zup of one number, mapped, then reduced), `fold` (zup of two numbers,
folded from a start value) and `sequence` (zup of a whole list, then reduced).

The words come from `vocabulary.py`, interfaces from `conventions.py`; which compositions are tasks,
in which split and with which tests is `functions.py`.

>>> task = Composition("item", ("even",), "x times x", "the sum of {}")
>>> describe_helper(task)
'The zup of x is x times x.'
>>> describe_main(task)
'Return the sum of the zups of the numbers in xs that are even.'
>>> evaluate(task, [1, 2, 4])
20
"""

from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.coding.conventions import CONVENTIONS
from llm_marl_envs.coding.vocabulary import (
    FOLD_OPS,
    ITEM_OPS,
    PREDICATES,
    REDUCTIONS,
    SEQUENCE_OPS,
    Primitive,
)
from llm_marl_envs.sandbox import Contract

KINDS = tuple(CONVENTIONS)
ROLES = ("helper", "main")

HELPER_PROMPT = (
    "Write the Python function aux. Your partner writes solve(xs), which calls aux. "
    "Neither of you sees the other's code.\n{description}\nReply with code only."
)
"""The helper's one user message. `describe_helper` fills it, or `describe_full`."""

MAIN_PROMPT = (
    "Write the Python function solve(xs), which calls aux; xs is a list of ints. "
    "Your partner writes aux. Neither of you sees the other's code.\n{description}\n"
    "Reply with code only."
)
"""Main's one user message. `describe_main` fills it, or `describe_full`."""

CONTRACTS = {
    kind: Contract(forms=forms, largest=10**6, size=1_000, calls=1_000)
    for kind, forms in {
        "item": (("int",), ("ints",)),
        "fold": (("int", "int"), ("pair",)),
        "sequence": (("ints",),),
    }.items()
}
"""Kind -> the calls of `aux` that `describe_helper` allows, under every convention. The lists of
the tests have at most 8 numbers, from -9 to 15."""

Value = int | list[int]

OPS = {"item": ITEM_OPS, "fold": FOLD_OPS, "sequence": SEQUENCE_OPS}
"""Kind -> its table of operations."""
_PARAMETERS = {"item": "x", "fold": "a and b", "sequence": "a list"}

NOTHING = {
    "item": Primitive("x", "x", lambda x: x),
    "fold": Primitive("a", "a", lambda a, b: a),
    "sequence": Primitive("its numbers", "xs", lambda xs: xs),
}
"""Kind -> the operation that does nothing. Where it gives the same function no helper is needed."""


@dataclass(frozen=True)
class Composition:
    """One function, in the words of `vocabulary.py`; ValueError for words that are not there."""

    kind: str
    """`item`, `fold` or `sequence`."""
    predicates: tuple[str, ...]
    """Which numbers of `xs` are kept: those for which all of these hold."""
    op: str
    """The private operation, a key of the kind's table."""
    ending: str
    """What is done with the zups: a key of `REDUCTIONS`; for a fold, its start value in digits."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, expected one of {KINDS}")
        endings = self.ending.isdecimal() if self.kind == "fold" else self.ending in REDUCTIONS
        ops = (*OPS[self.kind], NOTHING[self.kind].words)
        if not (endings and self.op in ops and set(self.predicates) <= set(PREDICATES)):
            raise ValueError(
                f"got {self}; expected predicates, an operation of kind {self.kind!r} and an "
                "ending in the words of llm_marl_envs/coding/vocabulary.py"
            )


def evaluate(composition: Composition, xs: Sequence[int]) -> Value:
    """The right answer for one list: an int, or a list of ints."""
    return finish(composition, keep(composition.predicates, xs))


def keep(predicates: Sequence[str], xs: Sequence[int]) -> list[int]:
    """The numbers of `xs` for which all the predicates hold, in their order."""
    tests = [PREDICATES[name].call for name in predicates]
    return [x for x in xs if all(test(x) for test in tests)]


def finish(composition: Composition, kept: list[int]) -> Value:
    """The right answer from the numbers that `keep` kept."""
    op = _op(composition).call
    if composition.kind == "fold":
        total = int(composition.ending)
        for x in kept:
            total = op(total, x)
        return total
    zups = [op(x) for x in kept] if composition.kind == "item" else op(kept)
    return REDUCTIONS[composition.ending].call(zups)


def conventions(composition: Composition) -> tuple[str, ...]:
    """The interfaces that can carry this task; `expert` writes for each of them."""
    return CONVENTIONS[composition.kind]


def describe_helper(composition: Composition) -> str:
    """What only the helper is told: the private operation."""
    op = composition.op if composition.kind != "sequence" else f"the list of {composition.op}"
    return f"The zup of {_PARAMETERS[composition.kind]} is {op}."


def describe_main(composition: Composition) -> str:
    """What only main is told: what to do with zups."""
    which = " and ".join(composition.predicates)
    if composition.kind == "fold":
        return (
            f"Start with t = {composition.ending}. For each number x in xs that is {which}, "
            "in order, set t to the zup of t and x. Return t."
        )
    numbers = f"the numbers in xs that are {which}"
    if composition.kind == "sequence":
        ending = composition.ending.format("the numbers in its zup")
        return f"Take the list of {numbers}. Return {ending}."
    return f"Return {composition.ending.format(f'the zups of {numbers}')}."


def describe_full(composition: Composition) -> str:
    """The whole task in one text, for `info="full"`."""
    return f"{describe_helper(composition)} {describe_main(composition)}"


def expert(composition: Composition, role: str, convention: str) -> str:
    """A right program of one role under one convention: Python source, no fences.

    Raises ValueError for a role that is not in `ROLES` and for a convention that is not in
    `conventions(composition)`.
    """
    if role not in ROLES or convention not in conventions(composition):
        raise ValueError(
            f"got role {role!r} and convention {convention!r}; expected a role of {ROLES} and a "
            f"convention of {conventions(composition)}"
        )
    write = _expert_helper if role == "helper" else _expert_main
    return write(composition, convention)


def _expert_helper(composition: Composition, convention: str) -> str:
    code = _op(composition).code
    if convention == "item":
        return f"def aux(x):\n    return {code}"
    if convention == "args":
        return f"def aux(a, b):\n    return {code}"
    if convention == "pair":
        return f"def aux(pair):\n    a, b = pair\n    return {code}"
    if composition.kind == "item":
        return f"def aux(xs):\n    return [{code} for x in xs]"
    return f"def aux(xs):\n    return {code}"


def _expert_main(composition: Composition, convention: str) -> str:
    test = " and ".join(PREDICATES[name].code for name in composition.predicates)
    if composition.kind == "fold":
        call = "aux(t, x)" if convention == "args" else "aux((t, x))"
        return (
            f"def solve(xs):\n    t = {composition.ending}\n    for x in xs:\n"
            f"        if {test}:\n            t = {call}\n    return t"
        )
    zups = f"[aux(x) for x in xs if {test}]"
    if convention == "list":
        zups = f"aux([x for x in xs if {test}])"
    return f"def solve(xs):\n    return {REDUCTIONS[composition.ending].code.format(zups)}"


def _op(composition: Composition) -> Primitive:
    nothing = NOTHING[composition.kind]
    return nothing if composition.op == nothing.words else OPS[composition.kind][composition.op]
