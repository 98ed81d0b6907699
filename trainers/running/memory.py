"""Memory: its peak, of this process and with its children, and what to do where it ran out."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch

INTERVAL_SECONDS = 0.2
MIB = 2**20
STATUS = Path("/proc/self/status")
RSS_UNIT = 1 if sys.platform == "darwin" else 2**10
"""Bytes in which the system counts resident memory."""


def peak_mib(device: torch.device) -> float:
    """Most memory of this process so far, in MiB: torch's of a GPU, else what is resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / MIB
    return _resident_peak() / MIB


def _resident_peak() -> int:
    """Bytes. Linux's `ru_maxrss` begins at the peak of the process that started this one."""
    if STATUS.is_file():
        lines = STATUS.read_text().splitlines()
        found = next((line for line in lines if line.startswith("VmHWM:")), None)
        if found is not None:
            return int(found.split()[1]) * 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT


@contextmanager
def bounded_by(what: str, *settings: str) -> Iterator[None]:
    """Where the block runs out of memory, say which settings bound it.

    Raises:
        MemoryError: in place of torch's error.
    """
    try:
        yield
    except RuntimeError as error:
        out = isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
        if not out:
            raise
        raise MemoryError(f"out of memory while {what}: lower {', '.join(settings)}") from error


class PeakMemory:
    """Samples the resident memory of the process tree while a block runs.

    Pages that processes share are counted once each, so the number errs on the high side.

    Attributes:
        peak_mib: largest sum seen, in MiB.
    """

    def __init__(self) -> None:
        self.peak_mib = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        root = psutil.Process()
        while not self._stop.is_set():
            total = 0
            for process in [root, *root.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:  # it ended between the listing and the look
                    continue
            self.peak_mib = max(self.peak_mib, total / MIB)
            self._stop.wait(INTERVAL_SECONDS)
