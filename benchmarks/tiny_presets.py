"""The presets of agents_net-v0 and tic_tac_toe-v0: before and after training, beside null controls.

    python benchmarks/tiny_presets.py
    python benchmarks/tiny_presets.py --presets tic_tac_toe_tiny --seeds 1 --output runs/look

Arms: `preset` trains as the preset says. `shuffled` deals the rewards of each group to its episodes
at random: what rises there does not come from the reward. Both begin with one warm start of the
seed.

Measured on split `test` before and after, at temperature 1:

- agents_net-v0: the share solved and the mean return of the first `TASKS` tasks, one episode each;
  `blanked` is the same team on the same tasks where no message arrives.
- tic_tac_toe-v0: no game is sampled. In every course of the game from every board the chance of
  each cell is read from the model, and with it what it expects against the perfect player, against
  one that takes free cells at random, and against a best responder (exploitability). A text that
  begins with a cell's name counts as that cell; `ends` is the chance that it stops there. `play`
  has the same numbers of the model with the cells that are taken left out of its choice: there
  nothing can rise because moves become legal.

One JSON file for each run; those that are there are not made again, so a stopped call goes on, and
several calls with one of the `--presets` or `--arms` each can run side by side. No new run begins
after `--minutes`. Then prints the table. One process, one thread.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers.utils.logging import disable_progress_bar

from llm_marl_envs import make
from llm_marl_envs.evaluation import evaluate_team
from llm_marl_envs.evaluation.numbers.estimators import t_interval
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.games import tictactoe
from trainers.models.token_policy import TokenPolicy
from trainers.train import build_trainer, model_path, read_run
from trainers.trainer import MAGRPOTrainer

UNHEARD = {"hears": "none"}
ARMS: dict[str, list[str]] = {"preset": [], "shuffled": ["shuffle_rewards=true"]}
"""Arm -> overrides of the preset."""
TASKS = 200
MEASURE_SEED = 1234
ROWS = 128
"""Prompts that are scored at once; all have the same length, so nothing is padded."""

History = tuple[int, ...]
"""The cells that were taken since the beginning, in order."""
Chances = Mapping[int, float]


# -- agents_net-v0 ---------------------------------------------------------------------------------
def measure_network(trainer: MAGRPOTrainer, run: Mapping[str, Any]) -> dict[str, Any]:
    """Share solved and mean return, as the run is and where nothing is heard."""
    kwargs = {**(run.get("env_kwargs") or {}), "split": "test"}
    length = run["trainer"]["max_completion_length"]
    found = {}
    for name, more in (("heard", {}), ("blanked", {"channel": UNHEARD})):
        env = make(run["env"], **{**kwargs, **more})
        policy = TokenPolicy(trainer.team, max_completion_length=length)
        team = dict.fromkeys(env.possible_agents, policy)
        result = evaluate_team(env, team, n_tasks=TASKS, seed=MEASURE_SEED)
        found[name] = {"solved": result.success, "return": result.mean_return}
    return found


# -- tic_tac_toe-v0 --------------------------------------------------------------------------------
def measure_game(trainer: MAGRPOTrainer, run: Mapping[str, Any]) -> dict[str, Any]:
    """What the team expects, exactly, over the boards of `test` and both seats."""
    env = make(run["env"], **{**(run.get("env_kwargs") or {}), "split": "test"}).unwrapped
    total: dict[str, list[float]] = {"ends": [], "legal": []}
    for task in env.source:
        start = task.data["board"]
        for first in (True, False):
            table = chances(trainer, env, task, courses(start, first))
            for history, (cells, ends) in table.items():
                free = tictactoe.free_cells(after(start, history))
                total["ends"].append(ends)
                total["legal"].append(sum(cells[cell] for cell in free))
            for kind, player in (("model", {h: c for h, (c, _) in table.items()}), ("play", {})):
                if kind == "play":
                    player = {h: legal_only(c, after(start, h)) for h, (c, _) in table.items()}
                for name, numbers in games(player, start, first).items():
                    for key, value in numbers.items():
                        total.setdefault(f"{kind}/{name}/{key}", []).append(value)
    return {key: mean(values) for key, values in total.items()}


def after(start: tictactoe.Board, history: History) -> tictactoe.Board:
    """The board after a course of the game."""
    for cell in history:
        start = tictactoe.placed(start, cell)
    return start


def courses(start: tictactoe.Board, first: bool) -> list[History]:
    """Every course after which this seat has a choice."""
    found: list[History] = []
    level: list[History] = [()]
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
    trainer: MAGRPOTrainer, env: Any, task: Any, histories: Sequence[History]
) -> dict[History, tuple[dict[int, float], float]]:
    """Course -> the chance of each cell's name, and that a name drawn so is all that is said."""
    team, labels = trainer.team, task.data["labels"]
    agent = env.possible_agents[len(histories[0]) % 2]
    policy = team.policy_of[agent]
    tokenizer, model = team.tokenizers[policy], team.model_of(policy)
    names = [tokenizer.encode(one, add_special_tokens=False) for one in labels]
    if any(len(one) != 1 for one in names):
        raise ValueError(f"cells are named in tokens {names}: expected one each")
    ids, ends = [one[0] for one in names], team.eos_ids(policy)
    chat = TokenPolicy(team).chats[policy]
    by_length: dict[int, list[tuple[History, list[int]]]] = {}
    for history in histories:
        env.reset(seed=0, options={"task": task})
        for cell in history:
            env.step(labels[cell])
        prompt = chat.opening(env.chat(agent))
        by_length.setdefault(len(prompt), []).append((history, prompt))
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
                for (history, _), cells, stop in zip(part, said, stops, strict=True):
                    found[history] = (dict(enumerate(cells)), stop)
    return found


def legal_only(cells: Chances, board: tictactoe.Board) -> dict[int, float]:
    """The same choice among free cells."""
    free = tictactoe.free_cells(board)
    total = sum(cells[cell] for cell in free)
    return {cell: cells[cell] / total if total else 1 / len(free) for cell in free}


def games(
    player: Mapping[History, Chances], start: tictactoe.Board, first: bool
) -> dict[str, dict[str, float]]:
    """What a player in one seat expects against three others, from one board."""
    seat = "first" if first else "second"
    found = {}
    for name, other in (("perfect", perfect), ("random", at_random)):
        won, drawn, lost = outcomes(player, start, first, other)
        found[name] = {"won": won, "drawn": drawn, "lost": lost, "value": won - lost}
        found[name] |= {f"value as {seat}": won - lost}
    known = tictactoe.value(start) * (1 if first else -1)  # of the player's seat
    found["best response"] = {"gain": known + best_response(player, start, first)}
    return found


def perfect(board: tictactoe.Board) -> Chances:
    """The best cell."""
    return {tictactoe.best_move(board): 1.0}


def at_random(board: tictactoe.Board) -> Chances:
    """Each free cell as likely."""
    free = tictactoe.free_cells(board)
    return dict.fromkeys(free, 1 / len(free))


def moves_of(
    player: Mapping[History, Chances], board: tictactoe.Board, history: History
) -> Chances:
    """The player's moves; with one cell left there is no choice."""
    if history not in player:
        return dict.fromkeys(tictactoe.free_cells(board), 1.0)
    free = tictactoe.free_cells(board)
    legal = {cell: player[history].get(cell, 0.0) for cell in free}
    return tictactoe.chances_of(lambda _: legal, board)


def outcomes(
    player: Mapping[History, Chances],
    start: tictactoe.Board,
    first: bool,
    other: Callable[[tictactoe.Board], Chances],
) -> tuple[float, float, float]:
    """The chances that the player wins, draws and loses."""

    def expected(board: tictactoe.Board, history: History) -> tuple[float, float, float]:
        mine = (len(history) % 2 == 0) == first
        if tictactoe.winner(board) is not None:  # of who is not to move
            return (0.0, 0.0, 1.0) if mine else (1.0, 0.0, 0.0)
        if tictactoe.is_over(board):
            return 0.0, 1.0, 0.0
        moves = moves_of(player, board, history) if mine else other(board)
        found = [
            (chance, expected(tictactoe.placed(board, cell), (*history, cell)))
            for cell, chance in moves.items()
            if chance
        ]
        won, drawn, lost = (sum(chance * one[k] for chance, one in found) for k in range(3))
        return won, drawn, lost

    return expected(start, ())


def best_response(player: Mapping[History, Chances], start: tictactoe.Board, first: bool) -> float:
    """What a best responder to the player expects; the player moves first if `first`."""

    def expected(board: tictactoe.Board, history: History) -> float:
        mine = (len(history) % 2 == 0) == first
        if tictactoe.winner(board) is not None:
            return 1.0 if mine else -1.0
        if tictactoe.is_over(board):
            return 0.0
        after_ = {
            cell: expected(tictactoe.placed(board, cell), (*history, cell))
            for cell in tictactoe.free_cells(board)
        }
        if not mine:
            return max(after_.values())
        return sum(
            chance * after_[cell] for cell, chance in moves_of(player, board, history).items()
        )

    return expected(start, ())


MEASURES: dict[str, Callable[[MAGRPOTrainer, Mapping[str, Any]], dict[str, Any]]] = {
    "agents_net_tiny": measure_network,
    "tic_tac_toe_tiny": measure_game,
}


# -- runs ------------------------------------------------------------------------------------------
def run_one(args: argparse.Namespace, preset: str, arm: str, seed: int) -> dict[str, Any]:
    """One training from the seed's warm start, measured before and after."""
    begun = time.process_time()
    with TemporaryDirectory() as folder:
        changes = [*ARMS[arm], *args.override]
        fixed = [f"seed={seed}", f"output_dir={folder}/run", "disable_tqdm=true"]
        run = read_run(preset, [*changes, *fixed, f"tiny.seed={seed}", "transcript_every=0"])
        model_path(run)
        made = time.process_time()
        trainer = build_trainer(run)
        before, measured = timed(lambda: MEASURES[preset](trainer, run))
        print(preset, arm, seed, "before", before, flush=True)
        begun_training = time.process_time()
        trainer.train()
        if trainer.stopped:
            raise SystemExit(
                f"stopped in {preset}, {arm}, seed {seed}: call again to begin it anew"
            )
        trained = time.process_time() - begun_training
        after, more = timed(lambda: MEASURES[preset](trainer, run))
    return {
        "preset": preset,
        "arm": arm,
        "seed": seed,
        "changes": changes,
        "updates": trainer.state.global_step,
        "sampled_tokens": trainer.costs.tokens,
        "rewards": [log["reward"] for log in trainer.state.log_history if "reward" in log],
        "before": before,
        "after": after,
        "cpu_seconds": {
            "model": made - begun,  # next to nothing where another arm has made it
            "training": trained,
            "measuring": measured + more,
        },
    }


def timed(work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], float]:
    """A result and the processor seconds that it took."""
    begun = time.process_time()
    return work(), time.process_time() - begun


COLUMNS: dict[str, dict[str, str]] = {
    "agents_net_tiny": {
        "solved": "heard/solved",
        "return": "heard/return",
        "return, blanked": "blanked/return",
    },
    "tic_tac_toe_tiny": {
        "against perfect": "model/perfect/value",
        "lost": "model/perfect/lost",
        "against random": "model/random/value",
        "exploitability": "model/best response/gain",
        "legal": "legal",
        "play: perfect": "play/perfect/value",
        "play: random": "play/random/value",
        "play: exploitability": "play/best response/gain",
    },
}
"""Preset -> column -> where the number lies, before and after."""


def number(point: Mapping[str, Any], place: str) -> float:
    """A number of a point: of nested maps, or under the whole name."""
    if place in point:
        return point[place]
    outer, _, inner = place.partition("/")
    return point[outer][inner]


def table(preset: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: before -> after of every run, then the mean rise of each arm."""
    columns = COLUMNS[preset]
    lines = [f"| arm | seed | {' | '.join(columns)} | CPU s |", "|" + "---|" * (len(columns) + 3)]
    order = [*ARMS]
    for run in sorted(runs, key=lambda one: (order.index(one["arm"]), one["seed"])):
        cells = [run["arm"], str(run["seed"])]
        for place in columns.values():
            cells.append(f"{number(run['before'], place):.2f} -> {number(run['after'], place):.2f}")
        cells.append(f"{run['cpu_seconds']['training']:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for arm in order:
        for name, place in columns.items():
            rises = [
                number(run["after"], place) - number(run["before"], place)
                for run in runs
                if run["arm"] == arm
            ]
            if len(rises) > 1:
                low, high = t_interval(rises)
                lines.append(
                    f"- {arm}, rise of {name}: {mean(rises):.2f} ({low:.2f} to {high:.2f})"
                )
    return "\n".join(lines)


def main() -> None:
    """Make the runs that are missing, then the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--override", action="append", default=[], help="of the presets, all arms")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/tiny_presets"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    args.output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * args.minutes
    for preset in args.presets:
        runs = []
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            for arm in args.arms:
                path = args.output / f"{preset}-{arm}-{seed}.json"
                if not path.exists():
                    if time.monotonic() > end:
                        continue
                    write_json(path, run_one(args, preset, arm, seed))
                    print(path, flush=True)
                runs.append(read_json(path))
        print(table(preset, runs))


if __name__ == "__main__":
    main()
