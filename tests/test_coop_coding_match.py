"""What the cooperation index of coop_coding-v0 measures, and the convention match beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from llm_marl_envs import make
from llm_marl_envs.envs.coop_coding import HELPER, MAIN
from llm_marl_envs.evaluation import evaluate_team
from llm_marl_envs.evaluation.json_files import write_json
from llm_marl_envs.evaluation.latex import rows_at
from llm_marl_envs.evaluation.results import RESULT_FILE, read_result, result_to_dict
from llm_marl_envs.evaluation.table import result_table
from llm_marl_envs.policies import ExpertPolicy, ScriptedPolicy
from llm_marl_envs.records import Request

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

ID = "coop_coding-v0"
# Tries one interface, and the other where that fails.
DEFENCES = {
    "item": (
        "item",
        "try:\n        return ask(x)\n    except TypeError:\n        return ask([x])[0]",
    ),
    "fold": ("args", "try:\n        return ask(*x)\n    except TypeError:\n        return ask(x)"),
    "sequence": ("list", "return ask(*x)"),
}


def defensive(request: Request) -> str:
    env = make(ID)
    task = env.source.find(request.task_id)
    convention, attempt = DEFENCES[task.data["kind"]]
    parameter = "x" if task.data["kind"] == "item" else "*x"
    body = env.expert(task, MAIN, convention).replace("aux(", "zup(")
    return f"ask = aux\ndef zup({parameter}):\n    {attempt}\n\n{body}"


def test_a_defensive_main_works_with_every_helper_and_agrees_with_none() -> None:
    env = make(ID)
    team = {HELPER: ExpertPolicy(env), MAIN: ScriptedPolicy(defensive)}
    found = evaluate_team(lambda: make(ID), team, n_tasks=40)
    kinds = {env.source.find(one.task_id).data["kind"] for one in found.tasks}
    assert kinds >= {"item", "fold"}
    assert found.success == 1.0
    assert found.cooperation is not None
    assert found.cooperation.mean == pytest.approx(1.0)
    assert found.match == 0.0


def test_match_is_reported_beside_the_index(tmp_path: Path) -> None:
    env = make(ID)
    agreed = dict.fromkeys((HELPER, MAIN), ExpertPolicy(env, "item"))
    found = evaluate_team(lambda: make(ID), {**agreed}, n_tasks=20)
    mixed = evaluate_team(lambda: make(ID), dict.fromkeys(agreed, ExpertPolicy(env)), n_tasks=20)
    assert mixed.match is not None
    assert found.match is not None
    assert 0 < mixed.match < found.match <= 1.0
    recorded = result_to_dict(mixed)
    assert recorded["match"] == mixed.match
    lines = result_table({"mixed": recorded}).splitlines()
    names = [line.split("  ")[0] for line in lines]
    assert names.index("convention match") == names.index("cooperation index") + 1
    write_json(tmp_path / RESULT_FILE, recorded)
    assert read_result(tmp_path)["match"] == mixed.match
    assert rows_at(tmp_path)[0].cells["match"].mean == mixed.match


def test_rows_have_no_match_and_older_files_none(tmp_path: Path) -> None:
    def rows() -> object:
        return make(ID, tasks="bundled:coop_problems", split="test")

    team = dict.fromkeys(make(ID).possible_agents, ExpertPolicy(rows()))
    found = result_to_dict(evaluate_team(rows, team, n_tasks=2))
    assert found["match"] is None
    assert "convention match" not in result_table({"rows": found})
    del found["match"]
    write_json(tmp_path / RESULT_FILE, found)
    assert "match" not in read_result(tmp_path)
    assert "match" not in rows_at(tmp_path)[0].cells
    write_json(tmp_path / RESULT_FILE, {**found, "match": "all"})
    with pytest.raises(ValueError, match="'match' is missing or damaged"):
        read_result(tmp_path)
