"""A lock that is a file, which the system releases whatever becomes of the process."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""What a file system without locks says."""


@contextmanager
def locked(file: Path, *, wait: bool) -> Iterator[None]:
    """Hold a file's lock while the block runs; warns where the system has none.

    Args:
        file: made where missing; its folder is there.
        wait: until another process lets go, instead of an error.

    Raises:
        BlockingIOError: another process holds it, and `wait` is False.
    """
    with open(file, "w") as lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except (ImportError, OSError) as error:  # Windows; a file system without locks
            if isinstance(error, OSError) and error.errno not in NO_LOCKS:
                raise
            where = file.parent
            warnings.warn(f"{where} cannot be locked ({error}): start one run there", stacklevel=4)
        yield
