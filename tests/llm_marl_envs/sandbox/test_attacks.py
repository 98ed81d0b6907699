"""Attacks of a helper on main, of main on the helper, and of either on what stands between them."""

from __future__ import annotations

import sys

import pytest
from support.jobs import HELPER, MAIN, team

from llm_marl_envs.sandbox import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

# Programs of a pair that attack across the border between them, and what the run must say.
FORGE = """
import json, os, struct
def send(**message):
    data = json.dumps(message).encode()
    for fd in range(3, 64):
        try: os.write(fd, struct.pack(">I", len(data)) + data)
        except OSError: pass
"""
ATTACKS = {
    "main walks from the stand-in into whatever stands behind it": (
        HELPER,
        "import gc, sys\ndef solve(x):\n    aux(x)\n    names = set()\n"
        "    for cell in aux.__closure__ or ():\n        names |= set(dir(cell.cell_contents))\n"
        "    frame = sys._getframe()\n    while frame:\n        names |= set(frame.f_locals)\n"
        "        frame = frame.f_back\n"
        "    return x + 1 if {'expected', 'plan', 'units'} & names else -9\n",
        {"wrong"},
    ),
    "main traces the stand-in and rewrites what it returns": (
        "def aux(x):\n    return -9\n",
        "import sys\ndef trace(frame, event, arg):\n    frame.f_locals['x'] = 2\n"
        "    return trace\nsys.settrace(trace)\n" + MAIN,
        {"wrong"},
    ),
    "main asks the helper under another name": (
        "def aux(x):\n    return -9\ndef hidden(x):\n    return x + 1\n",
        FORGE + "def solve(x):\n    send(request='hidden', args=[x], kwargs=[])\n    return -9\n",
        {"protocol"},
    ),
    "main asks itself": (
        HELPER,
        FORGE + "def solve(x):\n    send(request='solve', args=[x], kwargs=[])\n    return -9\n",
        {"protocol"},
    ),
    "main asks with malformed arguments": (
        HELPER,
        FORGE + "def solve(x):\n    send(request='aux', args={'t': 1}, kwargs=3)\n    return -9\n",
        {"protocol"},
    ),
    "the helper asks for main's function": (
        FORGE + "def aux(x):\n    send(request='solve', args=[x], kwargs=[])\n    return -9\n",
        MAIN,
        {"protocol"},
    ),
    "the helper answers before it is asked": (
        FORGE + "for n in range(1, 9):\n    send(id=n, value=2)\ndef aux(x):\n    return -9\n",
        MAIN,
        {"protocol"},
    ),
    "the helper answers main's call instead of its own": (
        FORGE + "def aux(x):\n    send(id=1, value=x + 1)\n    return -9\n",
        "def solve(x):\n    aux(x)\n    return -9\n",
        {"protocol", "wrong"},
    ),
    "the helper returns an object that is equal to all": (
        "class A:\n    def __eq__(self, o): return True\n    def __add__(self, o): return self\n"
        "def aux(x):\n    return A()\n",
        MAIN,
        {"wrong"},
    ),
    "the helper's error has a text and a class of its own making": (
        "class E(Exception):\n    def __str__(self): raise SystemExit\n"
        "E.__name__ = 'AssertionError'\ndef aux(x):\n    raise E(1, 2)\n",
        MAIN,
        {"exception"},
    ),
    "helper and main keep calling each other's process": (
        "def aux(x):\n    return x\n",
        "def solve(x):\n    while True:\n        aux(x)\n",
        {"protocol", "cpu_limit", "wall_limit"},
    ),
    "the helper returns more than a message may hold": (
        "def aux(x):\n    return 'x' * (9 << 20)\n",
        MAIN,
        {"protocol"},
    ),
    "main exits while the helper answers": (
        "import time\ndef aux(x):\n    time.sleep(0.1)\n    return x + 1\n",
        "import os, threading\ndef solve(x):\n"
        "    threading.Timer(0.02, os._exit, (0,)).start()\n    return aux(x)\n",
        {"early_exit", "protocol"},
    ),
    "main remembers the helper's functions beyond its call": (
        HELPER,
        "import threading, time\nout = []\ndef late():\n    time.sleep(0.01)\n"
        "    try: out.append(aux(1))\n    except RuntimeError: pass\n"
        "def solve(x):\n    threading.Thread(target=late).start()\n    return -9\n",
        {"wrong"},
    ),
}


@pytest.mark.parametrize("what", list(ATTACKS))
def test_attacks_across_the_border(sandbox: Sandbox, what: str) -> None:
    helper, main, expected = ATTACKS[what]
    verdict = team(sandbox, helper, main)
    assert verdict.status in expected, (verdict.status, verdict.detail)
    assert verdict.passed == 0
