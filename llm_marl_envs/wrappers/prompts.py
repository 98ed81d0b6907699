r"""What a seat is told first, in other words: `make(id, prompts={...})`, or `Prompts(env, ...)`.

    make("coop_coding-v0", prompts={
        "main": "{prompt}\\n\\nExample of a program:\\ndef solve(xs):\\n    return len(xs)",
        "helper": "Write the Python function aux. {task}\\nCode only.",
    })

A text takes the place of the last message that a seat is told before its first action. Names in
braces are filled in by the task: `{prompt}` is the message as the environment has it, and an
environment may have further ones (`TextEnv.prompt_words`; here `{task}`). A brace itself is
doubled: `{{`. A key is a seat, or a role: a seat's name without its number.

What follows later in an episode, rewards, bounds and scripted experts stay as they are. So a text
that leaves out what the seat must know makes the task unsolvable, and a text that tells one seat's
task to another is not possible.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.experts import text_env
from llm_marl_envs.core.seats import by_seat
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task

PROMPT = "prompt"


def Prompts(env: Any, texts: Mapping[str, str]) -> Any:  # noqa: N802 - a wrapper, as `Channel`
    """The environment, whose seats are told these texts; see the module.

    Args:
        env: an environment of this library, of either form, also with PettingZoo's wrappers around.
            It is changed in its place.
        texts: seat or role -> text.

    Raises:
        ValueError: no such seat or role, or a name in braces that nothing fills in.
        TypeError: another library's environment, or a text that is none.
    """
    inner = text_env(env, "prompts")
    if not isinstance(texts, Mapping):
        raise TypeError(f"prompts={texts!r:.80}: expected a dict seat or role -> text")
    names = [PROMPT, *inner.prompt_words(inner.source[0]).get(inner.possible_agents[0], {})]
    for key, text in texts.items():
        _check(key, text, names)
    inner.rewords = partial(_reworded, inner, by_seat("prompts", inner.possible_agents, texts))
    for layer in (env, inner):
        layer.env_kwargs = {**getattr(layer, "env_kwargs", {}), "prompts": dict(texts)}
    return env


def _check(key: str, text: Any, names: list[str]) -> None:
    if not isinstance(text, str):
        raise TypeError(f"prompts, {key}={text!r:.80}: expected a text")
    try:
        parts = [*string.Formatter().parse(text)]
    except ValueError as error:
        raise ValueError(
            f"prompts, {key}: {error}; write a brace itself as {{{{ or }}}}"
        ) from error
    for _, name, form, conversion in parts:
        if name is not None and (name not in names or form or conversion):
            raise ValueError(
                f"prompts, {key}: {{{name:.80}}} is filled in by nothing; expected names among "
                f"{names}, and a brace itself as {{{{ or }}}}"
            )


def _reworded(
    env: TextEnv, texts: Mapping[str, str], task: Task, messages: Mapping[str, tuple[Message, ...]]
) -> dict[str, tuple[Message, ...]]:
    """What each seat is told of a task, in the words that were asked for."""
    words = env.prompt_words(task)
    reworded = dict(messages)
    for agent, text in texts.items():
        *before, last = messages[agent]
        content = text.format(**{**words.get(agent, {}), PROMPT: last.content})
        reworded[agent] = (*before, replace(last, content=content))
    return reworded
