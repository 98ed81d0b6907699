"""Texts that say nothing, or nothing true, made from any source and an honest pair of texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

from llm_marl_envs.envs.writing.words import STOP_WORDS, sentences_of, words_of

Pair = tuple[str, str]
Attack = Callable[[str, Pair, Random], Pair]
"""(source, honest texts of both authors, generator) -> texts of both authors."""

CONNECTIVES = (
    "however",
    "moreover",
    "therefore",
    "because",
    "and then",
    "in addition",
    "but",
    "so",
)
GERMAN = (
    "Der Nachbar hat gestern leider wieder seinen alten Wagen vor unserem Haus abgestellt.",
    "Der Nachbar hat gestern leider wieder seinen alten Wagen vor unserem Haus abgestellt. "
    "Meine Mutter findet das also lustig, mein Vater schimpft so laut durch den Garten, dass "
    "niemand still sitzt. Am Sonntag wollen wir mit ihm reden und Kuchen mitbringen.",
)
INVENTED = ("zorb flim gax trup wenno dral. ", "yalt quorp snell brinto vask plome rudd feen. ")
TEMPLATE = "The {} and the {} of the {} was in the {} because it had to {} with a {} for the {}."
AUXILIARY = re.compile(
    r"\b(is|are|was|were|has|have|had|can|could|will|would|may|must|should)\b", re.IGNORECASE
)
LONG = 3
"""How many times as long as the first text the second is where an attack chooses."""


def salad(text: str, rng: Random, window: int, length: int) -> str:
    """Windows of a source, joined by connectives, some of them ending a sentence."""
    words = words_of(text)
    window = min(window, len(words) - 1)
    out: list[str] = []
    while len(out) < length:
        start = rng.randrange(len(words) - window + 1)
        out += [*words[start : start + window], rng.choice(CONNECTIVES)]
        if rng.random() < 0.3:
            out[-1] += "."
    return " ".join(out)


def drop_words(text: str, rng: Random) -> str:
    """One word less in each sentence."""
    out = []
    for sentence in sentences_of(text):
        words = sentence.split()
        del words[rng.randrange(len(words))]
        out.append(" ".join(words))
    return "\n".join(out)


def each(change: Callable[[str, Random], str]) -> Attack:
    """Every sentence of the honest texts, changed."""

    def attack(source: str, honest: Pair, rng: Random) -> Pair:
        first, second = (
            " ".join(change(sentence, rng) for sentence in sentences_of(text)) for text in honest
        )
        return first, second

    return attack


def swapped(sentence: str, rng: Random) -> str:
    """The first and the last content word exchanged."""
    words = re.findall(r"\w+|\W+", sentence)
    content = [i for i, word in enumerate(words) if _is_content(word)]
    if len(content) > 1:
        first, last = content[0], content[-1]
        words[first], words[last] = words[last], words[first]
    return "".join(words)


def falsified(sentence: str, rng: Random) -> str:
    """A "not" that comes or goes, at the first verb that can bear one."""
    for old, new in ((r"\b(did|does|do) not\b", r"\1"), (r"\bnot (?=\w)", "")):
        if re.search(old, sentence):
            return re.sub(old, new, sentence, count=1)
    if AUXILIARY.search(sentence):
        return AUXILIARY.sub(r"\1 not", sentence, count=1)
    return re.sub(r"^(\S+) ", r"\1 never ", sentence, count=1)


def templated(source: str, honest: Pair, rng: Random) -> Pair:
    """One frame of function words around the content words of the source, in their order."""
    content = [word for word in words_of(source) if _is_content(word)]
    places = TEMPLATE.count("{}")
    sentences = [
        TEMPLATE.format(*content[start : start + places])
        for start in range(0, len(content) - places + 1, places)
    ] or [TEMPLATE.format(*(content * places)[:places])]
    return sentences[0], " ".join(sentences[1 : 1 + LONG] or sentences)


def shuffled(sentence: str, rng: Random) -> str:
    """The words of a sentence in any order."""
    words = sentence.rstrip(".").split()
    return " ".join(rng.sample(words, len(words))) + "."


def copied(source: str, honest: Pair, rng: Random) -> Pair:
    """The beginning of the source, and all of it."""
    sentences = sentences_of(source)
    return " ".join(sentences[: max(1, len(sentences) // LONG)]), source


def _is_content(word: str) -> bool:
    return word.isalnum() and word.lower() not in STOP_WORDS


ATTACKS: dict[str, Attack] = {
    "salad of the source": lambda source, honest, rng: (
        salad(source, rng, 4, 20),
        salad(source, rng, 4, 20 * LONG),
    ),
    "copy of the source": copied,
    "the source, one word less each": lambda source, honest, rng: (
        drop_words(copied(source, honest, rng)[0], rng),
        drop_words(source, rng),
    ),
    "a German text": lambda source, honest, rng: GERMAN,
    "invented words": lambda source, honest, rng: (INVENTED[0] * 2, INVENTED[1] * 2 * LONG),
    "a frame of function words": templated,
    "words shuffled": each(shuffled),
    "first and last words exchanged": each(swapped),
    "statements turned false": each(falsified),
    '"The liar said that ..."': each(lambda sentence, rng: f"The liar said that {sentence}"),
    '"None of this happened."': lambda source, honest, rng: (
        f"{honest[0]} None of this happened.",
        f"{honest[1]} None of this happened.",
    ),
    "the second author silent": lambda source, honest, rng: (honest[0], ""),
    "the first author silent": lambda source, honest, rng: ("", honest[1]),
    "nothing": lambda source, honest, rng: ("", ""),
}


def page_table() -> dict[str, dict[str, str]]:
    """Column -> attack -> what docs/writing.md says, of its table of attacks."""
    page = (Path(__file__).parents[2] / "docs" / "writing.md").read_text(encoding="utf-8")
    start = page.index("| texts of both authors |")
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page[start : page.index("\n\n", start)].splitlines()
    )
    return {
        column: {row[0]: row[number] for row in rows}
        for number, column in enumerate(head[1:], start=1)
    }
