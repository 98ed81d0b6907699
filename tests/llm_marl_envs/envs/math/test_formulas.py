"""Formulas compared by math-verify: what is equal, what is not, what cannot hang or raise."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llm_marl_envs import make
from llm_marl_envs.envs.math import formulas
from llm_marl_envs.envs.math.formulas import Comparer, check_installed, same_formula

pytestmark = pytest.mark.full  # `make test-all` runs it

INSTALLED = importlib.util.find_spec("math_verify") is not None
needs_library = pytest.mark.skipif(not INSTALLED, reason="the extra `math` is not installed")
ROW = {"problem": "What is $3+4$?", "answer": "7"}


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"llm-marl-envs\[math\]"):
        check_installed()
    with pytest.raises(ImportError, match=r"compare='exact'"):
        make("math_team-v1", tasks=[ROW], split="all")
    make("math_team-v1").reset(seed=0)  # cards need none
    make("math_team-v1", tasks=[ROW], split="all", compare="exact").reset(seed=0)


@needs_library
@pytest.mark.parametrize(
    ("right", "answer", "same"),
    [
        ("\\frac{1}{2}", "0.5", True),
        ("0.5", "1/2", True),
        ("2\\sqrt{2}", "\\sqrt{8}", True),
        ("\\frac{\\sqrt{3}}{2}", "\\sqrt{3}/2", True),
        ("x^2+2x+1", "(x+1)^2", True),
        ("[0,1)", "[0, 1)", True),
        ("12", "$12$", True),
        ("12", "\\boxed{12}", True),
        ("2", "x = 2", True),
        ("\\text{Evelyn}", "Evelyn", True),
        ("7", "8", False),
        ("7", "3+4", True),  # whether it is worked out is asked elsewhere
        ("2", "\\pm 2", False),
        ("3", "3 \\text{ or } 4", False),
        ("3", "1, 2, 3", False),
        ("3", "x", False),
        ("3", "\\infty", False),
        ("3", "\\emptyset", False),
        ("[0,1)", "[0,1]", False),
        ("3", "", False),
    ],
)
def test_what_is_the_same(right: str, answer: str, same: bool) -> None:
    assert same_formula(answer, right) is same


LONG = [  # seconds each, and a new process after most
    "9^{9^{9^{9}}}",
    "(10^7)! x",
    "\\binom{10^9}{5\\cdot 10^8} x",
    "\\sum_{i=1}^{10^{12}} \\frac{1}{i}",
    "\\int_0^1 x^{x^{x^x}} dx",
    "{" * 190,
    "(" * 90 + "1" + ")" * 90,
    "\\frac" * 40,
]


@needs_library
@pytest.mark.parametrize(
    "hostile",
    [
        "\\input{/etc/passwd}",
        "__import__('os').abort()",
        "\ud800\x00\n7",
        *(pytest.param(text, marks=pytest.mark.long) for text in LONG),
    ],
)
def test_hostile_formulas_are_wrong_and_end(hostile: str) -> None:
    assert same_formula(hostile, "x + 1") is False


@needs_library
def test_a_huge_power_is_ended_and_the_next_comparison_works() -> None:
    comparer = Comparer()
    try:
        assert comparer.same("x+1", "1+x")
        before = comparer._process
        assert before is not None
        assert not comparer.same("x+1", "x^{9^{9^{9}}}")
        assert before.returncode in (-signal.SIGPROF, -signal.SIGKILL)
        assert comparer._process is None
        assert comparer.same("x+1", "1+x")
    finally:
        comparer.close()


@needs_library
def test_threads_and_handlers_of_this_process_are_left_alone() -> None:
    handlers = [signal.getsignal(one) for one in (signal.SIGALRM, signal.SIGPROF)]
    answers = [("1/2", "0.5"), ("2", "3"), ("x+1", "1+x"), ("x", "y")] * 3
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: same_formula(pair[1], pair[0]), answers))
    assert found == [True, False, True, False] * 3
    assert [signal.getsignal(one) for one in (signal.SIGALRM, signal.SIGPROF)] == handlers


def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Comparer:
    path = tmp_path / "worker.py"
    path.write_text(program)
    monkeypatch.setattr(formulas, "WORKER", path)
    return Comparer()


def test_a_process_that_cannot_begin_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError, match="could not be loaded in a process: no antlr"):
        worker(tmp_path, monkeypatch, "print('no antlr')").same("1", "1")
    with pytest.raises(RuntimeError, match="it ended"):
        worker(tmp_path, monkeypatch, "").same("1", "1")


def test_a_process_that_says_nothing_is_an_error_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formulas, "ANSWER_S", 0.2)
    asleep = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
    comparer = worker(tmp_path, monkeypatch, asleep)
    start = time.monotonic()
    for _ in range(2):  # and again: a new process is begun
        with pytest.raises(RuntimeError, match="said nothing"):
            comparer.same("1", "1")
        assert comparer._process is None
    assert time.monotonic() - start < 30


def test_a_process_that_ends_makes_the_answer_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparer = worker(tmp_path, monkeypatch, "print('ready', flush=True)\ninput()")
    assert comparer.same("1", "1") is False
    assert comparer.same("1", "1") is False


@needs_library
def test_a_forked_process_begins_its_own() -> None:
    assert same_formula("1+x", "x+1")
    child = os.fork()
    if child == 0:
        os._exit(0 if same_formula("2+x", "x+2") and not same_formula("x", "y") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert same_formula("3+x", "x+3")


@needs_library
def test_an_environment_compares_formulas() -> None:
    env = make("math_team-v1", tasks=[{**ROW, "answer": "\\frac{14}{2}"}], split="all")
    for answer, right in (("7", True), ("3+4", False), ("4+3", False), ("8", False)):
        env.reset(seed=0)
        env.step("")
        env.step(f"Answer: {answer}")
        assert env.infos["actor_0"]["success"] is right
