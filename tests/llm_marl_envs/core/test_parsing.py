"""Code out of model text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_marl_envs.core.parsing import answer_of, code_of
from llm_marl_envs.play.testing import JUNK

CODE = "def aux(x):\n    return x"


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        f"\n\n{CODE}\n\n",
        f"```\n{CODE}\n```",
        f"```python\n{CODE}\n```",
        f"```Python\n{CODE}\n```\nThis doubles x.",
        f"Sure! Here is the function:\n\n```py\n{CODE}\n```\n\nIt returns x.",
        f"~~~\n{CODE}\n~~~",
        f"```python\n{CODE}",  # cut before the fence was closed
        f"````python\n{CODE}\n````",
        f"```python title=aux.py\n{CODE}\n```",
        f"  ```python\n  {CODE.replace(chr(10), chr(10) + '  ')}\n  ```",
        f"```python\r\n{CODE}\r\n```".replace("\n    ", "\r\n    "),
        f"Run it:\n```bash\npython aux.py\n```\nThe code:\n```python\n{CODE}\n```",
        f"```inline``` code, then\n```\n{CODE}\n```",
        f"<think>```python\nbad(\n```</think>\n{CODE}",
    ],
)
def test_the_code_is_found(text: str) -> None:
    assert code_of(text) == CODE


def test_blocks_are_joined_so_that_the_last_definition_counts() -> None:
    text = f"```python\n{CODE}\n```\nBetter:\n```python\ndef aux(x):\n    return 2\n```"
    space: dict[str, object] = {}
    exec(code_of(text), space)
    assert space["aux"](1) == 2  # type: ignore[operator]


def test_a_fence_inside_a_docstring_is_part_of_the_code() -> None:
    code = 'def aux(x):\n    """Doubles.\n\n    ```\n    aux(1)\n    ```\n    """\n    return 2 * x'
    assert code_of(f"```python\n{code}\n```") == code


def test_nothing_is_nothing() -> None:
    assert code_of(None) == code_of("") == code_of("```\n```") == answer_of(None) == ""


@pytest.mark.parametrize("text", JUNK)
def test_junk_does_not_raise(text: str) -> None:
    assert isinstance(code_of(text), str)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet=st.sampled_from("`~ \n\ra<>/think\ud800\x00"), max_size=80))
def test_no_text_raises(text: str) -> None:
    assert isinstance(code_of(text), str)


def test_a_megabyte_takes_no_time() -> None:
    for text in ("`" * 2**20, "```\n" * 2**18, "\n" * 2**20, "</think>" * 2**17):
        start = time.perf_counter()
        code_of(text)
        assert time.perf_counter() - start < 10  # quadratic time would be hours
