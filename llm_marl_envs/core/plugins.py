"""The doors: what this library and other packages add by name.

    [project.entry-points."llm_marl_envs.policies"]        # in the pyproject.toml of any package
    parrot = "my_package.policies:parrot"

    group                         what an entry names
    llm_marl_envs.environments    an environment's class, or a function that makes one
    llm_marl_envs.policies        a function (argument, context) -> policy, see `policies/named.py`
    llm_marl_envs.scorers         a scorer's class, see `scorers/__init__.py`
    llm_marl_envs.commands        a `commands.Command`

Packages above this one read groups of their own here. Names come from the metadata of installed
packages; what a name stands for is imported when it is used. Code that is not installed comes in as
"module:Name", or by `import_plugins`. In a checkout this library's own names are those of its
pyproject.toml, so that a change needs no new installation.
"""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from llm_marl_envs.core.checks import suggestion

DISTRIBUTION = "llm-marl-envs"
ENVIRONMENTS = "llm_marl_envs.environments"
"""This library's own are in `envs_registry.yaml`, so only others stand behind this door."""
REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""How "module:Name" is written."""
GIVEN: list[str] = []
"""What the command line names with `--plugin`; processes that a command starts get it too."""
_CHECKOUT = Path(__file__).parents[2] / "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name behind a door.

    Attributes:
        group: the door.
        name: how people call it.
        value: "module:Name".
        distribution: the installed package that says so.
    """

    group: str
    name: str
    value: str
    distribution: str

    def load(self) -> Any:
        """What the entry names, imported now.

        Raises:
            ImportError: it cannot be imported; the message names the distribution.
        """
        where = f"{self.name!r} of {self.distribution} ({self.value})"
        try:
            return from_reference(self.value)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if missing.partition(".")[0] == re.split(r"[.:]", self.value)[0]:
                raise ImportError(f"{where}: {error}") from error
            extra = f"; pip install '{DISTRIBUTION}[train]'"
            more = extra if self.distribution == DISTRIBUTION else ""
            raise ImportError(
                f"{where} needs {missing!r:.200}, which is not installed{more}"
            ) from error
        except Exception as error:
            raise ImportError(f"{where}: {type(error).__name__}: {error}") from error


def entries(group: str) -> MappingProxyType[str, Entry]:
    """Name -> entry of a group, those of this library first; imports nothing of them.

    A name that two distributions use for different things is a warning, and the first one counts.
    """
    return _entries(group, tuple(sys.path))


@cache
def _entries(group: str, path: tuple[str, ...]) -> MappingProxyType[str, Entry]:
    by_name: dict[str, Entry] = {}
    for entry in _declared(group):
        first = by_name.setdefault(entry.name, entry)
        if first.value != entry.value:
            warnings.warn(
                f"{group}: {first.distribution} and {entry.distribution} both have a "
                f"{entry.name!r}; that of {first.distribution} is used",
                stacklevel=3,
            )
    return MappingProxyType(by_name)


def _declared(group: str) -> Iterator[Entry]:
    own = _own_names()
    for name, value in (own or {}).get(group, {}).items():
        yield Entry(group, name, value, DISTRIBUTION)
    for point in entry_points(group=group):
        package = point.dist.name if point.dist is not None else "an unknown distribution"
        if own is None or re.sub(r"[-_.]+", "-", package).lower() != DISTRIBUTION:
            value = point.value.partition("[")[0].strip()  # extras may stand behind it
            yield Entry(group, point.name, value, package)


@cache
def _own_names() -> dict[str, dict[str, str]] | None:
    """Group -> name -> value in this checkout's pyproject.toml; None outside of a checkout."""
    if not _CHECKOUT.is_file():
        return None
    project = tomllib.loads(_CHECKOUT.read_text(encoding="utf-8")).get("project", {})
    return project.get("entry-points", {}) if project.get("name") == DISTRIBUTION else None


def groups() -> list[str]:
    """Every door that this distribution has, those of packages above this one too."""
    own = _own_names()
    if own is not None:
        return [ENVIRONMENTS, *own]
    try:
        declared = distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return [ENVIRONMENTS]
    return [ENVIRONMENTS, *sorted({point.group for point in declared if "." in point.group})]


class Registry:
    """Everything of one kind by name: entries of a group, and what the running program adds.

    Args:
        group: of entry points.
        what: one such thing, in words, for errors.
    """

    def __init__(self, group: str, what: str) -> None:
        self.group = group
        self.what = what
        self.added: dict[str, Any] = {}

    def names(self) -> list[str]:
        """All names, sorted; nothing is imported."""
        return sorted({*self.added, *entries(self.group)})

    def __contains__(self, name: object) -> bool:
        return name in self.added or name in entries(self.group)

    def add(self, name: str, value: Any) -> None:
        """Add a name in this process.

        Raises:
            ValueError: the name is taken by something else.
        """
        if name in self and self.added.get(name) is not value:
            raise ValueError(f"{self.what} {name!r:.200} is there already; choose another name")
        self.added[name] = value

    def get(self, name: str) -> Any:
        """What a name, or "module:Name", stands for.

        Raises:
            ValueError: no such name; near ones are named.
            ImportError: it cannot be imported.
        """
        if name in self.added:
            return self.added[name]
        if name in entries(self.group):
            return entries(self.group)[name].load()
        if REFERENCE.fullmatch(name):
            try:
                return from_reference(name)
            except ImportError as error:
                raise ImportError(f"{self.what} {name!r:.200}: {error!s:.200}") from error
        raise ValueError(f"no {self.what} {name!r:.200}{suggestion(name, self.names())}")


def from_reference(text: str) -> Any:
    """What "module:Name" stands for, imported now.

    Raises:
        ValueError: it is not written like that.
        ImportError: the module, or the name in it, does not exist, or the module ends the program.
    """
    if not REFERENCE.fullmatch(text):
        raise ValueError(f"{text!r:.200}: expected 'module:Name'")
    module, _, names = text.partition(":")
    target = _imported(module)
    for name in names.split("."):
        if not hasattr(target, name):
            raise ImportError(f"module {module} has no {names!r:.200}")
        target = getattr(target, name)
    return target


def _imported(module: str) -> ModuleType:
    """The module; one that is written as a script must not end this program."""
    try:
        return importlib.import_module(module)
    except SystemExit as error:
        raise ImportError(
            f"module {module} ends the program when it is imported (SystemExit: {error})"
        ) from error


def find_modules_here() -> None:
    """Let modules of the working directory be found, behind everything that is installed."""
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)


def import_plugins(modules: Sequence[str]) -> None:
    """Import modules that register what they bring: `register`, `register_policy` and the like.

    Raises:
        ImportError: a module cannot be imported; the message names it.
    """
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ImportError(f"plug-in {module!r:.200}: expected a module's name, as in my_module")
        try:
            _imported(module)
        except Exception as error:
            raise ImportError(
                f"plug-in {module!r:.200}: {type(error).__name__}: {error!s:.200}"
            ) from error


def plugin_options() -> list[str]:
    """The words that give the plug-ins of this command line to another one."""
    return [word for module in GIVEN for word in ("--plugin", module)]
