"""What `Sandbox.check` says of a helper and a main program."""

from __future__ import annotations

import sys

import pytest
from support.jobs import HELPER, MAIN, team

from llm_marl_envs.sandbox import Opaque, Sandbox

TUPLE = "def solve(x):\n    return "

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")


def test_a_team_passes_and_is_traced(sandbox: Sandbox) -> None:
    verdict = team(sandbox, HELPER, MAIN)
    assert verdict.ok
    assert [(o.helper_calls, o.relayed) for o in verdict.outcomes] == [(1, True)] * 3
    assert verdict.helper_trace == ((0, "aux", (1,), 2), (1, "aux", (5,), 6), (2, "aux", (-1,), 0))


def test_relayed_is_type_strict_and_per_call(sandbox: Sandbox) -> None:
    helper = "def aux(x):\n    return float(x + 1)\n"
    verdict = team(sandbox, helper, "def solve(x):\n    return aux(x) + 0j\n")
    assert verdict.ok
    assert [o.relayed for o in verdict.outcomes] == [False] * 3
    main = "kept = []\ndef solve(x):\n    kept.append(aux(1))\n    return x + 1\n"
    verdict = team(sandbox, HELPER, main)
    assert [o.relayed for o in verdict.outcomes] == [True, False, False]
    helper = "def aux(x):\n    return [6, x] if x == 1 else 'nothing'\n"
    verdict = team(sandbox, helper, "def solve(x):\n    aux(x)\n    return x + 1\n")
    assert [o.relayed for o in verdict.outcomes] == [False, False, False]


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("x + 1", "aux(x)"),
        ("[x + 1, 0]", "aux(x)[0]"),
        ("(x + 1, 0)", "aux(x)[0]"),
        ("{'n': x + 1}", "list(aux(x).values())[0]"),
        ("str(x + 1)", "int(aux(x))"),
        ("x + 1.5", "int(aux(x) + 1) - 1"),
        ("iter([x + 1])", "next(aux(x))"),
    ],
)
def test_trivial_uses_are_relayed(sandbox: Sandbox, value: str, made: str) -> None:
    verdict = team(sandbox, f"def aux(x):\n    return {value}\n", f"def solve(x): return {made}")
    assert verdict.passed >= 2
    assert all(o.relayed for o in verdict.outcomes)


def test_another_container_is_relayed_and_work_is_not(sandbox: Sandbox) -> None:
    helper = "def aux(x):\n    return [x, x + 1]\n"
    tests = "assert solve(1) == (1, 2)\nassert solve(2) == (2, 3)\n"
    verdict = team(sandbox, helper, f"{TUPLE}tuple(aux(x))", tests)
    assert [o.relayed for o in verdict.outcomes] == [True, True]
    turned = "def aux(x):\n    return [x + 1, x]\n"
    worked = team(sandbox, turned, f"{TUPLE}tuple(aux(x)[::-1])", tests)
    assert worked.ok
    assert not any(o.relayed for o in worked.outcomes)


def test_load_errors_are_charged_to_their_author(sandbox: Sandbox) -> None:
    for helper in ("def aux(x:", "1 / 0", "raise ValueError"):
        verdict = team(sandbox, helper, "def solve(x):\n    return x + 1\n")
        assert (verdict.status, verdict.author) == ("load_error", "helper")
    for text in ("import sys\nsys.exit(0)", "import os\nos._exit(0)"):
        verdict = team(sandbox, text, MAIN)
        assert (verdict.status, verdict.author) == ("early_exit", "helper")
    verdict = team(sandbox, HELPER, "def solve(x:")
    assert (verdict.status, verdict.author) == ("load_error", "main")
    verdict = team(sandbox, HELPER, "def other(x): pass")
    assert (verdict.status, verdict.author) == ("no_entry_point", "main")


def test_crashes_are_charged_to_their_author(sandbox: Sandbox) -> None:
    helpers = {
        "import os\ndef aux(x):\n    os._exit(0)\n": "early_exit",
        "def aux(x):\n    raise SystemExit\n": "early_exit",
        "def aux(x):\n    while True: pass\n": "cpu_limit",
        "import ctypes\ndef aux(x):\n    ctypes.string_at(0)\n": "died",
        "import time\ndef aux(x):\n    time.sleep(100)\n": "wall_limit",
        "def aux(x):\n    return bytearray(3 << 30)\n": "memory",
    }
    for helper, status in helpers.items():
        verdict = team(sandbox, helper, MAIN)
        assert (verdict.status, verdict.author) == (status, "helper"), helper


def test_a_missing_export_is_a_name_error_when_called(sandbox: Sandbox) -> None:
    assert team(sandbox, "def other(): pass", "def solve(x):\n    return x + 1\n").ok
    verdict = team(sandbox, "def other(): pass", MAIN)
    assert verdict.status == "exception"
    assert "NameError: name 'aux' is not defined" in verdict.detail
    fallback = """
def solve(x):
    try:
        return aux(x)
    except NameError:
        return x + 1
"""
    assert team(sandbox, "", fallback).ok


def test_a_helper_cannot_reach_main(sandbox: Sandbox) -> None:
    """Redefining main, builtins or modules in the helper's process changes nothing for main."""
    helper = """
import builtins, gc, sys
def solve(x): return x + 1
builtins.solve = builtins.aux = lambda *a: 1
def aux(x):
    frame = sys._getframe()
    while frame:
        frame.f_globals["solve"] = lambda x: x + 1
        frame = frame.f_back
    for module in list(sys.modules.values()):
        try: module.solve = lambda x: x + 1
        except Exception: pass
    return x
"""
    verdict = team(sandbox, helper, "def solve(x):\n    aux(x)\n    return -5\n")
    assert (verdict.status, verdict.passed) == ("wrong", 0)


def test_main_sees_neither_source_nor_frames_of_the_helper(sandbox: Sandbox) -> None:
    main = """
import gc, inspect
def solve(x):
    value = aux(x)
    try:
        inspect.getsource(aux)
    except Exception:
        pass
    names = {n for o in gc.get_objects() if type(o) is dict for n in list(o) if type(n) is str}
    assert "hidden_" + "marker" not in names
    return value
"""
    assert team(sandbox, "hidden_marker = 1\n" + HELPER, main).ok


def test_helpers_keep_state_and_raise_into_main(sandbox: Sandbox) -> None:
    helper = """
from functools import lru_cache
count = 0
class Odd(KeyError): pass
def aux(x):
    global count
    count += 1
    if x == 5:
        raise Odd("five")
    return count
"""
    main = """
START = aux(0)
def solve(x):
    try:
        return aux(x)
    except KeyError as error:
        assert error.args == ("five",)
        return 6
"""
    tests = "assert solve(1) == 2\nassert solve(5) == 6\nassert solve(9) == 4\n"
    verdict = team(sandbox, helper, main, tests)
    assert verdict.ok, verdict
    assert verdict.helper_trace[0] == (-1, "aux", (0,), 1)
    assert isinstance(verdict.helper_trace[2][3], Opaque)


def test_helpers_take_plain_values_only(sandbox: Sandbox) -> None:
    verdict = team(sandbox, HELPER, "def solve(x):\n    return aux(lambda: x)\n")
    assert "TypeError: aux takes plain values only" in verdict.detail
    main = "def solve(x):\n    xs = [x]\n    aux2 = aux(xs)\n    return xs[0] + 1\n"
    assert team(sandbox, "def aux(xs):\n    xs[0] = 99\n", main).ok


def test_imports_by_the_name_of_the_program(sandbox: Sandbox) -> None:
    assert team(sandbox, HELPER, "from helper import aux\n" + MAIN).ok
    assert team(sandbox, HELPER, "import helper\ndef solve(x):\n    return helper.aux(x)\n").ok


def test_three_programs(sandbox: Sandbox) -> None:
    programs = {
        "a": "def double(x):\n    return 2 * x\n",
        "b": "def inc(x, by=1):\n    return x + by\n",
        "main": "def solve(x):\n    return inc(double(x), by=3)\n",
    }
    exports = {"a": ["double"], "b": ["inc"]}
    verdict = sandbox.check(
        programs, entry_point="solve", exports=exports, tests="assert solve(2) == 7"
    )
    assert verdict.ok
    assert verdict.helper_trace[1] == (0, "inc", (4, {"by": 3}), 7)
