"""Divides a test source into units that are counted one by one.

Owns the reading of the three styles of tests: `check(candidate)` in the manner of HumanEval, bare
asserts, and `test_*` functions or `unittest` classes; and which names they may leave free: no name
is looked for in a program. Does not run anything (`examiner` does).

A unit is a run of statements that ends with one that can fail on purpose: it holds an `assert` or a
`raise`, or calls a function that does. Units are wrapped in `with <unit>(i):`, which keeps names,
loops and returns as they were while a failing unit does not hide those after it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import TypeGuard

from .preloaded import PRELOADED
from .source import ERRORS, free_names, parse

UNIT = "<unit>"  # no source can name it
MAX_SOURCE = 160  # characters of a unit's text that are kept for feedback
_SETUP = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
# What the interpreter puts into modules and classes, and what only `site` and notebooks make
# built-in: confined processes have neither.
_GIVEN = {"__annotations__", "__builtins__", "__module__", "__qualname__", *vars(ModuleType(""))}
_NOT_GIVEN = {"_", "copyright", "credits", "display", "exit", "get_ipython", "help", "license"}
_NOT_GIVEN |= {"quit"}


@dataclass(frozen=True)
class Plan:
    """A test source ready to run."""

    code: CodeType  # the module, with its units wrapped
    units: tuple[str, ...]  # the text of each, cut to MAX_SOURCE characters
    check: bool  # call `check(candidate)` after the module
    modules: frozenset[str]  # those that the code uses without importing them


class _Splitter:
    def __init__(self, tree: ast.Module) -> None:
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
                last = self.unit(pending, ast.unparse(statement))
                out.append(last)
                pending = []
        if last is not None and last is out[-1]:
            last.body += pending
            return out
        return out + pending

    def unit(self, body: list[ast.stmt], text: str) -> ast.With:
        """Statements as one more unit, which `text` shows."""
        call = ast.Call(ast.Name(UNIT, ast.Load()), [ast.Constant(len(self.units))], [])
        self.units.append(text[:MAX_SOURCE])
        unit = ast.With(items=[ast.withitem(call)], body=list(body))
        return ast.copy_location(unit, body[0])


def _fails(node: ast.AST) -> bool:
    """`assert True`, which HumanEval has, tests nothing."""
    if isinstance(node, ast.Assert):
        return not (isinstance(node.test, ast.Constant) and bool(node.test.value))
    return isinstance(node, ast.Raise)


def split(source: str, entry: str) -> Plan:
    """Plan the run of a test source.

    Raises SyntaxError, and ValueError for one that has no test or uses names that nothing defines.
    """
    tree = parse(source, "<tests>")
    modules = _modules(tree, free_names(source, "<tests>") - {entry, "candidate"})
    splitter = _Splitter(tree)
    check = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    if check:
        tree.body = [n for n in tree.body if not _is_call_of(n, "check")]
        splitter.testers.discard("check")
        body = splitter.wrap(check[-1].body)
        check[-1].body = body if splitter.units else [splitter.unit(body, ast.unparse(check[-1]))]
    else:
        tree.body = splitter.wrap(tree.body)
    if not splitter.units:
        calls = [pair for node in tree.body for pair in _test_calls(node)]
        tree.body += [splitter.unit(parse(call).body, text) for text, call in calls]
    if not splitter.units:
        raise ValueError("the tests hold no check(candidate), no assert and no test function")
    code = compile(ast.fix_missing_locations(tree), "<tests>", "exec", dont_inherit=True)
    return Plan(code, tuple(splitter.units), bool(check), modules)


def units_of(tests: str, entry_point: str) -> tuple[str, ...]:
    """The source of each test that a check counts, in order, cut to `MAX_SOURCE` characters.

    Raises:
        ValueError: the source does not parse, holds no test, or uses names that nothing defines.
    """
    try:
        return split(tests, entry_point).units
    except ERRORS as error:
        raise ValueError(f"unusable tests: {error}") from error


def _is_call_of(node: ast.stmt, name: str) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name


def _test_calls(node: ast.stmt) -> list[tuple[str, str]]:
    """For each test function, or method of a `TestCase`: the text that shows it, and its call."""
    if _is_test(node) and not node.args.args and not node.args.kwonlyargs:
        return [(f"{node.name}()", f"{node.name}()")]
    if isinstance(node, ast.ClassDef) and any("TestCase" in ast.unparse(b) for b in node.bases):
        names = [method.name for method in node.body if _is_test(method)]
        return [(f"{node.name}.{n}()", f"{node.name}({n!r}).debug()") for n in names]
    return []


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def _modules(tree: ast.Module, free: set[str]) -> frozenset[str]:
    """The modules among free names, which are used by their attributes alone.

    Raises ValueError for any other name, unless some `import *` may define it.
    """
    free -= (vars(builtins).keys() - _NOT_GIVEN) | _GIVEN
    nodes = list(ast.walk(tree))
    stars = [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom) and _is_star(n)]
    for name in stars:
        free -= _public_names(name) if name in PRELOADED else set()
    owners = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    alone = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in owners}
    modules = (free & set(PRELOADED)) - alone
    if free != modules and set(stars) <= set(PRELOADED):
        raise ValueError(
            f"the tests use names that nothing defines: {', '.join(sorted(free - modules))}; "
            "define or import them in the tests"
        )
    return frozenset(modules)


def _is_star(node: ast.ImportFrom) -> bool:
    return any(alias.name == "*" for alias in node.names)


def _public_names(module: str) -> set[str]:
    imported = importlib.import_module(module)
    return set(getattr(imported, "__all__", None) or [n for n in vars(imported) if n[0] != "_"])
