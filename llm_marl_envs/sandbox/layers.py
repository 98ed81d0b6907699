"""Which layers of confinement this machine offers, found out by trying.

Owns the names of layers, the order in which configurations are tried, the comparison of what was
promised with what a confined child could still do, and the refusal where too little can be had.
docs/sandbox.md says what each layer stops.
"""

from __future__ import annotations

import os
import platform
import shutil
import threading
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, replace

from . import cgroup, launch
from .jail import syscalls
from .records import Limits, SandboxUnavailable
from .zygote_link import LINUX, Zygote

LAYERS = (
    "rlimits", "capabilities", "uid", "cgroup", "seccomp", "nofs", "landlock", "bubblewrap",
)  # fmt: skip
"""Weakest first."""
# Modules that a program may want and could not load later where no file can be opened.
_NOFS_PRELOAD = """
hashlib secrets uuid difflib graphlib html ipaddress locale numbers shlex tokenize zlib base64
binascii cmd colorsys contextvars csv email.utils fnmatch getpass gettext glob logging operator
pathlib pickle posixpath sched shutil symtable tempfile timeit urllib.parse weakref zoneinfo
asyncio concurrent.futures.thread concurrent.futures.process optparse argparse sqlite3
unittest.mock doctest configparser xml.etree.ElementTree encodings.idna encodings.latin_1
encodings.rot_13 multiprocessing subprocess linecache bz2 lzma gzip zipfile hmac marshal
"""
NOFS_PRELOAD = tuple(_NOFS_PRELOAD.split())


# Memory cap of a worker: this many processes at their own limit, and the spare children beside.
GROUP_PROCESSES = 8
GROUP_SPARE = 512 << 20
PROBE_SLOT = 255
PROBE_SECONDS = 20.0


@dataclass(frozen=True)
class Setup:
    """A configuration of workers that was tried and found to hold."""

    isolation: tuple[str, ...]  # layers in force, in the order of LAYERS
    bubblewrap: str | None  # mode of `launch.bubblewrap`, None without it
    preload: tuple[str, ...]
    paths: tuple[str, ...]  # directories of further packages

    def spawn(self, limits: Limits, slot: int) -> Zygote:
        """Start a zygote; `slot` numbers the workers of this process. Raises OSError."""
        memory = int(limits.memory_mib) << 20
        options = {
            "policy": {
                "cpu_seconds": limits.cpu_seconds,
                "memory_bytes": memory,
                "layers": self.isolation,
                "uid": _uid(slot),
                "readable": launch.readable_paths(self.paths),
            },
            "paths": self.paths,
            "preload": self.preload,
            "optional": NOFS_PRELOAD if "nofs" in self.isolation else (),
            "processor": processor(slot),
        }
        prefix = launch.bubblewrap(self.bubblewrap, self.paths) if self.bubblewrap else []
        most = GROUP_PROCESSES * memory + GROUP_SPARE
        group = cgroup.create(slot, most) if "cgroup" in self.isolation else None
        return Zygote.start(prefix, options, group)


def processor(slot: int) -> int | None:
    """The processor that a worker and all its processes keep to, None where that cannot be set.

    The processes of a run take turns, so spreading them over processors gains nothing, and waking a
    process on another one, or telling it about changed page tables, costs more than the rest of a
    short run. Launchers of several trainer processes number them; that keeps those apart.
    """
    if not LINUX:
        return None
    usable = sorted(os.sched_getaffinity(0))
    rank, ranks = (os.environ.get(f"LOCAL_{name}", "") for name in ("RANK", "WORLD_SIZE"))
    several = rank.isdecimal() and ranks.isdecimal() and int(ranks) > 0
    shift = int(rank) * len(usable) // int(ranks) if several else 0
    return usable[(shift + slot) % len(usable)]


def _uid(slot: int) -> int:
    """A user id that nobody else on the machine is likely to have: one per worker and process."""
    return 0x30000000 + (os.getpid() % (1 << 20)) * 256 + slot % 256


def require_layers(require: str | Collection[str]) -> frozenset[str]:
    """The layers that `require` names. Raises ValueError for an unknown one.

    "auto" asks for seccomp with either Landlock or no files at all, which every tier that may run
    untrusted code has.
    """
    names = {require} if isinstance(require, str) else set(require)
    names.discard("auto")
    unknown = names - set(LAYERS)
    if unknown:
        raise ValueError(
            f"require={sorted(unknown)}: unknown layers; known are {LAYERS} and 'auto'"
        )
    return frozenset(names)


_lock = threading.Lock()
_found: dict[tuple[object, ...], Setup] = {}


def find_setup(
    require: str | Collection[str] = "auto",
    allow_unsafe: bool = False,
    preload: tuple[str, ...] = (),
    paths: tuple[str, ...] = (),
) -> Setup:
    """The strongest configuration that holds here; tried once per process and arguments.

    Raises SandboxUnavailable if it lacks a required layer, or lacks seccomp and `allow_unsafe` is
    false, and ValueError for unknown layers.
    """
    required = require_layers(require)
    if os.name != "posix":
        raise SandboxUnavailable(
            f"the sandbox needs Linux, or a Unix with allow_unsafe; not {os.name}"
        )
    key = (preload, paths, allow_unsafe, os.geteuid())
    with _lock:
        if key not in _found:
            _found[key] = _search(preload, paths, allow_unsafe)
        setup = _found[key]
    missing = required - set(setup.isolation)
    if missing:
        raise SandboxUnavailable(
            f"require={sorted(required)}: {sorted(missing)} cannot be had here; in force would be "
            f"{list(setup.isolation)}. `doctor()` says why; docs/sandbox.md says what each stops."
        )
    if "seccomp" not in setup.isolation and not allow_unsafe:
        raise SandboxUnavailable(
            "untrusted programs cannot be confined on this machine: no configuration with seccomp "
            f"started{f' with preload={list(preload)}' if preload else ''}. Run inside a "
            "Linux virtual machine or container, or pass allow_unsafe=True to run them as "
            "ordinary processes with resource limits only, if you trust what writes them."
        )
    return setup


def _search(preload: tuple[str, ...], paths: tuple[str, ...], allow_unsafe: bool) -> Setup:
    """Try configurations, strongest first."""
    modes: list[str | None] = [None]
    if LINUX and shutil.which("bwrap"):
        modes = (["root"] if os.geteuid() == 0 else []) + ["user", None]
    for mode in modes:
        for base in _bases(mode):
            setup = Setup(_ordered(base), mode, preload, paths)
            if _holds(setup):
                grouped = replace(setup, isolation=_ordered(base | {"cgroup"}))
                return grouped if os.geteuid() == 0 and _holds(grouped) else setup
    return Setup(("rlimits",) if allow_unsafe else (), None, preload, paths)


def _ordered(layers: set[str]) -> tuple[str, ...]:
    return tuple(name for name in LAYERS if name in layers)


def _bases(mode: str | None) -> list[set[str]]:
    if not LINUX or syscalls.current() is None:
        return []
    common = {"rlimits", "capabilities", "seccomp"} | ({"bubblewrap"} if mode else set())
    files = [{"landlock"}, {"nofs"}]
    users = [{"uid"}, set()] if os.geteuid() == 0 and mode != "user" else [set()]
    return [common | f | u for f in files for u in users]


# What a child must not be able to do, by layer.
_REFUSED = {
    "seccomp": ("fork", "socket", "signal"),
    "landlock": ("list_root", "read_passwd", "write_tmp"),
    "nofs": ("list_root", "read_passwd", "write_tmp"),
}


def _holds(setup: Setup) -> bool:
    """Whether a zygote starts like this and its children are as confined as promised."""
    try:
        with closing(setup.spawn(Limits(), PROBE_SLOT)) as zygote:
            zygote.wait_ready()
            (child,) = zygote.take(1)
            child.channel.send({"role": "probe"})
            child.channel.sock.settimeout(PROBE_SECONDS)
            report = child.channel.receive()
    except (OSError, EOFError, ValueError):
        return False
    done = [a for layer in setup.isolation for a in _REFUSED.get(layer, ()) if report[a]]
    own = "uid" not in setup.isolation or report["uid"] != 0
    usable = report["lazy_import"] or "nofs" in setup.isolation
    return not done and own and usable


@dataclass(frozen=True)
class Layer:
    """One line of `doctor`."""

    name: str
    active: bool
    reason: str


def doctor() -> tuple[Layer, ...]:
    """Every layer, whether it would be in force here, and why or why not. Starts processes."""
    active = set(find_setup(allow_unsafe=True).isolation) if os.name == "posix" else set()
    return tuple(Layer(n, n in active, _reason(n, n in active, active)) for n in LAYERS)


def verdict(layers: Collection[Layer]) -> tuple[bool, str]:
    """Whether programs of strangers may run here, and one line that says so or what to do."""
    active = {layer.name for layer in layers if layer.active}
    if "seccomp" in active:  # never without a guard of files beside it
        return True, "All is well: programs that models write are confined here."
    why = next(layer.reason for layer in layers if layer.name == "seccomp")
    return False, (
        f"Missing: programs that models write cannot be confined here (seccomp: {why}), so "
        "environments that run them refuse to. Run inside a Linux virtual machine or container "
        "that offers seccomp; docs/sandbox.md says what each layer stops. Other environments work."
    )


def _reason(name: str, active: bool, others: set[str]) -> str:
    if active:
        return "tried in a child: holds"
    if not LINUX:
        return f"needs Linux, this is {platform.system()}"
    if name == "nofs":
        return "not needed: Landlock guards files" if "landlock" in others else "needs seccomp"
    if name == "uid":
        return "needs root" if os.geteuid() else "the interpreter cannot be read by other users"
    if name == "cgroup":
        return "needs root" if os.geteuid() else "the control groups cannot be written"
    if name == "bubblewrap":
        if shutil.which("bwrap") is None:
            return "bwrap is not installed"
        return "bwrap may not make namespaces here, as under Docker's default profile"
    if name == "landlock":
        return "the kernel offers no Landlock, or a child could not be confined by it"
    if name == "seccomp" and syscalls.current() is None:
        return f"no table of system calls for {platform.machine()}"
    return "the kernel refused it"
