"""The reward `paper`: the four gated terms of MAGRPO's writing tasks, of at most 3.0.

The paper is Liu et al., "LLM Collaboration With Multi-Agent Reinforcement Learning". Owns its
numbers. It never looks at the source, so it can be earned with made-up words; `grounded` is the
default for that reason. "Second / first" is the ratio of the second author's text to the first's.

| term | pays | of | TLDR | arXiv |
|---|---|---|---|---|
| structure | 0.5 or nothing | words of each text | 8 to 256 | 128 to 256 |
| length | up to 1.0 | characters, second / first | full 1.6 to 3.2 | full 1.0 to 1.3 |
| | | | zero at 1.1 and 5.0 | zero at 0.8 and 1.5 |
| vocabulary | up to 0.5 | distinct content words, 2nd / 1st | full from 2.0 | full 0.7 to 1.3 |
| | | | zero at 1.3 | zero at 0.5 and 1.7 |
| style | 0.4 T + 0.6 J | T: transitions in | second text | both texts |
| | | J: overlap, capped at | 0.03 | 0.23 |

The papers have two authors. Of three texts each term is that of the pair that earns least of it, so
no pair makes up for another: of a post the pairs are the brief with each other text, of an abstract
any two in their order.

Beyond its zeros a term stops the ones after it; between zero and full it is linear. J is the
Jaccard index of the texts' distinct content words over its cap, at most 1. T grows with the number
n of categories of transition phrases: min(1, c ln(n + 1)), c = 0.6 for TLDR and 0.4 for arXiv.

Decisions, where the papers, the published reward and its logger differ or leave room:

1. arXiv length: 1.0 to 1.3 as in papers and logger; the reward file has 1.3 to 1.6.
2. Vocabulary counts without stop words, as papers and logger say; the reward file counts all.
3. T is the logarithm of the follow-up paper (arXiv 2601.21972), taken as natural; the code has
   0.4 + 0.05 (n - 1), which never reaches 1.
4. Transition phrases are whole words: the code finds "so" in "also".
5. Words are those of `words.py`: punctuation is no part of them, and its stop list is our own.
6. The phrases of `transitions.py` are our own; the twelve categories are the paper's.
7. Several turns pay the gain of the score, so the last text decides, as in the paper's baseline
   "discussion", where only the second round is scored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from llm_marl_envs.envs.writing.documents import Kind
from llm_marl_envs.envs.writing.transitions import categories_in
from llm_marl_envs.envs.writing.words import STOP_WORDS, clean, words_of

MAXIMUM = 3.0
STRUCTURE, LENGTH, VOCABULARY, STYLE = 0.5, 1.0, 0.5, 1.0
TRANSITION_SHARE, OVERLAP_SHARE = 0.4, 0.6

Trapezoid = tuple[float, float, float, float]
"""Zero, full, full, zero: where a slope begins, ends, and the falling one begins and ends."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The thresholds of one task.

    Attributes:
        words: least and most words of each text.
        length: of the ratio of characters.
        vocabulary: of the ratio of distinct content words.
        transitions: factor of the logarithm.
        both: whether transitions of the first text count too.
        cap: Jaccard index that earns everything.
    """

    words: tuple[int, int]
    length: Trapezoid
    vocabulary: Trapezoid
    transitions: float
    both: bool
    cap: float


NUMBERS: dict[Kind, Numbers] = {
    "post": Numbers(
        (8, 256), (1.1, 1.6, 3.2, 5.0), (1.3, 2.0, math.inf, math.inf), 0.6, False, 0.03
    ),
    "abstract": Numbers((128, 256), (0.8, 1.0, 1.3, 1.5), (0.5, 0.7, 1.3, 1.7), 0.4, True, 0.23),
}


def paper_terms(kind: Kind, texts: Sequence[str]) -> dict[str, float]:
    """The four terms for texts; they sum to the score in [0, 3]."""
    first, *others = texts
    pairs = [(first, other) for other in others] if kind == "post" else combinations(texts, 2)
    of_pairs = [_terms_of_pair(kind, pair) for pair in pairs]
    return {name: min(terms[name] for terms in of_pairs) for name in of_pairs[0]}


def _terms_of_pair(kind: Kind, texts: tuple[str, str]) -> dict[str, float]:
    numbers = NUMBERS[kind]
    terms = {"structure": 0.0, "length": 0.0, "vocabulary": 0.0, "style": 0.0}
    first, second = (words_of(text) for text in texts)
    low, high = numbers.words
    if not (low <= len(first) <= high and low <= len(second) <= high):
        return terms
    terms["structure"] = STRUCTURE
    length = trapezoid(len(clean(texts[1]).strip()) / len(clean(texts[0]).strip()), numbers.length)
    if length is None:
        return terms
    terms["length"] = LENGTH * length
    content = [set(words) - STOP_WORDS for words in (first, second)]
    if not content[0]:
        return terms
    vocabulary = trapezoid(len(content[1]) / len(content[0]), numbers.vocabulary)
    if vocabulary is None:
        return terms
    terms["vocabulary"] = VOCABULARY * vocabulary
    categories = categories_in(second) | (categories_in(first) if numbers.both else frozenset())
    style = TRANSITION_SHARE * transitions(len(categories), numbers.transitions)
    overlap = len(content[0] & content[1]) / len(content[0] | content[1])
    terms["style"] = STYLE * (style + OVERLAP_SHARE * min(overlap, numbers.cap) / numbers.cap)
    return terms


def trapezoid(x: float, corners: Trapezoid) -> float | None:
    """0 to 1 to 1 to 0 over the corners, linear between them; None outside of them."""
    zero, full, still, end = corners
    if not zero <= x <= end:
        return None
    if x < full:
        return (x - zero) / (full - zero)
    return 1.0 if x <= still else (end - x) / (end - still)


def transitions(n: int, factor: float) -> float:
    """T for `n` categories, in [0, 1]."""
    return min(1.0, factor * math.log(n + 1))
