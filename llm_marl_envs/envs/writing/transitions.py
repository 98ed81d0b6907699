"""Transition phrases in twelve categories, found as whole words.

Owns the lists. The categories are those of the papers; the phrases were collected for this library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

_LISTS = {
    "elaboration": """
        also, besides, furthermore, moreover, in addition, additionally, what is more,
        further, as well, not only that, on top of that
    """,
    "examples": """
        for example, for instance, such as, namely, to illustrate, in particular,
        including, as an illustration, a case in point
    """,
    "explanation": """
        that is, in other words, that means, which means, to explain, put differently, to
        be precise, i.e, specifically, to clarify
    """,
    "cause_effect": """
        because, therefore, thus, hence, so, consequently, as a result, due to, owing to,
        for this reason, leads to, accordingly, since
    """,
    "contrast": """
        but, however, in contrast, on the other hand, whereas, while, yet, instead,
        unlike, conversely, on the contrary, rather than
    """,
    "sequence": """
        first, second, third, firstly, secondly, next, then, finally, lastly, to begin
        with, after that, subsequently, in the end
    """,
    "emphasis": """
        indeed, in fact, above all, especially, notably, most importantly, certainly, of
        course, without doubt, importantly, clearly
    """,
    "summary": """
        in summary, in short, to sum up, overall, in conclusion, to conclude, altogether,
        in brief, all in all, on the whole
    """,
    "comparison": """
        similarly, likewise, in the same way, just as, compared to, compared with,
        equally, in comparison, by the same token
    """,
    "concession": """
        although, though, even though, despite, in spite of, nevertheless, nonetheless,
        even so, still, admittedly, granted
    """,
    "condition": """
        if, unless, provided that, as long as, in case, otherwise, only if, whether,
        assuming that, on condition that
    """,
    "time": """
        when, before, after, during, meanwhile, later, earlier, until, as soon as, at
        first, at the same time, eventually, now
    """,
}

Phrase = tuple[str, ...]


def _table() -> Mapping[str, tuple[tuple[Phrase, str], ...]]:
    table: dict[str, list[tuple[Phrase, str]]] = {}
    for category, text in _LISTS.items():
        for phrase in text.split(","):
            words = tuple(phrase.replace(".", " ").split())
            table.setdefault(words[0], []).append((words, category))
    return MappingProxyType({first: tuple(phrases) for first, phrases in table.items()})


_BY_FIRST_WORD = _table()


def categories_in(words: Sequence[str]) -> frozenset[str]:
    """Categories of which a phrase occurs in `words`, which are lower-case and whole.

    >>> sorted(categories_in(["also"])), sorted(categories_in(["so"]))
    (['elaboration'], ['cause_effect'])
    """
    return frozenset(
        category
        for place, word in enumerate(words)
        for phrase, category in _BY_FIRST_WORD.get(word, ())
        if tuple(words[place : place + len(phrase)]) == phrase
    )
