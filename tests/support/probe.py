"""A program's look around: everything it can reach that might tell one run from another.

Runs inside the sandbox, as a part of a program. `probe()` gives section -> text.
"""

import builtins
import collections
import contextlib
import gc
import os
import random
import re
import resource
import signal
import sys
import threading
import types

DEPTH = 7


def plain(value, depth=DEPTH, seen=None):
    """A text of a value and of what it is made of, without addresses."""
    seen = set() if seen is None else seen
    if id(value) in seen or depth == 0:
        return type(value).__name__
    seen.add(id(value))
    parts = [type(value).__name__]
    if isinstance(value, dict):
        for key in [key for key in value if key not in ("size", "KNOWN")]:
            parts.append(f"{key!r}: {plain(value[key], depth - 1, seen)}")
    elif isinstance(value, (list, tuple)):
        parts += [plain(item, depth - 1, seen) for item in value]
    elif isinstance(value, types.CodeType):
        for name in sorted(dir(value)):
            if name.startswith("co_") and name not in ("co_lines", "co_positions", "co_lnotab"):
                parts.append(f"{name}={plain(getattr(value, name), depth - 1, seen)}")
    elif isinstance(value, types.CellType):
        parts.append(plain(value.cell_contents, depth - 1, seen))
    elif isinstance(value, types.FunctionType):
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__"):
            parts.append(repr(getattr(value, name)))
        for name in ("__kwdefaults__", "__annotations__", "__dict__", "__code__", "__closure__"):
            parts.append(plain(getattr(value, name), depth - 1, seen))
    elif isinstance(value, (int, float, str, bytes, type(None), type)):
        parts.append(repr(value))
    else:
        parts.append(plain(getattr(value, "__dict__", None), depth - 1, seen))
    return re.sub(r"0x[0-9a-f]+", "0x", " ".join(parts))


def tried(function, *args):
    try:
        return plain(function(*args))
    except BaseException as error:  # noqa: BLE001 - what is refused is a finding, too
        return f"{type(error).__name__} {getattr(error, 'errno', '')}"


def frames():
    frame, found = sys._getframe(), []
    while frame is not None:
        code = frame.f_code
        found.append((code.co_filename, code.co_name, frame.f_lineno, list(frame.f_locals)))
        found.append([plain(value, 3) for value in frame.f_locals.values()])
        frame = frame.f_back
    return found


def descriptors():
    found = []
    for fd in range(64):
        with contextlib.suppress(OSError):
            found.append((fd, os.fstat(fd).st_mode, os.get_inheritable(fd)))
    return found


def read(path):
    with open(path) as file:
        return file.read()


def files():
    found = []
    for path in ("/", "/tmp", ".", "/proc", "/proc/self", "/dev", os.path.dirname(os.__file__)):
        found.append((path, tried(os.listdir, path)))
    for path in ("stat", "status", "maps", "cmdline", "environ", "comm", "oom_score", "cgroup"):
        found.append((path, tried(read, f"/proc/self/{path}")))
    return found


def limits():
    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    return [(name, tried(resource.getrlimit, getattr(resource, name))) for name in names]


def rights():
    found: list = []
    names = "getcwd getuid geteuid getgid getegid getgroups getlogin ctermid uname cpu_count"
    found += [(name, tried(getattr(os, name))) for name in names.split()]
    found += [tried(os.sched_getaffinity, 0), tried(os.sched_getscheduler, 0)]
    return [*found, tried(os.getpriority, 0, 0)]


def modules():
    return [(name, list(vars(module))) for name, module in list(sys.modules.items())]


def counts():
    kinds = collections.Counter(type(one).__name__ for one in gc.get_objects())
    return sorted(kinds.items())


def collector():
    return [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug()]


def system():
    skipped = ("modules", "_current_frames", "exc_info")
    return [(n, plain(v, 2)) for n, v in vars(sys).items() if n not in skipped]


def probe(space):
    """Section -> text; `space` is the program's own globals."""
    return {
        "globals": plain(space, 4),
        "order": repr(list(space)),
        "aux": plain(space.get("aux")),
        "shown": f"{type(space.get('aux'))} {dir(space.get('aux'))}",
        "builtins": repr(list(vars(builtins))),
        "modules": repr(modules()),
        "system": repr(system()),
        "frames": repr(frames()),
        "objects": repr(counts()),
        "collector": repr(collector()),
        "threads": repr([thread.name for thread in threading.enumerate()]),
        "limits": repr(limits()),
        "environment": repr([list(os.environ.items()), sys.argv, sys.path, sys.flags]),
        "rights": repr(rights()),
        "descriptors": repr(descriptors()),
        "files": repr(files()),
        "signals": repr([tried(signal.getsignal, n) for n in range(1, 65)]),
        "random": repr(random.getstate()),
        "hashes": repr([hash("a"), hash(b"a"), list({"a", "b", "c", "d"})]),
        "allocated": repr([sys.getallocatedblocks(), gc.get_count()]),
    }
