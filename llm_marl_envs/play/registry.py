"""From an id to an environment: `make`, `make_vec`, `env_factory`.

Imports an environment, and what it needs, when one is made. What there is stands in `specs.py`.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec, turn_based_aec_to_parallel

from llm_marl_envs.core.checks import check_types, refuse_unknown
from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.plugins import REFERENCE, from_reference
from llm_marl_envs.core.specs import APIS, EnvSpec, spec
from llm_marl_envs.play.vector import VectorTextEnv

if TYPE_CHECKING:
    from llm_marl_envs.policies.base import Policy

# The import that proves that an extra is installed.
EXTRA_IMPORTS = {
    "train": "trl",
    "eval": "evaluate",
    "notebooks": "nbclient",
    "serve": "uvicorn",
}


def make(
    env_id: str,
    *,
    api: str | None = None,
    single_seat: bool = False,
    pioneer_observer: bool = False,
    channel: Mapping[str, Any] | None = None,
    prompts: Mapping[str, str] | None = None,
    tools: Mapping[str, Any] | None = None,
    memory: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Make an environment.

    >>> env = make("coop_coding-v0")

    Args:
        env_id: a registered id, without `-vN` the newest version; or "module:Class".
        api: "parallel" or "aec"; the environment's native form where None.
        single_seat: put one agent behind all seats, see `wrappers.single_seat`; natively parallel.
        pioneer_observer: two agents play the task one after the other, the second sees what the
            first wrote, see `wrappers.pioneer_observer`; natively AEC.
        channel: who hears whom, and what that costs, see `wrappers.channel`; None: talk is free.
        prompts: seat or role -> what it is told first, see `wrappers.prompts`; None: as written.
        tools: seat or role -> tools that it may call, see `wrappers.tools`; None: it calls none.
        memory: when chats are summed up, see `wrappers.memory`; None: seats forget nothing.
        kwargs: arguments of the environment; its documentation lists them.

    Returns:
        A PettingZoo `ParallelEnv` or `AECEnv` with `.spec` set.

    Raises:
        ValueError: unknown id, api or argument; the message names near ids or accepted arguments.
        TypeError: an argument is missing, or the entry point returned no such environment.
        ImportError: the environment needs an extra; the message names it.
    """
    chosen = spec(env_id)
    if api not in (None, *APIS):
        raise ValueError(f"api={api!r:.200}: expected None or one of {APIS}")
    env = _created(chosen, kwargs)
    form = _form(chosen, env)
    seats = {"single_seat": single_seat, "pioneer_observer": pioneer_observer}
    check_types("", seats, dict.fromkeys(seats, bool))
    kwargs |= {flag: True for flag, value in seats.items() if value}
    if prompts is not None:  # one writer for all seats is told what they are told
        kwargs["prompts"] = _changed(env, "prompts", prompts)
    env, form = _seated(env, form, **seats)
    layers = {"tools": tools, "memory": memory, "channel": channel}
    for name, options in layers.items():
        if options is not None:
            kwargs[name] = _changed(env, name, options)
    forms = [env]
    if api not in (None, form):
        convert: Any = parallel_to_aec if api == "aec" else turn_based_aec_to_parallel
        forms.append(convert(env))
        kwargs["api"] = api
    for layer in forms:  # a rollout plays what stands inside the parallel form of a debate
        layer.spec = chosen
        layer.env_kwargs = _recorded(kwargs)
    return forms[-1]


def _created(chosen: EnvSpec, kwargs: Mapping[str, Any]) -> Any:
    """The environment itself, with nothing around it."""
    _check_extras(chosen)
    create = load_entry_point(chosen)
    merged = {**chosen.kwargs, **kwargs}
    _check_kwargs(chosen, create, merged)
    return create(**merged)


def _recorded(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as records keep them: numbers of numpy as Python's."""
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in kwargs.items()}


def _check_extras(chosen: EnvSpec) -> None:
    for extra in chosen.extras:
        if importlib.util.find_spec(EXTRA_IMPORTS.get(extra, extra)) is None:
            raise Extra(extra, chosen.id).missing


def make_recorded(env_id: str, env_kwargs: Mapping[str, Any], *, allow_code: bool = False) -> Any:
    """The environment that a record names; a record is data, and may be anybody's.

    So its id must be a registered one, and no argument may name a program, a model or a server. Its
    `tasks` may name a file or a dataset, which is read.

    Args:
        env_id: as the record has it.
        env_kwargs: its arguments.
        allow_code: take whatever `make` takes: the record is your own.

    Raises:
        ValueError: the record names code; or as `make`.
    """
    named = [env_id] if REFERENCE.fullmatch(str(env_id)) else []
    tools = env_kwargs.get("tools") or {}
    values = [value for key, value in env_kwargs.items() if key != "tasks"]
    for names in tools.values() if isinstance(tools, Mapping) else [tools]:
        values += names if isinstance(names, (list, tuple)) else [names]
    named += [value for value in values if isinstance(value, str) and ":" in value]
    if named and not allow_code:
        raise ValueError(
            f"a record of {env_id!r:.80} names {named[0]!r:.80}, which is not in this library: to "
            "make that environment could run any program; if you trust the file, say allow_code="
            "True, or make the environment yourself"
        )
    return make(env_id, **env_kwargs)


def _seated(env: Any, form: str, *, single_seat: bool, pioneer_observer: bool) -> tuple[Any, str]:
    """An environment with the seats that were asked for, and its form."""
    if single_seat:
        from llm_marl_envs.wrappers import SingleSeat

        env, form = SingleSeat(env), "parallel"
    if pioneer_observer:
        from llm_marl_envs.wrappers import PioneerObserver

        env, form = PioneerObserver(env), "aec"
    return env, form


def _changed(env: Any, name: str, options: Any) -> dict[str, Any]:
    """Put a wrapper of `wrappers` into an environment; its options, as JSON has them."""
    from llm_marl_envs.wrappers import Channel, Memory, Prompts, Tools

    if not isinstance(options, Mapping):
        raise TypeError(f"{name}={options!r:.80}: expected a dict")
    if odd := [key for key in options if not isinstance(key, str)]:
        raise TypeError(f"{name}: expected texts as keys, got {odd[0]!r:.80}")
    if name in ("memory", "channel"):
        env = {"memory": Memory, "channel": Channel}[name](env, **options)
    else:
        env = {"prompts": Prompts, "tools": Tools}[name](env, options)
    return env.env_kwargs[name]


def _form(chosen: EnvSpec, env: Any) -> str:
    """The form of an environment, "parallel" or "aec".

    Raises:
        TypeError: it has another one than it was registered with, or none of them.
    """
    forms = {"parallel": ParallelEnv, "aec": AECEnv}
    for api, native in forms.items():
        if chosen.api in (None, api) and isinstance(env, native):
            return api
    expected = " or ".join(forms[api].__name__ for api in forms if chosen.api in (None, api))
    raise TypeError(
        f"{chosen.id}: the entry point returned {type(env).__name__}, which is no {expected}; "
        "register it with the `api` it has"
    )


def make_vec(env_id: str, n: int, **kwargs: Any) -> VectorTextEnv:
    """`n` copies of a parallel environment that step together; see `vector.VectorTextEnv`.

    Raises:
        ValueError: n < 1, or as `make`.
    """
    if n < 1:
        raise ValueError(f"n={n}: expected at least 1 copy")
    return VectorTextEnv([make(env_id, api="parallel", **kwargs) for _ in range(n)])


def env_factory(env: Any) -> Callable[[], Any]:
    """A function that returns fresh copies of an environment.

    Args:
        env: a registered id, a function without arguments that makes the environment, or a
            PettingZoo environment (copied with `copy.deepcopy`).

    Raises:
        TypeError: none of these, or an environment that cannot be copied.
    """
    if isinstance(env, str):
        return lambda: make(env)
    if hasattr(env, "possible_agents") and not isinstance(env, type):
        try:
            copy.deepcopy(env)
        except (TypeError, AttributeError, NotImplementedError) as error:
            raise TypeError(
                f"{type(env).__name__} cannot be copied ({error}); pass a function that makes it"
            ) from error
        return lambda: copy.deepcopy(env)
    if callable(env):
        return env
    raise TypeError(
        f"env: expected an id, a function that makes an environment, or a PettingZoo environment, "
        f"got {type(env).__name__}"
    )


def load_entry_point(chosen: EnvSpec) -> Callable[..., Any]:
    """The callable behind `entry_point`, imported now.

    Raises:
        ImportError: the module, or the name in it, does not exist.
        TypeError: it is nothing to call.
    """
    if not isinstance(chosen.entry_point, str):
        return chosen.entry_point
    try:
        target = from_reference(chosen.entry_point)
    except ImportError as error:
        raise ImportError(f"{chosen.id:.200}: {error!s:.400}") from error
    other = inspect.isclass(target) and not issubclass(target, (ParallelEnv, AECEnv))
    if other or not callable(target):  # seen before anything is called
        raise TypeError(
            f"{chosen.id}: expected a PettingZoo environment's class, or a function that makes "
            f"one, got {target!r:.80}"
        )
    return target


def _check_kwargs(chosen: EnvSpec, create: Callable[..., Any], kwargs: Mapping[str, Any]) -> None:
    parameters = inspect.signature(create).parameters
    if kwargs:  # hints cost more than the rest of making a copy
        check_types(f"{chosen.id}, arguments", kwargs, _hints(create))
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    missing = [
        name
        for name, p in parameters.items()
        if p.default is p.empty and p.kind not in variable and name not in kwargs
    ]
    if missing:
        raise TypeError(f"{chosen.id} needs the arguments {missing}")
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    listed = f"`llm-marl spec {chosen.id}`"
    refuse_unknown(f"{chosen.id}, arguments", kwargs, parameters, listed=listed)


def _hints(create: Callable[..., Any]) -> dict[str, Any]:
    """Argument -> its type; empty where the types can be named by a type checker alone."""
    try:
        return typing.get_type_hints(create.__init__ if inspect.isclass(create) else create)
    except (NameError, TypeError, AttributeError):
        return {}


def make_gym(
    env_id: str, partners: Mapping[str, Policy | str] | None = None, **kwargs: Any
) -> gymnasium.Env[Any, Any]:
    """What `gymnasium.make("llm_marl/<id>")` gives: one seat, in text.

    Args:
        env_id: as `make`.
        partners: agent -> policy of all seats but one; without them one agent plays all seats.
        kwargs: as `make`.

    Raises:
        ValueError: as `make`, `Partners` and `GymSeat`.
    """
    from llm_marl_envs.wrappers import GymSeat, Partners

    if partners is None:
        return GymSeat(make(env_id, single_seat=True, **kwargs))
    return GymSeat(Partners(make(env_id, **kwargs), partners))


def make_parallel(env_id: str, **kwargs: Any) -> Any:
    """`make(..., api="parallel")`: the entry point in PettingZoo's parallel registry."""
    return make(env_id, api="parallel", **kwargs)


def make_aec(env_id: str, **kwargs: Any) -> Any:
    """`make(..., api="aec")`: the entry point in PettingZoo's AEC registry."""
    return make(env_id, api="aec", **kwargs)
