"""Policies with weights by name: `tiny`, `team:FOLDER` and `model:NAME`.

The kinds of `llm_marl_envs.policies.named` that need torch. Owns what tells one set of weights from
another when an evaluation goes on.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_marl_envs.core.specs import EnvSpec
from llm_marl_envs.files.cache import fingerprint
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.policies.named import (
    DEFAULT_COMPLETION_LENGTH,
    Context,
    Sampling,
    refuse_argument,
    words_of,
)
from trainers.policies.local import LocalPolicy
from trainers.policies.token_policy import TokenPolicy
from trainers.weights.imported import model_folder
from trainers.weights.team_files import base_of, load_team, read_team_file
from trainers.weights.template_limits import TODAY
from trainers.weights.tiny import tiny_model


class SavedTeam(TokenPolicy):
    """A saved team in the seats that it was trained in.

    Attributes:
        seats: those seats.
        identity: changes when its files, its base model or the sampling do.

    Raises:
        ValueError: no saved team there, or one of another environment.
    """

    def __init__(self, folder: str, context: Context) -> None:
        described = read_team_file(folder)
        _check_environment(folder, described.get("env_id"), context)
        _compare_words(folder, context)
        sampling = context.sampling
        length = sampling.max_completion_length or described.get("max_completion_length")
        length = length or DEFAULT_COMPLETION_LENGTH
        template = {**described.get("chat_template_kwargs", {}), **sampling.template}
        super().__init__(
            load_team(folder),
            max_completion_length=length,
            temperature=sampling.at(described.get("temperature")),
            template_kwargs=template or None,
            tool_format=sampling.tool_format or described.get("tool_format", "line"),
        )
        self.seats = tuple(map(str, described["agents"]))
        self.identity = _identity("team", folder, length, self.temperature, sampling)
        self.identity += _of_calls(self.tool_format)
        self.identity += _of_date(self.today, template)
        base = Path(base_of(Path(folder), described))
        held = base.name and (base / "config.json").is_file()  # a model, not any folder
        if held and any(Path(folder).glob("*/adapter_config.json")):
            self.identity += f", base {fingerprint(base)}"


def _check_environment(folder: str, trained: str | None, context: Context) -> None:
    spec = getattr(context.env, "spec", None)
    here = spec.id if isinstance(spec, EnvSpec) else None
    if not context.transfer and here is not None and trained not in (None, here):
        raise ValueError(
            f"{folder}: this team was trained in {trained}, and {here} is asked for; its prompts, "
            "tasks or rewards may differ. Measurements take it with --transfer; in training and "
            f"play use a team of {here}"
        )


def _compare_words(folder: str, context: Context) -> None:
    """Warn where its seats are told things in other words than they learned from."""
    spec = getattr(context.env, "spec", None)
    if not isinstance(spec, EnvSpec):
        return
    here = getattr(context.env, "env_kwargs", {}).get("prompts") or {}
    trained = words_of(folder, spec.id).get("prompts", {})
    if here != trained:
        warnings.warn(
            f"{folder}: this team was trained with prompts={trained or None}, and is told things "
            f"with prompts={here or None}; give the environment the same prompts",
            stacklevel=2,
        )


def make_team(argument: str, context: Context) -> Policy:
    """`team:FOLDER`, or a folder with `team.json`."""
    return SavedTeam(argument, context)


def make_model(argument: str, context: Context) -> Policy:
    """`model:NAME`, or what `from_pretrained` takes."""
    sampling = context.sampling
    argument = model_folder(argument)
    local = LocalPolicy(
        argument,
        temperature=sampling.temperature,
        max_completion_length=sampling.length,
        template_kwargs=sampling.template or None,
        tool_format=sampling.tool_format or "line",
    )
    if Path(argument).is_dir():
        local.identity = _identity("model", argument, sampling.length, local.temperature, sampling)
    else:
        local.identity += _of_template(sampling)
    local.identity += _of_calls(sampling.tool_format or "line")
    local.identity += _of_date(local.today, sampling.template)
    return local


def make_tiny(argument: str, context: Context) -> Policy:
    """`tiny`: the embedded model, warm-started on this environment, built on first use.

    Raises:
        ValueError: an argument, or an environment without an id.
    """
    env: Any = context.env
    spec = getattr(env, "spec", None)
    refuse_argument("tiny", argument)
    if not isinstance(spec, EnvSpec):
        raise ValueError("'tiny' needs an environment with an id, whose experts it learns from")
    kwargs = {key: value for key, value in env.env_kwargs.items() if key != "split"}
    return make_model(tiny_model(env_ids=(spec.id,), env_kwargs=kwargs), context)


def _identity(kind: str, folder: str, length: int, temperature: float, sampling: Sampling) -> str:
    """What it is, wherever its folder lies and however the path to it is written."""
    asked = f"at most {length} tokens, temperature {temperature:g}"
    return f"{kind} {fingerprint(folder)}, {asked}{_of_template(sampling)}"


def _of_template(sampling: Sampling) -> str:
    variables = json.dumps(sampling.template, sort_keys=True)
    return f", template {variables}" if sampling.template else ""


def _of_date(today: str | None, named: Mapping[str, Any]) -> str:
    """The date that a chat template writes, where nobody named it: another day, other prompts."""
    return f", today {today}" if today and TODAY not in named else ""


def _of_calls(tool_format: Any) -> str:
    return "" if tool_format == "line" else f", calls {json.dumps(tool_format, sort_keys=True)}"
