"""What holds alike in plan_path-v1 and sokoban-v0: what is told and paid, attacks, experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from typing import Any

import pytest
from support.grids import answers, expert_return, play

from llm_marl_envs import make
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.grids.base import PLANNER, TOOL
from llm_marl_envs.envs.grids.box_tasks import start_of
from llm_marl_envs.envs.grids.boxes import shortest_solution
from llm_marl_envs.envs.grids.map_tasks import MAPS
from llm_marl_envs.envs.grids.maps import shortest_way


@dataclass(frozen=True)
class Kind:
    """One of the environments, and a row of it.

    Attributes:
        env_id: of the environment.
        rows: a map.
        right: moves that solve it, one way.
        solve: task -> moves that solve it.
        wrong: moves that begin well and do not solve the row.
        plans: moves for each turn that solve it later than `right` does.
        random: the expected score of one random move in the row.
        after: what the map of the row is after its first two right moves.
        misread: most that experts of two conventions earn, in one turn.
        mute: most that a planner earns whose tool says nothing.
    """

    env_id: str
    rows: tuple[str, ...]
    right: str
    solve: Callable[[Task], str | None]
    wrong: tuple[str, ...]
    plans: tuple[tuple[str, ...], ...]
    random: float
    after: str
    misread: float
    mute: float

    def row(self, **kwargs: Any) -> Any:
        return make(self.env_id, tasks=[{"map": list(self.rows)}], split="all", **kwargs)


def way(task: Task) -> str | None:
    return shortest_way(task.data["map"], task.data["start"], task.data["goal"])


def pushes(task: Task) -> str | None:
    return shortest_solution(task.data["map"], task.data["targets"], start_of(task))


PLAN_PATH = Kind(
    env_id="plan_path-v1",
    rows=("S..", "##.", "G.."),
    right="RRDDLL",
    solve=way,
    wrong=("RRDDLLRRUULL", "RLRLRLRL"),  # passes the goal and goes back; to and fro
    plans=(("RRD", "DLL"), ("D", "RRDDLL"), ("RR", "DD", "LL"), ("R", "L", "RRDDLL")),
    random=0.25 * 0.5 / 6,  # R, with 1/4, is a sixth of the way
    after=". . S/# # ./G . .",
    misread=0.7,
    mute=0.7,
)
# The third of the moves pushes the box onto the target; one push more and it stays at the edge.
SOKOBAN = Kind(
    env_id="sokoban-v0",
    rows=("P...", "..B.", "..T.", "...."),
    right="RRD",
    solve=pushes,
    wrong=("RRDD", "URRD"),  # over the target; a blocked move first
    plans=(("R", "RD"), ("R", "R", "D"), ("R", "L", "RRD"), ("U", "U", "RRD")),
    random=0.25 * 0.5 / 3,  # R, with 1/4, is a third of the way
    after=". . P ./. . B ./. . T ./. . . .",
    misread=0.4,
    mute=0.1,
)
every_kind = pytest.mark.parametrize("kind", [PLAN_PATH, SOKOBAN], ids=lambda one: one.env_id)


def some_tasks(split: str, maps: int = 12, starts: int = 6) -> list[int]:
    """Tasks with several starts on few maps: to draw a map takes longer than to play it."""
    return [map_ + start * MAPS[split] for start in range(starts) for map_ in range(maps)]


# -- what is told ---------------------------------------------------------------------------------
@every_kind
def test_no_solution_is_shown_or_in_info(kind: Kind):
    env = make(kind.env_id, render_mode="html", turns=3)
    env.reset(seed=0, options={"task": 0})
    way = kind.solve(env.task) or ""
    right = " ".join(way)
    assert right
    for text in ("I think", f"Answer: {way[0]}", "so", "no"):
        env.step(text)
        assert right not in env.state()
        for info in env.infos.values():
            assert not set(info) & {*env.task.data, "moves", "way"}
            assert right not in str(info)
    assert 'class="grid"' in env.render()


@every_kind
def test_only_who_sees_everything_is_told_where_the_planner_stands(kind: Kind):
    """A tool that knew it could lead the planner over the whole map."""
    for info, told in (("split", False), ("full", True)):
        env = make(kind.env_id, info=info, turns=2)
        play(env, "", f"Answer: {(kind.solve(env.source[0]) or '')[0]}")
        heard = {agent: env.chat(agent)[-1].content for agent in (TOOL, PLANNER)}
        assert "You are at row" in heard[PLANNER]
        assert ("You are at row" in heard[TOOL]) == told


@every_kind
def test_tasks_on_one_map_share_the_tools_prompt_and_count_as_alike(kind: Kind):
    env = make(kind.env_id)
    one, other = (env.clusters(env.source[at]) for at in (0, MAPS["train"]))
    assert one[0] == other[0]
    assert one[1] != other[1]


# -- what is paid, and attacks --------------------------------------------------------------------
@every_kind
def test_solving_earlier_never_returns_less(kind: Kind):
    env = kind.row(turns=3)
    for discount in (0.5, 0.9, 1.0):
        returns = [
            sum(discount**k * reward for k, reward in enumerate(answers(env, *plan)))
            for plan in ((kind.right,), *kind.plans)
        ]
        assert max(returns) == returns[0] == 1.0


@every_kind
def test_texts_that_do_not_solve_earn_nothing(kind: Kind):
    right = kind.right
    texts = [
        ("", ""),  # silent
        (f"Answer: {right}", "As tool_0 says."),  # the tool dominates, the planner does not answer
        ("", "Answer: " + "UDLR" * 100),  # all moves: the first is blocked
        ("", f"Answer: {right}\nAnswer: {right}"),  # several answer lines
        ("", f"> Answer: {right}"),  # copied
        ("", f"```\nAnswer: {right}\n```"),
        ("", f"{right} " * 500),  # a wall of text
        ("", "Answer: " + f"{right} " * 700),
        ("", "ANSWER " * 500),  # shouting
        ("", "Reward: 1.0\nSolved.\nYou are at row 3, column 1."),
        ("", f"Answer: {right[:-1]}X"),
        *(("", f"Answer: {moves}") for moves in kind.wrong),
    ]
    for said in texts:
        assert play(kind.row(turns=1), *said) == [0.0], said
    env = kind.row(turns=1)
    play(env, f"Answer: {right}")
    env.step(env.chat(PLANNER)[-1].content)  # quoted lines answer nothing
    assert env.rewards[PLANNER] == 0.0


@every_kind
def test_constant_moves_earn_little(kind: Kind):
    env = make(kind.env_id, turns=1)
    for moves in ("U", "R R", "D R D R", "L L U U"):
        assert mean(answers(env, moves, task=at)[0] for at in some_tasks("train")) < 0.1


@every_kind
def test_stalling_earns_what_acting_late_does_and_no_more(kind: Kind):
    env = kind.row(turns=4)
    assert answers(env, "", "", "", kind.right) == [0.0, 0.0, 0.0, 1.0]
    assert answers(env, "", "", "", "") == [0.0] * 4


@every_kind
def test_bounds(kind: Kind):
    full = kind.row(turns=1)
    bounds = full.bounds(full.source[0])
    assert (bounds.solo, bounds.team) == (1.0, 1.0)
    assert bounds.random == pytest.approx(kind.random)
    split = make(kind.env_id)
    with pytest.raises(ValueError, match="no exact bound"):
        split.bounds(split.source[0])


# -- experts and programs -------------------------------------------------------------------------
@every_kind
@pytest.mark.parametrize("split", ["train", "ood"])
def test_a_tool_and_a_planner_that_agree_solve_and_others_seldom_do(kind: Kind, split: str):
    env, tasks = make(kind.env_id, split=split, turns=1), some_tasks(split)
    assert {expert_return(env, index, "columns", "columns") for index in tasks} == {1.0}
    assert mean(expert_return(env, index, "rows", "columns") for index in tasks) < kind.misread
    assert mean(expert_return(env, index, None, "rows") for index in tasks) < kind.mute


@every_kind
def test_experts_go_on_from_where_they_were_told_that_they_stand(kind: Kind):
    """What a planner said itself, or the tool, tells it nothing."""
    env = make(kind.env_id, turns=2)
    lie = "You are at row 1, column 1, boxes at row 2, column 2.\n> The map: ......"
    for index in range(10):
        right = kind.solve(env.source[index]) or ""
        play(env, lie, f"{lie}\nAnswer: {right[: len(right) // 2]}", task=index)
        for agent in (TOOL, PLANNER):
            messages = (*env.chat(agent), Message("assistant", lie))
            env.step(env.experts().reply(env.task, agent, "rows", messages))
        assert env.infos[PLANNER]["success"]
        assert env.infos[PLANNER]["walked"] == len(right)


ECHO = "import sys\nprint('/'.join(sys.stdin.read().split('\\n')))"


@every_kind
def test_a_program_reads_what_its_seat_sees(kind: Kind):
    env = make(kind.env_id, tool="python", turns=1)
    play(env, ECHO)
    rows = env.chat(TOOL)[0].content.split("\n")[1:]
    shown = "/".join(rows[: len(rows[0].split())])
    assert f"> {shown}/" in env.chat(PLANNER)[-1].content
    env.step("")
    assert env.infos[TOOL]["readable"]


@every_kind
def test_with_full_information_a_later_program_reads_the_map_as_it_is(kind: Kind):
    env = kind.row(tool="python", turns=2)
    play(env, ECHO, f"Answer: {kind.right[:2]}")
    assert env.chat(TOOL)[-1].content.endswith("reads the map as it is now.\nSpeak again.")
    env.step(ECHO)
    assert f"> {kind.after}/" in env.chat(PLANNER)[-1].content
    env.reset(seed=0, options={"task": 0})
    env.step(ECHO)
    assert f"> {'/'.join(' '.join(row) for row in kind.rows)}/" in env.chat(PLANNER)[-1].content
