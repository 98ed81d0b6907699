"""Reads Python source, from any thread: its syntax tree, and the names that it leaves free.

CPython 3.11 counts the depth of a tree under construction in one place for all threads; when the
garbage collector lets another thread parse meanwhile, `ast.parse` raises SystemError ("AST
constructor recursion depth mismatch", CPython issue 106905, mended in its last releases). Rollouts
step environments in threads, so all parsing goes through here.
"""

from __future__ import annotations

import ast
import symtable
import threading
import warnings
from typing import Any

ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `parse` raises for a text: also NUL bytes, lone surrogates, and nesting too deep."""
TRIES = 8
"""Times before a SystemError counts: other libraries parse without this lock."""
_LOCK = threading.RLock()  # a finaliser may parse in the thread that holds it


def parse(source: str, filename: str = "<unknown>", mode: str = "exec") -> Any:
    """As `ast.parse`, without warnings, e.g. of invalid escapes in strings.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse`.
    """
    with _LOCK, warnings.catch_warnings():  # which changes the state of all threads, too
        warnings.simplefilter("ignore")
        for _ in range(TRIES - 1):
            try:
                return ast.parse(source, filename, mode)
            except SystemError:
                continue
        return ast.parse(source, filename, mode)


def free_names(source: str, filename: str = "<unknown>") -> set[str]:
    """Names that a module reads and binds nowhere, built-in ones among them.

    From Python 3.12 on a comprehension has no scope of its own in a symbol table: its variables
    count as bound in the scope around it.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `parse`.
    """
    tree = parse(source, filename)
    named = {one.target.id for one in ast.walk(tree) if isinstance(one, ast.NamedExpr)}
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = symtable.symtable(source, filename, "exec")
    referenced: set[str] = set()
    bound: set[str] = set()
    waiting = [module]
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        for symbol in scope.get_symbols():
            if symbol.is_referenced() and symbol.is_global():
                referenced.add(symbol.get_name())
            binds = symbol.is_assigned() or symbol.is_imported()
            if scope is module and symbol.get_name() in named:
                binds |= symbol.is_declared_global()  # as Python 3.12 says `[k := m for m in ms]`
            if binds and (scope is module or symbol.is_declared_global()):
                bound.add(symbol.get_name())
    return referenced - bound
