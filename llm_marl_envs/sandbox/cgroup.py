"""A control group for each worker, where the caller may make one.

Owns making, filling and removing groups, on version 2 and version 1 of the interface. A group caps
the number of threads and the memory of a whole worker, against what limits of single processes add
up to. Needs write access to the hierarchy, which usually means root outside a container.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
MAX_TASKS = 512  # threads and processes of one worker: judge, programs, spare children
REMOVE_TRIES, REMOVE_PAUSE = 20, 0.02  # a killed process takes a moment to end; seconds
PREFIX = "llm-marl-sandbox"


class Cgroup:
    """The groups of one worker: one on version 2, one per controller on version 1."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders

    def add(self, pid: int) -> None:
        """Move a process in; what it forks afterwards follows. Raises OSError."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove the groups once their last process has ended, which was killed already."""
        for folder in self.folders:
            for _ in range(REMOVE_TRIES):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(REMOVE_PAUSE)


def create(slot: int, memory_bytes: int) -> Cgroup:
    """Groups for one worker, with a cap on the memory of all its processes. Raises OSError."""
    name = f"{PREFIX}-{os.getpid()}-{slot}"
    group = Cgroup([])
    try:
        for root, limits in _hierarchies(memory_bytes):
            _remove_stale(root)
            folder = root / name
            folder.mkdir(exist_ok=True)
            group.folders.append(folder)
            for file, value in limits.items():
                (folder / file).write_text(str(value))
    except OSError:
        group.remove()
        raise
    if not group.folders:
        raise OSError("no control groups here")
    return group


def _hierarchies(memory_bytes: int) -> list[tuple[Path, dict[str, int]]]:
    """Where groups can be made, and the files of limits in each."""
    if (MOUNT / "cgroup.controllers").exists():
        return [(_own_group(MOUNT, ""), {"pids.max": MAX_TASKS, "memory.max": memory_bytes})]
    limits = {
        "pids": {"pids.max": MAX_TASKS},
        "memory": {"memory.limit_in_bytes": memory_bytes},
    }
    controllers = [name for name in limits if (MOUNT / name / "cgroup.procs").exists()]
    return [(_own_group(MOUNT / name, name), limits[name]) for name in controllers]


def _own_group(mount: Path, controller: str) -> Path:
    """The group this process is in, below which new ones belong."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            folder = mount / path.lstrip("/")
            return folder if folder.is_dir() else mount
    return mount


def _remove_stale(root: Path) -> None:
    """Remove groups of processes that were killed before they could do so."""
    for folder in root.glob(f"{PREFIX}-*"):
        owner = folder.name.split("-")[-2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
