"""Which interface a program follows: read from the syntax tree of its text.

This module owns the four conventions, their reference programs and the reading of a convention
from any text. It judges no result: a program can follow a convention and still be wrong.

| kind | helper writes | main calls | convention |
|---|---|---|---|
| item | `def aux(x)`, one number in, one out | `[aux(x) for x in xs]` | `item` |
| item | `def aux(xs)`, all numbers in, all out | `aux([x for x in xs])` | `list` |
| fold | `def aux(a, b)` | `aux(t, x)` | `args` |
| fold | `def aux(pair)` | `aux((t, x))` | `pair` |
| sequence | `def aux(xs)` | `aux([x for x in xs])` | `list`, the only one |

Of more than two authors all follow one convention: under the last one of a kind the other helpers
take and give all numbers (`aux_1(xs)`: those that are kept), else one (`aux_1(x)`: a bool).
"""

import ast
import re
from collections.abc import Sequence

from llm_marl_envs.sandbox.jail.source import ERRORS, parse

CONVENTIONS = {"item": ("item", "list"), "fold": ("args", "pair"), "sequence": ("list",)}
"""Kind of task -> the interfaces that can carry it."""

_HELPER = re.compile(r"helper(_[1-9])?")

_LIST_CALLS = {"sum", "min", "max", "len", "sorted", "list", "set", "enumerate", "zip", "reversed"}
_LIST_MAKERS = {"sorted", "list", "filter", "map", "reversed", "tuple"}
_LIST_NAMES = {"list", "List", "Sequence", "Iterable"}


def roles_of(authors: int) -> tuple[str, ...]:
    """The roles of so many authors: ("helper", "helper_1", ..., "main")."""
    return ("helper", *(f"helper_{i}" for i in range(1, authors - 1)), "main")


def function_of(role: str) -> str:
    """The function that a helper writes: `aux`, `aux_1`, ..."""
    return role.replace("helper", "aux")


def by_list(kind: str, convention: str) -> bool:
    """Whether the helpers other than the first take all numbers at once."""
    return convention == CONVENTIONS[kind][-1]


def read_convention(kind: str, role: str, text: str, authors: int = 2) -> str | None:
    """Which convention of `kind` the program of `role` follows, None where it follows none.

    `text` is Python source; None too where it does not parse, where a helper does not define its
    function and where main never calls one of them, or not all in one convention. With several
    calls of a function the first readable one decides. Raises ValueError for an unknown kind or
    role.
    """
    if kind not in CONVENTIONS or not (role == "main" or _HELPER.fullmatch(role)):
        raise ValueError(
            f"got kind {kind!r} and role {role!r}; expected a kind of {tuple(CONVENTIONS)} and "
            "role 'helper', 'helper_1', ... or 'main'"
        )
    try:
        tree = parse(text)
    except ERRORS:
        return None
    if role != "main":
        convention = _of_helper(kind, tree, function_of(role))
        return convention if convention in CONVENTIONS[kind] else None
    names = [function_of(helper) for helper in roles_of(authors)[:-1]]
    calls = {_of_main(kind, tree, name, names) for name in names}
    return calls.pop() if len(calls) == 1 and calls <= {*CONVENTIONS[kind]} else None


def _of_predicate(kind: str, many: bool) -> str | None:
    """The convention that a helper other than the first shows by taking one or many numbers."""
    single, *_, all_at_once = ("", *CONVENTIONS[kind]) if kind == "sequence" else CONVENTIONS[kind]
    return all_at_once if many else single


def _of_helper(kind: str, tree: ast.Module, name: str) -> str | None:
    definitions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    if not definitions:
        return None
    aux = definitions[-1]  # the one that counts when Python runs the text
    parameters = [*aux.args.posonlyargs, *aux.args.args]
    if kind == "fold" and name == "aux":
        return {1: "pair", 2: "args"}.get(len(parameters))
    if len(parameters) != 1:
        return None
    if name != "aux":
        return _of_predicate(kind, _is_list(parameters[0], aux))
    return "list" if kind == "sequence" or _is_list(parameters[0], aux) else "item"


def _is_list(parameter: ast.arg, aux: ast.FunctionDef) -> bool:
    """Whether the body uses the parameter as a list: annotated, iterated, indexed or reduced."""
    annotation = ast.walk(parameter.annotation) if parameter.annotation else ()
    if any(isinstance(node, ast.Name) and node.id in _LIST_NAMES for node in annotation):
        return True
    waiting: list[tuple[ast.AST, bool]] = [(aux, False)]  # and whether it is iterated or indexed
    while waiting:
        node, taken_apart = waiting.pop()
        if taken_apart and isinstance(node, ast.Name) and node.id == parameter.arg:
            return True
        whole = None
        if isinstance(node, ast.For | ast.comprehension):
            whole = node.iter
        elif isinstance(node, ast.Subscript):
            whole = node.value
        waiting += [(c, taken_apart or c is whole) for c in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Call) and _call_name(node) in _LIST_CALLS | {"map"}:
            arguments = [a.id for a in node.args if isinstance(a, ast.Name)]
            alone = len(node.args) == 1 or _call_name(node) in {"map", "zip"}
            if parameter.arg in arguments and alone:  # `max(x, 2)` is about one number
                return True
    return False


def _of_main(kind: str, tree: ast.Module, name: str, names: Sequence[str]) -> str | None:
    """The convention in which main calls the function `name`, one of the helpers' `names`."""
    lists = {"xs"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _makes_list(node.value, lists, names):
            lists |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if _call_name(node) == name and not node.keywords:
            if kind == "fold" and name == "aux":
                return {1: "pair", 2: "args"}.get(len(node.args))
            if len(node.args) == 1:
                many = _makes_list(node.args[0], lists, names)
                return ("list" if many else "item") if name == "aux" else _of_predicate(kind, many)
        passed = bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == name
        if passed and name != "aux" and _call_name(node) in ("map", "filter"):
            return _of_predicate(kind, False)
        if passed and name == "aux" and _call_name(node) in ("map", "reduce"):
            return "args" if kind == "fold" else "item"  # aux itself is the argument
    return None


def _makes_list(node: ast.expr, lists: set[str], names: Sequence[str]) -> bool:
    """Whether an expression is a list: display, comprehension, a maker's result, known name.

    What a helper other than the first gives for a list is one.
    """
    while isinstance(node, ast.Call) and node.args and _call_name(node) in names[1:]:
        node = node.args[0]
    if isinstance(node, ast.Name):
        return node.id in lists
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice)
    if isinstance(node, ast.Call):
        return _call_name(node) in _LIST_MAKERS
    return isinstance(node, ast.List | ast.ListComp | ast.GeneratorExp | ast.Tuple)


def _call_name(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
