r"""Rows in the style of MATH, what copies their questions, and what costs much to read.

Made for this library. `FORMULAS` are questions with a formula whose value is asked; `WRAPS` say the
formula again instead of working it out, `STEPS` take one step of the work.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# (subject, question, the formula in it, the right answer)
FIRST = re.compile(r"(?<![\\a-zA-Z0-9._])([0-9]+(?:\.[0-9]+)?|x)(?![0-9a-wyz.])")
FORMULAS: list[tuple[str, str, str, str]] = [
    ("number theory", r"What is $17\cdot 23$?", r"17\cdot 23", "391"),
    ("number theory", r"Compute $2^{10} - 3^4$.", r"2^{10} - 3^4", "943"),
    ("number theory", r"Find $\gcd(84, 126)$.", r"\gcd(84, 126)", "42"),
    ("number theory", r"What is the remainder $3^{5} \bmod 7$?", r"3^{5} \bmod 7", "5"),
    ("counting", r"Evaluate $\binom{9}{2}$.", r"\binom{9}{2}", "36"),
    ("counting", r"What is $\frac{6!}{3!\,2!}$?", r"\frac{6!}{3!\,2!}", "60"),
    ("counting", r"Ann and Bob sit in $5! - 2\cdot 4!$ ways. How many?", r"5! - 2\cdot 4!", "72"),
    (
        "prealgebra",
        r"Calculate $\frac{1}{2} + \frac{1}{4}$.",
        r"\frac{1}{2} + \frac{1}{4}",
        r"\frac{3}{4}",
    ),
    ("prealgebra", r"Simplify $\frac{143}{169}$.", r"\frac{143}{169}", r"\frac{11}{13}"),
    ("prealgebra", r"What is $1.2 \cdot 0.35$ as a decimal?", r"1.2 \cdot 0.35", "0.42"),
    ("prealgebra", r"What is $40\%$ of $85$, that is $0.4 \cdot 85$?", r"0.4 \cdot 85", "34"),
    ("prealgebra", r"Evaluate $12 \div 4 \times 3$.", r"12 \div 4 \times 3", "9"),
    (
        "algebra",
        r"Evaluate $\lfloor 7.2 \rfloor + \lceil -1.5 \rceil$.",
        r"\lfloor 7.2 \rfloor + \lceil -1.5 \rceil",
        "6",
    ),
    ("algebra", r"Expand $(x+3)(x-5)$.", "(x+3)(x-5)", "x^2-2x-15"),
    ("algebra", r"Expand $(2x+1)^2$.", "(2x+1)^2", "4x^2+4x+1"),
    ("algebra", r"Factor $x^2+5x+6$.", "x^2+5x+6", "(x+2)(x+3)"),
    ("algebra", r"Simplify $\frac{x^2-9}{x-3}$.", r"\frac{x^2-9}{x-3}", "x+3"),
    ("algebra", r"Simplify $3x + 2(x - 4)$.", "3x + 2(x - 4)", "5x-8"),
    ("algebra", r"Write $y - 3 = 2(x+1)$ as $y = mx + b$.", "y - 3 = 2(x+1)", "y = 2x+5"),
    ("algebra", r"What is $\log_2 32 + \log_3 9$?", r"\log_2 32 + \log_3 9", "7"),
    ("algebra", r"Evaluate $\sum_{k=1}^{4} k^2$.", r"\sum_{k=1}^{4} k^2", "30"),
    (
        "algebra",
        r"Solve $|x| < 2 + 3$. Answer with an interval; its ends are $-(2+3)$ and $2+3$.",
        "(-(2+3), 2+3)",
        "(-5,5)",
    ),
    (
        "algebra",
        r"Which set is $\{1+1, 2\cdot 4, 3^2\}$?",
        r"\{1+1, 2\cdot 4, 3^2\}",
        r"\{2, 8, 9\}",
    ),
    ("geometry", r"A circle has the area $\pi(3^2+4^2)$. Simplify.", r"\pi(3^2+4^2)", r"25\pi"),
    ("geometry", r"The diagonal is $\sqrt{48}$. Simplify.", r"\sqrt{48}", r"4\sqrt{3}"),
    ("geometry", r"The height is $\sqrt{13^2-5^2}$. How much is that?", r"\sqrt{13^2-5^2}", "12"),
    (
        "geometry",
        r"Find the midpoint $\left(\frac{2+6}{2}, \frac{3-9}{2}\right)$.",
        r"\left(\frac{2+6}{2}, \frac{3-9}{2}\right)",
        "(4, -3)",
    ),
    ("precalculus", r"Compute $(2+3i)(1-i)$.", "(2+3i)(1-i)", "5+i"),
    (
        "precalculus",
        r"Evaluate $\cos 60^\circ + \sin 30^\circ$.",
        r"\cos 60^\circ + \sin 30^\circ",
        "1",
    ),
    ("precalculus", r"Rationalise $\frac{6}{\sqrt{2}}$.", r"\frac{6}{\sqrt{2}}", r"3\sqrt{2}"),
    (
        "precalculus",
        r"Compute $\begin{pmatrix}1+1\\2\cdot 3\end{pmatrix}$.",
        r"\begin{pmatrix}1+1\\2\cdot 3\end{pmatrix}",
        r"\begin{pmatrix}2\\6\end{pmatrix}",
    ),
    (
        "precalculus",
        r"Find $\det\begin{pmatrix}3&1\\2&4\end{pmatrix}$.",
        r"\det\begin{pmatrix}3&1\\2&4\end{pmatrix}",
        "10",
    ),
]


def _first(instead: str) -> Callable[[str], str]:
    """The first number or x of a formula written otherwise; `#` stands for it."""
    return lambda f: FIRST.sub(lambda found: instead.replace("#", found[1]), f, count=1)


def _last(instead: str) -> Callable[[str], str]:
    def change(f: str) -> str:
        *_, found = [None, *FIRST.finditer(f)]
        if found is None:
            return f
        return f[: found.start()] + instead.replace("#", found[1]) + f[found.end() :]

    return change


def _tokens(formula: str) -> str:
    return formula.translate({ord(one): ord(one) + 0xFEE0 for one in "0123456789+-"})


WRAPS: dict[str, Callable[[str], str]] = {
    "the formula": lambda f: f,
    "braces": lambda f: f"{{{f}}}",
    "two braces": lambda f: f"{{{{{f}}}}}",
    "parentheses": lambda f: f"({f})",
    "left right": lambda f: rf"\left({f}\right)",
    "square brackets": lambda f: f"[{f}]",
    "a set": lambda f: rf"\{{{f}\}}",
    "named": lambda f: f"y={f}",
    "named x": lambda f: f"x = {f}",
    "a member": lambda f: rf"x\in {f}",
    "plus nothing": lambda f: f"{f}+0",
    "nothing plus": lambda f: f"0+({f})",
    "less nothing": lambda f: f"({f})-0",
    "once": lambda f: f"1*{f}",
    "once in braces": lambda f: rf"{{1\cdot({f})}}",
    "over one": lambda f: f"{f}/1",
    "a fraction over one": lambda f: rf"\frac{{{f}}}{{1}}",
    "to the first": lambda f: f"({f})^1",
    "to the first in braces": lambda f: f"{{{f}}}^{{1}}",
    "minus minus": lambda f: f"-(-({f}))",
    "dollars": lambda f: f"${f}$",
    "display": lambda f: rf"\displaystyle {f}",
    "boxed": lambda f: rf"\boxed{{{f}}}",
    "two boxes": lambda f: rf"\boxed{{\boxed{{{f}}}}}",
    "text": lambda f: rf"\text{{{f}}}",
    "roman": lambda f: rf"\mathrm{{{f}}}",
    "an operator name": lambda f: rf"\operatorname{{id}}({f})",
    "thin spaces": lambda f: rf"\,{f}\,\!",
    "spaces": lambda f: " ".join(f.replace("\\", " \\")),
    "a unit": lambda f: rf"{f}\text{{ cm}}",
    "degrees": lambda f: rf"({f})^\circ",
    "money": lambda f: rf"\${f}",
    "root of a square": lambda f: rf"\sqrt{{({f})^2}}",
    "square of a root": lambda f: rf"(\sqrt{{{f}}})^2",
    "the largest": lambda f: rf"\max({f})",
    "the smallest of two": lambda f: rf"\min({f}, {f})",
    "floor": lambda f: rf"\lfloor {f} \rfloor",
    "absolute": lambda f: f"|{f}|",
    "a sum of one": lambda f: rf"\sum_{{i=1}}^{{1}} ({f})",
    "a product of one": lambda f: rf"\prod_{{i=1}}^{{1}} ({f})",
    "choose one": lambda f: rf"\binom{{{f}}}{{1}}",
    "log of exp": lambda f: rf"\ln(e^{{{f}}})",
    "a determinant": lambda f: rf"\det\begin{{pmatrix}}{f}\end{{pmatrix}}",
    "a matrix": lambda f: rf"\begin{{pmatrix}}{f}\end{{pmatrix}}",
    "a limit": lambda f: rf"\lim_{{t\to 0}} ({f})",
    "an integral": lambda f: rf"\int_0^1 ({f}) dt",
    "a derivative": lambda f: rf"\frac{{d}}{{dt}} (({f})t)",
    "divided by itself": lambda f: rf"\frac{{({f})^2}}{{{f}}}",
    "doubled and halved": lambda f: rf"\frac{{2({f})}}{{2}}",
    "a half and a half": lambda f: rf"\frac{{{f}}}{{2}}+\frac{{{f}}}{{2}}",
    "one more, one less": lambda f: f"{f}+1-1",
    "a letter more and less": lambda f: f"{f}+t-t",
    "equal to itself": lambda f: f"{f}={f}",
    "twice": lambda f: f"{f}, {f}",
    "or": lambda f: rf"{f} \text{{ or }} {f}",
    "a hundred per cent": lambda f: rf"100\% \cdot ({f})",
    "a phantom": lambda f: rf"{f}\phantom{{0}}",
    "a hidden sum": lambda f: rf"0\phantom{{+{f}}}",
    "an index": lambda f: f"({f})_{{10}}",
    "about": lambda f: rf"\approx {f}",
    "sine squared": lambda f: rf"({f})(\sin^2 t+\cos^2 t)",
    "digits of another script": _tokens,
    "unicode signs": lambda f: (
        f.replace(r"\cdot", "⋅").replace("-", "\u2212").replace("+", "\uff0b")
    ),
    "prose": lambda f: f"The answer is {f}",
    "a definition": lambda f: f"y where y = {f}",
    **{
        f"{where} {instead}": change(instead)
        for where, change in (("first", _first), ("last", _last))
        for instead in (
            "{#}",
            "(#)",
            "0+#",
            "1#",
            "(#)^1",
            r"\frac{#}{1}",
            r"\max(#)",
            r"\sqrt{#^2}",
            r"\sqrt[3]{#^3}",
            r"\ln(e^{#})",
            r"e^{\ln #}",
            r"\lfloor # \rfloor",
            "|#|",
            "--#",
            "-(-#)",
            r"\mathrm{#}",
            r"\text{#}",
            r"\gcd(#, #)",
            r"#\cdot 1",
            r"\frac{2#}{2}",
            r"#\phantom{+0}",
            r"\binom{#}{1}",
            r"\operatorname{abs}(#)",
            "(#)!",
            r"\overline{#}",
        )
    },
}

# (the formula of a row above, one step of work that a reader could do without thinking)
STEPS: list[tuple[str, list[str]]] = [
    (
        r"17\cdot 23",
        [
            r"17\cdot 20+17\cdot 3",
            "340+51",
            "390+1",
            r"23\cdot 17",
            r"\frac{782}{2}",
            r"\sqrt{152881}",
        ],
    ),
    (r"2^{10} - 3^4", ["1024-3^4", "1024-81", "2^{10}-81"]),
    (r"\gcd(84, 126)", [r"\gcd(84, 42)", r"2\cdot 3\cdot 7", r"6\cdot 7", "84/2"]),
    (r"3^{5} \bmod 7", [r"243 \bmod 7", r"243-34\cdot 7", "12-7"]),
    (r"\binom{9}{2}", [r"\frac{9\cdot 8}{2}", "72/2", r"\binom{9}{7}", r"9\cdot 4"]),
    (r"\frac{6!}{3!\,2!}", [r"\frac{720}{12}", r"\frac{720}{6\cdot 2}", r"\frac{6!}{12}", "120/2"]),
    (
        r"\frac{1}{2} + \frac{1}{4}",
        [r"\frac{2}{4}+\frac{1}{4}", r"\frac{2+1}{4}", r"\frac{6}{8}", "0.5+0.25"],
    ),
    (
        r"\frac{143}{169}",
        [r"\frac{286}{338}", "143/169", r"\frac{143.0}{169.0}", r"\frac{11\cdot 13}{13\cdot 13}"],
    ),
    (r"1.2 \cdot 0.35", [r"\frac{42}{100}", r"0.35\cdot 1.2", r"1.2\cdot 0.3+0.06"]),
    (r"\log_2 32 + \log_3 9", ["5+2", r"5+\log_3 9", r"\log_2 128"]),
    (r"\sum_{k=1}^{4} k^2", ["1+4+9+16", r"\frac{4\cdot 5\cdot 9}{6}", "1^2+2^2+3^2+4^2"]),
    ("(-(2+3), 2+3)", ["(-5, 2+3)", "(-(2+3), 5)", "(-5.0, 2+3)"]),
    (r"\{1+1, 2\cdot 4, 3^2\}", [r"\{2, 8, 3^2\}", r"2, 2\cdot 4, 9", r"\{1+1, 8, 9\}"]),
    (r"\pi(3^2+4^2)", [r"\pi(9+16)", r"9\pi+16\pi", r"\pi\cdot 5^2", r"5\cdot 5\pi"]),
    (
        r"\sqrt{48}",
        [
            r"\sqrt{16\cdot 3}",
            r"\sqrt{16}\sqrt{3}",
            r"48^{1/2}",
            r"\frac{48}{\sqrt{48}}",
            r"\sqrt{2}\sqrt{24}",
        ],
    ),
    (r"\sqrt{13^2-5^2}", [r"\sqrt{169-25}", r"\sqrt{144}", r"\sqrt{8\cdot 18}"]),
    (
        r"\left(\frac{2+6}{2}, \frac{3-9}{2}\right)",
        [r"(\frac{8}{2}, -3)", r"(4, \frac{-6}{2})", r"(4, \frac{3-9}{2})"],
    ),
    ("(x+3)(x-5)", ["x(x-5)+3(x-5)", "x^2-5x+3x-15", "(x-5)(x+3)", "(-x-3)(5-x)", "(x-1)^2-16"]),
    ("(2x+1)^2", ["(2x+1)(2x+1)", "(1+2x)^2", "(-2x-1)^2", "2x(2x+1)+2x+1", r"\frac{(4x+2)^2}{4}"]),
    ("x^2+5x+6", ["6+5x+x^2", "x^2+2x+3x+6", "x(x+5)+6", r"x\cdot x+5x+6", "x(x+2)+3(x+2)"]),
    (
        r"\frac{x^2-9}{x-3}",
        [r"\frac{(x-3)(x+3)}{x-3}", r"\frac{9-x^2}{3-x}", r"\frac{2x^2-18}{2x-6}"],
    ),
    ("3x + 2(x - 4)", ["3x+2x-8", "2(x-4)+3x", "3x-8+2x"]),
    ("y - 3 = 2(x+1)", ["y=2(x+1)+3", "y-3=2x+2", "2(x+1)=y-3", "y=2x+2+3"]),
    ("(2+3i)(1-i)", ["2-2i+3i+3", "2(1-i)+3i(1-i)", "(1-i)(2+3i)", "2+i-3i^2", "2+i+3"]),
    (
        r"\frac{6}{\sqrt{2}}",
        [r"\frac{6\sqrt{2}}{2}", r"\frac{12}{2\sqrt{2}}", r"6/2^{1/2}", r"6\sqrt{\frac{1}{2}}"],
    ),
]

COSTLY = (
    "9^{9^{9^{9}}}",
    "x^{9^{9^{9}}}",
    "9^{999999999}",
    "(10^7)!",
    "((9!)!)!",
    "9999999! x",
    "(x+1)^{999999999}",
    "(a+b+c+d)^{20}",
    "((x+1)^{12}+1)^{12}",
    "10^{-999999999}",
    "1e999999999",
    r"\binom{1000000000}{500000000}",
    r"\sum_{i=1}^{10^{12}} \frac{1}{i}",
    r"\prod_{i=1}^{99999} i",
    r"\int_0^1 x^{x^{x^x}} dx",
    "x^{x^{x^{x^{x}}}}",
    "e^{e^{e^{e^{e^{9}}}}}",
    "99^{99^{x^{y}}}",
    r"\log_2 999999999999999999999999999999999999999",
    r"\sin(10^{10^{10}})",
    "9" * 190,
    r"(1,9^{9^9})",
    r"[1,\infty)\cup(2,\sqrt{9^{9^9}})",
    "2^{0.123456789012345678901234567890}",
    "0." + "0" * 180 + "1",
    "x^{1/1000000007}",
    "{" * 190,
    "(" * 90 + "1+2" + ")" * 90,
    r"\frac" * 40,
    "x^" * 60 + "x",
    "-" * 150 + "1",
    "1/" * 60 + "3",
    "|" * 100,
    "x" + "!" * 60,
    r"\sqrt{" * 30 + "x" + "}" * 30,
    "[(" * 40 + "3" + ")]" * 40,
    "_" * 100,
    r"\int " * 20 + "x",
    "9" + "^{12}" * 9,
    "x(2y)" + "^{12}" * 9,
    r"x+y+\sqrt{3^{11}^{11}^{11}^{11}}",
    "x+0^{-1/2}",
    r"\ln" * 60 + "x",
)
r"""Answers that take long, or much memory, where they are worked out."""
