"""The corpus in every deployment that this machine can be made to look like."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs.sandbox import doctor, launch

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

ROOT = Path(__file__).resolve().parents[3]
HERE = ROOT / "tests" / "support"
NOBODY = 65534
BUBBLEWRAP = shutil.which("bwrap") is not None
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    """The sandbox and the corpus where any user can read them."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-corpus-"))
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HERE, folder / "tests" / "support", ignore=ignore)
    source = ROOT / "llm_marl_envs" / "sandbox"
    shutil.copytree(source, folder / "llm_marl_envs" / "sandbox", ignore=ignore)
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    yield folder
    shutil.rmtree(folder)


def _python_of_nobody() -> str | None:
    """An interpreter that an unprivileged user can start and that is new enough."""
    for path in (launch.interpreter(), "/usr/bin/python3", "/usr/local/bin/python3"):
        ask = [path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(ask, cwd="/", stderr=subprocess.DEVNULL, **AS_NOBODY).returncode == 0:
                return path
        except OSError:
            continue
    return None


def _run(tree: Path, arguments: list[str], nobody: bool, bubblewrap: bool) -> dict[str, Any]:
    if nobody and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if bubblewrap and not BUBBLEWRAP:
        pytest.skip("bwrap is not installed")
    python = _python_of_nobody() if nobody else sys.executable
    if python is None:
        pytest.skip("no interpreter >= 3.11 that an unprivileged user may start")
    line = [python, "-P", str(tree / "tests" / "support" / "run_corpus.py"), *arguments]
    env = {"PATH": os.environ["PATH"] if bubblewrap else "/nonexistent", "LANG": "C.UTF-8"}
    user: dict[str, Any] = AS_NOBODY if nobody else {}
    done = subprocess.run(line, env=env, cwd="/", capture_output=True, timeout=900, **user)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    report = json.loads(done.stdout)
    assert "unavailable" not in report, report["unavailable"]
    assert report["uid"] == (NOBODY if nobody else os.getuid())
    return report


def _check(report: dict[str, Any]) -> None:
    assert report["surprises"] == []
    assert {"rlimits", "capabilities", "seccomp"} <= set(report["isolation"])


@pytest.mark.parametrize(
    "nobody",
    [pytest.param(False, id="caller"), pytest.param(True, marks=pytest.mark.long, id="nobody")],
)
def test_corpus_without_bubblewrap(tree: Path, nobody: bool) -> None:
    report = _run(tree, ["--quick"], nobody, bubblewrap=False)
    _check(report)
    assert "bubblewrap" not in report["isolation"]


@pytest.mark.parametrize(
    "nobody",
    [pytest.param(False, marks=pytest.mark.long, id="caller"), pytest.param(True, id="nobody")],
)
def test_corpus_where_namespaces_are_forbidden(tree: Path, nobody: bool) -> None:
    report = _run(tree, ["--quick", "--no-unshare"], nobody, bubblewrap=BUBBLEWRAP)
    _check(report)
    assert "bubblewrap" not in report["isolation"]


@pytest.mark.parametrize("nobody", [False, True], ids=["caller", "nobody"])
def test_corpus_in_bubblewrap(tree: Path, nobody: bool) -> None:
    if "bubblewrap" not in {layer.name for layer in doctor() if layer.active}:
        pytest.skip("bubblewrap cannot make namespaces here")
    report = _run(tree, ["--quick", "--require", "bubblewrap"], nobody, bubblewrap=True)
    _check(report)


def test_corpus_without_landlock(tree: Path) -> None:
    report = _run(tree, ["--quick", "--no-landlock"], False, bubblewrap=BUBBLEWRAP)
    _check(report)
    assert "nofs" in report["isolation"]


@pytest.mark.long
@pytest.mark.parametrize("nobody", [False, True], ids=["caller", "nobody"])
@pytest.mark.parametrize("bubblewrap", [False, True], ids=["bare", "bubblewrap"])
@pytest.mark.parametrize("arguments", [[], ["--no-unshare"], ["--no-landlock"]], ids="/".join)
def test_whole_corpus(tree: Path, arguments: list[str], bubblewrap: bool, nobody: bool) -> None:
    report = _run(tree, arguments, nobody, bubblewrap)
    _check(report)
    assert report["hostile"] >= 85
    assert report["legitimate"] >= 20
