"""Policies and teams by name, as the command line takes them.

Owns what "expert", "random", "tiny", "endpoint:URL#MODEL", a model's name and a saved team's folder
stand for, and what tells one such team from another when an evaluation goes on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_marl_envs.policies import ExpertPolicy, Policy, RandomPolicy, check_team
from llm_marl_envs.policies.endpoint import EndpointPolicy, check_url
from llm_marl_envs.policies.local import LocalPolicy, trainers_module
from llm_marl_envs.specs import EnvSpec

ENDPOINT = "endpoint:"
TEAM_FILE = "team.json"
CARD_FILE = "README.md"
"""Words about a team; whoever adds a licence to them has the same team."""
DEFAULT_COMPLETION_LENGTH = 256
_WHOLE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How models sample.

    Attributes:
        temperature: 0 is greedy.
        max_completion_length: most tokens of one action, at least 1; None takes what a saved team
            was trained with, else 256.
        template: further variables of the chat template; a saved team has those that it was
            trained with, and these come on top.

    Raises:
        ValueError: a temperature below 0 or that is not finite, or no tokens.
    """

    temperature: float = 1.0
    max_completion_length: int | None = None
    template: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature={self.temperature}: expected a number >= 0")
        if self.max_completion_length is not None and self.max_completion_length < 1:
            raise ValueError(
                f"at most {self.max_completion_length} tokens per action: expected at least 1"
            )

    def check_samples(self, samples: int) -> None:
        """Refuse several samples of a task that would all be alike.

        Raises:
            ValueError: more than one sample at temperature 0.
        """
        if self.temperature == 0 and samples > 1:
            raise ValueError(
                f"{samples} greedy samples of a task are all alike; use 1, or a temperature"
            )

    @property
    def length(self) -> int:
        """Most tokens of one action where nothing else says."""
        return self.max_completion_length or DEFAULT_COMPLETION_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTeam:
    """A team and what distinguishes it from others.

    Attributes:
        seats: agent -> policy.
        identity: agent -> a text that changes when the policy does; for the manifest.
    """

    seats: dict[str, Policy]
    identity: dict[str, str]


def named_policy(name: str, env: Any, sampling: Sampling) -> tuple[Policy, str]:
    """(policy, identity) for any seat.

    Args:
        name: "expert", "expert:<convention>", "random", "tiny" (the embedded model, warm-started on
            this environment, built on first use), "endpoint:URL" or "endpoint:URL#MODEL" (an
            OpenAI-compatible server), or a Transformers model's name or folder.
        env: one copy of the environment.
        sampling: for models.

    Raises:
        ValueError: no such model, or a name that needs more.
        ImportError: the `train` extra is missing where it is needed.
        EndpointError: the server cannot be reached.
    """
    kind, _, convention = name.partition(":")
    if name == "random":
        return RandomPolicy(), name
    if kind == "expert":
        return ExpertPolicy(env, convention or None), name
    if name.startswith(ENDPOINT):
        url, _, model = name.removeprefix(ENDPOINT).partition("#")
        check_url(url)  # before anything quotes it
        if sampling.template:
            raise ValueError(
                f"{name}: the server applies its chat template; set {[*sampling.template]} there"
            )
        served = EndpointPolicy(
            url,
            model or None,
            temperature=sampling.temperature,
            max_completion_length=sampling.length,
        )
        return served, served.identity
    if (name.startswith((".", "/", "~")) or name.count("/") > 1) and not Path(name).is_dir():
        raise ValueError(f"{name}: no such folder; expected a saved team, a model or its name")
    folder = _tiny(env) if name == "tiny" else name
    local = LocalPolicy(
        folder,
        temperature=sampling.temperature,
        max_completion_length=sampling.length,
        template_kwargs=sampling.template or None,
    )
    if not Path(folder).is_dir():
        return local, local.identity + _template_identity(sampling)
    return local, _identity("model", folder, sampling.length, sampling)


def named_team(
    name: str,
    env: Any,
    sampling: Sampling,
    *,
    partners: Mapping[str, str] | None = None,
    transfer: bool = False,
) -> NamedTeam:
    """A team by name: a saved team's folder, or one policy in every seat.

    Args:
        name: a folder with `team.json`, or a name as `named_policy` takes it.
        env: one copy of the environment.
        sampling: for models.
        partners: agent -> name of the policy in seats that the team does not play, or instead; a
            saved team's folder seats that team's member of this seat.
        transfer: allow a saved team that was trained in another environment or version.

    Raises:
        ValueError: seats that nobody plays or that are unknown, or a team of another environment.
    """
    seats: dict[str, Policy] = {}
    identity: dict[str, str] = {}
    if (Path(name) / TEAM_FILE).is_file():
        saved, print_of = _saved_team(name, env, sampling, transfer)
        seats |= saved
        identity |= dict.fromkeys(saved, print_of)
    else:
        if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
            raise ValueError(
                f"{name}: neither {TEAM_FILE} nor config.json there; expected a saved team or a "
                "Transformers model"
            )
        policy, print_of = named_policy(name, env, sampling)
        left = [agent for agent in env.possible_agents if agent not in (partners or {})]
        seats |= dict.fromkeys(left, policy)
        identity |= dict.fromkeys(left, print_of)
    for agent, partner in ((a, str(p)) for a, p in (partners or {}).items()):
        if (Path(partner) / TEAM_FILE).is_file():
            saved, print_of = _saved_team(partner, env, sampling, transfer)
            if agent not in saved:
                raise ValueError(f"{partner}: this team plays {[*saved]}, and no {agent!r}")
            seats[agent], identity[agent] = saved[agent], print_of
        else:
            seats[agent], identity[agent] = named_policy(partner, env, sampling)
    check_team(seats, env.possible_agents)
    return NamedTeam(seats=seats, identity=identity)


def _saved_team(
    folder: str, env: Any, sampling: Sampling, transfer: bool
) -> tuple[dict[str, Policy], str]:
    files = trainers_module("models.team_files", "a saved team")
    token_policy = trainers_module("models.token_policy", "a saved team")
    described = files.read_team_file(folder)
    spec = getattr(env, "spec", None)
    here = spec.id if isinstance(spec, EnvSpec) else None
    trained = described.get("env_id")
    if not transfer and here is not None and trained not in (None, here):
        raise ValueError(
            f"{folder}: this team was trained in {trained}, and {here} is asked for; its prompts, "
            "tasks or rewards may differ; say --transfer if you mean that"
        )
    length = sampling.max_completion_length or described.get("max_completion_length")
    length = length or DEFAULT_COMPLETION_LENGTH
    policy: Policy = token_policy.TokenPolicy(
        files.load_team(folder),
        max_completion_length=length,
        temperature=sampling.temperature,
        template_kwargs={**described.get("chat_template_kwargs", {}), **sampling.template} or None,
    )
    print_of = _identity("team", folder, length, sampling)
    base = Path(described.get("base") or "")
    held = base.name and (base / "config.json").is_file()  # a model, not any folder of a stranger's
    if held and any(Path(folder).glob("*/adapter_config.json")):
        print_of += f", base {fingerprint(base)}"
    return {str(agent): policy for agent in described["agents"]}, print_of


def _identity(kind: str, folder: str, length: int, sampling: Sampling) -> str:
    """What it is, wherever its folder lies and however the path to it is written."""
    asked = f"at most {length} tokens, temperature {sampling.temperature:g}"
    return f"{kind} {fingerprint(folder)}, {asked}{_template_identity(sampling)}"


def _template_identity(sampling: Sampling) -> str:
    return (
        f", template {json.dumps(sampling.template, sort_keys=True)}" if sampling.template else ""
    )


def _tiny(env: Any) -> str:
    spec = getattr(env, "spec", None)
    if not isinstance(spec, EnvSpec):
        raise ValueError("'tiny' needs an environment with an id, whose experts it learns from")
    kwargs = {key: value for key, value in env.env_kwargs.items() if key != "split"}
    tiny = trainers_module("models.tiny", "'tiny'")
    return tiny.tiny_model(env_ids=(spec.id,), env_kwargs=kwargs)


def fingerprint(folder: str | Path) -> str:
    """A short hash of a folder's files, its cards aside: names, sizes, contents.

    Of files above 2 MiB the first and last MiB count: training changes every weight, and reading
    all of a large model would take longer than many an evaluation.
    """
    digest = hashlib.sha256()
    files = (p for p in Path(folder).rglob("*") if p.is_file() and p.name != CARD_FILE)
    for path in sorted(files):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_WHOLE_BYTES))
            file.seek(max(file.tell(), size - _WHOLE_BYTES))
            digest.update(file.read())
    return f"sha256 {digest.hexdigest()[:16]}"
