"""sokoban-v0: what is told, read and paid, and who needs whom; more in test_map_env.py."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from support.grids import answers, play

from llm_marl_envs import make
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.base import PLANNER, TOOL
from llm_marl_envs.envs.grids.box_tasks import start_of
from llm_marl_envs.envs.grids.boxes import Position, moved, shortest_solution
from llm_marl_envs.envs.grids.maps import MOVES, WALL

# The third of the moves pushes the box onto the target; one push more and it stays at the edge.
ROW = {"map": ["P...", "..B.", "..T.", "...."]}
RIGHT = "R R D"


def row_env(**kwargs: Any) -> Any:
    return make("sokoban-v0", tasks=[ROW], split="all", **kwargs)


# -- what is told ---------------------------------------------------------------------------------
def test_the_tool_sees_what_stays_and_the_planner_what_moves():
    env = make("sokoban-v0")
    for index in range(20):
        task = env.source[index]
        told = {a: said[0].content.split("\n")[1:7] for a, said in env.first_words(task).items()}
        shown = {agent: "".join(lines).replace(" ", "") for agent, lines in told.items()}
        assert shown[TOOL].replace("T", ".") == task.data["map"]
        assert (
            tuple(at for at, cell in enumerate(shown[TOOL]) if cell == "T")
            == (task.data["targets"])
        )
        assert set(shown[PLANNER]) == set("#?BP")
        assert shown[PLANNER].count("#") == 20  # the wall around, which no map lacks
        assert shown[PLANNER].index("P") == task.data["player"]
        assert (shown[PLANNER].index("B"),) == task.data["boxes"]


def test_with_full_information_both_see_everything():
    rows = ["+...", ".B..", "*...", "...."]
    env = make("sokoban-v0", tasks=[{"map": rows}], split="all")
    for said in env.first_words(env.source[0]).values():
        assert said[0].content.split("\n")[1:5] == [" ".join(row) for row in rows]


# -- what is paid ---------------------------------------------------------------------------------
def test_turns_are_paid_their_gains():
    env = row_env(turns=3)
    assert answers(env, RIGHT) == [1.0]
    assert answers(env, "R", "RD") == pytest.approx([1 / 6, 5 / 6])
    assert answers(env, "R", "none", "L") == pytest.approx([1 / 6, 0.0, -1 / 6])
    assert env.infos[PLANNER]["walked"] == 2
    assert env.infos[PLANNER]["placed"] == 0


def test_a_push_that_locks_a_box_takes_all_back():
    # The second D pushes the box over the target to the edge, where no target is.
    env = row_env(turns=3)
    assert answers(env, "RR", "DD") == pytest.approx([1 / 3, -1 / 3])
    assert answers(env, "RR", "DD", "U U U") == pytest.approx([1 / 3, -1 / 3, 0.0])
    assert not env.infos[PLANNER]["success"]


def test_pushing_to_and_fro_collects_nothing():
    # The box goes right and, from its other side, left again: where it was, nothing is earned.
    env = make(
        "sokoban-v0", tasks=[{"map": ["....", "PB..", "....", "..T."]}], split="all", turns=8
    )
    fro = "R U R R D L D L L U"  # the same position again
    paid = answers(env, "R", fro[2:], "R", fro[2:], "R", fro[2:])
    assert paid[0] > 0
    assert sum(paid) == pytest.approx(0.0)
    assert sum(paid[:5]) == pytest.approx(paid[0])
    assert answers(env, *["U", "D"] * 4)[-1] <= 0.0  # walking to and fro


# -- who needs whom -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "said",
    [
        "The map: " + "T" * 3 + "." * 61,  # more positions than are searched
        "The map: " + "T" * 64,
        "The map: " + "#" * 64,
        "The map: ......",
        "You are at row 7, column 7, boxes at row 1, column 1.",
    ],
)
def test_an_expert_answers_whatever_a_tool_says(said: str):
    env = make("sokoban-v0", level="8x8", boxes=3, turns=2)
    play(env, said, "You are at row x", said)
    env.step(env.experts().reply(env.task, PLANNER, "columns", env.chat(PLANNER)))
    assert env.infos[PLANNER]["readable"]


@pytest.mark.parametrize(("split", "share"), [("train", 0.0035), ("val", 0.0415), ("test", 0.0166)])
def test_no_planner_alone_has_moves_for_all_maps_that_it_may_stand_on(split: str, share: float):
    """In one turn it must not meet a wall of any: it would play where all of them are free."""
    maps = defaultdict(list)
    for task in make("sokoban-v0", split=split).source:
        maps[start_of(task)].append((task.data["map"], task.data["targets"]))
    sure = 0
    for start, found in maps.items():
        cells, targets = zip(*found, strict=True)
        common = "".join(WALL if WALL in one else "." for one in zip(*cells, strict=True))
        if len(set(targets)) == 1 and shortest_solution(common, targets[0], start) is not None:
            sure += len(found)
    assert sure / sum(map(len, maps.values())) == pytest.approx(share, abs=1e-4)


def test_no_tool_alone_has_moves_for_all_starts_of_its_map():
    """By force: all moves from four starts at once. A blocked one may end a solved map alone."""

    def after(task: Task, position: Position | None, move: str) -> Position | None:
        """None: it has ended, solved."""
        following = position and moved(task.data["map"], position, move)
        if position and not following and position.boxes != task.data["targets"]:
            raise LookupError
        return following

    tasks = make("sokoban-v0", split="val").source
    for number in range(64):
        four = [tasks[at] for at in range(number, 4 * 64, 64)]
        assert len({(task.data["map"], task.data["targets"]) for task in four}) == 1
        states = {tuple(start_of(task) for task in four)}
        seen: set[tuple[Position | None, ...]] = set(states)
        while states:
            found = set()
            for state, move in ((one, move) for one in states for move in MOVES):
                try:
                    pairs = zip(four, state, strict=True)
                    found.add(tuple(after(task, at, move) for task, at in pairs))
                except LookupError:
                    continue
            states = found - seen
            seen |= states
        targets = four[0].data["targets"]
        assert not any(all(at is None or at.boxes == targets for at in one) for one in seen)


# -- arguments ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"boxes": 3}, "boxes=3: expected a whole number, 1 to 2"),
        ({"tasks": [ROW], "split": "all", "info": "split"}, "info='split' needs generated tasks"),
        ({"tasks": [{"map": ["P#T", "##.", "..B"]}], "split": "all"}, "no moves bring"),
        ({"tasks": [{"map": ["P..", "..."]}], "split": "all"}, "expected 3 to 20 lines"),
        ({"tasks": [{"map": ["@..", ".$.", "..."]}], "split": "all"}, "of . # T B P"),
        ({"tasks": [{"map": ["P..", ".B.", "..."]}], "split": "all"}, "1 boxes .* for 0 targets"),
        ({"tasks": [{"map": ["P..", "...", "..."]}], "split": "all"}, "at least one"),
        ({"tasks": [{"map": ["...", ".B.", "..T"]}], "split": "all"}, "expected one player"),
        ({"tasks": [{"map": ["P..", ".*.", "..."]}], "split": "all"}, "all boxes are on targets"),
        ({"tasks": [{"map": 7}], "split": "all"}, "map=7"),
        (
            {"tasks": [{"map": ["P" + "." * 19, *["." * 20] * 18, "BTBTBT" + "." * 14]}]},
            "more than 600000 positions",
        ),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        make("sokoban-v0", **kwargs)


def test_one_agent_with_the_same_tool_turns_and_tokens():
    env = make("sokoban-v0", single_seat=True)
    env.reset(seed=0, options={"task": 0})
    told = env.chat("writer_0")[0].content
    assert "T" in told
    assert "# ? " in told
    assert env.max_turns == 4
