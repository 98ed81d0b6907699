"""Messages of a signalling game: what is heard of a text, and how many messages there are.

    the speaker writes    "Message: ku ba"        at most 3 of the tokens ba, di, ku, mo
    the listener reads    "ku ba"

In the languages "tokens" and "renamed" a message is a sequence of tokens, and nothing else of the
text is heard: case, spaces and what stands around it carry nothing. In "renamed" every seat has its
own names for the tokens, drawn anew for each episode, so "ku ba" may be read as "mo di". What
survives is how many tokens there are and which of them are the same (`pattern`). In "words" any
text is a message.

All is exact: `count` says how many messages can be told apart, and `best` what the best team earns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, product
from string import ascii_lowercase

import numpy as np

from llm_marl_envs.core.parsing import answer_of, lines_of
from llm_marl_envs.core.texts import told

TOKENS = ("ba", "di", "ku", "mo")
"""The alphabet: in alphabetical order, so that its listing says nothing of names."""
LANGUAGES = ("tokens", "renamed", "words")
WORDS = LANGUAGES[2]
RENAMED = LANGUAGES[1]
MARK = "message:"
PAIRS_AT_ONCE = 1 << 12
"""So that a table of them stays in a processor's cache."""

Message = tuple[int, ...]
"""Numbers of tokens in the alphabet."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What is left of a speaker's text.

    Attributes:
        text: of the message; "" for none.
        readable: the text has the form that was asked for.
        cut: the message was longer than the budget.
    """

    text: str
    readable: bool
    cut: bool

    @property
    def tokens(self) -> Message:
        """The message as numbers; of a message of tokens only."""
        return tuple(map(TOKENS.index, self.text.split()))


def hear(text: str, language: str, budget: int) -> Heard:
    """What is heard of a text.

    Args:
        text: of a model.
        language: one of `LANGUAGES`.
        budget: most tokens; of "words", most characters.
    """
    if language == WORDS:
        statement = " ".join(told(text).split())
        return Heard(statement[:budget].strip(), True, len(statement) > budget)
    lines = [line.strip().lower() for line in lines_of(answer_of(text))]
    rows = [
        line.removeprefix(MARK).split()
        for line in lines
        if line and set(line.removeprefix(MARK).split()) <= set(TOKENS)
    ]
    if len(rows) != 1:
        return Heard("", not any(lines), False)  # an empty text is a message, too
    return Heard(spelled(map(TOKENS.index, rows[0][:budget])), True, len(rows[0]) > budget)


def spelled(message: Iterable[int]) -> str:
    """A message of tokens as it is written."""
    return " ".join(TOKENS[token] for token in message)


def renamed(message: Message, names: Sequence[int]) -> Message:
    """A message with token i called `names[i]`."""
    return tuple(names[token] for token in message)


def messages(alphabet: int, budget: int) -> Iterator[Message]:
    """Every message of at most `budget` tokens, shorter ones first; the first is the empty one."""
    sizes = range(budget + 1)
    return chain.from_iterable(product(range(alphabet), repeat=size) for size in sizes)


def pattern(message: Message) -> Message:
    """What every renaming leaves: the number of tokens, and which of them are the same.

    Tokens are numbered as they first occur: (2, 0, 2) has the pattern (0, 1, 0).
    """
    order = list(dict.fromkeys(message))
    return tuple(map(order.index, message))


def patterns(alphabet: int, budget: int) -> Iterator[Message]:
    """Every pattern of at most `budget` tokens, shorter ones first."""
    return (message for message in messages(alphabet, budget) if pattern(message) == message)


def count(alphabet: int, budget: int, *, names_kept: bool) -> int:
    """How many messages a listener can tell apart, the empty one among them.

    The sum over lengths up to `budget` of alphabet**length; where names are drawn anew, of the ways
    to divide so many places into at most `alphabet` classes (Stirling numbers of the second kind).
    """
    if names_kept:
        return sum(alphabet**size for size in range(budget + 1))
    classes = [1] + [0] * alphabet  # ways to divide `size` places into so many classes
    total = 1
    for _ in range(budget):
        more = zip(range(1, alphabet + 1), classes[1:], classes, strict=False)
        classes = [0, *(k * same + new for k, same, new in more)]
        total += sum(classes)
    return total


def told_apart(language: str, budget: int) -> int:
    """As `count`, of a language of `LANGUAGES`; of "words" as many as there are letters."""
    if language == WORDS:
        return len(ascii_lowercase) if budget else 1
    return count(len(TOKENS), budget, names_kept=language != RENAMED)


def best(distinct: int, candidates: int) -> float:
    """How often the best team is right: `distinct` messages, a target drawn from `candidates`.

    Both seats know the candidates, and no order of them. So they can agree on a message for each,
    as long as there are messages (pigeonhole): every message leads to one choice, which is right
    for one target.
    """
    return min(distinct, candidates) / candidates


def nth(number: int, language: str, budget: int) -> str:
    """The `number`-th message that a listener can tell from those before it, from 0.

    Where there are fewer, the last one. The first 26 are known.
    """
    texts = _first(language, budget)
    return texts[min(number, len(texts) - 1)]


@lru_cache(maxsize=64)
def _first(language: str, budget: int) -> tuple[str, ...]:
    if language == WORDS:
        return tuple(ascii_lowercase) if budget else ("",)
    kinds = patterns if language == RENAMED else messages
    return tuple(map(spelled, islice(kinds(len(TOKENS), budget), len(ascii_lowercase))))


def edit_distance(first: Sequence[object], second: Sequence[object]) -> int:
    """How many insertions, deletions and replacements make one of the other (Levenshtein 1966)."""
    row = list(range(len(second) + 1))
    for i, mine in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, theirs in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (mine != theirs))
    return row[-1]


def edit_distances(texts: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """`edit_distance` of each two, (n, n) whole numbers, many pairs at a time."""
    n, most = len(texts), max(map(len, texts), default=0)
    numbers: dict[Hashable, int] = {}
    symbols = np.full((most, n), -1, dtype=np.int32)  # -1 beyond a text's end
    for at, text in enumerate(texts):
        symbols[: len(text), at] = [numbers.setdefault(symbol, len(numbers)) for symbol in text]
    lengths = np.array([len(text) for text in texts], dtype=np.int32)
    distances = np.zeros((n, n), dtype=np.int32)
    above = [np.argsort(lengths)[side] for side in np.triu_indices(n, 1)]  # alike in length
    for start in range(0, len(above[0]), PAIRS_AT_ONCE):
        i, j = (side[start : start + PAIRS_AT_ONCE] for side in above)
        apart = _pairwise(symbols[:, i], lengths[i], symbols[:, j], lengths[j])
        distances[i, j] = distances[j, i] = apart
    return distances


def _pairwise(
    ones: np.ndarray, one_lengths: np.ndarray, others: np.ndarray, other_lengths: np.ndarray
) -> np.ndarray:
    """The table of `edit_distance` for all pairs at once.

    Args:
        ones: a text of each pair, (longest, pairs).
        one_lengths: (pairs,).
        others: the other text of each pair, (longest, pairs).
        other_lengths: (pairs,).
    """
    columns, every = int(other_lengths.max(initial=0)), np.arange(len(one_lengths))
    row = np.repeat(np.arange(columns + 1, dtype=np.int32)[:, None], len(every), axis=1)
    distances = row[other_lengths, every]  # of empty texts
    for i in range(int(one_lengths.max(initial=0))):
        before, row = row, np.empty_like(row)
        row[0] = i + 1
        for j in range(columns):
            np.minimum(before[j + 1], row[j], out=row[j + 1])
            row[j + 1] += 1
            np.minimum(row[j + 1], before[j] + (ones[i] != others[j]), out=row[j + 1])
        ends = np.flatnonzero(one_lengths == i + 1)
        distances[ends] = row[other_lengths[ends], ends]
    return distances
