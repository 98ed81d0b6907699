"""A helper cannot keep its values from being replaced, whatever surrounds its function.

Each text below is the same function in hostile surroundings: they broke, or could see, a
replacement that is added to the helper's text. Shares must be those of the plain helper.
"""

from __future__ import annotations

import sys

import pytest

from llm_marl_envs.envs.coding.ablation import Contribution
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

PLAIN = "def aux(x):\n    return x * x + 1\n"
MAIN_TEXT = "def solve(xs):\n    return sum(aux(x) for x in xs)\n"
ROW = {
    "id": "squares",
    "prompt": "from typing import List\n\ndef solve(xs: List[int]) -> int:\n"
    '    """The sum of the squares plus one."""\n',
    "entry_point": "solve",
    "test": "".join(
        f"assert solve({xs}) == {sum(x * x + 1 for x in xs)}\n"
        for xs in ([], [1, 2], [3], [4, 5, 6], [-2, 7])
    ),
}
HOSTILE = {
    "annotations that fail": "def aux(x: 1 if __name__ else 2) -> print:\n    return x * x + 1\n",
    "deep annotations": f"def aux(x: {'-' * 900}1):\n    return x * x + 1\n",
    "annotations from the future": f"from __future__ import annotations\n{PLAIN}",
    "a decorator for one use": """
used = []
def once(function):
    if used: raise SystemExit
    used.append(1)
    return function
@once
def aux(x):
    return x * x + 1
""",
    "defaults that count": """
import itertools
COUNT = itertools.count()
def aux(x, n=next(COUNT)):
    if n: raise ValueError
    return x * x + 1
""",
    "a class": """
class Meta(type):
    def __new__(cls, name, bases, space):
        if any(word in space for word in ("replace", "value")): raise ValueError
        return super().__new__(cls, name, bases, space)
    def __call__(cls, x):
        return x * x + 1
class aux(metaclass=Meta): pass
def unused():
    return 1
""",
    "a closed end": PLAIN + "if len(globals()) > 12: raise ValueError\n",
    "a raise by name": PLAIN + "if any('llm' in name for name in globals()): raise OSError\n",
    "an unfinished line": PLAIN + "x = (1, \\\n 2)",
    "a comment at the end": PLAIN + "# \\",
    "shadows": PLAIN
    + "\n".join(
        f"{name} = None" for name in ("hasattr", "list", "type", "repr", "ord", "chr", "len")
    ),
    "builtins taken away": PLAIN
    + "import builtins\nfor name in ('ord', 'chr', 'divmod', 'sorted'):\n"
    "    delattr(builtins, name)\n",
    "names of a replacement": PLAIN + "_llm_marl_value = _llm_marl_replace = aux\n",
    "a lock on names": """
class Locked(dict): pass
import sys
def aux(x):
    if 'wrapper' in dir() or len(sys._getframe(0).f_code.co_varnames) > 1: raise OSError
    return x * x + 1
""",
    "huge integers": PLAIN + "HUGE = 10 ** 100_000\nTEXT = 'x' * 10**6\n",
    "exit at the end of the process": PLAIN + "import atexit, os\natexit.register(os._exit, 3)\n",
    "an audit": PLAIN
    + "import sys\nsys.addaudithook(lambda event, _: exit() if event == 'compile' else None)\n",
    "a trace": PLAIN + "import sys\nsys.settrace(lambda *_: None)\nsys.setrecursionlimit(90)\n",
    "a look at its caller": "import sys\ndef aux(x):\n    if sys._getframe(1).f_code.co_name != "
    "'answer': raise OSError\n    return x * x + 1\n",
    "a lambda": "aux = lambda x: x * x + 1\n",
    "a recursive one": "def aux(x, n=2):\n    return aux(x, n - 1) if n else x * x + 1\n",
}


@pytest.fixture(scope="module")
def env() -> CoopCodingEnv:
    return CoopCodingEnv(tasks=[ROW], split="all")


def shares(env: CoopCodingEnv, helper: str, main: str = MAIN_TEXT) -> Contribution:
    return env.contribution(env.source[0], {HELPER: helper, MAIN: main})


@pytest.mark.parametrize("name", HOSTILE)
def test_the_shares_are_those_of_the_plain_helper(env: CoopCodingEnv, name: str) -> None:
    assert shares(env, HOSTILE[name]) == shares(env, PLAIN) == Contribution(0.8, 0.8, True)
