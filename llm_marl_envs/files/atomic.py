"""Files that are whole or absent: written beside their place and renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing.

    Raises:
        ValueError: one of them is a file.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        file = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        raise ValueError(f"{file}: a file; expected a folder to write into") from error


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path to write to; when the block ends well, what was written takes the place of `path`.

    The folder is made where it is missing. After an error `path` is what it was before.

    Raises:
        ValueError: the folder is a file.
    """
    path = Path(path)
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
