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

from llm_marl_envs.core.records import Request, Response, Turn
from llm_marl_envs.core.spaces import Message
from trainers.engines.base import Draw, Drawn, SamplingEngine
from trainers.engines.generate import GenerateEngine
from trainers.weights.chat import ChatTemplate
from trainers.weights.team_model import TeamModel

# One trajectory's past: the messages shown, the action, and the ids up to and with that action.
# The last is the id that closed the action, None where it was cut.
_Past = tuple[tuple[Message, ...], str, list[int], int | None]

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

    Attributes:
        timed: gives a context in which the engine samples.
        stand_ins: (episode, agent) -> the past self that plays there; see `experience/players.py`.

    Raises:
        ValueError: the tokenizer has no chat template, or a number is out of range.
    """

    def __init__(
        self,
        team: TeamModel,
        *,
        max_completion_length: int = 256,
        temperature: float = 1.0,
        engine: SamplingEngine | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if max_completion_length < 1:
            raise ValueError(f"max_completion_length={max_completion_length}: expected at least 1")
        if temperature < 0:
            raise ValueError(f"temperature={temperature}: expected 0 (greedy) or more")
        self.team = team
        self.chats = {
            name: ChatTemplate(tokenizer, template_kwargs)
            for name, tokenizer in team.tokenizers.items()
        }
        self.max_completion_length = max_completion_length
        self.temperature = temperature
        self.engine = engine or GenerateEngine(team)
        self.template_kwargs = template_kwargs
        self.timed: Callable[[], AbstractContextManager[Any]] = nullcontext
        self.stand_ins: Mapping[tuple[int, str], str] = {}
        self._past: dict[tuple[int, str], _Past] = {}

    def at_temperature(self, temperature: float) -> TokenPolicy:
        """The same weights, sampled at another temperature."""
        return TokenPolicy(
            self.team,
            max_completion_length=self.max_completion_length,
            temperature=temperature,
            engine=self.engine,
            template_kwargs=self.template_kwargs,
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
        openings: dict[tuple[str, tuple[Message, ...]], list[int]] = {}
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

    def _prompt(
        self, request: Request, openings: dict[tuple[str, tuple[Message, ...]], list[int]]
    ) -> tuple[list[int], int]:
        """The ids before the action, and how many of them end with the action before."""
        policy = self.team.was(self._weights(request))
        chat = self.chats[policy]
        past = self._past.get((request.episode, request.agent))
        if past is not None and chat.appends:
            messages, action, ids, closed_by = past
            dialogue = (*messages, Message("assistant", action))
            new = request.messages[len(dialogue) :]
            if request.messages[: len(dialogue)] == dialogue and chat.extends(dialogue, new):
                more = chat.between(new, closed_by=closed_by)
                return self._fitting(request, ids + more), len(ids)
        key = (policy, request.messages)
        if key not in openings:  # the episodes of a group share their first prompt
            openings[key] = chat.opening(request.messages)
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
            if self.chats[policy].control.not_own.isdisjoint(written):
                through = [*response.prompt_ids, *response.completion_ids]
                self._past[seat] = (before.messages, response.text, through, closed)

    def _written(self, policy: str, ids: Sequence[int]) -> tuple[list[int], int | None]:
        """The sampled ids without the one that closed the action, and that one if there is one."""
        closed = bool(ids) and ids[-1] in self.team.eos_ids(policy)
        return list(ids[:-1] if closed else ids), ids[-1] if closed else None

    def _respond(self, request: Request, draw: Draw, drawn: Drawn) -> Response:
        ids, policy = drawn.ids, self.team.was(draw.policy)
        written, closed_by = self._written(draw.policy, ids)
        text = str(self.team.tokenizers[policy].decode(written, skip_special_tokens=True))
        seat = request.episode, request.agent
        self._past.pop(seat, None)
        if self.chats[policy].control.not_own.isdisjoint(written):
            self._past[seat] = (request.messages, text, [*draw.prompt_ids, *ids], closed_by)
        return Response(
            text=text,
            prompt_ids=draw.prompt_ids,
            completion_ids=ids,
            logprobs=drawn.logprobs,
            cut=closed_by is None,
            policy=draw.policy,
            id=drawn.version,
        )
