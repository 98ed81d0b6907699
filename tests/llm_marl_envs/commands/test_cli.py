from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.toys import Relay, RelayExperts, WordPair

from llm_marl_envs import cli
from llm_marl_envs.cli import main
from llm_marl_envs.commands import COMMANDS, Command
from llm_marl_envs.commands.options import assignments, file_to_write
from llm_marl_envs.core import specs
from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.specs import EnvSpec, list_envs, namespaces

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def toy_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    toys = {
        "word_pair-v0": EnvSpec(id="word_pair-v0", entry_point=WordPair, agents=("left_0",)),
        "relay-v0": EnvSpec(id="relay-v0", entry_point=Relay, api="aec"),
    }
    known = {**specs._specs(), **toys}
    monkeypatch.setattr(specs, "_specs", lambda: known)


def piped(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llm_marl_envs.cli", *arguments],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )


@pytest.mark.parametrize("command", COMMANDS.names())
def test_every_help_ends_in_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    last = capsys.readouterr().out.strip().split("\n\n")[-1]
    assert last.startswith(f"example: llm-marl {command}")


@pytest.mark.parametrize("command", COMMANDS.names())
def test_the_examples_are_accepted(command: str) -> None:
    parser = cli._parser()
    subparsers: Any = parser._subparsers._group_actions[0]  # type: ignore[union-attr]
    example = subparsers.choices[command].epilog.removeprefix("example: llm-marl ")
    assert parser.parse_args(example.split()).command == command


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[::2]] == [*list_envs(), *namespaces()]


def test_spec(capsys: pytest.CaptureFixture[str]) -> None:
    for env_id in list_envs():
        assert main(["spec", env_id]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"{env_id}: ")
        assert "arguments:" in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("llm-marl-envs 0.")


def test_doctor_ends_with_a_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from llm_marl_envs.sandbox import layers

    confined = any(one.name == "seccomp" and one.active for one in layers.doctor())
    assert main(["doctor"]) == (0 if confined else 1)
    *shown, last = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in shown] == list(layers.LAYERS)
    assert last.startswith("All is well: " if confined else "Missing: ")
    # The same machine, had it a processor whose system calls nobody listed.
    monkeypatch.setattr(layers.syscalls, "current", lambda: None)
    monkeypatch.setattr(layers, "_found", {})
    assert main(["doctor"]) == 1
    *shown, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == ["yes"] + ["no"] * (len(layers.LAYERS) - 1)
    assert last.startswith("Missing: ")
    assert "no table of system calls" in last
    assert "Run inside a Linux virtual machine" in last


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["spec", "word_pear"], "no environment 'word_pear'; did you mean 'word_pair'?"),
        (["play", "nothing"], "no environment 'nothing'"),
        (["play", "word_pair-v0", "--agent", "up_0"], "its seats are ['left_0', 'right_0']"),
        (["play", "word_pair-v0", "--task", "oak"], "no task 'oak'"),
        (["play", "word_pair-v0", "--task", "99"], "index from 0 to 29"),
        (["play", "word_pair-v0", "--set", "turn=2"], "did you mean 'turns'?"),
        (["play", "word_pair-v0", "--set", "turns"], "'turns': expected KEY=VALUE"),
        (["play", "word_pair-v0", "--set", "turns=["], "the value is no YAML"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"llm-marl {arguments[0]}: ")
    assert words in error
    with pytest.raises(ValueError, match=r".+"):
        main(["--traceback", *arguments])


def test_no_command_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_values_are_read_as_yaml() -> None:
    given = ["a=1", "b=x=y", "c=[1, true]", "d=", "e=1.5"]
    assert assignments(given) == {"a": 1, "b": "x=y", "c": [1, True], "d": None, "e": 1.5}
    with pytest.raises(ValueError, match="'a' is given twice"):
        assignments(["a=1", "a=2"])


def test_play_shows_what_was_asked_and_what_was_paid(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    typed = tmp_path / "typed"
    typed.write_text("wrong\n.\nfig\n.\n", encoding="utf-8")
    with typed.open(encoding="utf-8") as source:
        monkeypatch.setattr(sys, "stdin", source)
        assert main(["play", "word_pair-v0", "--task", "fig-apple", "--agent", "left_0"]) == 0
    shown = capsys.readouterr().out
    assert "right_0 is played by expert\n" in shown
    assert "Your word: fig" in shown
    assert "left_0, turn 1" in shown
    assert "Again." in shown
    assert "reward +0.5 (words +0.5)" in shown
    assert "task fig-apple: solved (terminated); return: left_0 1, right_0 1" in shown


@pytest.mark.parametrize("known", [True, False])
def test_random_text_plays_where_there_is_no_expert(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    known: bool,
) -> None:
    def without(self: RelayExperts, task: Any, agent: str, convention: str) -> str:
        raise ValueError("none")

    if known:
        monkeypatch.setattr(RelayExperts, "first", without)
    else:
        monkeypatch.setattr(Relay, "experts", TextEnv.experts)
    (tmp_path / "typed").write_text("\n", encoding="utf-8")
    with (tmp_path / "typed").open(encoding="utf-8") as source:
        monkeypatch.setattr(sys, "stdin", source)
        assert main(["play", "relay-v0"]) == 0
    shown = capsys.readouterr().out
    assert "runner_0 is played by random\n" in shown
    assert "not solved" in shown


TYPED = "naïve\n漢字\n.\n"


@pytest.mark.parametrize("env_id", list_envs())
def test_every_environment_can_be_played(
    env_id: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(TYPED))
    assert main(["play", env_id, "--seed", "1"]) == 0
    shown = capsys.readouterr().out
    assert "漢字" in shown
    assert "=== what happened ===" in shown


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "utf-16", "utf-32", "cp1252"])
def test_input_that_is_no_text_is_a_mistake(
    encoding: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = io.TextIOWrapper(io.BytesIO(b"caf\xe9\x81\n.\n"), encoding=encoding)
    monkeypatch.setattr(sys, "stdin", typed)
    assert main(["play", "word_pair-v0"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"no text in {encoding}" in error


@pytest.mark.parametrize("typed", ["", None])
def test_without_any_input_nobody_plays(
    typed: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None if typed is None else io.StringIO(typed))
    assert main(["play", "word_pair-v0"]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("llm-marl play: standard input is empty: type or pipe")
    assert "what happened" not in said.out


def test_input_that_ends_early_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("wrong\n.\n"))
    assert main(["play", "word_pair-v0", "--agent", "left_0", "--set", "turns=3"]) == 0
    assert capsys.readouterr().err.count("the input has ended") == 1


def parsers() -> dict[str, Any]:
    """Command -> its parser."""
    subparsers: Any = cli._parser()._subparsers._group_actions[0]  # type: ignore[union-attr]
    return subparsers.choices


WRITTEN = [
    (name, action)
    for name, parser in parsers().items()
    for action in parser._actions
    if action.dest in ("output", "space", "slurm")
    or (name in ("import-model", "warm-start", "pull-team") and action.dest == "folder")
]
"""(command, argument) where one names what is written."""


@pytest.mark.parametrize(("command", "action"), WRITTEN, ids=lambda one: getattr(one, "dest", one))
def test_what_is_written_has_a_path(
    command: str,
    action: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Nothing runs where it has none."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert action.type("~/x") == str(tmp_path / "x")
    refused = [
        "",
        " ",
        "zero\0byte",
        "~nobody-there/x",
        "a" * 5000,
        *([".", "/", "x/"] if action.type is file_to_write else []),
    ]
    for path in refused:
        for given in action.option_strings or [None]:
            arguments = [path] if given is None else [f"{given}={path}"]
            with pytest.raises(SystemExit) as stopped:
                main([command, *["x"] * (action.option_strings == [] and 1), *arguments])
            assert stopped.value.code == 2
            error = capsys.readouterr().err
            assert error.startswith(f"llm-marl {command}: argument ")
            assert error.count("\n") == 1
            assert len(error) < 300


def test_commands_that_write_are_known() -> None:
    assert len(WRITTEN) == 16, [(name, action.dest) for name, action in WRITTEN]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["tools"], 0, "calculate: the exact value"),
        (["list"], 0, "debate-v0"),
        (["spec", "debate-v0"], 0, "with -OO: run it without"),
        (["schema"], 2, "llm-marl schema: Transformers reads docstrings"),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else None,
)
def test_python_without_docstrings(arguments: list[str], status: int, words: str) -> None:
    """As a module, too."""
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "llm_marl_envs", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == status, done.stderr
    assert words in done.stdout + done.stderr
    assert done.stderr.count("\n") == (status > 0)


def test_input_may_be_piped() -> None:
    done = piped("play", list_envs()[0], "--seed", "1", text=TYPED)
    assert done.returncode == 0, done.stderr
    assert "漢字" in done.stdout
    assert "=== what happened ===" in done.stdout


def test_play_survives_a_terminal_without_unicode() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "llm_marl_envs.cli", "play", list_envs()[0]],
        input="naïve 🦜\n.\n".encode(),
        capture_output=True,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "ascii:surrogateescape",
        },
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_what_training_needs_is_named(tmp_path: Path) -> None:
    """An import of torch that fails as where it is not installed."""
    (tmp_path / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')", encoding="utf-8"
    )
    for command in (
        ["demo"],
        ["train", "--config", "coop_coding_tiny"],
        ["eval", "coop_coding-v0", "--team", "t"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "llm_marl_envs.cli", *command],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
            cwd=tmp_path,
            timeout=120,
        )
        assert done.returncode == 2
        assert "pip install 'llm-marl-envs[train]'" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("resumes", [True, False])
@pytest.mark.usefixtures("own_registry")
def test_an_interrupt_is_no_traceback(capsys: pytest.CaptureFixture[str], resumes: bool) -> None:
    def interrupt(options: Any) -> None:
        raise KeyboardInterrupt

    command = Command(name="wait", about="Wait.", example="", run=interrupt, resumes=resumes)
    COMMANDS.add("wait", command)
    assert main(["wait"]) == 130
    more = "; the same command goes on" if resumes else ""
    assert capsys.readouterr().err == f"llm-marl wait: stopped{more}\n"


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "debate-v0", "--team", "expert", "--tasks", "1", "--output", "{}/file"),
        (
            "collect",
            "coop_writing_tldr-v0",
            "--team",
            "expert",
            "--tasks",
            "1",
            "--output",
            "{}/file",
        ),
        ("contribution", "debate-v0", "--team", "expert", "--tasks", "2", "--output", "{}"),
    ],
    ids=lambda command: command[0],
)
def test_outputs_that_cannot_be_written_are_named(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").touch()
    assert main([one.format(tmp_path) for one in command]) == 2
    error = capsys.readouterr().err.strip().split("\n")[-1]
    assert error.startswith(f"llm-marl {command[0]}: ")
    assert str(tmp_path) in error


def test_warnings_are_one_line(tmp_path: Path):
    command = ("eval", "coop_writing_tldr-v0", "--team", "expert", "--tasks", "2")
    assert piped(*command, "--output", str(tmp_path)).returncode == 0
    with open(tmp_path / "episodes.jsonl", "a") as file:
        file.write('{"half')
    again = piped(*command, "--output", str(tmp_path))
    assert again.returncode == 0
    said = [line for line in again.stderr.split("\n") if "half-written" in line]
    assert said == [
        f"llm-marl: {tmp_path}/episodes.jsonl: its last line is half-written; "
        "that episode is played again"
    ]
    assert "open_log" not in again.stderr
