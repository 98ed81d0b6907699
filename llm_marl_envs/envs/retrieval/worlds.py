"""Made-up worlds: houses, who keeps them according to whom, and documents that say so.

A question names two houses by private words and asks for the same thing of both keepers. Three
facts lead to its answer: which houses are meant, which source is up to date for each, and what is
asked. Pure rules; `world_tasks.py` draws the names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

Pair = tuple[int, int]
"""Of the first and of the second house that a question names."""
REPORT = "{source}: {keeper} keeps {house}."
"""The first hop: from a house to its keeper."""
PORTRAIT = "{person} of {house}: {names}."
"""The second hop: from a person to what may be asked."""


@dataclass(frozen=True, slots=True)
class World:
    """What the documents of one task are about.

    Attributes:
        houses: their names.
        sources: of reports; each names one keeper for each house, no two the same.
        people: of each house the keeper by each source, in order, then one whom no source names.
        relations: what is known of everybody.
        names: of each house, person and relation: a name that occurs nowhere else.
    """

    houses: tuple[str, ...]
    sources: tuple[str, ...]
    people: tuple[tuple[str, ...], ...]
    relations: tuple[str, ...]
    names: tuple[tuple[tuple[str, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked of a world.

    Attributes:
        meant: the houses that the question means; the rewriter alone knows them.
        current: the source that is up to date for each; the selector alone knows them.
        relation: what is asked of both keepers; the generator alone knows it.
    """

    meant: Pair
    current: Pair
    relation: int


def cases(world: World) -> Iterator[Case]:
    """All that can be asked of a world, each as likely: different houses, different sources."""
    for meant in permutations(range(len(world.houses)), 2):
        for current in permutations(range(len(world.sources)), 2):
            for relation in range(len(world.relations)):
                yield Case(meant, current, relation)


def needed(world: World, case: Case) -> list[str]:
    """The documents of who keeps each house by its current source."""
    return [
        portrait(world, house, source)
        for house, source in zip(case.meant, case.current, strict=True)
    ]


def right_names(world: World, case: Case) -> tuple[str, str]:
    """The two names that answer a question, in its order."""
    first, second = (
        world.names[house][source][case.relation]
        for house, source in zip(case.meant, case.current, strict=True)
    )
    return first, second


def documents_of(world: World) -> list[str]:
    """All documents, house by house: its reports, then its people."""
    texts = []
    for number, (house, people) in enumerate(zip(world.houses, world.people, strict=True)):
        for source, keeper in zip(world.sources, people, strict=False):
            texts.append(REPORT.format(source=source, keeper=keeper, house=house))
        texts += [portrait(world, number, person) for person in range(len(people))]
    return texts


def portrait(world: World, house: int, person: int) -> str:
    """The document about a person of a house."""
    names = zip(world.relations, world.names[house][person], strict=True)
    return PORTRAIT.format(
        person=world.people[house][person],
        house=world.houses[house],
        names=", ".join(f"{relation} {name}" for relation, name in names),
    )
