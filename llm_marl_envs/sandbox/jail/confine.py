"""Takes rights away from a freshly forked child, in the order that works.

Owns the policy: which layers, with what limits, in which order. Does not own the kernel calls
(`kernel`) nor the choice of layers, which the parent makes and passes as a `Policy`.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import dataclass, field

from . import syscalls

LINUX = sys.platform.startswith("linux")
if LINUX:
    from . import kernel

OPEN_FILES = 32
STACK_BYTES = 64 << 20
# Address space that the interpreter and its libraries map before a program starts, in bytes.
BASE_BYTES = 96 << 20


@dataclass(frozen=True)
class Policy:
    """Limits and layers of the children of one zygote."""

    cpu_seconds: int = 2  # processor time of one child, whole seconds
    memory_bytes: int = 512 << 20  # address space of one child beyond the interpreter's own
    layers: tuple[str, ...] = ()  # of "seccomp", "landlock", "uid", "capabilities"
    uid: int = 0  # with the layer "uid": the user and group of the children
    readable: tuple[str, ...] = field(default=())  # with the layer "landlock": readable paths


class Confinement:
    """The policy of one zygote, prepared once, applied in each child."""

    def __init__(self, policy: Policy) -> None:
        """Build the filter and the ruleset. Raises OSError where a layer cannot be had."""
        self.policy = policy
        self.ruleset: int | None = None
        self._filter = None
        if "landlock" in policy.layers:
            self.ruleset = kernel.landlock_ruleset(policy.readable)
        if "seccomp" in policy.layers:
            table = syscalls.current()
            if table is None:
                raise OSError("no table of system calls for this machine")
            self._filter = kernel.SeccompFilter(table, paths=self.ruleset is not None)

    def apply(self, zygote: int, ruleset: int | None) -> None:
        """Confine the calling child for ever. Raises OSError if any layer fails.

        `zygote` is the process that forked it, `ruleset` the descriptor of the Landlock ruleset,
        which is closed.
        """
        layers = self.policy.layers
        if "uid" in layers:
            uid = self.policy.uid
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        if LINUX:
            # After the change of user, which clears it.
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != zygote:
                raise OSError("the zygote is gone")
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        self._limit()
        if LINUX:
            if "capabilities" in layers:
                kernel.drop_capabilities()
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if ruleset is not None:
            kernel.landlock_restrict(ruleset)
            os.close(ruleset)
        if self._filter is not None:
            self._filter.install()

    def _limit(self) -> None:
        cpu, memory = self.policy.cpu_seconds, self.policy.memory_bytes + BASE_BYTES
        # SIGXCPU at the limit; SIGKILL a second later for a program that ignores it.
        _lower(resource.RLIMIT_CPU, cpu, cpu + 1)
        _lower(resource.RLIMIT_CORE, 0, 0)
        _lower(resource.RLIMIT_FSIZE, 0, 0)
        _lower(resource.RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES)
        _lower(resource.RLIMIT_STACK, STACK_BYTES, STACK_BYTES)
        _lower(resource.RLIMIT_AS, memory, memory)
        _lower(resource.RLIMIT_MEMLOCK, 0, 0)
        if LINUX:
            _lower(resource.RLIMIT_MSGQUEUE, 0, 0)


def _lower(which: int, soft: int, hard: int) -> None:
    """Set a limit, never above the one that is already there."""
    _, ceiling = resource.getrlimit(which)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (soft, hard))
