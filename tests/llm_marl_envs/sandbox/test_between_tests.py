"""What a program's values do to the tests themselves counts against it and breaks nothing."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.jobs import EXPORTS, alone, team

from llm_marl_envs.sandbox import Limits, Sandbox, Verdict
from llm_marl_envs.sandbox.records import Job
from llm_marl_envs.sandbox.worker import Worker

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

VALUES = {
    "a long integer": "10 ** 5000",
    "long integers inside": "[(10 ** 5000, {1: 10 ** 5000})]",
    "a long fraction": "__import__('fractions').Fraction(10 ** 5000, 7)",
    "a long range": "range(10 ** 5000)",
    "an ordered table": "__import__('collections').OrderedDict({10 ** 5000: 1})",
    "a signaling number": "__import__('decimal').Decimal('sNaN')",
    "a lone surrogate": "'\\ud800'",
    "a deep list": "eval('[' * 80 + ']' * 80)",
    "an iterator": "iter([10 ** 5000])",
    "a type": "type",
    "nothing": "None",
}
# What a test makes of a value: in a unit, before the first, between two, and behind the last.
TOUCHES = {
    "a message": "assert solve(1) == 2, solve(1)\nassert solve(2) == 3\n",
    "an error": "got = solve(1)\nif got != 2:\n    raise ValueError(got, [got])\nassert got == 2\n",
    "a key": "assert {2: 1}[solve(1)] == 1\nassert solve(2) == 3\n",
    "a print": "print(solve(1))\nassert solve(1) == 2\nassert solve(2) == 3\n",
    "a text before": "text = f'{solve(1):d}'\ndef check(f):\n    assert text == '2'\n"
    "    assert f(2) == 3\n",
    "a class between": "assert solve(1) == 2\nclass T:\n    x = f'{solve(2):d}'\n"
    "assert T.x == '3'\n",
    "a default": "def wanted(x=1 + solve(1)):\n    return x\nassert solve(2) == wanted()\n",
    "a function behind": "def show(x):\n    return f'{x:d}'\nassert solve(1) == 2\n"
    "def behind():\n    return show(solve(2))\nbehind()\n",
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_values_that_tests_cannot_handle(sandbox: Sandbox, touch: str) -> None:
    assert alone(sandbox, "def solve(x):\n    return x + 1\n", TOUCHES[touch]).ok
    for what, value in VALUES.items():
        source = f"import sys\nsys.setrecursionlimit(5000)\ndef solve(x):\n    return {value}\n"
        verdict = alone(sandbox, source, TOUCHES[touch])
        assert verdict.status == "wrong", what
        assert verdict.passed < verdict.total, what
        assert verdict.outcomes[0].error.isprintable(), what


def test_what_fails_hides_no_other_test(sandbox: Sandbox) -> None:
    once = "def solve(x):\n    return x + 1 if x != {} else 10 ** 5000\n"
    verdict = alone(sandbox, once.format(1), TOUCHES["a message"])
    assert [outcome.passed for outcome in verdict.outcomes] == [False, True]
    verdict = alone(sandbox, once.format(2), TOUCHES["a function behind"].replace("x:d", "x}{x"))
    assert (verdict.status, verdict.passed) == ("wrong", 0), "an error behind the last test"


RAISES = {
    "raise KeyError('x')": "exception",
    "raise EOFError": "exception",
    "raise BrokenPipeError": "exception",
    "raise AssertionError": "exception",
    "raise MemoryError": "memory",
    "raise SystemExit": "early_exit",
    "raise KeyboardInterrupt": "exception",
    "import os; os._exit(0)": "early_exit",
    "import os; os._exit(70)": "early_exit",
    "import signal; signal.raise_signal(40)": "died",
    "return lambda: 0": "wrong",
}


@pytest.mark.parametrize("body", RAISES)
def test_calls_between_tests(sandbox: Sandbox, body: str) -> None:
    """A row may call the entry point outside any test: what that raises is no fault of the row."""
    source = f"def solve(x):\n    {body}\n"
    for tests in (
        "first = solve(1)\ndef check(f):\n    assert first == 2\n    assert f(2) == 3\n",
        "class T:\n    first = solve(1)\ndef test_a():\n    assert T.first == 2\n",
        "import unittest\nfirst = solve(1)\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        self.assertEqual(first, 2)\n",
    ):
        verdict = alone(sandbox, source, tests)
        assert (verdict.status, verdict.passed) == (RAISES[body], 0), tests
        helper = f"def aux(x):\n    {body}\n"
        assert team(sandbox, helper, "def solve(x):\n    return aux(x)\n", tests).passed == 0


def test_an_exit_between_tests_cannot_be_swallowed(sandbox: Sandbox) -> None:
    tests = "try:\n    first = solve(1)\nexcept BaseException:\n    first = 2\n"
    tests += "def check(f):\n    assert first == 2\n    assert first == 2\n"
    verdict = alone(sandbox, "def solve(x):\n    raise SystemExit\n", tests)
    assert [outcome.passed for outcome in verdict.outcomes] == [False, True]
    verdict = alone(sandbox, "import os\ndef solve(x):\n    os._exit(0)\n", tests)
    assert verdict.status == "early_exit"
    early = "def check(f):\n    try:\n        f(1)\n    except BaseException:\n        return\n"
    early += "    assert f(1) == 2\n    assert f(2) == 3\n"
    verdict = alone(sandbox, "import os\ndef solve(x):\n    os._exit(0)\n", early)
    assert (verdict.status, verdict.passed) == ("early_exit", 0)


def test_tests_that_leave(sandbox: Sandbox) -> None:
    tests = "import sys\nif solve(1) != 2:\n    sys.exit(1)\ndef check(f):\n    assert f(1) == 2\n"
    assert alone(sandbox, "def solve(x):\n    return x + 1\n", tests).ok
    assert alone(sandbox, "def solve(x):\n    return 0\n", tests).status == "wrong"
    with pytest.raises(ValueError, match="SystemExit"):
        alone(sandbox, "def solve(x):\n    return 2\n", f"import sys\nsys.exit()\n{tests}")


def test_errors_of_the_harness_are_none_that_a_test_expects(sandbox: Sandbox) -> None:
    """A value too deep to be passed on is a ValueError of ours, not one that the program raised."""
    source = "def solve(x):\n    return eval('[' * 80 + ']' * 80)\n"
    tests = "try:\n    solve([solve(1)])\n    assert False\nexcept ValueError:\n    pass\n"
    assert alone(sandbox, source, tests).status == "wrong"


def test_a_program_cannot_end_the_iterations_of_tests(sandbox: Sandbox) -> None:
    source = "def solve(x):\n    raise StopIteration\n"
    tests = "assert all(map(lambda x: solve(x) == x + 1, [1, 2]))\n"
    tests += "assert list(filter(solve, [1])) == []\n"
    assert alone(sandbox, source, tests).passed == 0


@pytest.mark.parametrize(
    "name", ["__unit__", "check", "candidate", "wanted", "test_a", "T", "len", "__builtins__"]
)
def test_names_of_the_harness_in_programs(sandbox: Sandbox, name: str) -> None:
    """What a program defines beside the entry point is out of the tests' sight."""
    tests = {
        "bare": "def wanted():\n    return 2\nassert solve(1) == wanted()\nassert len([1]) == 1\n",
        "check": "def wanted():\n    return 2\ndef check(candidate):\n"
        "    assert candidate(1) == wanted()\n",
        "functions": "def test_a():\n    assert candidate(1) == len([1, 2])\n",
        "classes": "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        self.assertEqual(solve(1), 2)\n",
    }
    for body, passes in (("return x + 1", True), ("return 0", False)):
        taken = f"def {name}(*args, **kwargs):\n    return True\n"
        source = f"def solve(x):\n    {body}\n{taken}"
        for style, text in tests.items():
            assert alone(sandbox, source, text).ok is passes, style
            verdict = sandbox.check(
                {"helper": taken, "main": source}, entry_point="solve", exports=EXPORTS, tests=text
            )
            assert verdict.ok is passes, style


FLOOD = """
import os, struct
body = b"[" + b"[]," * 2_600_000 + b"[]]"
def {name}(x):
    for fd in range(3, 64):
        try:
            left = struct.pack(">I", len(body)) + body
            while left:
                left = left[os.write(fd, left):]
        except OSError:
            pass
"""


def test_messages_that_fill_the_memory_of_the_tests() -> None:
    """They are the sender's fault, not that of the tests, and no fault of the machine."""
    limits = Limits(cpu_seconds=5, wall_seconds=20, memory_mib=32)
    with Sandbox(workers=1, limits=limits) as small:
        for _ in range(2):
            verdict = team(small, FLOOD.format(name="aux"), "def solve(x):\n    return aux(x)\n")
            assert (verdict.status, verdict.author) == ("protocol", "helper")  # at most 1 MiB
        verdict = alone(small, FLOOD.format(name="solve"))
        assert (verdict.status, verdict.author) == ("memory", "main")


def test_signals_without_a_name(sandbox: Sandbox) -> None:
    verdict = alone(sandbox, "import signal\ndef solve(x):\n    signal.raise_signal(40)\n")
    assert (verdict.status, verdict.author) == ("died", "main")
    assert verdict.detail.endswith("was ended by signal 40")


@pytest.mark.parametrize(("code", "runs"), [(70, 2), (71, 1)])
def test_the_exit_status_of_a_broken_child_counts_the_second_time(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, code: int, runs: int
) -> None:
    made: list[Job] = []
    check = Worker.check

    def counted(worker: Worker, job: Job, *more: Any) -> Verdict:
        made.append(job)
        return check(worker, job, *more)

    monkeypatch.setattr(Worker, "check", counted)
    verdict = alone(sandbox, f"import os\ndef solve(x):\n    os._exit({code})\n")
    assert (verdict.status, verdict.author, len(made)) == ("early_exit", "main", runs)


def test_a_text_of_any_length_gets_a_verdict(sandbox: Sandbox) -> None:
    source = "def solve(x):\n    return x + 1\n#" + "\U0001f600" * 400_000
    verdict = alone(sandbox, source)
    assert (verdict.status, verdict.author) == ("load_error", "main")
    assert alone(sandbox, "def solve(x):\n    return x + 1\n#" + "x" * 2_000_000).ok
    with pytest.raises(ValueError, match="the tests are too long: 5000015 characters"):
        alone(sandbox, source, "assert solve(1)" + " " * 5_000_000)
