"""How an exception travels: by the names of its built-in classes and one text.

Owns both directions. Classes that a program defines arrive as their nearest built-in ancestor, so
`except ValueError` in a test sees what it would see in one process, and no class of the program
ever exists outside it.
"""

from __future__ import annotations

import builtins
from typing import Any

MAX_MESSAGE = 500
_ORDINARY = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}


def describe(error: BaseException) -> dict[str, Any]:
    """The JSON form of an exception. Runs beside untrusted code and survives what it does."""
    try:
        kind = type(error)
        names = [kind.__name__] + [k.__name__ for k in kind.__mro__ if k.__module__ == "builtins"]
        argument = error.args[0] if len(error.args) == 1 else None
        message = argument if type(argument) is str else str(error)
        return {"raised": [str(n) for n in names], "message": str(message)[:MAX_MESSAGE]}
    except BaseException:  # noqa: BLE001 - __str__, __name__ and args may all be the program's own code
        return {"raised": ["Exception"], "message": ""}


def names_of(data: Any) -> list[str]:
    """The class names in a received exception; empty if it is malformed."""
    if type(data) is not list or len(data) > 64:
        return []
    return [n[:60] for n in data if type(n) is str]


def rebuild(names: list[str], message: Any) -> Exception | None:
    """A built-in exception like the one described, or None where it is no `Exception`.

    SystemExit, KeyboardInterrupt and other bare BaseExceptions give None: they may not end the
    process that receives them.
    """
    text = message[:MAX_MESSAGE] if type(message) is str else ""
    for name in names:
        kind = _ORDINARY.get(name)
        if kind is not None:
            try:
                return kind(text)
            except TypeError:  # UnicodeDecodeError and its like take more than a text
                continue
    return None
