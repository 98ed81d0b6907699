"""JSON and YAML of others: what is read, what is refused in a line, and that nothing else reads."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import llm_marl_envs
from llm_marl_envs.files.foreign import DEEPEST, LONGEST, json_of, yaml_of
from llm_marl_envs.files.json_files import read_json

READERS = {"json": json_of, "yaml": yaml_of}
REFUSED: dict[str, Any] = {
    "deep": "[" * 100_000,
    "deep maps": '{"a": ' * 5_000 + "1" + "}" * 5_000,
    "too deep for those who call themselves": "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
    "key twice": '{"a": 1, "b": {"c": 1, "c": 2}}',
    "digits": f'{{"a": {"9" * 5_000}}}',
    "no float": f"[-{'9' * (LONGEST + 1)}]",
    "half": '{"a": [1, 2',
    "bytes": b'{"a": "\xff"}',
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "latin-1": '{"a": "caf\u00e9"}'.encode("latin-1"),
}
ONLY_YAML = {
    "key twice in a block": "a: 1\nb: 2\na: 3",
    "long key twice": f"{'x' * 900}: 1\n{'x' * 900}: 2",
    "in itself": "a: &a [*a]",
    "bomb": "\n".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9 if i else '1')}]" for i in range(30)
    ),
    "bomb of merges": "\n".join(
        f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" if i else "a0: &a0 {x: 1}" for i in range(60)
    ),
    "deep by aliases": "\n".join(
        f"a{i}: &a{i} [{f'*a{i - 1}' if i else 1}]" for i in range(DEEPEST + 1)
    ),
    "tags": "a: !!python/object/apply:os.getcwd []",
    "no truth": "!!bool x",
    "no number": "!!int x",
    "no time": "a: 2026-99-99",
    "no alias": f"a: *{'x' * 900}",
    "no key": "? [1]\n: 2",
    "two documents": "a: 1\n---\nb: 2",
    "control": "a: \x00",
    "hexadecimal": "a: 0x" + "f" * 290,
}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        *((form, text) for form in READERS for text in REFUSED.values()),
        *(("yaml", text) for text in ONLY_YAML.values()),
    ],
    ids=[*(f"{form} {name}" for form in READERS for name in REFUSED), *ONLY_YAML],
)
def test_what_ends_a_program_is_a_line(form: str, text: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(ValueError, match=r"^there\.txt(, line \d+)?: ") as caught:
        READERS[form](text, "there.txt")
    assert type(caught.value) is ValueError  # no class of a codec or a parser
    assert len(str(caught.value)) <= 300
    assert "\n" not in str(caught.value)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("form", READERS)
def test_what_is_read(form: str) -> None:
    inside: Any = 1
    for _ in range(DEEPEST):
        inside = [inside]
    for value in (inside, {"a": 10 ** (LONGEST - 1), "b": -0.5}, {"a": {"b": 1}, "c": {"b": 2}}):
        for content in (json.dumps(value), json.dumps(value).encode(), b"\xef\xbb\xbf1"):
            assert READERS[form](content, "x") in (value, 1)


def test_numbers_that_json_does_not_know() -> None:
    assert json_of("[Infinity, -Infinity, 1e999]") == [float("inf"), -float("inf"), float("inf")]
    for text in ("NaN", "Infinity", "-Infinity", "1e999", "[-1e999]"):
        with pytest.raises(ValueError, match="no number of JSON"):
            json_of(text, strict=True)


def test_yaml_as_people_write_it() -> None:
    said = yaml_of("a: 1e-3\nb: .5\nc: 1_000\nd: &d {x: 1, y: 2}\ne: {<<: *d, y: 3}\nf: [*d, *d]")
    assert said["a"] == 1e-3
    assert (said["b"], said["c"]) == (0.5, 1000)
    assert (said["e"], said["f"]) == ({"x": 1, "y": 3}, [{"x": 1, "y": 2}] * 2)
    assert yaml_of("") is yaml_of("null") is None


@pytest.mark.parametrize("text", [*REFUSED.values(), "[1]", "null", "{'a': 1}", b""])
def test_a_file_names_itself(tmp_path: Path, text: Any) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=r"x\.json: "):
        read_json(file)


# -- nowhere else ---------------------------------------------------------------------------------
OWN = {
    "llm_marl_envs/sandbox/jail/replacements.py": "its own text; nothing of ours is in a jail",
    "llm_marl_envs/sandbox/jail/zygote.py": "what started it says",
    "llm_marl_envs/sandbox/jail/wire.py": "caps, and refuses what is too deep",
}
PARSES = re.compile(
    r"json\.loads?\b(?!\(json\.dumps\()|JSONDecoder|yaml\.\w*load|from (json|yaml) import"
)
"""But for copies: what `json.dumps` wrote in the same breath."""


def test_nothing_else_reads_json_or_yaml() -> None:
    root = Path(llm_marl_envs.__file__).parents[1]
    files = [file for name in ("llm_marl_envs", "trainers") for file in (root / name).rglob("*.py")]
    found = {file.relative_to(root).as_posix() for file in files if PARSES.search(file.read_text())}
    assert found == {*OWN, "llm_marl_envs/files/foreign.py"}
