"""The folders that the program was given: what lies in them, by names that lead nowhere else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from llm_marl_envs.report.sources import names_apart

DEEPEST = 5
"""How far below a given folder is looked."""
MOST_FOLDERS = 5000
"""How many folders are looked into."""
KEPT_SECONDS = 2.0
"""How long what was seen is believed."""


class Folders:
    """Given folders and those below them; a place is a given folder's name and a path in it.

    Links are not followed below a given folder, so a place never leads out of it. A folder whose
    name is no text, but other bytes, is left out: no page could show it.

    Args:
        given: the folders; one that does not exist yet is empty.

    Raises:
        ValueError: one is given twice, is a file, or has a name that is no text.
    """

    def __init__(self, given: Sequence[str | Path]) -> None:
        paths = [Path(folder).resolve() for folder in given]
        for place, path in enumerate(paths):
            if path in paths[:place]:
                raise ValueError(f"{path}: given twice; name each folder once")
            if path.exists() and not path.is_dir():
                raise ValueError(f"{path}: a file; expected a folder")
            if not _is_text(str(path)):
                raise ValueError(f"{str(path)!a}: a folder whose name is no text; rename it")
        self._roots = dict(zip(names_apart(*paths), paths, strict=True)) if paths else {}
        self._seen: tuple[float, dict[str, tuple[Path, frozenset[str]]]] = (-KEPT_SECONDS, {})

    @property
    def names(self) -> list[str]:
        """Names of the given folders."""
        return [*self._roots]

    def holding(self, *names: str) -> list[str]:
        """The places that hold one of the files, sorted; a pipe or a folder is no file."""
        return sorted(
            place
            for place, (path, files) in self._files().items()
            if any(os.path.isfile(path / name) for name in files & {*names})
        )

    def path(self, place: str) -> Path:
        """Where a place is.

        Raises:
            ValueError: no such place.
        """
        shown = self._files()
        if place not in shown:
            raise ValueError(f"{place!r:.80}: no such folder among those that are shown")
        return shown[place][0]

    def _files(self) -> dict[str, tuple[Path, frozenset[str]]]:
        """Place -> where it is, and the names of the files in it."""
        now = time.monotonic()
        if now - self._seen[0] >= KEPT_SECONDS:
            self._seen = now, dict(self._walk())
        return self._seen[1]

    def _walk(self) -> Iterator[tuple[str, tuple[Path, frozenset[str]]]]:
        left = MOST_FOLDERS
        for name, root in self._roots.items():
            for folder, below, files in os.walk(root):
                inside = Path(folder).relative_to(root)
                deeper = filter(_is_text, below) if len(inside.parts) < DEEPEST else ()
                below[:] = sorted(deeper)
                yield (Path(name) / inside).as_posix(), (Path(folder), frozenset(files))
                left -= 1
                if not left:
                    return


def _is_text(name: str) -> bool:
    """Whether the bytes of a name are UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
