"""Quotations from a source: which lines of a statement quote it, and how a judge is shown them.

A line `Quote: <text>` quotes. It is verified if its text is one whole line (or sentence) of the
source, spaces and Unicode form aside: half a sentence can say the opposite of the whole. Verified
quotations are shown behind `Verified: `, everything else that a debater writes behind `> `, so a
debater cannot write a line that passes for a verified one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from llm_marl_envs.core.parsing import lines_of as text_lines
from llm_marl_envs.core.parsing import quote
from llm_marl_envs.core.texts import told

MARK = "quote:"
VERIFIED = "Verified: "
STRUCK = "Struck: a quotation that is not in the source, or one too many."
# Not after an abbreviation or an initial, nor before a small letter: half a sentence could be
# quoted, and errors in the other direction only make quotations longer.
SHORT = (
    *("[A-Z]", "Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Jr", "Sr"),
    *("No", "vs", "cf", r"e\.g", r"i\.e"),
)
SENTENCE_END = re.compile(
    "".join(rf"(?<!\b{short}\.)" for short in SHORT) + r"(?<=[.!?])\s+(?![a-z])"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A debater's statement, read.

    Attributes:
        agent: who made it.
        lines: (text, whether it is a verified quotation), in order; struck ones are left out.
        struck: how many quotations were not shown.
        verified: the verified quotations, as the source writes them.
    """

    agent: str
    lines: tuple[tuple[str, bool], ...]
    struck: int
    verified: tuple[str, ...]


def lines_of(texts: Sequence[str]) -> tuple[str, ...]:
    """What can be quoted: the sentences of every line, each once, in order."""
    sentences: dict[str, None] = {}
    for text in texts:
        for line in text_lines(text):
            for sentence in SENTENCE_END.split(line.strip()):
                if sentence:
                    sentences[sentence] = None
    return tuple(sentences)


def folded(text: str) -> str:
    """What two texts have in common that differ in spaces and Unicode form (NFC) only."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def read_statement(
    agent: str, text: str, source: Sequence[str], limit: int, before: Collection[str] = ()
) -> Statement:
    """Read a statement: sort its quotations into verified and struck.

    Args:
        agent: who made it.
        text: any text; thinking is left out.
        source: what can be quoted, as `lines_of` gives it.
        limit: how many quotations count; later ones are struck.
        before: quotations of this agent's earlier statements; repeating one is struck.
    """
    lines = {folded(line): line for line in source}
    shown: list[tuple[str, bool]] = []
    taken: set[str] = set(before)
    struck = 0
    for line in text_lines(told(text)):
        bare = line.strip()
        if bare[: len(MARK)].lower() != MARK:
            shown.append((line, False))
            continue
        quote = lines.get(folded(bare[len(MARK) :]))
        if quote is None or quote in taken or len(taken) - len(before) >= limit:
            struck += 1
        else:
            taken.add(quote)
            shown.append((quote, True))
    verified = tuple(text for text, is_quote in shown if is_quote)
    return Statement(agent, tuple(shown), struck, verified)


def shown(statement: Statement, speech: bool) -> str:
    """A statement as judge and opponent are shown it; `speech`: own words too."""
    lines = [f"{statement.agent} says:"]
    for text, is_quote in statement.lines:
        if is_quote:
            lines.append(VERIFIED + text)
        elif speech:
            lines.append(quote(text))
    if statement.struck:
        lines.append(STRUCK)
    return "\n".join(lines)
