"""What an answer and the forms of texts are worth. Pure rules.

Words are counted as in the evaluation of HotpotQA (arXiv 1809.09600): lower case, no punctuation,
no articles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from llm_marl_envs.envs.retrieval.dealing import MOST_SEARCHES

ARTICLES = {"a", "an", "the"}
WORD = re.compile(r"\w+")
MOST_WORDS = 30
"""Of an answer; those beyond do not count, and cost."""
MOST_SEARCH_CHARS = 300
"""Of all sub-questions together; more cost."""
TOO_MUCH_SEARCHED, WRONG_FORM, TOO_LONG = -0.5, -1.0, -1.0
"""The paper's penalties, by its released code."""


def answer_words(answer: str) -> list[str]:
    """The words of an answer that are compared, at most `MOST_WORDS`."""
    words = WORD.findall(answer.lower())[:MOST_WORDS]
    return [word for word in words if word not in ARTICLES]


def is_exact(answer: str | None, right: str) -> bool:
    """Whether an answer has the words of the right one, in its order; None is no answer."""
    return answer is not None and answer_words(answer) == answer_words(right)


def f1(answer: str | None, right: str) -> float:
    """The harmonic mean of precision and recall of an answer's words, whatever their order."""
    ours, theirs = answer_words(answer or ""), answer_words(right)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def search_penalty(searches: Sequence[str]) -> float:
    """More than four sub-questions, or more than 300 characters of them."""
    long = sum(map(len, searches)) > MOST_SEARCH_CHARS
    return TOO_MUCH_SEARCHED if len(searches) > MOST_SEARCHES or long else 0.0


def answer_penalty(answer: str | None) -> float:
    """An answer of more than 30 words."""
    return TOO_LONG if answer and len(answer.split()) > MOST_WORDS else 0.0
