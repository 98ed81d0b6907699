"""The wheel, installed where there is no torch and no checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.full  # `make test-all` runs it

ROOT = Path(__file__).parent.parent

PROGRAM = """
import sys
from llm_marl_envs import list_envs, make
from llm_marl_envs.policies import RandomPolicy
from llm_marl_envs.play.registry import EXTRA_IMPORTS, spec
from llm_marl_envs.play.rollout import Start, rollout
from llm_marl_envs.play.vector import VectorTextEnv

for env_id in list_envs():
    if spec(env_id).extras:
        continue
    env = make(env_id)
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    episode = rollout(VectorTextEnv([env]), team, [Start(seed=1)])[0]
    print(env_id, len(episode.turns))
assert "torch" not in sys.modules
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def link_what_is_required(requires: Sequence[str], packages: Path) -> None:
    """Let a folder hold these distributions and what they require, from this environment."""
    left, seen = list(requires), set[str]()
    while left:
        required = Requirement(left.pop())
        name = canonicalize_name(required.name)
        if name in seen or (required.marker and not required.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        found = metadata.distribution(name)
        left += found.requires or []
        for top in {file.parts[0] for file in found.files or ()} - {".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(found.locate_file(top)))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation: hatchling is installed already, and a test should not need the network.
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, ".", cwd=ROOT)
    return next(folder.glob("*.whl"))


def test_what_the_wheel_holds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        registry = archive.read("llm_marl_envs/envs_registry.yaml")
    assert yaml.safe_load(registry) == yaml.safe_load((ROOT / "envs_registry.yaml").read_bytes())
    for package in ("llm_marl_envs", "trainers"):
        for path in (ROOT / package).rglob("*"):
            if path.suffix in (".py", ".jsonl", ".yaml", ".typed", ".j2", ".css"):
                assert path.relative_to(ROOT).as_posix() in names
    assert not {name for name in names if name.startswith(("tests/", "docs/", "notebooks/"))}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_an_installed_wheel_needs_neither_torch_nor_a_checkout(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    binaries = tmp_path / "venv" / "bin"
    python = binaries / "python"
    install = ("-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", wheel)
    run(sys.executable, *install, cwd=tmp_path)
    packages = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    (installed,) = metadata.distributions(name="llm-marl-envs", path=[str(packages)])
    link_what_is_required(installed.requires or [], packages)
    lines = run(python, "-I", "-c", PROGRAM, cwd=tmp_path).splitlines()
    listed = run(binaries / "llm-marl", "list", cwd=tmp_path)
    assert lines
    for line in lines:
        env_id, turns = line.split()
        assert env_id in listed
        assert int(turns) >= 1
    assert "pip install 'llm-marl-envs[train]'" in _failure(binaries / "llm-marl", "demo", tmp_path)


def _failure(command: Path, argument: str, cwd: Path) -> str:
    done = subprocess.run([str(command), argument], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 2
    return done.stderr


def test_the_installed_version_is_the_packages() -> None:
    from llm_marl_envs import __version__

    try:
        installed = metadata.version("llm-marl-envs")
    except metadata.PackageNotFoundError:
        pytest.skip("running from a checkout that is not installed")
    assert installed == __version__
