"""collab_maze-v0: what is seen, walked and paid, who needs whom, and what attacks earn."""

from __future__ import annotations

import random
from itertools import product
from statistics import mean
from typing import Any

import pytest
from support.maze_attacks import ATTACKS, FORMS, earned, honest

from llm_marl_envs import make
from llm_marl_envs.envs.grids.experts import LEADERS
from llm_marl_envs.envs.grids.map_tasks import GOAL, MAPS, START, marked
from llm_marl_envs.envs.grids.maps import FREE, MOVES, WALL, canonical, distances, neighbour
from llm_marl_envs.envs.grids.maze_bounds import best_walk, expected_blind, score
from llm_marl_envs.envs.grids.maze_tasks import (
    HIDDEN,
    Level,
    drawn,
    free_of,
    sure,
    view,
    way_length,
)
from llm_marl_envs.wrappers import Choose

ROW = {"map": ["S...", "##..", "....", "G.##"]}  # R R D D L L D
WAY = "RRDDLLD"


def row_env(**kwargs: Any) -> Any:
    return make("collab_maze-v0", tasks=[ROW], split="all", **kwargs)


def walk(env: Any, *rounds: tuple[str, ...]) -> list[float]:
    """What is paid for each round's moves, one text per walker; in turns of talk nobody speaks."""
    env.reset(seed=0, options={"task": 0})
    paid = []
    for moves in rounds:
        if any(env.terminations.values()):
            break
        for _ in range(env.talk * len(env.possible_agents)):
            env.step("")
        for said in moves:
            env.step(said if said.startswith("!") else f"Answer: {said}")
        assert len(set(env.rewards.values())) == 1
        paid.append(env.rewards["walker_0"])
    return paid


@pytest.mark.parametrize(("walkers", "shared"), [(2, 0.0), (5, 0.0), (16, 0.0), (2, 0.5)])
def test_each_cell_is_seen_by_one_walker_or_by_all(walkers: int, shared: float):
    env = make("collab_maze-v0", maze={"walkers": walkers, "shared": shared})
    for index in (0, 7):
        task = env.source[index]
        told = [said[0].content.split("\n")[1:7] for said in env.first_words(task).values()]
        views = ["".join(lines).replace(" ", "") for lines in told]
        ends = {task.data["start"]: START, task.data["goal"]: GOAL}
        whole = marked(task.data["map"], ends)
        for at, cell in enumerate(whole):
            shown = [one[at] for one in views if one[at] != HIDDEN]
            assert set(shown) == {cell}
            everybody = cell in (START, GOAL) or task.data["seen"][at] == "*"
            assert len(shown) == (walkers if everybody else 1)
        own = [sum(one != HIDDEN for one in view) for view in views]
        assert max(own) - min(own) <= 1
        assert task.data["seen"].count("*") == round(34 * shared)
    full = make("collab_maze-v0", info="full")
    assert all(HIDDEN not in said[0].content for said in full.first_words(full.source[0]).values())


def test_a_move_is_made_where_all_name_it():
    assert walk(row_env(), ("RRDDLLD", "R R D D L L D")) == [1.0]
    assert walk(row_env(), ("RRDD", "RRDR")) == pytest.approx([3 / 7])
    assert walk(row_env(), ("RRDD", "!")) == [0.0]
    assert walk(row_env(), ("RRD", "DRR")) == [0.0]
    three = row_env(maze={"walkers": 3})
    assert walk(three, ("RRDD", "RRDD", "RR")) == pytest.approx([2 / 7])
    assert three.infos["walker_0"]["agreed"] == three.infos["walker_0"]["walked"] == 2
    assert walk(row_env(moves=3), ("RRDDLLD", "RRDDLLD")) == pytest.approx([3 / 7])


def test_a_wall_or_the_edge_ends_the_episode_and_the_goal_does():
    env = row_env(rounds=5)
    assert walk(env, ("RRU", "RRU")) == pytest.approx([2 / 7])
    assert all(env.terminations.values())
    assert walk(env, ("D", "D")) == [0.0]
    assert all(env.terminations.values())
    assert walk(env, ("RRDDLLDUURR", "RRDDLLDUURR")) == [1.0]  # no further than the goal
    assert env.infos["walker_1"]["walked"] == 7
    assert env.infos["walker_1"]["success"]


def test_moves_count_in_turns_of_naming_alone():
    env = row_env(talk=2)
    env.reset(seed=0, options={"task": 0})
    for _ in range(4):
        env.step(f"Answer: {WAY}")
        assert "readable" not in env.infos["walker_0"]
    assert env.rewards["walker_0"] == 0.0
    env.step(f"Answer: {WAY}")
    assert env.infos["walker_0"]["readable"]
    env.step("As walker_0 says.")
    assert not env.infos["walker_1"]["readable"]
    assert env.rewards["walker_0"] == 0.0
    assert all(env.terminations.values())


def test_walkers_hear_each_other_and_are_told_where_they_stand():
    env = row_env(rounds=2)
    assert walk(env, ("RRDD", "RRD")) == pytest.approx([3 / 7])
    for agent in env.possible_agents:
        heard = env.chat(agent)[-1].content
        assert "All of you name R R D.\nYou are at row 2, column 3." in heard
        assert heard.endswith("Speak.") == (agent == "walker_0")
    assert "walker_1 says:\n> Answer: RRD" in env.chat("walker_0")[-1].content
    env.step("You are at row 4, column 1.\nName moves.")
    assert "readable" not in env.infos["walker_0"]
    assert env.infos["walker_1"]["readable"]
    assert "> You are at row 4, column 1." in env.chat("walker_1")[-1].content


def test_turns_are_paid_their_gains():
    env = row_env(rounds=4)
    there, back = ("RRDD", "RRDD"), ("UULL", "UULL")
    assert walk(env, there, back, there, back) == pytest.approx([4 / 7, -4 / 7] * 2)
    assert walk(env, there, ("LLD", "LLD")) == pytest.approx([4 / 7, 3 / 7])
    assert walk(env, ("RRR", "RRR"), ("D", "D"), ("LD", "LD")) == pytest.approx(
        [1 / 7, 1 / 7, 2 / 7]
    )


def test_arriving_earlier_never_returns_less():
    plans = ([WAY], ["RRDD", "LLD"], ["", "", WAY], ["RR", "LL", WAY], ["R", "R", "DDLLD"])
    for discount in (0.5, 0.9, 1.0):
        returns = []
        for plan in plans:
            paid = walk(row_env(rounds=4), *[(moves or "!", moves or "!") for moves in plan])
            returns.append(sum(discount**k * reward for k, reward in enumerate(paid)))
        assert max(returns) == returns[0] == 1.0


def test_no_way_is_shown_or_in_info():
    env = make("collab_maze-v0", render_mode="html", rounds=3)
    env.reset(seed=0, options={"task": 0})
    for text in ("I think", "so", "Answer: U", "Answer: D", "", "no"):
        env.step(text)
        assert all(
            set(info) & {"map", "way", "start", "goal", "seen"} == set()
            for info in env.infos.values()
        )
    whole = " ".join(env.task.data["map"])
    assert all(len(said) < len(whole) or said not in env.state() for said in (whole, whole[::-1]))
    assert 'class="grid"' in env.render()


def few_tasks(split: str) -> list[int]:
    """Tasks of the first two boards of a split; more boards would have to be made."""
    return [MAPS[split] * pair + board for board in (0, 1) for pair in range(0, 32, 8)]


# -- who needs whom --------------------------------------------------------------------------------
def team_return(env: Any, index: int, conventions: list[str]) -> float:
    def says(env: Any, agent: str) -> str:
        convention = conventions[env.possible_agents.index(agent)]
        return env.experts().reply(env.task, agent, convention, env.chat(agent))

    return earned(env, index, says)


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"split": "ood"}, {"maze": {"walkers": 4}, "talk": 2}, {"rounds": 15, "moves": 1}],
)
def test_walkers_who_agree_who_leads_arrive_and_others_do_not(kwargs: dict[str, Any]):
    env = make("collab_maze-v0", **kwargs)
    n, tasks = len(env.possible_agents), few_tasks(kwargs.get("split", "train"))
    for leader in LEADERS:
        assert {team_return(env, index, [leader] * n) for index in tasks} == {1.0}
    first, last = LEADERS
    assert mean(team_return(env, index, [first] + [last] * (n - 1)) for index in tasks) < 0.6
    assert mean(team_return(env, index, [last] + [first] * (n - 1)) for index in tasks) == 0.0


def test_a_first_text_says_who_leads():
    for walkers in (2, 3):
        env = make("collab_maze-v0", maze={"walkers": walkers})
        experts, task = env.experts(), env.source[0]
        for agent, convention in product(env.possible_agents, LEADERS):
            assert experts.read(task, agent, experts.first(task, agent, convention)) == convention
            assert experts.read(task, agent, "I think so.") is None


@pytest.mark.parametrize("form", FORMS)
def test_attacks_earn_less_than_half(form: str):
    for split in ("train", "ood"):
        env = make("collab_maze-v0", split=split, **FORMS[form])
        tasks = few_tasks(split)
        assert mean(earned(env, task, honest) for task in tasks) == 1.0
        for name, says in ATTACKS.items():
            assert mean(earned(env, task, says) for task in tasks) < 0.7, name


def test_a_menu_of_choices_makes_no_maze():
    drawn.cache_clear()
    assert Choose(make("collab_maze-v0", maze={"walls": 0.29})).action_space("walker_0").n == 2
    assert drawn.cache_info().currsize == 0


# -- tasks -----------------------------------------------------------------------------------------
def test_splits_share_no_start_and_goal_with_as_many_walls():
    known: dict[tuple[str, int], str] = {}
    prompts: dict[tuple[int, str], tuple[str, int]] = {}
    for split in ("train", "val", "test", "ood"):
        source = make("collab_maze-v0", split=split).source
        for number in range(4):
            for data in drawn(Level(6, 0.3, 7, 2, 0.0), split, number):
                walls = dict.fromkeys([i for i, c in enumerate(data["map"]) if c == WALL], WALL)
                ends = {data["start"]: START, data["goal"]: GOAL}
                key = canonical(marked(FREE * len(data["map"]), ends)), len(walls)
                assert known.setdefault(key, split) == split
                for seat in (0, 1):  # no prompt is of two boards
                    told = prompts.setdefault((seat, view(data, seat)), (split, number))
                    assert told == (split, number)
        least, size = (9, 8) if split == "ood" else (7, 6)
        for index in range(0, len(source), 997):
            data = source[index].data
            assert len(data["map"]) == size**2
            assert least <= distances(data["map"], data["goal"])[data["start"]] <= least + 2


def test_a_part_comes_with_several_mazes():
    for number in range(4):
        board = drawn(Level(6, 0.3, 7, 2, 0.0), "val", number)
        for seat in (0, 1):
            assert len({view(data, seat) for data in board}) <= 8
            assert sure(board, seat) <= 0.25
        assert len({data["map"] for data in board}) == len(board) == 32


def test_a_way_is_sure_that_is_free_in_all_mazes_that_look_the_same():
    shared = {"start": 0, "goal": 2, "seen": "S0G111111"}  # walker_0 sees the cell between
    board = [
        {"map": cells, **shared}
        for cells in ("." * 9, ".......#.", ".#.......", ".#.....#.", ".#..#....")
    ]
    # Free between S and G: sure, twice. Walled: the way around is walled in one of three mazes
    # at another place than the way along the edge, so that the edge is free in two alone.
    assert sure(board[:2], 0) == 1.0
    assert sure(board[2:], 0) == 0.0
    assert sure(board, 0) == pytest.approx(2 / 5)


def test_the_length_of_a_way_is_that_of_the_search():
    rng = random.Random(3)
    for _ in range(100):
        size = rng.randrange(3, 9)
        cells = "".join(WALL if rng.random() < 0.35 else FREE for _ in range(size**2))
        start, goal = rng.choices([at for at, cell in enumerate(cells) if cell == FREE], k=2)
        assert way_length(size, free_of(cells), start, goal) == distances(cells, goal).get(start, 0)


# -- bounds ----------------------------------------------------------------------------------------
def stopped_at(cells: str, start: int, goal: int, moves: str) -> int:
    place = start
    for move in moves:
        following = neighbour(cells, place, move)
        if following is None or place == goal:
            break
        place = following
    return place


def test_a_lone_walker_goes_where_most_mazes_are_free():
    """From 0 to 2: right, right is free in two mazes; down and around in the third alone."""
    assert best_walk(["...###...", "...#.....", ".#......."], 0, 2) == (2.0, -2)
    assert best_walk(["...###...", ".#......."], 0, 2)[0] == 1.0
    assert best_walk(["....#....", "..#......"], 0, 8) == (2.0, -4)  # down first, in both


def test_the_best_lone_walk_is_that_of_all_walks():
    """Mazes of 3 x 3 that look alike, against all walks of 6 moves at most."""
    rng, tried = random.Random(5), 0
    while tried < 4:
        mazes = ["".join(WALL if rng.random() < 0.3 else FREE for _ in range(9)) for _ in range(3)]
        start, goal = rng.sample(range(9), 2)
        lefts = [distances(cells, goal) for cells in mazes]
        if not all(left.get(start, 0) >= 2 for left in lefts):
            continue
        tried += 1
        most = max(
            sum(
                score(left, start, stopped_at(cells, start, goal, "".join(moves)))
                for cells, left in zip(mazes, lefts, strict=True)
            )
            for count in range(7)
            for moves in product(MOVES, repeat=count)
        )
        found, length = best_walk(mazes, start, goal)
        assert -length <= 6
        assert found == pytest.approx(most)


def test_random_moves_earn_what_all_of_them_do():
    env = row_env(rounds=2)
    data = env.source[0].data
    texts = list(product(MOVES, repeat=4))
    paid = [sum(walk(env, *zip(said[:2], said[2:], strict=True))) for said in texts]
    assert expected_blind(data, 2, 2) == pytest.approx(mean(paid))
    assert env.info_mode == "split"


def test_a_team_is_worth_more_than_its_best_walker():
    env = make("collab_maze-v0", split="val")
    bounds = [env.bounds(env.source[index]) for index in range(8)]
    assert all(one.random < one.solo <= one.team == 1.0 for one in bounds)
    assert max(one.solo for one in bounds) < 1.0
    hopeful = ATTACKS["one names, the others repeat: its hopeful way"]
    board = range(0, len(env.source), 64)  # all tasks of the first board
    assert {env.source[index].data["board"] for index in board} == {0}
    assert mean(earned(env, index, hopeful) for index in board) <= bounds[0].solo
    short = make("collab_maze-v0", split="val", moves=5)
    with pytest.raises(ValueError, match="the best walk alone has"):
        short.bounds(short.source[0])
    full = make("collab_maze-v0", split="val", info="full", moves=5)
    left = distances(full.source[0].data["map"], full.source[0].data["goal"])
    team = full.bounds(full.source[0])
    assert team.solo == team.team == pytest.approx(5 / left[full.source[0].data["start"]])
    with pytest.raises(ValueError, match="rows have none"):
        row_env().bounds(row_env().source[0])


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"maze": {"walkers": 12, "size": 5}}, "seen by one walker alone"),
        ({"maze": {"sise": 6}}, "size"),
        ({"maze": {"distance": 11}}, "distance=11: expected a whole number, 1 to 10"),
        ({"tasks": [{"map": ["S#G", "##.", "..."]}], "split": "all"}, "there is no way"),
        (
            {"tasks": [{"map": ["S..", "..G", "..."]}], "maze": {"walkers": 4}, "split": "all"},
            "7 cells",
        ),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any], message: str):
    with pytest.raises((ValueError, TypeError), match=message):
        make("collab_maze-v0", **kwargs)


def test_one_agent_sees_all_parts():
    env = make("collab_maze-v0", single_seat=True)
    env.reset(seed=0, options={"task": 0})
    told = env.chat("writer_0")[0].content
    assert "You are walker_0" in told
    assert "You are walker_1" in told
