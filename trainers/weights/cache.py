"""Where made and fetched models lie, and folders that are there whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from llm_marl_envs.files.locks import locked


def cache_folder() -> Path:
    """`$LLM_MARL_CACHE`, else `~/.cache/llm-marl-envs`."""
    named = os.environ.get("LLM_MARL_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "llm-marl-envs"


@contextmanager
def made_once(folder: Path) -> Iterator[None]:
    """Hold a folder's lock while it is made: who comes meanwhile waits, and then finds it there."""
    locks = cache_folder() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
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
    with TemporaryDirectory(
        prefix=f"{folder.name}.", suffix=".partial", dir=folder.parent
    ) as beside:
        made = Path(beside) / folder.name
        made.mkdir()
        yield made
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
