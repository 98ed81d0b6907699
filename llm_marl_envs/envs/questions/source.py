"""Where questions come from: generated, rows of a file, a list, a data set, reasoning-gym.

Owns the splits of generated questions: disjoint by what is asked, `ood` one level harder.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from functools import lru_cache, partial

from llm_marl_envs.core.tasks import (
    SPLITS,
    IndexedSource,
    Task,
    Tasks,
    TaskSource,
    open_tasks,
    read_once,
    split_of_row,
)
from llm_marl_envs.envs.questions.kind import MAX_LEVEL
from llm_marl_envs.envs.questions.kinds import KINDS
from llm_marl_envs.envs.questions.question import Question, task_of
from llm_marl_envs.envs.questions.reasoning_gym import gym_questions
from llm_marl_envs.envs.questions.rows import task_of_row

SIZES = {"train": 4096, "val": 512, "test": 1024, "ood": 1024}
"""Questions of each split, of all kinds together."""
TRAIN_PER_KIND = 1024
"""Questions of each kind in `train`, at least."""
ORDER_SEED = 0
"""Of the order and the draws."""
GYM = re.compile(r"reasoning[-_]gym:")  # the distribution's name, or the package's
GENERATED = "generated:"
PATIENCE = 200
"""Draws before another answer takes its turn."""
TRIES = 5
"""Draws before a question may be asked twice in a split; small kinds run out of new ones."""


class ProceduralQuestions(IndexedSource):
    """Generated questions of one split.

    Kinds take turns; within a kind the answers do. Which split a question belongs to is decided by
    a hash of its identity, so no question of one split is in another. `ood` is one level harder:
    questions that could be of a lower level, as all their words are, are left out. That is one in
    64 of "safe" in two parts at level 1, one in 11 at level 2, few in more parts; there one part
    tells a little more than the bound `Kind.solo`, which is of all questions of the level. Within a
    split a question comes back only where its kind has too few.

    Args:
        split: one of `SPLITS`.
        kinds: names in `KINDS`, in the order in which they take turns.
        level: difficulty, 1 to 3 (to 2 for `ood`).
        parts: how many parts the evidence has.
    """

    def __init__(self, split: str, *, kinds: Sequence[str], level: int = 1, parts: int = 3) -> None:
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown or not kinds:
            raise ValueError(f"kinds={list(kinds)!s:.200}: expected some of {list(KINDS)}")
        highest = MAX_LEVEL - (split == "ood")
        if split not in SPLITS or level not in range(1, highest + 1):
            raise ValueError(
                f"split {split!r:.200}, level {level!r:.200}: expected one of {SPLITS} and level 1 "
                f"to {highest} ('ood' is one level harder than its level says)"
            )
        super().__init__(split)
        self.kinds = tuple(kinds)
        self.level = level + (split == "ood")
        self.parts = parts
        self._seen: set[str] = set()
        self._question(0, random.Random(0))  # a kind that cannot be divided so says it here

    def __len__(self) -> int:
        least = TRAIN_PER_KIND * len(self.kinds) if self.split == "train" else 0
        return max(SIZES[self.split], least)

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`; in order, because a question depends on those before."""
        for before in range(len(self._made), index):
            self[before]
        return task_of(self._next(index), task_id, self.split)

    def _question(self, index: int, rng: random.Random, skip: int = 0) -> Question:
        kind = KINDS[self.kinds[index % len(self.kinds)]]
        return kind.draw(rng, self.level, self.parts, index // len(self.kinds) + skip)

    def _next(self, index: int) -> Question:
        rng = random.Random(f"questions/{ORDER_SEED}/{self.split}/{index}")
        tries = 0
        for draw in itertools.count():
            # A small kind may have no question of this split for the answer whose turn it is.
            question = self._question(index, rng, skip=draw // PATIENCE)
            identity = question.identity()
            if self.split == "ood":
                if KINDS[question.kind].lowest(question) < self.level:
                    continue
            elif split_of_row({}, identity) != self.split:
                continue
            tries += 1
            if identity not in self._seen or tries >= TRIES:
                self._seen.add(identity)
                return question
        raise AssertionError("unreachable")


procedural_questions = lru_cache(maxsize=32)(ProceduralQuestions)
"""One source per process and setting, so that copies of an environment share its tasks."""


def question_tasks(
    tasks: Tasks = None,
    *,
    split: str = "train",
    kinds: Sequence[str] | None = None,
    level: int = 1,
    parts: int = 3,
) -> TaskSource:
    """The source that an environment's argument `tasks` names.

    Args:
        tasks: as `tasks.open_tasks`; also "generated:order,cups" and "generated:order:2" for some
            kinds and a level, and "reasoning-gym:<set>" for a set of `reasoning_gym.ALLOWED`. None
            generates `kinds` at `level`. Rows are read by `rows.task_of_row`.
        split: one of `SPLITS`, or "all" for rows.
        kinds: kinds of generated questions; None takes all.
        level: of generated questions.
        parts: of generated questions: how many seats share the evidence.

    Raises:
        ValueError: an unknown kind, level, split, set or row.
        ImportError: reasoning-gym is named and not installed.
    """
    chosen = tuple(KINDS if kinds is None else kinds)
    if isinstance(tasks, str) and GYM.match(tasks):
        return gym_questions(GYM.sub("", tasks, count=1), split)
    if isinstance(tasks, str) and tasks.startswith(GENERATED):
        names, _, number = tasks.removeprefix(GENERATED).partition(":")
        chosen = tuple(name.strip() for name in names.split(","))
        if number and not number.isdecimal():
            raise ValueError(f"tasks={tasks!r:.200}: expected 'generated:<kind>,<kind>:<level>'")
        level, tasks = int(number or level), None
    return _opened(tasks, split, chosen, level, parts)


@read_once
def _opened(tasks: Tasks, split: str, kinds: tuple[str, ...], level: int, parts: int) -> TaskSource:
    procedural = partial(procedural_questions, kinds=kinds, level=level, parts=parts)
    return open_tasks(tasks, split=split, procedural=procedural, from_row=task_of_row)
