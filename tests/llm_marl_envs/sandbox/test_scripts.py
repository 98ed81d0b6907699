"""Scripts with standard input and output."""

from __future__ import annotations

import sys

import pytest

from llm_marl_envs.sandbox import Sandbox, same_output

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")


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
