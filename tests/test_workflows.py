"""Workflows, hooks and templates of the repository: they parse, and call what the Makefile has."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.paths import ROOT
from support.release import disagreements

from llm_marl_envs.commands import COMMANDS

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w.-]+@v\d+\.\d+\.\d+")
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def contents(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(), yaml.BaseLoader)  # `on` stays a text


def jobs() -> list[Any]:
    return [
        pytest.param(job, id=f"{path.stem}-{name}")
        for path in WORKFLOWS
        for name, job in contents(path)["jobs"].items()
    ]


def recipe(target: str) -> list[str]:
    """The commands of a target, as typed in a checkout."""
    lines = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert lines is not None
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in lines[1].splitlines()]


def test_there_are_the_three_workflows():
    assert [path.stem for path in WORKFLOWS] == ["checks", "docs", "release"]


@pytest.mark.parametrize("job", jobs())
def test_each_step_is_a_target_of_the_makefile_or_a_pinned_action(job: dict[str, Any]):
    for step in job["steps"]:
        if "uses" in step:
            assert PINNED.fullmatch(step["uses"])
            continue
        command, target, *variables = shlex.split(step["run"])
        assert command == "make"
        assert target in TARGETS
        assert all(re.fullmatch(r"[A-Z]+=\S+", variable) for variable in variables)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_rights_are_the_least(path: Path):
    """Reading everywhere; what writes has its own job, with an environment that guards it."""
    workflow = contents(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in workflow["on"]
    for job in workflow["jobs"].values():
        assert ("permissions" in job) == ("environment" in job)
        if "permissions" in job:
            assert not any("run" in step for step in job["steps"]), "nothing of ours runs there"
        assert int(job["timeout-minutes"]) <= 90


def test_every_python_that_the_package_names_is_checked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {re.sub(r".*:: ", "", one) for one in project["classifiers"] if "Python :: 3." in one}
    checked = contents(GITHUB / "workflows" / "checks.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert len(checked["python"]) == 3
    assert named <= set(checked["python"])


def test_hooks_are_the_commands_of_make_lint():
    repositories = contents(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [one["repo"] for one in repositories] == ["local"]
    assert [hook["entry"] for hook in repositories[0]["hooks"]] == recipe("lint")


@pytest.mark.parametrize(
    "path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.stem
)
def test_issue_forms_ask_something(path: Path):
    form = contents(path)
    if path.stem == "config":
        return
    assert form["name"]
    assert form["description"]
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert any(part.get("validations", {}).get("required") == "true" for part in asked)
    assert len({part["id"] for part in asked}) == len(asked)
    for command in re.findall(r"`llm-marl (\w+)`", path.read_text()):
        assert command in COMMANDS.names()


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The files that name a version, as of a release 1.2.3."""
    (tmp_path / "llm_marl_envs").mkdir()
    (tmp_path / "llm_marl_envs" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (a day)\n\n## 1.2.2\n")
    return tmp_path


def test_a_tag_is_the_version_that_the_files_name(released: Path):
    assert not disagreements("v1.2.3", released)
    assert len(disagreements("v1.2.4", released)) == 3


@pytest.mark.parametrize("tag", ["", "1.2.3", "v1.2", "v1.2.3-rc1"])
def test_a_tag_has_one_form(released: Path, tag: str):
    (wrong,) = disagreements(tag, released)
    assert "v1.2.3" in wrong


def test_this_checkout_names_its_version_everywhere_but_in_the_changelog():
    """Whose heading says so from the release on."""
    from llm_marl_envs import __version__

    assert all("CHANGELOG" in one for one in disagreements(f"v{__version__}"))
