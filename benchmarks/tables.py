"""Teams that are softmax tables, in the library's test beds, taught by the library's algorithms.

A table has a row of logits for every seat and everything it may have heard. Nothing is left of
language, so a run takes a second, and what remains is the algorithm: it gets the same records as in
training (`Episode`, `Branch`, `AdvantageInputs`), and costs are counted by the same code. Owns the
tables, one update of them, and the rules of a bed as pure functions of words; a test plays each bed
beside its environment.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from llm_marl_envs.core.records import (
    Branch,
    Episode,
    EpisodeGroup,
    Request,
    Response,
    StopReason,
    Turn,
)
from llm_marl_envs.core.seeds import derive_seed, group_starts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.games.instances import WORDS, instances
from llm_marl_envs.envs.games.landscape import NOISE, softmax
from llm_marl_envs.envs.games.matrix_rules import GAMES, MatrixGame, paid
from llm_marl_envs.envs.games.right_words import right_tasks, score
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from trainers.algorithms import Algorithm, make_algorithm
from trainers.running.costs import Costs, update_costs
from trainers.studies.credit_audit import group_of, judged

Key = tuple[str, str]
"""A seat, and the message it heard last."""
Said = tuple[int | None, ...]
"""The number of each seat's word in one turn; None for a text that is no word."""
MOST_KEPT = 50_000
"""Records that are kept for another time."""
BETAS, EPSILON = (0.9, 0.99), 1e-8
"""Of Adam. The second is shorter than usual, for runs of some hundred updates."""


class Tables:
    """A row of logits for every seat and everything it may have heard; rows are made when needed.

    Args:
        words: what may be said.
        seed: of the first logits, normal with deviation 0.1; None: all are 0.
    """

    def __init__(self, words: Sequence[str], seed: int | None = None) -> None:
        self.words, self.seed = tuple(words), seed
        self.numbers = {word: number for number, word in enumerate(self.words)}
        self.logits: dict[Key, np.ndarray] = {}
        self.updates = 0
        self._moments: dict[Key, list[np.ndarray]] = {}

    def row(self, agent: str, heard: str) -> np.ndarray:
        """The logits of a seat that heard this."""
        key = agent, heard
        if key not in self.logits:
            drawn = np.random.default_rng(derive_seed("table", self.seed, *key))
            size = len(self.words)
            self.logits[key] = np.zeros(size) if self.seed is None else drawn.normal(0, NOISE, size)
        return self.logits[key]

    def chances(self, agent: str, heard: str) -> np.ndarray:
        """The probability of each word."""
        return softmax(self.row(agent, heard))

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """A word drawn with each request's seed."""
        found = []
        for one in requests:
            drawn = random.Random(one.seed).random()
            sums = self.chances(one.agent, one.messages[-1].content).cumsum()
            place = min(int(np.searchsorted(sums, drawn)), len(self.words) - 1)
            found.append(Response(text=self.words[place]))
        return found

    def slopes(
        self, groups: Sequence[EpisodeGroup], weighed: np.ndarray, agents: Sequence[str]
    ) -> dict[Key, np.ndarray]:
        """The ascent direction of every row that weighs: weight times gradient of log-prob, summed.

        `weighed` is advantage times weight, (P, G, A, K).
        """
        sums: dict[Key, list[float]] = {}
        for (p, g, a, k), turn in turns_of(groups, agents):
            weight = float(weighed[p, g, a, k])
            if weight:
                key = turn.agent, turn.messages[-1].content
                row = sums.setdefault(key, [0.0] * len(self.words))
                row[self.numbers[turn.action]] += weight
        return {key: np.array(row) - sum(row) * self.chances(*key) for key, row in sums.items()}

    def climb(self, slopes: Mapping[Key, np.ndarray], rate: float) -> None:
        """One step of Adam; rows without a slope go on by their momentum."""
        self.updates += 1
        for key in {**slopes, **self._moments}:
            slope = slopes.get(key, 0.0)
            first, second = self._moments.setdefault(key, [np.zeros_like(self.row(*key))] * 2)
            first = BETAS[0] * first + (1 - BETAS[0]) * slope
            second = BETAS[1] * second + (1 - BETAS[1]) * slope**2
            self._moments[key] = [first, second]
            size = np.sqrt(second / (1 - BETAS[1] ** self.updates)) + EPSILON
            self.logits[key] = self.row(*key) + rate / (1 - BETAS[0] ** self.updates) * first / size


class Meanings(Tables):
    """Tables of seats that mean something and say it in an environment's own texts.

    A subclass acts, makes rows, and says in `along` what a turn moves.
    """

    def along(self, turn: Turn) -> tuple[Key, Any, np.ndarray] | None:
        """A row, places in it, and the slope of the turn's log-prob there; None: no table spoke."""
        raise NotImplementedError

    def slopes(
        self, groups: Sequence[EpisodeGroup], weighed: np.ndarray, agents: Sequence[str]
    ) -> dict[Key, np.ndarray]:
        """As in `Tables`."""
        sums: dict[Key, np.ndarray] = {}
        for at, turn in turns_of(groups, agents):
            moved = self.along(turn)
            if moved is not None:
                key, places, slope = moved
                row = sums.setdefault(key, np.zeros_like(self.row(*key)))
                np.add.at(row, places, weighed[at] * slope)
        return sums


def turns_of(
    groups: Sequence[EpisodeGroup], agents: Sequence[str]
) -> Iterator[tuple[tuple[int, int, int, int], Turn]]:
    """Every turn for which one of these seats was asked, and its place in (P, G, A, K)."""
    places = {agent: place for place, agent in enumerate(agents)}
    for p, group in enumerate(groups):
        for g, episode in enumerate(group.episodes):
            for turn in episode.turns:
                if not turn.given and turn.agent in places:
                    yield (p, g, places[turn.agent], turn.index), turn


# -- beds ------------------------------------------------------------------------------------------
Chances = Callable[[str, str], np.ndarray]
"""(seat, heard) -> probability of each word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """One task of an environment whose seats speak at once, as functions of the words' numbers.

    Chance is a coin for each episode, 0 or 1, which falls after the first turn.

    Attributes:
        seats: all of them.
        trained: those with tables; the others say words at random.
        words: what may be said.
        turns: of each seat.
        pay: (turn, said, coin) -> what the turn pays each seat.
        heard: (turn, coin) -> the last message before that turn; turn 0 is the opening.
        score: what the team is worth, 1 for the best there is, exact.
    """

    seats: tuple[str, ...]
    trained: tuple[str, ...]
    words: tuple[str, ...]
    turns: int
    pay: Callable[[int, Said, int], Sequence[float]]
    heard: Callable[[int, int], str]
    score: Callable[[Chances], float]


def matrix_bed(task: Task) -> Bed:
    """A task of `matrix_game-v1`, played once. Its score is the share of the best expected pay."""
    game: MatrixGame = task.data["game"]
    orders = task.data["orders"]
    seats = "player_0", "player_1"
    team = game.expected.mean(0)[np.ix_(*orders)]

    def pay(turn: int, said: Said, coin: int) -> Sequence[float]:
        chosen = [None if one is None else orders[seat][one] for seat, one in enumerate(said)]
        return paid(game, chosen, lambda outcomes: coin % outcomes)

    def value(chances: Chances) -> float:
        """The expected pay, as a share of the best."""
        rows, columns = (chances(seat, "") for seat in seats)
        return float(rows @ team @ columns / team.max())

    return Bed(
        seats=seats,
        trained=seats,
        words=WORDS[: game.shape[0]],
        turns=1,
        pay=pay,
        heard=lambda turn, coin: "",
        score=value,
    )


LEARNERS, CROWD = 2, (1.0, 1.0, *(3.0,) * 10)
"""Seats of the crowd that learn, and the weights of all."""
CROWD_CHOICES, REGIME_CHOICES, REGIME_TURNS, BONUS = 8, 3, 3, 10.0


def crowd_bed(task: Task) -> Bed:
    """A task of `crowd-v0` with 12 seats: two learn, ten others weigh three times as much each.

    Its score is the share of right words of the two, for nobody learns in the other seats.
    """
    (rights,), (scale, *_) = task.data["rights"], task.data["scale"]
    seats = tuple(f"member_{i}" for i in range(len(CROWD)))

    def pay(turn: int, said: Said, coin: int) -> Sequence[float]:
        right = np.array([one == own for one, own in zip(said, rights, strict=True)])
        return [scale * float(score("sum", right, CROWD))] * len(seats)

    def value(chances: Chances) -> float:
        """How often the learners are right, on average."""
        return sum(float(chances(seats[i], "")[rights[i]]) for i in range(LEARNERS)) / LEARNERS

    return Bed(
        seats=seats,
        trained=seats[:LEARNERS],
        words=WORDS[:CROWD_CHOICES],
        turns=1,
        pay=pay,
        heard=lambda turn, coin: "",
        score=value,
    )


def regime_bed(task: Task) -> Bed:
    """A task of `regime-v0`: three turns, two seats, a coin after the first worth 10 at the end.

    Its score is the share of right words, mean over both falls: the coin is nobody's doing.
    """
    rights, (scale, *_) = task.data["rights"], task.data["scale"]
    seats = "member_0", "member_1"

    def pay(turn: int, said: Said, coin: int) -> Sequence[float]:
        right = [one == own for one, own in zip(said, rights[turn], strict=True)]
        bonus = BONUS * coin if turn == REGIME_TURNS - 1 else 0.0
        return [scale * (sum(right) / len(right) + bonus)] * len(seats)

    def heard(turn: int, coin: int) -> str:
        fell = "high" if coin else "low"
        return ("", f"{fell} turn 2", "turn 3")[turn]

    def value(chances: Chances) -> float:
        """How often seats are right, on average over turns and both falls of the coin."""
        found = [
            float(chances(agent, heard(turn, coin))[rights[turn][seat]])
            for seat, agent in enumerate(seats)
            for turn in range(REGIME_TURNS)
            for coin in (0, 1)
        ]
        return sum(found) / len(found)

    return Bed(
        seats=seats,
        trained=seats,
        words=WORDS[:REGIME_CHOICES],
        turns=REGIME_TURNS,
        pay=pay,
        heard=heard,
        score=value,
    )


def bed_tasks(name: str, split: str) -> Sequence[Task]:
    """The tasks of a bed: a game of `games/matrix_rules.py`, "crowd" or "regime".

    Raises:
        KeyError: no such bed.
    """
    if name == "crowd":
        shape = (1, len(CROWD), CROWD_CHOICES)
        return right_tasks(name, split, ((1.0,) * len(CROWD),), shape)
    if name == "regime":
        shape = (REGIME_TURNS, 2, REGIME_CHOICES)
        return right_tasks(name, split, ((1.0, 1.0),), shape)
    return instances(GAMES[name], split, ((1.0, 1.0),))


def bed_of(name: str, split: str, number: int) -> Bed:
    """A bed on one task of a split; numbers beyond the last begin anew."""
    tasks = bed_tasks(name, split)
    make = {"crowd": crowd_bed, "regime": regime_bed}.get(name, matrix_bed)
    return make(tasks[number % len(tasks)])


# -- play ------------------------------------------------------------------------------------------
Answers = list[tuple[Response, bool]]
"""What each seat says in a turn, and whether nobody was asked."""


class Play:
    """Plays episodes of a bed: what `rollout` is for environments.

    Records are frozen, so one that was made before is not made again.
    """

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.words = [Response(text=word, completion_ids=(i,)) for i, word in enumerate(bed.words)]
        self.numbers: dict[str, int | None] = {word: i for i, word in enumerate(bed.words)}
        self._made: dict[Any, Episode] = {}

    def group(self, algorithm: Algorithm, team: Tables, rng: random.Random) -> EpisodeGroup:
        """The G episodes of an update, and the branches that the algorithm asks for."""
        talk = _Talk(self, team, rng)
        episodes = [self._episode(talk) for _ in range(algorithm.args.num_generations)]
        group = group_of(episodes, "episode")
        while algorithm.branching:
            asked = algorithm.branches(group, self.bed.trained)
            if not asked:
                break
            more = [self._episode(talk, group.episodes[one.parent], one) for one in asked]
            group = group_of([*group.episodes, *more], "episode")
        return group

    def _episode(
        self, talk: _Talk, parent: Episode | None = None, branch: Branch | None = None
    ) -> Episode:
        """One from the reset, or one that leaves a record; chance after it is dealt anew."""
        bed = self.bed
        coin = int(talk.rng.random() < 0.5)
        if parent is not None and branch is not None and branch.turn > 0:
            coin = parent.env_kwargs["coin"]
        answers: list[Answers] = []
        for step in range(bed.turns):
            known = self._known(parent, step, branch)
            heard = bed.heard(step, coin)
            answers.append(
                [
                    (talk.say(agent, heard), False) if told is None else (told, True)
                    for agent, told in zip(bed.seats, known, strict=True)
                ]
            )
        key = coin, branch, *((one.text, given) for step in answers for one, given in step)
        if key not in self._made:
            if len(self._made) >= MOST_KEPT:
                self._made.clear()
            self._made[key] = self._record(coin, branch, answers)
        return self._made[key]

    def _known(
        self, parent: Episode | None, step: int, branch: Branch | None
    ) -> Sequence[Response | None]:
        """What each seat says at a step without being asked, None where it is."""
        seats = self.bed.seats
        if parent is None or branch is None or step > branch.turn:
            return [None] * len(seats)
        recorded = parent.turns[step * len(seats) : (step + 1) * len(seats)]
        if step < branch.turn:
            return [turn.response for turn in recorded]
        own = None if branch.instead is None else Response(text=branch.instead)
        others = [turn.response if branch.held else None for turn in recorded]
        return [
            own if agent == branch.agent else other
            for agent, other in zip(seats, others, strict=True)
        ]

    def _record(self, coin: int, branch: Branch | None, answers: Sequence[Answers]) -> Episode:
        bed, turns = self.bed, []
        chats: list[tuple[Message, ...]] = [()] * len(bed.seats)
        for step, said in enumerate(answers):
            paid = bed.pay(step, tuple(self.numbers.get(one.text) for one, _ in said), coin)
            heard = Message("user", bed.heard(step, coin))
            for seat, (answer, given) in enumerate(said):
                chats[seat] += (heard,)
                turns.append(
                    Turn(
                        agent=bed.seats[seat],
                        index=step,
                        messages=chats[seat],
                        response=answer,
                        reward=paid[seat],
                        team_reward=sum(paid) / len(paid),
                        given=given,
                        step=step,
                    )
                )
                chats[seat] += (Message("assistant", answer.text),)
        return Episode(
            env_id="bed",
            env_kwargs={"coin": coin},
            task_id="bed",
            seed=0,
            agents=bed.seats,
            turns=tuple(turns),
            stop_reason=StopReason.TERMINATED,
            success=None,
            branch=branch,
        )


class _Talk:
    """What a team says while its tables are as they are."""

    def __init__(self, play: Play, team: Tables, rng: random.Random) -> None:
        self.play, self.team, self.rng = play, team, rng
        self._sums: dict[Key, list[float]] = {}

    def say(self, agent: str, heard: str) -> Response:
        """A word that is drawn; seats that are not trained say all equally often."""
        words = self.play.words
        if agent not in self.play.bed.trained:
            return words[int(self.rng.random() * len(words))]
        key = agent, heard
        if key not in self._sums:
            self._sums[key] = self.team.chances(agent, heard).cumsum().tolist()[:-1]
        return words[bisect.bisect(self._sums[key], self.rng.random())]


def judgement(
    algorithm: Algorithm, groups: Sequence[EpisodeGroup], agents: Sequence[str]
) -> np.ndarray:
    """Advantage times weight, (P, G, A, K); whose rewards count is `algorithm.args.credit`."""
    inputs = judged(groups, agents, algorithm.args.credit)
    return algorithm.advantages(inputs) * algorithm.weights(inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How tables learn.

    Attributes:
        rate: of Adam.
        budget: tokens, of which a word is one; a run ends after the update that reaches it.
        points: how often it is scored, at least 1; the last time at its end.
        apart: whether each seed has an algorithm of its own. One that keeps nothing between updates
            and looks at one group at a time may judge the groups of all seeds at once.
    """

    rate: float
    budget: int
    points: int
    apart: bool


Curve = list[tuple[Costs, float]]
"""Costs so far and exact score: at the start, then at each point."""


def learn(
    bed: Bed, make: Callable[[int], Algorithm], seeds: Sequence[int], plan: Plan
) -> list[Curve]:
    """Runs side by side, one for each seed: its first tables and all of its draws follow from it.

    `make` gives a fresh algorithm for a seed; its `args.credit` says whose rewards count.
    """
    play, teams = Play(bed), [Tables(bed.words, seed) for seed in seeds]
    draws = [random.Random(derive_seed("run", seed)) for seed in seeds]
    algorithms = [make(seed) for seed in (seeds if plan.apart else seeds[:1])]
    spent = [Costs()] * len(seeds)
    curves: list[Curve] = [[(Costs(), bed.score(team.chances))] for team in teams]
    marks = [plan.budget * (i + 1) / plan.points for i in range(plan.points)]
    while spent[0].tokens < plan.budget:
        groups = [
            play.group(algorithms[i % len(algorithms)], team, draws[i])
            for i, team in enumerate(teams)
        ]
        parts = [[i] for i in range(len(seeds))] if plan.apart else [[*range(len(seeds))]]
        for part, algorithm in zip(parts, algorithms, strict=True):
            weighed = judgement(algorithm, [groups[i] for i in part], bed.trained)
            for i, of_group in zip(part, weighed, strict=True):
                slopes = teams[i].slopes([groups[i]], of_group[None], bed.trained)
                teams[i].climb(slopes, plan.rate)
                spent[i] = spent[i].plus(update_costs([groups[i]], algorithm.counters))
        due = [mark for mark in marks if mark <= spent[0].tokens]
        if due:
            marks = marks[len(due) :]
            for i, team in enumerate(teams):
                curves[i].append((spent[i], bed.score(team.chances)))
    return curves


def args_for(options: Mapping[str, Any], size: int, seed: int) -> Any:
    """What algorithms read of a run's settings; `options` are those that differ from these."""
    usual = {"baseline": "leave_one_out", "scale_rewards": "none", "credit": "team"}
    usual |= {"chance": "episode", "returns": "discounted", "discount": 1.0}
    return SimpleNamespace(**{**usual, **options, "num_generations": size, "seed": seed})


# -- in environments -------------------------------------------------------------------------------
UPDATES, TASKS, SIZE = 200, 8, 8
"""Of `lessons`: updates, groups of each, episodes of a group."""


def lessons(
    team: Tables, make_env: Callable[[], Any], agents: Sequence[str], rate: float, seed: int
) -> Iterator[int]:
    """Teach some seats of a team that plays all, by `magrpo`; the number of each update made."""
    copies = VectorTextEnv([make_env() for _ in range(SIZE)])
    seats, tasks = copies.envs[0].possible_agents, len(copies.envs[0].unwrapped.source)
    algorithm, rng = make_algorithm("magrpo", args_for({}, SIZE, 0)), np.random.default_rng(seed)
    for update in range(UPDATES):
        groups = []
        for task in rng.integers(tasks, size=TASKS):
            starts = group_starts(int(task), int(rng.integers(2**31)), SIZE)
            groups.append(group_of(rollout(copies, dict.fromkeys(seats, team), starts)))
        team.climb(team.slopes(groups, judgement(algorithm, groups, agents), agents), rate)
        yield update + 1
