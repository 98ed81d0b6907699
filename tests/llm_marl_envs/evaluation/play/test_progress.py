"""Progress of measurements: totals that are true, and few lines where nobody watches."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.toys import Relay, WordPair

from llm_marl_envs.evaluation.play.paired import Stage, make_schedule
from llm_marl_envs.evaluation.play.progress import counter, expect
from llm_marl_envs.evaluation.play.runner import Plan
from llm_marl_envs.evaluation.studies.baselines import run_baselines
from llm_marl_envs.evaluation.studies.contribution import contributions
from llm_marl_envs.evaluation.studies.messages import message_effects
from llm_marl_envs.experts import ExpertPolicy
from llm_marl_envs.policies import ScriptedPolicy

ROOT = Path(__file__).parents[4]


def test_a_plain_function_only_hears_what_is_finished():
    heard: list[int] = []
    expect(heard.append, 3)
    expect(None, 3)
    assert heard == []


@pytest.mark.parametrize("env", [WordPair, Relay])
def test_contributions_and_messages_count_to_their_totals(env: Any):
    team: Any = dict.fromkeys(env().possible_agents, ExpertPolicy(env()))
    if env is WordPair:  # episodes of one and of two turns
        team["left_0"] = ScriptedPolicy(lambda r: "apple" if r.turn else "birch")
    schedule = make_schedule(env(), 7, 2, 0)
    for measure in (lambda s: contributions(s, schedule, team, ""), None):
        with counter(None, "episodes") as progress:
            stage = Stage(env, copies=3, progress=progress)
            assert measure(stage) if measure else message_effects(stage, schedule, team)
            stage.close()
        assert progress.done == progress.total
        assert progress.done > len(schedule.starts)
    with counter(None, "episodes") as progress:
        stage = Stage(env, progress=progress)
        message_effects(stage, schedule, team, other=team)
        stage.close()
    assert progress.total == progress.done == 14 * (2 + 3 * len(team))


def test_baselines_count_to_their_total(tmp_path: Path):
    for _ in range(2):  # the second time everything is found in the folder
        with counter(None, "episodes") as progress:
            found = run_baselines(
                WordPair,
                ScriptedPolicy(lambda r: "fig"),
                Plan(n_tasks=4, seeds=(0, 1)),
                n=3,
                folder=tmp_path,
                progress=progress,
            )
        assert "self-consistency of 3" in found.skipped
        played = [name for name in found.results if not name.startswith("oracle")]
        assert progress.total == progress.done == 8 * (len(played) - 1) + 8 * 3


PROGRAM = """
import sys
if {bare}: sys.modules["tqdm"] = sys.modules["tqdm.auto"] = None
from llm_marl_envs.commands.options import quiet_libraries
quiet_libraries()
from llm_marl_envs.evaluation.play.progress import counter
with counter(None, "episodes") as progress:
    progress.expect(1000)
    for _ in range(500): progress(2)
"""


@pytest.mark.parametrize("bare", [False, True])
def test_few_lines_where_nobody_watches(bare: bool):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(bare=bare)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    shown = [one for one in done.stderr.replace("\r", "\n").split("\n") if one.strip()]
    assert 1 <= len(shown) <= 4
    assert ("1000 of 1000" if bare else "1000/1000") in shown[-1]


def test_a_terminal_sees_every_count_without_tqdm():
    parent, child = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", PROGRAM.format(bare=True).replace("500", "5")],
        stderr=child,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(child)
    shown = os.read(parent, 10_000).decode()
    os.close(parent)
    assert [part.split(": ")[1].strip() for part in shown.split("\r") if ": " in part][:5] == [
        f"{n} of 1000" for n in (2, 4, 6, 8, 10)
    ]
