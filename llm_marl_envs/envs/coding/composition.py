"""One procedural coding task: what its function is, how prompts say it, programs that solve it.

A task is a `Composition`: keep the numbers of `xs` that a predicate likes, apply a private
operation ("the zup"), finish. Only the helper is told what the zup is, only main is told what to do
with zups, so the tests pass exactly when both parts are right and the interface between them
agrees. Three kinds: `item` (zup of one number, mapped, then reduced), `fold` (zup of two numbers,
folded from a start value) and `sequence` (zup of a whole list, then reduced).

With three authors the predicates are private, too: only `helper_1` is told that "a number is dax
if it is even", and main only that the dax numbers are kept. With four `helper_2` alone is told what
the fep of a number is, by which each number that is kept is replaced before anything else.

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llm_marl_envs.envs.coding.conventions import CONVENTIONS, by_list, function_of, roles_of
from llm_marl_envs.envs.coding.vocabulary import (
    FOLD_OPS,
    ITEM_OPS,
    PREDICATES,
    REDUCTIONS,
    SEQUENCE_OPS,
    Primitive,
)
from llm_marl_envs.sandbox import Contract

KINDS = tuple(CONVENTIONS)
AUTHORS = (2, 4)
"""Fewest and most authors of a task."""
ABOUT = ("zups", "dax", "feps")
"""What `aux`, `aux_1` and `aux_2` are about, as main is told it."""

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

TEAM_HELPER_PROMPT = (
    "Write the Python function {own}. Your partners write {others}; solve(xs) calls all the "
    "others. None of you sees the others' code.\n{description}\nReply with code only."
)
"""As `HELPER_PROMPT`, with more than two authors."""

TEAM_MAIN_PROMPT = (
    "Write the Python function solve(xs), which calls {others}; xs is a list of ints. "
    "Your partners write them: {parts}. None of you sees the others' code.\n{description}\n"
    "Reply with code only."
)
"""As `MAIN_PROMPT`, with more than two authors."""

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

SIDE_CONTRACT = CONTRACTS["item"]
"""Of the functions of the helpers other than the first: one number, or all of them."""

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
_INNER = {**ITEM_OPS, NOTHING["item"].words: NOTHING["item"]}


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
    divided: bool = False
    """Whether the predicates are told to a helper of their own instead of to main."""
    inner: str = ""
    """By what each kept number is replaced, a key of `ITEM_OPS`; "" where there is no such part."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, expected one of {KINDS}")
        endings = self.ending.isdecimal() if self.kind == "fold" else self.ending in REDUCTIONS
        ops = (*OPS[self.kind], NOTHING[self.kind].words)
        inner = not self.inner or (self.divided and self.inner in _INNER)
        if not (endings and inner and self.op in ops and set(self.predicates) <= set(PREDICATES)):
            raise ValueError(
                f"got {self}; expected predicates, an operation of kind {self.kind!r} and an "
                "ending in the words of envs/coding/vocabulary.py (an inner operation only where "
                "the predicates are divided)"
            )

    @property
    def roles(self) -> tuple[str, ...]:
        """Who writes it, main last."""
        return roles_of(2 + self.divided + bool(self.inner))


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
    if composition.inner:
        inner = _INNER[composition.inner].call
        kept = [inner(x) for x in kept]
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


def describe_helper(composition: Composition, role: str = "helper") -> str:
    """What only a helper is told: the private operation, predicates or inner operation."""
    if role == "helper_1":
        return f"A number is dax if it is {' and '.join(composition.predicates)}."
    if role == "helper_2":
        return f"The fep of x is {composition.inner}."
    op = composition.op if composition.kind != "sequence" else f"the list of {composition.op}"
    return f"The zup of {_PARAMETERS[composition.kind]} is {op}."


def describe_main(composition: Composition) -> str:
    """What only main is told: what to do with zups."""
    which = "dax" if composition.divided else " and ".join(composition.predicates)
    if composition.kind == "fold":
        x = "the fep of x" if composition.inner else "x"
        return (
            f"Start with t = {composition.ending}. For each number x in xs that is {which}, "
            f"in order, set t to the zup of t and {x}. Return t."
        )
    numbers = f"the numbers in xs that are {which}"
    if composition.inner:
        numbers = f"the feps of {numbers}"
    if composition.kind == "sequence":
        ending = composition.ending.format("the numbers in its zup")
        return f"Take the list of {numbers}. Return {ending}."
    return f"Return {composition.ending.format(f'the zups of {numbers}')}."


def describe_full(composition: Composition) -> str:
    """The whole task in one text, for `info="full"`."""
    *helpers, _ = composition.roles
    parts = [describe_helper(composition, role) for role in helpers]
    return " ".join([*parts, describe_main(composition)])


def describe(composition: Composition, role: str) -> str:
    """What one role alone is told."""
    return describe_main(composition) if role == "main" else describe_helper(composition, role)


def prompts(composition: Composition, full: bool) -> dict[str, str]:
    """Role -> its one user message; `full`: all are told everything."""
    *helpers, _ = roles = composition.roles
    functions = [function_of(role) for role in helpers]
    texts = {}
    for role in roles:
        own = function_of(role)
        last = "solve(xs)" if role == "main" else ""
        template = HELPER_PROMPT if role != "main" else MAIN_PROMPT
        if len(roles) > AUTHORS[0]:
            template = TEAM_HELPER_PROMPT if role != "main" else TEAM_MAIN_PROMPT
        texts[role] = template.format(
            own=own,
            others=_listed(name for name in (*functions, "solve(xs)") if name not in (own, last)),
            parts=", ".join(f"{f} for {about}" for f, about in zip(functions, ABOUT, strict=False)),
            description=describe_full(composition) if full else describe(composition, role),
        )
    return texts


def expert(composition: Composition, role: str, convention: str) -> str:
    """A right program of one role under one convention: Python source, no fences.

    Raises ValueError for a role that is not in `composition.roles` and for a convention that is not
    in `conventions(composition)`.
    """
    if role not in composition.roles or convention not in conventions(composition):
        raise ValueError(
            f"got role {role!r} and convention {convention!r}; expected a role of "
            f"{composition.roles} and a convention of {conventions(composition)}"
        )
    if role == "main":
        return _expert_main(composition, convention)
    if role == "helper":
        return _expert_helper(composition, convention)
    many, name = by_list(composition.kind, convention), function_of(role)
    if role == "helper_1":
        code, numbers = _test(composition), "[x for x in xs if {}]"
    else:
        code, numbers = _INNER[composition.inner].code, "[{} for x in xs]"
    if many:
        return f"def {name}(xs):\n    return {numbers.format(code)}"
    return f"def {name}(x):\n    return {code}"


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
    many = composition.divided and by_list(composition.kind, convention)
    x = "aux_2(x)" if composition.inner and not many else "x"
    test = "aux_1(x)" if composition.divided else _test(composition)
    kept = f"[{x} for x in xs if {test}]"
    if many:
        kept = "aux_2(aux_1(xs))" if composition.inner else "aux_1(xs)"
    if composition.kind == "fold":
        call = f"aux(t, {x})" if convention == "args" else f"aux((t, {x}))"
        loop = f"    for x in {kept}:\n        t = {call}\n"
        if not many:
            loop = f"    for x in xs:\n        if {test}:\n            t = {call}\n"
        return f"def solve(xs):\n    t = {composition.ending}\n{loop}    return t"
    zups = f"aux({kept})" if convention == "list" else f"[aux({x}) for x in xs if {test}]"
    return f"def solve(xs):\n    return {REDUCTIONS[composition.ending].code.format(zups)}"


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _test(composition: Composition) -> str:
    return " and ".join(PREDICATES[name].code for name in composition.predicates)


def _op(composition: Composition) -> Primitive:
    nothing = NOTHING[composition.kind]
    return nothing if composition.op == nothing.words else OPS[composition.kind][composition.op]
