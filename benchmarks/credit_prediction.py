"""Does the audited signal of an estimator predict how fast a team learns with it?

    python -m benchmarks.credit_prediction --seeds 10 --output runs/credit_prediction

Three games whose teams are softmax tables. The team of the start, which says each word equally
often, is audited (`llm-marl credit-audit` does the same): that gives each estimator a signal for
1000 sampled actions. The prediction, written before any run: within a game, more signal means
faster learning. Then each algorithm trains that team with an equal number of sampled actions, at
each learning rate; its speed is the mean exact return over the run, at its best rate, as a share of
the best return. All have the same fixed points, so only the estimates differ.

- `bonus`: two seats, two turns. The first joint choice decides a large part of what is paid at the
  end, the second a small one.
- `crowd`: six seats, one turn, each with a part of its own.
- `pair`: two seats, one turn, a table in which no part is a seat's own.

Prints the prediction, then the table and the rank correlations; writes `credit_prediction.json`.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.claims.common import update_of
from llm_marl_envs.core import Outcome, TextParallelEnv
from llm_marl_envs.files.json_files import write_json
from llm_marl_envs.seeds import derive_seed
from llm_marl_envs.spaces import Message
from llm_marl_envs.tasks import ListSource, Task
from trainers.studies.credit_audit import AuditPlan, Judged, Stage, credit_audit
from trainers.studies.tables import Tables

WORDS = ("ape", "bee", "cow")
RATES = (0.3, 1.0)
PLAN = AuditPlan(points=16, messages=3, replays=64, judgements=16, size=3, alternatives=3)
COMPARED = ("magrpo", "magrpo_tree", "c3_sim", "difference")
History = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Game:
    """Seats, turns, and what a finished history pays the team."""

    seats: int
    turns: int
    pay: Callable[[History], float]


def bonus(history: History) -> float:
    first, last = history
    return 3.0 * (first == ("ape", "bee")) + 1.0 * (last[0] == last[1])


def crowd(history: History) -> float:
    return sum(word == WORDS[seat % 3] for seat, word in enumerate(history[0])) / 6


def pair(history: History) -> float:
    table = {("ape", "ape"): 1.0, ("bee", "bee"): 0.6, ("cow", "cow"): 0.4, ("bee", "ape"): 0.3}
    return table.get(history[0], 0.0)


GAMES = {"bonus": Game(2, 2, bonus), "crowd": Game(6, 1, crowd), "pair": Game(2, 1, pair)}


class Play(TextParallelEnv):
    """A game as an environment; every seat is shown what all said."""

    metadata = {"name": "play"}  # noqa: RUF012 - as PettingZoo declares it
    reward_range = (0.0, 4.0)

    def __init__(self, game: Game) -> None:
        self.game = game
        super().__init__(
            agents=[f"seat_{i}" for i in range(game.seats)],
            source=ListSource([Task("only", "train", {})], "train"),
            max_turns=game.turns,
            max_action_chars=9,
            render_mode=None,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """What seats are told first: nothing."""
        self.said: list[tuple[str, ...]] = []
        return {agent: (Message("user", ""),) for agent in self.possible_agents}

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Pay at the end; tell all what all said."""
        self.said.append(tuple(joint_action[agent] for agent in self.possible_agents))
        over = len(self.said) == self.game.turns
        pay = self.game.pay(tuple(self.said)) if over else 0.0
        return Outcome(
            reward_terms={agent: {"pay": pay} for agent in self.agents},
            feedback=dict.fromkeys(self.agents, " ".join(self.said[-1])),
        )


def value(game: Game, team: Tables, history: History = ()) -> float:
    """The exact expected return."""
    if len(history) == game.turns:
        return game.pay(history)
    heard = " ".join(history[-1]) if history else ""
    chances = [team.chances(f"seat_{i}", heard) for i in range(game.seats)]
    total = 0.0
    for places in itertools.product(range(len(WORDS)), repeat=game.seats):
        chance = float(np.prod([own[i] for own, i in zip(chances, places, strict=True)]))
        total += chance * value(game, team, (*history, tuple(WORDS[i] for i in places)))
    return total


def best(game: Game) -> float:
    joint = list(itertools.product(WORDS, repeat=game.seats))
    return max(game.pay(tuple(one)) for one in itertools.product(joint, repeat=game.turns))


def stage_of(game: Game, team: Tables, copies: int) -> Stage:
    plan = AuditPlan(**{**asdict(PLAN), "copies": copies})
    seats = [f"seat_{i}" for i in range(game.seats)]
    return Stage(partial(Play, game), dict.fromkeys(seats, team), seats, plan)


def speed(game: Game, name: str, rate: float, seed: int, actions: int) -> float:
    """Mean exact return over a run of so many sampled actions, as a share of the best."""
    team = Tables(WORDS)
    stage = stage_of(game, team, 16)
    algorithm = stage.estimators()[name]
    values, weights, spent, update = [value(game, team)], [], 0, 0
    while spent < actions:
        found = update_of(stage, algorithm, team, PLAN.size, [derive_seed("run", seed, update)])
        update += 1
        team.climb(found.slope, rate)
        spent += found.actions
        weights.append(found.actions)
        values.append(value(game, team))
    return float(np.average(values[:-1], weights=weights)) / best(game)


def ranked(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0; values that are equal to nine digits share theirs."""
    given = np.array([float(f"{one:.9g}") for one in values])
    return np.array([((given < one).sum() + (given <= one).sum() - 1) / 2 for one in given])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--actions", type=int, default=1200)
    parser.add_argument("--output", default="runs/credit_prediction")
    options = parser.parse_args()
    audited: dict[str, dict[str, Judged]] = {}
    for name, game in GAMES.items():
        audit = credit_audit(stage_of(game, Tables(WORDS), 64))
        audited[name] = {one.name: one for one in audit.estimators}
        signals = {one: audited[name][one].per_thousand_tokens or 0.0 for one in COMPARED}
        order = sorted(signals, key=lambda one: -signals[one])
        print(
            f"prediction, {name}: " + " > ".join(f"{a} ({signals[a]:.3g})" for a in order),
            flush=True,
        )
    print(flush=True)
    found: dict[str, Any] = {}
    for name, game in GAMES.items():
        found[name] = {}
        for one in COMPARED:
            runs = {
                rate: [speed(game, one, rate, s, options.actions) for s in range(options.seeds)]
                for rate in RATES
            }
            rate = max(runs, key=lambda rate: float(np.mean(runs[rate])))
            found[name][one] = {
                "signal": audited[name][one].per_thousand_tokens,
                "rate": rate,
                "speed": runs[rate],
                "all": {str(key): values for key, values in runs.items()},
            }
            mean, deviation = np.mean(runs[rate]), np.std(runs[rate], ddof=1)
            signal = audited[name][one].per_thousand_tokens or 0.0
            print(
                f"{name:6} {one:12} signal {signal:8.3g}  speed {mean:.3f} sd {deviation:.3f}  "
                f"rate {rate}",
                flush=True,
            )
        signals = ranked([found[name][one]["signal"] or 0.0 for one in COMPARED])
        speeds = ranked([float(np.mean(found[name][one]["speed"])) for one in COMPARED])
        print(f"{name}: rank correlation {np.corrcoef(signals, speeds)[0, 1]:.2f}\n", flush=True)
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "credit_prediction.json", {"games": found, "plan": asdict(PLAN)})


if __name__ == "__main__":
    main()
