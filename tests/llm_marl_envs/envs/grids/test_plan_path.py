"""plan_path-v1: what is told, read and paid, and who needs whom; more in test_map_env.py."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from support.grids import answers

from llm_marl_envs import make
from llm_marl_envs.envs.grids.base import PLANNER, TOOL
from llm_marl_envs.envs.grids.maps import FREE, MOVES, WALL, neighbour, read_moves, shortest_way

ROW = {"map": ["S..", "##.", "G.."]}  # R R D D L L


def row_env(**kwargs: Any) -> Any:
    return make("plan_path-v1", tasks=[ROW], split="all", **kwargs)


def test_the_tool_sees_walls_and_the_planner_start_and_goal():
    env = make("plan_path-v1")
    for index in range(20):
        task = env.source[index]
        told = {a: said[0].content.split("\n")[1:6] for a, said in env.first_words(task).items()}
        shown = {agent: "".join(lines).replace(" ", "") for agent, lines in told.items()}
        assert shown[TOOL] == task.data["map"]
        assert set(shown[PLANNER]) == set("?SG")
        assert shown[PLANNER].index("S") == task.data["start"]
        assert shown[PLANNER].index("G") == task.data["goal"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Answer: R R D", "RRD"),
        ("Answer: rrd", "RRD"),
        ('answer: ["R", "R", "D"]', "RRD"),
        ("<think>Answer: U</think>\nAnswer: R,R,D", "RRD"),
        ("Answer: R\nAnswer: R", None),
        ("Answer: R R D.", "RRD"),
        ("Answer: R.R", None),
        ("Answer: R2", None),
        ("Answer: right", None),
        ("Answer:", None),
        ("Answer: []", None),
        ("R R D", None),
        ("> Answer: R", None),
        ("Answer: " + "R " * 5000, None),
        ("", None),
    ],
)
def test_moves_are_read_from_one_line(text: str, found: str | None):
    assert read_moves(text) == found


def test_turns_are_paid_their_gains():
    env = row_env(turns=3)
    # Three of six moves: 0.5 x 0.5. Then the rest.
    assert answers(env, "RRD", "DLL") == pytest.approx([0.25, 0.75])
    assert answers(env, "RRDDLL") == [1.0]
    assert answers(env, "RRD", "none", "U") == pytest.approx([0.25, 0.0, -0.5 / 6])
    assert env.infos[PLANNER]["walked"] == 4


def test_asking_about_other_tasks_leaves_the_episode_alone():
    env = make("plan_path-v1", turns=2, info="full")
    way = [shortest_way(*(env.source[0].data[key] for key in ("map", "start", "goal"))) or ""]
    env.reset(seed=0, options={"task": 0})
    for text in ("", f"Answer: {way[0][:2]}", ""):
        env.step(text)
        env.first_words(env.source[1])
        env.clusters(env.source[2])
    env.step(f"Answer: {way[0][2:]}")
    assert env.infos[PLANNER]["success"]


def test_going_to_and_fro_collects_nothing():
    plans = ("RRD", "ULL") * 3
    assert sum(answers(row_env(turns=6), *plans)) == pytest.approx(0.0)
    assert sum(answers(row_env(turns=6), *plans[:5])) == pytest.approx(0.25)


def test_of_a_divided_map_a_wall_ends_the_episode_and_of_a_whole_one_it_does_not():
    """Else a planner alone finds the walls one by one, and needs no tool."""
    for info, over in (("split", True), ("full", False)):
        env = make("plan_path-v1", info=info, turns=5)
        env.reset(seed=0, options={"task": 0})
        cells, start = env.task.data["map"], env.task.data["start"]
        into = next(move for move in "UDLR" if neighbour(cells, start, move) is None)
        env.step("")
        env.step("no answer")
        assert not any(env.terminations.values())
        env.step("")
        env.step(f"Answer: {into}")
        assert all(env.terminations.values()) is over
        assert env.infos[PLANNER]["success"] is False
        assert ("Who walks into a wall" in env.chat(PLANNER)[0].content) is over


@pytest.mark.parametrize("turns", [2, 5])
def test_further_turns_tell_a_planner_alone_nothing(turns: int, bench_module: Any):
    """The best that is known: a walk over the maps that it may stand on, then the next best."""
    table = bench_module("lone_planner").table
    once, often = (table("5x5", one, tasks=60, drawn=4000).success for one in (1, turns))
    assert once == often < 0.5


def test_no_planner_alone_has_a_walk_for_all_maps_that_it_may_stand_on():
    """In one turn it must not meet a wall of any: it would walk where all of them are free."""
    for split, share in (("train", 0.0146), ("val", 0.0708), ("test", 0.0303)):
        maps = defaultdict(set)
        for task in make("plan_path-v1", split=split).source:
            maps[task.data["start"], task.data["goal"]].add(task.data["map"])
        sure = 0
        for (start, goal), found in maps.items():
            common = "".join(WALL if WALL in cells else FREE for cells in zip(*found, strict=True))
            sure += len(found) * (shortest_way(common, start, goal) is not None)
        assert sure / sum(map(len, maps.values())) == pytest.approx(share, abs=1e-4)


ENDED = -1


def moved_on(cells: str, at: int, goal: int, move: str) -> int | None:
    """Where a walk is after a move; `ENDED` by a wall at its goal, None by one elsewhere."""
    if at == ENDED:
        return ENDED
    following = neighbour(cells, at, move)
    return ENDED if following is None and at == goal else following


def test_no_tool_alone_has_a_walk_for_all_starts_and_goals_of_its_map():
    """By force: all walks of eight pairs at once. A wall may end one at its goal, not before."""
    tasks = make("plan_path-v1", split="val").source
    for number in range(64):
        same = [tasks[at] for at in range(number, len(tasks), 64)]
        cells = same[0].data["map"]
        assert {task.data["map"] for task in same} == {cells}
        goals = [task.data["goal"] for task in same[:8]]
        states = {tuple(task.data["start"] for task in same[:8])}
        seen = set(states)
        while states:
            after = set()
            for state, move in ((one, move) for one in states for move in MOVES):
                moved = [
                    moved_on(cells, at, goal, move) for at, goal in zip(state, goals, strict=True)
                ]
                if None not in moved:
                    after.add(tuple(moved))
            states = after - seen
            seen |= states
        for state in seen:
            assert any(at not in (ENDED, goal) for at, goal in zip(state, goals, strict=True))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"distance": 9}, "distance=9: expected a whole number, 1 to 6"),
        ({"tasks": [ROW], "split": "all", "info": "split"}, "info='split' needs generated tasks"),
        ({"tasks": [{"map": ["S#G", "##.", "..."]}], "split": "all"}, "there is no way"),
        ({"tasks": [{"map": ["S..", "..."]}], "split": "all"}, "expected 3 to 20 lines"),
        ({"tasks": [{"map": ["S..", "...", "..."]}], "split": "all"}, "expected one G"),
        ({"tasks": [{"map": 7}], "split": "all"}, "map=7"),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        make("plan_path-v1", **kwargs)


def test_one_agent_with_the_same_tool_turns_and_tokens():
    env = make("plan_path-v1", single_seat=True)
    env.reset(seed=0, options={"task": 0})
    told = env.chat("writer_0")[0].content
    assert " ".join(env.task.data["map"][:5]) in told
    assert "S" in told
    assert env.max_turns == 2
