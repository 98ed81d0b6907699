"""Kernel interfaces that the standard library lacks: prctl, capabilities, seccomp, Landlock.

Owns the calls; `confine` owns when they are made and with what policy. All are made through ctypes
on the C library that the interpreter has loaded already. Linux only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import stat
import struct
from collections.abc import Iterable

from .syscalls import PATH_CALLS, Architecture

_libc = ctypes.CDLL(None, use_errno=True)
_python = ctypes.PyDLL(None)  # calls made through it keep the interpreter's lock

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 444, 445, 446  # on every machine


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def prctl(option: int, value: int = 0) -> None:
    """Call prctl with one argument. Raises OSError."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl({option})")


def fork() -> int:
    """Fork without the interpreter's own work after a fork. Only for a process of one thread.

    That work is for threads and their locks, and touches some 180 memory pages, each of which costs
    a copy: twice the price of the fork itself.
    """
    return _python.fork()


def drop_capabilities() -> None:
    """Empty the permitted, effective and inheritable sets of the calling process."""
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


# --- seccomp -----------------------------------------------------------------------------------

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_DENY = _ERRNO | errno.EPERM
# Every child of a zygote holds the same open /dev/null: flags that one program sets there could be
# read by a later one. So asking for flags does nothing and gives 0.
_F_GETFL, _RETURN_ZERO = 3, _ERRNO
_SOCKET_TYPE = 0xF  # the rest are flags
_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag
_NUMBER, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32  # offsets in struct seccomp_data
# A program may raise signals in itself, for abort() and for its own handlers, but neither stop
# itself, which would look like a frozen machine, nor fake a kill from outside.
_REFUSED_SIGNALS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)

# Others would have the kernel send signals to any process when data arrives (F_SETOWN, F_SETSIG,
# FIOSETOWN), watch folders, lock, or make pipes large. F_DUPFD, F_GETFD, F_SETFD, F_SETFL,
# F_DUPFD_CLOEXEC; TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX.
_FCNTL = (0, 1, 2, 4, 1030)
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("jt", ctypes.c_ubyte),
        ("jf", ctypes.c_ubyte),
        ("k", ctypes.c_uint),
    )


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction)))


Rule = tuple[int, int, int, int]
_OWN_PID: Rule = (_EQUAL, 1, 0, 0)  # the constant is filled in by `install_child`
_ALLOWED: Rule = (_RETURN, 0, 0, _ALLOW)
_DENIED: Rule = (_RETURN, 0, 0, _DENY)


class SeccompFilter:
    """Allow-lists of system calls in two layers, of which every call must pass both.

    The long one is installed in the zygote and allows what programs may do and what the zygote
    needs; the short one is installed in each child and takes the latter away. (One long filter per
    child costs 0.2 ms to compile, every time.) What is not allowed gets EPERM. `clone3` gets
    ENOSYS, so that the C library falls back to `clone`, which makes threads alone.
    """

    def __init__(self, table: Architecture, paths: bool) -> None:
        """`paths`: allow calls that name files; only sound where Landlock guards them."""
        numbers = [n for name, n in table.allowed.items() if paths or name not in PATH_CALLS]
        head: list[Rule] = [_load(_ARCH), (_EQUAL, 1, 0, table.audit)]
        head += [(_RETURN, 0, 0, _KILL_PROCESS), _load(_NUMBER)]
        if table.high is not None:
            head += [(_AT_LEAST, 0, 1, table.high), _DENIED]
        rules = head[:]
        for low, high in _ranges([*numbers, *table.zygote.values()]):
            rules += [(_AT_LEAST, 0, 2, low), (_AT_LEAST, 1, 0, high + 1), _ALLOWED]
        self._zygote = _program([*rules, *_guards(table.guarded), _DENIED])
        rules = [*head, *_own_guards(table.guarded), *_if_any(table.zygote.values(), _DENIED)]
        self._child = _program([*rules, _ALLOWED])
        self._address = ctypes.byref(self._child)
        # The place of the process's own number, filled in by `install_child`.
        offset = rules.index(_OWN_PID) * ctypes.sizeof(_Instruction) + _Instruction.k.offset
        self._pid = ctypes.c_uint.from_buffer(self._child.rules, offset)

    def install_zygote(self) -> None:
        """Confine the calling zygote. Needs no_new_privs. Raises OSError."""
        address = ctypes.byref(self._zygote)
        _check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, address, 0, 0), "seccomp")

    def install_child(self) -> None:
        """Confine the calling child for ever. Raises OSError."""
        self._pid.value = os.getpid()
        result = _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, self._address, 0, 0)
        _check(result, "seccomp")


def _program(rules: list[Rule]) -> _Program:
    array = (_Instruction * len(rules))(*rules)
    program = _Program(len(rules), array)
    program.rules = array  # kept alive, and reachable
    return program


def _load(offset: int) -> Rule:
    return (_LOAD, 0, 0, offset)


def _if(value: int, *then: Rule) -> list[Rule]:
    """Rules that are skipped unless `value` is loaded."""
    return [(_EQUAL, 0, len(then), int(value)), *then]


def _if_any(values: Iterable[int], then: Rule) -> list[Rule]:
    return [rule for value in values for rule in _if(value, then)]


def _guards(numbers: dict[str, int]) -> list[Rule]:
    """Argument checks of the zygote's filter. Each block begins and ends with the number loaded."""
    stream = [_load(_ARG1), (_AND, 0, 0, _SOCKET_TYPE), *_if(socket.SOCK_STREAM, _ALLOWED)]
    no_flags = _if(_F_GETFL, (_RETURN, 0, 0, _RETURN_ZERO))
    blocks = {
        "clone": [_load(_ARG0), (_ANY_BIT, 0, 1, _CLONE_NAMESPACES), _DENIED, _ALLOWED],
        "clone3": [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)],
        "tgkill": [_load(_ARG2), *_if_any(_REFUSED_SIGNALS, _DENIED), _ALLOWED],
        # The process itself is 0 for prlimit64.
        "prlimit64": [_load(_ARG0), *_if(0, _ALLOWED), _DENIED],
        # asyncio wants pairs of stream sockets; a datagram could be sent to any socket with a name.
        "socketpair": [_load(_ARG0), *_if(socket.AF_UNIX, *stream), _DENIED],
        "fcntl": [_load(_ARG1), *no_flags, *_if_any(_FCNTL, _ALLOWED), _DENIED],
        "ioctl": [_load(_ARG1), *_if_any(_IOCTL, _ALLOWED), _DENIED],
    }
    return [rule for name, block in blocks.items() for rule in _if(numbers[name], *block)]


def _own_guards(numbers: dict[str, int]) -> list[Rule]:
    """Argument checks of a child's filter; what they pass is still subject to the zygote's."""
    blocks = {
        "clone": [_load(_ARG0), (_ANY_BIT, 0, 1, _CLONE_THREAD), _ALLOWED, _DENIED],
        # No new limit, a pointer of two words: one that it sets itself could have the kernel end
        # the program as a machine short of memory would.
        "prlimit64": [_load(_ARG2), *_if(0, _load(_ARG2 + 4), *_if(0, _ALLOWED)), _DENIED],
        "tgkill": [_load(_ARG0), _OWN_PID, _DENIED, _ALLOWED],
    }
    return [rule for name, block in blocks.items() for rule in _if(numbers[name], *block)]


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


# --- Landlock ----------------------------------------------------------------------------------

_FS_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}  # by ABI; later ones as 5
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_TCP_RIGHTS = 3  # bind, connect; from ABI 4
_SCOPES = 3  # abstract unix sockets, signals; from ABI 6
_RULE_PATH = 1


def landlock_ruleset(readable: Iterable[str]) -> int:
    """A ruleset descriptor under which nothing may be done but read below `readable`."""
    abi = _libc.syscall(SYS_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    _check(abi, "landlock version")
    attributes = struct.pack("Q", _FS_RIGHTS[min(abi, 5)])
    attributes += struct.pack("Q", _TCP_RIGHTS) if abi >= 4 else b""
    attributes += struct.pack("Q", _SCOPES) if abi >= 6 else b""
    size = ctypes.c_size_t(len(attributes))
    ruleset = _libc.syscall(SYS_LANDLOCK_CREATE, attributes, size, ctypes.c_uint(0))
    _check(ruleset, "landlock_create_ruleset")
    for path in readable:
        try:
            anchor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # a directory that is not there needs no permission
        rights = _READ_FILE | (_READ_DIR if stat.S_ISDIR(os.fstat(anchor).st_mode) else 0)
        rule = struct.pack("=Qi", rights, anchor)
        added = _libc.syscall(SYS_LANDLOCK_ADD, ruleset, _RULE_PATH, rule, ctypes.c_uint(0))
        os.close(anchor)
        _check(added, f"landlock_add_rule({path})")
    return ruleset


def landlock_restrict(ruleset: int) -> None:
    """Confine the calling process for ever. Needs no_new_privs. Raises OSError."""
    _check(_libc.syscall(SYS_LANDLOCK_RESTRICT, ruleset, ctypes.c_uint(0)), "landlock_restrict")
