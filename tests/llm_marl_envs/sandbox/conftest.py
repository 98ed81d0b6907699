"""One pool for the tests of a file, with limits short enough to be reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llm_marl_envs.sandbox import Limits, Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2, limits=Limits(cpu_seconds=1, wall_seconds=2)) as sandbox:
        yield sandbox
