"""A policy that keeps token ids and behaviour log-probs.

Turns requests into prompts, lets an engine sample them, and returns texts with the ids behind them.
Tokens in, tokens out: from the second turn on, a prompt is the ids of the turns before plus the ids
of what the environment added. An action with a control token in it that does not end it is not kept
so: the next prompt is made from texts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from llm_marl_envs.core.checks import refuse_other
from llm_marl_envs.core.records import Request, Response, Turn
from llm_marl_envs.core.seats import by_seat
from llm_marl_envs.core.spaces import Message, ToolSheet
from llm_marl_envs.tools.native import FORMATS, ToolFormat
from trainers.engines.base import Draw, Drawn, SamplingEngine
from trainers.engines.generate import GenerateEngine
from trainers.weights.chat import ChatTemplate
from trainers.weights.team_model import TeamModel
from trainers.weights.template_limits import TODAY
from trainers.weights.tool_format import NativeCalls

# One trajectory's past: the messages shown, the action, and the ids up to and with that action.
# The last is the id that closed the action, None where it was cut.
_Past = tuple[tuple[Message, ...], str, list[int], int | None]

# What first prompts depend on: policy, messages, and the agent where it has tools of its own.
_Opening = tuple[str, tuple[Message, ...], str]

# Sampling changes a model's mode and settings for a while, and policies may share their weights.
_ONE_AT_A_TIME = threading.RLock()


class TokenPolicy:
    """Plays the seats of a `TeamModel`.

    Args:
        team: the weights.
        max_completion_length: most tokens of one action.
        temperature: divides the logits; 0 is greedy.
        engine: samples for the team; `GenerateEngine` where None.
        template_kwargs: further variables of the chat template.
        tool_format: how agents call tools: "line", or "native" for the format of their models; or
            seat or role -> format, "line" for others.

    Attributes:
        timed: gives a context in which the engine samples.
        today: the date that chat templates write; None where none does.
        stand_ins: (episode, agent) -> the past self that plays there; see `experience/players.py`.

    Raises:
        ValueError: the tokenizer has no chat template, a number is out of range, or a model has no
            format of calls.
    """

    def __init__(
        self,
        team: TeamModel,
        *,
        max_completion_length: int = 256,
        temperature: float = 1.0,
        engine: SamplingEngine | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        tool_format: ToolFormat | Mapping[str, ToolFormat] = "line",
    ) -> None:
        if max_completion_length < 1:
            raise ValueError(f"max_completion_length={max_completion_length}: expected at least 1")
        if temperature < 0:
            raise ValueError(f"temperature={temperature}: expected 0 (greedy) or more")
        self.team = team
        self.max_completion_length = max_completion_length
        self.temperature = temperature
        self.engine = engine or GenerateEngine(team)
        self.tool_format: ToolFormat | Mapping[str, ToolFormat] = tool_format
        named = tool_format if isinstance(tool_format, Mapping) else {}
        self._formats = by_seat("tool_format", [*team.policy_of], named)
        for chosen in named.values() if isinstance(tool_format, Mapping) else [tool_format]:
            refuse_other("tool_format", chosen, FORMATS)
        native = {name for seat, name in team.policy_of.items() if self._native(seat)}
        native |= {*team.resting} if native else set()  # they may come to any seat
        self._native_calls = sorted(native)
        self._read(template_kwargs)
        self.timed: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.stand_ins: Mapping[tuple[int, str], str] = {}
        self._past: dict[tuple[int, str], _Past] = {}

    def _read(self, template_kwargs: Mapping[str, Any] | None) -> None:
        """Have chat templates with these variables; where they write a date, all write one."""
        tokenizers = {id(tokenizer): tokenizer for tokenizer in self.team.tokenizers.values()}
        chats = {key: ChatTemplate(tok, template_kwargs) for key, tok in tokenizers.items()}
        self.chats = {name: chats[id(tok)] for name, tok in self.team.tokenizers.items()}
        self._calls = {name: NativeCalls(self.chats[name]) for name in self._native_calls}
        dated = next((chat.template_kwargs for chat in chats.values() if chat.dated), None)
        self.template_kwargs = dated or template_kwargs
        self.today: str | None = dated[TODAY] if dated else None

    def date(self, today: str | None) -> None:
        """Let templates write another date; of none that does, nothing changes."""
        if self.today is not None and today != self.today:
            self._read({**(self.template_kwargs or {}), TODAY: today})

    def at_temperature(self, temperature: float) -> TokenPolicy:
        """The same weights, sampled at another temperature."""
        return TokenPolicy(
            self.team,
            max_completion_length=self.max_completion_length,
            temperature=temperature,
            engine=self.engine,
            template_kwargs=self.template_kwargs,
            tool_format=self.tool_format,
        )

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One sampled action per request; of several threads one at a time.

        Raises:
            ValueError: an agent that the team does not play, or a prompt that leaves no room for
                an action in the model's context.
        """
        with _ONE_AT_A_TIME:
            return self._act(requests)

    def _act(self, requests: Sequence[Request]) -> list[Response]:
        for request in requests:
            if request.turn == 0 or request.before is not None:
                self._past.pop((request.episode, request.agent), None)
            if request.before is not None:
                self._recall(request, request.before)
        openings: dict[_Opening, list[int]] = {}
        prompts = [self._prompt(request, openings) for request in requests]
        draws = [
            Draw(
                policy=self._weights(request),
                prompt_ids=tuple(prompt),
                seed=request.seed,
                start=request.agent in self.team.left_behind,
                through=through,
            )
            for request, (prompt, through) in zip(requests, prompts, strict=True)
        ]
        with self.timed():
            drawn = self.engine.sample(
                draws, max_tokens=self.max_completion_length, temperature=self.temperature
            )
        return [self._respond(*each) for each in zip(requests, draws, drawn, strict=True)]

    def _weights(self, request: Request) -> str:
        if request.agent not in self.team.policy_of:
            raise ValueError(f"the team plays {list(self.team.policy_of)}, not {request.agent!r}")
        own = self.team.policy_of[request.agent]
        return self.stand_ins.get((request.episode, request.agent), own)

    def first_prompt(
        self, agent: str, messages: Sequence[Message], tools: ToolSheet | None
    ) -> list[int]:
        """Token ids of what an agent is told first; `tools` are what it may call."""
        chat = self.chats[self.team.policy_of[agent]]
        return chat.opening(messages, tools if self._native(agent) else None)

    def _native(self, agent: str) -> bool:
        """Whether an agent calls tools in its model's own format."""
        named = isinstance(self.tool_format, Mapping)
        return (self._formats.get(agent) if named else self.tool_format) == "native"

    def _tools(self, request: Request) -> ToolSheet | None:
        """What an agent may call in its model's own format."""
        return request.tools if self._native(request.agent) else None

    def _prompt(
        self, request: Request, openings: dict[_Opening, list[int]]
    ) -> tuple[list[int], int]:
        """The ids before the action, and how many of them end with the action before."""
        policy = self.team.was(self._weights(request))
        chat, tools = self.chats[policy], self._tools(request)
        past = self._past.get((request.episode, request.agent))
        if past is not None and chat.appends:
            messages, action, ids, closed_by = past
            dialogue = (*messages, Message("assistant", action))
            new = request.messages[len(dialogue) :]
            goes_on = request.messages[: len(dialogue)] == dialogue
            if goes_on and chat.extends(dialogue, new, tools):
                more = chat.between(new, closed_by=closed_by, dialogue=dialogue, tools=tools)
                return self._fitting(request, ids + more), len(ids)
        key = (policy, request.messages, "" if tools is None else request.agent)
        if key not in openings:  # the episodes of a group share their first prompt
            openings[key] = chat.opening(request.messages, tools)
        return self._fitting(request, openings[key]), 0

    def _fitting(self, request: Request, prompt: list[int]) -> list[int]:
        limit = self.team.context_length(self._weights(request))
        if limit is not None and len(prompt) + self.max_completion_length > limit:
            raise ValueError(
                f"task {request.task_id!r}, {request.agent}, turn {request.turn}: a prompt of "
                f"{len(prompt)} tokens and an action of up to {self.max_completion_length} exceed "
                f"the model's context of {limit}; use fewer turns, shorter actions or a model "
                "with a longer context"
            )
        return prompt

    def _recall(self, request: Request, before: Turn) -> None:
        """Go on from a turn of these weights that a record gave."""
        response, policy = before.response, self._weights(request)
        if (
            response.policy == policy
            and response.prompt_ids is not None
            and response.completion_ids is not None
        ):
            written, closed = self._written(policy, response.completion_ids)
            seat = request.episode, request.agent
            if self._continues(policy, written, called=bool(response.written)):
                through = [*response.prompt_ids, *response.completion_ids]
                self._past[seat] = (before.messages, response.text, through, closed)

    def _written(self, policy: str, ids: Sequence[int]) -> tuple[list[int], int | None]:
        """The sampled ids without the one that closed the action, and that one if there is one."""
        closed = bool(ids) and ids[-1] in self.team.eos_ids(policy)
        return list(ids[:-1] if closed else ids), ids[-1] if closed else None

    def _continues(self, policy: str, written: Sequence[int], *, called: bool) -> bool:
        """Whether a next prompt may go on from an action: no control token stands in it."""
        refused = self.chats[policy].control.not_own
        if called and policy in self._calls:
            refused -= self._calls[policy].marks
        return refused.isdisjoint(written)

    def _respond(self, request: Request, draw: Draw, drawn: Drawn) -> Response:
        ids, policy = drawn.ids, self.team.was(draw.policy)
        written, closed_by = self._written(draw.policy, ids)
        text = str(self.team.tokenizers[policy].decode(written, skip_special_tokens=True))
        tools, call = self._tools(request), None
        if tools is not None:
            call = self._calls[policy].read(ids, draw.prompt_ids, tools)
        action = text if call is None else call
        whole = "" if call is None else str(self.team.tokenizers[policy].decode(written))
        seat = request.episode, request.agent
        self._past.pop(seat, None)
        if self._continues(policy, written, called=call is not None):
            self._past[seat] = (request.messages, action, [*draw.prompt_ids, *ids], closed_by)
        return Response(
            text=action,
            written=whole,
            prompt_ids=draw.prompt_ids,
            completion_ids=ids,
            logprobs=drawn.logprobs,
            cut=closed_by is None,
            policy=draw.policy,
            id=drawn.version,
        )
