"""System calls that a program may and may not make, one by one, as it sees them itself."""

from __future__ import annotations

import sys

import pytest
from support.jobs import alone

from llm_marl_envs.sandbox import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

PROGRAM = """
import ctypes, fcntl, os, resource, select, signal, socket, struct, threading
X86 = os.uname().machine == "x86_64"
a, b = socket.socketpair()
libc = ctypes.CDLL(None, use_errno=True)
HIGH = ctypes.c_void_p(1 << 32)

def call(*args):
    if libc.syscall(*args) < 0 and ctypes.get_errno() == 1:  # not EFAULT, which comes behind it
        raise OSError(1, "refused")

refused = {
    "fork": os.fork,
    "signal to a relative": lambda: os.kill(os.getppid(), 0),
    "signal owner by fcntl": lambda: fcntl.fcntl(a, fcntl.F_SETOWN, os.getppid()),
    "signal number by fcntl": lambda: fcntl.fcntl(a, 10, 9),
    "signal owner by ioctl": lambda: fcntl.ioctl(a, 0x8901, struct.pack("i", os.getppid())),
    "asynchronous signals by ioctl": lambda: fcntl.ioctl(a, 0x5452, struct.pack("i", 1)),
    "lock": lambda: fcntl.lockf(0, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "lease": lambda: fcntl.fcntl(a, 1024, 0),
    "large pipe": lambda: fcntl.fcntl(os.pipe()[0], 1031, 1 << 20),
    "datagram pair": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "packet pair": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET),
    "unix socket": lambda: socket.socket(socket.AF_UNIX),
    "internet socket": lambda: socket.socket(socket.AF_INET),
    "bind": lambda: a.bind("/tmp/x"),
    "stop itself": lambda: signal.raise_signal(signal.SIGSTOP),
    "kill itself": lambda: signal.raise_signal(signal.SIGKILL),
    "limits of another": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU),
    "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999)),
    "lower a limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)),
    "lower and read a limit": lambda: resource.prlimit(0, resource.RLIMIT_CPU, (1, 1)),
    "set a limit at an address of 33 bits": lambda: call(302 if X86 else 261, 0, 0, HIGH, 0),
    "write a file": lambda: open("/tmp/x", "w"),
    "read a file": lambda: open("/etc/passwd"),
    "list a folder": lambda: os.listdir("/"),
    "choose a processor": lambda: os.sched_setaffinity(0, {0}),
    "priority": lambda: os.nice(-1),
    "memory file": lambda: os.memfd_create("x"),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "become another user": lambda: call(117 if X86 else 147, 0, 0, 0),
    "trace": lambda: call(101 if X86 else 117, 16, os.getppid(), 0, 0),
    "process descriptor": lambda: os.pidfd_open(os.getppid()),
}
allowed = {
    "pipe": os.pipe,
    "flags": lambda: fcntl.fcntl(a, fcntl.F_SETFL, fcntl.fcntl(a, fcntl.F_GETFL)),
    "blocking by ioctl": lambda: fcntl.ioctl(a, 0x5421, struct.pack("i", 1)),
    "poll": lambda: select.poll().poll(0),
    "epoll": lambda: select.epoll().close(),
    "thread": lambda: threading.Thread(target=int).start(),
    "own handler": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    "own signal": lambda: signal.raise_signal(signal.SIGUSR1),
    "timer": lambda: signal.setitimer(signal.ITIMER_REAL, 0),
    "read a limit": lambda: resource.getrlimit(resource.RLIMIT_CPU),
    "random bytes": lambda: os.urandom(8),
}

def solve(name):
    if name in ("refused", "allowed"):
        return sorted(globals()[name])
    try:
        (refused | allowed)[name]()
        return True
    except OSError:
        return False
    except ValueError:  # of resource: more than the hard limit
        return False
"""
TESTS = """
assert [n for n in solve("refused") if solve(n)] == []
assert [n for n in solve("allowed") if not solve(n)] == []
assert len(solve("refused")) == 31
"""


def test_what_a_program_may_do(sandbox: Sandbox) -> None:
    verdict = alone(sandbox, PROGRAM, TESTS)
    assert verdict.ok, [outcome.error for outcome in verdict.outcomes] + [verdict.detail]
