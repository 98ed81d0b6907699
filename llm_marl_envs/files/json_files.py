"""JSON files: written whole or not at all, read with errors that name the file and the part."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from llm_marl_envs.files.atomic import make_folder, replacing
from llm_marl_envs.files.foreign import json_of

KINDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text"}
LARGEST = 1e100
"""Larger numbers have no squares in float; they count as no numbers, as infinities do."""


def write_json(path: str | Path, value: Any) -> None:
    """Write `value`; an existing file is replaced at once, never half.

    Raises:
        ValueError: a NaN or an infinite number, which JSON does not know.
    """
    try:
        text = json.dumps(value, indent=2, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{path}: NaN and infinite numbers cannot be written as JSON") from error
    with replacing(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def check_writable(*paths: str | Path) -> None:
    """Make the folders of files that are to be written later, and try whether they can be.

    Raises:
        ValueError: a folder stands in a file's place, or a file in a folder's.
        OSError: nothing can be written there.
    """
    for path in map(Path, paths):
        if path.is_dir():
            raise ValueError(f"{path}: a folder; expected a file, or a place for one")
        make_folder(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:99]}."):
            pass


def read_json(path: str | Path, *, strict: bool = False) -> dict[str, Any]:
    """The object in a JSON file; `strict` as `json_of` takes it, of what is to be written again.

    Raises:
        ValueError: there is no such file, it is half-written or no JSON as `json_of` reads it, or
            it holds no object.
    """
    path = Path(path)
    try:
        value = json_of(path.read_bytes(), strict=strict)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise ValueError(f"{path}: no such file") from error
    except ValueError as error:
        raise ValueError(f"{path}: half-written or {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def finite(value: object) -> bool:
    """Whether it is a number to compute with: no bool, no NaN, and below `LARGEST` in size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < LARGEST


def from_json(kind: Any, value: Any, where: Any, *, nan: bool = False) -> Any:
    """A value of JSON as its type says.

    Args:
        kind: a dataclass, `tuple[X, ...]`, `tuple[X, Y]`, `Mapping[str, X]`, `X | None`, `Literal`,
            an enumeration of texts, bool, int, float, str or Any. A field of a dataclass that has a
            default may be missing or null, unless its metadata say `needed`; they may say another
            `key` that it has in files. A dataclass with `AS_LIST` is a list of its fields there.
        value: what JSON holds.
        where: the file; begins every error.
        nan: let NaN and infinite numbers pass as floats.

    Raises:
        ValueError: a part is missing or of another kind; the message names it.
    """
    try:
        return _read(kind, value, "", nan)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _read(kind: Any, value: Any, name: str, nan: bool) -> Any:
    of, inside = _parts(kind)
    if of in (Union, UnionType):  # X | None
        return None if value is None else _read(inside[0], value, name, nan)
    listed = getattr(of, "AS_LIST", False)
    if is_dataclass(of) and isinstance(value, list if listed else Mapping):
        return _record(of, value, f"{name}." if name else "", nan)
    if of in (Mapping, dict) and isinstance(value, Mapping):
        return {key: _read(inside[1], one, f"{name}.{key:.80}", nan) for key, one in value.items()}
    if of is tuple and isinstance(value, (list, tuple)):
        kinds = [inside[0]] * len(value) if inside[-1] is ... else inside
        if len(kinds) != len(value):
            raise ValueError(f"{name}: expected {len(kinds)} entries, got {len(value)}")
        each = enumerate(zip(kinds, value, strict=True))
        return tuple(_read(part, entry, f"{name}[{i}]", nan) for i, (part, entry) in each)
    if of is float and (finite(value) or (nan and type(value) is float)):
        return float(value)
    if of is Any or (of is not float and type(value) is of):
        return value
    choices = _choices(of, inside)
    if isinstance(value, str) and value in choices:
        return choices[choices.index(value)]
    form = "a list" if of is tuple or listed else "an object"
    expected = f"one of {[*map(str, choices)]}" if choices else KINDS.get(of, form)
    raise ValueError(f"{name}: expected {expected}, got {value!r:.80}")


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind) or kind, get_args(kind)


def _choices(of: Any, inside: tuple[Any, ...]) -> tuple[Any, ...]:
    return inside if of is Literal else tuple(of) if issubclass(of, Enum) else ()


_hints = cache(get_type_hints)


def _record(kind: Any, value: Any, prefix: str, nan: bool) -> Any:
    hints, arguments = _hints(kind), {}
    if isinstance(value, list):
        names = [field.name for field in fields(kind)]
        if len(value) > len(names):
            raise ValueError(f"{prefix[:-1]}: expected {names}, got {len(value)} entries")
        value = dict(zip(names, value, strict=False))
    for field in fields(kind):
        key = str(field.metadata.get("key"))
        key = key if key in value else field.name
        default = field.default is not MISSING or field.default_factory is not MISSING
        optional = default and not field.metadata.get("needed")
        if key not in value and not optional:
            raise ValueError(f"'{prefix}{key}' is missing")
        if value.get(key) is not None or not optional:
            arguments[field.name] = _read(hints[field.name], value[key], f"{prefix}{key}", nan)
    return kind(**arguments)


def differing(then: Any, now: Any, name: str = "") -> dict[str, tuple[Any, Any]]:
    """Where two JSON values differ: dotted key of each leaf -> (value then, value now).

    None stands for a key that one side lacks. `name` begins every key.
    """
    if not (isinstance(then, Mapping) and isinstance(now, Mapping)):
        same = then == now and isinstance(then, bool) is isinstance(now, bool)
        return {} if same else {name: (then, now)}
    differences: dict[str, tuple[Any, Any]] = {}
    for key in dict.fromkeys([*then, *now]):
        differences |= differing(then.get(key), now.get(key), f"{name}.{key}" if name else str(key))
    return differences


def claim(path: str | Path, pinned: Mapping[str, Any], what: str) -> None:
    """Write what all in a folder depends on, or check that it is what was written before.

    Args:
        path: of a JSON file in the folder.
        pinned: JSON values.
        what: the folder holds, e.g. "evaluation".

    Raises:
        ValueError: it holds another one, or the file is damaged.
    """
    path = Path(path)
    if not path.exists():
        write_json(path, pinned)
        return
    try:
        other = differing(read_json(path), pinned)
    except ValueError as error:
        raise ValueError(f"{error}; delete the folder to begin anew") from error
    if other:
        lines = [f"{key:.200}: {a!r:.200} there, {b!r:.200} asked" for key, (a, b) in other.items()]
        raise ValueError(
            f"{path.parent} holds another {what} ({'; '.join(lines)}); use another folder or "
            "remove it"
        )
