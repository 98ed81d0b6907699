r"""Whether an answer is the right one, worked out, and in the form that was asked.

`3+4` is no answer to "What is 3+4?", nor is `x(x+5)+6` to "Factor x^2+5x+6.". An answer has the
value of the right one and leaves no more steps to the reader (`values.py`). Where the question
holds that value already, the answer is also written as the right one is. Answers, right answers
and questions are read by one reader (`reading.py`). What it cannot read is compared by its letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from llm_marl_envs.envs.math.plain import FONT, MOST_CHARS, plain, shown
from llm_marl_envs.envs.math.reading import (
    Node,
    UnreadableError,
    nodes,
    read,
    value_of,
)
from llm_marl_envs.envs.math.values import (
    Value,
    fraction,
    interval,
    is_sum,
    letters,
    scientific,
    worth,
    written,
)

DECIMALS = 6
"""A decimal with so many, and so many digits, stands for what it is rounded from: `0.333333`."""
INDEX = r"(?:_\{?[A-Za-z0-9]+\}?|'{1,2}|\^\{-1\})?"
NAME = re.compile(
    r"(?:(?<=,)|\A)\s*(?:\\?[A-Za-z]+"
    + INDEX
    + r"(?:\([A-Za-z0-9]\))?|\([a-z](?:,[a-z])+\))\s*=(?!=)"
)
MEMBER = re.compile(r"\A\s*[A-Za-z]\s*\\in(?![a-zA-Z])")
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|-?\.[0-9]+")
BOTH = re.compile(r"\\(pm|mp)(?![a-zA-Z])")
DOLLARS = re.compile(
    r"\$\$(.+?)\$\$|\$(.+?)\$|\\\(((?:(?!\\\().)+?)\\\)|(?<!\\)\\\[((?:(?!\\\[).)+?)\\\]", re.DOTALL
)
"""Formulas in a text. None holds its own beginning, so that a search is as long as the text."""
ENDS = r"\$+|\\[()\[\]]|[?!.](?=\s|\Z)"
SIGN = r"[-+*/^=<>_"
BETWEEN = (
    re.compile(ENDS + r"|(?<![\\A-Za-z{])(?:[A-Za-z]{2,}|a|I)(?![A-Za-z}])"),
    re.compile(
        rf"{ENDS}|(?<![\\A-Za-z])(?<!{SIGN}({{])(?<!{SIGN}] )"
        rf"(?:[A-Za-z]{{2,}}|a|I)(?![A-Za-z()}}]|\s?{SIGN}])"
    ),
)
"""What stands around the formulas of a plain text: words, then words but for those beside a sign
(`ab+ac`)."""
SIDES = re.compile(
    r"[=<>,;:&]|\\\\|\\(?:begin|end)\s*\{[^{}]*\}"
    r"|\\(?:le|ge|leq|geq|ne|neq|in|approx|l?dots|cdots|quad)(?![a-zA-Z])|"
    + FONT
    + r"\s*\{[^{}]*\}"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question holds.

    Attributes:
        values: of its formulas and of all their parts.
        told: those that are no numbers, or numbers that are written out (`0.75`, not `3+4`).
    """

    values: frozenset[Value]
    told: frozenset[Value]


def is_right(answer: str, right: str, question: str = "") -> bool:
    r"""Whether an answer is right, worked out, and in the form that was asked.

    Args:
        answer: as `answers.read_line` gives it.
        right: the right answer.
        question: what was asked; formulas stand between dollars, or between words.

    Returns:
        False also for what cannot be read, unless it is the right answer by its letters.
    """
    ours, theirs = shown(answer), shown(right)
    if theirs.unit and ours.unit and theirs.unit != ours.unit:
        return False
    if _letters(ours.text) == _letters(theirs.text):
        return True
    asked = _asked(question)
    return any(
        _agree(_tree(mine), _tree(due), asked)
        for text in _percent(ours.text, theirs.text, question, asked)
        for mine, due in _pairs(text, theirs.text)
    )


def _letters(text: str) -> str:
    """A text by its letters; case does not count."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _percent(ours: str, theirs: str, question: str, asked: Asked) -> Iterator[str]:
    """An answer; with the sign for per cent of the right one; without that of the question."""
    yield ours
    signs = ours.endswith("%"), theirs.endswith("%")
    if signs == (False, True) and NUMBER.fullmatch(ours):
        yield ours + "%"
    if signs == (True, False) and ("%" in question or "percent" in question):
        bare = ours.rstrip("\\% ")
        tree = _tree(bare)
        if tree is not None and worth(tree).value not in asked.told:
            yield bare


def _pairs(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    r"""What is compared: both as they are, then without the name of what was asked (`y=`)."""
    yield ours, theirs
    texts = [MEMBER.sub("", text) for text in (ours, theirs)]
    names = [{re.split(r"[_=]", name)[0].strip() for name in NAME.findall(text)} for text in texts]
    mine, due = (plain(NAME.sub("", text)) for text in texts)
    if max(map(len, names)) > 1 or "=" in due or (mine, due) == (ours, theirs):
        return
    yield mine, due


def _tree(text: str) -> Node | None:
    r"""A formula as it is read, of `3\pm 1` both numbers; None for what cannot be read."""
    try:
        if BOTH.search(text):
            signs = {"pm": "+-", "mp": "-+"}
            both = [BOTH.sub(lambda sign, at=at: signs[sign[1]][at], text) for at in (0, 1)]
            tree = Node("list", tuple(read(one) for one in both))
        else:
            tree = read(text)
        worth(tree)
    except UnreadableError:
        return None
    return tree


def _settled(node: Node) -> tuple[frozenset[str], Node]:
    """The letters of inequalities that are solved, and a formula with their intervals instead."""
    solved = interval(node)
    if solved is not None:
        return frozenset({solved[0]}), solved[1]
    if node.kind != "list":
        return frozenset(), node
    parts = [_settled(part) for part in node.of]
    names = frozenset(name for names, _ in parts for name in names)
    return names, Node("list", tuple(part for _, part in parts))


def _agree(ours: Node | None, theirs: Node | None, asked: Asked) -> bool:
    """Whether one formula is the other, worked out, and written so where the question holds it."""
    if ours is None or theirs is None:
        return False
    (names, mine), (others, due) = _settled(ours), _settled(theirs)
    if names and others and names != others:
        return False
    if mine.kind == "relation" != due.kind:
        return _agree(_said(mine, asked), theirs, asked)
    if mine.kind == "list" and (due.kind, due.text) == ("group", "()"):
        mine = _tuple(mine)
    right = worth(due)
    held = asked.values if right.steps else asked.told
    if right.value in held and written(ours) != written(theirs):
        return False
    if due.kind == mine.kind and due.kind in ("list", "group", "matrix"):
        return _members_agree(mine, due, asked)
    if due.kind == mine.kind == "relation" and (sides := _solved(mine, due)) is not None:
        return _agree(*sides, asked)
    made = worth(mine)
    if made.value != right.value:
        return _rounded(mine, right.number)
    same_shape = not letters(right.value) or is_sum(mine) == is_sum(due)
    return made.steps <= right.steps and same_shape


def _tuple(found: Node) -> Node:
    """The pair `(2,3)` that `x=2, y=3` says; another list as it is."""
    pairs = [part.of for part in found.of if (part.kind, part.text) == ("relation", "=")]
    if len(pairs) < len(found.of) or any(name.kind != "name" for name, _ in pairs):
        return found
    values = {name.text: value for name, value in pairs}
    return Node("group", tuple(values[name] for name in sorted(values)), "()")


def _said(equation: Node, asked: Asked) -> Node | None:
    """What an equation says: `3` in `x=3` and in `3=x`; the last side of `2+5=7` and of `x+y=7`.

    Not of an equation of the question; nor of several that do not hold as they stand.
    """
    if set(equation.text.split()) != {"="}:
        return None
    sides = [side for side in equation.of if side.kind != "name"] or list(equation.of)
    lettered = all(part.kind != "number" for part in nodes(sides[0]))
    new = lettered and len(sides) == 2 and worth(equation).value not in asked.values
    return sides[-1] if new or len({worth(side).value for side in sides}) == 1 else None


def _members_agree(ours: Node, theirs: Node, asked: Asked) -> bool:
    """Whether lists, tuples, intervals or matrices agree in every element."""
    if len(ours.of) != len(theirs.of) or ours.text != theirs.text:
        return False
    mine, due = list(ours.of), list(theirs.of)
    if ours.kind == "list":
        for parts in (mine, due):
            parts.sort(key=lambda part: repr(worth(_settled(part)[1]).value))
    return all(_agree(one, other, asked) for one, other in zip(mine, due, strict=True))


def _solved(ours: Node, theirs: Node) -> tuple[Node | None, Node | None] | None:
    """What equations say of the letter that the right one is solved for; None where it is not.

    An equation that is solved for no letter may stand for one with letters on both sides.
    """
    if ours.text != "=" or theirs.text != "=":
        return None
    for letter, due in (theirs.of, theirs.of[::-1]):
        if letter.kind != "name":
            continue
        mine = next((b for a, b in (ours.of, ours.of[::-1]) if a == letter), None)
        if mine is not None or not letters(worth(due).value):
            return mine, due
    return None


def _rounded(ours: Node, right: Fraction | None) -> bool:
    """Whether a decimal is a fraction that no decimal is, rounded or cut at its last place."""
    bare = ours.of[0] if ours.kind == "minus" else ours
    decimals = len(bare.text.partition(".")[2])
    if right is None or bare.kind != "number" or decimals < DECIMALS or "(" in bare.text:
        return False
    if pow(10, MOST_CHARS, right.denominator) == 0 or (ours.kind == "minus") != (right < 0):
        return False
    places = abs(right) * 10**decimals
    if places < 10 ** (DECIMALS - 1):  # 0.0000000003 has one digit
        return False
    return value_of(bare.text) * 10**decimals in (int(places), round(places))


@lru_cache(maxsize=1024)
def _asked(question: str) -> Asked:
    """What a question holds, in formulas between dollars and between words."""
    between = ["".join(found) for found in DOLLARS.findall(question)]
    values: set[Value] = set()
    told: set[Value] = set()
    around = [piece for words in BETWEEN for piece in words.split(question)]
    for piece in {*between, *around}:
        whole = _tree(shown(piece).text)
        trees = [whole] if whole else [_tree(shown(side).text) for side in SIDES.split(piece)]
        for tree in trees:
            for node in nodes(tree) if tree else ():
                made = worth(_settled(node)[1])
                values.add(made.value)
                if made.number is None or _literal(node):
                    told.add(made.value)
    return Asked(frozenset(values), frozenset(told))


def _literal(node: Node) -> bool:
    """Whether a number is written out: whole, decimal, fraction, per cent, mixed, scientific."""
    if node.kind in ("minus", "percent"):
        return _literal(node.of[0])
    if node.kind == "power":
        return node.of[0].text == "10"
    return node.kind in ("number", "mixed", "based") or scientific(node) or fraction(node)
