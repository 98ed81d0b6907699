"""How a call is read in what a seat writes.

    Call: search(aurum river)

A call is a line of its own that begins with `Call:`, outside of quotations and of fenced blocks;
thinking does not count. An action that holds one is a call and nothing else: what stands around it
is shown to nobody and answers nothing. Pure functions of any text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.core.parsing import answer_of, code_of, lines_of, outside_fences
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.tools.base import CODE

MARK = "call:"
NAME = r"[A-Za-z_][\w.-]{0,63}"
"""The name of a tool."""
FORM = re.compile(rf"call:\s*({NAME})\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
DEEPEST = 32
PAIRS = (('"', '"'), ("'", "'"), ("`", "`"), ("“", "”"))
"""Marks around a text that belong to no argument."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it is written.

    Attributes:
        tool: the name of the tool.
        written: what stands between the parentheses.
        block: the Python code of the fenced blocks of the action, "" without one.
    """

    tool: str
    written: str
    block: str = ""


def call_in(text: str) -> Call | str | None:
    """The call in an action; what is wrong with it; or None: it is no call."""
    lines = _call_lines(text)
    if not lines:
        return None
    if len(lines) > 1:
        return "one call at a time"
    form = FORM.fullmatch(lines[0])
    if form is None:
        return "expected a line as Call: name(arguments)"
    written = lines_of(answer_of(text))
    fenced = len(outside_fences(written)) < len(written)
    return Call(form[1], form[2].strip(), code_of(text) if fenced else "")


def arguments_of(call: Call, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> argument. One argument is a bare text, several are a JSON object.

    Raises:
        ValueError: they cannot be read.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    text = call.written
    (name, kind), *more = [*properties.items()] or [("", {})]
    bare = bool(name) and not more and kind.get("type") in (None, "string")
    if text.startswith("{") and not bare:
        return dict(_json(text))
    if bare and text.startswith("{"):
        with suppress(ValueError):  # a text may begin with a brace
            return dict(_json(text))
    if not properties:
        return {}
    if more:
        raise ValueError(f"expected a JSON object with {', '.join(properties)}")
    if not text and kind.get("format") == CODE:
        return {name: call.block}
    if not text and name not in schema.get("required", ()):
        return {}
    return {name: _unquoted(text) if bare else _json(text)}


def _json(text: str) -> Any:
    """What a JSON text says.

    Raises:
        ValueError: it is none, or one that records cannot hold: NaN, too large a number, or nested
            too deep.
    """
    if depth(text) > DEEPEST:
        raise ValueError("the arguments are nested too deep")
    try:
        return json_of(text, strict=True)
    except ValueError as error:
        raise ValueError("the arguments are no JSON") from error


def depth(text: str) -> int:
    """How deep brackets are nested, outside of strings."""
    open_now = deepest = 0
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted, escaped = escaped or char != '"', char == "\\" and not escaped
        else:
            quoted = char == '"'
            open_now += (char in "[{") - (char in "]}")
            deepest = max(deepest, open_now)
    return deepest


def _unquoted(text: str) -> str:
    for left, right in PAIRS:
        if len(text) > 1 and text.startswith(left) and text.endswith(right):
            return text[1:-1]
    return text


def _call_lines(text: str) -> list[str]:
    """Lines that begin as a call, outside of quotations and fenced blocks."""
    lines = outside_fences(lines_of(answer_of(text)))
    return [line.strip() for line in lines if is_call_line(line)]


def is_call_line(line: str) -> bool:
    """Whether a line begins as a call does."""
    return line.strip()[: len(MARK)].lower() == MARK
