"""Teams of two drawn programs for drawn tasks, and what is certain about them beforehand.

Owns the tasks (generated ones, and rows in every style of tests), the right and wrong programs at
the heart of a team, and the claim that follows: whatever fragments stand around a wrong heart, the
tests do not pass; around right ones that only harmless fragments surround, they do.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from support.program_grammar import Draw, power

from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.tasks import Row, Task
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.envs.coding.functions import SPLITS

ROWS_SHARE = 0.5  # of tasks; the others are generated
RIGHT_SHARE = 0.5  # of teams; the others may be right, too
LONG_TEXTS = 200_000

# --- right and wrong programs -------------------------------------------------------------------

_NEAR = """
_right = {own}
def {own}(*args, **kwargs):
    value = _right(*args, **kwargs)
    return value if args == ({known},) else [value]"""
_WRONG: Mapping[str, str] = {
    "constant": "def {own}(*args, **kwargs):\n    return 0",
    "empty": "def {own}(*args, **kwargs):\n    return []",
    "echo": "def {own}(*args, **kwargs):\n    return args[0]",
    "error": "def {own}(*args, **kwargs):\n    raise ValueError('no')",
    "stop": "def {own}(*args, **kwargs):\n    raise StopIteration",
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
VALUE = "value"
"""A heart beside those of `BASES`: it returns a value that is drawn from the grammar."""
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

    @property
    def name(self) -> str:
        """The row's id, or the number of the task."""
        return str(self.tasks[0]["task_id"] if self.tasks else self.task)

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


# --- rows: one problem, tests in every style ------------------------------------------------------

ROW_HELPER = "def aux(x):\n    return x * x + 1"
ROW_MAIN = """def solve(xs, key=None):
    if not xs:
        raise ValueError('empty')
    values = [aux(x) for x in xs]
    return sorted(values, key=key) if key else values"""
TEXT_MAIN = "def solve(stdin):\n    return '\\n'.join(str(aux(int(w))) for w in stdin.split())"
IMPORTS = "import math\nfrom math import isclose\n"
PLAIN = """
assert solve([1, 2]) == [2, 5]
assert solve([3]) == [10]
assert solve([0, -4, 5]) == [1, 17, 26]
"""
"""Part of every row but "maps": no constant passes it, and nothing that is right on `[3]` alone."""
MAPS = """
for got, want in zip(map(solve, ([1, 2], [3], [0, -4, 5])), ([2, 5], [10], [1, 17, 26])):
    assert got == want
assert [*map(solve, ([6], [7]))] == [[37], [50]]
assert len([x for x in (1, 2, 3) if solve([x]) == [x * x + 1]]) == 3
"""
"""In place of the plain ones: a program that ends an iterator early has passed nothing."""
LEVEL = """
RESULT = solve([1, 2])
CASES = {n: solve([n]) for n in range(3, 6)}
TOTAL = sum(RESULT) + sum(value[0] for value in CASES.values())
"""
"""Calls outside of any test, which some rows begin with."""
BLOCKS: Mapping[str, str] = {
    "messages": """
assert solve([1, 2]) == [2, 5], solve([1, 2])
got = solve([3])
assert got == [10], f"expected [10], got {got}"
assert (got := solve([0, -4, 5])) == [1, 17, 26], "got %r" % (got,)
for n in (6, 7):
    assert solve([n])[0] == n * n + 1, "{}: {!s:>10}".format(n, solve([n])[0])
""",
    "hashes": """
assert set(solve([1, 2, 1])) == {2, 5}
assert {v: i for i, v in enumerate(solve([3, 4]))} == {10: 0, 17: 1}
assert sorted(solve([5, 0])) == [1, 26]
assert len(solve([6, 7, 8])) == 3 and max(solve([6, 7, 8])) == 65
assert [*map(str, solve([9]))] == ["82"]
assert 3 ** solve([1])[0] == 9 and solve([1, 2])[::-1] + [1] == [5, 2, 1]
""",
    "floats": """
assert math.isclose(sum(solve([1, 2])) / 4, 1.75)
assert isclose(solve([3])[0], 10, rel_tol=1e-9)
assert abs(solve([5])[-1] / 4 - 6.5) < 1e-6
assert round(solve([6])[0] * 0.25, 2) == 9.25
assert 12 < solve([7])[0] / 4 < 13
""",
    "lent": """
calls = []
def negated(x):
    calls.append(x)
    return -x
assert solve([1, 2, 3], key=negated) == [10, 5, 2]
assert solve([1, 2], lambda x: x % 5) == [5, 2]
assert calls
""",
    "errors": """
try:
    solve([])
except ValueError:
    pass
else:
    assert False, "no error"
try:
    assert solve([4]) == [17]
except TypeError as error:
    raise AssertionError(f"raised {error!r}") from error
""",
}
"""Name -> tests that stand beside the plain ones."""


def _check(tests: str) -> str:
    return "def check(candidate):\n" + textwrap.indent(tests, "    ").replace(
        "solve(", "candidate("
    )


def _functions(tests: str) -> str:
    blocks = tests.strip().split("\n\n")
    return "\n".join(
        f"def test_{i}():\n" + textwrap.indent(block, "    ") for i, block in enumerate(blocks)
    )


def _cases(tests: str) -> str:
    functions = _functions(tests).replace("():", "(self):")
    more = "def setUp(self):\n    self.value = solve([1, 2])\n"
    more += "def test_value(self):\n    self.assertEqual(self.value, [2, 5])\n"
    return "import unittest\nclass TestSolve(unittest.TestCase):\n" + textwrap.indent(
        more + functions, "    "
    )


FORMS: Mapping[str, Callable[[str], str]] = {
    "check": _check,
    "bare": lambda tests: tests,
    "functions": _functions,
    "unittest": _cases,
    "statement": _check,
    "setup": lambda tests: tests,
    "contest": lambda tests: tests,
    "maps": lambda tests: MAPS,
}
"""How the tests of a row are written, and how they become that."""
STATEMENT = (
    "import math\nfrom typing import List\n\nLIMIT = 10\n\n"
    "def square(x: int) -> int:\n    return x * x\n\n"
    'def solve(xs: List[int]) -> List[int]:\n    """Square and add one."""\n'
)


def row(form: str, blocks: Sequence[str], level: bool) -> Problem:
    """A row whose tests have a form, blocks beside the plain ones, and calls outside of them."""
    right = {"helper": ROW_HELPER, "main": ROW_MAIN}
    one: Row = {"task_id": "/".join(["row", form, *blocks, *["level"] * level])}
    known = "[3]"
    tests = FORMS[form]("\n\n".join([PLAIN.strip(), *(BLOCKS[name].strip() for name in blocks)]))
    tests = IMPORTS + LEVEL * level + tests
    if form == "contest":
        right["main"], known = TEXT_MAIN, "'3\\n'"
        one |= {"question": "Print the square of each number plus one."}
        one |= {"inputs": ["1 2\n", "3\n", "0 -4 5\n"], "outputs": ["2\n5\n", "10", "1\n17\n26\n"]}
    elif form == "statement":
        right["main"] = ROW_MAIN.replace("xs, key", "xs: List[int], key")
        right["helper"] = "def aux(x: int) -> int:\n    return square(x) + 1"
        one |= {"prompt": STATEMENT, "entry_point": "solve", "test": tests}
    elif form == "setup":
        one |= {"text": "Square and add one.", "code": ROW_MAIN, "test_setup_code": IMPORTS}
        one |= {"test_list": [tests.removeprefix(IMPORTS)]}
    else:
        one |= {"prompt": "Square and add one.", "entry_point": "solve", "test": tests}
    return Problem((one,), "all", 0, right, known, "3")


def claim(helper: str, main: str) -> bool | None:
    """Whether these hearts pass the tests together; None where that depends."""
    if main == "right":
        return helper == "right"
    if main == "alone":
        return True if helper in _LOADS else None
    return False


def problem(rng: Random) -> Problem:
    """A generated task or a row."""
    if rng.random() < ROWS_SHARE:
        blocks = [name for name in BLOCKS if rng.random() < 0.5]
        return row(rng.choice([*FORMS, "statement"]), blocks, rng.random() < 0.3)
    split = rng.choice(SPLITS)
    return generated(split, rng.randrange(_length(split)), rng.randrange(8))


def generated(split: str, index: int, which: int) -> Problem:
    """A generated task under one of its interfaces."""
    env = _env(split)
    task = env.source[index]
    conventions = experts_of(env).conventions(task)
    convention = conventions[which % len(conventions)]
    right = {
        "helper": experts_of(env).first(task, HELPER, convention),
        "main": experts_of(env).first(task, MAIN, convention),
    }
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
        where = f"{self.problem.split}/{self.problem.name}"
        lines = [f"fuzz_team({self.seed}): {where} {dict(self.arguments)}"]
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
        "reward": rng.choice(("tests", "paper", "contribution", "contribution")),
        "feedback": rng.choice(("plain", "diagnostics", "partner")),
        "turns": turns,
        "max_action_chars": rng.choice((8192, 8192, LONG_TEXTS)),
        "info": "full" if chosen.tasks else rng.choice(("split", "full")),
    }
    longest = arguments["max_action_chars"]
    return Team(seed, chosen, arguments, tuple(_turn(rng, chosen, longest) for _ in range(turns)))


def _turn(rng: Random, chosen: Problem, longest: int) -> Turn:
    # Often right, for only then do the tests go on to the end and is a helper replaced.
    right = rng.random() < RIGHT_SHARE
    helper, main = (
        "right" if right or rng.random() < 0.5 else rng.choice((*kinds, *[VALUE] * len(kinds)))
        for kinds in BASES.values()
    )
    solves = claim(helper, main)
    calm = ("calm seat", "calm seat", "kind seat", "kind seat") if solves else ("calm seat",)
    style = rng.choice((*calm, "seat", "seat"))
    texts = {
        agent: _seat(rng, chosen, role, heart, style)
        for agent, role, heart in ((HELPER, "helper", helper), (MAIN, "main", main))
    }
    if solves and not (style == "kind seat" and all(len(t) <= longest for t in texts.values())):
        solves = None
    return Turn(texts, solves, (helper, main))


def _seat(rng: Random, chosen: Problem, role: str, heart: str, style: str) -> str:
    """An action: a program around its heart, laid out in some way."""
    context = {
        "own": "solve" if role == "main" else "aux",
        "partner": "aux" if role == "main" else "print",
        "replaced": _replaced(rng, chosen, role),
        "huge ask": re.sub(r"\d+", f"10 ** {power(rng)}", chosen.probe, count=1),
    }
    context["base"] = (
        Draw(rng, context).text("value heart") if heart == VALUE else chosen.base(role, heart)
    )
    if rng.random() < 0.2 and style != "kind seat":  # the partner is what is looked at
        return context["base"]
    program = Draw(rng, context).text(style)
    while style != "seat" and not _compiles(program):  # a name may stand where Python allows none
        program = Draw(rng, context).text(style)
    layout = "layout" if style == "seat" else "kind layout"
    return Draw(rng, {**context, "program": program}).text(layout)


def _compiles(program: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(program, "<harmless>", "exec", dont_inherit=True)
        except SyntaxError:
            return False
    return True


def _replaced(rng: Random, chosen: Problem, role: str) -> str:
    """An expression that is true where the helper was replaced, as far as a program can tell."""
    if role == "helper":
        frame = "__import__('sys')._getframe(1)"
        where = rng.choice(("globals()", f"{frame}.f_globals", f"{frame}.f_code.co_names"))
        return f"any('llm' in name for name in {where})"
    spaces: dict[str, Any] = {}
    exec("from typing import List\ndef square(x): return x * x\n" + chosen.right["helper"], spaces)
    value = eval(f"aux({chosen.probe})", spaces)
    return f"aux({chosen.probe}) != {value!r}"
