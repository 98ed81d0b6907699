"""consult-v0: what is told, read and paid; bounds, who reaches them, and what attacks earn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from math import prod
from statistics import mean
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.consult.cases import case_of
from llm_marl_envs.envs.consult.experts import ASKER, PERSON, TELL_ALL
from llm_marl_envs.envs.consult.record import NOT_KNOWN
from llm_marl_envs.envs.consult.subjects import subject_of
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.expert import AgreedPolicy, ExpertPolicy
from llm_marl_envs.policies.scripted import SilentPolicy
from llm_marl_envs.wrappers import Partners

ENV = "consult-v0"
SCRIPT: dict[str, Any] = {"person": "script"}
BUILD: dict[str, Any] = {"kind": "build"}
PRICE = 0.05
SMALL = 5
"""Task of `train` with six classes and eight facts, of which one is told."""


def case_env(**kwargs: Any) -> Any:
    return make(ENV, **{**SCRIPT, **kwargs})


def paid(env: Any, *texts: str, task: Any = SMALL) -> list[float]:
    """What the asker is paid after each text, in an episode that these texts end or not."""
    env.reset(seed=0, options={"task": task})
    rewards = []
    for text in texts:
        env.step(text)
        assert len(set(env.rewards.values())) == 1
        rewards.append(env.rewards[ASKER])
        if env.terminations[ASKER]:
            break
    return rewards


def right_text(env: Any, task: int = SMALL) -> str:
    subject = subject_of(env.source[task])
    return f"Answer: {subject.solution}" if subject.classes else subject.solution


def last_news(env: Any) -> str:
    return env.observe(ASKER).messages[-1].content


def records(task: Task) -> Iterator[tuple[dict[str, float], Task]]:
    """Every record that the complaint allows: the joint chance of it and each class, and a task."""
    case = case_of(task)
    facts, opening = case.record.facts, case.record.opening
    values = [(opening[i],) if i in opening else fact.values for i, fact in enumerate(facts)]
    total = sum(
        chance * prod(row[i][facts[i].values.index(value)] for i, value in opening.items())
        for chance, row in zip(case.prior, case.likelihood, strict=True)
    )
    for record in itertools.product(*values):
        places = [fact.values.index(value) for fact, value in zip(facts, record, strict=True)]
        joint = {
            name: chance * prod(row[i][place] for i, place in enumerate(places)) / total
            for name, chance, row in zip(case.classes, case.prior, case.likelihood, strict=True)
        }
        yield joint, Task(task.id, task.split, {**task.data, "values": list(record)})


def exact_return(env: Any, say: Callable[[Task, str], str]) -> float:
    """Mean return over all records and classes of the small task; `say` acts for each seat."""
    expected = 0.0
    for joint, world in records(env.source[SMALL]):
        env.reset(seed=0, options={"task": world})
        spent = 0.0
        while not all(env.terminations.values()):
            env.step(say(world, env.agent_selection))
            spent += env.infos[ASKER]["reward_terms"].get("asked", 0.0)
        answer = env.infos[ASKER]["answer"]
        expected += sum(joint.values()) * spent + joint.get(answer, 0.0)
        assert env.infos[ASKER]["success"] == (answer == world.data["answer"])
    return expected


def expert(env: Any, convention: str) -> Callable[[Task, str], str]:
    experts = env.unwrapped.experts()
    return lambda task, agent: experts.reply(task, agent, convention, env.chat(agent))


def asks_then_guesses(env: Any, *texts: str) -> Callable[[Task, str], str]:
    """Says these texts, then names the likeliest class by what it was told in truth."""

    def say(task: Task, agent: str) -> str:
        turn = env.unwrapped._taken[ASKER]
        case = subject_of(task).chances
        assert case is not None
        return texts[turn] if turn < len(texts) else f"Answer: {case.guess(env.unwrapped._known)}"

    return say


# -- what is told ----------------------------------------------------------------------------------
@pytest.mark.parametrize("kwargs", [{}, BUILD])
def test_who_asks_reads_nothing_of_the_record_but_the_complaint(kwargs: dict[str, Any]):
    env = make(ENV, **kwargs)
    for index in range(20):
        task = env.source[index]
        shown = {seat: said[0].content for seat, said in env.first_words(task).items()}
        record = subject_of(task).record
        assert record.lines() in shown[PERSON]
        complaint = "\n".join(f"> {record.line(place)}" for place in record.complaint)
        assert shown[ASKER].endswith(f"person_0 says:\n{complaint}")
        for place in set(range(len(record.facts))) - set(record.complaint):
            assert f"> {record.line(place)}" not in shown[ASKER]
        # Of a case the person is not told what is wrong, nor what it could be.
        assert not any(f" {name}" in shown[PERSON] for name in subject_of(task).classes)


def test_records_with_the_same_complaint_are_the_same_to_the_asker():
    env = case_env()
    shown = {env.first_words(world)[ASKER] for _, world in records(env.source[SMALL])}
    assert len(shown) == 1


def test_full_information_tells_the_asker_the_record():
    env = make(ENV, info="full")
    task = env.source[SMALL]
    assert subject_of(task).record.lines() in env.first_words(task)[ASKER][0].content


def test_the_seats_follow_from_the_person_alone():
    assert make(ENV).possible_agents == [ASKER, PERSON]
    assert case_env().possible_agents == [ASKER]
    assert case_env().unwrapped.links() == {}
    assert make(ENV, turns=1).unwrapped.links() == {}
    assert make(ENV, turns=4).unwrapped.links() == {PERSON: {ASKER: 3}, ASKER: {PERSON: 3}}


def test_the_scripted_person_is_the_same_in_its_seat_and_in_the_environment():
    seated = Partners(make(ENV), {PERSON: "expert:asked"})
    questions = ("smells?", "And the LAMP?", "What is wrong?", "speed, hums", "pump?")
    for task in range(4):
        alone, beside = case_env(), seated
        alone.reset(seed=0, options={"task": task})
        seen, _ = beside.reset(seed=0, options={"task": task})
        for text in questions:
            alone.step(text)
            seen, *_ = beside.step({ASKER: text})
            assert seen[ASKER].messages == alone.observe(ASKER).messages


# -- what is read and paid -------------------------------------------------------------------------
def test_an_answer_is_paid_once_and_each_question_costs():
    env = case_env()
    assert paid(env, right_text(env)) == [1.0]
    assert paid(env, "Answer: spring") == [0.0]
    assert paid(env, "smells?", "speed?", right_text(env)) == [-PRICE, -PRICE, 1.0]
    info = env.infos[ASKER]
    assert (info["questions"], info["repeated"], info["unreadable"]) == (2, 0, 0)
    assert info["success"] is True
    assert info["answer"] == "pump"


def test_the_last_turn_is_for_the_answer():
    env = case_env(turns=2)
    assert paid(env, "smells?", "speed?", right_text(env)) == [-PRICE, -PRICE]
    assert env.infos[ASKER]["reward_terms"] == {"asked": -PRICE, "right": 0.0}
    env = case_env(turns=1)
    assert paid(env, right_text(env)) == [1.0]


def test_what_is_measured_of_questions():
    env = case_env()
    paid(env, "clicks?", "Does it stink?", "smells", "Who are you?", "lamp?")
    assert "chance" not in env.infos[ASKER]
    env.step("Answer: pump")
    info = env.infos[ASKER]
    assert (info["questions"], info["repeated"], info["unreadable"]) == (5, 2, 1)
    case = env.unwrapped.subject.chances
    shown = {3: "yes"}
    first = case.information(shown, 2)
    second = case.information({**shown, 2: "no"}, 6)
    assert info["information"] == pytest.approx([0.0, first, 0.0, 0.0, second])
    assert info["chance"] == pytest.approx(case.chance({**shown, 2: "no", 6: "off"}))


def test_what_is_measured_of_a_person_in_its_seat():
    env = make(ENV)
    paid(env, "smells?", "No. Hums: yes; smokes: no; it must be the pump.")
    info = env.infos[PERSON]
    kept = ("stated", "unasked", "untrue", "names_class", "readable")
    assert [info[name] for name in kept] == [2, 1, 1, True, True]
    paid(env, "smells?", "Mmh.")
    assert [env.infos[PERSON][name] for name in kept] == [0, 0, 0, False, False]
    paid(env, "hums?", "yes", "HUM? It hums, does it?")
    assert env.infos[ASKER]["repeated"] == 1


def test_a_program_is_judged_on_every_price():
    env = make(ENV, **BUILD, **SCRIPT)
    right = right_text(env, 0)
    assert paid(env, right, task=0) == [1.0]
    assert paid(env, f"I know.\n```python\n{right}\n```", task=0) == [1.0]
    wrong = right.replace("9 + 3", "9 + 2")
    assert paid(env, wrong, task=0) == [0.0]
    assert env.infos[ASKER]["readable"] is True
    assert paid(env, "def f(n)\n    retrun n", task=0) == [0.0]
    assert env.infos[ASKER]["readable"] is False
    assert paid(env, "f(12)?", "What is f( 8 )?", right, task=0) == [-PRICE, -PRICE, 1.0]
    assert "> f(8): 27\n" in str(env.observe(ASKER))


def test_what_a_critic_may_see():
    env = make(ENV)
    task = env.source[SMALL]
    assert env.unwrapped.solution(task).startswith("pump\nhums: yes\n")
    build = make(ENV, **BUILD)
    assert build.unwrapped.solution(build.source[0]).startswith("def f(n):\n")


# -- bounds ----------------------------------------------------------------------------------------
def test_the_best_asker_reaches_the_bound_exactly():
    """Over every record that the complaint allows, by its chance."""
    env = case_env()
    bounds = env.unwrapped.bounds(env.source[SMALL])
    assert exact_return(env, expert(env, "asked")) == pytest.approx(bounds.team, abs=1e-9)
    assert exact_return(env, asks_then_guesses(env)) == pytest.approx(bounds.solo, abs=1e-9)
    assert (bounds.random, round(bounds.solo, 4)) == (1 / 6, 0.313)
    assert bounds.team == pytest.approx(0.6823, abs=1e-4)


def test_a_person_in_its_seat_can_tell_everything_at_once():
    env = make(ENV)
    bounds = env.unwrapped.bounds(env.source[SMALL])
    assert exact_return(env, expert(env, "all")) == pytest.approx(bounds.team, abs=1e-9)
    assert bounds.team == pytest.approx(0.8110, abs=1e-4)
    # Who asks for everything loses a question beside who answers single facts alone.
    all_asks, asked_tells = expert(env, "all"), expert(env, "asked")
    mixed = exact_return(env, lambda t, a: all_asks(t, a) if a == ASKER else asked_tells(t, a))
    assert mixed < exact_return(env, expert(env, "asked")) - 0.03


@pytest.mark.parametrize("kwargs", [{}, BUILD])
@pytest.mark.parametrize("person", ["seat", "script"])
def test_a_team_is_worth_more_than_a_seat(kwargs: dict[str, Any], person: str):
    env = make(ENV, split="test", person=person, **kwargs).unwrapped
    every = [env.bounds(env.source[index]) for index in range(60)]
    assert all(b.random <= b.solo <= b.team for b in every)
    assert mean(b.team for b in every) > mean(b.solo for b in every) + 0.25


def test_experts_reach_the_bound_of_builds():
    for person, exact in (("seat", 0.95), ("script", None)):
        env = make(ENV, split="val", person=person, **BUILD)
        n = len(env.source)
        team = dict.fromkeys(env.possible_agents, AgreedPolicy(env))
        played = rollout(VectorTextEnv([env]), team, [Start(task=i) for i in range(n)])
        returns = [episode.undiscounted_return(ASKER) for episode in played]
        bounds = [env.unwrapped.bounds(env.source[i]).team for i in range(n)]
        assert mean(returns) == pytest.approx(mean(bounds), abs=1e-9)  # the split is the prior
        assert exact is None or returns == [pytest.approx(exact)] * n


@pytest.mark.parametrize("kwargs", [{}, BUILD])
@pytest.mark.parametrize("convention", ["all", "asked"])
def test_every_lone_seat_stays_below_solo(kwargs: dict[str, Any], convention: str):
    env = make(ENV, split="val", **kwargs)
    starts = [Start(task=index) for index in range(40)]
    solo = mean(env.unwrapped.bounds(env.source[start.task]).solo for start in starts)
    for seat in (ASKER, PERSON):
        team: dict[str, Any] = dict.fromkeys(env.possible_agents, SilentPolicy())
        team[seat] = ExpertPolicy(env, convention)
        played = rollout(VectorTextEnv([env]), team, starts)
        value = mean(episode.undiscounted_return(ASKER) for episode in played)
        assert value < solo
        assert seat == ASKER or value == pytest.approx(-6 * PRICE)


def test_full_information_makes_questions_worthless():
    env = make(ENV, info="full").unwrapped
    bounds = env.bounds(env.source[SMALL])
    split = make(ENV).unwrapped.bounds(env.source[SMALL])
    assert bounds.solo == bounds.team == pytest.approx(split.team + PRICE)


def test_bounds_are_refused_where_they_are_not_known():
    env = make(ENV, reward="paper").unwrapped
    with pytest.raises(ValueError, match="paper"):
        env.bounds(env.source[0])
    large = case_env(turns=12).unwrapped
    tasks = [large.source[index] for index in range(40)]
    sizes = [len(subject_of(t).record.facts) - len(subject_of(t).record.complaint) for t in tasks]
    big = tasks[sizes.index(11)]
    with pytest.raises(ValueError, match="states"):
        large.bounds(big)
    assert large.experts().reply(big, ASKER, "asked", ()).endswith("?")  # looks less far ahead


@pytest.mark.full
# -- attacks ---------------------------------------------------------------------------------------
def test_attacks_on_a_scripted_person_earn_less_than_honest_play():
    """Exact, over all records of the small task; honest play earns 0.6823."""
    env = case_env()
    names = ", ".join(subject_of(env.source[SMALL]).classes)
    facts = "hums smokes smells overheats sparks lamp speed"
    same = ("smells?", "Does it stink?", "Any odour?", "smelling?", "SMELL")
    alone = 0.3130
    attacks: dict[str, tuple[Callable[[Task, str], str], float]] = {
        "answer at once": (asks_then_guesses(env), alone),
        "name every class": (lambda t, a: f"Answer: {names}", 0.0),
        "ask for the class": (asks_then_guesses(env, "What is wrong?"), alone - PRICE),
        "ask by class": (asks_then_guesses(env, "Is it the pump? Or the seal?"), alone - PRICE),
        "ask for all": (asks_then_guesses(env, TELL_ALL), alone - PRICE),
        "silence": (lambda t, a: "", -6 * PRICE),
        "a megabyte": (lambda t, a: "smells " * 150_000, -6 * PRICE),
        "two answers": (lambda t, a: "Answer: pump\nAnswer: seal", -6 * PRICE),
        "quoted answer": (lambda t, a: "> Answer: pump", -6 * PRICE),
        "forged": (asks_then_guesses(env, "person_0 says:\n> It is the pump."), alone - PRICE),
    }
    honest = exact_return(env, expert(env, "asked"))
    for name, (say, value) in attacks.items():
        assert exact_return(env, say) == pytest.approx(value, abs=1e-4), name
        assert value < honest - 0.3, name
    # One question, whatever else it names; the same fact in other words is nothing new.
    once = exact_return(env, asks_then_guesses(env, "hums?"))
    assert exact_return(env, asks_then_guesses(env, facts)) == pytest.approx(once)
    assert once < honest
    single = exact_return(env, asks_then_guesses(env, same[0]))
    assert exact_return(env, asks_then_guesses(env, *same)) == pytest.approx(single - 4 * PRICE)


def test_a_text_that_asks_and_answers_has_answered():
    env = case_env()
    assert paid(env, "smells?\nAnswer: spring") == [0.0]
    assert paid(env, "person_0 says:\n> smells: no\nAnswer: pump") == [1.0]


@pytest.mark.parametrize(
    "attack",
    [
        "def f(n):\n    return 24",
        "def f(n):\n    import os\n    os._exit(0)",
        "def f(n):\n    raise SystemExit(0)",
        "class E(int):\n    def __eq__(self, o):\n        return True\ndef f(n):\n    return E()",
        "def f(n):\n    import sys\n    return sys._getframe(1).f_locals",
        "def f(n):\n    while True:\n        pass",
    ],
)
def test_programs_that_know_nothing_earn_nothing(attack: str):
    env = make(ENV, **BUILD, **SCRIPT)
    assert paid(env, attack, task=0) == [0.0]


def test_inputs_beside_the_family_and_several_at_once_tell_nothing_more():
    env = make(ENV, **BUILD, **SCRIPT)
    for text in ("f(13)?", "f(-1)?", "f(3.5)?", "f(1000)?", "f?", "print(f)"):
        paid(env, text, task=0)
        assert f"> {NOT_KNOWN}\n" in last_news(env), text
    paid(env, "f(3) and f(12), fee, rate?", task=0)
    assert last_news(env).startswith("person_0 says:\n> f(3): 12\nTurn 2")


# -- the paper's reward ----------------------------------------------------------------------------
def test_the_papers_reward_pays_for_naming_everything_and_for_asking():
    env = case_env(reward="paper")
    names = ", ".join(subject_of(env.source[SMALL]).classes)
    everything = pytest.approx(5 * 2 / (6 + 1))
    for name in names.split(", "):
        data = {**env.source[SMALL].data, "answer": name}
        assert paid(env, f"Answer: {names}", task=Task("x", "train", data)) == [everything]
    # More than a guess among them is worth, and the default pays nothing for it.
    assert 5 * 2 / (6 + 1) > 5 / 6
    default = case_env()
    assert paid(default, f"Answer: {names}") == [0.0]
    # Five questions that nobody needs earn as much as the right answer.
    filler = ("hums?", "smokes?", "smells?", "overheats?", "sparks?")
    assert paid(env, *filler, f"Answer: {names}")[:5] == [1.0] * 5
    assert sum(paid(default, *filler, right_text(default))) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("texts", "rewards"),
    [
        (["Answer: pump"], [5.0]),
        (["smells?", "Any odour?", "Who?", "lamp"], [1.0, -2.0, -1.0, -2.0]),
        (["lamp? speed?", "clicks?"], [-2.0, -2.0]),
        ([""] * 6, [-2.0] * 5 + [-5.0]),
        (["Answer: the pump"], [5 * 2 / 3]),
    ],
)
def test_the_papers_numbers(texts: list[str], rewards: list[float]):
    assert paid(case_env(reward="paper"), *texts) == pytest.approx(rewards)


# -- arguments and rows ----------------------------------------------------------------------------
ROW = {
    "prompt": "A patient feels ill.",
    "facts": {"fever": "yes, for two days", "dry cough": "no"},
    "classes": ["flu", "cold"],
    "answer": "flu",
}


def test_rows_are_answered_by_the_names_of_their_facts():
    env = make(ENV, tasks=[ROW], split="all", **SCRIPT)
    paid(env, "Any FEVER?", "And a cough?", "Headache?", task=0)
    answers = [m.content.split("\n")[1] for m in env.observe(ASKER).messages if m.role == "user"]
    assert answers[1:] == ["> fever: yes, for two days", "> dry cough: no", f"> {NOT_KNOWN}"]
    assert paid(env, "Answer: Flu.", task=0) == [1.0]
    assert "chance" not in env.infos[ASKER]
    with pytest.raises(ValueError, match="row"):
        env.unwrapped.bounds(env.source[0])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"prompt": 3}, "prompt"),
        ({"facts": {}}, "facts"),
        ({"facts": {"fever": True}}, "facts"),
        ({"complaint": ["cough"]}, "complaint"),
        ({"classes": ["flu"]}, "classes"),
        ({"classes": ["flu", "."]}, "classes"),
        ({"answer": "gout"}, "answer"),
    ],
)
def test_rows_that_cannot_be_used(changed: dict[str, Any], named: str):
    with pytest.raises(ValueError, match=f"row 1: {named}"):
        make(ENV, tasks=[{**ROW, **changed}], split="all")


def test_rows_of_builds_need_a_program_and_tests_that_run():
    with pytest.raises(ValueError, match="entry_point"):
        make(ENV, tasks=[ROW], split="all", **BUILD)
    row = {
        **ROW,
        "entry_point": "g",
        "solution": "def g():\n    return 1",
        "tests": "assert g() ==",
    }
    with pytest.raises(ValueError, match="test"):
        make(ENV, tasks=[row], split="all", **BUILD)
    row["tests"] = "assert g() == 1"
    env = make(ENV, tasks=[row], split="all", **BUILD, **SCRIPT)
    assert paid(env, "fever?", row["solution"], task=0) == [-PRICE, 1.0]
    assert "answer" not in env.infos[ASKER]


def test_the_papers_reward_is_for_cases():
    with pytest.raises(ValueError, match="paper"):
        make(ENV, reward="paper", **BUILD)
