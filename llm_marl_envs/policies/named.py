"""Policies and teams by name: the one resolver for training, evaluation, play and notebooks.

    expert  expert:last  agreed  random  silent  tiny  endpoint:http://localhost:8000#name
    runs/demo/team  hub:me/coders@main  Qwen/Qwen3-0.6B  ./my_model  my_module:my_policy

A name is `KIND` or `KIND:ARGUMENT`, where a kind comes through the door `llm_marl_envs.policies` or
from `register_policy`; or `module:function` or `module:function:ARGUMENT`; or a saved team's folder
(kind `team`), or `hub:` and the name of one on the Hub; or a Transformers model's name or folder
(kind `model`). A kind is a function (argument, context) -> policy. The policy may say more of
itself: `identity`, a text that changes when it does, and `seats`, the only ones that it plays.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_marl_envs.core.checks import check_maker, refuse_other, suggestion
from llm_marl_envs.core.plugins import REFERENCE, Registry
from llm_marl_envs.core.specs import spec
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.hub.team_repository import TEAM_FILE, team_folder
from llm_marl_envs.policies.base import Policy, check_team
from llm_marl_envs.policies.endpoint import EndpointPolicy, at_endpoint
from llm_marl_envs.policies.expert import AgreedPolicy, ExpertPolicy
from llm_marl_envs.policies.json_server import check_url
from llm_marl_envs.policies.scripted import RandomPolicy, SilentPolicy
from llm_marl_envs.tools.native import FORMATS, ToolFormat

DEFAULT_COMPLETION_LENGTH = 256
DEFAULT_TEMPERATURE = 1.0
POLICIES = Registry("llm_marl_envs.policies", "policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How models sample.

    Attributes:
        temperature: 0 is greedy; None takes what a saved team was trained with, or a model's own
            settings name, else 1.
        max_completion_length: most tokens of one action, at least 1; None takes what a saved team
            was trained with, else 256.
        template: further variables of the chat template; a saved team has those that it was
            trained with, and these come on top.
        tool_format: how models call tools, "line" or "native"; None takes what a saved team was
            trained with, else lines.

    Raises:
        ValueError: a temperature below 0 or that is not finite, no tokens, or no such format.
    """

    temperature: float | None = None
    max_completion_length: int | None = None
    template: Mapping[str, Any] = field(default_factory=dict)
    tool_format: ToolFormat | None = None

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature}: expected a number >= 0")
        refuse_other("tool_format", self.tool_format, (None, *FORMATS))
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
                f"{samples} greedy samples of a task are all alike but for what chance deals; use "
                "1 with several seeds, or a temperature"
            )

    def at(self, own: float | None = None) -> float:
        """The temperature of a policy whose own is that."""
        chosen = self.temperature if self.temperature is not None else own
        if chosen is None:
            return DEFAULT_TEMPERATURE
        if not isinstance(chosen, (int, float)) or not 0 <= chosen < math.inf:
            raise ValueError(
                f"temperature {chosen!r:.200} of a saved model: expected a number >= 0"
            )
        return chosen

    @property
    def length(self) -> int:
        """Most tokens of one action where nothing else says."""
        return self.max_completion_length or DEFAULT_COMPLETION_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a policy is made for.

    Attributes:
        env: one copy of the environment.
        sampling: for models.
        transfer: allow a saved team that was trained in another environment or version.
    """

    env: Any
    sampling: Sampling = field(default_factory=Sampling)
    transfer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTeam:
    """A team and what distinguishes it from others.

    Attributes:
        seats: agent -> policy.
        identity: agent -> a text that changes when the policy does; for the manifest.
    """

    seats: dict[str, Policy]
    identity: dict[str, str]

    @property
    def temperature(self) -> float | dict[str, float]:
        """Of its models, agent -> where they differ; 1 without one."""
        own = {agent: getattr(policy, "temperature", None) for agent, policy in self.seats.items()}
        temperatures = {agent: float(value) for agent, value in own.items() if value is not None}
        if len({*temperatures.values()}) > 1:
            return temperatures
        return next(iter(temperatures.values()), DEFAULT_TEMPERATURE)


def register_policy(name: str, make: Callable[[str, Context], Policy]) -> None:
    """Add a kind of policy in this process.

    Raises:
        ValueError: the name is taken.
    """
    POLICIES.add(name, make)


def named_policy(name: str, context: Context) -> Policy:
    """The policy of a name.

    Raises:
        ValueError: no such policy, or a name that needs more.
        TypeError: what the name stands for makes no policy.
        ImportError: what it needs is not installed; says how to install it.
        EndpointError: a server cannot be reached.
    """
    kind, argument = _parts(name)
    make = POLICIES.get(kind)
    expected = "a function (argument, context) -> policy"
    check_maker(f"policy {name!r}", make, (argument, context), expected)
    policy = make(argument, context)
    if not isinstance(policy, Policy):
        raise TypeError(
            f"policy {name!r:.200}: expected an object with act(requests), got "
            f"{type(policy).__name__}"
        )
    return policy


def check_name(name: str) -> None:
    """Refuse a name that no policy can have; none is made.

    Raises:
        ValueError: as `named_policy`.
    """
    _parts(name)


def words_of(team: str, env_id: str) -> dict[str, Any]:
    """The prompts that a saved team was trained with in this environment, for `make`; else nothing.

    Raises:
        ValueError: its `team.json` is damaged.
    """
    path = Path(team_folder(team)) / TEAM_FILE
    about = read_json(path) if os.path.isfile(path) else {}
    kwargs = about.get("env_kwargs")
    if about.get("env_id") != spec(env_id).id or not isinstance(kwargs, dict):
        return {}
    return {"prompts": kwargs["prompts"]} if kwargs.get("prompts") else {}


def _parts(name: str) -> tuple[str, str]:
    """Kind and argument; a saved team in a folder that is called like a kind is that team."""
    name = team_folder(name)
    path = Path(name)
    if os.path.isfile(path / TEAM_FILE):  # False of what is no path, as it is too long
        return "team", name
    kind, _, argument = name.partition(":")
    if kind in POLICIES:
        return kind, argument
    if os.path.isdir(path):
        if (path / "config.json").is_file():
            return "model", name
        inside = path / "team"
        meant = f"; did you mean {inside}?" if (inside / TEAM_FILE).is_file() else ""
        raise ValueError(
            f"{name}: neither {TEAM_FILE} nor config.json there; expected a saved team or a "
            f"Transformers model{meant}"
        )
    function, _, own = argument.partition(":")
    if REFERENCE.fullmatch(f"{kind}:{function}"):
        return f"{kind}:{function}", own
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ValueError(f"{name:.200}: no such folder; expected a saved team, a model or its name")
    hint = "" if "/" in name else suggestion(name, POLICIES.names())
    if hint:
        raise ValueError(f"no policy {name!r:.200}{hint}")
    return "model", name


def identity_of(policy: Policy) -> str:
    """A text that changes when the policy does, as far as the policy knows it."""
    return str(getattr(policy, "identity", type(policy).__name__))


def named_team(name: str, context: Context, partners: Mapping[str, str] | None = None) -> NamedTeam:
    """A team by name: a policy in every seat that it plays, and partners in others.

    Args:
        name: as `named_policy` takes it.
        context: what it is made for.
        partners: agent -> name of the policy in seats that the team does not play, or instead; a
            saved team's folder seats that team's member of this seat.

    Raises:
        ValueError: seats that nobody plays or that are unknown, or a team of another environment.
    """
    policy = named_policy(name, context)
    others = named_partners(partners or {}, context)
    played = getattr(policy, "seats", None)
    if played is None:
        played = [agent for agent in context.env.possible_agents if agent not in others]
    seats = {**dict.fromkeys(played, policy), **others}
    check_team(seats, context.env.possible_agents)
    identity = {agent: identity_of(player) for agent, player in seats.items()}
    return NamedTeam(seats=seats, identity=identity)


def named_partners(names: Mapping[str, str], context: Context) -> dict[str, Policy]:
    """Agent -> policy; a name that stands twice is one policy.

    Raises:
        ValueError: a saved team that does not play the seat, or as `named_policy`.
    """
    made = {name: named_policy(name, context) for name in dict.fromkeys(map(str, names.values()))}
    for agent, name in names.items():
        played = getattr(made[str(name)], "seats", None)
        if played is not None and agent not in played:
            raise ValueError(f"{name:.200}: this team plays {[*played]}, and no {agent!r:.200}")
    return {agent: made[str(name)] for agent, name in names.items()}


def seated(team: Mapping[str, Policy | str], context: Context) -> dict[str, Policy]:
    """A team in which some policies are named; errors as `named_partners`."""
    names = {agent: player for agent, player in team.items() if isinstance(player, str)}
    policies: dict[str, Any] = {**team, **named_partners(names, context)}
    return policies


def refuse_argument(kind: str, argument: str) -> None:
    """Raise `ValueError` where a kind that takes no argument got one."""
    if argument:
        raise ValueError(
            f"policy '{kind}:{argument:.200}': '{kind}' takes no argument; say '{kind}'"
        )


# -- kinds that need no weights --------------------------------------------------------------------
def make_random(argument: str, context: Context) -> Policy:
    """`random`: random printable text.

    Raises:
        ValueError: an argument.
    """
    refuse_argument("random", argument)
    return RandomPolicy()


def make_silent(argument: str, context: Context) -> Policy:
    """`silent`: nothing, at every turn.

    Raises:
        ValueError: an argument.
    """
    refuse_argument("silent", argument)
    return SilentPolicy()


def make_expert(argument: str, context: Context) -> Policy:
    """`expert` or `expert:CONVENTION`: the environment's scripted expert."""
    return ExpertPolicy(context.env, argument or None)


def make_agreed(argument: str, context: Context) -> Policy:
    """`agreed`: the environment's scripted expert in each task's first convention.

    Raises:
        ValueError: an argument.
    """
    refuse_argument("agreed", argument)
    return AgreedPolicy(context.env)


def make_endpoint(argument: str, context: Context) -> Policy:
    """`endpoint:URL` or `endpoint:URL#MODEL`: an OpenAI-compatible server, see `at_endpoint`.

    Raises:
        ValueError: no such URL, or variables of a chat template, which the server applies.
        EndpointError: the server cannot be reached.
    """
    return _endpoint("endpoint", argument, context, token_ids=False)


def make_vllm(argument: str, context: Context) -> Policy:
    """`vllm:URL` or `vllm:URL#MODEL`: a server that sends token ids and log-probs, too.

    Raises:
        ValueError: as `make_endpoint`.
        EndpointError: as `make_endpoint`.
    """
    return _endpoint("vllm", argument, context, token_ids=True)


def _endpoint(kind: str, argument: str, context: Context, *, token_ids: bool) -> EndpointPolicy:
    url, model, options = at_endpoint(argument)
    check_url(url)  # before anything quotes it
    sampling = context.sampling
    if sampling.template:
        raise ValueError(
            f"{kind}:{argument:.200}: the server applies its chat template; set "
            f"{[*sampling.template]} there"
        )
    return EndpointPolicy(
        url,
        model,
        temperature=sampling.at(),
        options=options,
        max_completion_length=sampling.length,
        token_ids=token_ids,
        tool_format=sampling.tool_format or "line",
    )
