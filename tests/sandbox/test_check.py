"""What `Sandbox.check` says, for one program and for a team."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from llm_marl_envs.sandbox import (
    LAYERS,
    Limits,
    Opaque,
    Sandbox,
    SandboxUnavailable,
    Verdict,
    doctor,
    same_output,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

TESTS = "assert solve(1) == 2\nassert solve(5) == 6\nassert solve(-1) == 0\n"
MAIN = "def solve(x):\n    return aux(x)\n"
HELPER = "def aux(x):\n    return x + 1\n"
EXPORTS = {"helper": ["aux"]}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2, limits=Limits(cpu_seconds=1, wall_seconds=2)) as sandbox:
        yield sandbox


def team(sandbox: Sandbox, helper: str, main: str, tests: str = TESTS) -> Verdict:
    programs = {"helper": helper, "main": main}
    return sandbox.check(programs, entry_point="solve", exports=EXPORTS, tests=tests)


def alone(sandbox: Sandbox, source: str, tests: str = TESTS) -> Verdict:
    return sandbox.check(source, entry_point="solve", tests=tests)


# --- one program -------------------------------------------------------------------------------


def test_share_of_tests_and_detail(sandbox: Sandbox) -> None:
    verdict = alone(sandbox, "def solve(x):\n    return 2 if x == 1 else 7\n")
    assert (verdict.status, verdict.passed, verdict.total) == ("wrong", 1, 3)
    assert verdict.detail == "assert solve(5) == 6 -> AssertionError, solve returned 7"
    assert [o.passed for o in verdict.outcomes] == [True, False, False]
    assert verdict.author is None
    assert verdict.cpu_s > 0
    assert verdict.wall_s > 0
    assert 1 < verdict.max_rss_mib < 200
    assert verdict.isolation == sandbox.isolation


def test_tests_go_on_after_an_exception_but_not_after_a_death(sandbox: Sandbox) -> None:
    raises = "def solve(x):\n    return 1 // (x - 1) * 0 + x + 1\n"
    assert [o.passed for o in alone(sandbox, raises).outcomes] == [False, True, True]
    dies = "import os\ndef solve(x):\n    return x + 1 if x == 1 else os._exit(0)\n"
    verdict = alone(sandbox, dies)
    assert (verdict.status, verdict.passed, verdict.total) == ("early_exit", 1, 3)
    assert verdict.author == "main"


def test_load_errors_carry_line_and_column(sandbox: Sandbox) -> None:
    verdict = alone(sandbox, "x = 1\ndef solve(x:\n    return 1\n")
    assert verdict.status == "load_error"
    assert "line 2" in verdict.detail
    assert "column" in verdict.detail
    verdict = alone(sandbox, "x = 1\ny = x / 0\n")
    assert verdict.detail == "ZeroDivisionError: division by zero, line 2"
    assert verdict.author == "main"


def test_exceptions_reach_tests_as_built_in_classes(sandbox: Sandbox) -> None:
    source = """
class Mine(ValueError):
    pass
def solve(x):
    raise Mine("bad x")
"""
    tests = """
try:
    solve(1)
    assert False
except ValueError as error:
    assert str(error) == "bad x"
"""
    assert alone(sandbox, source, tests).status == "pass"


def test_no_test_can_swallow_an_exit(sandbox: Sandbox) -> None:
    tests = "try:\n    solve(1)\n    assert False\nexcept BaseException:\n    pass\n"
    assert alone(sandbox, "def solve(x):\n    raise SystemExit\n", tests).status == "early_exit"
    assert (
        alone(sandbox, "import os\ndef solve(x):\n    os._exit(0)\n", tests).status == "early_exit"
    )


def test_functions_of_the_program_that_tests_use(sandbox: Sandbox) -> None:
    """HumanEval's pairs: the test encodes with the program's own function."""
    source = "def encode(s):\n    return s[::-1]\ndef solve(s):\n    return s[::-1]\n"
    tests = "def check(candidate):\n    assert candidate(encode('abc')) == 'abc'\n"
    assert alone(sandbox, source, tests).status == "pass"


def test_values_of_every_plain_type_cross_both_ways(sandbox: Sandbox) -> None:
    tests = """
from collections import OrderedDict, deque
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
values = [None, True, 1, -2**70, 1.5, float('inf'), 'a\\ud800é', b'x', bytearray(b'y'), 1j,
          range(2, 9, 3), [1, [2]], (1,), {1: 'a', (1, 2): None}, {1, 'a'}, frozenset({2}),
          Decimal('1.50'), Fraction(1, 3), deque([1]), OrderedDict(a=1), date(2020, 1, 2),
          datetime(2020, 1, 2, 3), timedelta(1, 2, 3), int, '']
for value in values:
    got = solve(value)
    assert got == value and type(got) is type(value), value
"""
    assert alone(sandbox, "def solve(x):\n    return x\n", tests).status == "pass"


def test_styles_of_tests(sandbox: Sandbox) -> None:
    source = "def solve(x):\n    return x + 1\n"
    styles = {
        "def check(candidate):\n    for i in range(3):\n        assert candidate(i) == i + 1\n": 1,
        "def check(f):\n    assert f(1) == 2\n    assert f(2) == 3\ncheck(solve)\n": 2,
        "def test_a():\n    assert solve(1) == 2\ndef test_b():\n    assert solve(2) == 3\n": 2,
        "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n"
        "        self.assertEqual(solve(1), 2)\n": 1,
        "if solve(1) != 2:\n    raise ValueError('no')\n": 1,
    }
    for tests, total in styles.items():
        verdict = alone(sandbox, source, tests)
        assert (verdict.status, verdict.passed, verdict.total) == ("pass", total, total), tests
        assert alone(sandbox, "def solve(x):\n    return None\n", tests).passed == 0


@pytest.mark.parametrize("tests", ["x = (", "x = 1", "", "import nothing_like_it\nassert True"])
def test_tests_that_cannot_be_run_are_an_error(sandbox: Sandbox, tests: str) -> None:
    with pytest.raises(ValueError, match="tests cannot be run"):
        alone(sandbox, "def solve(x):\n    return 1\n", tests)
    assert alone(sandbox, "def solve(x):\n    return x + 1\n").status == "pass"


def test_functions_that_tests_pass(sandbox: Sandbox) -> None:
    source = "def solve(f, xs):\n    return [f(x) for x in xs]\n"
    tests = """
def refuse(x):
    raise KeyError(x)
assert solve(lambda x: x + 1, [1, 2]) == [2, 3]
assert solve(len, ["ab", ""]) == [2, 0]
try:
    solve(refuse, [1])
    assert False
except KeyError:
    pass
"""
    assert alone(sandbox, source, tests).status == "pass"
    hostile = "def solve(f, xs):\n    return f(solve)\n"
    assert alone(sandbox, hostile, tests).status in ("wrong", "exception")


def test_texts_of_a_verdict_can_be_printed(sandbox: Sandbox) -> None:
    verdict = alone(sandbox, "def solve(x):\n    raise ValueError('\\udcff\\ud800')\n")
    assert verdict.detail.encode("utf-8")
    assert verdict.outcomes[0].error.encode("utf-8")


def test_state_of_one_run_does_not_reach_the_next(sandbox: Sandbox) -> None:
    leaky = "import builtins, sys\nbuiltins.mark = 1\nsys.modules['mark'] = 1\n"
    clean = "import builtins, sys\nassert not hasattr(builtins, 'mark')\n"
    clean += "assert 'mark' not in sys.modules\n"
    body = "def solve(x):\n    return x + 1\n"
    for n in range(6):
        assert alone(sandbox, f"{clean}{leaky}{body}# {n}").status == "pass"
    tests = "import builtins\nassert not hasattr(builtins, 'probe')\nassert solve(1) == 2\n"
    for n in range(4):
        assert alone(sandbox, f"{body}# {n}", tests).status == "pass"


def test_verdicts_do_not_depend_on_hash_seeds_or_workers(sandbox: Sandbox) -> None:
    source = (
        "import random\ndef solve(x):\n    return [list({'a', 'b', 'c', 'd'}), random.random()]\n"
    )
    details = {alone(sandbox, source + f"# {n}", "assert solve(1) == 0").detail for n in range(6)}
    assert len(details) == 1


# --- a team ------------------------------------------------------------------------------------


def test_a_team_passes_and_is_traced(sandbox: Sandbox) -> None:
    verdict = team(sandbox, HELPER, MAIN)
    assert verdict.ok
    assert [(o.helper_calls, o.relayed) for o in verdict.outcomes] == [(1, True)] * 3
    assert verdict.helper_trace == ((0, "aux", (1,), 2), (1, "aux", (5,), 6), (2, "aux", (-1,), 0))


def test_relayed_is_type_strict_and_per_call(sandbox: Sandbox) -> None:
    helper = "def aux(x):\n    return float(x + 1)\n"
    verdict = team(sandbox, helper, "def solve(x):\n    return int(aux(x))\n")
    assert verdict.ok
    assert [o.relayed for o in verdict.outcomes] == [False] * 3
    main = "kept = []\ndef solve(x):\n    kept.append(aux(1))\n    return x + 1\n"
    verdict = team(sandbox, HELPER, main)
    assert [o.relayed for o in verdict.outcomes] == [True, False, False]


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


# --- the pool ----------------------------------------------------------------------------------


def test_map_keeps_order_and_runs_equal_programs_once(sandbox: Sandbox) -> None:
    sources = [f"def solve(x):\n    return x + {n % 4}\n" for n in range(24)]
    jobs = [{"source": s, "entry_point": "solve", "tests": TESTS} for s in sources]
    verdicts = sandbox.map(jobs)
    assert [v.status for v in verdicts] == ["wrong", "pass", "wrong", "wrong"] * 6
    assert len({id(v) for v in verdicts}) == 4


def test_arguments_are_checked(sandbox: Sandbox) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        sandbox.check(None, entry_point="solve", tests=TESTS)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="exports name 'other'"):
        sandbox.check(MAIN, entry_point="solve", tests=TESTS, exports={"other": ["aux"]})
    with pytest.raises(ValueError, match="names no program"):
        sandbox.check({}, entry_point="solve", tests=TESTS)
    for wrong in ({"cpu_seconds": 0}, {"wall_seconds": -1}, {"memory_mib": 1}):
        with pytest.raises(ValueError, match="must be"):
            Limits(**wrong)


def test_require_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="unknown layers"):
        Sandbox(workers=1, require="magic")
    active = {layer.name for layer in doctor() if layer.active}
    for name in LAYERS:
        if name in active:
            Sandbox(workers=1, require=name).close()
        else:
            with pytest.raises(SandboxUnavailable, match=name):
                Sandbox(workers=1, require=name)


def test_where_nothing_can_be_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    from llm_marl_envs.sandbox import layers

    monkeypatch.setattr(layers, "_bases", lambda mode: [])
    monkeypatch.setattr(layers, "_found", {})
    with pytest.raises(SandboxUnavailable, match="allow_unsafe"):
        Sandbox(workers=1)
    with Sandbox(workers=1, allow_unsafe=True) as unsafe:
        assert unsafe.isolation == ("rlimits",)
        assert alone(unsafe, "def solve(x):\n    return x + 1\n").ok


def test_workers_are_in_control_groups_that_go_away() -> None:
    if "cgroup" not in {layer.name for layer in doctor() if layer.active}:
        pytest.skip("no control group can be made here")
    with Sandbox(workers=1) as sandbox:
        assert alone(sandbox, "def solve(x):\n    return x + 1\n").ok
        zygote = sandbox._workers[0].zygote
        assert zygote is not None
        assert zygote.group is not None
        folders = zygote.group.folders
        for folder in folders:
            # The judge, the spare children and the zygote; in bubblewrap its outer process too.
            assert len((folder / "cgroup.procs").read_text().split()) >= 3
    assert folders
    assert not [folder for folder in folders if folder.exists()]


def test_packages_can_be_preloaded() -> None:
    numpy = pytest.importorskip("numpy")
    folder = str(numpy.__path__[0]).rsplit("/", 1)[0]
    with Sandbox(workers=1, preload=["numpy"], paths=[folder]) as sandbox:
        source = "import numpy as np\ndef solve(x):\n    return np.array([x, 1]).sum()\n"
        assert alone(sandbox, source).ok
        source = "import numpy as np\ndef solve(x):\n    return np.array([x, 1])\n"
        assert alone(sandbox, source, "assert solve(2) == [2, 1]").ok


# --- scripts -----------------------------------------------------------------------------------


def test_scripts(sandbox: Sandbox) -> None:
    output = sandbox.run_io("n = int(input())\nprint(n * 2)", "21\n")
    assert (output.status, output.stdout) == ("pass", "42\n")
    source = (
        "import sys\nif __name__ == '__main__':\n    print(sys.stdin.read()[::-1])\n    sys.exit(0)"
    )
    assert sandbox.run_io(source, "é1").stdout == "1é\n"
    expected = {
        "1 / 0": "exception",
        "import sys; sys.exit(3)": "exception",
        "print(": "load_error",
        "\0": "load_error",
        "x = '\ud800'": "load_error",
        "while True: pass": "cpu_limit",
        "import time; time.sleep(60)": "wall_limit",
        "x = bytearray(3 << 30)": "memory",
        "while True: print('x' * 1000)": "protocol",
        "import ctypes; ctypes.string_at(0)": "died",
        "import os; os.close(1); os.close(2); import time; time.sleep(60)": "protocol",
    }
    for text, status in expected.items():
        assert sandbox.run_io(text, "x").status == status, text
    assert "ZeroDivisionError" in sandbox.run_io("print(1)\n1 / 0").detail


def test_outputs_are_compared_outside() -> None:
    assert same_output("1 2 \n3\n\n", "1 2\n3")
    assert not same_output("1 2\n", "1  2\n")
    assert not same_output("", "1")
    assert same_output("0.3333\nyes", "0.33334 \nyes", tolerance=1e-3)
    assert not same_output("0.3333\nno", "0.33334\nyes", tolerance=1e-3)
    assert not same_output("nan", "1", tolerance=1e-3)
