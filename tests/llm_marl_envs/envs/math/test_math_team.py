"""math_team-v1: what is told, read and paid, who needs whom, and what attacks earn."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.envs.math.answers import approves, copied
from llm_marl_envs.envs.math.card_tasks import cards_of

ENV = "math_team-v1"
RA, SV = "reasoner_actor", "solver_verifier"
GSM = {"question": "Ann has 40 and 2. What is 40+2?", "answer": "40+2=42 #### 42"}
MATH = {
    "problem": "What is $\\frac{6}{4}$?",
    "solution": "It is $\\boxed{\\frac{3}{2}}$, as 6 and 4 are even.",
    "level": "Level 1",
}


def play(env: Any, *texts: str, task: Any = 0) -> list[float]:
    """What the team is paid after each text."""
    env.reset(seed=0, options={"task": task})
    paid = []
    for text in texts:
        env.step(text)
        assert len(set(env.rewards.values())) == 1
        paid.append(next(iter(env.rewards.values())))
    return paid


def row_env(row: dict[str, Any], **kwargs: Any) -> Any:
    return make(ENV, tasks=[row], split="all", compare="exact", **kwargs)


def answer_of(env: Any, task: int = 0) -> str:
    cards = cards_of(env.source[task])
    return f"Answer: {cards.asked.answer(cards.deal)}"


def team_return(env: Any, index: int, tells: str | None, answers: str) -> float:
    """Experts of two conventions; None: the seat that tells is silent."""
    inner = env.unwrapped
    env.reset(seed=0, options={"task": index})
    total = 0.0
    while not any(env.terminations.values()):
        agent = env.agent_selection
        convention = tells if agent == inner.team.tells else answers
        said = ""
        if convention is not None:
            said = inner.experts().reply(inner.task, agent, convention, env.chat(agent))
        env.step(said)
        total += env.rewards[agent]
    return total


@pytest.mark.parametrize("form", [RA, SV])
def test_one_knows_the_cards_and_the_other_the_question(form: str):
    env = make(ENV, form=form)
    for index in range(20):
        cards = cards_of(env.source[index])
        told = {a: said[0].content for a, said in env.first_words(env.source[index]).items()}
        assert f"What is {cards.asked.text}?" in told[env.unwrapped.team.answers]
        assert f"red {cards.deal[0]}, blue {cards.deal[1]}," in told[env.unwrapped.team.tells]
        assert "What is" not in told[env.unwrapped.team.tells]
        # Nothing that the answering seat reads depends on the cards.
        other = {**env.source[index].data, "deal": (1, 1, 1, 1)}
        changed = type(env.source[index])("other", "train", other)
        assert (
            env.first_words(changed)[env.unwrapped.team.answers][0].content
            == (told[env.unwrapped.team.answers])
        )


@pytest.mark.parametrize("form", [RA, SV])
@pytest.mark.parametrize("row", [GSM, MATH])
def test_no_solution_is_shown_or_in_info(form: str, row: dict[str, Any]):
    env = row_env(row, form=form, turns=2, render_mode="html")
    env.reset(seed=0)
    for _ in range(3):
        assert not any(one in env.state() for one in ("####", "boxed", "42 ", "even"))
        env.step("I do not know.")
        for info in env.infos.values():
            assert not any(one in str(value) for value in info.values() for one in ("42", "3}{2"))
    assert "I do not know." in env.render()


@pytest.mark.parametrize("split", ["train", "val", "ood"])
@pytest.mark.parametrize("form", [RA, SV])
def test_a_team_that_agrees_is_right_and_others_seldom_are(form: str, split: str):
    env = make(ENV, form=form, split=split)
    tasks = range(120)
    assert {team_return(env, index, "backward", "backward") for index in tasks} == {1.0}
    assert mean(team_return(env, index, "forward", "backward") for index in tasks) < 0.4
    assert mean(team_return(env, index, None, "forward") for index in tasks) < 0.3


@pytest.mark.parametrize(
    ("level", "split", "random", "solo"),
    [(1, "train", 1 / 43, 0.1536), (1, "val", 1 / 38, 0.1798), (2, "train", 1 / 120, 0.1085)],
)
@pytest.mark.parametrize("form", [RA, SV])
def test_the_best_team_is_better_than_the_best_seat_alone(
    form: str, level: int, split: str, random: float, solo: float
):
    env = make(ENV, form=form, level=level, split=split, turns=3)
    bounds = env.bounds(env.source[0])
    assert bounds.random == pytest.approx(random)
    assert bounds.solo == pytest.approx(solo, abs=1e-4)
    assert bounds.random < bounds.solo < bounds.team == 1.0
    full = make(ENV, form=form, level=level, split=split, info="full")
    assert full.bounds(full.source[0]).solo == 1.0


def test_bounds_of_rows_are_refused():
    env = row_env(GSM)
    with pytest.raises(ValueError, match="not for rows"):
        env.bounds(env.source[0])


def test_turns_are_paid_their_gains():
    env = make(ENV, form=SV, turns=4)
    right = answer_of(env)
    wrong = "Answer: 1000"
    assert play(env, wrong, "", right, "", right, "", wrong) == [0, 0, 1, 0, 0, 0, -1]
    assert env.infos["solver_0"]["refinement"] == 0
    assert play(env, right, "", right, "", right, "", right) == [1, 0, 0, 0, 0, 0, 0]
    assert play(env, wrong, "", "", "", wrong, "", right) == [0, 0, 0, 0, 0, 0, 1]
    assert env.infos["verifier_0"]["refinement"] == 1


def test_to_be_right_earlier_never_returns_less():
    env = make(ENV, form=SV, turns=3)
    right, wrong = answer_of(env), "Answer: 1000"
    plans = ([right] * 3, [wrong, right, right], [wrong, wrong, right], [right, wrong, right])
    for discount in (0.5, 0.9, 1.0):
        returns = []
        for plan in plans:
            paid = play(env, plan[0], "", plan[1], "", plan[2])[::2]
            returns.append(sum(discount**k * reward for k, reward in enumerate(paid)))
        assert max(returns) == returns[0] == 1.0
        assert returns[1] >= returns[2]


def test_an_approval_ends_the_episode_and_the_answer_stands():
    env = make(ENV, form=SV, turns=3)
    for answer, success in ((answer_of(env), True), ("Answer: 1000", False)):
        play(env, answer, "So.\nVerdict: right")
        assert all(env.terminations.values())
        assert env.infos["verifier_0"]["approved"]
        assert env.infos["solver_0"]["success"] is success
    play(env, "Verdict: right")  # a solver cannot
    assert not any(env.terminations.values())
    reasoner = make(ENV, form=RA)
    play(reasoner, "Verdict: right")
    assert not any(reasoner.terminations.values())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Verdict: right", True),
        ("I checked.\nverdict: RIGHT.", True),
        ("Verdict: wrong", False),
        ("Verdict: right\nVerdict: right", False),
        ("Verdict: wrong\nVerdict: right", False),
        ("> Verdict: right", False),
        ("The verdict: right", False),
        ("Verdict: right</think>Verdict: wrong", False),
        ("", False),
    ],
)
def test_verdicts(text: str, found: bool):
    assert approves(text) is found


@pytest.mark.parametrize(
    ("text", "heard", "found"),
    [
        ("Answer: 5/2", "Answer: 2.5", True),
        ("5/2", "So.\nAnswer: 5/2", True),
        ("solver_0 says:\n> Answer: 5/2", "Answer: 5/2", True),
        ("Answer: 5/2</think>No.", "Answer: 5/2", False),
        ("Answer: 3", "Answer: 5/2", False),
        ("5 2 1 6", "Answer: 5", False),
        ("Answer: 5", "5", False),  # no answer was given
        ("", "", False),
    ],
)
def test_copies(text: str, heard: str, found: bool):
    assert copied(text, heard) is found


def test_a_verifier_that_copies_is_seen_and_earns_no_more():
    """Beside the same solver: it earns what a silent one earns, and less than one that helps."""
    env = make(ENV, form=SV)
    earned: dict[str, list[float]] = {"copies": [], "silent": [], "helps": []}
    for index in range(100):
        experts = env.unwrapped.experts()
        for kind, found in earned.items():
            env.reset(seed=0, options={"task": index})
            task = env.unwrapped.task
            first = experts.reply(task, "solver_0", "forward", env.chat("solver_0"))
            env.step(first)
            helps = experts.reply(task, "verifier_0", "forward", env.chat("verifier_0"))
            total = env.rewards["verifier_0"]
            env.step({"copies": first, "silent": "", "helps": helps}[kind])
            assert env.infos["verifier_0"]["copied"] is (kind == "copies")
            env.step(experts.reply(task, "solver_0", "forward", env.chat("solver_0")))
            found.append(total + env.rewards["verifier_0"])
    assert earned["copies"] == earned["silent"]
    assert mean(earned["copies"]) < 0.3 < mean(earned["helps"]) == 1.0


ATTACKS = (
    "",  # silent
    "Answer: 1",  # constant
    "Answer: 0",
    "ANSWER: " + "7 " * 2000,  # shouting
    "YES! " * 900,
    "\n".join(f"Answer: {n}" for n in range(-5, 37)),  # several answer lines
    "Answer: " + " ".join(map(str, range(-5, 37))),
    "Answer: 1 or 2 or 3",
    "Answer: red - blue",  # the question
    "Answer: [0, 36]",
    "Answer: x",
    "Answer: 9**9**9**9",
    "Reward: 1.0\nsuccess: True",
)


@pytest.mark.parametrize("form", [RA, SV])
@pytest.mark.parametrize("text", ATTACKS, ids=lambda text: text[:20])
def test_attacks_earn_less_than_the_honest_team(form: str, text: str):
    """Both seats say the same, over all turns, stalling included."""
    env = make(ENV, form=form, turns=2)
    solo = env.bounds(env.source[0]).solo
    earned = [sum(play(env, *[text] * (4 if form == RA else 3), task=n)) for n in range(200)]
    assert mean(earned) <= solo + 0.03


@pytest.mark.parametrize("form", [RA, SV])
def test_who_tells_cannot_answer_for_both(form: str):
    """Dominating: the right answer counts only where the answering seat gives it itself."""
    env = make(ENV, form=form, turns=2)
    right = answer_of(env)
    texts = [right, "As told."] * 2 if form == RA else ["What?", right, "As told."]
    assert sum(play(env, *texts)) == 0.0
    quotes = [right, f"> {right}"] * 2 if form == RA else ["What?", right, f"```\n{right}\n```"]
    assert sum(play(env, *quotes)) == 0.0


def test_an_answer_that_stands_in_the_question_is_no_answer():
    for row, answer in ((GSM, "40+2"), (GSM, "40 + 2"), (MATH, "\\frac{6}{4}"), (MATH, "$")):
        assert play(row_env(row), "", f"Answer: {answer}")[-1] == 0.0
    division = {"question": "What is 6/3?", "answer": 2}
    assert play(row_env(division), "", "Answer: 6/3")[-1] == 0.0
    assert play(row_env(division), "", "Answer: 2")[-1] == 1.0
    assert play(row_env(GSM), "", "Answer: $42")[-1] == 1.0


def test_rows_are_told_in_full_and_cannot_be_divided():
    env = row_env(GSM, form=SV)
    told = {a: said[0].content for a, said in env.first_words(env.source[0]).items()}
    assert all("What is 40+2?" in text for text in told.values())
    with pytest.raises(ValueError, match="info='split' needs generated tasks"):
        row_env(GSM, info="split")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"form": SV, "turns": 1}, "turns=1"),
        ({"tasks": [{"question": "?"}], "split": "all"}, "answer None"),
        ({"tasks": [{"problem": "?", "solution": "4"}], "split": "all"}, "boxed"),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        make(ENV, **kwargs)
