"""Chat messages to token ids, without ever tokenising an action again.

Owns the chat template of one tokenizer: the ids of an opening, and the ids that come between an
action and the next one. Sampled ids are kept as sampled; only the text around them is tokenised.
Control tokens come from the template alone: `control_tokens.py` keeps them out of others' texts.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from llm_marl_envs.core.spaces import Message
from trainers.weights.control_tokens import FOREIGN, Control

PROBE_USER, PROBE_ANSWER = "question", "answer"
PROBE_TURNS = 3
# Templates that rewrite history drop earlier reasoning, so the probe contains some.
PROBE_ACTION = "<think>\nreason\n</think>\n\nanswer"


class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        tokenizer: must have a chat template and an EOS token.
        template_kwargs: further variables of the template, e.g. {"enable_thinking": False}.

    Attributes:
        appends: whether a longer dialogue extends a shorter one token by token. If not (a template
            that strips earlier reasoning), each turn is encoded anew and trained as its own row.
        control: the control strings of tokenizer and template.

    Raises:
        ValueError: no chat template or no EOS token.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, template_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        if not tokenizer.chat_template:
            raise ValueError(
                f"tokenizer {tokenizer.name_or_path!r} has no chat template; use an instruction-"
                "tuned model or set tokenizer.chat_template"
            )
        if tokenizer.eos_token_id is None:
            raise ValueError(f"tokenizer {tokenizer.name_or_path!r} has no EOS token; set one")
        self.tokenizer = tokenizer
        self.template_kwargs = dict(template_kwargs or {})
        self.control = Control(tokenizer, tokenizer.get_chat_template(), self._frame())
        self._header = self._missing_header()
        self.appends = self._probe()
        if not self.appends:
            warnings.warn(
                f"the chat template of {tokenizer.name_or_path!r} rewrites earlier turns: each "
                "turn is encoded anew and becomes a training row of its own",
                stacklevel=2,
            )

    def opening(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a dialogue up to where the agent's next action begins."""
        return self.control.encode(
            lambda strict: self._render(messages, prompt=True, strict=strict), len(messages)
        )

    def between(self, new: Sequence[Message], *, closed_by: int | None) -> list[int]:
        """Ids from the end of an action to the start of the next one.

        Args:
            new: the messages that came after the action.
            closed_by: the id that ended the action; None if it was cut, and then the template's
                own end of a turn is supplied here, as a token of the environment.
        """
        ids = self.control.encode(lambda strict: self._after_action(new, strict), len(new))
        return ids[1:] if closed_by is not None and ids[:1] == [closed_by] else ids

    def action(self, text: str) -> list[int]:
        """Ids of an action that was given as text, without the token that ends it."""
        return self.control.encode(
            lambda strict: self.control.content(text, own=True, strict=bool(strict)), 1
        )

    def _after_action(self, new: Sequence[Message], strict: Collection[int] = ()) -> str:
        """The text from the end of an action, in a dialogue of one, to where the next begins."""
        probe = [Message("user", PROBE_USER), Message("assistant", PROBE_ACTION)]
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
                first, *rest = self._apply(dialogue, prompt=True).split(FOREIGN)
                lines += first.splitlines()[-1:]
                lines += [line for text in rest for line in text.splitlines()]
        return lines

    def _missing_header(self) -> str:
        """What stands before an action in a dialogue and the template's own prompt leaves out.

        A template that ignores `add_generation_prompt` would let the model write the header of its
        turn itself; it is added to every prompt instead. A template that does not ignore it decides
        alone: what it puts before answers of the past (an empty thought) is no part of its prompts.
        """
        question = [Message("user", PROBE_USER)]
        opening = self._plain(question, prompt=True)
        if opening != self._plain(question, prompt=False):
            return ""
        whole = self._plain([*question, Message("assistant", PROBE_ANSWER)], prompt=False)
        start = whole.find(PROBE_ANSWER, len(opening))
        header = whole[len(opening) : start] if whole.startswith(opening) and start >= 0 else ""
        return header if header.strip() else ""  # a space before answers belongs to the answer

    def _probe(self) -> bool:
        question, system = Message("user", PROBE_USER), Message("system", PROBE_USER)
        openings = [[question]]
        with suppress(ValueError):  # a template without a system role is asked without one
            self._render([system, question], prompt=True)
            openings.append([system, question])
        for dialogue in openings:
            for _ in range(PROBE_TURNS):
                answered = [*dialogue, Message("assistant", PROBE_ACTION)]
                short = self._render(answered, prompt=False)
                if not short.startswith(self._render(dialogue, prompt=True)):
                    return False
                if PROBE_ACTION not in short or not self.extends(answered, [question]):
                    return False
                dialogue = [*answered, question]
        return True

    def extends(self, dialogue: Sequence[Message], new: Sequence[Message]) -> bool:
        """Whether `new` adds to the dialogue `told`, rendered, just what `between` would add.

        Not so if the template rewrites what was told, or if what it adds depends on the turn.
        """
        longer = self._render([*dialogue, *new], prompt=True)
        return longer.startswith(self._render(dialogue, prompt=False)) and longer.endswith(
            self._after_action(new)
        )

    def _render(
        self, messages: Sequence[Message], *, prompt: bool, strict: Collection[int] = ()
    ) -> str:
        text = self._plain(messages, prompt=prompt, strict=strict)
        return text + (self._header if prompt else "")

    def _plain(
        self, messages: Sequence[Message], *, prompt: bool, strict: Collection[int] = ()
    ) -> str:
        """The rendered dialogue; control strings in its messages carry marks."""
        chat = [
            {
                "role": m.role,
                "content": self.control.content(
                    m.content, own=m.role == "assistant", strict=place in strict
                ),
            }
            for place, m in enumerate(messages)
        ]
        return self._apply(chat, prompt=prompt)

    def _apply(self, chat: list[dict[str, str]], *, prompt: bool) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=prompt, **self.template_kwargs
            )
        except TemplateError as error:
            raise ValueError(
                f"the chat template of {self.tokenizer.name_or_path!r} refuses a dialogue of "
                f"{[message['role'] for message in chat]}: {error}. Use another template, or an "
                "environment whose messages it takes"
            ) from error
        return str(text)
