"""coop_coding-v0 and programs that are written to break it: none of them raises anything."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from llm_marl_envs.envs.coding import ablation
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.sandbox import Opaque, Replacement

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

AUX = "def aux(x):\n    return x + 1\n"
SOLVE = "def solve(x):\n    return aux(x)\n"
STYLES = {
    "bare": "assert solve(1) == 2, solve(1)\nassert solve(2) == 3\n",
    "check": "first = solve(1)\ndef check(candidate):\n    assert first == candidate(1) == 2\n"
    "    assert candidate(2) == 3\n",
    "functions": "class Seen:\n    first = solve(1)\n"
    "def test_first():\n    assert Seen.first == 2\n"
    "def test_second():\n    assert f'{solve(2):d}' == '3'\n",
}
DEEP = "-" * 950 + "1"
PROGRAMS: dict[str, tuple[str, str]] = {
    "right": (AUX, SOLVE),
    "names of the harness": (
        f"def __unit__(i): return aux\ncheck = test_first = __unit__\n{AUX}",
        f"def __unit__(i): return i\ncheck = candidate = first = __unit__\n{SOLVE}",
    ),
    "a deep annotation": (f"def aux(x: {DEEP}, *a: {DEEP}):\n    return x + 1\n", SOLVE),
    "a deep default": (
        f"def aux(x, y={DEEP}, *, z={DEEP}, **k: {DEEP}):\n    return x + 1\n",
        SOLVE,
    ),
    "a long integer": (AUX, "def solve(x):\n    return aux(10 ** 5000)\n"),
    "long integers in the trace": (
        "def aux(x):\n    return x * x\n",
        "def solve(x):\n    return x + bool(aux(10 ** 2400))\n",
    ),
    "a fraction": (
        "def aux(x):\n    from fractions import Fraction\n    return Fraction(x, 10 ** 4400 + 1)\n",
        SOLVE,
    ),
    "main raises": (AUX, "def solve(x):\n    raise KeyError(aux(x))\n"),
    "main leaves": (AUX, "def solve(x):\n    raise SystemExit(aux(x))\n"),
    "main calls wrongly": (AUX, "def solve(x):\n    return aux(lambda: x)\n"),
    "main raises without the helper's values": (
        AUX,
        "def solve(x):\n    y = aux(x)\n    assert y == x + 1\n    return y\n",
    ),
    "a limit of its own": (
        AUX,
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 0))\n"
        "def solve(x):\n    while True:\n        aux(x)\n",
    ),
    "a nameless signal": (AUX, "import signal\ndef solve(x):\n    signal.raise_signal(40)\n"),
    "the machinery's exit status": (
        "import os\ndef aux(x):\n    os._exit(70)\n",
        "def solve(x):\n    return aux(x)\n",
    ),
    "texts that cannot be written": (
        "def aux(x):\n    return '\\ud800' * x\n",
        "def solve(x):\n    raise ValueError(aux(x))\n",
    ),
    "depth": (AUX, "def solve(x):\n    return eval('[' * 79 + str(aux(x)) + ']' * 79)\n"),
    "no program": ("\x00", "(" * 5000),
    "surrogates": ("\ud800 = 1", f"# \udfff\n{SOLVE}"),
}
SUCCEEDS = {
    "right",
    "names of the harness",
    "a deep annotation",
    "a deep default",
    "long integers in the trace",
    "main raises without the helper's values",
}


def env_of(tests: str, reward: str) -> CoopCodingEnv:
    row = {"task_id": "r", "prompt": "Add one.", "entry_point": "solve", "test": tests}
    return CoopCodingEnv(tasks=[row], split="all", reward=reward, turns=2, feedback="partner")


@pytest.mark.parametrize(
    ("style", "reward"), [*((style, "contribution") for style in STYLES), ("bare", "tests")]
)
def test_no_program_raises(style: str, reward: str) -> None:
    env = env_of(STYLES[style], reward)
    for name, (helper, main) in PROGRAMS.items():
        env.reset(seed=0)
        _, rewards, _, _, infos = env.step({HELPER: helper, MAIN: main})
        assert infos[MAIN]["success"] is (name in SUCCEEDS), name
        assert infos[MAIN]["verdict"] != "infra_error", name
        terms: dict[str, Any] = infos[MAIN]["reward_terms"]
        assert math.isclose(sum(terms.values()), rewards[MAIN], abs_tol=1e-12), name
        assert 0 <= rewards[MAIN] <= 1, name


def test_values_that_are_not_plain_are_no_constants() -> None:
    """Nor does looking at them change the trace, which a remembered verdict holds."""
    eaten = iter([1, 2])
    values = [Opaque("a"), [Opaque("b")], eaten, *[(1, "\ud800")] * 2, float("nan")]
    for _ in range(2):
        *_, constant = ablation.trivial([(0, "aux", (), value) for value in values])
        assert constant == Replacement("constant", value='{"t":[1,"\\ud800"]}')
    assert list(eaten) == [1, 2]
    kinds = [one.kind for one in ablation.trivial([(0, "aux", (), value) for value in values[:2]])]
    assert kinds == ["argument", "length", "error"]
