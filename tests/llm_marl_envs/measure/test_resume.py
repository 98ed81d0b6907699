"""An evaluation that dies goes on; folders that hold something else are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.toys import Relay, WordPair, word_tasks

from llm_marl_envs.core.records import Request, Response, read_jsonl
from llm_marl_envs.core.tasks import ListSource
from llm_marl_envs.measure import Plan, TeamResult, run_plan
from llm_marl_envs.measure.numbers.results import result_to_dict
from llm_marl_envs.policies import RandomPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

ROOT = Path(__file__).parents[3]
REVERSED = ListSource([*word_tasks()][::-1], "train")
PLAN = Plan(n_tasks=5, samples=2, seeds=(0, 7), copies=3)


class Dying:
    """The expert, until it has been asked `calls` times."""

    def __init__(self, env: Any, calls: int) -> None:
        self.expert, self.calls = ExpertPolicy(env), calls

    def act(self, requests: Sequence[Request]) -> list[Response]:
        self.calls -= 1
        if self.calls < 0:
            raise RuntimeError("out of memory")
        return self.expert.act(requests)


def evaluate(folder: Path | None, *, calls: int = 10**6, plan: Plan = PLAN, **rest: Any) -> Any:
    env = rest.pop("env", WordPair)
    one = env()
    team = dict.fromkeys(one.possible_agents, Dying(one, calls))
    identity = rest.pop("identity", dict.fromkeys(team, "expert"))
    return run_plan(env, team, plan, folder=folder, identity=identity, **rest)


def told(result: TeamResult) -> dict[str, Any]:
    """A result without what the clock says."""
    found = result_to_dict(result)
    found["cost"] |= {"seconds": None, "tokens_per_second": None}
    return found


@pytest.mark.parametrize(("env", "calls"), [(WordPair, 2), (Relay, 7)])
def test_a_run_that_dies_goes_on_and_loses_nothing(tmp_path: Path, env: Any, calls: int):
    whole = evaluate(None, env=env)
    runs = 0
    counted: list[int] = []
    while True:
        runs += 1
        try:
            counted.clear()
            resumed = evaluate(tmp_path, env=env, calls=calls, progress=counted.append)
            break
        except RuntimeError:
            done = len(list(read_jsonl(tmp_path / "episodes.jsonl")))
            assert done % PLAN.copies == 0
            assert done > 0
    assert runs > 2
    assert told(resumed) == told(whole)
    assert [e.turns[0].action for e in resumed.episodes] == [
        e.turns[0].action for e in whole.episodes
    ]
    assert sum(counted) == len(resumed.episodes) == 20
    assert resumed.cost.seconds is not None
    assert resumed.cost.seconds > 0


def test_a_finished_evaluation_asks_nobody(tmp_path: Path):
    first = evaluate(tmp_path)
    again = evaluate(tmp_path, calls=0)
    assert told(again) == told(first)
    assert again.cost.seconds == pytest.approx(first.cost.seconds)


def test_a_half_written_line_is_dropped_with_a_warning(tmp_path: Path):
    whole = told(evaluate(tmp_path))
    path = tmp_path / "episodes.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    with pytest.warns(UserWarning, match="half-written"):
        again = evaluate(tmp_path)
    assert told(again) == whole
    seconds = [json.loads(line)["evaluation"].pop("seconds") for line in path.open()]
    assert len(seconds) == 20
    with pytest.raises(ValueError, match="holds another evaluation"):
        evaluate(tmp_path, plan=replace(PLAN, seeds=(0, 8)))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"plan": replace(PLAN, samples=1)}, "samples: 2 there, 1 asked"),
        ({"plan": replace(PLAN, n_tasks=4)}, "episodes: 20 there, 16 asked"),
        ({"plan": replace(PLAN, context="fresh")}, "context"),
        ({"identity": {"left_0": "x", "right_0": "expert"}}, "team.left_0: "),
        (
            {"env": lambda: WordPair(tasks=ListSource([*word_tasks()][::-1], "train"))},
            "tasks_sha256",
        ),
        ({"env": Relay}, "env_id: 'WordPair' there, 'Relay' asked"),
    ],
)
def test_another_evaluation_is_refused(tmp_path: Path, changes: dict[str, Any], word: str):
    evaluate(tmp_path)
    before = (tmp_path / "episodes.jsonl").read_bytes()
    with pytest.raises(ValueError, match="holds another evaluation") as caught:
        evaluate(tmp_path, **changes)
    assert word in str(caught.value)
    assert (tmp_path / "episodes.jsonl").read_bytes() == before


def test_a_folder_whose_samples_shared_a_reset_is_not_gone_on_with(tmp_path: Path):
    evaluate(tmp_path)
    file = tmp_path / "plan.json"
    plan = json.loads(file.read_text())
    assert plan.pop("resets") == 2
    file.write_text(json.dumps(plan))
    with pytest.raises(ValueError, match=r"holds another evaluation \(resets: .* there, 2 asked"):
        evaluate(tmp_path)
    one = tmp_path / "one"  # a single sample has the reset seed that it always had
    evaluate(one, plan=replace(PLAN, samples=1))
    assert "resets" not in json.loads((one / "plan.json").read_text())


def test_the_number_of_copies_may_change(tmp_path: Path):
    with pytest.raises(RuntimeError):
        evaluate(tmp_path, calls=2)
    assert told(evaluate(tmp_path, plan=replace(PLAN, copies=50))) == told(evaluate(None))


def damage_line(path: Path, number: int, change: Any) -> None:
    lines = path.read_text().splitlines(keepends=True)
    lines[number] = change(lines[number])
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda line: line[:50] + "\n", "line 4"),
        (lambda line: "[]\n", "line 4"),
        (lambda line: "", "the plan has episode 3"),
        (lambda line: line + line, "the plan has episode 4"),
        (lambda line: line.replace('"index": 3', '"index": 2'), "episode 2"),
        (lambda line: line.replace('"seed": ', '"seed": 1'), "with seed 1"),
        (lambda line: line.replace('"evaluation"', '"other"'), "evaluation"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_played(tmp_path: Path, change: Any, words: str):
    evaluate(tmp_path)
    damage_line(tmp_path / "episodes.jsonl", 3, change)
    with pytest.raises(ValueError, match=words):
        evaluate(tmp_path, calls=0)


def test_damaged_plans_are_named(tmp_path: Path):
    evaluate(tmp_path)
    (tmp_path / "plan.json").write_text('{"version"')
    with pytest.raises(ValueError, match=r"plan\.json: half-written.*delete the folder"):
        evaluate(tmp_path)
    (tmp_path / "plan.json").unlink()
    with pytest.raises(ValueError, match=r"no plan\.json beside it"):
        evaluate(tmp_path)


def test_a_longer_file_than_the_plan_is_refused(tmp_path: Path):
    evaluate(tmp_path)
    path = tmp_path / "episodes.jsonl"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    with pytest.raises(ValueError, match="more episodes than the 20 of the plan"):
        evaluate(tmp_path)


PROGRAM = """
import sys, time
from support.toys import WordPair
from llm_marl_envs.measure import Plan, run_plan
from llm_marl_envs.policies import ScriptedPolicy
def slow(request):
    time.sleep(0.002)
    return "apple"
team = dict.fromkeys(WordPair().possible_agents, ScriptedPolicy(slow))
result = run_plan(WordPair, team, Plan(samples=10, copies=10), folder=sys.argv[1])
print(len(result.episodes), result.mean_return)
"""


def test_a_killed_process_loses_a_block_at_most(tmp_path: Path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths}
    running = subprocess.Popen(command, env=environment)
    episodes = tmp_path / "episodes.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (episodes.exists() and episodes.stat().st_size):
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = episodes.read_bytes().count(b"\n")
    assert 0 < done < 300
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert finished.stdout.startswith("300 "), finished.stderr
    rows = [json.loads(line)["evaluation"]["index"] for line in episodes.open()]
    assert rows == list(range(300))


def test_random_policies_resume_alike(tmp_path: Path):
    """Draws come from each request's own seed, so the order of playing does not matter."""
    team = dict.fromkeys(WordPair().possible_agents, RandomPolicy())
    whole = run_plan(WordPair, team, PLAN)
    with pytest.raises(RuntimeError):
        evaluate(tmp_path, calls=2, identity=dict.fromkeys(team, "RandomPolicy"))
    (tmp_path / "episodes.jsonl").unlink()
    again = run_plan(WordPair, team, PLAN, folder=tmp_path, identity=None)
    assert [e.turns for e in again.episodes] == [e.turns for e in whole.episodes]


def test_two_evaluations_do_not_share_a_folder(tmp_path: Path):
    def intrude(done: int) -> None:
        with open(tmp_path / "episodes.jsonl", "a") as file:
            file.write("{}\n")

    with pytest.raises(ValueError, match="somebody else writes there"):
        evaluate(tmp_path, progress=intrude)
