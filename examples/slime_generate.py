"""slime: both seats learn; give `--custom-generate-function-path slime_generate.generate`."""

from __future__ import annotations

import copy
import json
import urllib.request
from collections.abc import Sequence
from functools import cache
from typing import Any

from slime.utils.processing_utils import load_tokenizer
from slime.utils.types import Sample

from llm_marl_envs.bridges.harness import play_episode
from llm_marl_envs.core.records import Request, Response, Turn
from llm_marl_envs.policies.control_strings import without_control

ENV = "coop_writing_tldr-v0"
SEATS = ("brief_0", "detailed_0")
tokenizer_of = cache(load_tokenizer)


class Router:
    """Plays seats with the model behind slime's router; its answers hold what was sampled."""

    def __init__(self, args: Any, sampling_params: dict[str, Any]) -> None:
        self.url = f"http://{args.sglang_router_ip}:{args.sglang_router_port}/generate"
        self.tokenizer = tokenizer_of(args.hf_checkpoint, trust_remote_code=True)
        self.sampling = sampling_params

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One answer per request; all are asked for at once."""
        prompts = [self.ids(request) for request in requests]
        body = {"input_ids": prompts, "sampling_params": self.sampling, "return_logprob": True}
        asked = urllib.request.Request(self.url, json.dumps(body).encode())
        asked.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(asked) as answer:
            found = json.load(answer)
        return [self.response(*pair) for pair in zip(prompts, found, strict=True)]

    def ids(self, request: Request) -> list[int]:
        """The chat as tokens; what agents wrote holds no control strings."""
        chat = [
            {"role": m.role, "content": without_control(m.content, own=m.role == "assistant")}
            for m in request.messages
        ]
        how = {"add_generation_prompt": True, "tokenize": True, "return_dict": False}
        return self.tokenizer.apply_chat_template(chat, **how)

    def response(self, prompt: list[int], answer: dict[str, Any]) -> Response:
        """What SGLang answered, with its tokens and their log-probs."""
        sampled = answer["meta_info"]["output_token_logprobs"]
        ids = tuple(token for _, token, *_ in sampled)
        return Response(
            text=self.tokenizer.decode(ids, skip_special_tokens=True),
            prompt_ids=tuple(prompt),
            completion_ids=ids,
            logprobs=tuple(logprob for logprob, *_ in sampled),
            cut=answer["meta_info"]["finish_reason"]["type"] == "length",
        )


async def generate(
    args: Any, sample: Sample, sampling_params: dict[str, Any], evaluation: bool = False
) -> list[Sample]:
    """An episode of the task named in the row: one sample per turn, with its seat's return."""
    seats: dict[str, Any] = dict.fromkeys(SEATS, Router(args, sampling_params))
    episode = await play_episode(ENV, sample.metadata["task"], seats=seats)
    return [row(sample, turn, episode.undiscounted_return(turn.agent)) for turn in episode.turns]


def row(sample: Sample, turn: Turn, reward: float) -> Sample:
    """A turn as slime learns from it: the last `response_length` tokens were sampled."""
    said, made = turn.response, copy.copy(sample)
    prompt, ids, logprobs = said.prompt_ids or (), said.completion_ids or (), said.logprobs or ()
    made.tokens, made.response_length = [*prompt, *ids], len(ids)
    made.loss_mask, made.rollout_log_probs = [1] * len(ids), [*logprobs]
    made.response, made.reward = said.text, reward
    made.status = Sample.Status.TRUNCATED if said.cut else Sample.Status.COMPLETED
    made.rollout_id = sample.index if sample.rollout_id is None else sample.rollout_id
    made.metadata = {**sample.metadata, "seat": turn.agent}
    return made
