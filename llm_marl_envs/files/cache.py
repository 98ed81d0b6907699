"""Where made and fetched models lie, what tells one from another, and folders that are whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llm_marl_envs.files.atomic import check_folder, make_folder, naming
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.files.locks import locked

VARIABLE = "LLM_MARL_CACHE"
"""Of the environment: the folder for what is made or fetched once."""
CARD_FILE = "README.md"
_WHOLE_BYTES = 1 << 20


def cache_folder() -> Path:
    """`$LLM_MARL_CACHE`, else `~/.cache/llm-marl-envs`.

    Raises:
        ValueError: neither names a folder.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    try:
        return Path.home() / ".cache" / "llm-marl-envs"
    except RuntimeError as error:
        raise ValueError(f"there is no home folder: set {VARIABLE} to a folder") from error


def key_of(*parts: Any) -> str:
    """16 hex digits that stand for what a model is made from, JSON values."""
    text = json.dumps(parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fingerprint(folder: str | Path) -> str:
    """A short hash of a folder's files: names, sizes, contents.

    Cards do not count: whoever adds a licence to one has the same team.
    Of files above 2 MiB the first and last MiB count: training changes every weight, and reading
    all of a large model would take longer than many an evaluation.
    """
    digest = hashlib.sha256()
    files = (p for p in Path(folder).rglob("*") if p.is_file() and p.name != CARD_FILE)
    for path in sorted(files):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_WHOLE_BYTES))
            file.seek(max(file.tell(), size - _WHOLE_BYTES))
            digest.update(file.read())
    return f"sha256 {digest.hexdigest()[:16]}"


def is_made(record: Path, key: str, what: str, *, fresh: bool) -> bool:
    """Whether a folder holds a model and is to be left as it is.

    Args:
        record: the file in it that says what was made, under "key".
        key: of the model, see `key_of`.
        what: the model is, in words.
        fresh: replace an older one.

    Raises:
        ValueError: the folder holds something else, or an older one and `fresh` is not set.
    """
    folder = record.parent
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    held = read_json(record)["key"] if record.is_file() else None
    if held is None or (held != key and not fresh):
        raise ValueError(
            f"{folder} is there and is not this {what} (its key is {held}, expected {key}); choose "
            f"another folder, or pass fresh to replace an older {what}"
        )
    return not fresh


@contextmanager
def made_once(folder: Path) -> Iterator[None]:
    """Hold a folder's lock while it is made: who comes meanwhile waits, and then finds it there.

    Raises:
        ValueError: the cache, where locks lie, cannot be written.
    """
    locks = cache_folder() / "locks"
    try:
        make_folder(locks)
        check_folder(locks)
    except (OSError, ValueError) as error:
        raise ValueError(f"{error}: set {VARIABLE} to a folder, where models are kept") from error
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    with locked(locks / name, wait=True):
        yield


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` when the block ends well.

    It lies beside `folder`, so no half-written one is ever found there.
    """
    folder = folder.resolve()  # a link stays, and "." has a name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f"{folder.name}.", suffix=".partial", dir=folder.parent) as tmp:
        made = Path(tmp) / folder.name
        made.mkdir()
        with naming(made, folder):
            yield made
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
