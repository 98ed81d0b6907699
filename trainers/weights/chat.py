"""Chat messages to token ids, without ever tokenising an action again.

Owns the chat template of one tokenizer: the ids of an opening, and the ids that come between an
action and the next one. Sampled ids are kept as sampled; only the text around them is tokenised.
Control tokens come from the template alone: `control_tokens.py` keeps them out of others' texts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

from transformers import PreTrainedTokenizerBase

from llm_marl_envs.core.spaces import Message, ToolSheet
from llm_marl_envs.tools.native import native_chat
from trainers.weights.control_tokens import FOREIGN, Control
from trainers.weights.template_limits import DATED, TODAY

PROBE_USER, PROBE_ANSWER = "question", "answer"
PROBE_TURNS = 3
# Templates that rewrite history drop earlier reasoning, so the probe contains some.
PROBE_ACTION = "<think>\nreason\n</think>\n\nanswer"


# Names by which templates decide what they write, so that no loose mark may stand in them: keys,
# and the values of some.
WORD = re.compile(r"[$\w.-]*", re.ASCII)
FORM = frozenset(("role", "type", "format", "name", "id", "tool_call_id"))


class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        tokenizer: must have a chat template and an EOS token.
        template_kwargs: further variables of the template, e.g. {"enable_thinking": False}.

    Attributes:
        appends: whether a longer dialogue extends a shorter one token by token. If not (a template
            that strips earlier reasoning), each turn is encoded anew and trained as its own row.
        control: the control strings of tokenizer and template.
        dated: whether the template writes a date: that of `template_kwargs["today"]`, which is the
            day when this object was made unless it is given.

    Raises:
        ValueError: no chat template or no EOS token, or a template that cannot be rendered.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, template_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        if not tokenizer.chat_template:
            raise ValueError(
                f"tokenizer {tokenizer.name_or_path!r} has no chat template; use an instruction-"
                "tuned model, or put a chat_template.jinja beside its tokenizer"
            )
        if tokenizer.eos_token_id is None:
            raise ValueError(f"tokenizer {tokenizer.name_or_path!r} has no EOS token; set one")
        self.tokenizer = tokenizer
        self.template_kwargs = dict(template_kwargs or {})
        written: Any = tokenizer.chat_template  # one text, or name -> text
        templates = written.values() if isinstance(written, Mapping) else [written]
        self.dated = any(DATED in text for text in templates)
        if self.dated:
            self.template_kwargs.setdefault(TODAY, date.today().isoformat())
        self.applied([_said("user", PROBE_USER)], prompt=True)  # refuses what cannot be rendered
        self.control = Control(tokenizer, tokenizer.get_chat_template(), self._frame())
        self._header = self._missing_header()
        self.appends = self._probe()
        if not self.appends:
            warnings.warn(
                f"the chat template of {tokenizer.name_or_path!r} rewrites earlier turns: each "
                "turn is encoded anew and becomes a training row of its own",
                stacklevel=2,
            )

    def opening(self, messages: Sequence[Message], tools: ToolSheet | None = None) -> list[int]:
        """Ids of a dialogue up to where the agent's next action begins.

        Args:
            messages: the dialogue.
            tools: what the agent may call by the template's own format; None: all is text.
        """
        chat = native_chat(messages, tools)
        return self.control.encode(
            lambda strict: self._render(chat, tools, prompt=True, strict=strict), len(chat) + 1
        )

    def between(
        self,
        new: Sequence[Message],
        *,
        closed_by: int | None,
        dialogue: Sequence[Message] = (),
        tools: ToolSheet | None = None,
    ) -> list[int]:
        """Ids from the end of an action to the start of the next one.

        Args:
            new: the messages that came after the action.
            closed_by: the id that ended the action; None if it was cut, and then the template's
                own end of a turn is supplied here, as a token of the environment.
            dialogue: what came before, the action last; it says whether that was a call.
            tools: as `opening`.
        """
        chat = native_chat([*dialogue, *new], tools)[len(dialogue) :]
        ids = self.control.encode(lambda strict: self._after_action(chat, strict), len(chat))
        return ids[1:] if closed_by is not None and ids[:1] == [closed_by] else ids

    def action(self, text: str) -> list[int]:
        """Ids of an action that was given as text, without the token that ends it."""
        return self.control.encode(
            lambda strict: self.control.content(text, own=True, strict=bool(strict)), 1
        )

    def _after_action(self, new: Sequence[Mapping[str, Any]], strict: Collection[int] = ()) -> str:
        """The text from the end of an action, in a dialogue of one, to where the next begins."""
        probe = [_said("user", PROBE_USER), _said("assistant", PROBE_ACTION)]
        places = [len(probe) + place for place in strict]
        text = self._render([*probe, *new], prompt=True, strict=places)
        return text[text.index(PROBE_ACTION) + len(PROBE_ACTION) :]

    def _frame(self) -> list[str]:
        """Lines that the template writes around messages, but for what it says before the first."""
        system, question, answer = (
            {"role": role, "content": FOREIGN} for role in ("system", "user", "assistant")
        )
        lines: list[str] = []
        for dialogue in ([question, answer, question], [system, question]):
            with suppress(ValueError):  # a template that has no such dialogue
                first, *rest = self.applied(dialogue, prompt=True).split(FOREIGN)
                lines += first.splitlines()[-1:]
                lines += [line for text in rest for line in text.splitlines()]
        return lines

    def _missing_header(self) -> str:
        """What stands before an action in a dialogue and the template's own prompt leaves out.

        A template that ignores `add_generation_prompt` would let the model write the header of its
        turn itself; it is added to every prompt instead. A template that does not ignore it decides
        alone: what it puts before answers of the past (an empty thought) is no part of its prompts.
        """
        question = [_said("user", PROBE_USER)]
        opening = self._plain(question, prompt=True)
        if opening != self._plain(question, prompt=False):
            return ""
        whole = self._plain([*question, _said("assistant", PROBE_ANSWER)], prompt=False)
        start = whole.find(PROBE_ANSWER, len(opening))
        header = whole[len(opening) : start] if whole.startswith(opening) and start >= 0 else ""
        return header if header.strip() else ""  # a space before answers belongs to the answer

    def _probe(self) -> bool:
        question, system = _said("user", PROBE_USER), _said("system", PROBE_USER)
        openings = [[question]]
        with suppress(ValueError):  # a template without a system role is asked without one
            self._render([system, question], prompt=True)
            openings.append([system, question])
        for dialogue in openings:
            for _ in range(PROBE_TURNS):
                answered = [*dialogue, _said("assistant", PROBE_ACTION)]
                short = self._render(answered, prompt=False)
                if not short.startswith(self._render(dialogue, prompt=True)):
                    return False
                if PROBE_ACTION not in short or not self._extends(answered, [question]):
                    return False
                dialogue = [*answered, question]
        return True

    def extends(
        self,
        dialogue: Sequence[Message],
        new: Sequence[Message],
        tools: ToolSheet | None = None,
    ) -> bool:
        """Whether `new` adds to the dialogue, rendered, just what `between` would add.

        Not so if the template rewrites what was told, or if what it adds depends on the turn.
        """
        chat = native_chat([*dialogue, *new], tools)
        return self._extends(chat[: len(dialogue)], chat[len(dialogue) :], tools)

    def _extends(
        self,
        dialogue: Sequence[Mapping[str, Any]],
        new: Sequence[Mapping[str, Any]],
        tools: ToolSheet | None = None,
    ) -> bool:
        longer = self._render([*dialogue, *new], tools, prompt=True)
        return longer.startswith(self._render(dialogue, tools, prompt=False)) and longer.endswith(
            self._after_action(new)
        )

    def _render(
        self,
        chat: Sequence[Mapping[str, Any]],
        tools: ToolSheet | None = None,
        *,
        prompt: bool,
        strict: Collection[int] = (),
    ) -> str:
        text = self._plain(chat, tools, prompt=prompt, strict=strict)
        return text + (self._header if prompt else "")

    def _plain(
        self,
        chat: Sequence[Mapping[str, Any]],
        tools: ToolSheet | None = None,
        *,
        prompt: bool,
        strict: Collection[int] = (),
    ) -> str:
        """The rendered dialogue; control strings in its messages and schemas carry marks.

        `strict` are the numbers of messages; the schemas have the number after the last.
        """
        marked = [
            self._marked(message, own=message["role"] == "assistant", strict=place in strict)
            for place, message in enumerate(chat)
        ]
        schemas = [
            self._marked(schema, own=False, strict=len(chat) in strict)
            for schema in (tools.schemas if tools else ())
        ]
        return self.applied(marked, schemas, prompt=prompt)

    def _marked(self, value: Any, *, own: bool, strict: bool) -> Any:
        """A message or a schema, in whose texts control strings carry marks."""
        if isinstance(value, str):
            return self.control.content(value, own=own, strict=strict)
        if isinstance(value, Mapping):
            return {
                self.control.content(
                    key, own=own, strict=strict and not WORD.fullmatch(key)
                ): self._marked(part, own=own, strict=strict and not _is_form(key, part))
                for key, part in value.items()
            }
        if isinstance(value, list):
            return [self._marked(part, own=own, strict=strict) for part in value]
        return value

    def applied(self, chat: list[Any], schemas: Sequence[Any] = (), *, prompt: bool) -> str:
        """The text that the template makes of messages.

        Raises:
            ValueError: it refuses them, fails, or does more than `template_limits` lets it.
        """
        own: dict[str, Any] = {"tools": [*schemas]} if schemas else {}
        try:
            text = self.tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=prompt, **self.template_kwargs, **own
            )
        except Exception as error:  # a template is a program of others, and fails in any way
            roles = [message["role"] for message in chat]
            raise ValueError(
                f"the chat template of {self.tokenizer.name_or_path!r} refuses a dialogue of "
                f"{roles!s:.80}: {error!s:.200}. Use another template, or an environment whose "
                "messages it takes"
            ) from error
        return str(text)


def _is_form(key: str, value: Any) -> bool:
    """Whether a template decides by a value what it writes."""
    return key in FORM and isinstance(value, str) and WORD.fullmatch(value) is not None


def _said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
