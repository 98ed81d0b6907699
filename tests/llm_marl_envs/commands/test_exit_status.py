"""How commands end: mistakes and stops are one line and a status, bugs keep their traceback."""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_marl_envs.cli import main
from llm_marl_envs.commands import exit_status
from llm_marl_envs.commands.exit_status import LONGEST_WORD, ending, without_long_words
from llm_marl_envs.core.checks import suggestion
from llm_marl_envs.core.errors import Stopped, WorkFailedError
from llm_marl_envs.core.records import Episode, StopReason
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.rollout import Failures


def bug_in_a_call() -> None:
    read_json(5)  # type: ignore[arg-type]


def bug_in_our_own_line() -> None:
    suggestion("x", 5)  # type: ignore[arg-type]


def bug_of_numpy() -> None:
    np.add(np.zeros(2), np.zeros(3))


def own_assertion() -> None:
    raise AssertionError("cannot be")


def strangers_error() -> None:
    raise ValueError("raised by code that is not this library's")


@pytest.mark.parametrize(
    "bug", [bug_in_a_call, bug_in_our_own_line, bug_of_numpy, own_assertion, strangers_error]
)
def test_a_bug_keeps_its_traceback(bug: Callable[[], None]):
    with pytest.raises((TypeError, ValueError, AssertionError)):
        ending(bug, "llm-marl x")


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: make("coop_codin"), "did you mean 'coop_coding'?"),
        (lambda: make("coop_coding", turns="two"), "turns='two': expected a whole number"),
        (lambda: Path("/no/such/file").read_text(), "No such file or directory"),
        (lambda: __import__("no_such_package"), "No module named 'no_such_package'"),
    ],
)
def test_a_mistake_is_one_line(
    mistake: Callable[[], Any], words: str, capsys: pytest.CaptureFixture[str]
):
    assert ending(mistake, "llm-marl x") == 2
    error = capsys.readouterr().err
    assert error.startswith("llm-marl x: ")
    assert error.count("\n") == 1
    assert words in error
    with pytest.raises((ValueError, TypeError, OSError, ImportError)):
        ending(mistake, "llm-marl x", traceback=True)


def test_a_package_of_our_own_that_is_missing_is_a_bug():
    with pytest.raises(ImportError):
        ending(lambda: __import__("llm_marl_envs.no_such_module"), "llm-marl x")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_a_stop_has_its_own_status(number: int, status: int, capsys: pytest.CaptureFixture[str]):
    before = signal.getsignal(signal.SIGTERM)
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
    closed: list[str] = []

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
            threading.Event().wait(10)
        finally:
            closed.append("files")

    assert ending(work, "llm-marl eval", again="the same command goes on") == status
    assert closed == ["files"]
    said = capsys.readouterr().err
    assert said == "llm-marl eval: stopped; the same command goes on\n"
    assert signal.getsignal(signal.SIGTERM) is before
    signal.signal(signal.SIGINT, ctrl_c)


def test_a_stop_that_knows_more_says_it(capsys: pytest.CaptureFixture[str]):
    def work() -> None:
        raise Stopped("stopped at update 3", signal.SIGTERM)

    assert ending(work, "llm-marl train", again="nothing") == 143
    assert capsys.readouterr().err == "llm-marl train: stopped at update 3\n"


def test_numbers_that_are_not_finite_are_a_failure_and_no_mistake(
    capsys: pytest.CaptureFixture[str],
):
    from trainers.experience.collect import not_finite

    def work() -> None:
        from accelerate import Accelerator

        from trainers.running.processes import Processes

        Processes(Accelerator(cpu=True), lambda: "kept:\n3").stop(not_finite(3, "loss nan"))

    assert ending(work, "llm-marl train") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("llm-marl train: update 3: loss nan is not finite")
    assert line.endswith("; kept: 3")


def test_what_strangers_derive_from_our_failure_is_a_line(capsys: pytest.CaptureFixture[str]):
    class LicenceError(WorkFailedError):
        pass

    def work() -> None:
        raise LicenceError("no licence is free")

    assert ending(work, "llm-marl x") == 1
    assert capsys.readouterr().err == "llm-marl x: no licence is free\n"


def test_a_bug_in_the_message_of_a_mistake_is_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Both are raised by a line that begins with `raise`, in a package that counts as ours."""
    source = "def well():\n    raise ValueError('no')\ndef ill():\n    raise ValueError('no' + 5)\n"
    (tmp_path / "behind_a_door.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(exit_status, "packages", lambda: {"behind_a_door"})
    module = importlib.import_module("behind_a_door")
    assert ending(module.well, "llm-marl x") == 2
    assert capsys.readouterr().err == "llm-marl x: no\n"
    with pytest.raises(TypeError):
        ending(module.ill, "llm-marl x")


def test_failed_episodes_are_said_with_the_first_traceback(capsys: pytest.CaptureFixture[str]):
    episode = Episode(
        env_id="toy",
        env_kwargs={},
        task_id="t",
        seed=0,
        agents=("a_0",),
        turns=(),
        stop_reason=StopReason.FAILED,
        success=None,
        failure="Traceback (most recent call last):\nZeroDivisionError: division by zero",
    )

    def work() -> None:
        Failures(lambda: None).refuse_if_all([episode])

    assert ending(work, "llm-marl eval") == 1
    first, *quoted = capsys.readouterr().err.splitlines()
    assert first.startswith("llm-marl eval: ")
    assert quoted[0].startswith("Traceback")
    assert quoted[-1] == "ZeroDivisionError: division by zero"


def test_words_of_others_lose_their_middle(capsys: pytest.CaptureFixture[str]) -> None:
    long = "a" * 3_000 + "/end.json"
    for arguments in (
        ["report", long],
        ["eval", "debate-v0", "--tasks", long],
        ["eval", "debate-v0", f"--{long}"],
        ["presets", long],
        [long],
        ["train", "--config", long],
        ["eval", "debate-v0", "--team", "expert", "--tasks", "1", "--output", long],
    ):
        try:
            status = main(arguments)
        except SystemExit as stop:  # as argparse ends
            status = stop.code
        said = capsys.readouterr().err
        assert status == 2
        assert max(map(len, said.split())) <= LONGEST_WORD
    assert without_long_words("b " + "a" * 500 + "z") == f"b {'a' * 97}...{'a' * 99}z"
    assert without_long_words("a" * 200) == "a" * 200
