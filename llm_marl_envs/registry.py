"""From an id to an environment: `make`, `make_vec`, `register`, `spec`, `list_envs`.

Owns the reading of `envs_registry.yaml` (the only list of environments), ids and their versions.
Imports an environment, and PettingZoo, only when something is made. `mirror.py` shows the ids to
PettingZoo.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from llm_marl_envs.checks import check_types, refuse_unknown, suggestion
from llm_marl_envs.mirror import mirror

if TYPE_CHECKING:
    from llm_marl_envs.vector import VectorTextEnv

APIS = ("parallel", "aec")
ID_PATTERN = re.compile(r"[a-z0-9_]+-v\d+")
ENTRY_POINT_PATTERN = re.compile(r"[\w.]+:\w+")
FIELDS = {"entry_point", "api", "kwargs", "extras", "agents", "summary"}
# The import that proves that an extra is installed.
EXTRA_IMPORTS = {
    "train": "trl",
    "eval": "evaluate",
    "notebooks": "nbclient",
    "serve": "uvicorn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """One registered environment.

    Attributes:
        id: `name-vN`.
        entry_point: "module:Class", or a callable that returns the environment.
        api: the native form, "parallel" or "aec".
        kwargs: defaults passed to the entry point.
        extras: extras of this distribution that it needs.
        agents: its seats.
        summary: one line.
    """

    id: str
    entry_point: str | Callable[..., Any]
    api: str = "parallel"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    summary: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not ID_PATTERN.fullmatch(self.id):
            raise ValueError(f"environment id {self.id!r}: expected lower case `name-vN`")
        if isinstance(self.entry_point, str):
            if not ENTRY_POINT_PATTERN.fullmatch(self.entry_point):
                raise ValueError(
                    f"{self.id}: entry_point {self.entry_point!r}: expected 'module:Class'"
                )
        elif not callable(self.entry_point):
            raise TypeError(
                f"{self.id}: entry_point: expected 'module:Class' or a callable, "
                f"got {type(self.entry_point).__name__}"
            )
        if self.api not in APIS:
            raise ValueError(f"{self.id}: api {self.api!r}: expected one of {APIS}")

    @property
    def name(self) -> str:
        """The id without its version."""
        return self.id.rpartition("-v")[0]

    @property
    def version(self) -> int:
        """N of `-vN`."""
        return int(self.id.rpartition("-v")[2])


def registry_file() -> Path:
    """`envs_registry.yaml`: beside this module in a wheel, at the top level in a checkout."""
    packaged = Path(__file__).parent / "envs_registry.yaml"
    return packaged if packaged.is_file() else Path(__file__).parent.parent / "envs_registry.yaml"


def read_registry(path: Path) -> dict[str, EnvSpec]:
    """The specs in a registry file.

    Raises:
        ValueError: the file is no such YAML; the message says where.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: malformed YAML: {error}") from error
    if not isinstance(entries, dict):
        raise ValueError(f"{path}: expected a map from id to entry, got {type(entries).__name__}")
    return {env_id: _read_entry(path, env_id, entry) for env_id, entry in entries.items()}


def _read_entry(path: Path, env_id: Any, entry: Any) -> EnvSpec:
    if not isinstance(entry, dict) or "entry_point" not in entry or set(entry) - FIELDS:
        raise ValueError(
            f"{path}: entry {env_id!r}: expected a map with `entry_point` and keys among "
            f"{sorted(FIELDS)}"
        )
    for key, kind in (("kwargs", dict), ("extras", list), ("agents", list)):
        if not isinstance(entry.get(key, kind()), kind):
            raise ValueError(
                f"{path}: entry {env_id!r}: {key}: expected a {kind.__name__}, got {entry[key]!r}"
            )
    lists = {key: tuple(entry.get(key, ())) for key in ("extras", "agents")}
    try:
        return EnvSpec(id=env_id, **{**entry, **lists})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


@cache
def _specs() -> dict[str, EnvSpec]:
    return read_registry(registry_file())


def list_envs() -> list[str]:
    """All registered ids, sorted."""
    return sorted(_specs())


def spec(env_id: str) -> EnvSpec:
    """The spec of an id; an id without version means the newest.

    Raises:
        ValueError: no such environment; the message names near ids.
    """
    specs = _specs()
    if env_id in specs:
        return specs[env_id]
    versions = [s for s in specs.values() if s.name == env_id]
    if versions:
        return max(versions, key=lambda s: s.version)
    versioned = ID_PATTERN.fullmatch(str(env_id))
    hint = suggestion(env_id, dict.fromkeys(s.id if versioned else s.name for s in specs.values()))
    raise ValueError(f"no environment {env_id!r}{hint}; `llm-marl list` shows them")


def register(
    env_id: str,
    entry_point: str | Callable[..., Any],
    *,
    api: str = "parallel",
    kwargs: Mapping[str, Any] | None = None,
    summary: str = "",
) -> EnvSpec:
    """Add an environment of your own under `env_id` (`name-vN`).

    Raises:
        ValueError: malformed id or api, or the id is taken by another entry point.
    """
    new = EnvSpec(
        id=env_id, entry_point=entry_point, api=api, kwargs=dict(kwargs or {}), summary=summary
    )
    old = _specs().get(env_id)
    if old is not None and old != new:
        raise ValueError(f"{env_id} is registered already; choose another id or raise its version")
    if old is None:
        _specs()[env_id] = new
        mirror(env_id)
    return new


def make(env_id: str, *, api: str | None = None, single_seat: bool = False, **kwargs: Any) -> Any:
    """Make a registered environment.

    >>> env = make("coop_coding-v0")

    Args:
        env_id: a registered id; without `-vN`, the newest version.
        api: "parallel" or "aec"; the environment's native form where None.
        single_seat: put one agent behind all seats, see `wrappers.single_seat`; natively parallel.
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
        raise ValueError(f"api={api!r}: expected None or one of {APIS}")
    for extra in chosen.extras:
        if importlib.util.find_spec(EXTRA_IMPORTS.get(extra, extra)) is None:
            raise ImportError(
                f"{chosen.id} needs the extra {extra!r}: pip install 'llm-marl-envs[{extra}]'"
            )
    create = load_entry_point(chosen)
    merged = {**chosen.kwargs, **kwargs}
    _check_kwargs(chosen, create, merged)
    env = _checked(chosen, create(**merged))
    form = chosen.api
    if not isinstance(single_seat, bool):
        raise TypeError(f"single_seat={single_seat!r}: expected True or False")
    if single_seat:
        from llm_marl_envs.wrappers import SingleSeat

        env, form = SingleSeat(env), "parallel"
        kwargs["single_seat"] = True
    if api not in (None, form):
        env = _converted(env, api)
        kwargs["api"] = api
    env.spec = chosen
    env.env_kwargs = dict(kwargs)
    return env


def _checked(chosen: EnvSpec, env: Any) -> Any:
    """`env`, if it has the form that it was registered with."""
    from pettingzoo import AECEnv, ParallelEnv

    native: Any = AECEnv if chosen.api == "aec" else ParallelEnv
    if not isinstance(env, native):
        raise TypeError(
            f"{chosen.id}: the entry point returned {type(env).__name__}, which is no "
            f"{native.__name__}; register it with the `api` it has"
        )
    return env


def _converted(env: Any, api: str | None) -> Any:
    """`env` in its other form, by PettingZoo."""
    from pettingzoo.utils.conversions import parallel_to_aec, turn_based_aec_to_parallel

    return parallel_to_aec(env) if api == "aec" else turn_based_aec_to_parallel(env)


def make_vec(env_id: str, n: int, **kwargs: Any) -> VectorTextEnv:
    """`n` copies of a parallel environment that step together; see `vector.VectorTextEnv`.

    Raises:
        ValueError: n < 1, or as `make`.
    """
    from llm_marl_envs.vector import VectorTextEnv

    if n < 1:
        raise ValueError(f"n={n}: expected at least 1 copy")
    return VectorTextEnv([make(env_id, api="parallel", **kwargs) for _ in range(n)])


def load_entry_point(chosen: EnvSpec) -> Callable[..., Any]:
    """The callable behind `entry_point`, imported now.

    Raises:
        ImportError: the module, or the name in it, does not exist.
    """
    if not isinstance(chosen.entry_point, str):
        return chosen.entry_point
    module, _, name = chosen.entry_point.partition(":")
    home = importlib.import_module(module)
    if not hasattr(home, name):
        raise ImportError(f"{chosen.id}: module {module} has no {name!r} ({chosen.entry_point})")
    return getattr(home, name)


def _check_kwargs(chosen: EnvSpec, create: Callable[..., Any], given: Mapping[str, Any]) -> None:
    parameters = inspect.signature(create).parameters
    check_types(f"{chosen.id}, arguments", given, _hints(create))
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    missing = [
        name
        for name, p in parameters.items()
        if p.default is p.empty and p.kind not in variable and name not in given
    ]
    if missing:
        raise TypeError(f"{chosen.id} needs the arguments {missing}")
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    listed = f"`llm-marl spec {chosen.id}`"
    refuse_unknown(f"{chosen.id}, arguments", given, parameters, listed=listed)


def _hints(create: Callable[..., Any]) -> dict[str, Any]:
    """Argument -> its type; empty where the types can be named by a type checker alone."""
    try:
        return typing.get_type_hints(create.__init__ if inspect.isclass(create) else create)
    except (NameError, TypeError, AttributeError):
        return {}


def make_parallel(env_id: str, **kwargs: Any) -> Any:
    """`make(..., api="parallel")`: the entry point in PettingZoo's parallel registry."""
    return make(env_id, api="parallel", **kwargs)


def make_aec(env_id: str, **kwargs: Any) -> Any:
    """`make(..., api="aec")`: the entry point in PettingZoo's AEC registry."""
    return make(env_id, api="aec", **kwargs)
