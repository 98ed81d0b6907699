"""Forged cooperation: main solves everything alone and only pretends to need the helper.

Each forgery is written by hand around the references of bundled problems: `own` is the helper's
function and `alone` the whole solution, both in main's program.
"""

from __future__ import annotations

import pytest

from llm_marl_envs.coding.ablation import Contribution
from llm_marl_envs.envs.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.tasks import Task

PROBLEMS = ("coop/0", "coop/2", "coop/39")
MARGIN = 0.15

JUNK_HELPER = "def aux(x):\n    return x"
# Every call of `own` inside `alone` goes through `checked`.
SELF_CHECK = """
class Wrong(Exception):
    pass

def checked(*args):
    value = own(*args)
    if aux(*args) != value:
        raise Wrong
    return value

def {entry}(*args):
    try:
        return alone(*args)
    except Wrong:
        return {otherwise}
"""
FALLBACK = """
def checked(*args):
    try:
        return aux(*args)
    except Exception:
        return own(*args)

def {entry}(*args):
    return alone(*args)
"""
PASSING = """
def checked(*args):
    return own(aux(*args), *args[1:])

def {entry}(*args):
    return alone(*args)
"""


def guarded(guard: str) -> str:
    """An entry point that runs `guard` and then solves the task alone."""
    lines = "\n".join(f"    {line}" for line in guard.splitlines())
    return f"\ndef {{entry}}(*args):\n{lines}\n    return alone(*args)\n"


FORGERIES: dict[str, tuple[str, str]] = {
    "self-check": ("{reference}", SELF_CHECK),
    "self-check with an error": (
        "{reference}",
        SELF_CHECK.replace("except Wrong", "except OSError"),
    ),
    "password": ("def aux(x):\n    return 42", guarded("if aux(0) != 42: return None")),
    "identity": (JUNK_HELPER, PASSING),
    "length": (
        "def aux(x):\n    return [0] * len(x)",
        guarded("if len(aux([1, 2, 3])) != 3: return None"),
    ),
    "length plus one": (
        "def aux(x):\n    return [0] * (len(x) + 1)",
        guarded("if len(aux([1, 2, 3])) != 4 or len(aux([1])) != 2: return None"),
    ),
    "arity": (
        "def aux(x):\n    return 1",
        guarded("try: aux()\nexcept TypeError: pass\nelse: return None"),
    ),
    "arity and password": (
        "def aux(x):\n    return 42",
        guarded(
            "try: aux()\nexcept TypeError: pass\nelse: return None\nif aux(0) != 42: return None"
        ),
    ),
    "error and password": (
        "def aux(x):\n    return 42 + 0 * int(x)",
        guarded(
            "try: aux('a')\nexcept Exception: pass\nelse: return None\nif aux(0) != 42: return"
        ),
    ),
    "constant": ("def aux(x):\n    return [1, 2, 3]", guarded("seen = aux(0)")),
    "constant, used": (
        "def aux(x):\n    return 1",
        guarded("if aux(0) not in (1, 2): return [] if aux(0) else None"),
    ),
    "main inspects aux": (
        "def aux(x):\n    return 42",
        guarded("if hasattr(aux, '_llm_marl') or 'lambda' in aux.__name__: return None\naux(0)"),
    ),
    "helper inspects its frame": (
        "import sys\ndef aux(x):\n    back = sys._getframe(1).f_code.co_name\n"
        "    if 'aux' in back or any('llm' in name for name in globals()):\n"
        "        raise ValueError('replaced')\n    return 42",
        guarded("if aux(0) != 42: return None"),
    ),
    "comment": (JUNK_HELPER, guarded("pass  # aux(x)")),
    "docstring": (JUNK_HELPER, guarded('"""Uses aux(x)."""')),
    "dead call": (JUNK_HELPER, guarded("if False: return aux(args)")),
    "call after return": (JUNK_HELPER, guarded("pass").rstrip() + "\n    return aux(args)\n"),
    "call, result dropped": (JUNK_HELPER, guarded("aux(args[0])")),
    "fallback": ("{reference}", FALLBACK),
    "fallback from a broken helper": ("def aux(x):\n    raise ValueError", FALLBACK),
}

THIN = {
    "thin": "def {entry}(*args):\n    return aux(*args)",
    "thin with pass": "def {entry}(*args):\n    pass\n    return aux(*args)",
    "thin with a name": "def {entry}(*args):\n    result = aux(*args)\n    return result",
    "thin with work": "def {entry}(*args):\n    n = len(args)\n    return aux(*args) if n else 0",
    "thin, unpacked": "def {entry}(*args):\n    return aux(*args)[0]",
}


@pytest.fixture(scope="module")
def env() -> CoopCodingEnv:
    return CoopCodingEnv(tasks="bundled:coop_problems", split="all", reward="contribution")


def forge(task: Task, helper: str, main: str) -> dict[str, str]:
    entry, reference = task.data["entry_point"], task.data["helper"]
    own = reference.replace("def aux(", "def own(")
    called = "checked(" if "def checked(" in main else "own("
    alone = task.data["main"].replace("aux(", called).replace(f"def {entry}(", "def alone(")
    written = main.replace("{entry}", entry).replace("{otherwise}", "None")
    return {
        HELPER: helper.replace("{reference}", reference),
        MAIN: f"{own}\n\n{alone}\n{written}",
    }


def paid(env: CoopCodingEnv, task: Task, joint_action: dict[str, str]) -> tuple[float, dict]:
    env.reset(seed=0, options={"task": task})
    _, rewards, _, _, infos = env.step(joint_action)
    return rewards[MAIN], infos[MAIN]


def honest(env: CoopCodingEnv, task: Task) -> float:
    joint_action = {agent: env.expert(task, agent, "reference") for agent in (HELPER, MAIN)}
    reward, info = paid(env, task, joint_action)
    assert info["cooperative_success"]
    return reward


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_earns_less(env: CoopCodingEnv, problem: str, name: str) -> None:
    task = env.source.find(problem)
    reward, info = paid(env, task, forge(task, *FORGERIES[name]))
    assert info["success"], "the forgery must solve the task, or it shows nothing"
    assert not info["cooperative_success"]
    assert info["contribution"]["helper"] == 0.0
    assert reward <= honest(env, task) - MARGIN


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", THIN)
def test_a_thin_main_earns_less(env: CoopCodingEnv, problem: str, name: str) -> None:
    task = env.source.find(problem)
    entry = task.data["entry_point"]
    own = task.data["helper"].replace("def aux(", "def own(")
    alone = task.data["main"].replace("aux(", "own(").replace(f"def {entry}(", "def alone(")
    answer = "[alone(*args)]" if "unpacked" in name else "alone(*args)"
    helper = f"{own}\n\n{alone}\n\ndef aux(*args):\n    return {answer}\n"
    reward, info = paid(env, task, {HELPER: helper, MAIN: THIN[name].replace("{entry}", entry)})
    assert info["success"]
    assert info["contribution"]["main"] == 0.0
    assert reward <= honest(env, task) - MARGIN


@pytest.mark.long
def test_no_forgery_outscores_an_honest_reference_anywhere(env: CoopCodingEnv) -> None:
    for task in env.source:
        least = honest(env, task)
        for name, (helper, main) in FORGERIES.items():
            reward, info = paid(env, task, forge(task, helper, main))
            assert reward < least, (task.id, name)
            assert not info["cooperative_success"], (task.id, name)


def test_what_remains(env: CoopCodingEnv) -> None:
    """A self-check that makes something up from the wrong value passes for honest: see ablation."""
    task = env.source.find("coop/0")
    main = SELF_CHECK.replace("raise Wrong", "raise Wrong(str(aux(*args)))")
    main = main.replace("except Wrong:", "except Wrong as wrong:").replace(
        "{otherwise}", "str(wrong)"
    )
    reward, _ = paid(env, task, forge(task, "{reference}", main))
    assert reward == honest(env, task)


def test_a_helper_that_contributes_nothing_is_seen_under_split() -> None:
    env = CoopCodingEnv()
    task = env.source[0]
    convention = env.conventions(task)[0]
    right = {agent: env.expert(task, agent, convention) for agent in (HELPER, MAIN)}
    found = env.contribution(task, right)
    assert found.cooperative_success
    assert found.helper > 0.5
    silent = env.contribution(task, {**right, HELPER: ""})
    assert silent == Contribution(helper=0.0, main=0.0, cooperative_success=False)
