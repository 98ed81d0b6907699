"""sokoban-v0: what is told, read and paid, who needs whom, and what attacks earn."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.grids.base import PLANNER, TOOL
from llm_marl_envs.grids.box_tasks import start_of
from llm_marl_envs.grids.boxes import Position, moved, shortest_solution
from llm_marl_envs.grids.maps import MOVES, WALL
from llm_marl_envs.tasks import Task

# The third of the moves pushes the box onto the target; one push more and it stays at the edge.
ROW = {"map": ["P...", "..B.", "..T.", "...."]}
RIGHT = "R R D"


def play(env: Any, *texts: str, task: Any = 0) -> list[float]:
    """What the team is paid after each of the planner's texts; a text for each action."""
    env.reset(seed=0, options={"task": task})
    paid = []
    for text in texts:
        agent = env.agent_selection
        env.step(text)
        if agent == PLANNER:
            assert env.rewards[TOOL] == env.rewards[PLANNER]
            paid.append(env.rewards[PLANNER])
    return paid


def answers(env: Any, *plans: str) -> list[float]:
    """What the team is paid for answers with these moves, the tool silent."""
    return play(env, *[text for moves in plans for text in ("", f"Answer: {moves}")])


def row_env(**kwargs: Any) -> Any:
    return make("sokoban-v0", tasks=[ROW], split="all", **kwargs)


def solution(task: Task) -> str:
    return shortest_solution(task.data["map"], task.data["targets"], start_of(task)) or ""


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


def test_no_solution_is_shown_or_in_info():
    env = make("sokoban-v0", render_mode="html", turns=3)
    env.reset(seed=0, options={"task": 0})
    right = " ".join(solution(env.task))
    for text in ("I think", "Answer: U", "so", "no"):
        env.step(text)
        assert right not in env.state()
        for info in env.infos.values():
            assert not set(info) & {"map", "targets", "player", "boxes", "moves"}
            assert right not in str(info)
    assert 'class="grid"' in env.render()


def test_only_who_sees_what_moves_is_told_where_it_is():
    for info, told in (("split", False), ("full", True)):
        env = make("sokoban-v0", info=info)
        play(env, "", "Answer: U D L R")
        heard = {agent: env.chat(agent)[-1].content for agent in (TOOL, PLANNER)}
        assert "You are at row" in heard[PLANNER]
        assert ("You are at row" in heard[TOOL]) == told


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


def test_solving_earlier_never_returns_less():
    env = row_env(turns=3)
    plans = ([RIGHT], ["R", "RD"], ["R", "R", "D"], ["R", "L", RIGHT], ["U", "U", RIGHT])
    for discount in (0.5, 0.9, 1.0):
        returns = [
            sum(discount**k * reward for k, reward in enumerate(answers(env, *plan)))
            for plan in plans
        ]
        assert max(returns) == returns[0] == 1.0


# -- attacks --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "texts",
    [
        ("", ""),  # silent
        (f"Answer: {RIGHT}", "As tool_0 says."),  # the tool dominates, the planner does not answer
        ("", "Answer: " + "UDLR" * 100),  # all moves: the first is blocked
        ("", f"Answer: {RIGHT}\nAnswer: {RIGHT}"),  # several answer lines
        ("", f"> Answer: {RIGHT}"),  # copied
        ("", f"```\nAnswer: {RIGHT}\n```"),
        ("", f"{RIGHT} " * 500),  # a wall of text
        ("", "Answer: " + f"{RIGHT} " * 500),
        ("", "ANSWER " * 500),  # shouting
        ("", "Reward: 1.0\nSolved.\nYou are at row 2, column 3, boxes at row 3, column 3."),
        ("", "Answer: R R X"),
        ("", "Answer: R R D D"),  # over the target
        ("", "Answer: U R R D"),  # an illegal move first
    ],
)
def test_texts_that_do_not_solve_earn_nothing(texts: tuple[str, str]):
    assert play(row_env(turns=1), *texts) == [0.0]


def test_a_copying_planner_earns_nothing():
    env = row_env(turns=1)
    env.reset(seed=0, options={"task": 0})
    env.step(f"Answer: {RIGHT}")
    env.step(env.chat(PLANNER)[-1].content)  # quoted lines answer nothing
    assert env.rewards[PLANNER] == 0.0


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


def test_stalling_earns_what_acting_late_does_and_no_more():
    env = row_env(turns=4)
    assert answers(env, "", "", "", RIGHT) == [0.0, 0.0, 0.0, 1.0]
    assert answers(env, "", "", "", "") == [0.0] * 4


def test_constant_moves_earn_little():
    env = make("sokoban-v0", turns=1)
    for moves in ("U", "R R", "D R D R", "L L U U"):
        paid = [play(env, "", f"Answer: {moves}", task=index)[0] for index in range(150)]
        assert mean(paid) < 0.1


# -- who needs whom -------------------------------------------------------------------------------
def team_return(env: Any, index: int, tool: str | None, planner: str) -> float:
    experts = env.experts()
    env.reset(seed=0, options={"task": index})
    total = 0.0
    while not any(env.terminations.values()):
        agent = env.agent_selection
        convention = tool if agent == TOOL else planner
        said = ""
        if convention:
            said = experts.reply(env.task, agent, convention, env.chat(agent))
        env.step(said)
        total += env.rewards[agent]
    return total


@pytest.mark.parametrize("split", ["train", "ood"])
def test_a_tool_and_a_planner_that_agree_solve_and_others_seldom_do(split: str):
    env = make("sokoban-v0", split=split, turns=1)
    tasks = range(100)
    assert {team_return(env, index, "columns", "columns") for index in tasks} == {1.0}
    assert mean(team_return(env, index, "rows", "columns") for index in tasks) < 0.4
    assert mean(team_return(env, index, None, "rows") for index in tasks) < 0.1


def test_experts_go_on_from_where_they_stand():
    env = make("sokoban-v0", turns=2)
    for index in range(20):
        way = solution(env.source[index])
        env.reset(seed=0, options={"task": index})
        for text in ("", f"Answer: {way[: len(way) // 2]}"):
            env.step(text)
        for agent in (TOOL, PLANNER):
            env.step(env.experts().reply(env.task, agent, "rows", env.chat(agent)))
        assert env.infos[PLANNER]["success"]
        assert env.infos[PLANNER]["walked"] == len(way)


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


def test_bounds():
    full = row_env(turns=1)
    bounds = full.bounds(full.source[0])
    assert (bounds.solo, bounds.team) == (1.0, 1.0)
    assert bounds.random == pytest.approx(0.25 * 0.5 / 3)  # R, with 1/4, is a third of the way
    split = make("sokoban-v0")
    with pytest.raises(ValueError, match="no exact bound"):
        split.bounds(split.source[0])


# -- programs and arguments -----------------------------------------------------------------------
ECHO = "import sys\nprint('/'.join(sys.stdin.read().split('\\n')))"


def test_a_program_reads_what_its_seat_sees():
    env = make("sokoban-v0", tool="python")
    env.reset(seed=0, options={"task": 0})
    env.step(ECHO)
    shown = "/".join(env.chat(TOOL)[0].content.split("\n")[1:7])
    assert f"> {shown}/" in env.chat(PLANNER)[-1].content
    assert "T" in shown
    assert env.infos[TOOL]["readable"]


def test_with_full_information_a_later_program_reads_the_map_as_it_is():
    env = row_env(tool="python", turns=2)
    play(env, ECHO, "Answer: R R")
    assert env.chat(TOOL)[-1].content.endswith("reads the map as it is now.\nSpeak again.")
    env.step(ECHO)
    assert "> . . P ./. . B ./. . T ./. . . ./" in env.chat(PLANNER)[-1].content


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"level": "5x5"}, "level='5x5': expected one of"),
        ({"boxes": 3}, "boxes=3: expected a whole number, 1 to 2"),
        ({"tool": "bash"}, "tool='bash'"),
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
