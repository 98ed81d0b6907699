"""Files that are whole or absent: written beside their place and renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are missing.

    Raises:
        ValueError: one of them is a file, or a link that leads nowhere.
        OSError: the system refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise _no_folder(_nearest(folder)) from error
    except OSError as error:
        raise _refused(folder, error) from error


def check_folder(folder: Path) -> None:
    """Try whether a folder could be made and written into; nothing is left of it.

    Raises:
        ValueError: it, or one above it, is a file, or a link that leads nowhere.
        OSError: the system refuses.
    """
    nearest = _nearest(folder)
    if not nearest.is_dir():
        raise _no_folder(nearest)
    try:
        with tempfile.TemporaryDirectory(dir=nearest):
            pass
    except OSError as error:
        raise _refused(folder, error) from error


def _nearest(folder: Path) -> Path:
    """The path itself or the next one above it that there is."""
    return next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))


def _no_folder(path: Path) -> ValueError:
    what = "a file" if path.exists() else "a link that leads nowhere"
    return ValueError(f"{path}: {what}; expected a folder to write into")


def _refused(folder: Path, error: OSError) -> OSError:
    said = f"{folder}: cannot be written ({error.strerror}); give one that can be written"
    return type(error)(said)  # of a number and a text Python would show the number first


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path to write to; when the block ends well, what was written takes the place of `path`.

    The folder is made where it is missing. After an error `path` is what it was before. A pipe or a
    device, such as /dev/stdout, is written as it is.

    Raises:
        ValueError: the folder is a file, or the file a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path}: a folder; expected a file, or a place for one")
    if str(path.parent) in ("/dev", "/dev/fd") or (path.exists() and not path.is_file()):
        yield path
        return
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
