"""The wheel, installed where there is no torch and no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
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
NOTEBOOK = """
import sys
import nbformat
from nbclient import NotebookClient

book = nbformat.read(sys.argv[1], as_version=4)
book.cells = book.cells[: int(sys.argv[2]) or None]
book.cells.append(nbformat.v4.new_code_cell("import llm_marl_envs; print(llm_marl_envs.__file__)"))
NotebookClient(book, timeout=1800).execute()
print(book.cells[-1].outputs[0]["text"])
"""
"""Runs the first cells of a notebook, 0 for all, and prints where the library lies."""


def alone() -> dict[str, str]:
    """The environment of a process that sees neither a checkout nor an index of packages."""
    left_out = "PYTHONPATH", "VIRTUAL_ENV"
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}


def run(
    *command: str | Path, cwd: Path, status: int = 0, seconds: float = 300, text: str = ""
) -> str:
    """Run it; returns what it prints, on standard error where it is to fail."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=alone(),
        input=text,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done.stderr if status else done.stdout


def link_what_is_required(
    requires: Sequence[str], packages: Path, extras: Sequence[str] = ()
) -> None:
    """Let a folder hold these distributions and what they require, from this environment.

    Args:
        requires: what a distribution requires, as its metadata has it.
        packages: the folder.
        extras: of that distribution.
    """
    left, seen = [(one, ("", *extras)) for one in requires], set[tuple[str, ...]]()
    while left:
        text, wanted = left.pop()
        required = Requirement(text)
        key = canonicalize_name(required.name), *sorted(required.extras)
        marker = required.marker
        if key in seen or not (
            marker is None or any(marker.evaluate({"extra": extra}) for extra in wanted)
        ):
            continue
        seen.add(key)
        found = metadata.distribution(required.name)
        left += [(one, ("", *required.extras)) for one in found.requires or []]
        for top in {file.parts[0] for file in found.files or ()} - {".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(found.locate_file(top)))


def empty_venv(folder: Path) -> Path:
    """Make an environment without any package in a folder; returns where its programs are."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    return folder / "bin"


def packages_of(binaries: Path) -> Path:
    """Where an environment's packages are."""
    return next((binaries.parent / "lib").glob("python*/site-packages"))


def requirements(wheel: Path) -> list[str]:
    """What a wheel's metadata say that it requires."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])


def install(wheel: Path, binaries: Path) -> None:
    """Put the wheel alone into an environment."""
    python = binaries / "python"
    given = ("-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", wheel)
    run(sys.executable, *given, cwd=binaries)


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
            if path.suffix in (".py", ".jsonl", ".yaml", ".typed", ".j2", ".css", ".js"):
                assert path.relative_to(ROOT).as_posix() in names
    assert not {name for name in names if name.startswith(("tests/", "docs/", "notebooks/"))}
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it requires, without an extra."""
    binaries = empty_venv(tmp_path_factory.mktemp("core") / "venv")
    install(wheel, binaries)
    link_what_is_required(requirements(wheel), packages_of(binaries))
    return binaries


def test_an_installed_wheel_needs_neither_torch_nor_a_checkout(core: Path, tmp_path: Path) -> None:
    lines = run(core / "python", "-I", "-c", PROGRAM, cwd=tmp_path).splitlines()
    listed = run(core / "llm-marl", "list", cwd=tmp_path)
    assert lines
    for line in lines:
        env_id, turns = line.split()
        assert env_id in listed
        assert int(turns) >= 1
    refused = run(core / "llm-marl", "demo", cwd=tmp_path, status=2)
    assert "pip install 'llm-marl-envs[train]'" in refused


def test_an_installed_wheel_plays_in_an_empty_folder(core: Path, tmp_path: Path) -> None:
    command = core / "llm-marl"
    assert "source archive" in run(command, "spec", "math_team", cwd=tmp_path)
    assert "example: llm-marl play" in run(command, "play", "--help", cwd=tmp_path)
    played = ("play", "coop_coding-v0", "--seed", "1")
    assert "reward" in run(command, *played, cwd=tmp_path, text="x\n.\n")
    measured = run(command, "eval", "crowd-v0", "--team", "expert", "--tasks", "2", cwd=tmp_path)
    assert "success" in measured
    assert not list(tmp_path.iterdir())


def test_an_installed_wheel_shows_its_pages(wheel: Path, tmp_path: Path) -> None:
    """With what the extra `app` brings, from the folder of a Space."""
    binaries = empty_venv(tmp_path / "venv")
    install(wheel, binaries)
    link_what_is_required(requirements(wheel), packages_of(binaries), ["app"])
    command = [str(binaries / "llm-marl"), "app"]
    run(*command, "--space", "space", "--wheel", wheel, cwd=tmp_path)
    space = tmp_path / "space"
    assert (space / wheel.name).read_bytes() == wheel.read_bytes()
    serving = [*command, "runs", "--port", "0", "--frame", "https://huggingface.co"]
    with subprocess.Popen(serving, cwd=space, env=alone(), stdout=-1, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[0]
            for path in ("", "/play/debate-v0", "/watch", "/style.css", "/static/app.js"):
                with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
                    assert answer.status == 200
                    assert "huggingface.co" in answer.headers["content-security-policy"]
        finally:
            process.terminate()


@pytest.mark.long  # it builds an embedded model
def test_an_installed_wheel_trains(wheel: Path, tmp_path: Path) -> None:
    binaries = empty_venv(tmp_path / "venv")
    install(wheel, binaries)
    link_what_is_required(requirements(wheel), packages_of(binaries), ["train"])
    train = ("train", "--config", "coop_coding_tiny", "--override", "max_steps=1", "--override")
    small = "tiny={demonstrations: 64, steps: 2}"
    out = "output_dir=run"
    run(binaries / "llm-marl", *train, small, "--override", out, cwd=tmp_path, seconds=1200)
    shown = run(
        binaries / "llm-marl",
        "eval",
        "coop_coding-v0",
        "--team",
        "run/team",
        "--tasks",
        "2",
        cwd=tmp_path,
    )
    assert "success" in shown


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("01_play_an_environment", ["notebooks"]),
        pytest.param("02_evaluate_baselines", ["notebooks", "train"], marks=pytest.mark.long),
        pytest.param("03_train_a_team", ["notebooks", "train"], marks=pytest.mark.long),
    ],
)
def test_a_notebook_installs_the_wheel_beside_it(
    name: str, extras: list[str], wheel: Path, tmp_path: Path
) -> None:
    """Without a checkout and without an index; what the library requires is there."""
    binaries = empty_venv(tmp_path / "venv")
    link_what_is_required(["pip", *requirements(wheel)], packages_of(binaries), extras)
    desk = tmp_path / "desk"
    desk.mkdir()
    book = shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", desk)
    play = (binaries / "python", "-c", NOTEBOOK, book)
    assert "make wheel" in run(*play, "1", cwd=desk, status=1)
    shutil.copy(wheel, desk)
    lies = run(*play, "0", cwd=desk, seconds=1800).strip()
    assert Path(lies).is_relative_to(packages_of(binaries))


def test_the_installed_version_is_the_packages() -> None:
    from llm_marl_envs import __version__

    try:
        installed = metadata.version("llm-marl-envs")
    except metadata.PackageNotFoundError:
        pytest.skip("running from a checkout that is not installed")
    assert installed == __version__
