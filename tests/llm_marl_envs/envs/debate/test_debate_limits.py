"""`debate-v0` at its limits: long texts, many seats, mixed rows, experts without parts, judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.cost import milliseconds

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.questions import ProceduralQuestions, question_of
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

LONGEST = 4096


def said_throughout(env: Any, text: str) -> int:
    """Plays an episode of one text, all observations built; returns its turns."""
    env.reset(seed=0)
    turns = 0
    while env.agents:
        agent = env.agent_selection
        over = env.terminations[agent]
        if not over:
            assert env.observation_space(agent).contains(env.observe(agent))
            turns += 1
        env.step(None if over else text)
    return turns


@pytest.mark.parametrize("n_agents", [3, 9])
@pytest.mark.parametrize(
    "text",
    [
        "x" + "\n" * (LONGEST - 2) + "x",
        "\n" * LONGEST,
        "Answer: a\n" * 409,
        "answer: " * 512,
        "[" * LONGEST,
        "[a]" * 1365,
        "```\n" * 1022 + "Answer:",
        " \n" * 2044 + "Answer:",
        "\u2028" * LONGEST,
        "\ufdfa" * LONGEST,
        "\ufdfa\n" * 2040 + "Answer:a",
    ],
)
def test_the_longest_texts_cost_little(text: str, n_agents: int) -> None:
    env = make("debate-v0", n_agents=n_agents)
    turns = said_throughout(env, text)
    assert milliseconds(lambda: said_throughout(env, text), times=3) < 10 * turns


def test_the_longest_debates_stay_in_the_observation_space() -> None:
    for text in ("a" * LONGEST, "x" + "\n" * (LONGEST - 2) + "x", "x\n" * (LONGEST // 2)):
        env = make("debate-v0", n_agents=9, rounds=20)
        env.reset(seed=0)
        while env.agents and not env.terminations[env.agent_selection]:
            env.step(text)
        for agent in env.possible_agents:
            assert env.observation_space(agent).contains(env.observe(agent))
        assert env.state_space.contains(env.state())


@pytest.mark.parametrize("n_agents", [2, 5])
def test_experts_need_one_part_per_debater(n_agents: int) -> None:
    source = ProceduralQuestions("train", kinds=["safe"], parts=3)
    env = make("debate-v0", tasks=source, n_agents=n_agents)
    assert experts_of(env).conventions(source[0]) == ()
    with pytest.raises(ValueError, match="as many parts as seats"):
        experts_of(env).first(source[0], "debater_0", "colours")
    with pytest.raises(ValueError, match="as many parts as seats"):
        experts_of(env).reply(source[0], "debater_0", "colours", ())
    said_throughout(env, "[red]")
    assert {experts_of(env).read(source[0], a, "red") for a in env.possible_agents} == {None}


def judged(texts: Sequence[str | None]) -> Mapping[str, Any]:
    """What is known at the end of an episode that a judge of these responses decided."""

    class Judge:
        def act(self, requests: Sequence[Request]) -> list[Response]:
            return [Response(text=text) for text in texts]  # type: ignore[arg-type]

    env = make("debate-v0", judge=Judge())
    team = dict.fromkeys(env.possible_agents, ExpertPolicy(env))
    return (
        rollout(VectorTextEnv([env]), team, [Start(task=0, seed=0, sample_seed=0)])[0]
        .turns[-1]
        .info
    )


@pytest.mark.parametrize("texts", [[], ["Answer: a", "Answer: b"]])
def test_a_judge_gives_one_response(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=f"gave {len(texts)} responses to 1"):
        judged(texts)


def test_a_judges_text_is_cut_as_others_are() -> None:
    info = judged(["x" * 30_000_000 + "\nAnswer: a"])
    assert len(info["judge"]) == LONGEST
    assert info["team_answer"] is None
    with pytest.warns(UserWarning, match="a judge said nothing"):
        assert judged([None])["judge"] == ""


PLAIN = {"question": "Who?", "answer": "A", "split": "train"}
PARTED = {**PLAIN, "question": "Who else?", "evidence": ["1", "2", "3"], "id": "parted"}


@pytest.mark.parametrize("name", ["debate-v0", "solve_critique_refine-v0"])
def test_rows_of_which_some_have_evidence_are_refused_at_once(name: str) -> None:
    for rows in ([PLAIN, PARTED], [PARTED, {**PLAIN, "id": "plain"}]):
        number = rows.index(PARTED) ^ 1
        with pytest.raises(ValueError, match=f"number {number + 1} of 2, 'Who[?]', has none"):
            make(name, tasks=rows)
        assert make(name, tasks=rows, info="full").info_mode == "full"
        with pytest.raises(ValueError, match="has none"):
            make(name, tasks=rows, info="split")
    assert make(name, tasks=[PARTED]).info_mode == "split"


def test_the_notes_of_one_turn_are_not_changed_by_the_next() -> None:
    env = make("debate-v0")
    right = f"Answer: {question_of(env.source[0]).answer}"
    said = iter([right, "", "", "", right, ""])
    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(lambda request: next(said)))
    turns = rollout(VectorTextEnv([env]), team, [Start(task=0, seed=0, sample_seed=0)])[0].turns
    assert [turn.info["right"] for turn in turns] == [True, False, False, False, True, False]
