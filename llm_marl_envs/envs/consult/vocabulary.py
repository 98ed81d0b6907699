"""The words of generated cases: a broken machine; for `ood` an ill plant.

Owns the tables: what can be wrong, what can be asked, and in which words a question may name it.
No word names two facts, and no fact is named by what can be wrong. A test holds that.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_marl_envs.envs.consult.record import Fact

YES_NO = ("yes", "no")


@dataclass(frozen=True, slots=True)
class Domain:
    """What a case can be about.

    Attributes:
        thing: what the person has.
        classes: what can be wrong with it.
        signs: facts that are yes or no.
        kinds: facts with three values.
    """

    thing: str
    classes: tuple[str, ...]
    signs: tuple[Fact, ...]
    kinds: tuple[Fact, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _signs(table: str) -> tuple[Fact, ...]:
    """One fact a line: its name, then other words for it."""
    rows = map(_words, table.strip().splitlines())
    return tuple(Fact(name, YES_NO, tuple(words)) for name, *words in rows)


MACHINE = Domain(
    thing="machine",
    classes=_words("""
        pump valve fuse belt motor fan seal switch
        cable filter gear spring sensor bearing nozzle clutch
    """),
    signs=_signs("""
        leaks leak leaking leaky drip drips dripping
        hums hum humming buzz buzzes buzzing
        smokes smoke smoking smoky
        shakes shake shaking vibrate vibrates vibrating
        smells smell smelling stink stinks odour
        clicks click clicking tick ticks ticking
        stalls stall stalling stop stops stopping
        overheats overheat overheating hot warm heat
        sparks spark sparking
        rattles rattle rattling
    """),
    kinds=(
        Fact("lamp", ("red", "green", "off"), ("light", "red", "green", "colour", "color")),
        Fact("speed", ("slow", "normal", "fast"), ("slow", "fast", "pace", "quick")),
    ),
)
PLANT = Domain(
    thing="plant",
    classes=_words("""
        rust mildew blight scab canker aphids mites thrips
        slugs nematodes rot mosaic smut chlorosis frostbite weevils
    """),
    signs=_signs("""
        droops droop drooping wilts wilting limp
        spots spot spotted
        curls curl curling curled
        sheds shed shedding
        sticks stick sticky
        webs web webbing
        holes hole bitten
        stunts stunt stunted small
        cracks crack cracked cracking
        yellows yellow yellowing pale
    """),
    kinds=(
        Fact("soil", ("dry", "moist", "wet"), ("dry", "moist", "wet", "earth")),
        Fact("stem", ("soft", "firm", "brittle"), ("soft", "firm", "brittle", "stalk")),
    ),
)
DOMAINS = {domain.thing: domain for domain in (MACHINE, PLANT)}
