"""The study of two presets: its arms can be made, silence is silence, and its table is right."""

from __future__ import annotations

from typing import Any

import pytest
from support.paths import ROOT

from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.rollout import rollout
from llm_marl_envs.seeds import Start
from llm_marl_envs.vector import VectorTextEnv


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("trl", reason="needs the extra `train`")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import talk_presets

    return talk_presets


def test_every_arm_changes_the_preset_as_it_says(study: Any):
    for preset, arms in study.ARMS.items():
        plain = study.read_run(preset)
        assert plain["env_kwargs"]["split"] == "train"
        for arm in arms:
            if arm == study.CROSSED:
                continue
            run = study.read_run(preset, study.CHANGES[arm])
            changed = {k: v for k, v in run["trainer"].items() if plain["trainer"].get(k) != v}
            expected = {"shuffled": {"shuffle_rewards": True}, "responder": {"credit": "own"}}
            assert changed == expected.get(arm, {})
            env = study.held_out(run).unwrapped
            assert {env.source[i].split for i in range(len(env.source))} == {"test"}


def test_a_quiet_team_says_nothing_and_chooses_as_it_would(study: Any):
    env = study.held_out(study.read_run(study.SHARES))
    policy = study.Quiet(ScriptedPolicy(lambda request: f"{len(request.messages)} lamp"))
    team: Any = dict.fromkeys(env.possible_agents, policy)
    task = env.unwrapped.source[0]
    (episode,) = rollout(VectorTextEnv([env.unwrapped]), team, [Start(task=task, seed=0)])
    assert [turn.action for turn in episode.turns] == ["", "", "3 lamp", "3 lamp"]
    heard = [turn.messages[-1].content.splitlines()[:2] for turn in episode.turns[2:]]
    assert [one for _, one in heard] == ["> ", "> "]


def test_pay_of_one_seat_and_shares_of_a_team(study: Any):
    """Who takes all beside one who claims and takes nothing: 1 and 0."""
    run = study.read_run(study.SHARES)
    texts = {"player_0": "lamp, book", "player_1": "lamp 1, book 1\nnothing"}
    seats = {agent: ScriptedPolicy(lambda _, text=text: text) for agent, text in texts.items()}
    result = study.played(run, seats)
    assert [study.pay(result, seat) for seat in seats] == [1, 0]
    found = study.shares(result)
    assert (found["pay"], found["legal"], found["claims"]) == (0.5, 1, 0.5)
    assert found["true"] == 0  # totals are 5 or more
    assert found["episodes"] == 180


def test_names_of_a_team_that_describes(study: Any):
    run = study.read_run(study.REFERENTIAL)
    context = study.Context(env=study.held_out(run))
    agreed = study.named_policy("expert:description", context)
    found = study.names(study.played(run, dict.fromkeys(("speaker_0", "listener_0"), agreed)))
    assert found.pop("topography") == pytest.approx(1.0)
    assert found == {"success": 1, "legal": 1, "described": 1, "episodes": 200}
    quiet = {"speaker_0": study.SilentPolicy(), "listener_0": agreed}
    silent = study.names(study.played(run, quiet))
    assert (silent["topography"], silent["described"]) == (None, 0)


def test_the_table_by_hand(study: Any):
    def point(pay: float) -> dict[str, Any]:
        return {"heard": {"pay": pay, "legal": 1.0}, "beside": {"liar": 0.25}}

    runs = [
        {"arm": "preset", "seed": 100, "before": point(0.4), "after": point(0.6)},
        {"arm": "preset", "seed": 101, "before": point(0.5), "after": point(0.5)},
    ]
    lines = study.table(study.SHARES, runs).splitlines()
    assert lines[2] == (
        "| preset | 100 | 0.40 -> 0.60 | - | - | 1.00 -> 1.00 | - | - | - | 0.25 -> 0.25 | - |"
    )
    # Student's t with one degree of freedom: 12.706 times the standard error, 0.1.
    assert lines[-1] == "- preset, rise of pay: 0.10 (-1.17 to 1.37)"
