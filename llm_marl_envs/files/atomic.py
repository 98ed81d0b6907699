"""Files that are whole or absent: written beside their place and renamed; errors name the file."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)
"""What the system says where a file cannot be written on: a full disk, a limit, a broken disk."""
NUMBERED = re.compile(r"(?:errno|os error) (\d+)", re.IGNORECASE)
"""How libraries that are not Python's tell such an error."""
OF_TORCH = re.compile(r"inline_container|PytorchStreamWriter|iostream error")
"""What torch says where it cannot write on, in place of the system's words."""


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
def naming(place: Path, shown: Path | None = None) -> Iterator[None]:
    """Let an error of writing say which file could not be written: the system does not.

    Args:
        place: a file, or a folder, in which the file written last is meant.
        shown: the name of `place` to tell, where it is written in another one's stead.

    Raises:
        OSError: the disk is full, or the file grows beyond a limit, whatever library wrote it.
    """
    try:
        yield
    except Exception as error:
        reason = _why_not_written(error)
        if reason is None:
            raise
        file = shown or place
        if place.is_dir():
            file /= _written_last(place, error)
        raise OSError(f"{file}: could not be written ({reason})") from error


def _written_last(folder: Path, error: Exception) -> Path:
    if type(error).__name__ == "SafetensorError":  # which leaves nothing of its file
        return Path("model.safetensors")
    inside = [path for path in folder.rglob("*") if path.is_file()]
    last = max(inside, key=lambda path: path.stat().st_mtime_ns, default=folder)
    return last.relative_to(folder)


def _why_not_written(error: Exception) -> str | None:
    """Why a file could not be written on; None of an error that says something else."""
    if getattr(error, "filename", None) is not None:
        return None
    said = NUMBERED.search(str(error))
    number = getattr(error, "errno", None) or (int(said[1]) if said else None)
    if number in FULL:
        return os.strerror(number)
    torch_says = isinstance(error, RuntimeError) and OF_TORCH.search(str(error))
    return "the disk is full, or a limit of files is reached" if torch_says else None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A path to write to; when the block ends well, what was written takes the place of `path`.

    The folder is made where it is missing. After an error `path` is what it was before. A pipe or a
    device, such as /dev/stdout, is written as it is.

    Raises:
        ValueError: the folder is a file, or the file a folder.
        OSError: it cannot be written; the message names `path`.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path}: a folder; expected a file, or a place for one")
    if str(path.parent) in ("/dev", "/dev/fd") or (path.exists() and not path.is_file()):
        with naming(path):
            yield path
        return
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with naming(partial, path):
            yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
