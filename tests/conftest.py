"""Fixtures that several test files share; the environments themselves are in `support/toys.py`."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support import toys
from support.registries import restored
from support.toys import Relay, WordPair

ROOT = Path(toys.__file__).parents[2]


def pytest_configure() -> None:
    """Imports and the collection make millions of objects, none of which is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is there now stays, so no later look for garbage goes through it.

    Accelerate looks at every start of a training. Through torch, TRL and thousands of tests that
    takes longer than many a training of these tests.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


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


@pytest.fixture
def own_registry(no_test_leaves_anything_registered: None) -> Iterator[None]:
    """Registrations of this test are gone after it, elsewhere too."""
    with restored():
        yield


@pytest.fixture
def word_pair() -> WordPair:
    return WordPair()


@pytest.fixture
def relay() -> Relay:
    return Relay()


@pytest.fixture
def bench_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a module of `benchmarks` that needs the extra `train`, by its name there."""
    pytest.importorskip("trl", reason="needs the extra `train`")
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


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
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
