"""What the claims share: tabular teams, learning by this library's algorithms, seeds, statistics.

A run learns with one seed. Settings (learning rates, weights) are chosen on the seeds `PILOTS`, for
each method alone, and reported on seeds from `FIRST` on, on which nothing was chosen. Each run is
kept in the JSON file of its claim as it ends, so a broken command goes on where it was.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rates import clopper_pearson, fisher_p
from benchmarks.tables import Key, Tables, args_for, turns_of
from llm_marl_envs import make
from llm_marl_envs.core.records import Request, Response, plain
from llm_marl_envs.core.seeds import derive_seed, group_starts
from llm_marl_envs.envs.games.landscape import BETAS, EPSILON
from llm_marl_envs.files.json_files import differing, read_json, write_json
from llm_marl_envs.measure.numbers.compare import compare
from llm_marl_envs.play.rollout import rollout
from trainers.algorithms import AdvantageInputs, Algorithm, make_algorithm
from trainers.experience.branching import grown
from trainers.studies.credit_audit import AuditPlan, Stage

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "claims"
PILOTS = (0, 1, 2, 3, 4)
FIRST = 100
SAVE_SECONDS = 5.0
"""Between two writes of the file: a broken command loses no more."""
ALIKE = 0.01
"""Means over pilot seeds that are no further apart count as alike."""
EDGE = 6
"""Most often that a grid of settings is extended where its best one lies at an edge."""

Setting = dict[str, float]
Run = dict[str, Any]


# -- one claim's file ------------------------------------------------------------------------------
class Record:
    """The runs of one claim, kept in a file as they end.

    Args:
        path: of the JSON file.
        pinned: what all runs depend on; the criterion is among it.

    Raises:
        ValueError: the file holds runs of other settings.
    """

    def __init__(self, path: Path, pinned: Mapping[str, Any]) -> None:
        self.path, self.runs, self.chosen = path, dict[str, Run](), dict[str, Setting]()
        self.pinned, self.saved = plain(pinned), time.monotonic()
        if path.exists():
            there = read_json(path)
            other = differing(there["pinned"], self.pinned)
            if other:
                raise ValueError(f"{path} holds runs of other settings ({other}); name another")
            self.runs, self.chosen = there["runs"], there["chosen"]

    def get(self, key: str, make: Callable[[], Run]) -> Run:
        """The run of that name, made unless it is there."""
        if key not in self.runs:
            self.runs[key] = make()
            if time.monotonic() > self.saved + SAVE_SECONDS:
                self.save()
            print(key, {k: v for k, v in self.runs[key].items() if np.isscalar(v)}, flush=True)
        return self.runs[key]

    def save(self, **more: Any) -> None:
        """Write everything."""
        self.saved = time.monotonic()
        write_json(self.path, {"pinned": self.pinned, "chosen": self.chosen, **more} | self._runs())

    def _runs(self) -> dict[str, Any]:
        return {"runs": self.runs}


def tuned(
    record: Record,
    name: str,
    grid: Mapping[str, Sequence[float]],
    run: Callable[[Setting, int], Run],
    pilots: Sequence[int] = PILOTS,
    downwards: bool = True,
) -> Setting:
    """The setting with the best mean `tuned_on` over the pilot seeds; kept in the record.

    Of settings within `ALIKE` of the best the first counts, which has the smallest rate: the
    largest of several that are as good is the nearest to breaking. Where the chosen value of an
    axis is its smallest or largest one, the axis grows there by its own ratio until it is not, or
    `EDGE` times.

    Args:
        record: of the claim.
        name: of the method and the game.
        grid: setting -> its values, in rising order.
        run: a run with a setting and a seed; its `tuned_on` is what counts.
        pilots: the seeds.
        downwards: whether an axis grows below, too.
    """
    if name in record.chosen:
        return record.chosen[name]
    axes = {key: list(values) for key, values in grid.items()}
    best: tuple[float, ...] = ()
    for _ in range(EDGE + 1):
        worth = {}
        for values in product(*axes.values()):
            setting = dict(zip(axes, values, strict=True))
            found = [
                record.get(f"pilot/{name}/{shown(setting)}/{s}", partial(run, setting, s))
                for s in pilots
            ]
            worth[values] = float(np.mean([one["tuned_on"] for one in found]))
        best = next(values for values in worth if worth[values] >= max(worth.values()) - ALIKE)
        if not extended(axes, best, downwards):
            break
    record.chosen[name] = dict(zip(axes, best, strict=True))
    return record.chosen[name]


def extended(axes: dict[str, list[float]], best: Sequence[float], downwards: bool = True) -> bool:
    """Let the axes grow at whose edge the best value lies; whether any did."""
    grew = False
    for values, one in zip(axes.values(), best, strict=True):
        ratio, low = values[1] / values[0], one == values[0]
        if one == values[-1] or (low and downwards):
            values.insert(0 if low else len(values), round_off(one / ratio if low else one * ratio))
            grew = True
    return grew


def criterion_of(about: str | None) -> str:
    """What a claim's docstring says of its criterion: the runs in its file depend on it."""
    text = about or ""
    return text[text.index("The criterion") :].strip()


def round_off(value: float) -> float:
    return float(f"{value:.6g}")


def shown(setting: Setting) -> str:
    """A setting as part of a run's name."""
    return ",".join(f"{key}={value:g}" for key, value in setting.items())


def fresh(record: Record, name: str, seeds: int, run: Callable[[Setting, int], Run]) -> list[Run]:
    """The runs on fresh seeds, with the setting that was chosen."""
    setting = record.chosen[name]
    return [
        record.get(f"fresh/{name}/{shown(setting)}/{s}", partial(run, setting, s))
        for s in range(FIRST, FIRST + seeds)
    ]


def begun(options: argparse.Namespace, about: str | None, **pinned: Any) -> Record:
    """The record of a claim; its runs depend on the criterion and what else is pinned."""
    return Record(options.output, {"criterion": criterion_of(about), **pinned})


def taught(
    record: Record,
    options: argparse.Namespace,
    name: str,
    run: Callable[[Setting, int], Run],
    rates: Sequence[float],
    pilots: Sequence[int] = PILOTS,
    downwards: bool = True,
) -> list[Run]:
    """The runs of a method on fresh seeds, its rate tuned on the pilot seeds as in `tuned`."""
    tuned(record, name, {"rate": rates}, run, pilots[: 1 if options.quick else None], downwards)
    return fresh(record, name, options.seeds, run)


def options_of(about: str | None, name: str, folder: Path = FOLDER) -> argparse.Namespace:
    """The command line of a claim: `seeds`, `quick`, `output`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seeds", type=int, default=20, help="fresh ones, from 100 on")
    parser.add_argument("--quick", action="store_true", help="tiny runs, to see that it works")
    usual = (folder / f"{name}.json").relative_to(ROOT)
    parser.add_argument("--output", type=Path, help=f"JSON file; default {usual}")
    found = parser.parse_args()
    if found.output is None:
        found.output = ROOT / "runs" / folder.name if found.quick else folder
        found.output = found.output / f"{name}.json"
    found.output.parent.mkdir(parents=True, exist_ok=True)
    return found


# -- statistics ------------------------------------------------------------------------------------
def share_of(passed: Sequence[bool]) -> dict[str, Any]:
    """How many, of how many, and the exact interval of the share."""
    count = int(sum(passed))
    return {"count": count, "n": len(passed), "ci95": clopper_pearson(count, len(passed))}


def shares_differ(a: Sequence[bool], b: Sequence[bool]) -> float:
    """Two-sided p of Fisher's exact test."""
    return fisher_p((sum(a), len(a)), (sum(b), len(b)))


def paired(a: Sequence[float], b: Sequence[float]) -> dict[str, Any]:
    """Mean of b - a over seeds, with interval and two-sided p of the sign-flip test.

    Fewer than six seeds have no interval, and prove nothing: p is 1.
    """
    sides = [{f"{seed}": value for seed, value in enumerate(side)} for side in (a, b)]
    found = compare([sides[0]], [sides[1]])
    return {
        "difference": found.difference,
        "ci95": found.ci95,
        "p": 1.0 if found.p is None else found.p,
    }


# -- teams of tables -------------------------------------------------------------------------------
def generator(*which: object) -> np.random.Generator:
    """Random numbers of one use."""
    return np.random.default_rng(derive_seed("claim", *which))


def drawn(chances: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Actions (...): where uniform numbers (...) fall in probabilities (..., W)."""
    places = (chances.cumsum(-1) <= uniform[..., None]).sum(-1)
    return np.minimum(places, chances.shape[-1] - 1)


def slopes(chances: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Gradient of log-probs of actions (...) in their logits, (..., W)."""
    return np.eye(chances.shape[-1])[actions] - chances


class Optimizer:
    """Ascent of an array of logits: "adam", or "sgd" without momentum."""

    def __init__(self, kind: str, rate: float) -> None:
        self.kind, self.rate, self.updates = kind, rate, 0
        self.first: Any = 0.0
        self.second: Any = 0.0

    def step(self, slope: np.ndarray) -> np.ndarray:
        """What is added to the logits."""
        if self.kind == "sgd":
            return self.rate * slope
        self.updates += 1
        self.first = BETAS[0] * self.first + (1 - BETAS[0]) * slope
        self.second = BETAS[1] * self.second + (1 - BETAS[1]) * slope**2
        mean = self.first / (1 - BETAS[0] ** self.updates)
        size = np.sqrt(self.second / (1 - BETAS[1] ** self.updates)) + EPSILON
        return self.rate * mean / size


def algorithm_of(
    chosen: str | dict[str, Any], num_generations: int = 8, seed: int = 0, **args: Any
) -> Algorithm:
    """One of this library's, with the settings of a run that it reads."""
    return make_algorithm(chosen, args_for(args, num_generations, seed))


def inputs_of(returns: np.ndarray, rewards: np.ndarray) -> AdvantageInputs:
    """What an algorithm without branches judges: returns and rewards, (P, G, A, K), all alive."""
    agents = tuple(f"member_{i}" for i in range(returns.shape[2]))
    return AdvantageInputs(
        returns=returns,
        rewards=rewards,
        alive=np.ones(returns.shape, dtype=bool),
        agents=agents,
        policies={agent: agent for agent in agents},
        groups=(),
    )


# -- teams of tables in the environments themselves ------------------------------------------------
class WordTables(Tables):
    """Tables whose first rows are given, and whose words are drawn by the lots of the claims.

    Args:
        words: that can be said.
        start: seat -> logits of a row that nobody has changed; zeros where it is missing.
    """

    def __init__(self, words: Sequence[str], start: Mapping[str, np.ndarray] | None = None) -> None:
        super().__init__(words)
        self.start = dict(start or {})

    def row(self, agent: str, heard: str) -> np.ndarray:
        """The logits of a seat that heard this."""
        begun = self.start.get(agent, np.zeros(len(self.words)))
        return self.logits.setdefault((agent, heard), begun)

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """A word for each, drawn with its seed."""
        if not requests:
            return []
        chances = np.stack([self.chances(one.agent, one.messages[-1].content) for one in requests])
        lots = np.array([derive_seed("word", one.seed) / 2**63 for one in requests])
        return [Response(text=self.words[place]) for place in drawn(chances, lots)]


@dataclass(frozen=True)
class Update:
    """What one update sampled and found.

    Attributes:
        actions: sampled, of all seats, branches included.
        episodes: played, branches included.
        judged: (agent, word, advantage) of every message that weighs.
        slope: the ascent direction of every row that weighs.
    """

    actions: int
    episodes: int
    judged: list[tuple[str, str, float]]
    slope: dict[Key, np.ndarray]


@lru_cache
def _stage(env: str, kwargs: str) -> Stage:
    """Copies of an environment; to make them costs as much as a short run."""
    make_env = partial(make, env, **json.loads(kwargs))
    seats = make_env().possible_agents
    return Stage(make_env, dict.fromkeys(seats, WordTables(())), seats, AuditPlan())


def stage_of(
    env: str, kwargs: Mapping[str, Any], team: Mapping[str, Any], trained: Sequence[str]
) -> Stage:
    """Where a team of tables plays; the sizes of an audit are not used."""
    stage = copy.copy(_stage(env, json.dumps(kwargs)))
    stage.trained, stage.play = tuple(trained), partial(rollout, stage.copies, dict(team))
    return stage


def update_of(
    stage: Stage, algorithm: Algorithm, team: Tables, size: int, seeds: Sequence[int]
) -> Update:
    """One group of `size` episodes from each seed, and its branches, judged by the algorithm."""
    starts = [group_starts(0, s % 2**32, size, stage.chance) for s in seeds]
    played = iter(stage.play([one for some in starts for one in some]))
    groups = [stage.group([next(played) for _ in some]) for some in starts]
    if algorithm.branching:
        ask = partial(algorithm.branches, agents=stage.trained)
        groups = grown(groups, starts, ask, stage.play, 10**6)
    inputs = stage.returns(groups)
    advantages, weights = algorithm.advantages(inputs), algorithm.weights(inputs)
    own = turns_of(groups, stage.trained)
    episodes = [episode for group in groups for episode in group.episodes]
    return Update(
        actions=sum(not turn.given for episode in episodes for turn in episode.turns),
        episodes=len(episodes),
        judged=[(t.agent, t.action, float(advantages[at])) for at, t in own if weights[at]],
        slope=team.slopes(groups, advantages * weights / (size * len(seeds)), stage.trained),
    )


class Budgets:
    """What a run may cost, in several currencies; it ends when all are spent.

    One update is played whatever it costs, and no further one that could not be paid.

    Args:
        most: attribute of `Update` ("actions", "episodes"), or that and a mark -> how much.
    """

    def __init__(self, most: Mapping[tuple[str, str], int]) -> None:
        self.left = dict(most)

    def spent(self, last: Update) -> list[tuple[str, str]]:
        """Pay for an update; the budgets that could not pay for another such one, told once."""
        for key in self.left:
            self.left[key] -= getattr(last, key[0])
        over = [key for key, amount in self.left.items() if amount < getattr(last, key[0])]
        for key in over:
            del self.left[key]
        return over


def learn(
    stage: Stage,
    algorithm: Algorithm,
    team: WordTables,
    rate: float,
    play: tuple[int, int, int],
    budgets: Budgets,
) -> Iterator[tuple[str, str]]:
    """Train tables with Adam; tells each budget when it is spent.

    A row's Adam begins with its own first slope, unlike in `Tables.climb`.

    Args:
        stage: where.
        algorithm: whose advantages.
        team: is changed.
        rate: Adam's.
        play: episodes of a group, groups of an update, seed.
        budgets: the run ends with the last of them.
    """
    size, groups, seed = play
    optimizers: dict[Key, Optimizer] = {}
    update = 0
    while budgets.left:
        seeds = [derive_seed("update", seed, update, one) for one in range(groups)]
        found = update_of(stage, algorithm, team, size, seeds)
        update += 1
        for key in {*found.slope, *optimizers}:
            mine = optimizers.setdefault(key, Optimizer("adam", rate))
            slope = found.slope.get(key, np.zeros(len(team.words)))
            team.logits[key] = team.row(*key) + mine.step(slope)
        yield from budgets.spent(found)
