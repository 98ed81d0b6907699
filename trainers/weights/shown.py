"""What a model is shown before it is trained: demonstrations of scripted experts, as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_marl_envs.core.spaces import Message
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.registry import make
from trainers.weights.chat import ChatTemplate

IGNORED = -100
"""The label that the loss of Transformers leaves out."""
Demonstration = tuple[Sequence[dict[str, Any]], str]
"""Chat messages up to where the agent speaks, as {"role", "content"}, and what the expert says."""


def demonstrations_of(
    env_ids: Sequence[str],
    n: int,
    seed: int,
    env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    conventions: Sequence[str] | None = None,
) -> list[Demonstration]:
    """`n` demonstrations of the environments' scripted experts, shared out evenly over `env_ids`.

    They come from the train split; `env_kwargs` are further arguments of `make`, for all or for
    each, and `conventions` those that are shown. Raises ValueError for no ids or not as many
    arguments, and as `make` and `experts.demonstrations.demonstrations` do.
    """
    if not env_ids:
        raise ValueError("got no env_ids, expected at least one registered id")
    each = env_kwargs or {}
    each = [each] * len(env_ids) if isinstance(each, Mapping) else each
    if len(each) != len(env_ids):
        raise ValueError(f"got {len(each)} env_kwargs, expected one for each of {list(env_ids)}")
    shown: list[Demonstration] = []
    for i, (env_id, kwargs) in enumerate(zip(env_ids, each, strict=True)):
        share = n // len(env_ids) + (i < n % len(env_ids))
        env = make(env_id, **{**kwargs, "split": "train"})
        for messages, answer in demonstrations(env, share, seed, conventions):
            shown.append(([{"role": m.role, "content": m.content} for m in messages], answer))
        env.close()
    return shown


def encoded(
    chat: ChatTemplate, messages: Sequence[Mapping[str, Any]], answer: str
) -> tuple[list[int], list[int]]:
    """Token ids and labels of one demonstration, each (T,): the answer and its end are learned.

    The prompt's ids are those that the agent will read when it plays.
    """
    prompt = chat.opening([Message(**message) for message in messages])
    spoken = [*chat.action(answer), chat.tokenizer.eos_token_id]
    return [*prompt, *spoken], [IGNORED] * len(prompt) + spoken
