"""Teams of two drawn programs for drawn tasks, and what is certain about them beforehand.

Owns the tasks (generated ones, and rows in every style of tests), the right and wrong programs at
the heart of a team, and the claim that follows: whatever fragments stand around a wrong heart, the
tests do not pass; around right ones that only harmless fragments surround, they do.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from support.program_grammar import Draw

from llm_marl_envs.coding.rewards import SCHEMES
from llm_marl_envs.coding.feedback import MODES
from llm_marl_envs.envs.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.tasks import Row, Task

SPLITS = ("train", "val", "test", "ood")
HARMLESS_SHARE = 0.12  # of seats that are right
LONG_TEXTS = 200_000

# --- rows: one problem, every style of tests -----------------------------------------------------

ROW_HELPER = "def aux(x):\n    return x * x + 1"
ROW_MAIN = "def solve(xs):\n    return [aux(x) for x in xs]"
SUM_MAIN = "def solve(xs):\n    return sum(aux(x) for x in xs) / 4"
TEXT_MAIN = "def solve(stdin):\n    return '\\n'.join(str(aux(int(w))) for w in stdin.split())"
SORT_MAIN = "def solve(xs, key=None):\n    return sorted((aux(x) for x in xs), key=key)"
ERROR_MAIN = (
    "def solve(xs):\n    if not xs:\n        raise ValueError('empty')\n"
    "    return [aux(x) for x in xs]"
)
_CHECK = """
def check(candidate):
    assert candidate([1, 2]) == [2, 5]
    assert candidate([3]) == [10]
    assert candidate([0, -4, 5]) == [1, 17, 26]
"""
_UNITTEST = """
import unittest
class TestSolve(unittest.TestCase):
    def setUp(self):
        self.value = solve([1, 2])
    def test_value(self):
        self.assertEqual(self.value, [2, 5])
    def test_more(self):
        self.assertListEqual(solve([3]), [10])
        self.assertIn(17, solve([0, -4, 5]))
"""
_LEVEL = """
RESULT = solve([1, 2])
CASES = {n: solve([n]) for n in range(3, 6)}
TOTAL = sum(RESULT) + sum(value[0] for value in CASES.values())
def test_result():
    assert RESULT == [2, 5]
def test_cases():
    assert CASES == {3: [10], 4: [17], 5: [26]}
def test_total():
    assert TOTAL == 60
"""
_MESSAGES = """
assert solve([1, 2]) == [2, 5], solve([1, 2])
assert (got := solve([3])) == [10], f"expected [10], got {got}"
got = solve([0, -4, 5])
assert got == [1, 17, 26], "got %r of %d" % (got, len(got))
for n in (6, 7):
    assert solve([n])[0] == n * n + 1, "{}: {!s:>10}".format(n, solve([n])[0])
"""
_HASHES = """
assert set(solve([1, 2, 1])) == {2, 5}
assert {v: i for i, v in enumerate(solve([3, 4]))} == {10: 0, 17: 1}
assert sorted(solve([5, 0])) == [1, 26]
assert len(solve([6, 7, 8])) == 3 and max(solve([6, 7, 8])) == 65
assert [*map(str, solve([9]))] == ["82"]
assert solve([1, 2])[::-1] + solve([]) == [5, 2]
"""
_FLOATS = """
import math
from math import isclose
def check(candidate):
    assert math.isclose(candidate([1, 2]), 1.75)
    assert isclose(candidate([3]), 2.5, rel_tol=1e-9)
    assert abs(candidate([0, -4, 5]) - 11.0) < 1e-6
    assert round(candidate([6]), 2) == 9.25
    assert 12 < candidate([7]) < 13
"""
_LENT = """
calls = []
def negated(x):
    calls.append(x)
    return -x
assert solve([1, 2]) == [2, 5]
assert solve([1, 2, 3], key=negated) == [10, 5, 2]
assert solve([1, 2], lambda x: x % 5) == [5, 2]
assert calls
"""
_ERRORS = """
def check(candidate):
    try:
        candidate([])
    except ValueError:
        pass
    else:
        assert False, "no error"
    assert candidate([1, 2]) == [2, 5]
    assert candidate([3]) == [10]
    try:
        assert candidate([4]) == [17]
    except TypeError as error:
        raise AssertionError(f"raised {error!r}") from error
"""
_PREAMBLE = (
    "import math\nfrom typing import List\n\nLIMIT = 10\n\n"
    "def square(x: int) -> int:\n    return x * x\n\n"
    'def solve(xs: List[int]) -> List[int]:\n    """Square and add one."""\n'
)


@dataclass(frozen=True)
class Style:
    """A row of one style of tests, with right programs."""

    row: Row
    helper: str
    main: str


def _style(name: str, tests: Any, main: str = ROW_MAIN, helper: str = ROW_HELPER, **more: Any) -> Style:
    row = {"task_id": f"row/{name}", "prompt": "Square and add one.", "entry_point": "solve"}
    return Style({**row, "test": tests, "helper": helper, "main": main, **more}, helper, main)


STYLES: Mapping[str, Style] = {
    "check": _style("check", _CHECK),
    "bare": _style("bare", _CHECK.partition(":")[2].replace("    ", "").replace("candidate", "solve")),
    "functions": _style(
        "functions",
        "def test_one():\n    assert solve([1, 2]) == [2, 5]\ndef test_two():\n"
        "    values = solve([0, -4, 5])\n    assert values == [1, 17, 26]\n    assert values[0] == 1\n",
    ),
    "unittest": _style("unittest", _UNITTEST),
    "level": _style("level", _LEVEL),
    "messages": _style("messages", _MESSAGES),
    "hashes": _style("hashes", _HASHES),
    "floats": _style("floats", _FLOATS, SUM_MAIN),
    "lent": _style("lent", _LENT, SORT_MAIN),
    "errors": _style("errors", _ERRORS, ERROR_MAIN),
    "preamble": _style(
        "preamble",
        _CHECK,
        "def solve(xs: List[int]) -> List[int]:\n    return [aux(x) for x in xs]",
        "def aux(x: int) -> int:\n    return square(x) + 1",
        prompt=_PREAMBLE,
    ),
    "setup": Style(
        {
            "task_id": "row/setup",
            "text": "Square and add one.",
            "code": ROW_MAIN,
            "test_setup_code": "import math",
            "test_list": [
                "assert solve([1, 2]) == [2, 5]",
                "assert solve([int(math.sqrt(9))]) == [10]",
                "assert solve([0, -4, 5]) == [1, 17, 26]",
            ],
        },
        ROW_HELPER,
        ROW_MAIN,
    ),
    "contest": Style(
        {
            "task_id": "row/contest",
            "question": "Print the square of each number plus one.",
            "inputs": ["1 2\n", "3\n", "0 -4 5\n"],
            "outputs": ["2\n5\n", "10\n", "1\n17\n26\n"],
        },
        ROW_HELPER,
        TEXT_MAIN,
    ),
}
"""Name -> row, one for each way in which tests may be written."""
KNOWN_INPUTS = {"contest": "'3\\n'"}
"""Style -> an argument of which one test is made, where it is not `[3]`."""

# --- right and wrong programs ----------------------------------------------------------------------

_NEAR = """
_right = {own}
def {own}(*args, **kwargs):
    value = _right(*args, **kwargs)
    return value if args[0] == {known} else [value]"""
_WRONG: Mapping[str, str] = {
    "constant": "def {own}(*args, **kwargs):\n    return 0",
    "empty": "def {own}(*args, **kwargs):\n    return []",
    "echo": "def {own}(*args, **kwargs):\n    return args[0]",
    "error": "def {own}(*args, **kwargs):\n    raise ValueError('no')",
    "recursion": "def {own}(*args, **kwargs):\n    return {own}(*args, **kwargs)",
    "none": "def {own}(*args, **kwargs):\n    pass",
    "no function": "{own} = 3",
    "name error": "def {own}(*args, **kwargs):\n    return undefined",
    "nothing": "",
}
_MAIN_ONLY: Mapping[str, str] = {
    "relay": "def {own}(*args, **kwargs):\n    return aux(*args, **kwargs)",
    "asks": "def {own}(*args, **kwargs):\n    aux(args)\n    return aux",
}
BASES = {
    "helper": ("right", "near", *_WRONG),
    "main": ("right", "alone", "near", *_WRONG, *_MAIN_ONLY),
}
"""Role -> what its program may be at heart. "alone" does without the helper's value."""
_LOADS = ("right", "near", "constant", "empty", "echo", "none", "error")


@dataclass(frozen=True)
class Problem:
    """A task of a fuzzed team, and programs for it.

    Attributes:
        tasks, split, task: arguments of the environment and of its `reset`.
        right: role -> a right program; together they pass every test.
        known: source of the argument of one test.
        probe: source of an argument of `aux`.
    """

    tasks: tuple[Row, ...] | None
    split: str
    task: int
    right: Mapping[str, str]
    known: str
    probe: str

    def base(self, role: str, kind: str) -> str:
        """The program of `role` that is right, or wrong in the way `kind`."""
        own = "solve" if role == "main" else "aux"
        right = self.right[role]
        if kind == "alone":
            both = f"{self.right['helper']}\n\n{right}"
            return re.sub(r"\baux\b", "_own_aux", both)
        if kind == "near":
            known = self.known if role == "main" else self.probe
            return right + _NEAR.format(own=own, known=known)
        return right if kind == "right" else {**_WRONG, **_MAIN_ONLY}[kind].format(own=own)


def claim(helper: str, main: str) -> bool | None:
    """Whether these hearts pass the tests together; None where that depends."""
    if main == "right":
        return helper == "right"
    if main == "alone":
        return True if helper in _LOADS else None
    return False


def problem(rng: Random) -> Problem:
    """A generated task or a row."""
    if rng.random() < 0.45:
        name = rng.choice([*STYLES])
        style = STYLES[name]
        right = {"helper": style.helper, "main": style.main}
        return Problem((style.row,), "all", 0, right, KNOWN_INPUTS.get(name, "[3]"), "3")
    split = rng.choice(SPLITS)
    return generated(split, rng.randrange(_length(split)), rng.randrange(8))


def generated(split: str, index: int, which: int) -> Problem:
    """A generated task under one of its interfaces."""
    env = _env(split)
    task = env.source[index]
    conventions = env.conventions(task)
    convention = conventions[which % len(conventions)]
    right = {"helper": env.expert(task, HELPER, convention), "main": env.expert(task, MAIN, convention)}
    probes = {"item": "3", "list": "[3, 8, 3]", "args": "3, 8", "pair": "(3, 8)"}
    return Problem(None, split, index, right, _known(task), probes[convention])


def _known(task: Task) -> str:
    """The longest list that the tests ask for."""
    lists = re.findall(r"solve\((\[.*?\])\) ==", task.data["tests"])
    return max(lists, key=len)


@cache
def _env(split: str) -> CoopCodingEnv:
    return CoopCodingEnv(split=split)


def _length(split: str) -> int:
    return len(_env(split).source)


# --- teams --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """One joint action, and whether it solves the task, as far as that is certain."""

    actions: Mapping[str, str]
    solves: bool | None
    hearts: tuple[str, str]


@dataclass(frozen=True)
class Team:
    """An episode to be played: a function of its seed."""

    seed: int
    problem: Problem
    arguments: Mapping[str, Any]
    turns: tuple[Turn, ...]

    def environment(self) -> CoopCodingEnv:
        """A new environment for it."""
        return CoopCodingEnv(
            tasks=self.problem.tasks and list(self.problem.tasks),
            split=self.problem.split,
            **self.arguments,
        )

    def __str__(self) -> str:
        lines = [f"fuzz_team({self.seed}): {self.problem.split}/{self.problem.task}"]
        lines[0] += f" {dict(self.arguments)}"
        if self.problem.tasks:
            lines[0] += f" {self.problem.tasks[0]['task_id']}"
        for number, turn in enumerate(self.turns):
            lines.append(f"turn {number}: hearts {turn.hearts}, solves {turn.solves}")
            lines += [f"--- {agent}\n{_shown(text)}" for agent, text in turn.actions.items()]
        return "\n".join(lines)


def _shown(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) < 6_000 else f"{text[:3_000]}\n... {len(text)} ...\n{text[-2_000:]}"


def fuzz_team(seed: int) -> Team:
    """The team of a seed."""
    rng = Random(f"fuzz/{seed}")
    chosen = problem(rng)
    turns = rng.choice((1, 1, 1, 2))
    arguments: dict[str, Any] = {
        "reward": rng.choice(SCHEMES),
        "feedback": rng.choice(MODES),
        "turns": turns,
        "max_action_chars": rng.choice((8192, 8192, LONG_TEXTS)),
        "info": "full" if chosen.tasks else rng.choice(("split", "full")),
    }
    longest = arguments["max_action_chars"]
    return Team(seed, chosen, arguments, tuple(_turn(rng, chosen, longest) for _ in range(turns)))


def _turn(rng: Random, chosen: Problem, longest: int) -> Turn:
    # Often right, for only then do the tests go on to the end and is a helper replaced.
    helper, main = (
        rng.choice(kinds) if rng.random() < 0.3 else "right"
        for kinds in (BASES["helper"], BASES["main"])
    )
    solves = claim(helper, main)
    kind = solves is True and rng.random() < HARMLESS_SHARE / 0.5
    texts = {
        agent: _seat(rng, chosen, role, heart, kind)
        for agent, role, heart in ((HELPER, "helper", helper), (MAIN, "main", main))
    }
    if solves and not (kind and all(len(t) <= longest for t in texts.values())):
        solves = None
    return Turn(texts, solves, (helper, main))


def _seat(rng: Random, chosen: Problem, role: str, heart: str, kind: bool) -> str:
    """An action: a program around its heart, laid out in some way."""
    draw = Draw(
        rng,
        {
            "own": "solve" if role == "main" else "aux",
            "base": chosen.base(role, heart),
            "helper differs": _differs(chosen, role),
        },
    )
    if rng.random() < 0.25 and not kind:  # the partner is what is looked at
        return chosen.base(role, heart)
    program = draw.text("kind seat" if kind else "seat")
    while kind and not _compiles(program):  # a name may stand where Python allows none
        program = draw.text("kind seat")
    layout = Draw(rng, {"program": program, "own": draw.context["own"]})
    return layout.text("kind layout" if kind else "layout")


def _compiles(program: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(program, "<harmless>", "exec", dont_inherit=True)
        except SyntaxError:
            return False
    return True


def _differs(chosen: Problem, role: str) -> str:
    """An expression that is true in main where the helper was replaced; for a helper, never."""
    if role == "helper":
        return "len(__import__('inspect').stack()) > 6"
    spaces: dict[str, Any] = {}
    exec("from typing import List\ndef square(x): return x * x\n" + chosen.right["helper"], spaces)
    value = eval(f"aux({chosen.probe})", spaces)
    return f"aux({chosen.probe}) != {value!r}"
