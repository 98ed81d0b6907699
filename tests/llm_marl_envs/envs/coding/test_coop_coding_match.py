"""What the cooperation index of coop_coding-v0 measures, and the convention match beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.records import Request
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN
from llm_marl_envs.files.json_files import write_json
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers.results import RESULT_FILE, read_result, result_to_dict
from llm_marl_envs.measure.numbers.tables import result_table, rows_at
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

ID = "coop_coding-v0"
# Tries one interface, and the other where that fails.
DEFENCES = {
    "item": (
        "item",
        "try:\n        return aux(x)\n    except TypeError:\n        return aux([x])[0]",
    ),
    "fold": ("args", "try:\n        return aux(*x)\n    except TypeError:\n        return aux(x)"),
    "sequence": ("list", "return aux(*x)"),
}


def defensive(request: Request, hidden: bool) -> str:
    """`hidden`: no call is one of the name `aux`."""
    env = make(ID)
    task = env.source.find(request.task_id)
    convention, attempt = DEFENCES[task.data["kind"]]
    parameter = "x" if task.data["kind"] == "item" else "*x"
    body = experts_of(env).first(task, MAIN, convention).replace("aux(", "zup(")
    defence = f"def zup({parameter}):\n    {attempt}"
    if hidden:
        defence = "ask = aux\n" + defence.replace("aux(", "ask(")
    return f"{defence}\n\n{body}"


@pytest.mark.parametrize(("hidden", "low", "high"), [(True, 0.0, 0.0), (False, 0.2, 0.8)])
def test_a_defensive_main_works_with_every_helper_whatever_they_agree_on(
    hidden: bool, low: float, high: float
) -> None:
    """The first call that can be read counts as its convention, where there is one."""
    env = make(ID)
    main = ScriptedPolicy(lambda request: defensive(request, hidden))
    found = evaluate_team(lambda: make(ID), {HELPER: ExpertPolicy(env), MAIN: main}, n_tasks=40)
    kinds = {env.source.find(one.task_id).data["kind"] for one in found.tasks}
    assert kinds >= {"item", "fold"}
    assert found.success == 1.0
    assert found.cooperation is not None
    assert found.cooperation.mean == pytest.approx(1.0)
    assert found.match is not None
    assert low <= found.match <= high


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
    with pytest.raises(ValueError, match="match: expected a finite number"):
        read_result(tmp_path)
