"""Chats that are summed up: untrained notes lose a fact of the beginning, and trained ones keep it.

    python -m benchmarks.forgetting
    python -m benchmarks.forgetting --seeds 1 --first-seed 0 --output runs/forgetting

One seat hears eight facts, one a turn, and is asked for one of them at the end:

    You will be asked what the cat says. Until then say ok.
    ok        The dog says fig.
    ok        The cat says oat.
    ...
    ok        What does the cat say?
    The cat says oat.     1.0

With `memory={"max_chars": 55, "resets": 2}` its chat holds three facts. Then it is asked for notes
of at most 27 characters, and a fact has 17: of the three or four facts in view the notes keep one.

The seat is a pair of softmax tables, one for notes and one for answers: for every animal that it
may be asked for a logit of every animal whose fact it may write. It writes one of the facts in
view. All logits begin at 0, and `magrpo` teaches both tables, or the answers alone. Measured on
tasks of `test`: all pairs of taught and untaught notes and answers, scripted notes, and no window.

CRITERION was written before the runs on seeds from 100 on. Rate and length were chosen on seed 0.
One JSON file for each seed; those that are there are not made again. One process.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

import numpy as np

from benchmarks.resumable import Run, options, runs_of
from benchmarks.tables import Key, Meanings, lessons
from llm_marl_envs.core.environment import Outcome, TextParallelEnv
from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.core.records import Request, Response, Turn
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.tasks import IndexedSource, Task
from llm_marl_envs.envs.games.landscape import softmax
from llm_marl_envs.files.pictures import require_matplotlib
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.policies import Policy
from llm_marl_envs.wrappers import Memory

CRITERION = (
    "In each of five fresh seeds, of the facts of turns 1 to 6: taught notes with taught answers "
    "are right in at least 0.9 of the tasks, and the answers that were taught beside untaught "
    "notes in at most 0.4."
)
SEAT = "keeper_0"
ANIMALS = ("cat", "dog", "cow", "pig", "hen", "fox", "owl", "bat", "emu", "ant")
SOUNDS = ("fig", "oat", "rye", "nut", "pea", "yam", "bun", "pie")
SOUNDS += ("jam", "tea", "egg", "ham", "rib", "soy", "gum", "bay")
FACTS, EARLY = 8, 6
"""Facts of an episode; those of the first six turns are out of view at its end."""
MEMORY = {"max_chars": 55, "resets": 2}
FACT = "The {animal} says {sound}."
OK = "ok"
OPENING = "You will be asked what the {animal} says. Until then say ok."
ASKED, DEMAND = "What does the", "Write what you need"
"""How the last question begins, and the memory's for notes."""
NOTES, ANSWER = "notes", "answer"
SIZES = {"train": 100_000, "test": 10_000}
RATE = 0.1
MEASURED = 1000
"""Tasks."""


# -- the bed ---------------------------------------------------------------------------------------
class Facts(IndexedSource):
    """Tasks; a task says which fact is asked for, `asked`, from 0."""

    endless = True

    def __len__(self) -> int:
        return SIZES[self.split]

    def make(self, index: int, task_id: str) -> Task:
        """Eight animals in random order, a sound for each, and the one that is asked for."""
        rng = random.Random(derive_seed("forgetting", self.split, index))
        animals, sounds = rng.sample(ANIMALS, FACTS), rng.sample(SOUNDS, FACTS)
        facts = tuple(zip(animals, sounds, strict=True))
        return Task(task_id, self.split, {"facts": facts, "asked": rng.randrange(FACTS)})


class Recall(TextParallelEnv):
    """See the module; the return is 1 for the right fact as the last action, else 0."""

    metadata: ClassVar[dict[str, Any]] = {"name": "recall", "render_modes": ["ansi"]}
    reward_range = (0.0, 1.0)

    def __init__(self, split: str = "train") -> None:
        super().__init__(agents=(SEAT,), source=Facts(split), max_turns=FACTS + 2)

    def brief(self, task: Task, agent: str) -> str:
        """Which animal it will be asked for."""
        animal, _ = task.data["facts"][task.data["asked"]]
        return OPENING.format(animal=animal)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """The next fact, then the question, then the end."""
        turn, facts, asked = self._taken[SEAT], self.task.data["facts"], self.task.data["asked"]
        lines = [FACT.format(animal=animal, sound=sound) for animal, sound in facts]
        lines.append(f"{ASKED} {facts[asked][0]} say?")
        right = turn > len(lines) and joint_action[SEAT] == lines[asked]
        return Outcome(
            reward_terms={SEAT: {"right": float(right)}},
            feedback={SEAT: lines[turn - 1]} if turn <= len(lines) else {},
            success=right,
            facts={SEAT: {"fact_turn": asked + 1}},
        )


def bed(split: str = "train", *, window: bool = True) -> Any:
    """The environment; without a window its chat holds everything."""
    return Memory(Recall(split), **MEMORY) if window else Recall(split)


# -- the seat --------------------------------------------------------------------------------------
class Keeper(Meanings):
    """Two tables, `NOTES` and `ANSWER`: (asked for, written of) -> logit, among facts in view."""

    def __init__(self, learns: Sequence[str] = (NOTES, ANSWER)) -> None:
        super().__init__(ANIMALS)
        self.learns = learns

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """A fact in view, drawn by the table's logits; "ok" where nothing is asked."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Response:
        name = table_of(request)
        if not name:
            return Response(text=OK)
        facts = in_view(request)
        place = int(np.random.default_rng(request.seed).choice(len(facts), p=self.of(request)))
        return Response(text=facts[place], completion_ids=(place,))

    def of(self, seen: Request | Turn) -> np.ndarray:
        """Probabilities of the facts in view."""
        row = self.row(table_of(seen), animal_of(OPENING, seen.messages[0].content))
        return softmax(row[[ANIMALS.index(animal_of(FACT, fact)) for fact in in_view(seen)]])

    def along(self, turn: Turn) -> tuple[Key, Any, np.ndarray] | None:
        """The animals in view, where a table that learns spoke."""
        if table_of(turn) not in self.learns:
            return None
        (place,) = turn.response.completion_ids or ()
        slope = -self.of(turn)
        slope[place] += 1
        animals = [ANIMALS.index(animal_of(FACT, fact)) for fact in in_view(turn)]
        return (table_of(turn), animal_of(OPENING, turn.messages[0].content)), animals, slope


def table_of(seen: Request | Turn) -> str:
    """Which table speaks; "" for none."""
    last = seen.messages[-1].content
    return NOTES if last.startswith(DEMAND) else ANSWER if last.startswith(ASKED) else ""


def in_view(seen: Request | Turn) -> list[str]:
    """The facts that a chat holds, notes first."""
    lines = [line for m in seen.messages if m.role == "user" for line in m.content.splitlines()]
    return [line for line in (text.removeprefix(QUOTE) for text in lines) if line[:4] == "The "]


def animal_of(form: str, text: str) -> str:
    """The animal that a text of this form names."""
    return text[form.index("{") :].split()[0]


class Parts:
    """Notes of one policy, all else of another."""

    def __init__(self, notes: Policy, rest: Policy) -> None:
        self.notes, self.rest = notes, rest

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """Each request to its policy, one after the other."""
        return [
            (self.notes if table_of(request) == NOTES else self.rest).act([request])[0]
            for request in requests
        ]


class Script:
    """Notes by a rule: (facts in view, the animal that is asked for, chance) -> the notes."""

    def __init__(self, rule: Callable[[Sequence[str], str, random.Random], str]) -> None:
        self.rule = rule

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """Notes."""
        return [
            Response(
                text=self.rule(
                    in_view(request),
                    animal_of(OPENING, request.messages[0].content),
                    random.Random(request.seed),
                )
            )
            for request in requests
        ]


RULES: dict[str, Callable[[Sequence[str], str, random.Random], str]] = {
    "the first characters in view": lambda facts, animal, chance: facts[0],
    "the last characters in view": lambda facts, animal, chance: facts[-1],
    "the fact that will be needed": lambda facts, animal, chance: next(
        (fact for fact in facts if animal_of(FACT, fact) == animal), facts[0]
    ),
}


SHOWN = {
    "taught notes, taught answers": "taught notes",
    "the first characters in view, taught answers": "the first characters in view",
    "untaught notes, answers taught beside them": "untaught notes",
}
"""What the picture shows, and how it is called there."""


# -- runs ------------------------------------------------------------------------------------------
def taught(seed: int, tables: Sequence[str]) -> Keeper:
    """A seat of whose tables some are taught, in the bed with its window."""
    keeper = Keeper(tables)
    deque(lessons(keeper, bed, [SEAT], RATE, derive_seed("forgetting", "tasks", seed)), maxlen=0)
    return keeper


def shares(policy: Policy, *, window: bool = True) -> dict[str, float]:
    """Share of right answers by the turn of the fact, of early ones and of all."""
    env = bed("test", window=window)
    result = evaluate_team(env, {SEAT: policy}, n_tasks=MEASURED, seed=1)
    rights: dict[int, list[bool]] = defaultdict(list)
    for episode in result.episodes:
        rights[episode.turns[-1].info["fact_turn"]].append(bool(episode.success))
    early = [right for turn in range(1, EARLY + 1) for right in rights[turn]]
    by_turn = {str(turn): mean(rights[turn]) for turn in sorted(rights)}
    return {
        "early": mean(early),
        "all": mean(right for each in rights.values() for right in each),
        **by_turn,
    }


def run(seed: int) -> Run:
    """Teach both tables, and the answers alone; measure."""
    fresh, both, answers = Keeper(), taught(seed, (NOTES, ANSWER)), taught(seed, (ANSWER,))
    arms: dict[str, Policy] = {
        "untaught notes, untaught answers": fresh,
        "untaught notes, answers taught beside them": answers,
        "untaught notes, taught answers": Parts(fresh, both),
        "taught notes, untaught answers": Parts(both, fresh),
        "taught notes, taught answers": both,
        **{f"{name}, taught answers": Parts(Script(rule), both) for name, rule in RULES.items()},
    }
    measured = {name: shares(policy) for name, policy in arms.items()}
    measured["no window, untaught answers"] = shares(fresh, window=False)
    measured["no window, taught answers"] = shares(both, window=False)
    return {"seed": seed, "shares": measured}


def table(runs: Sequence[Run]) -> str:
    """Markdown: lowest to highest over seeds."""
    lines = ["| notes and answers | facts of turns 1 to 6 | all facts |", "|---|---|---|"]
    for name in runs[0]["shares"]:
        cells = []
        for which in ("early", "all"):
            values = [each["shares"][name][which] for each in runs]
            cells.append(f"{min(values):.2f} to {max(values):.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def picture(path: Path, runs: Sequence[Run]) -> None:
    """Share of right answers by the turn of the fact, a line for each seed."""
    figure = require_matplotlib()(figsize=(7, 3.2), layout="constrained")
    axes = figure.subplots()
    turns = [*range(1, FACTS + 1)]
    for colour, (name, label) in enumerate(SHOWN.items()):
        for number, each in enumerate(runs):
            values = [each["shares"][name][str(turn)] for turn in turns]
            axes.plot(turns, values, f"C{colour}", lw=1, label=None if number else label)
    axes.set(xlabel="turn of the fact", ylabel="right answers", ylim=(0, 1.03))
    axes.legend(fontsize=8, loc="center left")
    figure.savefig(path, dpi=100, metadata={"Software": None})


def holds(runs: Sequence[Run]) -> bool:
    """Whether CRITERION does."""
    kept = [each["shares"]["taught notes, taught answers"]["early"] for each in runs]
    lost = [each["shares"]["untaught notes, answers taught beside them"]["early"] for each in runs]
    return len(runs) >= 5 and min(kept) >= 0.9 and max(lost) <= 0.4


def main() -> None:
    """Make the runs that are missing, then the table."""
    parser = options("forgetting", __doc__, output="benchmarks/results/forgetting")
    parser.add_argument("--picture", type=Path, help="draw it there; needs matplotlib")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    runs = runs_of(args, [(f"forgetting-{seed}", partial(run, seed)) for seed in seeds])
    print(table(runs))
    if args.picture:
        picture(args.picture, runs)
    print(f"\n{CRITERION}\n{'It holds.' if holds(runs) else 'It does not hold.'}")


if __name__ == "__main__":
    main()
