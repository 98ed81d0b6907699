"""From an id to an environment: `make`, `make_vec`, `register`, `spec`, `list_envs`.

Owns the reading of `envs_registry.yaml` (the only list of environments), ids and their versions,
and the mirror into PettingZoo's registries. Imports an environment only when it is made.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pettingzoo.utils.conversions import parallel_to_aec, turn_based_aec_to_parallel

if TYPE_CHECKING:
    from llm_marl_envs.vector import VectorTextEnv

APIS = ("parallel", "aec")
ID_PATTERN = re.compile(r"(?P<name>[a-z0-9_]+)-v(?P<version>\d+)")
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
        if not ID_PATTERN.fullmatch(self.id):
            raise ValueError(f"environment id {self.id!r}: expected lower case `name-vN`")
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
    specs: dict[str, EnvSpec] = {}
    for env_id, entry in entries.items():
        if not isinstance(entry, dict) or "entry_point" not in entry or set(entry) - FIELDS:
            raise ValueError(
                f"{path}: entry {env_id!r}: expected a map with `entry_point` and keys among "
                f"{sorted(FIELDS)}"
            )
        known = {**entry, "extras": tuple(entry.get("extras", ()))}
        specs[env_id] = EnvSpec(id=env_id, **{**known, "agents": tuple(entry.get("agents", ()))})
    return specs


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
    near = difflib.get_close_matches(str(env_id), [*specs, *(s.name for s in specs.values())])
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"no environment {env_id!r}; {hint}registered: {list_envs()}")


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
        _mirror(new)
    return new


def make(env_id: str, *, api: str | None = None, **kwargs: Any) -> Any:
    """Make an environment: `env = make("coop_coding-v0")`.

    Args:
        env_id: a registered id; without `-vN`, the newest version.
        api: "parallel" or "aec"; the environment's native form where None.
        kwargs: arguments of the environment; its documentation lists them.

    Returns:
        A PettingZoo `ParallelEnv` or `AECEnv` with `.spec` set.

    Raises:
        ValueError: unknown id, api or argument; the message names near ids or accepted arguments.
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
    create = _load(chosen)
    merged = {**chosen.kwargs, **kwargs}
    _check_kwargs(chosen, create, merged)
    env = create(**merged)
    env.spec = chosen
    env.env_kwargs = dict(kwargs)
    if api in (None, chosen.api):
        return env
    converted = parallel_to_aec(env) if api == "aec" else turn_based_aec_to_parallel(env)
    converted.spec = chosen  # type: ignore[attr-defined]
    converted.env_kwargs = {**kwargs, "api": api}  # type: ignore[attr-defined]
    return converted


def make_vec(env_id: str, n: int, **kwargs: Any) -> VectorTextEnv:
    """`n` copies of a parallel environment that step together; see `vector.VectorTextEnv`.

    Raises:
        ValueError: n < 1, or as `make`.
    """
    from llm_marl_envs.vector import VectorTextEnv

    if n < 1:
        raise ValueError(f"n={n}: expected at least 1 copy")
    return VectorTextEnv([make(env_id, api="parallel", **kwargs) for _ in range(n)])


def _load(chosen: EnvSpec) -> Callable[..., Any]:
    if not isinstance(chosen.entry_point, str):
        return chosen.entry_point
    module, _, name = chosen.entry_point.partition(":")
    return getattr(importlib.import_module(module), name)


def _check_kwargs(chosen: EnvSpec, create: Callable[..., Any], given: Mapping[str, Any]) -> None:
    parameters = inspect.signature(create).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    unknown = sorted(set(given) - set(parameters))
    if unknown:
        near = difflib.get_close_matches(unknown[0], list(parameters))
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(
            f"{chosen.id} has no argument {unknown[0]!r}{hint}; it accepts {sorted(parameters)}"
        )


def _mirror(one: EnvSpec) -> None:
    """Register into PettingZoo's two registries as `llm_marl/<id>`, importing nothing."""
    from pettingzoo.env_registry import registration

    for api in APIS:
        registration.register(
            api,  # type: ignore[arg-type]
            f"llm_marl/{one.id}",
            entry_point=f"llm_marl_envs.registry:make_{api}",
            kwargs={"env_id": one.id},
        )


def make_parallel(env_id: str, **kwargs: Any) -> Any:
    """`make(..., api="parallel")`: the entry point in PettingZoo's parallel registry."""
    return make(env_id, api="parallel", **kwargs)


def make_aec(env_id: str, **kwargs: Any) -> Any:
    """`make(..., api="aec")`: the entry point in PettingZoo's AEC registry."""
    return make(env_id, api="aec", **kwargs)


def mirror_all() -> None:
    """Mirror every id of `envs_registry.yaml` into PettingZoo's registries."""
    for one in _specs().values():
        _mirror(one)
