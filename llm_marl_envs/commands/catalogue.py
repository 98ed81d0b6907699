"""`llm-marl list`, `spec`, `tools`, `doctor` and `version`: what there is and what works here."""

from __future__ import annotations

import inspect
import json
import platform
import re
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from llm_marl_envs.commands import Command

WIDTH = 90
"""Characters of a line that says what an argument is."""
ELSEWHERE = re.compile(r"\b(docs|benchmarks)/")
"""What no wheel holds."""


def _list(options: Namespace) -> None:
    from llm_marl_envs.core.specs import list_envs, namespaces, spec

    for env_id in [*list_envs(), *namespaces()]:
        env_spec = spec(env_id)
        about = "; ".join(part for part in (env_spec.api, ", ".join(env_spec.agents)) if part)
        print(f"{env_id}{f'  ({about})' if about else ''}\n    {env_spec.summary}")


def _spec(options: Namespace) -> None:
    from llm_marl_envs.core.specs import spec
    from llm_marl_envs.play.registry import load_entry_point

    env_spec = spec(options.id)
    create = load_entry_point(env_spec)
    if options.schema:
        print(json.dumps(_schema(env_spec.id, create), indent=2))
        return
    print(f"{env_spec.id}: {env_spec.summary}")
    print(f"form: {env_spec.api or 'shows when it is made'}\nagents: {', '.join(env_spec.agents)}")
    print(f"extras needed: {', '.join(env_spec.extras) or 'none'}\narguments:")
    for line in _arguments(create, env_spec.kwargs):
        print(f"    {line}")
    page = inspect.getdoc(inspect.getmodule(create)) or inspect.getdoc(create) or ""
    if not page and sys.flags.optimize > 1:
        page = "Its page is a docstring, which Python leaves out with -OO: run it without."
    print(f"\n{page}")
    if ELSEWHERE.search(page):
        print("\nFiles in docs and benchmarks: in a checkout, or in the source archive.")


def _schema(env_id: str, create: Callable[..., Any]) -> dict[str, Any]:
    from llm_marl_envs.core.options import options_of

    options = options_of(create)
    if options is None:
        raise ValueError(f"{env_id} declares no options, so there is no schema of its arguments")
    return options.model_json_schema()


def _arguments(create: Callable[..., Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    """One line per argument; two where its environment declares what it is."""
    from llm_marl_envs.core.options import declared, options_of

    options = options_of(create)
    if options is None:
        for parameter in inspect.signature(create).parameters.values():
            yield f"{parameter.name} = {kwargs.get(parameter.name, parameter.default)!r}"
        return
    for option in declared(options):
        default = repr(kwargs[option.name]) if option.name in kwargs else option.default
        yield f"{option.name} = {default}  ({option.expected})"
        yield from (f"    {line}" for line in textwrap.wrap(option.about, WIDTH))


def _tools(options: Namespace) -> None:
    from llm_marl_envs.tools import TOOLS

    for name in TOOLS.names():
        tool = TOOLS.get(name)
        if not isinstance(tool, type):  # a name that takes an argument
            print(f"{name}:...: {(inspect.getdoc(tool) or '(no docstring)').splitlines()[0]}")
            continue
        taken = ", ".join(
            f"{argument} ({inspect.formatannotation(field.annotation)})"
            for argument, field in tool.Arguments.model_fields.items()
        )
        print(f"{name}: {tool.description}\n    takes {taken}; a call costs {tool.price:g}")


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
    well, sentence = verdict(layers)
    print(sentence)
    return 0 if well else 1


def _look_at_server(url: str) -> int:
    from llm_marl_envs.policies.vllm_check import abilities

    checks = abilities(url)
    for check in checks:
        print(f"{'yes' if check.there else 'no ':4}{check.name:14}{check.said}")
    return 0 if all(check.there for check in checks if check.needed) else 1


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
TOOLS = Command(
    name="tools",
    about="List the tools that seats may be given: make(id, tools={seat: [names]}).",
    example="",
    run=_tools,
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
