"""Reads Python source into a syntax tree, from any thread.

CPython 3.11 counts the depth of a tree under construction in one place for all threads; when the
garbage collector lets another thread parse meanwhile, `ast.parse` raises SystemError ("AST
constructor recursion depth mismatch", CPython issue 106905, mended in its last releases). Rollouts
step environments in threads, so all parsing goes through here.
"""

from __future__ import annotations

import ast
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
