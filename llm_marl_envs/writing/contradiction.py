"""Two contradictions that can be seen without understanding a text.

Owns them: a verb whose actors have changed places, and a word that is negated in one text only,
beside the same words. Both are heuristics on plain English; docs/writing.md says what they miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from llm_marl_envs.writing.words import CONNECTIVES, STOP_WORDS, is_verb_form, stem

NEGATION_REACH = 3
"""Words after a strong negator of which the first with content is negated."""

OPEN_REACH = 5
"""Words on either side of any negator whose own polarity is left open."""

SIDE = 3
"""Words that count on either side of a word when it is asked who did what to whom."""

_ACTORS = {
    **dict.fromkeys(("i", "me", "myself"), "i"),
    **dict.fromkeys(("we", "us", "ourselves"), "we"),
    **dict.fromkeys(("he", "him", "himself"), "he"),
    **dict.fromkeys(("she", "herself"), "she"),
    **dict.fromkeys(("they", "them", "themselves"), "they"),
}
# "her" is left out: it is as often a possessive as an object.

_BE = {"be", "is", "are", "was", "were", "been", "being"}
_DETERMINERS = {"a", "an", "the", "my", "your", "his", "her", "its", "our", "their"}
_PREPOSITIONS = {"for", "of", "in", "on", "at", "with", "from", "by", "during", "after", "before"}
_PREPOSITIONS |= {"as", "without", "beside"}
_BEFORE_NOUNS = {*_DETERMINERS, *_PREPOSITIONS, "to"}
_NUMBERS = {"two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "few", "many"}
_AFTER_NOUNS = {*_BE, "which", "that", "who", "can", "could", "will", "would", "may", "must"}
_AND = {"and", "or", "but", "while", "because", "although"}
_BEFORE_VERBS = {"to", "could", "can", "will", "would", "must", "may", "should", "not", *_ACTORS}
_STRONG = {"not", "never", "cannot"}
_WEAK = {"no", "none", "nobody", "nothing", "neither", "nor", "without", "refuses", "refuse"}
_WEAK |= {"refused", "fails", "fail", "failed", "hardly", "only", "until"}
Polarity = Literal["stated", "negated", "open"]
Sides = tuple[frozenset[str], frozenset[str]]
"""The stems and pronouns before and after a word, at most `SIDE` each."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a source says of whom, as far as the order of its words tells.

    Attributes:
        sides: stem or pronoun -> what stands beside it, at each of its places.
        polarities: content stem -> its polarities.
        negated: content stems that are negated wherever they stand.
        verbs: stems that stand in a verb's form or place, some nouns among them.
    """

    sides: Mapping[str, tuple[Sides, ...]]
    polarities: Mapping[str, frozenset[Polarity]]
    negated: frozenset[str]
    verbs: frozenset[str]


def read_said(sentences: Sequence[Sequence[str]]) -> Said:
    """Read sentences of lower-case words."""
    sides: dict[str, list[Sides]] = {}
    polarities: dict[str, set[Polarity]] = {}
    for sentence in sentences:
        for _, one, polarity in _polarities(sentence):
            polarities.setdefault(one, set()).add(polarity)
        if "by" not in sentence:  # in a passive the doer stands behind
            for _, one, beside in _sides(sentence):
                sides.setdefault(one, []).append(beside)
    return Said(
        sides={one: tuple(found) for one, found in sides.items()},
        polarities={one: frozenset(found) for one, found in polarities.items()},
        negated=frozenset(one for one, found in polarities.items() if found == {"negated"}),
        verbs=frozenset(one for sentence in sentences for one in _verbs(sentence)),
    )


def contradicts(said: Said, sentence: Sequence[str]) -> bool:
    """Whether a sentence of lower-case words can be seen to contradict what was said."""
    return _is_swapped(said, sentence) or _is_turned(said, sentence)


def _is_swapped(said: Said, sentence: Sequence[str]) -> bool:
    """Whether what stands before a verb stands only behind it in the source, and the reverse."""
    if "by" in sentence:
        return False
    nodes = _nodes(sentence)
    for i in range(1, len(nodes) - 1):
        (start, left), (place, one) = nodes[i - 1 : i + 1]
        seen = said.sides.get(one)
        # Asked first because it is rarely so.
        if not seen or not _only_behind(left, seen):
            continue
        # "waste sorting robots" and "the sewing machine" are things, "long" does nothing to
        # anybody, in "slow to listen", "for years", "five hours" and "cases are" nobody does
        # anything, "it is late and costs" has another subject, and in a passive the doer is not in
        # front.
        compound = sentence[place].endswith("ing") and nodes[i + 1][0] - start == 2
        thing = compound or sentence[place - 1] in _BEFORE_NOUNS | _NUMBERS
        thing = thing or sentence[place + 1] in _AFTER_NOUNS
        joined = not _AND.isdisjoint(sentence[start:place]) or _is_governed(sentence, start)
        passive = not _BE.isdisjoint(sentence[max(place - 2, 0) : place])
        if thing or joined or passive or not (is_verb_form(sentence[place]) or one in said.verbs):
            continue
        behind = _behind(sentence, nodes[i + 1 : i + 1 + SIDE]) - {left}
        if any(left in after and behind & before for before, after in seen):
            return True
    return False


def _only_behind(word: str, seen: Sequence[Sides]) -> bool:
    """Whether a word stands behind at some of these places, and before at none."""
    behind = False
    for before, after in seen:
        if word in before:
            return False
        behind = behind or word in after
    return behind


def _is_governed(sentence: Sequence[str], place: int) -> bool:
    """Whether a preposition stands before a noun and its determiner: "during the floods"."""
    start = place - (sentence[place - 1] in _DETERMINERS) if place else 0
    return start > 0 and sentence[start - 1] in _PREPOSITIONS


def _is_turned(said: Said, sentence: Sequence[str]) -> bool:
    """Whether a word is negated here and nowhere in the source, or the other way round.

    Only where it stands beside the same words: that she does not want it contradicts nothing that
    he wants.
    """
    if not _negating(sentence) and said.negated.isdisjoint(map(stem, sentence)):
        return False  # so most sentences end here
    turned = {
        place: one
        for place, one, polarity in _polarities(sentence)
        if polarity != "open" and said.polarities.get(one) == {_OPPOSITE[polarity]}
    }
    if not turned:
        return False
    for place, _, (before, after) in _sides(sentence):
        beside = before | after
        for others in said.sides.get(turned[place], ()) if place in turned else ():
            if not all(map(beside.isdisjoint, others)):
                return True
    return False


_OPPOSITE: Mapping[str, Polarity] = {"stated": "negated", "negated": "stated"}


def _verbs(sentence: Sequence[str]) -> list[str]:
    """Stems of words with a verb's ending, or behind what stands before a verb."""
    return [
        stem(word)
        for place, word in enumerate(sentence)
        if is_verb_form(word) or (place and sentence[place - 1] in _BEFORE_VERBS)
    ]


def _nodes(sentence: Sequence[str]) -> list[tuple[int, str]]:
    """Places of content stems and personal pronouns, these in one form each."""
    return [
        (place, _ACTORS.get(word) or stem(word))
        for place, word in enumerate(sentence)
        if word in _ACTORS or (word not in STOP_WORDS and word not in CONNECTIVES)
    ]


def _sides(sentence: Sequence[str]) -> list[tuple[int, str, Sides]]:
    """Nodes with what stands beside them; behind them, what a preposition governs is left out."""
    nodes = _nodes(sentence)
    found: list[tuple[int, str, Sides]] = []
    for i, (place, one) in enumerate(nodes):
        before = frozenset(other for _, other in nodes[max(i - SIDE, 0) : i])
        found.append((place, one, (before, _behind(sentence, nodes[i + 1 : i + 1 + SIDE]))))
    return found


def _behind(sentence: Sequence[str], nodes: Sequence[tuple[int, str]]) -> frozenset[str]:
    return frozenset(one for place, one in nodes if not _is_governed(sentence, place))


def _negating(sentence: Sequence[str]) -> list[int]:
    """Places of the words that negate one behind them."""
    return [i for i, word in enumerate(sentence) if word in _STRONG or word.endswith("n't")]


def _polarities(sentence: Sequence[str]) -> list[tuple[int, str, Polarity]]:
    """Places and stems of the content words of a sentence with their polarities."""
    strong = _negating(sentence)
    weak = [*strong, *(i for i, word in enumerate(sentence) if word in _WEAK)]
    negated: set[int] = set()
    for place in strong:
        following = range(place + 1, min(place + 1 + NEGATION_REACH, len(sentence)))
        if place + 1 < len(sentence) and sentence[place + 1] in _DETERMINERS | {"all"}:
            continue  # "but not the lie": a noun, of which nothing is stated
        first = next((i for i in following if sentence[i] not in STOP_WORDS), None)
        negated |= set() if first is None else {first}
    found: list[tuple[int, str, Polarity]] = []
    for i, word in enumerate(sentence):
        if word in STOP_WORDS or word in CONNECTIVES:
            continue
        near = any(abs(i - place) <= OPEN_REACH for place in weak)
        polarity = "negated" if i in negated else "open" if near else "stated"
        found.append((i, stem(word), polarity))
    return found
