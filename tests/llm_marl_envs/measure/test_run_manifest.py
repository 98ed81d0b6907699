"""The manifest of a run: what it records, when it is written, and what it leaves out."""

from __future__ import annotations

import getpass
import json
import math
import os
import platform
import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import llm_marl_envs
from llm_marl_envs.core.specs import list_envs
from llm_marl_envs.measure.run_manifest import (
    CHECKOUT,
    MANIFEST_FILE,
    code_version,
    hardware,
    prompt_hashes,
    recording,
    sha256,
)
from llm_marl_envs.play.registry import make


def read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / MANIFEST_FILE).read_text())


def test_it_is_there_while_the_run_runs_and_complete_after(tmp_path: Path):
    kwargs = {"split": "train", "turns": 2}
    config = {"learning_rate": np.float64(1e-3), "callback": object()}
    with recording(tmp_path, "train", config, env_id="coop_coding-v0", env_kwargs=kwargs) as costs:
        before = read(tmp_path)
        costs.tokens = 123
    after = read(tmp_path)
    assert [one["status"] for one in before["sessions"]] == ["running"]
    assert before["tokens"] is None
    assert [one["status"] for one in after["sessions"]] == ["finished"]
    assert after["tokens"] == 123
    assert 0 < after["hours"] < 0.1
    assert after["config"]["learning_rate"] == 0.001
    assert after["packages"]["llm-marl-envs"] == llm_marl_envs.__version__
    assert after["packages"]["numpy"] == np.__version__
    assert after["python"] == platform.python_version()
    assert after["hardware"]["cpus"] >= 1
    assert after["hardware"]["memory_gib"] > 0.1
    assert after["env_kwargs"] == kwargs
    assert len(after["prompts"]["tasks"]) == 4


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_a_run_that_ends_badly_says_so(tmp_path: Path, error: type[BaseException], status: str):
    with pytest.raises(error), recording(tmp_path, "train", {}):
        raise error
    assert read(tmp_path)["sessions"][0]["status"] == status


def test_a_resumed_run_adds_a_session(tmp_path: Path):
    for tokens in (5, 9):
        with recording(tmp_path, "train", {"seed": 1}) as costs:
            costs.tokens = tokens
    found = read(tmp_path)
    assert len(found["sessions"]) == 2
    assert found["tokens"] == 9
    assert found["hours"] == pytest.approx(sum(one["hours"] for one in found["sessions"]))
    with pytest.raises(ValueError, match="kind 'train', this one is 'eval'"):
        recording(tmp_path, "eval", {}).__enter__()


def test_a_killed_session_counts_to_its_last_file(tmp_path: Path):
    with recording(tmp_path, "eval", {}):
        running = (tmp_path / MANIFEST_FILE).read_text()
    (tmp_path / MANIFEST_FILE).write_text(running)  # what a killed process leaves
    started = datetime.fromisoformat(read(tmp_path)["sessions"][0]["started"])
    (tmp_path / "episodes.jsonl").write_text("{}")
    last = (started + timedelta(hours=1.5)).timestamp()
    os.utime(tmp_path / "episodes.jsonl", (last, last))
    with recording(tmp_path, "eval", {}):
        pass
    first, second = read(tmp_path)["sessions"]
    assert (first["status"], first["hours"]) == ("killed", 1.5)
    assert datetime.fromisoformat(first["ended"]) == started + timedelta(hours=1.5)
    assert read(tmp_path)["hours"] == 1.5 + second["hours"]


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_the_code_is_the_commit_of_its_checkout(tmp_path: Path):
    assert code_version(tmp_path) is None
    assert (CHECKOUT / "llm_marl_envs" / "__init__.py").samefile(llm_marl_envs.__file__)

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "a.py").write_text("1")
    git("add", "a.py")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert code_version(tmp_path) == {"commit": commit, "changed": False}
    (tmp_path / "a.py").write_text("2")
    assert code_version(tmp_path) == {"commit": commit, "changed": True}


def test_a_half_written_manifest_is_kept_aside(tmp_path: Path):
    (tmp_path / MANIFEST_FILE).write_text('{"version": 1, "sess')
    with pytest.warns(UserWarning, match="half-written"), recording(tmp_path, "train", {}):
        pass
    assert len(read(tmp_path)["sessions"]) == 1
    assert (tmp_path / "run_manifest.json.unreadable").read_text() == '{"version": 1, "sess'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sessions", "text"),
        ("sessions", ["text"]),
        ("sessions", [[]]),
        ("sessions", [{}]),
        ("sessions", [{"status": "running", "started": "yesterday", "hours": None}]),
        ("sessions", [{"status": "running", "started": "2026-01-01T00:00:00", "hours": None}]),
        ("sessions", [{"status": "finished", "started": "2026-01-01T00:00:00Z", "hours": "1"}]),
        ("config", "text"),
        ("config", ["text"]),
        ("kind", ["train"]),
        ("config", {"a": math.inf}),
        ("note", math.nan),
    ],
)
def test_a_manifest_of_others_is_kept_aside(tmp_path: Path, key: str, value: Any):
    with recording(tmp_path, "train", {"a": 1}):
        pass
    edited = {**read(tmp_path), key: value}
    (tmp_path / MANIFEST_FILE).write_text(json.dumps(edited))
    said = pytest.warns(UserWarning, match=MANIFEST_FILE)
    with said, recording(tmp_path, "train", {"a": 1}):
        pass
    kept = (tmp_path / "run_manifest.json.unreadable").read_text()
    assert kept == json.dumps(edited)
    assert len(read(tmp_path)["sessions"]) == 1


def test_other_processes_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with recording(None, "train", {}) as costs:
        costs.tokens = 1
    assert not list(tmp_path.iterdir())


def test_equal_settings_hash_equal_and_others_do_not(tmp_path: Path):
    hashes = []
    for place, config in enumerate(({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3})):
        with recording(tmp_path / str(place), "train", config):
            pass
        hashes.append(read(tmp_path / str(place))["config_sha256"])
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("env_id", list_envs())
def test_prompts_are_hashed_for_every_environment(env_id: str):
    found = prompt_hashes(env_id, {})
    assert prompt_hashes(env_id, {}) == found
    env = make(env_id)
    for hashes in found["tasks"].values():
        assert list(hashes) == list(env.possible_agents)


def test_a_prompt_hash_is_the_hash_of_the_prompt():
    env = make("coop_coding-v0", turns=2)
    first = env.source[0].id
    shown = env.reset(seed=0, options={"task": 0})[0]
    found = prompt_hashes("coop_coding-v0", {"turns": 2})
    assert found["tasks"][first]["main_0"] == sha256(str(shown["main_0"]))
    assert prompt_hashes("coop_coding-v0", {"info": "full"})["all"] != found["all"]


def test_it_tells_nothing_of_who_ran_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value")
    with recording(tmp_path, "train", {}):
        pass
    text = (tmp_path / MANIFEST_FILE).read_text()
    assert "very-secret-value" not in text
    assert str(tmp_path) not in text
    assert f'"{getpass.getuser()}"' not in text
    assert f'"{platform.node()}"' not in text


def test_hardware_without_torch_is_known():
    assert hardware()["processes"] == 1
