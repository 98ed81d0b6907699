"""Two claims about a question, one right and one wrong, and what lines of a source say of them.

The reading of lines covers the generated kinds in which a single line can refute a claim (`KINDS`
here); of other sources it only sees whether a line holds the claim's words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.core.texts import BRACKETS
from llm_marl_envs.envs.questions import Question, canonical, is_right

KINDS = ("suspects", "meeting", "order", "lost", "games")
"""Generated kinds whose every wrong answer is refuted by one line of the evidence."""
MEMBERS = re.compile(r"(?:Time [0-9]+, at the scene|Calendar [0-9]+, free): (.*)")
OTHERS = re.compile(r"(?:Time [0-9]+, elsewhere|Calendar [0-9]+, busy): (.*)")
OLDER = re.compile(r"\[([^]]*)\] is older than \[([^]]*)\]")
WORDS = re.compile(r"\w+")
SETTLED = re.compile(r"(?:It is (\w+), not (\w+)|(\w+) beat (\w+))\.")


@dataclass(frozen=True, slots=True)
class Claims:
    """What each side stands for.

    Attributes:
        pro: the claim of the pro side.
        con: the claim of the con side.
        pro_right: whether pro's claim is the right answer; else con's is.
    """

    pro: str
    con: str
    pro_right: bool

    @property
    def right(self) -> str:
        """The right claim."""
        return self.pro if self.pro_right else self.con


def claims_of(question: Question) -> Claims:
    """The two claims, decided by what is asked: which wrong answer, and who is right, by chance.

    Every wrong choice is equally likely, so the claims say nothing of which is right. Of several
    right answers the first is claimed.

    Raises:
        ValueError: the question names no wrong answer.
    """
    wrong = [choice for choice in question.choices if not is_right(question, choice)]
    if not wrong and question.lure and not is_right(question, question.lure):
        wrong = [question.lure]
    if not wrong:
        raise ValueError(
            f"two sides need a wrong answer: {question.text!r:.60} brings neither `choices` nor a "
            "`lure`"
        )
    rng = random.Random(_asked(question))
    right, other = (" ".join(text.split()) for text in (question.answer, rng.choice(wrong)))
    pro_right = rng.random() < 0.5
    pair = (right, other) if pro_right else (other, right)
    return Claims(*pair, pro_right)


def _asked(question: Question) -> str:
    """What decides the claims. Rows may differ in their text alone, as yes-or-no questions do."""
    key = f"claims/{question.identity()}/{canonical(question.answer)}"
    return key if question.parts else f"{key}/{question.text}"


def bearing(line: str, claim: str) -> int:
    """What one line says of a claim: -1 refutes it, 1 supports it, 0 neither."""
    words = claim.split()
    if match := MEMBERS.fullmatch(line):
        return 1 if claim in BRACKETS.findall(match[1]) else -1
    if match := OTHERS.fullmatch(line):
        return -1 if claim in BRACKETS.findall(match[1]) else 0
    if match := OLDER.fullmatch(line):
        return -1 if claim == match[2] else int(claim == match[1])
    if match := SETTLED.fullmatch(line):
        true, other = match[1] or match[3], match[2] or match[4]
        return -1 if other in words else int(true in words)
    spoken = " ".join(WORDS.findall(line.casefold()))
    return int(f" {canonical(claim)} " in f" {spoken} ")


def judged(claims: Sequence[str], lines: Sequence[str]) -> str:
    """The claim that the lines speak for: least refuted, then best supported, then the first."""
    bearings = {claim: [bearing(line, claim) for line in lines] for claim in claims}
    return max(claims, key=lambda c: (-bearings[c].count(-1), bearings[c].count(1)))


def useful(own: str, other: str, lines: Sequence[str], against: bool) -> list[str]:
    """Lines worth quoting for `own`, the best first: against `other`, or for `own`.

    Lines that refute `own` are never among them, nor are those that say nothing.
    """
    best = sorted(
        (line for line in lines if bearing(line, own) >= 0),
        key=lambda line: (
            (bearing(line, other), -bearing(line, own))
            if against
            else (-bearing(line, own), bearing(line, other))
        ),
    )
    return [line for line in best if bearing(line, other) < 0 or bearing(line, own) > 0]
