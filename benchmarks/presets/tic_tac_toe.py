"""tic_tac_toe_tiny: what the team expects in every board of `test` and both seats, exactly.

No game is sampled. After every course of the game from every board the chance of each cell is read
from the model, and with it what it expects against the perfect player, against one that takes free
cells at random, and against a best responder (exploitability). A text that begins with a cell's
name counts as that cell; `ends` is the chance that it stops there. `play` has the same numbers of
the model with the cells that are taken left out of its choice: there nothing can rise because moves
become legal.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import torch

from benchmarks.presets.study import Seats, Settings, Study, held_out
from llm_marl_envs.envs.games import tic_tac_toe_rules as tictactoe
from llm_marl_envs.envs.games.tic_tac_toe_rules import Board, Course

ROWS = 128
"""Prompts that are scored at once; all have the same length, so nothing is padded."""
Chances = Mapping[int, float]
Table = Mapping[Course, Chances]
"""What a player does after every course in which it has a choice."""


def measure(run: Settings, seats: Seats) -> dict[str, Any]:
    """Means over boards and seats."""
    env = held_out(run).unwrapped
    ends, legal, found = [], [], {"model": [], "play": []}
    for task in env.source:
        start = task.data["board"]
        said = {
            course: one
            for first in (True, False)
            for course, one in chances(seats, env, task, courses(start, first)).items()
        }
        model = {course: cells for course, (cells, _) in said.items()}
        free = {course: tictactoe.free_cells(after(start, course)) for course in model}
        play = {course: legal_only(cells, free[course]) for course, cells in model.items()}
        ends += [chance for _, chance in said.values()]
        legal += [sum(cells[cell] for cell in free[course]) for course, cells in model.items()]
        found["model"].append(games(model, start))
        found["play"].append(games(play, start))
    means = {
        kind: {name: mean(one[name] for one in some) for name in some[0]}
        for kind, some in found.items()
    }
    return {"ends": mean(ends), "legal": mean(legal), **means}


# -- what the model would say ----------------------------------------------------------------------
def after(start: Board, course: Course) -> Board:
    """The board after a course of the game."""
    for cell in course:
        start = tictactoe.placed(start, cell)
    return start


def courses(start: Board, first: bool) -> list[Course]:
    """Every course after which this seat has a choice."""
    found: list[Course] = []
    level: list[Course] = [()]
    while level:
        found += [one for one in level if (len(one) % 2 == 0) == first]
        level = [
            (*one, cell)
            for one in level
            for cell in tictactoe.free_cells(after(start, one))
            if not tictactoe.is_over(board := after(start, (*one, cell))) and board.count(".") > 1
        ]
    return found


@torch.no_grad()
def chances(
    seats: Seats, env: Any, task: Any, some: Sequence[Course]
) -> dict[Course, tuple[dict[int, float], float]]:
    """Course -> the chance of each cell's name, and that a name drawn so is all that is said."""
    agent, labels = env.possible_agents[len(some[0]) % 2], task.data["labels"]
    player, team = seats[agent], seats[agent].team
    policy = team.policy_of[agent]
    tokenizer, model = team.tokenizers[policy], team.model_of(policy)
    names = [tokenizer.encode(one, add_special_tokens=False) for one in labels]
    if any(len(one) != 1 for one in names):
        raise ValueError(f"cells are named in tokens {names}: expected one each")
    ids, ends = [one[0] for one in names], team.eos_ids(policy)
    chat = player.chats[policy]
    by_length: dict[int, list[tuple[Course, list[int]]]] = {}
    for course in some:
        env.reset(seed=0, options={"task": task})
        for cell in course:
            env.step(labels[cell])
        prompt = chat.opening(env.chat(agent))
        by_length.setdefault(len(prompt), []).append((course, prompt))
    found, draw = {}, random.Random(task.id)
    with team.evaluating():
        team.activate(policy)
        for rows in by_length.values():
            for at in range(0, len(rows), ROWS):
                part = rows[at : at + ROWS]
                prompts = torch.tensor([prompt for _, prompt in part])
                said = model(input_ids=prompts).logits[:, -1].softmax(-1)[:, ids].tolist()
                spoken = [[draw.choices(ids, one)[0]] for one in said]
                whole = torch.cat([prompts, torch.tensor(spoken)], 1)
                stops = model(input_ids=whole).logits[:, -1].softmax(-1)[:, ends].sum(-1).tolist()
                for (course, _), cells, stop in zip(part, said, stops, strict=True):
                    found[course] = (dict(enumerate(cells)), stop)
    return found


# -- what it expects -------------------------------------------------------------------------------
def games(table: Table, start: Board) -> dict[str, float]:
    """What a player expects against three others from one board, as first, as second, and both."""

    def player(board: Board, course: Course) -> Chances:
        free = tictactoe.free_cells(board)
        if course not in table:  # one cell is left
            return dict.fromkeys(free, 1.0)
        return {cell: table[course].get(cell, 0.0) for cell in free}

    found = {}
    for name, other in (("perfect", perfect), ("random", at_random)):
        first = tictactoe.outcomes(player, other, start, recall=True)
        second = tictactoe.outcomes(other, player, start, recall=True)[::-1]
        for result, *both in zip(("won", "drawn", "lost"), first, second, strict=True):
            found[f"{name} {result}"] = mean(both)
        found[f"{name} as first"] = first[0] - first[2]
        found[f"{name} as second"] = second[0] - second[2]
        found[name] = (found[f"{name} as first"] + found[f"{name} as second"]) / 2
    return {**found, "exploitability": tictactoe.exploitability(player, start, recall=True)}


def legal_only(cells: Chances, free: Sequence[int]) -> dict[int, float]:
    """The same choice among free cells."""
    total = sum(cells[cell] for cell in free)
    return {cell: cells[cell] / total if total else 1 / len(free) for cell in free}


def perfect(board: Board, _: Course) -> Chances:
    """The best cell."""
    return {tictactoe.best_move(board): 1.0}


def at_random(board: Board, _: Course) -> Chances:
    """Each free cell as likely."""
    free = tictactoe.free_cells(board)
    return dict.fromkeys(free, 1 / len(free))


STUDY = Study(
    preset="tic_tac_toe_tiny",
    first_seed=100,
    measure=measure,
    columns={
        "against perfect": "model/perfect",
        "lost": "model/perfect lost",
        "against random": "model/random",
        "exploitability": "model/exploitability",
        "legal": "legal",
        "ends": "ends",
        "play: perfect": "play/perfect",
        "play: random": "play/random",
        "play: exploitability": "play/exploitability",
    },
    rises=(
        "against perfect",
        "against random",
        "exploitability",
        "play: perfect",
        "play: random",
        "play: exploitability",
    ),
)
