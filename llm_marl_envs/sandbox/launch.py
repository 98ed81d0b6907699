"""How the zygote is started: interpreter, environment, bubblewrap.

Owns command lines. Does not decide which layers are used (`layers`) nor talk to the zygote
(`zygote_link`).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A fixed hash seed makes the order of sets the same in every run; one arena keeps the address space
# that threads reserve small; no locale and nothing else of the caller's environment gets in.
ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1"}
# A zygote must have one thread only, or its forks would be unsafe; numerical libraries start more.
ENVIRONMENT |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_BOOT = (
    "import sys; sys.path.insert(0, {here!r}); from jail import zygote; del sys.path[0]; "
    "zygote.main()"
)


def interpreter() -> str:
    """The real executable behind a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def readable_paths(extra: Sequence[str] = ()) -> tuple[str, ...]:
    """What a confined child may read: the standard library and shared libraries."""
    paths = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *extra}
    multiarch = sysconfig.get_config_var("MULTIARCH") or "none"
    for root in ("/lib", "/usr/lib"):
        paths |= {f"{root}/{multiarch}", f"{root}64"}
    paths |= {sysconfig.get_config_var("LIBDIR") or "/usr/lib/none", "/etc/ld.so.cache"}
    paths -= {"/usr/lib"}
    return tuple(sorted(p for p in paths if os.path.exists(p)))


def command(control: int, parent: int, options: Mapping[str, object]) -> list[str]:
    """Command line of a bare zygote that finds its sockets at the two descriptors."""
    boot = _BOOT.format(here=str(HERE))
    # No site packages, no user directory, nothing from the current directory, no bytecode written;
    # and no columns in tracebacks, which take memory that every fork has to share.
    flags = ["-s", "-P", "-S", "-B", "-X", "no_debug_ranges", "-c"]
    return [interpreter(), *flags, boot, str(control), str(parent), json.dumps(options)]


def bubblewrap(mode: str, extra: Sequence[str]) -> list[str]:
    """Prefix that puts a command into namespaces of its own.

    `mode` "root" keeps the real root user with the right to change user and nothing more, so that
    each slot has a user of its own; "user" makes a user namespace.
    """
    tool = shutil.which("bwrap")
    if tool is None:
        raise FileNotFoundError("bwrap is not installed")
    line = [tool, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    line += ["--unshare-cgroup-try", "--as-pid-1", "--new-session", "--hostname", "sandbox"]
    if mode == "root":
        line += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        line += ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
        line += ["--uid", "65534", "--gid", "65534"]
    bound: list[str] = []
    for path in ("/usr", "/lib", "/lib64", "/lib32", "/bin"):
        if os.path.islink(path):
            line += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            line += ["--ro-bind", path, path]
            bound.append(path)
    line += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    line += ["--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"]
    for path in dict.fromkeys([sys.base_prefix, sys.base_exec_prefix, str(HERE), *extra]):
        if not any(path == b or path.startswith(b + "/") for b in bound):
            # bwrap makes missing parents readable to their owner alone.
            for parent in reversed(Path(path).parents[:-1]):
                line += ["--perms", "0755", "--dir", str(parent)]
            line += ["--ro-bind", path, path]
            bound.append(path)
    return [*line, "--"]
