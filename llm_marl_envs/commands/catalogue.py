"""`llm-marl list`, `spec`, `doctor` and `version`: what there is and what works here."""

from __future__ import annotations

import inspect
import json
import platform
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from llm_marl_envs.commands import Command

WIDTH = 90
"""Characters of a line that says what an argument is."""


def _list(options: Namespace) -> None:
    from llm_marl_envs.core.specs import list_envs, namespaces, spec

    for env_id in [*list_envs(), *namespaces()]:
        one = spec(env_id)
        about = "; ".join(part for part in (one.api, ", ".join(one.agents)) if part)
        print(f"{env_id}{f'  ({about})' if about else ''}\n    {one.summary}")


def _spec(options: Namespace) -> None:
    from llm_marl_envs.core.specs import spec
    from llm_marl_envs.play.registry import load_entry_point

    one = spec(options.id)
    create = load_entry_point(one)
    if options.schema:
        print(json.dumps(_schema(one.id, create), indent=2))
        return
    print(f"{one.id}: {one.summary}")
    print(f"form: {one.api or 'shows when it is made'}\nagents: {', '.join(one.agents)}")
    print(f"extras needed: {', '.join(one.extras) or 'none'}\narguments:")
    for line in _arguments(create, one.kwargs):
        print(f"    {line}")
    page = inspect.getdoc(inspect.getmodule(create)) or inspect.getdoc(create) or ""
    print(f"\n{page}")


def _schema(env_id: str, create: Callable[..., Any]) -> dict[str, Any]:
    from llm_marl_envs.core.options import options_of

    options = options_of(create)
    if options is None:
        raise ValueError(f"{env_id} declares no options, so there is no schema of its arguments")
    return options.model_json_schema()


def _arguments(create: Callable[..., Any], given: Mapping[str, Any]) -> Iterator[str]:
    """One line per argument; two where its environment declares what it is."""
    from llm_marl_envs.core.options import declared, options_of

    options = options_of(create)
    if options is None:
        for one in inspect.signature(create).parameters.values():
            yield f"{one.name} = {given.get(one.name, one.default)!r}"
        return
    for one in declared(options):
        default = repr(given[one.name]) if one.name in given else one.default
        yield f"{one.name} = {default}  ({one.expected})"
        yield from (f"    {line}" for line in textwrap.wrap(one.about, WIDTH))


def _add_doctor(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--engine", metavar="URL", help="look at this vLLM server instead: what it can do for a run"
    )


def _doctor(options: Namespace) -> int:
    if options.engine:
        return _look_at_server(options.engine)
    from llm_marl_envs.sandbox import doctor, verdict

    layers = doctor()
    for layer in layers:
        print(f"{'yes' if layer.active else 'no ':4}{layer.name:14}{layer.reason}")
    well, said = verdict(layers)
    print(said)
    return 0 if well else 1


def _look_at_server(url: str) -> int:
    from llm_marl_envs.policies.vllm_check import abilities

    found = abilities(url)
    for one in found:
        print(f"{'yes' if one.there else 'no ':4}{one.name:14}{one.said}")
    return 0 if all(one.there for one in found if one.needed) else 1


def _version(options: Namespace) -> None:
    from llm_marl_envs import __version__
    from llm_marl_envs.measure.run_manifest import package_versions

    print(f"llm-marl-envs {__version__}\npython {platform.python_version()}")
    for package, version in [*package_versions().items()][1:]:
        print(package, version or "not installed")


def _add_spec(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="id of an environment; without -vN the newest version")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of arguments")


LIST = Command(name="list", about="List the environments.", example="", run=_list)
SPEC = Command(
    name="spec",
    about="Show what an environment is and takes.",
    example="coop_coding-v0",
    run=_spec,
    add=_add_spec,
)
DOCTOR = Command(
    name="doctor",
    about="Show which layers confine model-written programs here, and whether that is enough: the "
    "last line says so, and the exit status (0 all is well, 1 something is missing).",
    example="--engine http://localhost:8000",
    run=_doctor,
    add=_add_doctor,
)
VERSION = Command(
    name="version",
    about="Show the versions of this package and of what it uses.",
    example="",
    run=_version,
)
