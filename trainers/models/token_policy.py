"""A policy that keeps token ids and behaviour log-probs.

Turns requests into prompts, samples them in as few `generate` calls as the weights allow, and
returns texts with the ids behind them. Tokens in, tokens out: from the second turn on, a prompt is
the ids of the turns before plus the ids of what the environment added. An action with a control
token in it that does not end it is not kept so: the next prompt is made from texts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from transformers import GenerationConfig

from llm_marl_envs.records import Request, Response
from llm_marl_envs.spaces import Message
from trainers.engines.row_sampler import RowSampler
from trainers.models.chat import ChatTemplate
from trainers.models.team_model import SamplingBatch, TeamModel

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
        batch_size: most rows of one `generate` call; None puts all rows in one.
        template_kwargs: further variables of the chat template.

    Raises:
        ValueError: the tokenizer has no chat template, or a number is out of range.
    """

    def __init__(
        self,
        team: TeamModel,
        *,
        max_completion_length: int = 256,
        temperature: float = 1.0,
        batch_size: int | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if max_completion_length < 1:
            raise ValueError(f"max_completion_length={max_completion_length}: expected at least 1")
        if temperature < 0:
            raise ValueError(f"temperature={temperature}: expected 0 (greedy) or more")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: expected at least 1 or None")
        self.team = team
        self.chats = {
            name: ChatTemplate(one, template_kwargs) for name, one in team.tokenizers.items()
        }
        self.max_completion_length = max_completion_length
        self.temperature = temperature
        self.batch_size = batch_size
        self.template_kwargs = template_kwargs
        self._past: dict[tuple[int, str], _Past] = {}

    def at_temperature(self, temperature: float) -> TokenPolicy:
        """The same weights, sampled at another temperature."""
        return TokenPolicy(
            self.team,
            max_completion_length=self.max_completion_length,
            temperature=temperature,
            batch_size=self.batch_size,
            template_kwargs=self.template_kwargs,
        )

    @torch.no_grad()
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
            if request.turn == 0:
                self._past.pop((request.episode, request.agent), None)
        openings: dict[tuple[str, tuple[Message, ...]], list[int]] = {}
        prompts = [self._prompt(request, openings) for request in requests]
        responses: dict[int, Response] = {}
        with self.team.evaluating():
            for behind in (False, True):
                rows = [
                    row
                    for row, request in enumerate(requests)
                    if (request.agent in self.team.left_behind) is behind
                ]
                policies = [self._policy(requests[row].agent) for row in rows]
                with ExitStack() as stack:
                    for policy in dict.fromkeys(policies if behind else ()):
                        stack.enter_context(self.team.at_start(policy))
                    responses |= self._sampled(requests, prompts, rows, policies)
        return [responses[row] for row in range(len(requests))]

    def _sampled(
        self,
        requests: Sequence[Request],
        prompts: list[list[int]],
        rows: list[int],
        policies: list[str],
    ) -> dict[int, Response]:
        """Row -> response, of the `rows` among the requests; `policies` says who acts in each."""
        responses: dict[int, Response] = {}
        for batch in self.team.sampling_batches(policies):
            self.team.activate(batch.policy)
            for places, kwargs in _chunks(batch.rows, batch.kwargs, self.batch_size):
                done = self._generate(
                    batch,
                    [prompts[rows[place]] for place in places],
                    [requests[rows[place]].seed for place in places],
                    kwargs,
                )
                for place, (ids, logprobs) in zip(places, done, strict=True):
                    row = rows[place]
                    responses[row] = self._respond(
                        requests[row], prompts[row], ids, logprobs, policies[place]
                    )
        return responses

    def _policy(self, agent: str) -> str:
        if agent not in self.team.policy_of:
            raise ValueError(f"the team plays {list(self.team.policy_of)}, not {agent!r}")
        return self.team.policy_of[agent]

    def _prompt(
        self, request: Request, openings: dict[tuple[str, tuple[Message, ...]], list[int]]
    ) -> list[int]:
        policy = self._policy(request.agent)
        chat = self.chats[policy]
        past = self._past.get((request.episode, request.agent))
        if past is not None and chat.appends:
            messages, action, ids, closed_by = past
            told = (*messages, Message("assistant", action))
            new = request.messages[len(told) :]
            if request.messages[: len(told)] == told and chat.extends(told, new):
                return self._fitting(request, ids + chat.between(new, closed_by=closed_by))
        key = (policy, request.messages)
        if key not in openings:  # the episodes of a group share their first prompt
            openings[key] = chat.opening(request.messages)
        return self._fitting(request, openings[key])

    def _fitting(self, request: Request, prompt: list[int]) -> list[int]:
        limit = self.team.context_length(self._policy(request.agent))
        if limit is not None and len(prompt) + self.max_completion_length > limit:
            raise ValueError(
                f"task {request.task_id!r}, {request.agent}, turn {request.turn}: a prompt of "
                f"{len(prompt)} tokens and an action of up to {self.max_completion_length} exceed "
                f"the model's context of {limit}; use fewer turns, shorter actions or a model "
                "with a longer context"
            )
        return prompt

    def _generate(
        self,
        batch: SamplingBatch,
        prompts: list[list[int]],
        seeds: list[int],
        kwargs: dict[str, Any],
    ) -> list[tuple[list[int], list[float]]]:
        """Sampled ids, up to and with EOS, and their log-probs, for each prompt."""
        device, eos = self.team.device, self.team.eos_ids(batch.policy)
        width = max(len(prompt) for prompt in prompts)
        pad = self.team.tokenizers[batch.policy].pad_token_id
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
        sampler = RowSampler(torch.tensor(seeds, device=device), self.temperature)
        config = GenerationConfig(
            do_sample=False,
            max_new_tokens=self.max_completion_length,
            pad_token_id=pad,
            eos_token_id=eos,
        )
        with _without_defaults(batch.model, config):
            out = batch.model.generate(
                input_ids=ids,
                attention_mask=mask,
                generation_config=config,
                logits_processor=[sampler],
                **kwargs,
            )
        done = []
        for row, probs in zip(out[:, width:].tolist(), sampler.logprobs().tolist(), strict=True):
            end = next((i + 1 for i, token in enumerate(row) if token in eos), len(row))
            done.append((row[:end], probs[:end]))
        return done

    def _respond(
        self,
        request: Request,
        prompt: list[int],
        ids: list[int],
        logprobs: list[float],
        policy: str,
    ) -> Response:
        closed = bool(ids) and ids[-1] in self.team.eos_ids(policy)
        tokenizer = self.team.tokenizers[policy]
        written = ids[:-1] if closed else ids
        text = tokenizer.decode(written, skip_special_tokens=True)
        seat = request.episode, request.agent
        self._past.pop(seat, None)
        if self.chats[policy].control.not_own.isdisjoint(written):
            self._past[seat] = (
                request.messages,
                str(text),
                prompt + ids,
                ids[-1] if closed else None,
            )
        return Response(
            text=str(text),
            prompt_ids=tuple(prompt),
            completion_ids=tuple(ids),
            logprobs=tuple(logprobs),
            cut=not closed,
            policy=policy,
        )


@contextmanager
def _without_defaults(model: Any, config: GenerationConfig) -> Iterator[None]:
    """Hide a model's own generation settings while it samples.

    `generate` fills what a config leaves unset from them, and a penalty, a list of forbidden words
    or a time limit there would sample from another distribution than the loss scores.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    kept = base.generation_config
    base.generation_config = config
    try:
        yield
    finally:
        base.generation_config = kept


def _chunks(
    rows: list[int], kwargs: dict[str, Any], size: int | None
) -> list[tuple[list[int], dict[str, Any]]]:
    """Rows in chunks of `size`, with row-wise keyword arguments cut alike."""
    size = size or len(rows)
    return [
        (rows[i : i + size], {name: value[i : i + size] for name, value in kwargs.items()})
        for i in range(0, len(rows), size)
    ]
