"""Cases: something is wrong, and facts that are known to go with each of what it can be.

Owns how cases are drawn and what the asker is told of the chances. The class is drawn by its
weight, then each fact for itself by the class: so, given the class, facts have nothing to do with
each other. Which facts the asker is told first is drawn apart from what they are.

A split has tables of its own: which table is in which split is decided by a hash of the table.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from llm_marl_envs.core.tasks import IndexedSource, Task, split_of_row
from llm_marl_envs.envs.consult.chances import Case
from llm_marl_envs.envs.consult.record import Fact, Record
from llm_marl_envs.envs.consult.vocabulary import DOMAINS, MACHINE, PLANT, Domain

SIZES = {"train": 20_000, "val": 500, "test": 1_000, "ood": 1_000}
FACTS, CLASSES, COMPLAINT, WEIGHTS = (8, 12), (6, 16), (1, 2), (1, 4)
"""Fewest and most of each in a generated case; a weight is of one class."""
LEVELS = {"usually": 9, "sometimes": 5, "seldom": 1}
"""Word -> in how many of ten machines with this fault a sign is there."""
LEVEL_DRAWS = ("usually",) * 2 + ("sometimes",) + ("seldom",) * 3
OF_TEN, NAMED, OTHER = 10, 8, 1
"""Of ten machines: all; with the value that a class names; with each other value."""


class CaseSource(IndexedSource):
    """Cases of one split; none is a case of another with the same table."""

    endless = True

    def __len__(self) -> int:
        return SIZES[self.split]

    def make(self, index: int, task_id: str) -> Task:
        """As `IndexedSource.make`."""
        domain = PLANT if self.split == "ood" else MACHINE
        for attempt in count():
            rng = random.Random(f"consult/case/{self.split}/{index}/{attempt}")
            table = draw_table(rng, domain)
            if self.split == "ood" or split_of_table(table) == self.split:
                return Task(task_id, self.split, {**table, **draw_record(rng, table)})
        raise AssertionError  # `count` has no end


case_tasks = lru_cache(maxsize=8)(CaseSource)
"""One source of a split per process, which copies of an environment share."""


def split_of_table(table: Mapping[str, Any]) -> str:
    """The split of a table, whatever its weights and the order of its classes."""
    rows = sorted(zip(table["classes"], table["signs"], table["kinds"], strict=True))
    return split_of_row({}, f"consult/case/{table['facts']}/{rows}")


def draw_table(rng: random.Random, domain: Domain) -> dict[str, Any]:
    """What can be wrong and asked, and what goes with what, as plain data; no two rows are alike.

    `signs` has a word of `LEVELS` for each sign of each class, `kinds` the place of the named value
    for each fact with three.
    """
    n_facts, n_classes = rng.randint(*FACTS), rng.randint(*CLASSES)
    signs = sorted(rng.sample(range(len(domain.signs)), n_facts - len(domain.kinds)))
    rows: list[tuple[list[str], list[int]]] = []
    while len(rows) < n_classes:
        row = (
            [rng.choice(LEVEL_DRAWS) for _ in signs],
            [rng.randrange(len(kind.values)) for kind in domain.kinds],
        )
        if row not in rows:
            rows.append(row)
    return {
        "kind": "case",
        "thing": domain.thing,
        "classes": sorted(rng.sample(domain.classes, n_classes)),
        "weights": [rng.randint(*WEIGHTS) for _ in range(n_classes)],
        "facts": [domain.signs[place].name for place in signs],
        "signs": [row[0] for row in rows],
        "kinds": [row[1] for row in rows],
    }


def draw_record(rng: random.Random, table: Mapping[str, Any]) -> dict[str, Any]:
    """What is wrong, each fact, and which of them the asker is told."""
    classes = range(len(table["classes"]))
    (at,) = rng.choices(classes, table["weights"])
    values = [_drawn(rng, LEVELS[level]) for level in table["signs"][at]]
    for named, fact in zip(table["kinds"][at], DOMAINS[table["thing"]].kinds, strict=True):
        weights = [NAMED if place == named else OTHER for place in range(len(fact.values))]
        values += rng.choices(fact.values, weights)
    complaint = sorted(rng.sample(range(len(values)), rng.randint(*COMPLAINT)))
    return {"answer": table["classes"][at], "values": values, "complaint": complaint}


def _drawn(rng: random.Random, of_ten: int) -> str:
    return "yes" if rng.randrange(OF_TEN) < of_ten else "no"


def facts_of(data: Mapping[str, Any]) -> tuple[Fact, ...]:
    """The facts of a generated case."""
    domain = DOMAINS[data["thing"]]
    by_name = {fact.name: fact for fact in domain.signs}
    return (*(by_name[name] for name in data["facts"]), *domain.kinds)


def case_of(task: Task) -> Case:
    """The case behind a generated task."""
    data = task.data
    record = Record(facts_of(data), tuple(data["values"]), tuple(data["complaint"]))
    total = sum(data["weights"])
    return Case(
        record=record,
        classes=tuple(data["classes"]),
        prior=tuple(weight / total for weight in data["weights"]),
        likelihood=tuple(
            (*(_of_level(level) for level in signs), *(_of_named(place) for place in kinds))
            for signs, kinds in zip(data["signs"], data["kinds"], strict=True)
        ),
        right=data["answer"],
    )


def _of_level(level: str) -> tuple[float, float]:
    return LEVELS[level] / OF_TEN, 1 - LEVELS[level] / OF_TEN


def _of_named(named: int) -> tuple[float, ...]:
    return tuple((NAMED if place == named else OTHER) / OF_TEN for place in range(3))


# -- in words -------------------------------------------------------------------------------------
INTRO = "person_0 has a {thing}. One thing is wrong with it: {classes}."
TABLE = (
    "Of {total} such {thing}s so many have it, with these signs (usually: {usually} in 10; "
    "sometimes: {sometimes} in 10; signs that are not named: {seldom} in 10; the {kinds} that is "
    "named: {named} in 10, each other: {other} in 10):"
)


def table_text(data: Mapping[str, Any]) -> str:
    """What the asker is told of the chances."""
    domain = DOMAINS[data["thing"]]
    classes = data["classes"]
    head = TABLE.format(
        total=sum(data["weights"]),
        thing=domain.thing,
        kinds=" or ".join(fact.name for fact in domain.kinds),
        named=NAMED,
        other=OTHER,
        **LEVELS,
    )
    rows = zip(classes, data["weights"], data["signs"], data["kinds"], strict=True)
    lines = [
        f"{name}, {weight}: {_row(domain, data['facts'], *row)}" for name, weight, *row in rows
    ]
    intro = INTRO.format(thing=domain.thing, classes=", ".join(classes))
    return "\n".join([intro, head, *lines])


def _row(domain: Domain, facts: Sequence[str], signs: Sequence[str], kinds: Sequence[int]) -> str:
    parts = []
    for level in ("usually", "sometimes"):
        names = [name for name, own in zip(facts, signs, strict=True) if own == level]
        if names:
            parts.append(f"{level} {', '.join(names)}")
    kind = zip(domain.kinds, kinds, strict=True)
    parts.append(", ".join(f"{fact.name} {fact.values[place]}" for fact, place in kind))
    return "; ".join(parts)
