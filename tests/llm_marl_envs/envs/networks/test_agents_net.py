"""agents_net-v0: what nodes read and hear, what is paid, who solves it, what attacks earn."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.envs.networks.graphs import diameter
from llm_marl_envs.envs.networks.problems import PROBLEMS

ENV = "agents_net-v0"
ROW = {"problem": "matching", "edges": [[0, 1], [1, 2], [2, 3]], "names": ["Ab", "Cd", "Ef", "Gh"]}

SILENT = " |  |  | "


def row_env(problem: str, **kwargs: Any) -> Any:
    """Four nodes in a row."""
    row = {**ROW, "problem": problem, "values": [11, 22, 33, 44]}
    return make(ENV, tasks=[row], split="all", **kwargs)


def play(env: Any, *turns: str, task: Any = 0) -> float:
    """What the team is paid in all; a turn is four texts with ` | ` between them."""
    env.reset(seed=0, options={"task": task})
    total = 0.0
    for turn in turns:
        paid = env.step(dict(zip(env.agents, turn.split(" | "), strict=True)))[1]
        assert len(set(paid.values())) == 1
        total += paid["node_0"]
    return total


def expert_return(env: Any, task: int, *orders: str) -> float:
    """What experts earn whose orders these are, seat by seat, again and again."""
    env.reset(seed=0, options={"task": task})
    experts, paid = env.experts(), {}
    order = dict(zip(env.agents, orders * len(env.agents), strict=False))
    while env.agents:
        said = {a: experts.reply(env.task, a, order[a], env.chat(a)) for a in env.agents}
        paid = env.step(said)[1]
    return paid["node_0"]


def test_a_node_is_told_its_own_name_and_nothing_of_the_others():
    for split in ("train", "ood"):
        env = make(ENV, nodes=6, split=split)
        for index in range(10):
            task = env.source[index]
            for node, told in enumerate(env.first_words(task).values()):
                text = told[0].content
                for other, name in enumerate(task.data["names"]):
                    assert (name in text) == (other == node)
                held = [value for value in task.data["values"] if value in text]
                own = [task.data["values"][node]]
                assert held == (own if task.data["problem"] == "consensus" else [])
                assert "node_" not in text
                assert task.id not in text
                # Nothing but the number of its lines is told of the network.
                lines = len(task.data["lines"][node])
                assert f"lines 1 to {lines}," in text or ("one line, 1," in text and lines == 1)


def test_texts_go_along_the_lines():
    env = row_env("leader", turns=3)
    env.reset(seed=0)
    said = {"node_0": "1: from a\n2: lost", "node_1": "2: to c", "node_2": "all: both"}
    infos = env.step({**said, "node_3": "hello"})[4]
    last = {agent: env.chat(agent)[-1].content for agent in env.agents}
    assert last == {
        "node_0": "Turn 2 of 3.\nNothing from 1.",
        "node_1": "Turn 2 of 3.\nFrom 1: from a\nFrom 2: both",
        "node_2": "Turn 2 of 3.\nFrom 1: to c\nNothing from 2.",
        "node_3": "Turn 2 of 3.\nFrom 1: both",
    }
    assert [info["letters"] for info in infos.values()] == [1, 1, 2, 0]
    assert [info["readable"] for info in infos.values()] == [True, True, True, False]
    # Nothing that was said before comes again.
    env.step(dict.fromkeys(env.agents, ""))
    assert env.chat("node_1")[-1].content == "Turn 3 of 3.\nNothing from 1, 2."
    assert "Cd - Ab, Ef" in env.state()
    assert "to c" in env.state()


def test_the_last_turn_alone_is_paid():
    env = row_env("cover", turns=2, render_mode="html")
    right = "Answer: no | Answer: yes | Answer: yes | Answer: no"
    assert play(env, right, right) == 1.0
    assert play(env, right, SILENT) == 0.0
    page = env.render()
    assert page.count("<circle") == 4
    assert "Ab: None" in page
    assert play(env, SILENT, "no | Answer: yes | Answer: no | Answer: yes") == 0.25
    assert env.render().count("#c9efc9") == 3
    two = "Answer: no\nAnswer: yes | Answer: yes | Answer: no | Answer: yes"
    assert play(env, SILENT, two) == 0.25


def test_infos_of_the_end():
    env = row_env("leader", turns=1)
    env.reset(seed=0)
    said = ("Answer: Ef", "Answer: ef", "Answer: EF.", "Zz")
    paid, _, _, infos = env.step(dict(zip(env.agents, said, strict=True)))[1:]
    assert paid["node_0"] == pytest.approx(1 / 3)
    assert [infos[agent]["right"] for agent in infos] == [True, True, True, False]
    assert [infos[agent]["answer"] for agent in infos] == ["ef", "ef", "ef", None]
    assert infos["node_0"]["reward_terms"] == {"share": pytest.approx(1 / 3), "solved": 0.0}
    assert not infos["node_0"]["success"]
    assert infos["node_3"]["kind"] == "leader"


@pytest.mark.parametrize("problem", PROBLEMS)
def test_experts_of_one_order_solve_what_the_turns_allow(problem: str):
    """Nodes + 1 turns for every problem; diameter + 1 for what all must agree on, and no fewer."""
    for split in ("train", "ood"):
        env = make(ENV, nodes=9, problem=problem, turns=10, split=split)
        assert {expert_return(env, i, o) for i in range(6) for o in ("first", "last")} == {1.0}
    if PROBLEMS[problem].held:
        for index in range(3):
            lines = env.source[index].data["lines"]
            for turns, solved in ((diameter(lines) + 1, True), (2, False)):
                short = make(ENV, nodes=9, problem=problem, turns=turns, split="ood")
                assert (expert_return(short, index, "first") == 1.0) == solved


@pytest.mark.parametrize("problem", PROBLEMS)
def test_experts_of_two_orders_do_not_fit(problem: str):
    env = make(ENV, nodes=8, problem=problem)
    found = [expert_return(env, index, "first", "last") for index in range(12)]
    assert mean(found) < 0.8
    for agent in ("node_0", "node_3"):
        env.reset(seed=0)
        for order in ("first", "last"):
            said = env.experts().first(env.task, agent, order)
            assert env.experts().read(env.task, agent, said) == order


def test_four_nodes_are_always_solved_and_bounded():
    for split in ("val", "ood"):
        env = make(ENV, split=split)
        assert {expert_return(env, index, "last") for index in range(50)} == {1.0}
        for index in range(5):
            bounds = env.bounds(env.source[index])
            assert 0 <= bounds.random <= bounds.solo < bounds.team == 1.0


@pytest.mark.parametrize(
    ("kwargs", "task", "message"),
    [
        ({"nodes": 5}, 0, "up to 4 nodes"),
        ({"turns": 4}, 0, "at least 5 turns"),
        ({"turns": 2}, 1, "at least 3 turns"),
        ({"tasks": [ROW], "split": "all"}, 0, "not for rows"),
    ],
)
def test_bounds_are_refused(kwargs: dict[str, Any], task: int, message: str):
    env = make(ENV, **kwargs)
    with pytest.raises(ValueError, match=message):
        env.bounds(env.source[task])


def test_a_leader_of_a_hundred_is_bounded():
    env = make(ENV, nodes=100, problem="leader", split="val")
    assert env.bounds(env.source[0]).solo == 100 / 34300


@pytest.mark.parametrize(("nodes", "split"), [(4, "test"), (4, "ood"), (8, "val")])
def test_attacks_earn_less_than_honest_teams(nodes: int, split: str):
    from benchmarks.agents_net import ATTACKS, earned, expert

    env: Any = make(ENV, nodes=nodes, split=split).unwrapped
    honest = earned(env, expert, 20)
    assert honest > 0.9
    found = {name: earned(env, player, 20) for name, player in ATTACKS.items()}
    assert found.pop("stalls half of the turns") < honest  # fewer rounds, no other pay
    assert max(found.values()) < 0.4, found
    for name in ("nothing", "shouts, answers twice", "all the same, guards, alone"):
        assert found[name] == 0.0
    assert found["all the same, no guards, line 1"] < 0.1


def test_teams_without_messages_earn_what_the_bounds_say():
    from benchmarks.agents_net import ATTACKS, earned

    for number, problem in enumerate(PROBLEMS):
        bounds = make(ENV, split="val").bounds(make(ENV, split="val").source[number])
        env: Any = make(ENV, problem=problem, split="val", turns=1).unwrapped
        for name in ("by number of lines", "by seat"):
            assert earned(env, ATTACKS[name], 40) <= bounds.solo + 0.05
        assert earned(env, ATTACKS["by lot"], 120) == pytest.approx(bounds.random, abs=0.06)


def test_names_and_seats_elect_nobody():
    """Without messages: the own name, a fixed name, the name of seat 0 if one could know it."""
    env = make(ENV, nodes=8, problem="leader", turns=1)
    own, fixed = [], []
    for index in range(100):
        names = env.source[index].data["names"]
        own.append(play(env, " | ".join(f"Answer: {name}" for name in names), task=index))
        one = env.source[0].data["names"][0]
        fixed.append(play(env, " | ".join([f"Answer: {one}"] * 8), task=index))
    assert max(own) == 0.0
    assert fixed[0] == 1.0
    assert mean(fixed[1:]) == 0.0
    # Where the first in the alphabet sits is by lot.
    seats = [min(range(8), key=env.source[i].data["names"].__getitem__) for i in range(400)]
    assert all(25 < seats.count(seat) < 80 for seat in range(8))


def test_rows_are_read():
    env = row_env("matching", turns=1)
    assert play(env, "Answer: 1 | Answer: 1 | Answer: 2 | Answer: 1") == 1.0
    assert env.source[0].data["names"] == ("Ab", "Cd", "Ef", "Gh")
    with pytest.raises(ValueError, match=r"task 'row-.*' has 4 nodes, and the environment 5"):
        make(ENV, nodes=5).reset(options={"task": env.source[0]})


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"tasks": [{**ROW, "problem": "mixed"}]}, "row 1: problem='mixed'"),
        ({"tasks": [{**ROW, "problem": ["cover"]}]}, "expected one of"),
        ({"tasks": [{**ROW, "edges": [[0, 1], [2, 3]]}]}, "join all 4"),
        ({"tasks": [{**ROW, "edges": [[0, 4], [1, 2]]}]}, "join all 4"),
        ({"tasks": [{**ROW, "edges": "all"}]}, "join all 4"),
        ({"tasks": [{**ROW, "edges": [[0, 0], *ROW["edges"]]}]}, "different nodes"),
        ({"tasks": [{**ROW, "names": ["Ab", "ab", "C", "D"]}]}, "names different"),
        ({"tasks": [{**ROW, "values": [1, 2]}]}, "expected 4 of the form"),
        ({"tasks": [ROW], "nodes": 3}, "join all 3"),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        make(ENV, **{"split": "all", **kwargs} if "tasks" in kwargs else kwargs)
