"""What environments there are: `envs_registry.yaml`, `register`, other packages' (`plugins.py`).

Owns ids, their versions and what is known of each environment. Imports none of them; `registry.py`
makes them, `mirror.py` shows the ids to PettingZoo.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from llm_marl_envs.core.checks import suggestion
from llm_marl_envs.core.mirror import mirror
from llm_marl_envs.core.plugins import DISTRIBUTION, ENVIRONMENTS, REFERENCE, Entry, entries
from llm_marl_envs.files.foreign import yaml_of

APIS = ("parallel", "aec")
ID_PATTERN = re.compile(r"[a-z0-9_]+-v\d+")
VERSION = re.compile(r"-v(\d+)\Z")
NAMESPACED = re.compile(r"([a-z0-9_]+)/([A-Za-z0-9_.-]+|\*)")
"""`namespace/Name`: an environment of another library; `namespace/*` stands for all of them."""
FIELDS = {"entry_point", "api", "kwargs", "extras", "agents", "summary", "argument"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """One registered environment.

    Attributes:
        id: `name-vN`; `namespace/Name` of another library's, where `namespace/*` is registered;
            "module:Class" of one that was made without being registered.
        entry_point: "module:Class", or a callable that returns the environment.
        api: the native form, "parallel" or "aec"; None where it shows when one is made.
        kwargs: defaults passed to the entry point.
        extras: extras of this distribution that it needs.
        agents: its seats.
        summary: one line.
        argument: of `namespace/*`: the entry point's argument that takes what stands for `*`.
    """

    id: str
    entry_point: str | Callable[..., Any]
    api: str | None = "parallel"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    summary: str = ""
    argument: str = ""

    def __post_init__(self) -> None:
        named = isinstance(self.id, str) and (
            ID_PATTERN.fullmatch(self.id)
            or NAMESPACED.fullmatch(self.id)
            or self.id == self.entry_point
        )
        if not named:
            raise ValueError(f"environment id {self.id!r:.200}: expected lower case `name-vN`")
        if self.id.endswith("/*") and not self.argument:
            raise ValueError(f"{self.id}: expected `argument`, which takes what stands for *")
        if isinstance(self.entry_point, str):
            if not REFERENCE.fullmatch(self.entry_point):
                raise ValueError(
                    f"{self.id}: entry_point {self.entry_point!r:.200}: expected 'module:Class'"
                )
        elif not callable(self.entry_point):
            raise TypeError(
                f"{self.id}: entry_point: expected 'module:Class' or a callable, "
                f"got {type(self.entry_point).__name__}"
            )
        if self.api not in (None, *APIS):
            raise ValueError(f"{self.id}: api {self.api!r:.200}: expected one of {APIS}")

    @property
    def name(self) -> str:
        """The id without its version; the whole id where it has none."""
        return VERSION.sub("", self.id)

    @property
    def version(self) -> int | None:
        """N of `-vN` at the end; None: the id has none, as `textarena/2048-v0-easy`.

        PettingZoo and Gymnasium read ids so.
        """
        match = VERSION.search(self.id)
        return int(match[1]) if match else None


def registry_file() -> Path:
    """`envs_registry.yaml`: beside this module in a wheel, at the top level in a checkout."""
    package = Path(__file__).parents[1]
    packaged = package / "envs_registry.yaml"
    return packaged if packaged.is_file() else package.parent / "envs_registry.yaml"


def read_registry(path: Path) -> dict[str, EnvSpec]:
    """The specs in a registry file.

    Raises:
        ValueError: the file is no such YAML; the message says where.
    """
    entries = yaml_of(path.read_bytes(), path)
    if not isinstance(entries, dict):
        raise ValueError(f"{path}: expected a map from id to entry, got {type(entries).__name__}")
    return {env_id: _read_entry(path, env_id, entry) for env_id, entry in entries.items()}


def _read_entry(path: Path, env_id: Any, entry: Any) -> EnvSpec:
    if not isinstance(entry, dict) or "entry_point" not in entry or set(entry) - FIELDS:
        raise ValueError(
            f"{path}: entry {env_id!r:.200}: expected a map with `entry_point` and keys among "
            f"{sorted(FIELDS)}"
        )
    for key, kind in (("kwargs", dict), ("extras", list), ("agents", list)):
        if not isinstance(entry.get(key, kind()), kind):
            raise ValueError(
                f"{path}: entry {env_id!r:.200}: {key}: expected a {kind.__name__}, got "
                f"{entry[key]!r:.200}"
            )
    lists = {key: tuple(entry.get(key, ())) for key in ("extras", "agents")}
    try:
        return EnvSpec(id=env_id, **{**entry, **lists})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


@cache
def _specs() -> dict[str, EnvSpec]:
    """The environments of this library, and those that the running program registered."""
    return read_registry(registry_file())


def _all_specs() -> dict[str, EnvSpec]:
    """Those, and what other packages bring; ids of this library are not replaced."""
    specs = dict(_specs())
    for entry in entries(ENVIRONMENTS).values():
        if entry.name not in specs:
            specs |= _of_entry(entry)
        elif specs[entry.name].entry_point != entry.value:
            warnings.warn(
                f"{ENVIRONMENTS}: {DISTRIBUTION} and {entry.distribution} both have a "
                f"{entry.name!r}; that of {DISTRIBUTION} is used",
                stacklevel=3,
            )
    return specs


def _of_entry(entry: Entry) -> dict[str, EnvSpec]:
    """Id -> spec; nothing, and a warning, of a malformed entry, for all others are to be found."""
    summary = f"From the package {entry.distribution}."
    try:
        made = EnvSpec(id=entry.name, entry_point=entry.value, api=None, summary=summary)
    except ValueError as error:
        warnings.warn(
            f"{ENVIRONMENTS}, an entry of {entry.distribution} is not used: {error}", stacklevel=4
        )
        return {}
    return {entry.name: made}


def list_envs() -> list[str]:
    """All registered ids, sorted; imports none of the environments. `namespaces` lists the rest."""
    return sorted(env_id for env_id in _all_specs() if not env_id.endswith("/*"))


def namespaces() -> list[str]:
    """Libraries whose environments have ids here, as `namespace/*`."""
    return sorted(env_id for env_id in _all_specs() if env_id.endswith("/*"))


def spec(env_id: str) -> EnvSpec:
    """The spec of an id; an id without version means the newest.

    "module:Class" needs no registration: it is a spec of its own, and so is each id of a namespace.

    Raises:
        ValueError: no such environment; the message names near ids.
    """
    specs = _all_specs()
    if env_id in specs:
        return specs[env_id]
    if isinstance(env_id, str) and REFERENCE.fullmatch(env_id):
        return EnvSpec(id=env_id, entry_point=env_id, api=None)
    space = NAMESPACED.fullmatch(env_id) if isinstance(env_id, str) else None
    if space and (whole := specs.get(f"{space[1]}/*")):
        named = {**whole.kwargs, whole.argument: space[2]}
        return replace(whole, id=env_id, kwargs=named, argument="")
    single = [s for s in specs.values() if not s.argument]
    versions = [s for s in single if s.name == env_id]
    if versions:
        return max(versions, key=lambda s: s.version or 0)
    versioned = ID_PATTERN.fullmatch(str(env_id))
    same = [s.id for s in single if versioned and s.name == VERSION.sub("", env_id)]
    if same:
        raise ValueError(
            f"no environment {env_id!r:.200}: there is {same[-1]!r:.200}; the version history "
            "on its page says what changed"
        )
    hint = suggestion(env_id, dict.fromkeys(s.id if versioned else s.name for s in single))
    end = "" if hint.endswith("?") else ";"
    raise ValueError(f"no environment {env_id!r:.200}{hint}{end} `llm-marl list` shows them")


def register(
    env_id: str,
    entry_point: str | Callable[..., Any],
    *,
    api: str | None = "parallel",
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
    old = _all_specs().get(env_id)
    if old is not None and old != new:
        raise ValueError(f"{env_id} is registered already; choose another id or raise its version")
    if old is None:
        _specs()[env_id] = new
        mirror(env_id)
    return new


def env_name(env: Any) -> str:
    """The registered id of an environment, or its class name."""
    spec = getattr(env, "spec", None)
    return spec.id if isinstance(spec, EnvSpec) else type(getattr(env, "unwrapped", env)).__name__


def env_arguments(env: Any) -> dict[str, Any]:
    """What `make` was called with; nothing for an environment that was not made by an id.

    An attribute of that name on a stranger's environment may be anything.
    """
    return dict(env.env_kwargs) if isinstance(getattr(env, "spec", None), EnvSpec) else {}
