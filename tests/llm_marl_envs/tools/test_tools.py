"""What each tool answers, worked by hand."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from math import log
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.plugins import entries
from llm_marl_envs.core.tasks import ListSource, Task
from llm_marl_envs.tools import GROUP, TOOLS
from llm_marl_envs.tools.base import Tool
from llm_marl_envs.tools.bm25 import Index
from llm_marl_envs.tools.calculate import Calculate, value_of
from llm_marl_envs.tools.look_up import LookUp
from llm_marl_envs.tools.python import Python
from llm_marl_envs.tools.search import Search

TASK = Task("t/0", "train", {})


class Library(TextEnv):
    """An environment with documents and a record, as far as tools ask for them."""

    metadata: ClassVar[dict[str, Any]] = {"name": "library"}

    def __init__(self) -> None:
        source = ListSource([TASK], "train")
        super().__init__(agents=("a_0",), source=source, max_turns=1)

    def documents(self, task: Task) -> list[str]:
        return ["the red river", "a blue river\nruns", "red red wine", "stone"]

    def record(self, task: Task) -> dict[str, str]:
        return {"Height": "3 m", "age": "7"}


def called(tool: type[Tool], **arguments: Any) -> str:
    made = tool(Library())
    return made.call(made.checked(arguments), TASK, random.Random(0))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("17 * 23", "391"),
        ("0.1 + 0.2", "3/10, about 0.3"),
        ("7 // 2 + 7 % 2", "4"),
        ("-(2 - 5) ** 3", "27"),
        ("2^10", "1024"),
        ("6 \N{DIVISION SIGN} 4", "3/2, about 1.5"),
        ("2 ** -2", "1/4, about 0.25"),
        ("1e3", "1000"),
        ("0.0e5 + .50", "1/2, about 0.5"),
    ],
)
def test_calculate(expression: str, expected: str) -> None:
    assert called(Calculate, expression=expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 / 0",
        "0 ** -1",
        "5 % 0",
        "2 ** 0.5",
        "9 ** 9 ** 9",
        "x + 1",
        "True + 1",
        "__import__('os').getpid()",
        "[1][0]",
        "'a' * 9",
        "1 if 1 else 2",
        "1j * 1j",
        "1" * 201,
        "(" * 200,
        "1e999999",
        "1e99999999",
        "1e-99999999",
        "0.0 + 1e-400",
        "\x00",
    ],
)
def test_calculate_answers_nothing_else(expression: str) -> None:
    with pytest.raises(ValueError, match=r"expression|zero|large|exponent"):
        value_of(expression)


def test_search_ranks_as_the_formula_says() -> None:
    """BM25 with k1 = 1.5 and b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5))."""
    documents = ["a b c", "a a d", "b", "c c c c a"]
    words = [text.split() for text in documents]
    mean = sum(map(len, words)) / 4

    def score(query: Sequence[str], place: int) -> float:
        total = 0.0
        for word in query:
            n = sum(word in text for text in words)
            count = Counter(words[place])[word]
            scale = count + 1.5 * (0.25 + 0.75 * len(words[place]) / mean)
            total += log(1 + (4 - n + 0.5) / (n + 0.5)) * count / scale
        return total

    index = Index(documents)
    for query in ("a", "c", "a d", "b c"):
        scores = [score(query.split(), place) for place in range(4)]
        expected = sorted((p for p in range(4) if scores[p]), key=lambda p: -scores[p])
        assert index.best(query, 4) == expected
        assert index.best(query, 1) == expected[:1]


def test_search_of_odd_documents_and_words() -> None:
    assert Index(["a b", "a b", "c"]).best("a", 5) == [0, 1]  # of equal ones the first
    assert Index([]).best("a", 1) == Index(["", "..."]).best("a", 1) == []
    assert Index(["a"]).best("", 1) == Index(["a"]).best("z !", 1) == []
    assert Index(["A-b"]).best("B a" * 100_000, 1) == [0]


def test_search_starts_no_jax(tmp_path: Path) -> None:
    """bm25s starts it at import, where it is installed, and it takes most of a GPU's memory."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise SystemExit('JAX was started')")
    script = """
        import sys
        from concurrent.futures import ThreadPoolExecutor
        from llm_marl_envs.tools.bm25 import Index, _bm25s
        with ThreadPoolExecutor(8) as pool:
            assert len({*pool.map(lambda _: _bm25s(), range(8))}) == 1
        assert Index(["a b", "b c"]).best("c", 1) == [1]
        assert "jax" not in sys.modules
        sys.modules["jax"] = own = object()
        assert _bm25s() and sys.modules["jax"] is own
    """
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", dedent(script)], check=True, env={**os.environ, "PYTHONPATH": paths}
    )


def test_search_tells_whole_documents_a_line_each() -> None:
    assert called(Search, words="red") == "red red wine\nthe red river"
    assert called(Search, words="river runs").splitlines()[0] == "a blue river runs"
    assert "No document" in called(Search, words="gold")


def test_look_up() -> None:
    assert called(LookUp, entry=" height ") == "3 m"
    assert called(LookUp, entry="*") == called(LookUp, entry="") == "No such entry."


def test_python_runs_in_the_sandbox() -> None:
    assert called(Python, program="print(6 * 7)") == "42"
    assert called(Python, program="x = 1") == "It printed nothing."
    assert called(Python, program="print(1)\n1 / 0").splitlines()[1].startswith("It failed: Zero")


@pytest.mark.parametrize("tool", [Search, LookUp])
def test_what_an_environment_lacks_is_refused(tool: type[Tool]) -> None:
    with pytest.raises(ValueError, match="coop_coding"):
        tool(make("coop_coding-v0"))


@pytest.mark.parametrize("arguments", [{}, {"expression": 3}, {"expression": "1", "more": 1}])
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expression|more"):
        called(Calculate, **arguments)


def test_every_tool_says_what_it_is() -> None:
    assert len(entries(GROUP)) >= 4
    for name in TOOLS.names():
        tool = TOOLS.get(name)
        if name == "mcp":  # takes an argument
            continue
        assert tool.name == name
        assert tool.description
        assert "\n" not in tool.description
        assert tool(Library()).schema()["type"] == "object"
