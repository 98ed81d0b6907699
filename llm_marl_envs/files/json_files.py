"""JSON files of results: written whole or not at all, read with errors that name the file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_marl_envs.files.atomic import make_folder, replacing


def write_json(path: str | Path, value: Any) -> None:
    """Write `value`; an existing file is replaced at once, never half.

    Raises:
        ValueError: a NaN or an infinite number, which JSON does not know.
    """
    text = json.dumps(value, indent=2, allow_nan=False)
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


def read_json(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        ValueError: there is no such file, it is half-written or no JSON, or it holds no object.
    """
    path = Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise ValueError(f"{path}: no such file") from error
    except (ValueError, RecursionError) as error:  # also text that is no UTF-8
        raise ValueError(f"{path}: half-written or no JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def differing(then: Any, now: Any, name: str = "") -> dict[str, tuple[Any, Any]]:
    """Where two JSON values differ: dotted key -> (value then, value now).

    Args:
        then: one value.
        now: the other.
        name: of both; begins every key.

    Returns:
        One entry for each leaf; None stands for a key that one side lacks.
    """
    if not (isinstance(then, Mapping) and isinstance(now, Mapping)):
        same = then == now and isinstance(then, bool) is isinstance(now, bool)
        return {} if same else {name: (then, now)}
    found: dict[str, tuple[Any, Any]] = {}
    for key in dict.fromkeys([*then, *now]):
        found |= differing(then.get(key), now.get(key), f"{name}.{key}" if name else str(key))
    return found
