"""sudoku-v0: what is told, read and paid, who needs whom, and what attacks earn."""

from __future__ import annotations

import copy
from statistics import mean
from typing import Any

import pytest
from support.grids import play

from llm_marl_envs import make
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.grids.base import PLANNER, TOOL
from llm_marl_envs.envs.grids.sudoku import read_digits
from llm_marl_envs.envs.grids.sudoku_bounds import better_alone
from llm_marl_envs.envs.grids.sudoku_tasks import blank_cells, puzzle_of, seen_by
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.sandbox import Limits, Sandbox
from llm_marl_envs.tools.programs import run_program

ROW = {"puzzle": ["1 . 3 4", "3 4 . 2", "2 1 4 3", "4 3 2 ."]}  # 2, 1, 1


def solution(env: Any, task: int = 0) -> list[int]:
    one = env.source[task]
    return [one.data["solution"][at] for at in blank_cells(one)]


def answer(found: list[int]) -> str:
    return f"Answer: {' '.join(map(str, found))}"


# -- what is told ---------------------------------------------------------------------------------
def test_each_seat_sees_its_own_givens_and_no_more():
    env = make("sudoku-v0")
    for index in range(20):
        task = env.source[index]
        told = {agent: said[0].content for agent, said in env.first_words(task).items()}
        size, puzzle = task.data["size"], puzzle_of(task)
        for seat, agent in enumerate((TOOL, PLANNER)):
            cells = " ".join(told[agent].split("\n")[1 : 1 + size]).split()
            own = seen_by(task, seat)
            for at, shown in enumerate(cells):
                assert shown == (str(own[at]) if own[at] else "?" if puzzle[at] else ".")
        assert {a or b for a, b in zip(seen_by(task, 0), seen_by(task, 1), strict=True)} - {0}


def test_with_full_information_both_see_all_givens():
    env = make("sudoku-v0", info="full")
    env.reset(seed=0, options={"task": 0})
    grids = [env.chat(agent)[0].content.split("\n")[1:5] for agent in (TOOL, PLANNER)]
    assert grids[0] == grids[1]
    assert "?" not in "".join(grids[0])


def test_no_solution_is_shown_or_in_info():
    env = make("sudoku-v0", render_mode="html", turns=3)
    env.reset(seed=0, options={"task": 0})
    right = " ".join(map(str, solution(env)))
    for text in ("I think", "Answer: " + "1 " * 8, "so", "Answer: " + "2 " * 8):
        env.step(text)
        assert right not in env.state()
        assert all(right not in str(info) for info in env.infos.values())
        assert all(set(info) & {"solution", "puzzle"} == set() for info in env.infos.values())
    assert 'class="grid"' in env.render()


def test_what_is_said_of_repeats_depends_on_the_answer_alone():
    """The same answer in all tasks that share a layout: the same news, whatever the givens."""
    env = make("sudoku-v0")
    owners = env.source[0].data["owners"]
    alike = [task for task in env.source if task.data["owners"] == owners][:30]
    news = set()
    for task in alike:
        env.reset(seed=0, options={"task": task})
        env.step("")
        env.step(answer([1, 1, 2, 3, 4, 4, 3, 2]))
        if env.agents and not any(env.terminations.values()):
            news.add(env.chat(PLANNER)[-1].content)
    assert len(news) == 1
    assert "repeat" in news.pop()


# -- what is read ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Answer: 1 2 3", (1, 2, 3)),
        ("I see.\nanswer: 1, 2, 3", (1, 2, 3)),
        ("<think>Answer: 3 3 3</think>Answer: [1, 2, 3]", (1, 2, 3)),
        ("Answer: 1 . 3", (1, 0, 3)),
        ("Answer: 1 2 3.", (1, 2, 3)),
        ("Answer: 1 2 .", (1, 2, 0)),
        ("Answer: 1 9 3", (1, 0, 3)),
        ("Answer: [[1,4,4,4],[4,4,4,2],[4,4,4,4],[4,4,4,3]]", (1, 2, 3)),
        ("Answer: 1 4 4 4 / 4 4 4 2 / ? ? ? ? / 4 4 4 3", (1, 2, 3)),
        ("Answer: 1 2 3\nAnswer: 1 2 3", None),
        ("Answer: 1 2", None),
        ("Answer: 1 2 3 4", None),
        ("Answer: 1 2 x", None),
        ("Answer: 1234 1 1", None),
        ("1 2 3", None),
        ("> Answer: 1 2 3", None),
        ("Answer: " + "1 " * 5000, None),
        ("Answer:", None),
        ("Answer: ¹ ² ³", None),
        ("", None),
    ],
)
def test_answers_are_read_from_one_line(text: str, found: tuple[int, ...] | None):
    assert read_digits(text, (0, 7, 15), 4) == found


# -- what is paid ---------------------------------------------------------------------------------
def test_turns_are_paid_their_gains():
    env = make("sudoku-v0", tasks=[ROW], split="all", turns=3)
    half = "Answer: 2 1 4"  # two of three
    assert play(env, "", half, "", "Answer: 2 1 1") == pytest.approx([1 / 3, 2 / 3])
    assert play(env, "", "Answer: 2 1 1") == [1.0]
    assert play(env, "", half, "", "no answer", "", half) == pytest.approx([1 / 3, -1 / 3, 1 / 3])


def test_solving_earlier_never_returns_less():
    env = make("sudoku-v0", turns=3)
    right, wrong = solution(env), [1] * 8
    for discount in (0.5, 0.9, 1.0):
        returns = []
        for late in range(3):
            texts = [*[wrong] * late, right]
            paid = play(env, *[one for found in texts for one in ("", answer(found))])
            returns.append(sum(discount**k * reward for k, reward in enumerate(paid)))
        assert returns == sorted(returns, reverse=True)
        assert returns[0] == 1.0


def test_a_tool_and_a_planner_that_agree_solve_what_neither_solves_alone():
    """The team's returns over tasks, where both follow one convention, draw theirs, or are mute."""
    env = make("sudoku-v0", turns=1)
    starts = [Start(task=index, seed=index, sample_seed=index) for index in range(150)]

    def score(**seats: Any) -> float:
        team = {TOOL: ExpertPolicy(env, "rows"), PLANNER: ExpertPolicy(env, "rows"), **seats}
        envs = VectorTextEnv([copy.copy(env) for _ in range(16)])
        return mean(sum(t.reward for t in e.turns) / 2 for e in rollout(envs, team, starts))

    solo = mean(env.bounds(env.source[index]).solo for index in range(150))
    assert score() == 1.0
    assert solo < 0.6
    assert score(**{TOOL: ExpertPolicy(env, "columns")}) < 0.8


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("turns", [1, 2])
def test_the_best_team_is_better_than_the_best_seat_alone(split: str, turns: int):
    env = make("sudoku-v0", split=split, turns=turns)
    bounds = [env.bounds(env.source[index]) for index in range(100)]
    assert all(one.random < one.solo <= one.team == 1.0 for one in bounds)
    assert better_alone(split, 8, turns).mean < (0.6, 0.8)[turns - 1]


def test_a_seat_alone_reaches_its_bound_and_no_more():
    """The optimal planner that hears nothing, played: its mean return is the bound."""
    env = make("sudoku-v0", turns=2, split="val")
    tasks = list(env.source)
    views: dict[Any, list[list[int]]] = {}
    for task in tasks:
        views.setdefault((task.data["owners"], seen_by(task, 1)), []).append(
            [task.data["solution"][at] for at in blank_cells(task)]
        )
    returns = []
    for task in tasks:
        candidates = views[task.data["owners"], seen_by(task, 1)]
        texts = ["", answer(candidates[0]), "", answer(candidates[-1])]
        env.reset(seed=0, options={"task": task})
        total = 0.0
        for text in texts:
            if any(env.terminations.values()):
                break
            env.step(text)
            total += env.rewards[PLANNER]
        returns.append(total)
    assert better_alone("val", 8, 2).mean - 0.1 < mean(returns) <= better_alone("val", 8, 2).mean


def test_bounds_are_refused_where_they_are_not_known():
    for env in (make("sudoku-v0", level="6x6"), make("sudoku-v0", split="ood")):
        with pytest.raises(ValueError, match="generated grids of size 4"):
            env.bounds(env.source[0])
    env = make("sudoku-v0", turns=4)
    with pytest.raises(ValueError, match="1 to 3 turns"):
        env.bounds(env.source[0])
    full = make("sudoku-v0", level="9x9", info="full", turns=5)
    assert full.bounds(full.source[0]).solo == 1.0


# -- attacks --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "texts",
    [
        ("", ""),  # silent
        ("Answer: {right}", "As tool_0 says."),  # the tool answers, the planner does not
        ("", "Answer: 1 2 3 4 1 2 3 4 1 2 3 4"),  # all digits
        ("", "Answer: 1|2|3|4"),
        ("", "\n".join(f"Answer: {d} {d} {d} {d} {d} {d} {d} {d}" for d in range(1, 5))),
        ("", "Answer: {right}\nAnswer: {right}"),  # several answer lines
        ("", "> Answer: {right}"),  # quoted
        ("", "```\nAnswer: {right}\n```"),  # fenced
        ("", "ANSWER " * 500),  # shouting
        ("", "Reward: 1.0\nSolved.\nYou earn 1."),
    ],
)
def test_texts_that_do_not_answer_earn_nothing(texts: tuple[str, str]):
    env = make("sudoku-v0", turns=1)
    right = " ".join(map(str, solution(env)))
    assert play(env, *(text.replace("{right}", right) for text in texts)) == [0.0]


def test_constants_earn_what_chance_does():
    """One digit in all cells, or the same digits in all tasks: a quarter of the cells' half."""
    env = make("sudoku-v0", turns=1)
    paid = [
        play(env, "", f"Answer: {' '.join(digits)}", task=index)[0]
        for index in range(0, 600, 3)
        for digits in ("11111111", "12341234", "44332211")
    ]
    assert mean(paid) == pytest.approx(0.125, abs=0.03)


def test_going_to_and_fro_collects_nothing():
    env = make("sudoku-v0", turns=6)
    some, none = [*solution(env)[:7], 0], [0] * 8
    texts = [one for found in (some, none) * 3 for one in ("", answer(found))]
    assert sum(play(env, *texts)) == pytest.approx(0.0)
    assert sum(play(env, *texts[:10])) == pytest.approx(7 / 16)  # the last answer's score


def test_stalling_earns_what_answering_late_does_and_no_more():
    env = make("sudoku-v0", turns=3)
    wait = ("Wait.", "I answer in the next turn.")
    assert play(env, *wait * 2, "", answer(solution(env))) == [0.0, 0.0, 1.0]
    assert play(env, *wait * 3) == [0.0] * 3


def test_a_copying_planner_earns_what_its_tool_answers():
    env = make("sudoku-v0", turns=1)
    env.reset(seed=0, options={"task": 0})
    env.step("Answer: 1 1 1 1 1 1 1 1")
    heard = env.chat(PLANNER)[-1].content
    env.step(heard)  # quoted lines answer nothing
    assert env.rewards[PLANNER] == 0.0


# -- programs -------------------------------------------------------------------------------------
def printed(env: Any, program: str) -> str:
    env.reset(seed=0, options={"task": 0})
    env.step(f"```python\n{program}\n```")
    heard = env.chat(PLANNER)[-1].content
    return heard.partition("The program of tool_0 printed:\n")[2]


SOLVER = """
import sys
grid = [[0 if w == "." else int(w) for w in line.split()] for line in sys.stdin]
def solve():
    for r in range(4):
        for c in range(4):
            if grid[r][c] == 0:
                box = [grid[r // 2 * 2 + i][c // 2 * 2 + j] for i in (0, 1) for j in (0, 1)]
                for d in range(1, 5):
                    if d not in grid[r] + [row[c] for row in grid] + box:
                        grid[r][c] = d
                        if solve():
                            return True
                        grid[r][c] = 0
                return False
    return True
solve()
print("Answer:", *[d for row in grid for d in row])
"""


def test_a_program_reads_the_grid_and_the_planner_its_output():
    env = make("sudoku-v0", info="full", tool="python", turns=1)
    heard = printed(env, SOLVER)
    assert env.infos[TOOL]["readable"]
    env.step(heard.strip().removeprefix("> "))
    assert env.rewards[TOOL] == 1.0


def test_a_program_sees_what_its_seat_sees():
    env = make("sudoku-v0", tool="python")
    heard = printed(env, "import sys\nprint(sys.stdin.read(), end='')")
    shown = env.chat(TOOL)[0].content.split("\n")[1:5]
    assert heard.split("\n") == [f"> {line}" for line in shown]
    assert not set("".join(shown)) - set("1234?. ")


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("while True: pass", "processor time"),
        ("print(open('/etc/passwd').read())", "Error"),
        ("import os; print(os.listdir('/'))", "Error"),
        ("import os; os._exit(0)", "exit status"),
        ("import socket; socket.create_connection(('1.1.1.1', 80))", "Error"),
        ("def (", "SyntaxError"),
        ("x = [0] * 10**10", "MemoryError"),
        ("import sys; sys.modules['__main__'] = None; globals().clear(); print(1/0)", "Error"),
        ("raise BaseException('Answer: 1')", "BaseException"),
        ("", "\n> "),
    ],
)
def test_a_hostile_program_is_text_at_most(program: str, says: str):
    env = make("sudoku-v0", tool="python")
    heard = printed(env, program)
    assert says in "\n" + heard
    assert "root:" not in heard
    assert len(heard) < 3000
    env.step(answer(solution(env)))
    assert env.infos[TOOL]["readable"] is False
    assert env.rewards[TOOL] == 1.0  # the planner needs no tool that works


@pytest.mark.parametrize(
    "program",
    [
        "print('x' * 10**7)",
        "for _ in range(10**5): print('Answer: 1')",
        "print('\\ud800\\x1b[2J' * 999)",
    ],
)
def test_a_program_that_prints_megabytes_is_cut(program: str):
    env = make("sudoku-v0", tool="python")
    heard = printed(env, program)
    assert 300 < len(heard) < 6000
    assert all(line.startswith("> ") for line in heard.split("\n"))
    env.step("")
    assert env.rewards[TOOL] == 0.0


@pytest.mark.parametrize(
    ("program", "heard", "error"),
    [
        ("print('so far')\nimport time\ntime.sleep(600)", "so far", "no verdict within"),
        ("print('so far')\nwhile True: pass", "so far", "processor time"),
        ("print('so far')\nimport os\nos._exit(3)", "so far", "exit status 3"),
        ("for n in range(400): print(n, end=' ')\nprint(1/0)", "398 399", "ZeroDivisionError"),
        ("print(chr(0) * 5000)", "\0" * 2000, ""),
        ("print('\u00e9' * 5000)", "\u00e9" * 2000, ""),
        ("print(chr(0x1F600) * 5000)", chr(0x1F600) * 2000, ""),
        ("for n in range(5000): print(n)", "525", ""),
        ("print('once')\nimport sys\nsys.stdout.flush()\nprint('again')", "again", ""),
    ],
)
def test_what_a_program_printed_is_kept_however_it_ends(program: str, heard: str, error: str):
    # Only the sleeper meets the clock: a busy machine gives a loop its second of processor late.
    clock = 1.0 if "sleep" in program else 60.0
    with Sandbox(1, Limits(wall_seconds=clock, cpu_seconds=1)) as sandbox:
        found = run_program(program, "", sandbox)
    assert heard in found.text
    assert len(found.text) <= 2000
    assert error in found.error
    assert bool(error) == bool(found.error)


def test_a_program_that_exits_keeps_what_it_printed():
    env = make("sudoku-v0", tool="python")
    assert printed(env, "import sys\nprint(7)\nsys.exit(3)") == "> 7"
    assert printed(env, "import random\nprint(random.random())") == "> 0.8444218515250481"


def test_programs_replay():
    env = make("sudoku-v0", tool="python", turns=2)
    envs = VectorTextEnv([env])
    team = dict.fromkeys(env.possible_agents, ExpertPolicy(env))
    starts = [Start(task=index, seed=index, sample_seed=index) for index in range(4)]
    for episode in rollout(envs, team, starts):
        again = replay(episode)
        assert [t.messages for t in again.turns] == [t.messages for t in episode.turns]
        assert [t.reward for t in again.turns] == [t.reward for t in episode.turns]


# -- arguments ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"blanks": 12}, "blanks=12: expected a whole number, 4 to 9"),
        ({"tasks": [ROW], "split": "all", "info": "split"}, "info='split' needs generated tasks"),
        ({"tasks": [{"puzzle": "1 2"}], "split": "all"}, "expected .* lines"),
        ({"tasks": [{"puzzle": [". . . ."] * 4}], "split": "all"}, "more than one solution"),
        ({"tasks": [{"puzzle": ["1 1 . ."] * 4}], "split": "all"}, "no solution"),
        ({"tasks": [{"puzzle": 7}], "split": "all"}, "puzzle=7"),
        ({"tasks": [{}], "split": "all"}, "puzzle=None"),
    ],
)
def test_wrong_arguments_are_refused(kwargs: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        make("sudoku-v0", **kwargs)


def test_one_agent_with_the_same_tool_turns_and_tokens():
    env = make("sudoku-v0", info="full", tool="python", turns=2, single_seat=True)
    env.reset(seed=0, options={"task": 0})
    assert env.max_turns == 4
    assert env.max_action_chars == make("sudoku-v0").max_action_chars
    env.step({"writer_0": f"```python\n{SOLVER}\n```"})
    found = next(
        line for line in env.chat("writer_0")[-1].content.split("\n") if line.startswith("> Answer")
    )
    _, rewards, *_ = env.step({"writer_0": found.removeprefix("> ")})
    assert rewards == {"writer_0": 1.0}
