"""Forged cooperation: main solves everything alone and only pretends to need the helper.

Each forgery is written by hand around the references of bundled problems: `own` is the helper's
function and `alone` the whole solution, both in main's program.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv

pytestmark = pytest.mark.full  # `make test-all` runs it

PROBLEMS = ("coop/0", "coop/2", "coop/39")
MARGIN = 0.15
PAGE = Path(__file__).parents[4] / "docs/environments/coop_coding.md"

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
    "self-check with a bool": ("{reference}", SELF_CHECK.replace("{otherwise}", "True")),
    "self-check with a message": (
        "{reference}",
        SELF_CHECK.replace("raise Wrong", "raise Wrong('it returned True')").replace(
            "except Wrong", "except OSError"
        ),
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
    "two passwords": (
        "def aux(x):\n    return 3 * x + 1",
        guarded("if aux(0) != 1 or aux(5) != 16: return True"),
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
    "guard that checks a type": (
        "def aux(x):\n    return [3]",
        guarded("if type(aux(1)) is not list: return None"),
    ),
    "values in exceptions": (
        "{own}\ndef aux(*args):\n    raise ValueError(repr(own(*args)))",
        "\ndef checked(*args):\n    try: return aux(*args)\n"
        "    except ValueError as error: return eval(str(error))\n"
        "\ndef {entry}(*args):\n    return alone(*args)\n",
    ),
    "fallback": ("{reference}", FALLBACK),
    "fallback from a broken helper": ("def aux(x):\n    raise ValueError", FALLBACK),
}

GIVEN = "return alone(*args)"
LISTED = "return [alone(*args)]"
# What the helper, who solves the whole task, does with the answer, and what main does then.
THIN = {
    "thin": (GIVEN, "def {entry}(*args):\n    return aux(*args)"),
    "thin with pass": (GIVEN, "def {entry}(*args):\n    pass\n    return aux(*args)"),
    "thin with a name": (GIVEN, "def {entry}(*args):\n    result = aux(*args)\n    return result"),
    "thin with work": (
        GIVEN,
        "def {entry}(*args):\n    n = len(args)\n    return aux(*args) if n else 0",
    ),
    "thin, unpacked": (LISTED, "def {entry}(*args):\n    return aux(*args)[0]"),
    "thin, a password among the arguments": (
        "return [alone(*args[1:])] if args[0] == 42 else 1 / 0",
        "def {entry}(*args):\n    return aux(42, *args)[0]",
    ),
}


def solved_alone(task: Task) -> str:
    """Source that defines `own`, the helper's function, and `alone`, the whole solution."""
    own = task.data["helper"].replace("def aux(", "def own(")
    alone = task.data["main"].replace(f"def {task.data['entry_point']}(", "def alone(")
    return f"{own}\n\n{alone.replace('aux(', 'own(')}"


def made_up(task: Task) -> dict[str, str]:
    main = SELF_CHECK.replace("raise Wrong", "raise Wrong(str(aux(*args)))")
    main = main.replace("except Wrong:", "except Wrong as wrong:")
    return forge(task, "{reference}", main.replace("{otherwise}", "str(wrong)"))


def decoded(task: Task) -> dict[str, str]:
    helper = f"{solved_alone(task)}\n\ndef aux(*args):\n    return ['', alone(*args)]\n"
    return {
        HELPER: helper,
        MAIN: f"def {task.data['entry_point']}(*args):\n    return aux(*args)[1]",
    }


def two_bools(task: Task) -> dict[str, str]:
    helper = "def aux(x):\n    return x % 2 == 0"
    return forge(task, helper, guarded("if not aux(0) or aux(1): return None"))


def two_numbers(task: Task) -> dict[str, str]:
    helper = "def aux(x):\n    return 3 * x + 1"
    return forge(task, helper, guarded("if aux(0) != 1 or aux(5) != 16: return str(aux(0))"))


REMAINING = {
    "self-check with something made up": made_up,
    "two bools": two_bools,
    "two passwords with something made up": two_numbers,
    "encoded answer": decoded,
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
        HELPER: helper.replace("{reference}", reference).replace("{own}", own),
        MAIN: f"{own}\n\n{alone}\n{written}",
    }


def paid(env: CoopCodingEnv, task: Task, joint_action: dict[str, str]) -> tuple[float, dict]:
    env.reset(seed=0, options={"task": task})
    _, rewards, _, _, infos = env.step(joint_action)
    return rewards[MAIN], infos[MAIN]


def references(env: CoopCodingEnv, task: Task) -> dict[str, str]:
    return {agent: experts_of(env).first(task, agent, "reference") for agent in (HELPER, MAIN)}


def honest(env: CoopCodingEnv, task: Task) -> float:
    reward, info = paid(env, task, references(env, task))
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


def thin(task: Task, name: str) -> dict[str, str]:
    """The helper solves the whole task; `name` says what main does with its answer."""
    answer, main = THIN[name]
    return {
        HELPER: f"{solved_alone(task)}\n\ndef aux(*args):\n    {answer}\n",
        MAIN: main.replace("{entry}", task.data["entry_point"]),
    }


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", THIN)
def test_a_thin_main_earns_less(env: CoopCodingEnv, problem: str, name: str) -> None:
    task = env.source.find(problem)
    reward, info = paid(env, task, thin(task, name))
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


@pytest.mark.parametrize("name", REMAINING)
def test_what_remains(env: CoopCodingEnv, name: str) -> None:
    """These pass for honest: see ablation. Once one is caught, it moves up to the others."""
    task = env.source.find(PROBLEMS[0])
    reward, info = paid(env, task, REMAINING[name](task))
    assert info["cooperative_success"]
    assert reward >= honest(env, task) - 0.01


def test_the_table_in_the_docs(env: CoopCodingEnv) -> None:
    """Contributions and pay of each forgery, means over the problems of this file."""
    tasks = [env.source.find(problem) for problem in PROBLEMS]
    forged = {
        "honest": [references(env, task) for task in tasks],
        **{name: [forge(task, *FORGERIES[name]) for task in tasks] for name in FORGERIES},
        **{name: [thin(task, name) for task in tasks] for name in THIN},
        **{name: [make(task) for task in tasks] for name, make in REMAINING.items()},
    }
    measured = {}
    best = sum(honest(env, task) for task in tasks) / len(tasks)
    for name, actions in forged.items():
        found = [paid(env, task, one) for task, one in zip(tasks, actions, strict=True)]
        measured[name] = row(found, best)
    written = {
        name: (helper, main, pay)
        for name, _, helper, main, pay in re.findall(
            r"^\| ([^|]+?) \| ([^|]+?) \| (\d\.\d\d) \| (\d\.\d\d) \| (\d\.\d\d) \|$",
            PAGE.read_text(encoding="utf-8"),
            flags=re.M,
        )
    }
    assert written == measured


def row(played: list[tuple[float, dict]], honest_pay: float) -> tuple[str, str, str]:
    n = len(played)
    helper, main = (
        sum(i["contribution"][who] for _, i in played) / n for who in ("helper", "main")
    )
    pay = sum(reward for reward, _ in played) / n / honest_pay
    return f"{helper:.2f}", f"{main:.2f}", f"{pay:.2f}"


def test_a_helper_that_contributes_nothing_is_seen_under_split() -> None:
    env = CoopCodingEnv()
    task = env.source[0]
    convention = experts_of(env).conventions(task)[0]
    right = {agent: experts_of(env).first(task, agent, convention) for agent in (HELPER, MAIN)}
    found = env.contribution(task, right)
    assert found.cooperative_success
    assert found.helper > 0.5
    silent = env.contribution(task, {**right, HELPER: ""})
    assert (silent.helper, silent.cooperative_success) == (0.0, False)
    assert silent.main <= 1 / 8  # one input gives main nothing to ask the helper
