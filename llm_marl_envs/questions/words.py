"""The word tables of generated questions: short, distinct, one meaning each.

Level 1 uses the first part of a table only, so that harder levels bring words never seen before
(months are always the same twelve).
"""

from __future__ import annotations

NAMES = (
    *("Ana", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jon"),
    *("Kay", "Leo", "Mia", "Ned", "Oda", "Pia", "Quin", "Ray", "Sue", "Ted"),
    *("Uma", "Vic", "Wes", "Xia", "Yan", "Zoe", "Abe", "Bea", "Col", "Dot"),
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ROOMS = ("attic", "cellar", "hall", "kitchen", "porch", "study", "garage", "larder", "office")
STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("box", ("red", "blue", "green", "gold", "pink", "grey")),
    ("bag", ("silk", "wool", "felt", "linen", "cotton", "hemp")),
    ("crate", ("oak", "pine", "elm", "teak", "birch", "cedar")),
    ("cart", ("iron", "tin", "zinc", "brass", "steel", "copper")),
    ("van", ("north", "south", "east", "west", "upper", "lower")),
)
"""What may hold a thing, from the inside out: (what it is, how each is called)."""


def table(words: tuple[str, ...], level: int, first: int) -> tuple[str, ...]:
    """The words of a level: `first` of them at level 1, and as many more at each level."""
    return words[: first * level]


def listed(words: tuple[str, ...] | list[str]) -> str:
    """Words in brackets, as questions and statements show them: `[Ana][Bo]`."""
    return "".join(f"[{word}]" for word in words)


def place_of(turn: int, words: int, places: int) -> int:
    """Where the answer stands among the choices, so that words and places are both balanced.

    Answers take turns through `words` words; the places move on by one each time and by one more
    after each round of words, so every word comes to every place.
    """
    return (turn + turn // words) % places
