"""Calls in a model's own format, as messages with `tool_calls` and of the role `tool`.

    the action     Call: calculate({"expression": "17 * 23"})
    for the model  {"role": "assistant", "tool_calls": [{"type": "function", "function": ...}]}

The environment reads and writes lines alone, and so do records. A policy whose model was trained on
another form reads `native_chat`, and says a call of its model as `line_of` does. Both forms mean
the same: the same tool, the same arguments, the same price.

Pure functions; the form of the messages is that of OpenAI's protocol and of chat templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

from llm_marl_envs.core.parsing import THINK_END, answer_of, lines_of
from llm_marl_envs.core.spaces import Message, ToolSheet
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.tools.calls import DEEPEST, Call, arguments_of, call_in, depth, is_call_line

ToolFormat = Literal["line", "native"]
"""How an agent calls tools: by a line of text, or in the format that its model was trained on."""
FORMATS = get_args(ToolFormat)
ESCAPED = re.compile("[<\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters in a JSON text that would end a line or a thought, or that are no Unicode."""
ESCAPED_END = "\\u003c/think>"


def native_chat(messages: Sequence[Message], tools: ToolSheet | None) -> list[dict[str, Any]]:
    """One message for each: calls and results in their own form where there are tools.

    A call that cannot be read, or of no tool of the seat, and its result stay text.
    """
    if tools is None:
        return [{"role": m.role, "content": m.content} for m in messages]
    functions = [schema["function"] for schema in tools.schemas]
    known = {function["name"]: function["parameters"] for function in functions}
    chat: list[dict[str, Any]] = []
    call = None
    for place, message in enumerate(messages):
        before, after = call, messages[place + 1 : place + 2]
        answered = bool(after and after[0].result_of)
        call = _call(message.content, known) if answered and message.role == "assistant" else None
        if call is not None:
            function = {"name": call[0], "arguments": call[1]}
            calls = [{"id": _id(place), "type": "function", "function": function}]
            content = _around(message.content)
            chat.append({"role": "assistant", "content": content, "tool_calls": calls})
        elif before is not None:
            own = {"name": before[0], "tool_call_id": _id(place - 1)}
            chat.append({"role": "tool", "content": message.content, **own})
        elif message.role == "assistant":
            chat.append({"role": message.role, "content": message.content})
        else:
            content = message.content.replace(tools.notice, tools.native)
            chat.append({"role": message.role, "content": content})
    return chat


def line_of(calls: Sequence[Any], content: str = "") -> str:
    """The action that says what a model called in its own format.

    Args:
        calls: as the model made them, {"function": {"name": ..., "arguments": ...}} each; anything
            else is a call that cannot be read. Arguments are an object or the JSON of one.
        content: what it wrote beside them. As beside a line, it is an answer where no calls are
            left, and else nothing but a part of its chat.
    """
    beside = answer_of(content)
    # The calls stand first, so that no fence of the text is around them.
    return "\n".join([*map(_line, calls), *([beside] if beside.strip() else [])])


def _line(call: Any) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return "Call:"
    try:
        written = _written(function.get("arguments") or {})
    except (TypeError, ValueError, RecursionError):  # nested too deep, or nothing for JSON
        return "Call:"
    return f"Call: {' '.join(function['name'].split())}({written})"


def _written(arguments: Any) -> str:
    """Arguments on one line, without the marks of thinking, which no line of a call may hold."""
    if isinstance(arguments, str):
        _check_depth(arguments)
        with suppress(ValueError):  # no JSON: the environment says so
            arguments = json_of(arguments)
    if isinstance(arguments, str):
        return " ".join(arguments.split()).replace(THINK_END, ESCAPED_END)
    # Escapes are longer, and what an action may hold is limited: so only where they must be.
    text = json.dumps(arguments, ensure_ascii=False)
    _check_depth(text)
    return ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _check_depth(text: str) -> None:
    """Refuse what is nested too deep; each version of Python refuses from another depth on."""
    if text.lstrip()[:1] in ("{", "[") and depth(text) > DEEPEST:
        raise ValueError("the arguments are nested too deep")


def _call(text: str, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, Any]] | None:
    """Tool and arguments of an action that called one of the known tools; else None."""
    call = call_in(text)
    if not isinstance(call, Call) or call.tool not in known:
        return None
    try:
        return call.tool, arguments_of(call, known[call.tool])
    except ValueError:
        return None


def _around(text: str) -> str:
    """What stands around the line of a call."""
    return "\n".join(line for line in lines_of(text) if not is_call_line(line))


def _id(place: int) -> str:
    """What joins a result to its call: nine letters and digits, as some servers want them."""
    return f"call{place:05d}"
