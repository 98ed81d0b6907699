r"""What only shows a formula otherwise is taken off: spaces, fonts, boxes, dollars, a unit.

`\boxed{12\text{ cm}}` is shown as `12` and has the unit `cm`. Owns no mathematics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SIGNS = str.maketrans(
    {
        "\u2212": "-",
        "\u2013": "-",
        "\u00d7": "*",
        "·": "*",
        "⋅": "*",
        "÷": "/",
        "²": "^2",
        "³": "^3",
    }
    | {"π": "\\pi ", "∞": "\\infty ", "°": "^\\circ ", "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne "}
    | {"√": "\\sqrt ", "±": "\\pm ", "\u2208": "\\in ", "\u222a": "\\cup ", "∅": "\\emptyset "}
    | {"\u00a0": " ", "\u2009": " ", "\u202f": " "}
)
MOST_CHARS = 1000
"""Of a formula that is looked at."""
END = r"(?![a-zA-Z])"
FONT = (
    r"\\(?:boxed|fbox|text(?:bf|it|rm|normal)?|mbox|math(?:rm|bf|it|sf|tt|bb)|bold(?:symbol)?)"
    + END
)
PLAIN = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\{,\}|,\\!|(?<=[0-9])\\,(?=[0-9]{3}(?![0-9]))", ","),
        (r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|q?quad)" + END, " "),
        (r"(?<!\\)\\[,;:! ()\[\]]|(?<!\\)\$|~", " "),
        (r"\A\s*\*\*(.*)\*\*\s*\Z", r"\1"),
        (r"\*\*", "^"),
        (r"(?<=[0-9])\s*[xX]\s*(?=10\s*\^)", "*"),
        (r"(?<=[0-9])[eE]([-+]?[0-9]+)(?![0-9a-zA-Z.])", r"*10^{\1}"),
        (r"(?:" + FONT + r"\s*\{)?\s*(?<![a-zA-Z])percent" + END + r"\s*\}?", r"\\%"),
        (r"\\[lr][vV]ert" + END, "|"),
        (r"\\[dtc]frac" + END, r"\\frac"),
        (r"\\[dt]binom" + END, r"\\binom"),
        (r"\\(?:cdot|times|ast)" + END, "*"),
        (r"\\div" + END, "/"),
        (r"\\(?:leq|leqslant)" + END + "|<=", r"\\le "),
        (r"\\(?:geq|geqslant)" + END + "|>=", r"\\ge "),
        (r"\\neq" + END, r"\\ne "),
        (r"\\lt" + END, "<"),
        (r"\\gt" + END, ">"),
        (r"\\varnothing" + END + r"|\\\{\s*\\\}", r"\\emptyset "),
        (r"\\l[cb]?r?brace" + END, r"\\{"),
        (r"\\r[cb]?r?brace" + END, r"\\}"),
        (r"\\\{\s*[a-z]\s*(?:\\mid" + END + r"|:|\|)(.*)\\\}", r"\1"),
        (
            r"\\mathbb\s*\{?\s*R\s*\}?|(?:\\text\s*\{)?\s*all real numbers\s*\}?",
            r"(-\\infty,\\infty)",
        ),
        (r"\\operatorname\s*\*?\s*\{\s*([a-zA-Z]+)\s*\}", r"\\\1 "),
        (r"(?<![\\a-zA-Z])(pi|sqrt)" + END, r"\\\1 "),
        (r",?\s*" + FONT + r"\s*\{[\s,]*(?:and|or)[\s,]*\}|,?\s(?:and|or)(?=\s)", ","),
    )
)
UNFONT = (
    (re.compile(FONT + r"\s*\{([0-9A-Za-z])\}"), r"\1"),
    (re.compile(FONT + r"\s*(?=\{)"), ""),
)
DEGREES = re.compile(r"\^\s*(?:\\circ" + END + r"|\{\s*\\circ\s*\})|\\degree" + END)
POWER = r"(?:\s*\^\s*\{?([23])\}?)?"
UNIT = re.compile(
    r"(?<=[^\s,;=({\[])\s*(?:\\(?:text|mbox|mathrm|textrm)\s*\{([A-Za-z. /]+)\}"
    r"|(?:(?<=[0-9)}.])|(?<=\\pi))\s+([A-Za-z][A-Za-z. /]*)|(?<=[0-9])([A-Za-z]{2}))"
    + POWER
    + r"\s*\Z"
)
NAMED = (
    "m meter metre|cm centimeter centimetre|mm millimeter millimetre|km kilometer kilometre|"
    "inch in inches|ft foot feet|yd yard|mi mile|g gram|kg kilogram|lb pound|oz ounce|l liter|"
    "s sec second|min minute|h hr hour|day|week|mph mi/h|kph kmph km/h|dollar|cent|degree deg|"
    "radian rad|unit"
)
UNITS = {name: names.split()[0] for names in NAMED.split("|") for name in names.split()}
"""Names of units that are one; another word is a unit by itself."""
FUNCTIONS = frozenset({"sin", "cos", "tan", "log", "ln", "mod", "x", "y", "e", "i"})


@dataclass(frozen=True, slots=True)
class Shown:
    """A formula without what only shows it.

    Attributes:
        text: what is left to be read.
        unit: in one spelling (`cm^2`); empty for none.
    """

    text: str
    unit: str = ""


def shown(text: str) -> Shown:
    """A formula and its unit, each taken out of what wraps it."""
    if len(text) > MOST_CHARS:
        return Shown(text)
    formula = text.translate(SIGNS).strip().removesuffix(".")
    money = re.match(r"-?\s*\\\$", formula)
    formula, degrees = DEGREES.subn("", formula.replace("\\$", ""))
    for pattern, instead in PLAIN:
        formula = pattern.sub(instead, formula)
    formula, unit = _unit(_unwrapped(formula))
    for pattern, instead in UNFONT:
        formula = pattern.sub(instead, formula)
    return Shown(_unwrapped(formula), unit or ("dollar" if money else "degree" if degrees else ""))


def plain(text: str) -> str:
    """A formula without what only shows it otherwise, and without its unit."""
    return shown(text).text


def _unit(formula: str) -> tuple[str, str]:
    """A formula and its unit in one spelling."""
    found = UNIT.search(formula)
    if found is None:
        return formula, ""
    words = (
        (found[1] or found[2] or found[3]).lower().replace(".", "").replace("/", " per ").split()
    )
    if not words or words[0] in FUNCTIONS or (found[3] and words[0] not in UNITS):
        return formula, ""
    if found[2] and len(found[2]) < 3 and words[0] not in UNITS:
        return formula, ""  # `5 ab` is a product
    power = found[4] or next((n for w, n in (("square", "2"), ("cubic", "3")) if w in words), "")
    names = [
        "/" if word == "per" else UNITS.get(word, UNITS.get(word.removesuffix("s"), word))
        for word in words
        if word not in ("square", "cubic")
    ]
    unit = "".join(names) if "/" in names else " ".join(names)
    return formula[: found.start()], UNITS.get(unit, unit) + (f"^{power}" if power else "")


def _unwrapped(text: str) -> str:
    """A formula without boxes and brackets around all of it, and without a full stop."""
    before = ""
    while text != before:
        before = text
        text = re.sub(r"\A" + FONT + r"\s*(?=\{)", "", text.strip().removesuffix(".").strip())
        text = _inside(text.strip())
    return text


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
