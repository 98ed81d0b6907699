"""Fixtures that several test files share; the environments themselves are in `toys.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from toys import Relay, WordPair

ROOT = Path(__file__).parent.parent


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
