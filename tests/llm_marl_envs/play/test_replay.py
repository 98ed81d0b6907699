"""A transcript is data: nothing that it names is run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs.core.records import Episode, read_jsonl, write_jsonl
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.registry import make, make_recorded
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy

TOUCH = """
from pathlib import Path
from pettingzoo import ParallelEnv
Path(MARKER).touch()


def make_env(**kwargs):
    Path(MARKER).touch()


class Env(ParallelEnv):
    def __init__(self, **kwargs):
        Path(MARKER).touch()


class Scorer:
    def __init__(self, *args):
        Path(MARKER).touch()
"""


def played(env: Any) -> Episode:
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    return rollout(VectorTextEnv([env]), team, [Start(task=0, seed=3)])[0]


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that `hostile_module` makes when it is imported, or when anything of it is called."""
    path = tmp_path / "it ran"
    (tmp_path / "hostile_module.py").write_text(TOUCH.replace("MARKER", repr(str(path))))
    monkeypatch.syspath_prepend(tmp_path)
    return path


HOSTILE = {
    "a program": ("subprocess:Popen", {"args": ["touch", "MARKER"]}),
    "a function": ("os:system", {"command": "touch MARKER"}),
    "an environment": ("hostile_module:Env", {}),
    "a factory": ("hostile_module:make_env", {}),
    "a scorer": (
        "coop_writing_tldr-v0",
        {"tasks": "bundled:writing_posts", "split": "all", "reward": "hostile_module:Scorer"},
    ),
    "a model": ("coop_writing_tldr-v0", {"reward": "nli:somebody/model"}),
    "a judge": ("coop_writing_tldr-v0", {"reward": "judge:http://127.0.0.1:1/v1#model"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_record_names_no_code(name: str, marker: Path, tmp_path: Path) -> None:
    env_id, kwargs = HOSTILE[name]
    env_kwargs = json.loads(json.dumps(kwargs).replace("MARKER", str(marker)))
    honest = played(make("coop_writing_tldr-v0"))
    file = tmp_path / "episodes.jsonl"
    write_jsonl(file, [dataclasses.replace(honest, env_id=env_id, env_kwargs=env_kwargs)])
    (record,) = read_jsonl(file)
    with pytest.raises(ValueError, match="allow_code"):
        replay(record)
    assert not marker.exists()


@pytest.mark.parametrize("env_id", ["subprocess:Popen", "hostile_module:Scorer"])
def test_a_class_of_another_kind_is_not_even_made_for_who_asks(env_id: str, marker: Path) -> None:
    with pytest.raises(TypeError, match="PettingZoo environment's class"):
        make(env_id, args=["touch", str(marker)])
    with pytest.raises(TypeError, match="PettingZoo environment's class"):
        make_recorded(env_id, {"args": ["touch", str(marker)]}, allow_code=True)
    marker.unlink(missing_ok=True)  # to import a module is to run it; nothing of it was called
    with pytest.raises(TypeError):
        make(env_id, args=["touch", str(marker)])
    assert not marker.exists()


def test_who_trusts_a_record_says_so() -> None:
    episode = played(make("support.toys:WordPair"))
    with pytest.raises(ValueError, match=r"support\.toys:WordPair.*allow_code=True"):
        replay(episode)
    again = replay(episode, allow_code=True)
    assert [turn.reward for turn in again.turns] == [turn.reward for turn in episode.turns]
    assert replay(episode, make("support.toys:WordPair")).turns == again.turns


def test_tasks_are_data_wherever_they_lie(tmp_path: Path) -> None:
    """Texts of rows may hold anything; a file and bundled rows are read."""
    row = {"question": "os:system", "answer": "#### 42"}
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    for tasks in ([row], str(file)):
        episode = played(make("math_team", tasks=tasks, split="all", compare="exact"))
        assert replay(episode).task_id == episode.task_id
