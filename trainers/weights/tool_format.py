"""Calls of tools as a model was trained to write them.

The chat template shows schemas and results, and Transformers reads calls by the tokenizer's
`response_template`: its own, or the one that TRL knows for the chat template. What a call means
says `llm_marl_envs/tools/native.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trl.chat_template_utils import add_response_schema, supports_tool_calling

from llm_marl_envs.core.spaces import Message, ToolSheet
from llm_marl_envs.tools.native import line_of, native_chat
from trainers.weights.chat import ChatTemplate

PROBE = "name_of_a_probe"
_FUNCTION = {
    "name": PROBE,
    "description": PROBE,
    "parameters": {"type": "object", "properties": {PROBE: {"type": "string"}}},
}
_CALL = {"name": PROBE, "arguments": {PROBE: PROBE}}
_SHEET = ToolSheet("", "", ({"type": "function", "function": _FUNCTION},))
_QUESTION = Message("user", "question")


class NativeCalls:
    """Reads what the model of a chat template calls.

    Args:
        chat: the template.

    Attributes:
        marks: the control tokens that a call is written with.

    Raises:
        ValueError: the template shows no schemas, calls or results, or nothing says how its calls
            are read.
    """

    def __init__(self, chat: ChatTemplate) -> None:
        self.tokenizer: Any = chat.tokenizer
        name = chat.tokenizer.name_or_path
        if not _shows_calls(chat) or not _shows_schemas(chat):
            raise ValueError(
                f"the chat template of {name!r} leaves out the schemas of tools, calls or results, "
                "so its model has no format of calls; use another model, or tool_format='line'"
            )
        if not getattr(self.tokenizer, "response_template", None):
            try:
                add_response_schema(self.tokenizer)
            except ValueError as error:
                raise ValueError(
                    f"nothing says how calls of {name!r} are read: its tokenizer has no "
                    "`response_template`, and TRL knows none for its chat template; set one, or "
                    "tool_format='line'"
                ) from error
        if not getattr(self.tokenizer, "response_template", None):  # TRL set what older ones read
            raise ValueError("tool_format='native' needs Transformers 5.13 or later; update it")
        self._opens: frozenset[int] = frozenset()
        self.marks, self._opens, written = _marks(chat)
        if PROBE not in (self.read(written, chat.opening([_QUESTION], _SHEET), _SHEET) or ""):
            raise ValueError(
                f"the `response_template` of {name!r} does not read the calls that its chat "
                "template writes; set another one, or tool_format='line'"
            )

    def read(self, ids: Sequence[int], prompt: Sequence[int], tools: ToolSheet) -> str | None:
        """The action that says what the model called; None where it called nothing.

        Args:
            ids: of the action.
            prompt: what came before.
            tools: what the agent may call.
        """
        if self._opens and self._opens.isdisjoint(ids):  # text that looks like a call is text
            return None
        try:
            answer = self.tokenizer.parse_response([*ids], prefix=[*prompt], tools=[*tools.schemas])
        except (ValueError, TypeError, RecursionError):  # marks of a call, and no call between
            return line_of([None])
        calls = answer.get("tool_calls") if isinstance(answer, dict) else None
        return line_of(calls, str(answer.get("content") or "")) if calls else None


def _shows_calls(chat: ChatTemplate) -> bool:
    try:
        return supports_tool_calling(chat.tokenizer)
    except Exception:  # noqa: BLE001 - a template is a program of others, and fails in any way
        return False


def _shows_schemas(chat: ChatTemplate) -> bool:
    return PROBE in str(chat.tokenizer.decode(chat.opening([_QUESTION], _SHEET)))


def _marks(chat: ChatTemplate) -> tuple[frozenset[int], frozenset[int], list[int]]:
    """Control tokens of an agent's message where it is a call, and else not; and such a message.

    The first are all of them, the second those that stand before the tool's name.
    """
    called = [_QUESTION, Message("assistant", line_of([{"function": _CALL}]))]
    result = Message("user", "result", result_of=PROBE)
    asked, call, _ = native_chat([*called, result], _SHEET)
    answer = {"role": "assistant", "content": PROBE}
    opening, calling, answering = (
        chat.applied(dialogue, _SHEET.schemas, prompt=False)
        for dialogue in ([asked], [asked, call], [asked, answer])
    )
    ids = [
        chat.tokenizer(text[len(opening) :], add_special_tokens=False)["input_ids"]
        for text in (calling, answering)
    ]
    marks = chat.control.ids & {*ids[0]} - {*ids[1]}
    named = (end for end in range(len(ids[0]) + 1) if PROBE in chat.tokenizer.decode(ids[0][:end]))
    return marks, marks & {*ids[0][: next(named, 0)]}, ids[0]
