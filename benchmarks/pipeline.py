"""retrieve_pipeline-v0: what is one more trained seat worth? Seven arms, each against its ceiling.

    python -m benchmarks.pipeline
    python -m benchmarks.pipeline --seeds 1 --first-seed 0 --output runs/pipeline

MMOA-RAG trains all modules of a pipeline and finds that each more is worth it. Here every seat is a
softmax table over what it can mean, which plays the environment itself with texts. It begins as a
mixture of the two orders that experts follow, with some lots that are wrong. `magrpo` teaches the
seats of an arm; the others stay as they began. Success is exact, by enumeration of the tables, and
so is the ceiling: the best that the arm's seats can do beside the frozen ones.

| seat | its state | what it can mean |
|---|---|---|
| rewriter | the two houses that are meant | any two houses, in any order |
| selector | whose report is up to date | a source for each house that came, an order of documents |
| generator | what is asked | any relation, and the order of the names |

CRITERION was written before the runs on seeds from 100 on. The rate was chosen on seed 0.

One JSON file for each arm and seed; those that are there are not made again. One process.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import combinations, permutations, product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.resumable import Run, options, runs_of
from benchmarks.tables import Key, Meanings, lessons
from llm_marl_envs import make
from llm_marl_envs.core.records import Request, Response, Turn
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.envs.games.landscape import softmax
from llm_marl_envs.envs.retrieval.bounds import GENERATOR, REWRITER, SEATS, SELECTOR
from llm_marl_envs.files.pictures import require_matplotlib

CRITERION = (
    "On five fresh seeds each of the nine nested contrasts (three seats against each two, each two "
    "against each of its seats) is at least 0 in every seed, with p at most 0.05, one-sided, by "
    "the test that flips signs over seeds (1/32 is the least)."
)
HOUSES = 5
PAIRS = [*permutations(range(HOUSES), 2)]
SOURCES, RELATIONS = ("Herald", "Gazette"), ("teacher", "friend", "rival", "heir")
AS_SHOWN, REVERSED = 0, 1
MEANINGS: dict[str, list[Any]] = {
    REWRITER: PAIRS,
    SELECTOR: [*product((0, 1), (0, 1), (AS_SHOWN, REVERSED))],
    GENERATOR: [*product(range(len(RELATIONS)), (AS_SHOWN, REVERSED))],
}
"""Seat -> what it can mean: houses; a source for each house, order; relation, order."""
STATES: dict[str, list[Any]] = {
    REWRITER: PAIRS,
    SELECTOR: [(0, 1), (1, 0)],
    GENERATOR: [*range(len(RELATIONS))],
}
ORDER = 0.4
"""Probability of each of the two orders at the beginning; the rest is shared by what is wrong."""
NOISE = 0.3
"""Deviation of the first logits."""
RATE = 0.2
ARMS = [arm for n in (1, 2, 3) for arm in combinations(SEATS, n)]
DOCUMENT = re.compile(r"(?:(\d+)\. |> )?(\w+) of (\w+): (.+)")
REPORT = re.compile(r"(?:\d+\. )?(\w+): (\w+) keeps (\w+)\.")


def conventional(seat: str, state: Any) -> list[Any]:
    """What an expert of each order means, forward first."""
    if seat == GENERATOR:
        return [(state, AS_SHOWN), (state, REVERSED)]
    first, second = state
    if seat == REWRITER:
        return [(first, second), (second, first)]
    return [(first, second, AS_SHOWN), (second, first, AS_SHOWN)]


class Seats(Meanings):
    """A table of meanings for each seat, in the environment itself."""

    def __init__(self, seed: int) -> None:
        super().__init__((), seed)

    def table(self, seat: str) -> np.ndarray:
        """Probabilities, (states, meanings)."""
        return np.array([softmax(self.of(seat, state)) for state in STATES[seat]])

    def of(self, seat: str, state: Any) -> np.ndarray:
        """The logits of a state."""
        key = seat, str(state)
        if key not in self.logits:
            meanings = MEANINGS[seat]
            usual = [meanings.index(meaning) for meaning in conventional(seat, state)]
            chances = np.full(len(meanings), (1 - 2 * ORDER) / (len(meanings) - len(usual)))
            chances[usual] = ORDER
            rng = np.random.default_rng(derive_seed("pipeline", self.seed, *key))
            self.logits[key] = np.log(chances) + rng.normal(0, NOISE, len(meanings))
        return self.logits[key]

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """What each seat means, in words."""
        answers = []
        for request in requests:
            state = state_of(request)
            rng = np.random.default_rng(request.seed)
            chances = softmax(self.of(request.agent, state))
            place = int(rng.choice(len(chances), p=chances))
            meaning = MEANINGS[request.agent][place]
            text = in_words(request, meaning)
            answers.append(Response(text=text, completion_ids=(place,)))
        return answers

    def along(self, turn: Turn) -> tuple[Key, Any, np.ndarray]:
        """The whole row of what the seat knew."""
        state = state_of(turn)
        (place,) = turn.response.completion_ids or ()
        slope = -softmax(self.of(turn.agent, state))
        slope[place] += 1
        return (turn.agent, str(state)), slice(None), slope

    def row(self, agent: str, heard: str) -> np.ndarray:
        """The logits of a state by its name; as `Tables.climb` asks."""
        return self.logits[agent, heard]


def houses_in(text: str) -> list[str]:
    """The houses that a prompt lists."""
    return re.findall(r"\w+", text.split("houses ")[1].split(".")[0])


def state_of(seen: Any) -> Any:
    """What a seat alone knows, read in its prompt."""
    prompt = seen.messages[0].content
    known = prompt.split("Only you know: ")[1].split("\n")[0]
    if seen.agent == REWRITER:
        houses = houses_in(prompt)
        return tuple(houses.index(name) for name in re.findall(r" is (\w+)", known))
    if seen.agent == SELECTOR:
        return tuple(SOURCES.index(name) for name in re.findall(r"in the (\w+)", known))
    return RELATIONS.index(known.split()[-1].rstrip("."))


def in_words(seen: Any, meaning: Any) -> str:
    """The text by which a seat means it, after what it was shown."""
    if seen.agent == REWRITER:
        houses = houses_in(seen.messages[0].content)
        return "\n".join(f"Search: {houses[place]}" for place in meaning)
    shown = seen.messages[-1].content.splitlines()
    people = [found.groups() for line in shown if (found := DOCUMENT.fullmatch(line))]
    if seen.agent == SELECTOR:
        *sources, order = meaning
        reports = [found.groups() for line in shown if (found := REPORT.fullmatch(line))]
        keeper = {(source, house): who for source, who, house in reports}
        number = {(who, house): n for n, who, house, _ in people}
        brought = [*dict.fromkeys(house for _, _, house in reports)][:2]
        wanted = [(keeper.get((SOURCES[s], h)), h) for s, h in zip(sources, brought, strict=False)]
        numbers = [number[each] for each in wanted if each in number]
        return f"Documents: {', '.join(numbers[:: -1 if order else 1])}"
    relation, order = meaning
    names = [re.search(rf"{RELATIONS[relation]} (\w+)", text) for *_, text in people]
    answer = [name[1] for name in names if name]
    return f"Answer: {', '.join(answer[:: -1 if order else 1])}"


# -- exact -----------------------------------------------------------------------------------------
Shares = dict[str, np.ndarray]
"""What of a table matters, each of right meanings alone: the rewriter's (order,); the selector's
(order of the searches, order of the documents); the generator's (order,)."""


def shares_of(tables: Mapping[str, np.ndarray]) -> Shares:
    """Means over states, each as likely as any other."""
    rewriter, selector, generator = np.zeros(2), np.zeros((2, 2)), np.zeros(2)
    for row, state in zip(tables[REWRITER], STATES[REWRITER], strict=True):
        for order, meant in enumerate((state, state[::-1])):
            rewriter[order] += row[MEANINGS[REWRITER].index(meant)] / len(PAIRS)
    for row, state in zip(tables[SELECTOR], STATES[SELECTOR], strict=True):
        for order, sources in enumerate((state, state[::-1])):
            for way in (AS_SHOWN, REVERSED):
                selector[order, way] += row[MEANINGS[SELECTOR].index((*sources, way))] / 2
    for row, state in zip(tables[GENERATOR], STATES[GENERATOR], strict=True):
        for order in (AS_SHOWN, REVERSED):
            generator[order] += row[MEANINGS[GENERATOR].index((state, order))] / len(RELATIONS)
    return {REWRITER: rewriter, SELECTOR: selector, GENERATOR: generator}


def success(shares: Shares) -> float:
    """How often the answer is right: names come in the question's order."""
    return sum(
        float(
            shares[REWRITER][order] * shares[SELECTOR][order, way] * shares[GENERATOR][order ^ way]
        )
        for order in (0, 1)
        for way in (AS_SHOWN, REVERSED)
    )


def ceiling(shares: Shares, trained: Collection[str]) -> float:
    """The best that the trained seats can do beside the shares of the others.

    Seats' states are independent and success is linear in each seat's table, so a best team has a
    table of certain meanings; by symmetry only the share of each kind of meaning counts.
    """
    ways = [(order, way) for order in (0, 1) for way in (0, 1)]
    kinds = {way: np.eye(4)[place].reshape(2, 2) for place, way in enumerate(ways)}
    certain: dict[str, list[np.ndarray]] = {
        REWRITER: [np.eye(2)[order] for order in (0, 1)],
        SELECTOR: [_mean([kinds[way] for way in each]) for each in product(ways, repeat=2)],
        GENERATOR: [_mean([np.eye(2)[way] for way in each]) for each in product((0, 1), repeat=4)],
    }
    choices = [certain[seat] if seat in trained else [shares[seat]] for seat in SEATS]
    return max(success(dict(zip(SEATS, each, strict=True))) for each in product(*choices))


def _mean(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.mean(arrays, axis=0)


def exact(seats: Seats) -> Shares:
    """The shares of tables as they are."""
    return shares_of({seat: seats.table(seat) for seat in SEATS})


# -- runs ------------------------------------------------------------------------------------------
def run(arm: Sequence[str], seed: int, rate: float = RATE) -> Run:
    """Teach the seats of an arm."""
    seats = Seats(seed)
    before = exact(seats)
    make_env = partial(make, "retrieve_pipeline-v0", houses=HOUSES)
    curve = [success(before)]
    for update in lessons(seats, make_env, arm, rate, derive_seed("pipeline", "tasks", seed)):
        if update % 20 == 0:
            curve.append(success(exact(seats)))
    best = ceiling(before, arm)
    return {
        "arm": [*arm],
        "seed": seed,
        "rate": rate,
        "curve": curve,
        "success": curve[-1],
        "ceiling": best,
        "share": curve[-1] / best,
    }


def contrasts(runs: Sequence[Run]) -> list[tuple[str, list[float]]]:
    """Nested arms: name -> what the larger one has more, by seed."""
    by_arm: dict[tuple[str, ...], dict[int, float]] = {}
    for each in runs:
        by_arm.setdefault(tuple(each["arm"]), {})[each["seed"]] = each["success"]
    return [
        (
            f"{_named(large)} over {_named(small)}",
            [by_arm[large][s] - by_arm[small][s] for s in sorted(by_arm[large])],
        )
        for large in ARMS
        for small in ARMS
        if len(small) + 1 == len(large) and set(small) < set(large)
    ]


def _named(arm: Sequence[str]) -> str:
    return " + ".join(seat.removesuffix("_0") for seat in arm)


def table(runs: Sequence[Run]) -> str:
    """Markdown: the arms, then the contrasts."""
    lines = ["| trained | success | ceiling | share of the ceiling |", "|---|---|---|---|"]
    for arm in ARMS:
        mine = [each for each in runs if tuple(each["arm"]) == arm]
        if mine:
            cells = [
                _span([each[name] for each in mine]) for name in ("success", "ceiling", "share")
            ]
            lines.append(f"| {_named(arm)} | {' | '.join(cells)} |")
    lines += ["", "| contrast | difference | p, one-sided |", "|---|---|---|"]
    for name, differences in contrasts(runs):
        lines.append(f"| {name} | {mean(differences):.2f} | {p_of(differences):.3f} |")
    return "\n".join(lines)


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def p_of(differences: Sequence[float]) -> float:
    """One-sided p of the sign-flip test, exact."""
    total, signs = sum(differences), [*product((1, -1), repeat=len(differences))]
    flipped = [sum(s * d for s, d in zip(each, differences, strict=True)) for each in signs]
    return sum(value >= total - 1e-12 for value in flipped) / len(flipped)


def picture(path: Path, runs: Sequence[Run]) -> None:
    """Success of each arm's runs, and their mean ceiling."""
    figure = require_matplotlib()(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    for place, arm in enumerate(ARMS):
        mine = [each for each in runs if tuple(each["arm"]) == arm]
        axes.bar(place, mean(each["ceiling"] for each in mine), color="lightgrey", width=0.7)
        axes.scatter(
            [place] * len(mine), [each["success"] for each in mine], c="C0", s=14, zorder=3
        )
    axes.set_xticks(range(len(ARMS)), [_named(arm).replace(" + ", "\n") for arm in ARMS])
    axes.set(
        ylabel="right answers",
        ylim=(0, 1.03),
        title="grey: the best beside the seats that stay as they began",
    )
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main() -> None:
    """Make the runs that are missing, then the tables."""
    parser = options("pipeline", __doc__, output="benchmarks/results/pipeline")
    parser.add_argument("--picture", type=Path, help="draw it there; needs matplotlib")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    rate = float(dict(each.split("=") for each in args.override).get("rate", RATE))
    due = [
        (f"{'-'.join(s.removesuffix('_0') for s in arm)}-{seed}", partial(run, arm, seed, rate))
        for arm in ARMS
        for seed in seeds
    ]
    runs = runs_of(args, due)
    print(table(runs))
    if args.picture:
        picture(args.picture, runs)
    holds = len(seeds) >= 5 and all(
        p_of(differences) <= 0.05 and min(differences) >= 0 for _, differences in contrasts(runs)
    )
    print(f"\n{CRITERION}\n{'It holds.' if holds else 'It does not hold.'}")


if __name__ == "__main__":
    main()
