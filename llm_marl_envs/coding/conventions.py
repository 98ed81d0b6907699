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
"""

import ast

from llm_marl_envs.sandbox.jail.source import ERRORS, parse

CONVENTIONS = {"item": ("item", "list"), "fold": ("args", "pair"), "sequence": ("list",)}
"""Kind of task -> the interfaces that can carry it."""

_LIST_CALLS = {"sum", "min", "max", "len", "sorted", "list", "set", "enumerate", "zip", "reversed"}
_LIST_MAKERS = {"sorted", "list", "filter", "map", "reversed", "tuple"}
_LIST_NAMES = {"list", "List", "Sequence", "Iterable"}


def read_convention(kind: str, role: str, text: str) -> str | None:
    """Which convention of `kind` the program of `role` follows, None where it follows none.

    `text` is Python source; None too where it does not parse, where the helper defines no `aux`
    and where main never calls it. With several calls of `aux` the first readable one decides.
    Raises ValueError for an unknown kind or role.
    """
    if kind not in CONVENTIONS or role not in ("helper", "main"):
        raise ValueError(
            f"got kind {kind!r} and role {role!r}; expected a kind of {tuple(CONVENTIONS)} and "
            "role 'helper' or 'main'"
        )
    try:
        tree = parse(text)
    except ERRORS:
        return None
    found = _of_helper(kind, tree) if role == "helper" else _of_main(kind, tree)
    return found if found in CONVENTIONS[kind] else None


def _of_helper(kind: str, tree: ast.Module) -> str | None:
    definitions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "aux"
    ]
    if not definitions:
        return None
    aux = definitions[-1]  # the one that counts when Python runs the text
    parameters = [*aux.args.posonlyargs, *aux.args.args]
    if kind == "fold":
        return {1: "pair", 2: "args"}.get(len(parameters))
    if len(parameters) != 1:
        return None
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


def _of_main(kind: str, tree: ast.Module) -> str | None:
    lists = {"xs"} | {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _makes_list(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if _call_name(node) == "aux" and not node.keywords:
            if kind == "fold":
                return {1: "pair", 2: "args"}.get(len(node.args))
            if len(node.args) == 1:
                return "list" if _makes_list(node.args[0], lists) else "item"
        passed = bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == "aux"
        if passed and _call_name(node) in ("map", "reduce"):  # aux itself is the argument
            return "args" if kind == "fold" else "item"
    return None


def _makes_list(node: ast.expr, lists: set[str]) -> bool:
    """Whether an expression is a list: display, comprehension, a maker's result, known name."""
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
