"""Which documents fit a query best, by BM25 (Robertson and Zaragoza 2009), as `bm25s` counts it.

Words are runs of letters and digits, in lower case; nothing is left out and nothing is cut to its
stem, so that made-up words count.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any

import numpy as np

WORD = re.compile(r"\w+")
KEPT = 256
"""Sets of documents whose index is kept."""
MOST_WORDS = 256
"""Words of a query that count, the first ones."""
_LOADING = threading.Lock()


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    return WORD.findall(text.lower())


class Index:
    """Documents that can be searched.

    Args:
        documents: texts; their order decides between equal ones.
    """

    def __init__(self, documents: Sequence[str]) -> None:
        self.documents = tuple(documents)

    def best(self, query: str, n: int) -> list[int]:
        """Places of the documents that fit a query best, at most `n`.

        Documents that share no word with the query are left out.
        """
        ranking = self._scores
        if ranking is None:
            return []
        words = dict.fromkeys(words_of(query)[:MOST_WORDS])
        known = [word for word in words if word in ranking.vocab_dict]
        if not known:
            return []
        scores = ranking.get_scores(known)
        order = np.argsort(-scores, kind="stable")[:n]
        return [int(place) for place in order if scores[place] > 0]

    @cached_property
    def _scores(self) -> Any:
        """What bm25s knows of the documents; None where they hold no word."""
        bm25s = _bm25s()
        words = [words_of(text) for text in self.documents]
        if not any(words):
            return None
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        scores = bm25s.BM25()
        scores.index(words, show_progress=False)
        return scores


def _bm25s() -> ModuleType:
    """The library, imported late: it takes a third of a second, and few environments search.

    Where JAX is installed, bm25s starts it at import, and JAX takes three quarters of a GPU's
    memory from the model. Nothing here needs JAX, so it is hidden for that time, unless somebody
    has loaded it: then nothing is saved by it.
    """
    with _LOADING:
        hidden = "bm25s" not in sys.modules and "jax" not in sys.modules
        if hidden:
            sys.modules["jax"] = None  # type: ignore[assignment]  # an import of it fails now
        try:
            import bm25s
        finally:
            if hidden:
                sys.modules.pop("jax", None)
    return bm25s


@lru_cache(maxsize=KEPT)
def index_of(documents: tuple[str, ...]) -> Index:
    """The index of some documents, made once for all episodes of a task."""
    return Index(documents)
