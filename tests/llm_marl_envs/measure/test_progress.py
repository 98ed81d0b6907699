"""Progress of measurements: totals that are true, and few lines where nobody watches."""

from __future__ import annotations

import contextlib
import os
import pty
import sys
import termios
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.toys import Relay, WordPair

from llm_marl_envs.measure.paired import Stage
from llm_marl_envs.measure.progress import counter, expect
from llm_marl_envs.measure.runner import Plan
from llm_marl_envs.measure.studies.baselines import run_baselines
from llm_marl_envs.measure.studies.contribution import contributions
from llm_marl_envs.measure.studies.messages import message_effects
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy


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
    for measure in (lambda s: contributions(s, team, ""), lambda s: message_effects(s, team)):
        with counter(None, "episodes") as progress:
            played = Stage(env, Plan(n_tasks=7, samples=2, copies=3), progress=progress)
            assert measure(played)
        assert progress.n == progress.total
        assert progress.n > len(played.schedule.starts) == 14
    with counter(None, "episodes") as progress:
        played = Stage(env, Plan(n_tasks=7, samples=2), progress=progress)
        message_effects(played, team, other=team)
    assert progress.total == progress.n == 14 * (2 + 3 * len(team))


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
        assert progress.total == progress.n == 8 * (len(played) - 1) + 8 * 3


def _count(updates: int) -> None:
    with counter(None, "episodes") as progress:
        progress.expect(2 * updates)
        for n in range(updates):
            progress(2)
            progress.set_postfix(reward=n)


def _lines(stderr: str) -> list[str]:
    return [one for one in stderr.replace("\r", "\n").split("\n") if one.strip()]


def test_few_lines_where_nobody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    _count(500)
    shown = _lines(capsys.readouterr().err)
    assert 1 <= len(shown) <= 4
    assert "1000/1000" in shown[-1]
    assert "reward=499" in shown[-1]


def test_a_notebook_is_watched(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    _count(5)
    assert len(_lines(capsys.readouterr().err)) > 5


def test_a_terminal_sees_values_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    parent, child = pty.openpty()
    termios.tcsetwinsize(child, (24, 80))
    with os.fdopen(child, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        _count(5)
    written = b""
    with contextlib.suppress(OSError):  # which ends what a closed terminal was sent
        while chunk := os.read(parent, 10_000):
            written += chunk
    os.close(parent)
    shown = _lines(written.decode())
    for n in range(5):
        assert any(f"{2 * n + 2}/10" in one and f"reward={n}" in one for one in shown)
