from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from support.toys import BareParallel, WordExperts, WordPair

from llm_marl_envs.core.experts import Experts
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.policies import (
    HumanPolicy,
    Policy,
    RandomPolicy,
    ScriptedPolicy,
    check_team,
)
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.policies.named import check_name


def request(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "env_id": "word_pair-v0",
        "agent": "left_0",
        "turn": 0,
        "episode": 0,
        "task_id": "apple-fig",
        "messages": (Message("user", "Speak."),),
        "observation": "Speak.",
        "seed": 0,
    }
    return Request(**{**fields, **changes})


@pytest.mark.parametrize(
    "policy",
    [ScriptedPolicy(str), RandomPolicy(), ExpertPolicy(WordPair()), HumanPolicy(io.StringIO())],
)
def test_these_are_policies(policy: object) -> None:
    assert isinstance(policy, Policy)


def test_a_script_sees_the_request() -> None:
    policy = ScriptedPolicy(lambda r: f"{r.agent} {r.role} {r.turn}")
    answers = policy.act([request(turn=2), request(agent="right_0")])
    assert [a.text for a in answers] == ["left_0 left 2", "right_0 right 0"]


def test_random_text_depends_on_the_seed_alone() -> None:
    policy = RandomPolicy(max_chars=20)
    texts = [a.text for a in policy.act([request(seed=s) for s in range(30)])]
    alone = [policy.act([request(seed=s, agent="x_0")])[0].text for s in range(30)]
    assert texts == alone
    assert len(set(texts)) > 20
    assert max(map(len, texts)) <= 20


def test_an_expert_keeps_its_convention() -> None:
    policy = ExpertPolicy(WordPair(), "upper")
    assert [a.text for a in policy.act([request(seed=s) for s in range(5)])] == ["APPLE"] * 5


def test_an_expert_without_convention_draws_one_from_the_seed() -> None:
    policy = ExpertPolicy(WordPair())
    texts = [a.text for a in policy.act([request(seed=s) for s in range(40)])]
    assert set(texts) == {"apple", "APPLE"}
    assert texts == [policy.act([request(seed=s)])[0].text for s in range(40)]


class SometimesLoud(WordExperts):
    """Tasks whose second word is apple may be shouted."""

    def conventions(self, task: Task) -> tuple[str, ...]:
        return (*super().conventions(task), *(("loud",) if task.id.endswith("-apple") else ()))


class Unnamed(WordExperts):
    """No task has conventions."""

    def conventions(self, task: Task) -> tuple[str, ...]:
        return ()


def words_by(own: Experts | None) -> WordPair:
    """The environment with other experts, or none."""

    class Words(WordPair):
        def experts(self) -> Experts | None:
            return own

    return Words()


def test_a_convention_that_a_task_does_not_allow_is_replaced_there() -> None:
    policy = ExpertPolicy(words_by(SometimesLoud()), "loud")
    assert policy.act([request()])[0].text in ("apple", "APPLE")


def test_a_convention_that_no_task_allows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'Lower': the first \d+ tasks .* \['lower', 'upper'\]"):
        ExpertPolicy(WordPair(), "Lower")
    with pytest.raises(ValueError, match=r"'odd': the first \d+ tasks of this split allow none"):
        ExpertPolicy(words_by(Unnamed()), "odd")


def test_experts_need_an_environment_of_this_library() -> None:
    with pytest.raises(TypeError, match="expected an environment of this library, got Bare"):
        ExpertPolicy(BareParallel())


@pytest.mark.parametrize(
    ("team", "error", "words"),
    [
        ({"left_0": RandomPolicy()}, ValueError, r"missing \['right_0'\], unknown \[\]"),
        (dict.fromkeys(("left_0", "right_0", "x_0"), RandomPolicy()), ValueError, "unknown"),
        (dict.fromkeys(("left_0", "right_0"), str), TypeError, r"act\(requests\), got type"),
    ],
)
def test_teams_are_checked(team: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        check_team(team, ["left_0", "right_0"])


def test_seeds_are_mixed() -> None:
    seeds = {derive_seed(a, b) for a in range(30) for b in range(30)}
    assert len(seeds) == 900
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed("a", 1) == 4294491576641134471
    assert derive_seed("\ud800") >= 0


def test_a_person_types_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    typed = io.StringIO("one\n\n  two\n.\nthree\r\n.\r\nlast, without an end")
    policy = HumanPolicy(typed)
    first = request(messages=(Message("system", "Rules."), Message("user", "Speak.")))
    assert policy.act([first])[0].text == "one\n\n  two"
    shown = capsys.readouterr().out
    assert "Rules.\n\nSpeak." in shown
    assert "holds only '.'" in shown
    more = (*first.messages, Message("assistant", "one"), Message("user", "Again."))
    assert policy.act([request(turn=1, messages=more)])[0].text == "three\r"
    shown = capsys.readouterr().out
    assert "Again." in shown
    assert "Rules." not in shown  # only what is new
    assert policy.act([request(turn=2, messages=more)])[0].text == "last, without an end"
    assert policy.act([request(turn=3, messages=more)])[0].text == ""


def test_a_new_episode_is_shown_from_its_start(capsys: pytest.CaptureFixture[str]) -> None:
    policy = HumanPolicy(io.StringIO())
    policy.act([request()])
    policy.act([request()])
    assert capsys.readouterr().out.count("Speak.") == 2


def test_a_run_in_the_place_of_its_team_is_said(tmp_path: Path):
    (tmp_path / "run" / "team").mkdir(parents=True)
    with pytest.raises(ValueError, match="expected a saved team") as without:
        check_name(str(tmp_path / "run"))
    assert "did you mean" not in str(without.value)
    (tmp_path / "run" / "team" / "team.json").write_text("{}")
    with pytest.raises(ValueError, match=str(tmp_path / "run" / "team")):
        check_name(str(tmp_path / "run"))
