r"""Whether an answer is worked out, or leaves to the reader what was asked.

`3+4` is no answer to "What is 3+4?", nor are `{3+4}`, `y=3+4` and `\max(3+4)`. What only wraps a
formula is taken off on both sides (`bare`). Then three things must hold: no more steps are left
than in the right answer (`readings.py`), there is hardly more in it than in the right answer, and
no formula of the question. Owns no comparison: a worked out answer can be a wrong one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from llm_marl_envs.envs.math.readings import (
    MOST_POWER,
    Reading,
    UnreadableError,
    parts,
    read,
)

MORE = 2
"""How many numbers, letters and functions more than a right answer that is no number."""
MOST_CHARS = 1000
"""Of a formula that is read; a question's longer one is not looked at."""
SIGNS = str.maketrans(
    {"\u2212": "-", "\u2013": "-", "\u00d7": "*", "·": "*", "⋅": "*", "÷": "/"}
    | {"π": "\\pi ", "∞": "\\infty ", "°": "", "≤": "\\le ", "≥": "\\ge ", "\u2208": "\\in "}
    | {"\u222a": "\\cup ", "∅": "\\emptyset ", "\u00a0": " ", "\u2009": " ", "\u202f": " "}
)
FONT = r"\\(?:boxed|fbox|text(?:bf|it|rm|normal)?|mbox|math(?:rm|bf|it|sf|tt)|bold(?:symbol)?)"
END = r"(?![a-zA-Z])"
PLAIN = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\{,\}|,\\!", ","),
        (r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|q?quad|degree)" + END, " "),
        (r"(?<!\\)\\[,;:! ()\[\]$]|\$|~", " "),
        (r"\\[lr][vV]ert" + END, "|"),
        (r"\^\s*(?:\\circ" + END + r"|\{\s*\\circ\s*\})", ""),
        (r"\\[dtc]frac" + END, r"\\frac"),
        (r"\\(?:cdot|times|ast)" + END, "*"),
        (r"\\div" + END, "/"),
        (r"\\l[cb]?r?brace" + END, r"\\{"),
        (r"\\r[cb]?r?brace" + END, r"\\}"),
        (r"\\operatorname\s*\*?\s*\{\s*([a-zA-Z]+)\s*\}", r"\\\1 "),
        (r",?\s*" + FONT + r"\s*\{[\s,]*(?:and|or)[\s,]*\}|,?\s(?:and|or)(?=\s)", ","),
        (r"(?<=[^\s,])\s*\\(?:text|mbox|mathrm)\s*\{[^{}]*\}(?:\^\s*\{?[0-9]\}?)?\s*\Z", ""),
        (FONT + r"\s*(?=\{)", ""),
    )
)
NAME = re.compile(r"(?:(?<=,)|\A)\s*(\\?[A-Za-z][A-Za-z0-9_'{}\\]{0,9}(?:\([a-z]\))?)\s*=(?!=)")
MEMBER = re.compile(r"\A\s*[A-Za-z]\s*\\in" + END)
THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
UNIT = re.compile(r"([0-9}%])\s+(?!(?:pi|sqrt|sin|cos|tan|log|ln|i|e)\b)[A-Za-z][A-Za-z. ]+\Z")
MATRIX = re.compile(r"\\(?:begin|end)\s*\{[a-zA-Z]*\}")
BETWEEN = re.compile(
    r"\$+|\\\(|\\\)|(?<!\\)\\\[|\\\]|(?<![\\a-zA-Z{])(?:[a-zA-Z]{2,}|a|I)(?![a-zA-Z}])|[?!.](?=\s|\Z)"
)
"""What stands around the formulas of a question: dollars, words, the ends of sentences."""
SIDES = re.compile(r"[=<>,;&]|\\\\|\\(?:le|ge|leq|geq|ne|neq|in|approx)(?![a-zA-Z])")
FORMS = tuple(map(re.compile, (r"%", r"[.]", r"/|\\frac|:", r"[*^]")))
"""How a number can be written, beside whole: per cent, decimal, fraction, product."""


def plain(text: str) -> str:
    """A formula without what only shows it otherwise: spaces, fonts, boxes, brackets around it."""
    formula = text.translate(SIGNS).strip().removesuffix(".")
    for pattern, instead in PLAIN:
        formula = pattern.sub(instead, formula)
    before = ""
    while formula != before:
        before = formula
        formula = _inside(formula.strip().removesuffix(".").strip())
    return formula


def _inside(text: str) -> str:
    """What stands in the brackets around a text; itself without them, or with a comma in them."""
    if not text or text[0] not in "({" or text[-1] != {"(": ")", "{": "}"}[text[0]]:
        return text
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if (depth == 0 and at < len(text) - 1) or (depth == 1 and sign in ",;"):
            return text
    return text[1:-1] if text[-2:-1] != "\\" else text


def bare(answer: str, right: str) -> tuple[str, str]:
    r"""Both without what wraps them, and without the name of what was asked (`y=`, `x\in`)."""
    formulas = [plain(MEMBER.sub("", plain(text))) for text in (answer, right)]
    names = set(NAME.findall(formulas[1]))
    ours, theirs = (plain(NAME.sub("", text)) for text in formulas)
    if len(names) > 1 or "=" in theirs or (names and "=" in ours):
        return formulas[0], formulas[1]
    return plain(ours.rpartition("=")[2]), theirs


@lru_cache(maxsize=4096)
def reading(text: str) -> Reading | None:
    """A formula, as `plain` gives it, as it is read; None where it cannot be."""
    formula = MATRIX.sub(" ", UNIT.sub(r"\1", text))
    if THOUSANDS.fullmatch(formula):
        formula = formula.replace(",", "")
    try:
        return read(formula) if len(formula) <= MOST_CHARS else None
    except UnreadableError:
        return None


def same_number(answer: str, right: str) -> bool:
    r"""Whether both are one number: `75\%`, `1\frac{1}{2}`, `\frac{-1}{2}`."""
    ours, theirs = reading(answer), reading(right)
    if ours is None or theirs is None:
        return False
    return ours.number and theirs.number and ours.term == theirs.term


def worked_out(answer: str, right: str, question: str = "") -> bool:
    """Whether an answer leaves no more to be worked out than the right one.

    Args:
        answer: as `answers.read_line` gives it.
        right: the right answer.
        question: what was asked; formulas stand between dollars, or between words.

    Returns:
        False also for what cannot be read: brackets that do not close, an exponent above both
        `MOST_POWER` and those of the right answer.
    """
    ours, theirs = (reading(text) for text in bare(answer, right))
    if ours is None or theirs is None:
        return False
    if ours.folds > theirs.folds or ours.largest > max(MOST_POWER, theirs.largest):
        return False
    if not ours.functions <= theirs.functions:
        return False
    if ours.term == theirs.term and (not ours.folds or ours.size <= theirs.size):
        forms = [_form(text) for text in bare(answer, right)]
        return forms[0] == forms[1] or (forms[0], ours.term) not in _asked(question)
    if ours.number or theirs.number:
        return ours.number
    if ours.size > theirs.size + MORE * (not theirs.folds):
        return False
    own, due = set(parts(ours.term)), set(parts(theirs.term))
    if any(map(_below, own)) and not any(map(_below, due)):
        return False  # (x^2+3x)(x-5)/x
    return not {(FORMULA, part) for part in own - due} & _asked(question)


def _below(part: Any) -> bool:
    """Whether a part of a formula is what it is divided by: letters, no number and no function."""
    if part[0] != "pow":
        return False
    (_, base), (power, _) = part[1]
    return power < 0 and base is not None and base[0] != "call"


FORMULA = "formula"


def _form(text: str) -> str:
    """How a number is written, the first of `FORMS`; "" for a whole one."""
    return next((form.pattern for form in FORMS if form.search(text)), "")


@lru_cache(maxsize=1024)
def _asked(question: str) -> frozenset[tuple[str, Any]]:
    """The formulas of a question, with the sides of an equation and the members of a list.

    Each is `FORMULA` and what `readings.parts` gives, or of a number its form and its value.
    """
    formulas: set[tuple[str, Any]] = set()
    for segment in BETWEEN.split(question):
        for text in {segment, *SIDES.split(segment)}:
            shown = plain(text)
            asked = reading(shown) if shown else None
            if asked is None:
                continue
            if asked.number:
                formulas.add((_form(shown), asked.term))
            elif asked.size > 1 and asked.term[1] is not None:
                formulas |= {(FORMULA, part) for part in parts(asked.term) if part[0] == "root"}
                formulas.add((FORMULA, asked.term[1]))
    return frozenset(formulas)
