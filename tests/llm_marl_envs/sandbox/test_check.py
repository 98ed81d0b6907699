"""What `Sandbox.check` says of one program."""

from __future__ import annotations

import sys

import pytest
from support.jobs import alone

from llm_marl_envs.sandbox import Sandbox
from llm_marl_envs.sandbox.jail.source import free_names

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")


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


@pytest.mark.parametrize(
    "tests",
    [
        "def check(candidate):\n    assert candidate(encode('abc')) == 'abc'\n",
        "assert isclose(solve(1), 2)\n",
        "assert solve(1) == undefined\n",
        "assert aux(solve(1)) == 1\n",
        "assert solve(copy([1])) == 2\n",  # a module by that name is no function
        "def expected():\n    return exit\nassert solve(1) == expected()\n",
        "class T:\n    x = one\nassert solve(1) == T.x\n",
        "from math import *\nassert is_close(solve(1), 2)\n",
    ],
)
def test_no_program_gives_tests_a_name(sandbox: Sandbox, tests: str) -> None:
    """Names that tests leave free make the tests unusable, whatever the program defines."""
    names = ("encode", "isclose", "undefined", "aux", "copy", "exit", "one", "is_close")
    source = "def solve(x):\n    return 2\n" + "".join(f"{n} = lambda *a: 2\n" for n in names)
    for text in ("def solve(x):\n    return 2\n", source):
        with pytest.raises(ValueError, match=r"names that nothing defines: [a-z_]+;"):
            alone(sandbox, text, tests)


def test_names_that_tests_may_use(sandbox: Sandbox) -> None:
    tests = """
from math import *
from typing import *
def expected(n: Optional[int]) -> List[int]:
    global table
    table = {n: n + 1}
    return [m for m in (n, table[n])]
class Case:
    def value(self):
        return __class__.__name__, len(expected(1))
if __name__ != "__main__" and isclose(math.sqrt(4), 2):
    try:
        later
    except NameError:
        later = candidate
def __unit__(index):
    return index
seen = [k := __unit__(m) for m in (1,)]
assert expected(1) == [1, solve(k)] and table == {1: 2}
assert Case().value() == ("Case", later(1)), __doc__
"""
    assert alone(sandbox, "def solve(x):\n    return x + 1\n", tests).ok
    unknown = "from somewhere import *\nassert solve(1) == whatever\n"
    with pytest.raises(ValueError, match="No module named 'somewhere'"):
        alone(sandbox, "def solve(x):\n    return 1\n", unknown)


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
assert solve(xs=["ab", ""], f=len) == [2, 0]
try:
    solve(refuse, [1])
    assert False
except KeyError:
    pass
"""
    assert alone(sandbox, source, tests).status == "pass"
    hostile = "def solve(f, xs):\n    return f(solve)\n"
    assert alone(sandbox, hostile, tests).status in ("wrong", "exception")


@pytest.mark.parametrize("number", ["1e999", '"x"', "null", "7", "{}", "1e300"])
def test_malformed_calls_of_a_tests_function(sandbox: Sandbox, number: str) -> None:
    """Nothing but a protocol error, which no test can expect, whatever the number of the call."""
    source = f"""
import os, struct
def solve(f, x):
    body = b'{{"lent": {number}, "args": [], "kwargs": []}}'
    for fd in range(3, 64):
        try: os.write(fd, struct.pack(">I", len(body)) + body)
        except OSError: pass
"""
    tests = "try:\n    solve(len, 1)\n    assert False\nexcept Exception:\n    pass\n"
    verdict = alone(sandbox, source, tests)
    assert (verdict.status, verdict.passed) == ("protocol", 0)


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


def test_no_message_for_later_programs_in_shared_descriptors(sandbox: Sandbox) -> None:
    """All children hold one open /dev/null; its flags and locks must not carry over."""
    source = """
import fcntl
def ask(fd):
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "locked"
    except OSError:
        return fcntl.fcntl(fd, fcntl.F_GETFL)
seen = [ask(fd) for fd in range(3)]
for fd in range(3):
    fcntl.fcntl(fd, fcntl.F_SETFL, 0o6000)
def solve(x):
    return seen
"""
    for n in range(20):
        verdict = alone(sandbox, f"{source}# {n}", "assert solve(1) == [0, 0, 0]\n")
        assert verdict.ok, verdict.detail


def test_verdicts_do_not_depend_on_hash_seeds_or_workers(sandbox: Sandbox) -> None:
    source = (
        "import random\ndef solve(x):\n    return [list({'a', 'b', 'c', 'd'}), random.random()]\n"
    )
    details = {alone(sandbox, source + f"# {n}", "assert solve(1) == 0").detail for n in range(6)}
    assert len(details) == 1


def test_details_are_the_same_in_every_run(sandbox: Sandbox) -> None:
    """No addresses, and long integers, which cannot be written out, are no error of the program."""
    shown = {
        "iter([1])": "<list_iterator>",
        "[map(str, [1])]": "[<list_iterator>]",
        "10 ** 5000": "<an integer of 16610 bits>",
        "__import__('fractions').Fraction(10 ** 5000, 7)": "<Fraction>",
    }
    for value, text in shown.items():
        verdict = alone(sandbox, f"def solve(x):\n    return {value}\n", "assert solve(1) == 3\n")
        assert verdict.detail == f"assert solve(1) == 3 -> AssertionError, solve returned {text}"
    assert alone(
        sandbox, "def solve(x):\n    return 10**5000\n", "assert solve(1) == 10**5000\n"
    ).ok


def test_large_outputs(sandbox: Sandbox) -> None:
    source = (
        "def solve(n):\n    return list(range(n)), 'x' * n, {i: str(i) for i in range(n // 10)}\n"
    )
    tests = "xs, text, table = solve(50_000)\n"
    tests += "assert xs == list(range(50_000)) and len(text) == 50_000 and table[4_999] == '4999'\n"
    assert alone(sandbox, source, tests).ok


def test_a_name_that_is_only_declared_is_free() -> None:
    assert free_names("global math\nassert math.sqrt(4) == f(4)") == {"math", "f"}
    assert free_names("seen = [k := f(m) for m in (1,)]\nassert k == seen") == {"f"}
