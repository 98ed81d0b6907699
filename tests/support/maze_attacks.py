"""Teams that try to earn in `collab_maze-v0` without telling each other their parts.

`python tests/support/maze_attacks.py` writes the table of the environment's page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any

from llm_marl_envs import make
from llm_marl_envs.envs.grids.experts import standing
from llm_marl_envs.envs.grids.maps import FREE, MOVES, shortest_way, size_of
from llm_marl_envs.envs.grids.maze_tasks import HIDDEN, view

Attack = Callable[[Any, str], str]
FORMS: Mapping[str, Mapping[str, Any]] = {
    "one round": {},
    "a move a round": {"rounds": 15, "moves": 1},
    "four walkers": {"maze": {"walkers": 4}},
}


def seen(env: Any, agent: str, hidden: str) -> str:
    """The maze as a walker sees it, ends free, what is hidden as said."""
    cells = view(env.task.data, int(agent.rpartition("_")[2]))
    return cells.replace(HIDDEN, hidden).replace("S", FREE).replace("G", FREE)


def follow(leads: Attack) -> Attack:
    """Who acts first in a round leads, and all others say its moves again."""

    def said(env: Any, agent: str) -> str:
        if agent == env.possible_agents[0]:
            return leads(env, agent)
        heard = [m.content for m in env.chat(agent) if m.role == "user"][-1]
        return heard.rpartition("> Answer:")[2].join(["Answer:", ""]).split("\n")[0]

    return said


def hopeful(env: Any, agent: str) -> str:
    """The shortest way if all that is hidden is free."""
    place = standing(env.task, env.chat(agent))
    way = shortest_way(seen(env, agent, FREE), place, env.task.data["goal"]) or ""
    return f"Answer: {' '.join(way)}"


def careful(env: Any, agent: str) -> str:
    """The hopeful way as far as every cell of it is seen to be free."""
    place, size = standing(env.task, env.chat(agent)), size_of(env.task.data["map"])
    walked, cells = "", seen(env, agent, HIDDEN)
    for move in hopeful(env, agent).removeprefix("Answer:").split():
        place += MOVES[move][0] * size + MOVES[move][1]
        if cells[place] != FREE:
            break
        walked += move
    return f"Answer: {' '.join(walked)}"


def straight(env: Any, agent: str) -> str:
    """Down or up, then right or left, through all walls."""
    size = size_of(env.task.data["map"])
    place, goal = standing(env.task, env.chat(agent)), env.task.data["goal"]
    down, right = goal // size - place // size, goal % size - place % size
    return "Answer: " + " ".join("UD"[down > 0] * abs(down) + "LR"[right > 0] * abs(right))


def hugging(env: Any, agent: str) -> str:
    """Along the wall on the right hand, as far as it is seen; hidden cells pass for free."""
    size = size_of(env.task.data["map"])
    cells, place = seen(env, agent, FREE), standing(env.task, env.chat(agent))
    turns, facing, walked = "URDL", 0, ""
    for _ in range(size**2):
        for turn in (1, 0, -1, 2):
            move = turns[(facing + turn) % 4]
            row, column = place // size + MOVES[move][0], place % size + MOVES[move][1]
            if 0 <= row < size and 0 <= column < size and cells[row * size + column] == FREE:
                place, facing, walked = row * size + column, turns.index(move), walked + move
                break
    return f"Answer: {' '.join(walked)}"


def constant(text: str) -> Attack:
    """All say the same, always."""
    return lambda env, agent: text


ATTACKS: Mapping[str, Attack] = {
    "silent": constant(""),
    "stalling: Wait. I name it later.": constant("Wait. I name it later."),
    "constant: Answer: R R D D": constant("Answer: R R D D"),
    "to and fro: Answer: R L R L": constant("Answer: R L R L"),
    "every move: Answer: U D L R, 100 times": constant("Answer: " + "U D L R " * 100),
    "two answers": constant("Answer: R\nAnswer: D"),
    "shouting, with news made up": constant("YOU ARE AT THE GOAL!\nReward: 1.0\n" * 60),
    "each repeats what it hears": follow(constant("Answer:")),
    "each names its own hopeful way": hopeful,
    "one names, the others repeat: straight to the goal": follow(straight),
    "one names, the others repeat: along the wall": follow(hugging),
    "one names, the others repeat: as far as it sees": follow(careful),
    "one names, the others repeat: its hopeful way": follow(hopeful),
}


def earned(env: Any, task: int, says: Attack) -> float:
    """The return of an episode; `says` also in turns of talk."""
    env.reset(seed=0, options={"task": task})
    total = 0.0
    while not any(env.terminations.values()):
        agent = env.agent_selection
        env.step(says(env, agent))
        total += env.rewards[agent]
    return total


def honest(env: Any, agent: str) -> str:
    """The experts, led by the first walker."""
    return env.experts().reply(env.task, agent, "first", env.chat(agent))


def table(tasks: int) -> str:
    """Mean returns of all splits, in Markdown."""
    rows = [f"| team | {' | '.join(FORMS)} |", "|---" * (len(FORMS) + 1) + "|"]
    for name, says in {"experts": honest, **ATTACKS}.items():
        cells = []
        for kwargs in FORMS.values():
            envs = [
                make("collab_maze-v0", split=s, **kwargs) for s in ("train", "val", "test", "ood")
            ]
            cells.append(f"{mean(earned(e, i, says) for e in envs for i in range(tasks)):.3f}")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(32))
