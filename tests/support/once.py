"""What several test processes need is made by the first that asks; the others wait for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_marl_envs.files.locks import locked


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills, one per run of pytest however many processes it has.

    Tests of a module may be spread over all processes, and a fixture of the module is made anew in
    each. The folder is for reading alone. If `make` fails, the next that asks tries again.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # then the base is this process's own
        base = base.parent
    folder, done = base / f"once-{name}", base / f"once-{name}.done"
    with locked(base / f"once-{name}.lock", wait=True):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
