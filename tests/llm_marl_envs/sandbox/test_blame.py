"""To whom a team's failure is charged: the table of docs/sandbox.md, each row a run."""

from __future__ import annotations

import mmap
import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.jobs import EXPORTS, HELPER, MAIN

from llm_marl_envs.sandbox import Contract, Limits, Sandbox, blame
from llm_marl_envs.sandbox.jail import codec, ledger, routing
from llm_marl_envs.sandbox.jail.ledger import JUDGE, NOBODY, Ledger
from llm_marl_envs.sandbox.jail.routing import Router
from llm_marl_envs.sandbox.jail.wire import Channel

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "sandbox.md"
CONTRACT = Contract(forms=(("int",), ("ints",)), largest=10**6, size=1_000, calls=1_000)
TESTS = "assert solve(1) == 2\nassert solve(5) == 6\n"

# Fails in every way, each on inputs that are neither a small int nor a list of them.
BRITTLE = """
import os, time
def aux(x):
    while x == "loop":
        pass
    if x == "sleep":
        time.sleep(60)
    if x == "leave":
        os._exit(3)
    if x == "nonsense":
        for fd in range(3, 64):
            try: os.write(fd, bytes(4) + b"?")
            except OSError: pass
    return [x + 1] * (1 + x // 10**6)
"""
SEND = """
import os, random, stat
from fractions import Fraction
def slow():
    value = Fraction(1)
    value._numerator, value._denominator = (random.getrandbits(1_900_000) | 1 for _ in range(2))
    return value
"""


def calling(expression: str) -> str:
    """A main that makes one call of `aux` and passes on what it gives."""
    return f"def solve(x):\n    return {expression}\n"


HELPERS_FAULT = {
    "loops": ("def aux(x):\n    while True: pass\n", MAIN),
    "sleeps": ("import time\ndef aux(x):\n    time.sleep(60)\n", MAIN),
    "ends its process, be it at the second call": (
        "import os\nseen = []\ndef aux(x):\n    seen.append(x)\n"
        "    return x + 1 if len(seen) < 2 else os._exit(0)\n",
        MAIN,
    ),
    "crashes": ("import ctypes\ndef aux(x):\n    ctypes.string_at(0)\n", MAIN),
    "takes more memory than it may": ("def aux(x):\n    return bytearray(3 << 30)\n", MAIN),
    "returns 7 MB": ("def aux(x):\n    return 'x' * (7 << 20)\n", calling("aux(x) + aux(x)")),
    "returns too many values": ("def aux(x):\n    return [0] * 10**6\n", calling("aux(x)[0]")),
    "returns what is not plain": ("def aux(x):\n    return object()\n", calling("aux(x) + 1")),
    "raises, and main lets it pass": ("def aux(x):\n    raise KeyError(x)\n", MAIN),
    "defines nothing of that name": ("def other(x):\n    return x + 1\n", MAIN),
    "does not load": ("1 / 0\n", calling("x + 1")),
    "sends what is no message": (
        BRITTLE.replace('x == "nonsense"', "True"),
        MAIN,
    ),
    "loops in the background while main works": (
        "import threading\ndef loop():\n    while True: pass\n"
        "threading.Thread(target=loop, daemon=True).start()\n" + HELPER,
        "import time\ndef solve(x):\n    for _ in range(400):\n        time.sleep(0.01)\n"
        "        aux(x)\n    return aux(x)\n",
    ),
    "returns a value on which the tests take too long": (SEND + "aux = lambda x: slow()\n", MAIN),
}
MAINS_FAULT = {
    "loops": (HELPER, "def solve(x):\n    while True: pass\n"),
    "sleeps": (HELPER, "import time\ndef solve(x):\n    time.sleep(60)\n"),
    "sleeps, then makes the call in which the time is up": (
        "import time\ndef aux(x):\n    time.sleep(0.5)\n    return x + 1\n",
        "import time\ndef solve(x):\n    time.sleep(1.2)\n    return aux(x)\n",
    ),
    "makes the helper loop": (BRITTLE, calling("aux('loop')")),
    "makes the helper sleep": (BRITTLE, calling("aux('sleep')")),
    "makes the helper end its process": (BRITTLE, calling("aux('leave')")),
    "makes the helper send what is no message": (BRITTLE, calling("aux('nonsense')")),
    "makes the helper take more memory than it may": (BRITTLE, calling("aux(10**15)")),
    "makes the helper return too much": (BRITTLE, calling("aux(2 * 10**12)[0]")),
    "makes the helper raise": (BRITTLE, calling("aux(None)")),
    "makes 20,001 calls": (HELPER, "def solve(x):\n    for _ in range(20_001): aux(x)\n"),
    "makes so many calls that the helper's time is up": (
        "def aux(x):\n    for i in range(3_000): x * i\n    return x + 1\n",
        "def solve(x):\n    for _ in range(19_000): aux(x)\n    return aux(x)\n",
    ),
    "sends the helper 7 MB": (HELPER, calling("aux('x' * (7 << 20))")),
    "sends the helper what is not plain": (HELPER, calling("aux(object())")),
    "raises an error of its own": (HELPER, calling("aux(x) + {}[x]")),
    "turns the helper's error into another": (
        "def aux(x):\n    raise KeyError(x)\n",
        "def solve(x):\n    try:\n        return aux(x)\n"
        "    except KeyError:\n        return [][0]\n",
    ),
    "ends its process while the helper answers": (
        "import time\ndef aux(x):\n    time.sleep(0.2)\n    return x + 1\n",
        "import os, threading\ndef solve(x):\n"
        "    threading.Timer(0.05, os._exit, (0,)).start()\n    return aux(x)\n",
    ),
    "returns a value on which the tests take too long": (
        HELPER,
        SEND + "def solve(x):\n    return aux(x) and slow()\n",
    ),
    "returns what is not plain": (HELPER, calling("aux")),
}
NO_FAULT = {
    "passes": (HELPER, MAIN),
    "returns a wrong value": ("def aux(x):\n    return x\n", MAIN),
}
TABLE = {
    f"{who} {what}": (*programs, author)
    for who, author, cases in (
        ("the helper", "helper", HELPERS_FAULT),
        ("main", "main", MAINS_FAULT),
        ("the team", None, NO_FAULT),
    )
    for what, programs in cases.items()
}


@pytest.fixture(scope="module")
def short() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=Limits(cpu_seconds=1, wall_seconds=1.5), cache=0) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def patient() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=Limits(cpu_seconds=1, wall_seconds=20.0), cache=0) as sandbox:
        yield sandbox


@pytest.mark.parametrize("what", list(TABLE))
def test_who_is_charged(short: Sandbox, patient: Sandbox, what: str) -> None:
    helper, main, author = TABLE[what]
    # A busy machine must leave a background thread the time to use up its processor limit.
    sandbox = patient if "in the background" in what else short
    verdict = sandbox.check(
        {"helper": helper, "main": main},
        entry_point="solve",
        exports=EXPORTS,
        contracts={"aux": CONTRACT},
        tests=TESTS,
    )
    assert verdict.author == author, verdict
    assert verdict.ok is (what == "the team passes")


def test_the_documented_table_is_this_one() -> None:
    rows = re.findall(
        r"^\| (the helper|main|the team) ([^|]+?) \| ([^|]+?) \|$", PAGE.read_text(), re.M
    )
    names = {"the helper": "helper", "main": "main", "nobody": None}
    assert {f"{who} {what}": names[to] for who, what, to in rows} == {
        what: author for what, (_, _, author) in TABLE.items()
    }


# --- contracts ----------------------------------------------------------------------------------
ANY = Contract(largest=1000, size=50)
FOLD = Contract(forms=(("int", "int"), ("pair",)), largest=1000, size=50)


@pytest.mark.parametrize(
    ("contract", "args", "kwargs", "allowed"),
    [
        (CONTRACT, (3,), {}, True),
        (CONTRACT, ([3, -4],), {}, True),
        (CONTRACT, ((3, -4),), {}, True),
        (CONTRACT, ([],), {}, True),
        (CONTRACT, (10**6,), {}, True),
        (CONTRACT, (10**6 + 1,), {}, False),
        (CONTRACT, (-(10**6) - 1,), {}, False),
        (CONTRACT, (2**70,), {}, False),
        (CONTRACT, ([2**70],), {}, False),
        (CONTRACT, ([0] * 998,), {}, True),
        (CONTRACT, ([0] * 1000,), {}, False),
        (CONTRACT, (True,), {}, False),
        (CONTRACT, (1.0,), {}, False),
        (CONTRACT, ("3",), {}, False),
        (CONTRACT, ([[3]],), {}, False),
        (CONTRACT, ([3, "a"],), {}, False),
        (CONTRACT, ({3},), {}, False),
        (CONTRACT, (iter([3]),), {}, False),
        (CONTRACT, (), {}, False),
        (CONTRACT, (3, 4), {}, False),
        (CONTRACT, (3,), {"y": 4}, False),
        (CONTRACT, (), {"x": 3}, False),
        (FOLD, (3, 4), {}, True),
        (FOLD, ((3, 4),), {}, True),
        (FOLD, ([3, 4],), {}, True),
        (FOLD, ([3, 4, 5],), {}, False),
        (FOLD, (3, [4]), {}, False),
        (ANY, (), {}, True),
        (ANY, ("x" * 49,), {}, True),
        (ANY, ("x" * 50,), {}, False),
        (ANY, ("x" * 25,), {"y": "x" * 25}, False),
        (ANY, ({"a": [1, (2.5, None)]}, {True}), {"y": 3}, True),
        (ANY, (1001,), {}, False),
        (ANY, (1000.5,), {}, False),
        (ANY, (float("inf"), float("nan")), {}, True),
        (ANY, ({1: {2: 2**70}},), {}, False),
        (ANY, (codec.Decimal("1e9"),), {}, False),
        (ANY, (codec.Decimal("sNaN"), codec.Decimal("-Infinity")), {}, True),
        (ANY, (codec.Fraction(1, 1001),), {}, False),
        (ANY, (range(40),), {}, True),
        (ANY, (range(60),), {}, False),
        (ANY, (range(10**30),), {}, False),
    ],
)
def test_what_a_contract_allows(
    contract: Contract, args: tuple[object, ...], kwargs: dict[str, object], allowed: bool
) -> None:
    named = [[name, codec.encode(value)] for name, value in kwargs.items()]
    assert contract.allows([codec.encode(arg) for arg in args], named) is allowed


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"forms": (("int", "text"),)}, "forms name .'text'."),
        ({"largest": -1}, "largest must be"),
        ({"size": 0}, "size must be"),
        ({"calls": 1.5}, "calls must be"),
    ],
)
def test_contracts_that_say_nothing(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Contract(**fields)  # pyright: ignore[reportArgumentType]


def test_contracts_are_for_exported_functions(short: Sandbox) -> None:
    programs = {"helper": HELPER, "main": MAIN}
    job: dict[str, Any] = {"entry_point": "solve", "exports": EXPORTS, "tests": TESTS}
    with pytest.raises(ValueError, match="contracts name 'other'"):
        short.check(programs, **job, contracts={"other": CONTRACT})
    with pytest.raises(TypeError, match="must be a Contract"):
        short.check(programs, **job, contracts={"aux": 3})  # pyright: ignore[reportArgumentType]


def test_calls_beyond_the_contract_are_the_callers(short: Sandbox) -> None:
    """The helper raises at its third call; two are in the contract, or three."""
    helper = (
        "seen = []\ndef aux(x):\n    seen.append(x)\n    return x + 1 if len(seen) < 3 else {}[x]\n"
    )
    for calls, author in ((2, "main"), (3, "helper")):
        verdict = short.check(
            {"helper": helper, "main": MAIN},
            entry_point="solve",
            exports=EXPORTS,
            contracts={"aux": Contract(calls=calls)},
            tests=TESTS + "assert solve(7) == 8\n",
        )
        assert (verdict.author, verdict.passed) == (author, 2)


# --- the rules on seconds -----------------------------------------------------------------------
def test_the_wall_limit_is_charged_to_whoever_answers_for_most_of_it() -> None:
    seconds = {("helper", "helper"): 2.0, ("helper", "main"): 1.0, ("main", "main"): 0.9}
    assert blame.of_wall(seconds) == "helper"
    assert blame.of_wall({**seconds, (JUDGE, "main"): 0.2}) == "main"
    assert blame.of_wall({**seconds, (JUDGE, NOBODY): 3.0}) is None
    assert blame.of_wall({}) is None


def test_a_programs_time_is_its_own_unless_its_caller_took_most_of_it() -> None:
    seconds = {("helper", "main"): 1.2, ("helper", "helper"): 0.1, ("main", "main"): 9.0}
    assert blame.of_program(seconds, "helper", 2.0) == "main"
    assert blame.of_program(seconds, "helper", 2.5) == "helper"  # 1.3 s in the background
    assert blame.of_program({**seconds, ("helper", "helper"): 1.3}, "helper", 2.0) == "helper"
    assert blame.of_program({}, "helper", 2.0) == "helper"
    assert blame.of_program(seconds, "main", 2.0) == "main"


def test_the_tests_time_is_charged_by_the_values_that_they_look_at() -> None:
    seconds = {(JUDGE, "helper"): 1.0, (JUDGE, "main"): 0.5, ("main", "main"): 9.0}
    assert blame.of_tests(seconds) == "helper"
    assert blame.of_tests({**seconds, (JUDGE, NOBODY): 2.0}) is None


def test_a_ledger_is_read_from_its_page() -> None:
    fd = os.memfd_create("ledger")
    try:
        os.ftruncate(fd, ledger.PAGE)
        assert ledger.read(fd, ["helper", "main"]) == {}
        writer = Ledger(["helper", "main"], mmap.mmap(fd, ledger.PAGE))
        writer.turn("helper", "main")
        writer.turn("main", "main")
        first, second = (ledger.read(fd, ["helper", "main"]) for _ in range(2))
        assert first["helper", "main"] > 0
        assert first["helper", "main"] == second["helper", "main"]
        assert first["main", "main"] < second["main", "main"]  # the present turn goes on
        assert {pair for pair, spent in first.items() if spent} == {
            ("helper", "main"),
            ("main", "main"),
            (JUDGE, NOBODY),
        }
    finally:
        os.close(fd)


def test_slow_tests_are_nobodys_fault(short: Sandbox) -> None:
    tests = "sum(i * i for i in range(10**9))\n" + TESTS
    verdict = short.check(HELPER.replace("aux", "solve"), entry_point="solve", tests=tests)
    assert (verdict.status, verdict.author) == ("cpu_limit", None)


def test_a_value_that_main_passes_on_is_the_helpers(short: Sandbox) -> None:
    """The tests take long over a number: it came from the helper, or main has changed it."""
    for main, author in ((MAIN, "helper"), (calling("aux(x) + 1"), "main")):
        verdict = short.check(
            {"helper": "def aux(x):\n    return 10**12\n", "main": main},
            entry_point="solve",
            exports=EXPORTS,
            tests="assert sum(range(solve(1))) == 2\n",
        )
        assert (verdict.status, verdict.author) == ("cpu_limit", author)


def test_messages_between_programs_are_shorter_than_those_for_the_tests(short: Sandbox) -> None:
    long, shorter = "'x' * (7 << 20)", "'x' * (9 << 17)"
    job: dict[str, Any] = {
        "entry_point": "solve",
        "exports": EXPORTS,
        "tests": "assert len(solve(1)) > 9**6\n",
    }
    for helper, main, status in (
        (HELPER, calling(long), "pass"),
        (f"def aux(x):\n    return {shorter}\n", calling("aux(x)"), "protocol"),
        ("def aux(x):\n    return 'x'\n", calling(f"aux({shorter})"), "protocol"),
    ):
        assert short.check({"helper": helper, "main": main}, **job).status == status


def test_a_program_may_make_so_many_calls_and_send_so_much() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peers = [Channel(ours.fileno()), Channel(ours.fileno())]
        job = {"programs": ["helper", "main"], "exports": {"helper": ["aux"]}}
        router = Router(job, peers)
        for _ in range(routing.MAX_CALLS):
            router.count("main")
        with pytest.raises(routing.Fatal, match="more than 20000 calls") as caught:
            router.count("main")
        assert caught.value.author == "main"
        router.sent["helper"] = routing.MAX_SENT - 5
        router.answers["helper"] = "main"
        Channel(theirs.fileno()).send({})
        assert router.receive("helper") == {}
        Channel(theirs.fileno()).send({"a": 1})
        with pytest.raises(routing.Fatal, match="beyond its contract") as caught:
            router.receive("helper")
        assert (caught.value.status, caught.value.author) == ("protocol", "main")
