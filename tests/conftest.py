"""Fixtures that several test files share; the environments themselves are in `support/toys.py`."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import toys
from support.registries import restored
from support.toys import Relay, WordPair

ROOT = Path(toys.__file__).parents[2]


def _nothing_is_left() -> Iterator[None]:
    with restored() as changed:
        yield
    if changed:
        pytest.fail(
            f"left registered or changed: {', '.join(changed)}; use the fixture own_registry, or "
            "put it back"
        )


@pytest.fixture(autouse=True, scope="module")
def no_module_leaves_anything_registered() -> Iterator[None]:
    yield from _nothing_is_left()


@pytest.fixture(autouse=True)
def no_test_leaves_anything_registered(
    no_module_leaves_anything_registered: None,
) -> Iterator[None]:
    yield from _nothing_is_left()


@pytest.fixture(autouse=True, scope="session")
def entry_points_of_this_checkout(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Beside the installed ones, which are older where nobody installed again after a change."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folder = tmp_path_factory.mktemp("checkout")
    info = folder / "entry_points_of_this_checkout-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: entry_points_of_this_checkout\n")
    lines = [
        line
        for group, points in named.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    sys.path.append(str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.fixture
def own_registry(no_test_leaves_anything_registered: None) -> Iterator[None]:
    """Registrations of this test are gone after it, in PettingZoo's registries too."""
    with restored():
        yield


@pytest.fixture
def word_pair() -> WordPair:
    return WordPair()


@pytest.fixture
def relay() -> Relay:
    return Relay()


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Run a program in a fresh interpreter that sees this checkout; returns what it printed."""

    def run(source: str, **environment: str) -> str:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONPATH": paths, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
