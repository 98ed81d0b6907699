"""The commands for research: their examples, what they print and write, and wrong arguments."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.toys import Relay, WordPair

from llm_marl_envs import cli, make
from llm_marl_envs.cli import main
from llm_marl_envs.commands.options import named_arguments
from llm_marl_envs.core import specs
from llm_marl_envs.core.specs import EnvSpec
from llm_marl_envs.measure.dataset import read_dataset
from llm_marl_envs.measure.studies.cross_play_files import read_cross_play

COMMANDS = ("cross-play", "contribution", "sweep", "table", "collect")


@pytest.fixture(autouse=True)
def toy_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pair(WordPair):
        def __init__(self, split: str = "train", **kwargs: Any) -> None:
            super().__init__(**kwargs)

    class Run(Relay):
        def __init__(self, split: str = "train", **kwargs: Any) -> None:
            super().__init__(**kwargs)

    toys = {
        "word_pair-v0": EnvSpec(
            id="word_pair-v0", entry_point=Pair, agents=("left_0", "right_0"), api="parallel"
        ),
        "relay-v0": EnvSpec(
            id="relay-v0",
            entry_point=Run,
            agents=tuple(f"runner_{i}" for i in range(3)),
            api="aec",
        ),
    }
    known = {**specs._specs(), **toys}
    monkeypatch.setattr(specs, "_specs", lambda: known)


@pytest.mark.parametrize(
    "arguments",
    [
        ["cross-play", "--team", "a=expert:upper", "--team", "expert", "--partners"],
        ["contribution", "--team", "expert"],
    ],
)
def test_what_was_played_in_is_closed(arguments: list[str], monkeypatch: pytest.MonkeyPatch):
    stepped: set[WordPair] = set()
    closed: set[WordPair] = set()
    step = WordPair.step
    monkeypatch.setattr(WordPair, "step", lambda env, a: (stepped.add(env), step(env, a))[1])
    monkeypatch.setattr(WordPair, "close", lambda env: closed.add(env))
    assert main([arguments[0], "word_pair-v0", *arguments[1:], "--tasks", "2"]) == 0
    assert stepped
    assert stepped <= closed


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_are_accepted(command: str):
    parser = cli._parser()
    subparsers: Any = parser._subparsers._group_actions[0]  # type: ignore[union-attr]
    example = subparsers.choices[command].epilog.removeprefix(f"example: llm-marl {command} ")
    assert parser.parse_args([command, *example.split()]).command == command


def test_cross_play_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["--team", "a=expert:upper", "--team", "random", "--tasks", "3", "--partners"]
    assert main(["cross-play", "word_pair-v0", *arguments, "--output", str(tmp_path / "x")]) == 0
    shown = capsys.readouterr().out
    assert "Rows: the team that plays left_0. Columns: the team that plays right_0." in shown
    assert "a, left_0 beside lower" in shown
    result, partners = read_cross_play(tmp_path / "x" / "cross_play.json")
    assert result.teams == ("a", "random")
    assert result.matrix == ((1.0, 0.5), (0.5, 0.0))
    assert len(partners) == 2 * 2 * 2
    assert (tmp_path / "x" / "heat_map.png").stat().st_size > 1000
    manifest = json.loads((tmp_path / "x" / "run_manifest.json").read_text())
    assert (manifest["kind"], manifest["env_kwargs"]) == ("cross-play", {"split": "test"})
    assert manifest["config"]["teams"]["a"] == dict.fromkeys(("left_0", "right_0"), "expert:upper")
    assert manifest["config"]["plan"] == {"n_tasks": 3, "samples": 1, "seed": 0}


def test_a_picture_that_cannot_be_drawn_is_named_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    arguments = ["cross-play", "word_pair-v0", "--team", "a=expert", "--team", "b=random"]
    output = tmp_path / "x"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib.figure", None)  # as where it is not installed
        assert main([*arguments, "--tasks", "2", "--output", str(output)]) == 2
        error = capsys.readouterr().err
        assert "pip install 'llm-marl-envs[eval]'" in error
        assert not output.exists()  # the manifest is written before the first episode
        assert main([*arguments, "--tasks", "2"]) == 0  # nothing is to be drawn
    for name in ("heat_map.png", "cross_play.json"):
        (tmp_path / name / name).mkdir(parents=True)
        assert main([*arguments, "--output", str(tmp_path / name)]) == 2
        assert f"{name}: a folder; expected a file" in capsys.readouterr().err
        assert list((tmp_path / name).iterdir()) == [tmp_path / name / name]
    (tmp_path / "file").touch()
    assert main([*arguments, "--output", str(tmp_path / "file" / "x")]) == 2
    assert f"{tmp_path / 'file'}: a file; expected a folder" in capsys.readouterr().err


def test_contribution_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    output = str(tmp_path / "c.json")
    arguments = ["--team", "expert", "--other", "random", "--tasks", "2", "--output", output]
    assert main(["contribution", "relay-v0", *arguments]) == 0
    shown, progress = capsys.readouterr()
    # 2 episodes, then each of 3 agents' only turn and all its turns; 3 kinds of messages each.
    assert "14/14" in progress
    assert "22/22" in progress
    assert "runner_2, turn 0" in shown
    assert "runner_0, other_team" in shown
    found = json.loads((tmp_path / "c.json").read_text())
    # This toy's experts know the word without listening: only the last one's action counts.
    assert [one["lost"]["mean"] for one in found["actions"]] == [0, 0, 0, 0, 1, 1]
    assert {one["lost"]["mean"] for one in found["messages"]} == {0}
    assert (found["env_id"], found["env_kwargs"]) == ("relay-v0", {"split": "test"})
    assert {role: set(one.values()) for role, one in found["identities"].items()} == {
        "team": {"expert"},
        "other": {"random"},
    }


def test_evaluation_to_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for team in ("expert", "random"):
        folder = str(tmp_path / "evals" / team)
        assert main(["eval", "relay-v0", "--team", team, "--tasks", "8", "--output", folder]) == 0
        manifest = json.loads((tmp_path / "evals" / team / "run_manifest.json").read_text())
        assert manifest["kind"] == "eval"
        assert set(manifest["config"]["team"].values()) == {team}
        assert manifest["tokens"] is None  # neither has tokens
        assert manifest["env_kwargs"] == {"split": "test"}
    capsys.readouterr()
    assert main(["table", str(tmp_path / "evals"), "--latex", "--columns", "success"]) == 0
    shown = capsys.readouterr().out
    assert "expert & $1.00$ {\\scriptsize $[0.59, 1.00]$} \\\\" in shown
    assert "random & $0.00$" in shown
    both = f"Both={tmp_path / 'evals'}"
    assert main(["table", f"Ours & co={tmp_path / 'evals' / 'expert'}", both, "--latex"]) == 0
    shown = capsys.readouterr().out
    assert "Ours \\& co & $1.00$" in shown
    assert "Both: random & $0.00$" in shown
    path = tmp_path / "t.tex"
    assert main(["table", str(tmp_path / "evals"), "--output", str(path)]) == 0
    assert "1.00 [0.59, 1.00]" in path.read_text()


def test_the_forms_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for team in ("expert", "random"):
        folder = str(tmp_path / team / "eval")
        assert main(["eval", "relay-v0", "--team", team, "--tasks", "3", "--output", folder]) == 0
    capsys.readouterr()
    given = [f"Good_1={tmp_path / 'expert'}", f"Bad={tmp_path / 'random'}", "--columns", "success"]
    assert main(["table", *given, "--markdown", "--best"]) == 0
    assert "| Good\\_1 | **1.00** [too few tasks: 3] |" in capsys.readouterr().out
    assert main(["table", *given, "--latex", "--best", "--caption", "50 % & more"]) == 0
    shown = capsys.readouterr().out
    assert "Good\\_1 & $\\mathbf{1.00}$" in shown
    assert "\\caption{50 \\% \\& more}" in shown
    assert main(["table", *given, "--best"]) == 0
    assert "1.00 [too few tasks: 3]*" in capsys.readouterr().out
    assert main(["table", *given, "--caption", "x"]) == 2
    assert "--caption and --label are for --latex" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["table", *given, "--latex", "--markdown"])


def test_collect_writes_a_dataset(tmp_path: Path):
    arguments = ["--team", "expert", "--tasks", "3", "--output", str(tmp_path / "d")]
    assert main(["collect", "relay-v0", *arguments]) == 0
    (shard,) = (tmp_path / "d" / "data").iterdir()
    assert shard.read_text().count("\n") == 3 * 3


GREEDY = ("--temperature", "0", "--samples", "2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cross-play", "word_pair-v0", "--team", "expert"], "1 teams"),
        (["cross-play", "word_pair-v0", "--team", "a=expert", "--team", "a=random"], "given twice"),
        (["contribution", "relay-v0", "--team", "expert", "--tasks", "1"], "at least 2 tasks"),
        (
            ["cross-play", "word_pair-v0", "--team", "a=expert", "--team", "b=expert:Upper"],
            "convention 'Upper'",
        ),
        (
            ["collect", "relay-v0", "--team", "random", *GREEDY, "--output", "x"],
            "2 greedy samples of a task are all alike",
        ),
        (["contribution", "relay-v0", "--team", "random", *GREEDY], "2 greedy samples"),
        (["sweep", "nothing.yaml"], "nothing.yaml: no such file"),
        (["table", "nothing"], "no summary.json there"),
        (["collect", "relay-v0", "--team", "expert", "--format", "csv", "--output", "x"], "'csv'"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"llm-marl {arguments[0]}: ")
    assert words in error


def test_all_tasks_of_a_split(tmp_path: Path):
    output = ["--output", str(tmp_path / "out")]
    assert main(["collect", "word_pair-v0", "--team", "expert", "--tasks", "all", *output]) == 0
    tasks = len(make("word_pair-v0", split="train").unwrapped.source)
    assert sum(1 for _ in read_dataset(tmp_path / "out")) == tasks


def test_teams_may_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rate=1").mkdir()
    given = ["a=expert", "rate=1", "runs/x=1/team", "endpoint:http://h?k=v"]
    assert named_arguments(given) == {
        "a": "expert",
        "rate=1": "rate=1",
        "runs/x=1/team": "runs/x=1/team",
        "endpoint:http://h?k=v": "endpoint:http://h?k=v",
    }


def test_a_team_of_another_environment_needs_leave(tmp_path: Path, capsys: Any):
    pytest.importorskip("torch")
    from support.models import SETTINGS

    from trainers.weights.team_files import build_team_model, save_team
    from trainers.weights.tiny import build_model, build_tokenizer

    tokenizer = build_tokenizer(["Your word is: fig"], SETTINGS.vocab_size)
    build_model(tokenizer, 0, SETTINGS).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    team = build_team_model(str(tmp_path / "model"), ["left_0", "right_0"], weights="shared")
    about = {"env_id": "word_pair-v7", "max_completion_length": 4}
    save_team(team, tmp_path / "team", env=about)
    saved = str(tmp_path / "team")
    for command in (
        ["cross-play", "word_pair-v0", "--team", f"a={saved}", "--team", "b=random"],
        ["contribution", "word_pair-v0", "--team", saved],
        ["collect", "word_pair-v0", "--team", saved, "--output", str(tmp_path / "episodes")],
    ):
        assert main([*command, "--tasks", "2"]) == 2
        assert "trained in word_pair-v7, and word_pair-v0" in capsys.readouterr().err
        assert main([*command, "--tasks", "2", "--transfer"]) == 0
