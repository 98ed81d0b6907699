"""Where made and fetched models lie, and folders that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


def cache_folder() -> Path:
    """`$LLM_MARL_CACHE`, else `~/.cache/llm-marl-envs`."""
    named = os.environ.get("LLM_MARL_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "llm-marl-envs"


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` when the block ends well.

    It lies beside `folder`, so no half-written one is ever found there.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f"{folder.name}.", suffix=".partial", dir=folder.parent) as one:
        made = Path(one) / folder.name
        made.mkdir()
        yield made
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
