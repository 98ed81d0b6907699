"""Tasks of made-up worlds: names, splits, and what a task holds.

Every task has a world of its own, so nothing that was learned of another task's documents helps.
A name belongs to one split; `ood` has longer names, other sources and other relations.
"""

from __future__ import annotations

import random
from dataclasses import fields
from functools import lru_cache

from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.tasks import IndexedSource, Task, split_of_row
from llm_marl_envs.envs.retrieval.worlds import (
    Case,
    World,
    cases,
    documents_of,
    needed,
    right_names,
)

SIZES = {"train": 10_000, "val": 500, "test": 1000, "ood": 1000}
SOURCES, OOD_SOURCES = ("Herald", "Gazette"), ("Courier", "Mirror")
RELATIONS = ("teacher", "friend", "rival", "heir")
OOD_RELATIONS = ("doctor", "guest", "cousin", "debtor")
WORDS = ("zup", "mip", "dax", "gorp", "fenk", "lorch", "vim", "stave")
OOD_WORDS = ("quib", "nurl", "thrag", "plim")
"""Private words for houses, of which a question has two."""
ONSETS, VOWELS, CODAS = "bdfklmnrtvz", "aeiou", "dklmnrx"
SYLLABLES = {"ood": 3}
"""Of a name; elsewhere `USUAL_SYLLABLES`."""
USUAL_SYLLABLES = 2


class WorldSource(IndexedSource):
    """Generated tasks; no name of a split occurs in another.

    Args:
        split: of the tasks.
        houses: how many houses a world has, with five documents each.
    """

    endless = True

    def __init__(self, split: str, houses: int) -> None:
        super().__init__(split)
        self.houses = houses

    def __len__(self) -> int:
        return SIZES[self.split]

    def make(self, index: int, task_id: str) -> Task:
        """The task of an index: a world, and one of its cases, each as likely."""
        rng = random.Random(derive_seed("retrieve_pipeline", self.split, self.houses, index))
        ood = self.split == "ood"
        world = draw_world(rng, self.split, self.houses)
        documents = documents_of(world)
        rng.shuffle(documents)
        data = {
            "documents": tuple(documents),
            "words": tuple(rng.sample(OOD_WORDS if ood else WORDS, 2)),
            **{field.name: getattr(world, field.name) for field in fields(world)},
        }
        return asking(Task(task_id, self.split, data), rng.choice([*cases(world)]))


@lru_cache(maxsize=8)
def world_tasks(split: str, houses: int) -> WorldSource:
    """One source per process, which copies of an environment share."""
    return WorldSource(split, houses)


def draw_world(rng: random.Random, split: str, houses: int) -> World:
    """A world with names of a split, all of them different."""
    ood = split == "ood"
    sources = list(OOD_SOURCES if ood else SOURCES)
    relations = list(OOD_RELATIONS if ood else RELATIONS)
    rng.shuffle(sources)
    people = len(sources) + 1
    names = iter(draw_names(rng, split, houses * (1 + people * (1 + len(relations)))))
    return World(
        houses=tuple(next(names) for _ in range(houses)),
        sources=tuple(sources),
        people=tuple(tuple(next(names) for _ in range(people)) for _ in range(houses)),
        relations=tuple(relations),
        names=tuple(
            tuple(tuple(next(names) for _ in relations) for _ in range(people))
            for _ in range(houses)
        ),
    )


def draw_names(rng: random.Random, split: str, count: int) -> list[str]:
    """Different names of a split, such as `Bodal`; 21,174 are possible, ood aside."""
    drawn: dict[str, None] = {}
    syllables = SYLLABLES.get(split, USUAL_SYLLABLES)
    while len(drawn) < count:
        body = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(syllables))
        name = (body + rng.choice(CODAS)).capitalize()
        if name.lower() in RELATIONS:  # `Rival`
            continue
        if split == "ood" or split_of_name(name) == split:
            drawn[name] = None
    return list(drawn)


@lru_cache(maxsize=65536)
def split_of_name(name: str) -> str:
    """The split, ood aside, whose tasks a name may occur in."""
    return split_of_row({}, f"retrieve_pipeline/{name}")


def of_world(task: Task) -> bool:
    """Whether a task was generated here; else it is a row."""
    return "houses" in task.data


def asking(task: Task, case: Case) -> Task:
    """The task, with its own documents and id, that asks a case of them."""
    world, documents = world_of(task), task.data["documents"]
    data = {
        **task.data,
        "meant": case.meant,
        "current": case.current,
        "relation": case.relation,
        "answer": ", ".join(right_names(world, case)),
        "needed": tuple(documents.index(text) for text in needed(world, case)),
    }
    return Task(task.id, task.split, data)


def world_of(task: Task) -> World:
    """What the documents of a generated task are about."""
    data = task.data
    return World(data["houses"], data["sources"], data["people"], data["relations"], data["names"])


def case_of(task: Task) -> Case:
    """What a generated task asks."""
    data = task.data
    return Case(data["meant"], data["current"], data["relation"])
