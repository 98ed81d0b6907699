"""What the rewriter's lines bring, and what the selector's line chooses. Pure rules.

Ten documents are dealt over the sub-questions, as in the released code of MMOA-RAG.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from llm_marl_envs.core.parsing import answer_of, lines_of
from llm_marl_envs.tools.bm25 import index_of

DEALS = {1: (10,), 2: (5, 5), 3: (4, 3, 3), 4: (3, 3, 2, 2)}
"""Number of sub-questions -> how many documents each may bring."""
MOST_SEARCHES, RETRIEVED = max(DEALS), sum(DEALS[1])
SEARCH, DOCUMENTS = "search:", "documents:"
NUMBERS = re.compile(r"[0-9]{1,3}(?:[ ,]+[0-9]{1,3}){0,99}")
Batches = tuple[tuple[int, ...], ...]
"""Of each sub-question, the places of the documents that it brings."""


def marked(text: str, mark: str) -> list[str]:
    """What stands behind a mark at the beginning of a line, empty ones left out."""
    lines = [line.strip() for line in lines_of(answer_of(text))]
    behind = [line[len(mark) :].strip() for line in lines if line[: len(mark)].lower() == mark]
    return [words for words in behind if words]


def searches_in(text: str) -> list[str]:
    """The sub-questions of a text, in order; those after the fourth bring nothing."""
    return marked(text, SEARCH)


def numbers_in(text: str) -> list[int] | None:
    """The numbers in the one line `Documents: 3, 1`; None for another form, or several lines."""
    lines = marked(text, DOCUMENTS)
    listed = lines[0].rstrip(" .") if len(lines) == 1 else ""
    if not NUMBERS.fullmatch(listed):
        return None
    return [int(number) for number in re.split("[ ,]+", listed)]


def well_formed(numbers: Sequence[int] | None, shown: int, most: int) -> bool:
    """Whether numbers name at most `most` of the `shown` documents, each once."""
    return (
        numbers is not None
        and len(set(numbers)) == len(numbers) <= most
        and all(1 <= number <= shown for number in numbers)
    )


def retrieve(documents: tuple[str, ...], searches: Sequence[str]) -> Batches:
    """What the first four sub-questions bring; a document comes once, where it comes first."""
    asked = searches[:MOST_SEARCHES]
    seen, batches = set[int](), []
    for words, count in zip(asked, DEALS.get(len(asked), ()), strict=True):
        batch = tuple(place for place in best(documents, words, count) if place not in seen)
        seen.update(batch)
        batches.append(batch)
    return tuple(batches)


@lru_cache(maxsize=4096)
def best(documents: tuple[str, ...], words: str, count: int) -> tuple[int, ...]:
    """What fits some words best; episodes of a task often search for the same."""
    return tuple(index_of(documents).best(words, count))
