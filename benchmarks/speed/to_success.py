"""(c) Time until nine episodes of ten are solved together, against CoMLRL.

    python -m benchmarks.speed.to_success [--seeds 3]

Both begin with the same model, which solves about one episode of 250, on the toy of
tests/support/digits.py: the team writes eight digits. Each has three learning rates, and its best
one counts. Seconds are of the process, from the first episode until 0.9 of the newest 64 episodes
are solved; both play the same environment, which notes them. Runs that have not come so far after
`MOST` episodes count as infinite.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import median
from tempfile import TemporaryDirectory

import torch
from support.digits import Digits, half_knowing
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.speed.comlrl import enter, theirs
from benchmarks.speed.record import Row, keep
from llm_marl_envs.core.outcome import Outcome
from trainers.config import MAGRPOConfig
from trainers.trainer import MAGRPOTrainer

RATES = (1e-3, 3e-3, 1e-2)
TASKS = 4
"""Of an update of ours, and of CoMLRL's buffer."""
GROUP = 8
WINDOW = 64
WANTED = 0.9
MOST = 4096
LENGTH = 8


class ReachedError(BaseException):
    """Ends a training from inside of its environment; no `Exception`, which would be kept."""


class Watched(Digits):
    """Notes what is solved; all copies share one note."""

    def __init__(self, note: Note) -> None:
        super().__init__()
        self.note = note

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """As `Digits`, and note it."""
        outcome = super().play(joint_action)
        self.note.add(bool(outcome.success))
        return outcome


class Note:
    """How a training goes.

    Attributes:
        episodes: played.
        seconds: of the process, since the first episode, or infinite.
    """

    def __init__(self) -> None:
        self.newest: deque[bool] = deque(maxlen=WINDOW)
        self.episodes = 0
        self.begun = time.process_time()
        self.seconds = math.inf

    def add(self, solved: bool) -> None:
        """One episode; raises ReachedError at the end."""
        self.episodes += 1
        self.newest.append(solved)
        if len(self.newest) == WINDOW and sum(self.newest) >= WANTED * WINDOW:
            self.seconds = time.process_time() - self.begun
            raise ReachedError
        if self.episodes >= MOST:
            raise ReachedError


def ours(model: str, rate: float, seed: int, note: Note) -> Callable[[], object]:
    """A training of this library, one full model per agent."""
    folder = TemporaryDirectory()
    args = MAGRPOConfig(
        folder.name,
        weights="separate",
        num_generations=GROUP,
        tasks_per_update=TASKS,
        rows_per_micro_batch=TASKS * GROUP,
        max_completion_length=LENGTH,
        learning_rate=rate,
        lr_scheduler_type="constant",
        max_steps=MOST,
        seed=seed,
        transcript_every=0,
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = MAGRPOTrainer(dict.fromkeys(("a_0", "b_0"), model), lambda: Watched(note), args)
    trainer.keep = folder  # type: ignore[attr-defined]
    return trainer.train


def comlrl(model: str, rate: float, seed: int, note: Note) -> Callable[[], object]:
    """A training of CoMLRL."""
    torch.manual_seed(seed)
    random.seed(seed)
    return theirs(
        [AutoModelForCausalLM.from_pretrained(model) for _ in range(2)],
        AutoTokenizer.from_pretrained(model),
        Watched(note),
        64,
        num_train_epochs=MOST // (64 * GROUP) + 1,
        max_new_tokens=LENGTH,
        rollout_buffer_size=TASKS,
        agent_learning_rate=rate,
    )


def run(make: Callable[..., Callable[[], object]], model: str, rate: float, seed: int) -> Note:
    """One training until it is good enough."""
    note = Note()
    train = make(model, rate, seed, note)
    note.begun = time.process_time()
    with suppress(ReachedError):
        train()
    return note


def measure(seeds: int) -> list[Row]:
    """A row per trainer and learning rate; seeds and trainers take turns."""
    torch.set_num_threads(1)
    model = half_knowing()
    made = {"this library": ours, "CoMLRL": comlrl}
    notes: dict[tuple[str, float], list[Note]] = {(n, r): [] for r in RATES for n in made}
    for seed in range(seeds):
        for name, rate in notes:
            notes[name, rate].append(run(made[name], model, rate, seed))
            print(name, rate, seed, notes[name, rate][-1].seconds, flush=True)
    rows = []
    for (name, rate), found in sorted(notes.items(), key=lambda item: (item[0][0], item[0][1])):
        seconds = [note.seconds for note in found]
        rows.append(
            {
                "trainer": name,
                "learning rate": f"{rate:g}",
                "seconds, median": _known(median(seconds)),
                "worst": _known(max(seconds)),
                "episodes, median": median([note.episodes for note in found]),
                "reached": f"{sum(map(math.isfinite, seconds))} of {seeds}",
                "raw": [_known(one) for one in seconds],
            }
        )
    best = {
        name: min((row for row in rows if row["trainer"] == name), key=_seconds) for name in made
    }
    for row in rows:
        row["best"] = "best" if row is best[row["trainer"]] else ""
    return rows


def _known(seconds: float) -> float | None:
    """JSON has no infinity."""
    return seconds if math.isfinite(seconds) else None


def _seconds(row: Row) -> float:
    return math.inf if row["seconds, median"] is None else row["seconds, median"]


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    enter()
    keep("to_success", measure(options.seeds))


if __name__ == "__main__":
    main()
