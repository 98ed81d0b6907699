"""Runs the corpus in a process of its own and prints what came of it, as JSON.

The tests start it as root and as nobody, with and without bubblewrap, and under a filter that
forbids namespaces; so it needs nothing but the standard library and the sandbox.

    python run_corpus.py [--no-unshare] [--no-landlock] [--quick] [--require layer,layer]
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import sys
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The library itself imports numpy and more, which the interpreter of this run may lack.
_package = types.ModuleType("llm_marl_envs")
_package.__path__ = [str(ROOT / "llm_marl_envs")]
sys.modules.setdefault("llm_marl_envs", _package)
sys.path.insert(0, str(HERE))

import corpus  # noqa: E402

from llm_marl_envs.sandbox import Limits, Sandbox, SandboxUnavailable  # noqa: E402
from llm_marl_envs.sandbox.jail import kernel, syscalls  # noqa: E402

# Loops and sleeps take their whole limit; `test_check` has one of each kind.
_SLOW = "F01 F02 F03 F04 F05 F07 F10 F11 F12 F18 F21 F22 F23 F24 F27 F28 P42 P57 A13 N16 L28"
SLOW = _SLOW.split()

NAMESPACES = 0x7E020000  # every CLONE_NEW* flag
NUMBERS = {
    "x86_64": {"unshare": 272, "setns": 308, "mount": 165, "landlock_create_ruleset": 444},
    "aarch64": {"unshare": 97, "setns": 268, "mount": 40, "landlock_create_ruleset": 444},
}


def forbid(calls: tuple[str, ...]) -> None:
    """Deny system calls to this process and its children, as container engines do."""
    table = syscalls.current()
    assert table is not None, "no table of system calls for this machine"
    numbers = NUMBERS["x86_64" if table.high else "aarch64"]
    rules = [(kernel._LOAD, 0, 0, kernel._NUMBER)]
    for name in calls:
        code = errno.ENOSYS if name.startswith("landlock") else errno.EPERM
        rules += [
            (kernel._EQUAL, 0, 1, numbers[name]),
            (kernel._RETURN, 0, 0, kernel._ERRNO | code),
        ]
    if "unshare" in calls:
        rules += [(kernel._EQUAL, 0, 1, table.guarded["clone3"])]
        rules += [(kernel._RETURN, 0, 0, kernel._ERRNO | errno.ENOSYS)]
        rules += [(kernel._EQUAL, 0, 3, table.guarded["clone"]), (kernel._LOAD, 0, 0, kernel._ARG0)]
        rules += [(kernel._ANY_BIT, 0, 1, NAMESPACES), (kernel._RETURN, 0, 0, kernel._DENY)]
    rules += [(kernel._RETURN, 0, 0, kernel._ALLOW)]
    array = (kernel._Instruction * len(rules))(*rules)
    program = kernel._Program(len(rules), array)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    result = kernel._libc.prctl(kernel.PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0)
    assert result == 0, "the filter was refused"


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-unshare", action="store_true")
    parser.add_argument("--no-landlock", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--require", default="auto")
    options = parser.parse_args()
    if options.no_unshare:
        forbid(("unshare", "setns", "mount"))
    if options.no_landlock:
        forbid(("landlock_create_ruleset",))
    cases = corpus.hostile() + corpus.legitimate()
    if options.quick:
        cases = [c for c in cases if c.id not in SLOW]
    limits = Limits(cpu_seconds=1, wall_seconds=3)
    try:
        sandbox = Sandbox(workers=2, limits=limits, require=options.require.split(","), cache=0)
    except SandboxUnavailable as error:
        print(json.dumps({"unavailable": str(error)}))
        return
    with sandbox:
        jobs = [{"source": c.source, "entry_point": "solve", "tests": corpus.TESTS} for c in cases]
        verdicts = sandbox.map(jobs)
    surprises = [
        f"{c.id} ({c.what}): {v.status} {v.detail!r}, expected one of {list(c.expected)}"
        for c, v in zip(cases, verdicts, strict=True)
        if v.status not in c.expected
    ]
    report = {"isolation": sandbox.isolation, "uid": os.getuid(), "surprises": surprises}
    report["hostile"] = sum("pass" not in c.expected for c in cases)
    report["legitimate"] = sum("pass" in c.expected for c in cases)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
