"""The rules of the house that a machine can hold: sizes, import walls, the registry, the docs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.imports import PACKAGES, import_graph, rooms
from support.paths import ROOT

from llm_marl_envs.core.specs import EnvSpec, list_envs, read_registry, registry_file

MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 8  # without self
MAX_README_LINES = 130
IMPORT_SECONDS = 0.5
BRING_TORCH = ("bridges.benchmarl", "bridges.torchrl")
"""Bridges to libraries that import torch themselves; nobody but their users imports them."""
FORMS = {"parallel": "parallel", "AEC": "aec"}
ROW = re.compile(
    r"^\| (?:\[)?`(?P<id>[^`]+-v\d+|\w+/\*)`(?:\]\(\S+\))? \| (?P<form>\w+) \| (?P<rest>.+)", re.M
)
"""A row of a table of environments."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_sizes() -> None:
    wrong = []
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            where = f"{name(path)}:{node.lineno} {node.name}"
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                wrong.append(f"{where}: {length} lines")
            given = node.args
            count = len([*given.posonlyargs, *given.args, *given.kwonlyargs])
            count -= any(a.arg in ("self", "cls") for a in given.args[:1])
            if count > MAX_PARAMETERS:
                wrong.append(f"{where}: {count} parameters")
    assert wrong == []


def test_every_module_says_what_it_is() -> None:
    assert [name(path) for path in MODULES if not ast.get_docstring(parsed(path))] == []


def test_nothing_is_left_to_do() -> None:
    left = re.compile(r"\b(TODO|FIXME|XXX)\b")
    assert [name(path) for path in MODULES if left.search(path.read_text(encoding="utf-8"))] == []


def test_the_environments_never_import_torch(run_python: Any) -> None:
    program = (
        "import importlib, pkgutil, sys, llm_marl_envs\n"
        "for module in pkgutil.walk_packages(llm_marl_envs.__path__, 'llm_marl_envs.'):\n"
        f"    if 'jail' in module.name or module.name.endswith({BRING_TORCH!r}): continue\n"
        "    try: importlib.import_module(module.name)\n"
        "    except ImportError:\n"  # a bridge whose library is not installed
        "        if '.bridges.' not in module.name: raise\n"
        "from llm_marl_envs import list_envs, make\n"
        "for env_id in list_envs(): make(env_id).reset(seed=0)\n"
        "heavy = {'torch', 'transformers', 'trl', 'peft', 'datasets', 'pandas', 'matplotlib'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    assert run_python(program).strip() == ""


@pytest.mark.parametrize("module", ["llm_marl_envs", "llm_marl_envs.core.environment"])
def test_import_is_quick(run_python: Any, module: str) -> None:
    """Half a second of processor time; on a slow core more, by loops as `support.cost` counts."""
    program = (
        "import time; start = time.process_time()\n"
        f"import {module}\n"
        "taken = time.process_time() - start\n"
        "from support.cost import seconds_of_a_loop\n"
        "print(taken * min(1, 0.001 / seconds_of_a_loop()))"
    )
    assert any(float(run_python(program)) < IMPORT_SECONDS for _ in range(5))


def test_the_registry_is_sorted_and_has_no_id_twice() -> None:
    text = registry_file().read_text(encoding="utf-8")
    ids = re.findall(r"^(\S+):", text, re.MULTILINE)
    assert ids == sorted(yaml.safe_load(text))
    for env_id, one in read_registry(registry_file()).items():
        assert one.summary, env_id
        assert one.agents or one.argument, env_id  # the seats of a namespace are its environments'


def test_every_environment_has_a_contract_test() -> None:
    """Each id stands in a test file that calls `check_text_env`."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    contracts = [text for text in texts if "check_text_env(" in text]
    for env_id in read_registry(registry_file()):
        assert any(f'"{env_id}"' in text for text in contracts), f"no contract test of {env_id}"


def test_every_environment_names_its_agents_right() -> None:
    from llm_marl_envs.core.specs import list_envs, spec
    from llm_marl_envs.play.registry import make

    for env_id in list_envs():
        assert tuple(make(env_id).possible_agents) == spec(env_id).agents


def test_the_table_of_environments_knows_all_of_them() -> None:
    """Each with its form, its seats (the first and the last one, if not all) and its page."""
    page = ROOT / "docs" / "environments" / "index.md"
    rows = [*ROW.finditer(page.read_text(encoding="utf-8"))]
    registry = read_registry(registry_file())
    assert [row["id"] for row in rows] == list(registry)
    for row in rows:
        one = registry[row["id"]]
        assert FORMS[row["form"]] == one.api, row[0]
        assert row[0].startswith(f"| [`{one.id}`]("), row[0]
        for agent in (one.agents[:1] + one.agents[-1:]) or ("player_0",):
            assert f"`{agent}`" in row["rest"].split(" | ")[0], row[0]
    assert broken_links(page) == []


def test_the_readme_shows_one_environment_of_each_family() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    registry = read_registry(registry_file())
    rows = [*ROW.finditer(text)]
    for row in rows:
        assert FORMS[row["form"]] == registry[row["id"]].api, row[0]
    shown = sorted(family(registry[row["id"]]) for row in rows)
    assert shown == sorted({family(one) for one in registry.values() if one.agents})
    assert set(re.findall(r"\b[a-z_]+-v\d+\b", text)) <= set(registry)


def test_the_readme_is_short_and_its_links_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_README_LINES
    assert text.count("](") > 15
    assert broken_links(ROOT / "README.md") == []


def family(one: EnvSpec) -> str:
    """The folder of an environment's module below `envs`."""
    return str(one.entry_point).split(".")[2]


def broken_links(page: Path) -> list[str]:
    """Links of a Markdown page to files, or headings in them, that are not there."""
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        place, _, heading = link.partition("#")
        there = page.parent / place if place else page
        if re.match(r"https?:", link):
            continue
        if not there.is_file() or (heading and heading not in headings(there)):
            wrong.append(link)
    return wrong


def headings(page: Path) -> set[str]:
    """What a link may name behind #, of titles in plain words."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_no_module_imports_itself_by_a_detour() -> None:
    """Lazy imports count."""
    try:
        TopologicalSorter(import_graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_imports_between_rooms_go_down() -> None:
    """Lazy imports count, and those for a type checker: a knot of rooms cannot be told apart."""
    try:
        order = [*TopologicalSorter(rooms()).static_order()]
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
    below = {"trainers.algorithms": ("trainers.config", "trainers.experience", "trainers.running")}
    for room, above in below.items():
        assert all(order.index(room) < order.index(one) for one in above), room


def test_the_lower_storey_knows_nothing_of_the_upper_one() -> None:
    for path in (ROOT / "llm_marl_envs").rglob("*.py"):
        assert not re.search(r"\btrainers\b", path.read_text(encoding="utf-8")), name(path)


def test_no_test_file_imports_another() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) (\w+\.)*test_", text, re.MULTILINE), name(path)


def test_contributors_find_every_module() -> None:
    """A folder may stand for what is in it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in MODULES:
        folders = [f"{part}/" for part in path.relative_to(ROOT).parts[1:-1]]
        if path.name != "__init__.py":
            assert any(part in text for part in [*folders, path.name]), f"no {name(path)}"


def test_the_readmes_programs_run(run_python: Any) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) == 2
    assert "'structure'" in run_python(programs[0])
    returns = ast.literal_eval(run_python(programs[1]))
    assert len(returns) == 8
    assert 1.0 in returns
    assert min(returns) < 1.0  # competent, not coordinated


def test_the_readmes_test_command_is_what_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    made = [line.strip() for line in lines if line.strip().startswith("make ")]
    assert made == ["make lint", "make test", "make test-full"]
    assert "make test\n" in readme
    assert "`make test-all`" in readme


STUB = """#!/bin/sh
echo "make $*"
test "$1" != "$BROKEN"
"""


@pytest.mark.parametrize(
    ("allowed", "broken", "ran"),
    [
        (1000, "", ["make lint", "make test", "make test-full"]),
        (-1, "", ["make lint", "make test"]),
        (1000, "lint", ["make lint"]),
        (1000, "test", ["make lint", "make test"]),
        (1000, "test-full", ["make lint", "make test", "make test-full"]),
    ],
)
def test_ci_runs_all_that_its_time_allows(
    tmp_path: Path, allowed: int, broken: str, ran: list[str]
) -> None:
    """With commands that do nothing in place of `make` and the browser."""
    program = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "end <= 1000" in program
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "run").write_text(program.replace("end <= 1000", f"end <= {allowed}"))
    for name in ("make", "chromium"):
        (tmp_path / name).write_text(STUB)
        (tmp_path / name).chmod(0o700)
    done = subprocess.run(
        ["bash", str(tmp_path / "ci" / "run")],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "BROKEN": broken},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()
    assert [line for line in said if line.startswith("make ") and " is " not in line] == ran
    assert (done.returncode == 0) == (not broken)
    assert ("left out" in done.stdout) == (allowed < 0)


LOADER = re.compile(
    r".*\b(from_pretrained|load_file|load_adapter|set_peft_model_state_dict|load_state_dict"
    r"|safe_open|torch\.load|load_checkpoint_\w+)"
)
"""What puts a file's numbers into a model, by the names of the libraries' functions."""
GUARD = "trainers/weights/loading.py"
NO_WEIGHTS = re.compile(
    r"(AutoTokenizer|AutoConfig|GenerationConfig|PeftConfig)\.from_pretrained"
    r"|self(\.\w+)*\.(past|algorithm|critic|optimizer)\.load_state_dict"
)
"""Settings, words, moments, and what our own classes keep of their state."""
GUARDED = {
    "trainers/critics/base.py: self.load_state_dict",  # each kind of critic checks its own
    "trainers/running/checkpoints.py: torch.load",  # state of a run; weights have their own files
    "trainers/weights/adapters.py: set_peft_model_state_dict",  # behind `check_state`
}


def test_every_loader_of_weights_is_behind_the_one_check() -> None:
    """`loading.py` refuses weights that are not whole; who loads elsewhere gets random numbers."""
    found = set()
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, (ast.Attribute, ast.Name)):
                said = ast.unparse(node)
                if LOADER.fullmatch(said) and not NO_WEIGHTS.fullmatch(said):
                    found.add(f"{name(path)}: {said}")
    assert {one for one in found if not one.startswith(GUARD)} - GUARDED == set()


def test_make_help_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split())  # type: ignore[index]
    shown = subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert set(re.findall(r"^  make (\S+)", shown, re.MULTILINE)) == targets
    assert list_envs()
