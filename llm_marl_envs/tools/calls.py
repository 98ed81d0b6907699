"""How a call is read in what a seat writes.

    Call: search(aurum river)

A call is a line of its own that begins with `Call:`, outside of quotations and of fenced blocks;
thinking does not count. An action that holds one is a call and nothing else: what stands around it
is shown to nobody and answers nothing. Pure functions of any text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llm_marl_envs.core.parsing import FENCES, answer_of, code_of, lines_of
from llm_marl_envs.tools.base import CODE

MARK = "call:"
FORM = re.compile(r"call:\s*([A-Za-z_][\w.-]{0,63})\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
QUOTATION = ">"
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
    fenced = any(line.strip().startswith(FENCES) for line in lines_of(answer_of(text)))
    return Call(form[1], form[2].strip(), code_of(text) if fenced else "")


def arguments_of(call: Call, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> argument. One argument is a bare text, several are a JSON object.

    Raises:
        ValueError: they cannot be read.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    if call.written.startswith("{"):
        try:
            written = json.loads(call.written)
        except (ValueError, RecursionError) as error:
            raise ValueError("the arguments are no JSON object") from error
        return dict(written)
    if not properties:
        return {}
    if len(properties) > 1:
        raise ValueError(f"expected a JSON object with {', '.join(properties)}")
    (name, kind), *_ = properties.items()
    if not call.written and kind.get("format") == CODE:
        return {name: call.block}
    if kind.get("type") in (None, "string"):
        return {name: _unquoted(call.written)}
    try:
        return {name: json.loads(call.written)}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: expected {kind['type']}") from error


def _unquoted(text: str) -> str:
    for left, right in PAIRS:
        if len(text) > 1 and text.startswith(left) and text.endswith(right):
            return text[1:-1]
    return text


def _call_lines(text: str) -> list[str]:
    """Lines that begin as a call, outside of quotations and fenced blocks."""
    lines, fence = [], ""
    for line in lines_of(answer_of(text)):
        bare = line.strip()
        if fence:
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
        elif bare.startswith(FENCES):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        elif not bare.startswith(QUOTATION) and bare[: len(MARK)].lower() == MARK:
            lines.append(bare)
    return lines
