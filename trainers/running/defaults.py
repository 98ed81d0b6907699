"""Settings that depend on the model, where a run file leaves them out: chosen, said and recorded.

    temperature 1: the model's own settings
    learning_rate 0.0004: LoRA adapters
    rows_per_micro_batch 16: 22.1 MiB a token of 134.5 million parameters, ...

Owns the rules. Whoever gives a setting has that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from accelerate.utils import gather_object
from transformers import GenerationConfig

from llm_marl_envs.measure.numbers.format import number, whole
from trainers.running.memory import MIB
from trainers.running.same_run import recorded_settings
from trainers.weights.chat import ChatTemplate
from trainers.weights.team_files import load_config, load_tokenizer, trusts

RATES = {"LoRA adapters": 2e-4, "all weights": 2e-5}
"""Learning rate of what is trained; docs/pretrained.md has where they come from."""
MOST_ROWS = 32
SHARE = 0.5
"""Of the free memory that the rows of one pass may take: weights and optimiser need some, too."""
LOOKED_AT = 16
"""Tasks whose prompts are measured."""
FLOAT32 = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting's value, and why."""

    value: Any
    why: str


def choices(
    given: Mapping[str, Any], models: Sequence[str], env: Any, *, lora: bool, turns: int
) -> dict[str, Choice]:
    """What is chosen for the settings that are not given, the same in every process.

    Args:
        given: settings of the trainer.
        models: folders or names of the models that learn.
        env: one copy of the environment.
        lora: whether adapters are trained.
        turns: most turns of one agent.
    """
    own = given.get("model_init_kwargs") or {}
    trust = trusts(given) or trusts(own)
    configs = [load_config(model, trust=trust) for model in models]
    chosen = {}
    if "temperature" not in given:
        chosen["temperature"] = _temperature(models)
    if "learning_rate" not in given:
        what = "LoRA adapters" if lora else "all weights"
        chosen["learning_rate"] = Choice(RATES[what], what)
    if "rows_per_micro_batch" not in given:
        each = max(map(bytes_per_token, configs))
        native = given.get("tool_format", "line") != "line"
        prompt = _longest_prompt(models, env, trust, native=native)
        chosen["rows_per_micro_batch"] = _rows(given, each, prompt, env, turns)
    return chosen


def chosen_before(checkpoint: Path, names: Iterable[str]) -> dict[str, Choice]:
    """What the run of a checkpoint has: it keeps that, whatever memory is free now."""
    trainer = recorded_settings(checkpoint)["trainer"]
    return {name: Choice(trainer[name], "as before") for name in names if name in trainer}


def bytes_per_token(config: Any) -> int:
    """About what a forward and backward pass keeps for one token in float32.

    Of each layer some 12 vectors as wide as the model and 5 as wide as its middle, and two rows of
    scores. Measured within a factor of two (tests/trainers/running/test_defaults.py).
    """
    text = config.get_text_config()
    wide = text.hidden_size
    middle = getattr(text, "intermediate_size", None) or 4 * wide
    per_layer = 12 * wide + 5 * middle
    return FLOAT32 * (text.num_hidden_layers * per_layer + 2 * text.vocab_size)


def _temperature(models: Sequence[str]) -> Choice:
    named = set()
    for model in models:
        try:
            own = GenerationConfig.from_pretrained(model)
        except OSError:  # a model without such a file
            own = GenerationConfig()
        named.add(own.temperature if own.do_sample and own.temperature else None)
    if len(named) == 1 and None not in named:
        return Choice(float(named.pop()), "the model's own generation settings")
    several = "the models name several temperatures, or not all one"
    return Choice(1.0, several if len(models) > 1 else "the model names none")


def _rows(given: Mapping[str, Any], each: int, prompt: int, env: Any, turns: int) -> Choice:
    """As many rows as fit; `each` is bytes a token, `prompt` tokens of the longest prompt."""
    tokens = (turns + _heard(env, turns)) * given.get("max_completion_length", 256) + prompt
    free = min(gather_object([_free_bytes()]))
    fit = int(SHARE * free / (each * tokens))
    rows = min(MOST_ROWS, 2 ** max(0, fit.bit_length() - 1))
    return Choice(
        rows,
        f"rows of up to {whole(tokens)} tokens, {number(each / MIB)} MiB a token, "
        f"{whole(free / MIB)} MiB free",
    )


def _longest_prompt(models: Sequence[str], env: Any, trust: bool, *, native: bool) -> int:
    """Tokens of the longest of some first prompts, whoever reads it; `native`: with schemas."""
    inner = getattr(env, "unwrapped", env)
    if not hasattr(inner, "first_words"):
        return 0
    chats = [ChatTemplate(load_tokenizer(model, trust=trust)) for model in models]
    tasks = (inner.source[i] for i in range(min(LOOKED_AT, len(inner.source))))
    sheets = inner.tool_sheets if native else {}
    openings = [opening for task in tasks for opening in inner.first_words(task).items()]
    return max(
        len(chat.opening(messages, sheets.get(agent)))
        for chat in chats
        for agent, messages in openings
    )


def _heard(env: Any, turns: int) -> int:
    """Most texts of others that one seat is shown, each as long as its own may be."""
    inner = getattr(env, "unwrapped", env)
    try:
        links = inner.links()
    except AttributeError:  # another library's
        links = {}
    except ValueError:  # they reach each other in another way
        return turns * (len(env.possible_agents) - 1)
    return max((sum(of.values()) for of in links.values()), default=0)


def _free_bytes() -> int:
    if torch.cuda.is_available():
        return torch.cuda.mem_get_info()[0]
    return psutil.virtual_memory().available
