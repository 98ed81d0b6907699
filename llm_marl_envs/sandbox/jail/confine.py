"""Takes rights away from a freshly forked child, in the order that works.

Owns the policy: which layers, with what limits, in which order. Does not own the kernel calls
(`kernel`) nor the choice of layers, which the parent makes and passes as a `Policy`.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from . import kernel, syscalls

LINUX = sys.platform.startswith("linux")

OPEN_FILES = 32
STACK_BYTES = 64 << 20
# Address space that the interpreter and its libraries map before a program starts, in bytes.
BASE_BYTES = 96 << 20


@dataclass(frozen=True)
class Policy:
    """Limits and layers of the children of one zygote."""

    cpu_seconds: int = 2  # processor time of one child, whole seconds
    memory_bytes: int = 512 << 20  # address space of one child beyond the interpreter's own
    layers: Sequence[str] = ()  # of "seccomp", "landlock", "uid", "capabilities"
    uid: int = 0  # with the layer "uid": the user and group of the children
    readable: Sequence[str] = ()  # with the layer "landlock": readable paths


class Confinement:
    """The policy of one zygote, prepared once.

    A part is taken on by the zygote itself and inherited by its children, a part by each child. The
    second is kept short, because every memory page that a child touches costs a copy.
    """

    def __init__(self, policy: Policy) -> None:
        """Build the filter and the ruleset. Raises OSError where a layer cannot be had."""
        self.policy = policy
        self.zygote = os.getpid()
        self.ruleset: int | None = None
        self._filter = None
        self._uid = policy.uid if "uid" in policy.layers else None
        # The kernel counts whole clock ticks against this limit and on a busy machine was seen to
        # count 1.4 times what was used; so it is half again as high, and a second more for the kill
        # of a program that ignores the first signal.
        soft = policy.cpu_seconds + max(1, policy.cpu_seconds // 2)
        self._cpu = (soft, soft + 1)
        if "landlock" in policy.layers:
            self.ruleset = kernel.landlock_ruleset(policy.readable)
        if "seccomp" in policy.layers:
            table = syscalls.current()
            if table is None:
                raise OSError("no table of system calls for this machine")
            self._filter = kernel.SeccompFilter(table, paths=self.ruleset is not None)

    def prepare(self) -> None:
        """Take rights from the zygote that neither it nor any child needs."""
        memory = self.policy.memory_bytes + BASE_BYTES
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_FSIZE, 0)
        _lower(resource.RLIMIT_STACK, STACK_BYTES)
        _lower(resource.RLIMIT_AS, memory)
        _lower(resource.RLIMIT_MEMLOCK, 0)
        if LINUX:
            _lower(resource.RLIMIT_MSGQUEUE, 0)
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            if "capabilities" in self.policy.layers and self._uid is None:
                kernel.drop_capabilities()
        if self._filter is not None:
            self._filter.install_zygote()

    def apply(self) -> None:
        """Confine the calling child for ever. Raises OSError if any layer fails."""
        if self._uid is not None:  # this also empties the child's capability sets
            os.setgroups([])
            os.setresgid(self._uid, self._uid, self._uid)
            os.setresuid(self._uid, self._uid, self._uid)
        if LINUX:
            # After the change of user, which clears it.
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self.zygote:
                raise OSError("the zygote is gone")
        resource.setrlimit(resource.RLIMIT_CPU, self._cpu)
        # Not in the zygote: there it bounds what all workers of a user may have in flight.
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
        if self.ruleset is not None:
            kernel.landlock_restrict(self.ruleset)
            os.close(self.ruleset)
        if self._filter is not None:
            self._filter.install_child()


def _lower(which: int, limit: int) -> None:
    """Set a limit for good, never above the one that is already there."""
    _, ceiling = resource.getrlimit(which)
    if ceiling != resource.RLIM_INFINITY:
        limit = min(limit, ceiling)
    try:
        resource.setrlimit(which, (limit, limit))
    except (ValueError, OSError):
        if LINUX:  # elsewhere some limits cannot be set, and nothing is promised
            raise
