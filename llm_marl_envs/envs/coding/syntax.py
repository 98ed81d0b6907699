"""Facts about a program, read from its syntax tree and never by regular expression.

Owns what can be known without running: whether the text parses, what it defines, how main uses the
helper's function. What a program *does* is the sandbox's business. All of it can be fooled by a
program written for the purpose, so these facts carry little pay; see `ablation.py` for the rest.

Dead code is skipped: what follows `return`, `raise`, `break` or `continue` in a block, the body of
an `if` or `while` on a false constant, functions that the entry point never reaches by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from llm_marl_envs.sandbox.jail.source import ERRORS, parse

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
CACHED_PROGRAMS = 512


@dataclass(frozen=True, slots=True)
class Program:
    """One author's text as Python reads it.

    Attributes:
        source: the text.
        tree: its syntax tree; None where it does not parse.
        error: why it does not parse, "" where it does, "nothing was written" for no statement.
        line, column: where it does not parse, from 1; 0 where unknown.
    """

    source: str
    tree: ast.Module | None
    error: str = ""
    line: int = 0
    column: int = 0

    @property
    def parses(self) -> bool:
        """Whether it is a program with at least one statement."""
        return self.tree is not None and not self.error

    @property
    def place(self) -> str:
        """Where it does not parse, in words that follow the error; "" where unknown."""
        return f", line {self.line}, column {self.column}" if self.line else ""


@dataclass(frozen=True, slots=True)
class Use:
    """How main uses the helper's function.

    Attributes:
        calls: it calls it, or hands it to a function that may (`map(aux, xs)`), in live code, and
            does not define that name itself.
        ignores_result: every call's result is dropped or kept in a name that is never read.
        thin_wrapper: the whole function only passes its arguments on and returns the result.
    """

    calls: bool
    ignores_result: bool
    thin_wrapper: bool


@lru_cache(maxsize=CACHED_PROGRAMS)
def read_program(source: str) -> Program:
    """Parse a text; whatever it holds, the answer is a `Program`."""
    try:
        tree = parse(source)
    except SyntaxError as error:
        return Program(source, None, error.msg, error.lineno or 0, error.offset or 0)
    except ERRORS as error:
        return Program(source, None, str(error) or type(error).__name__)
    return Program(source, tree, "" if tree.body else "nothing was written")


def defines(program: Program, name: str) -> bool:
    """Whether `name` is bound at the top level to a function that returns or yields a value."""
    function = find_function(program, name)
    return function is not None and returns_value(function)


def find_function(program: Program, name: str) -> ast.FunctionDef | ast.Lambda | None:
    """The last function bound to `name` at the top level (`def`, or a lambda assigned)."""
    function: ast.FunctionDef | ast.Lambda | None = None
    for statement in _live_statements(program.tree.body) if program.tree else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            function = statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda):
            names = [t.id for t in statement.targets if isinstance(t, ast.Name)]
            function = statement.value if name in names else function
    return function


def returns_value(function: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether the function itself (no inner one) returns something but None, or yields."""
    if isinstance(function, ast.Lambda):
        return True
    return any(
        isinstance(node, (ast.Yield, ast.YieldFrom))
        or (isinstance(node, ast.Return) and not _is_none(node.value))
        for node in _own_nodes(function.body)
    )


def use_of(program: Program, entry_point: str, name: str) -> Use:
    """How the program's `entry_point` uses the function `name` that somebody else wrote."""
    entry = find_function(program, entry_point)
    if entry is None or program.tree is None or _binds(program.tree, name):
        return Use(calls=False, ignores_result=False, thin_wrapper=False)
    reached = _reached(program, entry)
    uses = [use for function in reached for use in _uses(function, name)]
    return Use(
        calls=bool(uses),
        ignores_result=bool(uses) and all(uses),
        thin_wrapper=_is_thin(entry, name),
    )


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _body(function: ast.FunctionDef | ast.Lambda) -> list[ast.stmt]:
    if isinstance(function, ast.Lambda):
        return [ast.Return(function.body)]
    return function.body


def _live_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a block and of the blocks inside it, dead ones left out, no inner scopes."""
    open_blocks = [iter(body)]  # not recursive: an `elif` chain nests as deep as it is long
    while open_blocks:
        statement = next(open_blocks[-1], None)
        if statement is None:
            open_blocks.pop()
            continue
        yield statement
        if isinstance(statement, _LEAVES):
            open_blocks.pop()  # the rest of this block is dead
        elif not isinstance(statement, _SCOPES):
            open_blocks.extend(iter(block) for block in reversed(list(_live_blocks(statement))))


def _live_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    test = statement.test if isinstance(statement, (ast.If, ast.While)) else None
    for name in ("body", "orelse", "finalbody"):
        if isinstance(test, ast.Constant) and bool(test.value) != (name == "body"):
            continue
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every live node of a block, lambdas and comprehensions included.

    Inner functions and classes are left out: running the block does not run them.
    """
    for statement in _live_statements(body):
        if isinstance(statement, _SCOPES):
            continue
        yield statement
        yield from _expressions(statement)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expression nodes of one statement without the statements of its blocks."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                yield child
                waiting.append(child)


def _binds(tree: ast.Module, name: str) -> bool:
    """Whether anything in the program binds `name`, so that a call may not be the partner's."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound):
                pass
            case ast.ClassDef(name=bound) | ast.arg(arg=bound):
                pass
            case ast.Name(id=bound, ctx=ast.Store() | ast.Del()):
                pass
            case ast.alias(name=imported, asname=alias):
                bound = alias or imported
            case ast.ExceptHandler(name=bound) | ast.MatchAs(name=bound):
                pass
            case _:
                continue
        if bound == name:
            return True
    return False


def _reached(
    program: Program, entry: ast.FunctionDef | ast.Lambda
) -> list[ast.FunctionDef | ast.Lambda]:
    """The entry point and every function, top-level or inner, that its live code names."""
    functions: dict[str, ast.FunctionDef] = {}
    assert program.tree is not None
    for node in ast.walk(program.tree):
        if isinstance(node, ast.FunctionDef) and node is not entry:
            functions[node.name] = node
    reached, waiting = [], [entry]
    while waiting:
        function = waiting.pop()
        reached.append(function)
        for node in _own_nodes(_body(function)):
            called = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
            if called in functions:
                waiting.append(functions.pop(called))
    return reached


def _uses(function: ast.FunctionDef | ast.Lambda, name: str) -> Iterator[bool]:
    """For each live call of `name` in a function: whether its result is ignored."""
    body = _body(function)
    # Inner functions count here: they may read a name of this one.
    inside = [node for statement in body for node in ast.walk(statement)]
    loaded = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    dropped = {id(getattr(s, "value", None)) for s in _live_statements(body) if _drops(s, loaded)}
    for node in _own_nodes(body):
        if isinstance(node, ast.Call):
            if _is_name(node.func, name):
                yield id(node) in dropped
            arguments = [*node.args, *(k.value for k in node.keywords)]
            if any(_is_name(argument, name) for argument in arguments):
                yield False


def _drops(statement: ast.stmt, loaded: set[str]) -> bool:
    """Whether a statement throws the value of its expression away."""
    if isinstance(statement, ast.Expr):
        return True
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return all(isinstance(t, ast.Name) and t.id not in loaded for t in targets)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_thin(entry: ast.FunctionDef | ast.Lambda, name: str) -> bool:
    """Whether the body, padding removed, is `return name(<its own arguments>)`."""
    values: dict[str, ast.expr] = {}  # straight-line assignments seen so far
    for statement in _body(entry):
        if isinstance(statement, (ast.Pass, ast.Import, ast.ImportFrom, ast.Global)):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring, `...`
        if isinstance(statement, ast.Return):
            return statement.value is not None and _is_passed_on(statement.value, name, values)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or not _is_plain(statement.value, name):
            return False
        values[target.id] = statement.value
    return False


def _is_plain(value: ast.expr, name: str) -> bool:
    """A name, a constant, or a call of `name` with nothing else: no work of main's own."""
    if isinstance(value, ast.Starred):
        return _is_plain(value.value, name)
    if isinstance(value, ast.Call) and _is_name(value.func, name):
        return all(_is_plain(a, name) for a in [*value.args, *(k.value for k in value.keywords)])
    return isinstance(value, (ast.Name, ast.Constant))


def _is_passed_on(value: ast.expr, name: str, values: dict[str, ast.expr]) -> bool:
    for _ in range(len(values) + 1):  # a = aux(x); b = a; return b
        if not isinstance(value, ast.Name) or value.id not in values:
            break
        value = values[value.id]
    return isinstance(value, ast.Call) and _is_plain(value, name)
