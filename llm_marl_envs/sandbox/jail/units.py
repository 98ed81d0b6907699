"""Divides a test source into units that are counted one by one.

Owns the reading of the three styles of tests: `check(candidate)` in the manner of HumanEval, bare
asserts, and `test_*` functions or `unittest` classes. Does not run anything (`judge` does).

A unit is a run of statements that ends with one that can fail on purpose: it holds an `assert` or a
`raise`, or calls a function that does. Units are wrapped in `with __unit__(i):`, which keeps names,
loops and returns as they were while a failing unit does not hide those after it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import CodeType

from .source import parse

UNIT = "__unit__"
MAX_SOURCE = 160  # characters of a unit's text that are kept for feedback
_SETUP = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Plan:
    """A test source ready to run."""

    code: CodeType  # the module, with its units wrapped
    units: tuple[str, ...]  # the text of each, cut to MAX_SOURCE characters
    check: bool  # call `check(candidate)` after the module
    functions: tuple[tuple[int, str], ...]  # (unit, name) of test functions to call
    classes: tuple[tuple[int, str, str], ...]  # (unit, class, method) of unittest cases
    names: frozenset[str]  # every name the code mentions


class _Splitter:
    def __init__(self, tree: ast.Module, entry: str) -> None:
        self.entry = entry
        self.units: list[str] = []
        self.testers = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and any(map(_fails, ast.walk(node)))
        }

    def tests(self, statement: ast.stmt) -> bool:
        """Whether a statement can fail on purpose."""
        if isinstance(statement, _SETUP):
            return False
        stack: list[ast.AST] = [statement]
        while stack:
            node = stack.pop()
            if _fails(node) or (isinstance(node, ast.Call) and self._calls_test(node.func)):
                return True
            stack += [c for c in ast.iter_child_nodes(node) if not isinstance(c, _SCOPES)]
        return False

    def _calls_test(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name):
            return function.id in self.testers
        return isinstance(function, ast.Attribute) and function.attr.startswith("assert")

    def wrap(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body with its units wrapped; statements after the last one join it."""
        out: list[ast.stmt] = []
        pending: list[ast.stmt] = []
        last: ast.With | None = None
        for statement in body:
            if not pending and isinstance(statement, _SETUP):
                out.append(statement)
                continue
            pending.append(statement)
            if self.tests(statement):
                last = self._unit(pending, statement)
                out.append(last)
                pending = []
        if last is not None and last is out[-1]:
            last.body += pending
            return out
        return out + pending

    def _unit(self, body: list[ast.stmt], named_for: ast.stmt) -> ast.With:
        call = ast.Call(ast.Name(UNIT, ast.Load()), [ast.Constant(len(self.units))], [])
        self.units.append(ast.unparse(named_for)[:MAX_SOURCE])
        unit = ast.With(items=[ast.withitem(call)], body=list(body))
        return ast.copy_location(unit, body[0])


def _fails(node: ast.AST) -> bool:
    """`assert True`, which HumanEval has, tests nothing."""
    if isinstance(node, ast.Assert):
        return not (isinstance(node.test, ast.Constant) and bool(node.test.value))
    return isinstance(node, ast.Raise)


def split(source: str, entry: str) -> Plan:
    """Plan the run of a test source. Raises SyntaxError or ValueError for one that has no test."""
    tree = parse(source, "<tests>")
    splitter = _Splitter(tree, entry)
    check = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    functions: list[tuple[int, str]] = []
    classes: list[tuple[int, str, str]] = []
    if check:
        tree.body = [n for n in tree.body if not _is_call_of(n, "check")]
        splitter.testers.discard("check")
        body = splitter.wrap(check[-1].body)
        check[-1].body = body if splitter.units else [splitter._unit(body, check[-1])]
    else:
        tree.body = splitter.wrap(tree.body)
    if not splitter.units:
        _collect(tree, splitter, functions, classes)
    if not splitter.units:
        raise ValueError("the tests hold no check(candidate), no assert and no test function")
    code = compile(ast.fix_missing_locations(tree), "<tests>", "exec", dont_inherit=True)
    return Plan(
        code=code,
        units=tuple(splitter.units),
        check=bool(check),
        functions=tuple(functions),
        classes=tuple(classes),
        names=frozenset(_names(code)),
    )


def units_of(tests: str, entry_point: str) -> tuple[str, ...]:
    """The source of each test that a check counts, in order, cut to `MAX_SOURCE` characters.

    Raises:
        ValueError: the source does not parse, or holds no test.
    """
    try:
        return split(tests, entry_point).units
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"unusable tests: {error}") from error


def _is_call_of(node: ast.stmt, name: str) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name


def _collect(
    tree: ast.Module,
    splitter: _Splitter,
    functions: list[tuple[int, str]],
    classes: list[tuple[int, str, str]],
) -> None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            if not node.args.args and not node.args.kwonlyargs:
                functions.append((len(splitter.units), node.name))
                splitter.units.append(f"{node.name}()")
        elif isinstance(node, ast.ClassDef) and any(
            "TestCase" in ast.unparse(b) for b in node.bases
        ):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name.startswith("test"):
                    classes.append((len(splitter.units), node.name, method.name))
                    splitter.units.append(f"{node.name}.{method.name}()")


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
