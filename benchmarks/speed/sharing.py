"""(g) Prompts that rows share: an update beside the bare limit of whole rows, and of shared ones.

    python -m benchmarks.speed.sharing [--groups 8] [--modes shared adapters] [--repetitions 5]

A model of 17 million parameters answers 32 tokens; its prompt is half as long to eight times as
long. Two agents are told different things, so a task has two prompts. "Whole rows" is the bare
limit of `limit.py`: plain transformers, each row whole. "Shared rows" is a bare loop that reads
each prompt once and lets the rows go on from its repeated cache, gradients included. "Without
sharing" is this trainer with `share_prompts=False`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from peft import get_peft_model
from torch.nn.functional import cross_entropy
from transformers import DynamicCache

from benchmarks.speed import toy
from benchmarks.speed.limit import MODES, sampled
from benchmarks.speed.record import REPETITIONS, Row, keep, ratio
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task

SIZES = toy.SIZES.changed(
    vocab_size=4000, hidden_size=384, num_layers=6, num_heads=6, intermediate_size=1536
)
ANSWER = 32
RATIOS = (0.5, 2, 4, 8)
"""Prompt to answer."""
GROUPS = (4, 8, 16)
AGENTS = 2


class Told(toy.Talk):
    """A talk with a long opening, another one for each agent."""

    def __init__(self, *, told: Sequence[str], render_mode: str | None = None) -> None:
        super().__init__(agents=len(told), render_mode=render_mode)
        self.told = dict(zip(self.possible_agents, told, strict=True))

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """What each agent is told."""
        return {agent: (Message("user", text),) for agent, text in self.told.items()}


def openings(tokenizer: Any, length: int) -> tuple[list[str], torch.Tensor]:
    """For each agent a text, and its prompt of so many ids: (agents, length)."""
    words, texts, prompts = toy.words(4000), [], []
    for agent in range(AGENTS):
        text = words[agent]
        for word in words[100 * agent :]:
            if len(_ids(tokenizer, f"{text} {word}")) > length:
                break
            text = f"{text} {word}"
        while len(ids := _ids(tokenizer, text)) < length:
            text += "."
        texts.append(text)
        prompts.append(ids)
    return texts, torch.tensor(prompts)


def _ids(tokenizer: Any, text: str) -> list[int]:
    chat = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)[
        "input_ids"
    ]


def bare(model: Any, tokenizer: Any, prompts: torch.Tensor, group: int, *, shared: bool) -> Any:
    """One `generate`, one forward and one backward pass, as a job; rows whole or shared."""
    rows = prompts.repeat_interleave(group, 0)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model

    def read() -> Any:
        cache: Any = DynamicCache(config=base.config)
        model(input_ids=prompts[:, :-1], past_key_values=cache, use_cache=True, logits_to_keep=1)
        for layer in cache.layers:
            layer.keys = layer.keys.repeat_interleave(group, 0)
            layer.values = layer.values.repeat_interleave(group, 0)
        return cache

    def job() -> None:
        model.eval()
        with torch.no_grad():
            cache = read() if shared else None
        ids = sampled(model, tokenizer, rows, ANSWER, past_key_values=cache)
        model.train()
        begun = rows.shape[1]
        left = ids[:, begun - 1 :] if shared else ids
        options: dict[str, Any] = {"past_key_values": read()} if shared else {}
        kept = ids.shape[1] - begun + 1
        logits = model(input_ids=left, logits_to_keep=kept, **options).logits[:, :-1]
        cross_entropy(logits.flatten(0, 1), ids[:, begun:].flatten()).backward()
        model.zero_grad(set_to_none=True)

    return job


def cell(mode: str, group: int, times: float, repetitions: int) -> Row:
    """One row of the table."""
    model, tokenizer = toy.model_and_tokenizer(SIZES)
    texts, prompts = openings(tokenizer, round(times * ANSWER))
    models = [model]
    if mode == "adapters":
        models = [get_peft_model(model, toy.lora())]
    if mode == "separate":
        models = [model, toy.model_and_tokenizer(SIZES)[0]]
    each = prompts.chunk(len(models))

    def limit(shared: bool) -> Callable[[], object]:
        jobs = [
            bare(one, tokenizer, part, group, shared=shared)
            for one, part in zip(models, each, strict=True)
        ]
        return lambda: [job() for job in jobs]

    jobs = {"whole": limit(False), "shared": limit(True)}
    settings: dict[str, Any] = {
        "sizes": SIZES,
        "env": partial(Told, told=texts),
        "num_generations": group,
        "max_completion_length": ANSWER,
    }
    seconds = toy.measured(mode, jobs, repetitions, **settings)
    before = toy.measured(
        mode, {"whole": jobs["whole"]}, repetitions, share_prompts=False, **settings
    )
    return {
        "weights": mode,
        "group": group,
        "prompt : answer": times,
        "s per update": median(seconds["update"]),
        "share of whole rows": ratio(seconds["whole"], seconds["update"]),
        "share of shared rows": ratio(seconds["shared"], seconds["update"]),
        "without sharing, share of whole rows": ratio(before["whole"], before["update"]),
        "raw": {**seconds, "without": before},
    }


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--groups", nargs="+", type=int, default=GROUPS)
    options = parser.parse_args()
    for group in options.groups:
        rows = [
            cell(mode, group, times, options.repetitions)
            for mode in options.modes
            for times in RATIOS
        ]
        keep(f"sharing_{group}", rows)


if __name__ == "__main__":
    main()
