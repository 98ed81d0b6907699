r"""Questions of many kinds, drawn anew, and rules that say them again without doing what was asked.

`rows` draws questions with their right answers. A row names its formula, and rewrites of it that
follow a rule: Horner's for *factor*, one distribution for *expand*, an equal root for *simplify*, a
conversion for *write as*. `COPIES` are rules for any formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb, gcd
from random import Random

from support.math_rows import WRAPS


@dataclass(frozen=True)
class Row:
    """A question, the formula in it, the right answer, and rewrites of the formula by rule."""

    kind: str
    question: str
    formula: str
    right: str
    rewrites: dict[str, str] = field(default_factory=dict)


COMMANDS = """
ldots dots cdots thinspace medspace thickspace negthinspace negmedspace negthickspace hfil hfill
hskip vskip vfil quad qquad enspace enskip null relax nobreak allowbreak noindent par strut
smallskip break linebreak newline phantom hphantom mathstrut displaystyle scriptstyle limits
nolimits protect ensuremath centering large tiny bf
"""
SKIPPED = COMMANDS.split()
COPIES: dict[str, Callable[[str], str]] = {
    **WRAPS,
    **{rf"\{name} before": lambda f, name=name: rf"\{name} {f}" for name in SKIPPED},
    **{rf"\{name} behind": lambda f, name=name: rf"{f}\{name}" for name in SKIPPED},
    **{rf"\{name}{{}} before": lambda f, name=name: rf"\{name}{{}} {f}" for name in SKIPPED},
    r"\vskip 1pt before": lambda f: rf"\vskip 1pt {f}",
    r"\hspace before": lambda f: rf"\hspace{{1em}} {f}",
    r"\color before": lambda f: rf"\color{{red}} {f}",
    r"\underline": lambda f: rf"\underline{{{f}}}",
    r"\overbrace": lambda f: rf"\overbrace{{{f}}}",
    r"\mathop": lambda f: rf"\mathop{{{f}}}",
    r"\ensuremath": lambda f: rf"\ensuremath{{{f}}}",
    r"\tag": lambda f: rf"{f} \tag{{1}}",
    r"\begin{array}": lambda f: rf"\begin{{array}}{{c}}{f}\end{{array}}",
    r"\begin{aligned}": lambda f: rf"\begin{{aligned}}{f}\end{{aligned}}",
    "a comment": lambda f: f"{f} % so",
    "a set of one": lambda f: rf"\{{{f}\}}",
    "a member of a set": lambda f: rf"x \in \{{{f}\}}",
    "a name of its own": lambda f: rf"a_1 = {f}",
    "a function of x": lambda f: f"f(x) = {f}",
    "backwards": lambda f: "+".join(reversed(f.split("+"))),
    "factors backwards": lambda f: r"\cdot ".join(reversed(f.split(r"\cdot "))),
    "sides backwards": lambda f: "=".join(reversed(f.split("="))),
    "the left side": lambda f: f.split("=")[0],
    "the right side": lambda f: f.split("=")[-1],
    "minus twice": lambda f: f"-(-({f}))",
    "per cent": lambda f: rf"{f}\%",
    "without per cent": lambda f: f.replace(r"\%", ""),
    "without a sign": lambda f: f.removeprefix("-"),
    "the other fraction": lambda f: f.replace("frac", "dfrac"),
    "a slash": lambda f: f.replace(r"\frac{", "{").replace("}{", "}/{"),
    "a space for the sign": lambda f: f.replace(r"\cdot", " "),
    "degrees of nothing": lambda f: rf"{f}^\circ",
    "metres": lambda f: rf"{f}\text{{ m}}",
    "base ten": lambda f: rf"({f})_{{10}}",
    "over a letter and times it": lambda f: rf"\frac{{({f})t}}{{t}}",
    "to a half, twice": lambda f: rf"(({f})^{{1/2}})^2",
    "two terms": lambda f: rf"\frac{{1}}{{2}}({f})+\frac{{1}}{{2}}({f})",
}
LETTERS = ("x", "y", "a", "b", "m", "n", "p", "q")


def poly(*coefficients: int, letter: str = "x") -> str:
    """A polynomial, its highest coefficient first."""
    text = ""
    for place, c in enumerate(coefficients):
        power = len(coefficients) - 1 - place
        if c:
            number = "" if abs(c) == 1 and power else str(abs(c))
            shown = "" if not power else letter if power == 1 else f"{letter}^{{{power}}}"
            text += ("-" if c < 0 else "+" if text else "") + number + shown
    return text or "0"


def _factor(rng: Random) -> Row:
    a, c, b, d = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2, 5)), *_signed(rng, 2)
    while gcd(a, b) > 1 or gcd(c, d) > 1:
        b, d = _signed(rng, 2)
    x = rng.choice(LETTERS)
    p, q, r = a * c, a * d + b * c, b * d
    formula = poly(p, q, r, letter=x)
    return Row(
        "factor",
        f"Factor ${formula}$.",
        formula,
        f"({poly(a, b, letter=x)})({poly(c, d, letter=x)})",
        {
            "Horner": f"{x}({poly(p, q, letter=x)}){r:+d}",
            "split": f"{poly(p, a * d, 0, letter=x)}{b * c:+d}{x}{r:+d}",
            "grouped": f"{a}{x}({poly(c, d, letter=x)}){b:+d}({poly(c, d, letter=x)})",
            "a near product": f"({x}-1)({x}+1){r + 1:+d}"
            if (p, q) == (1, 0)
            else f"{x}*{formula}/{x}",
            "a square more": f"({x}+{q}/2)^2{r:+d}-({q}/2)^2",
        },
    )


def _common(rng: Random) -> Row:
    x, y, z = rng.sample(LETTERS, 3)
    n = rng.choice((1, 1, 2, 3, 6))
    k = "" if n == 1 else str(n)
    shape = rng.randrange(4)
    left, right, inner = (
        (f"{k}{x}{y}", f"{k}{x}{z}", f"{y}+{z}"),
        (f"{k}{x}{y}", f"{k}{x}", f"{y}+1"),
        (f"{k}{x}^2{y}", f"{k}{x}{y}{z}", f"{x}+{z}"),
        (f"{k}{x}^2", f"{k}{x}{z}^2", f"{x}+{z}^2"),
    )[shape]
    outer = f"{k}{x}{y}" if shape == 2 else f"{k}{x}"
    return Row(
        "factor",
        f"Factor ${left}+{right}$.",
        f"{left}+{right}",
        f"{outer}({inner})",
        {
            "one factor": f"1({left}+{right})",
            "half of it": f"{x}({left.replace(x, '', 1)}+{right.replace(x, '', 1) or '1'})+0",
            "letters turned": f"{left[::-1] if '^' not in left else left}+{right}",
            "times and over": rf"\frac{{{x}({left}+{right})}}{{{x}}}",
        },
    )


def _squares(rng: Random) -> Row:
    x, y = rng.sample(LETTERS, 2)
    n, k = rng.randint(1, 9), rng.randint(2, 9)
    plain = rng.random() < 0.5
    if plain:
        return Row(
            "factor",
            f"Factor ${x}^2-{k * k}$.",
            f"{x}^2-{k * k}",
            f"({x}-{k})({x}+{k})",
            {
                "a nearer one": f"({x}-1)({x}+1)-{k * k - 1}",
                "a power": f"{x}^2-{k}^2",
                "turned": f"-({k * k}-{x}^2)",
            },
        )
    left = f"{n * n}{x}^2" if n > 1 else f"{x}^2"
    root = f"{n}{x}" if n > 1 else x
    return Row(
        "factor",
        f"Factor ${left}-{y}^2$.",
        f"{left}-{y}^2",
        f"({root}-{y})({root}+{y})",
        {"powers": f"({root})^2-{y}^2", "turned": f"-{y}^2+{left}"},
    )


def _expand(rng: Random) -> Row:
    x, (b, d) = rng.choice(LETTERS), _signed(rng, 2)
    a, c = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 4))
    one, two = poly(a, b, letter=x), poly(c, d, letter=x)
    return Row(
        "expand",
        f"{rng.choice(('Expand', 'Multiply out', 'Simplify'))} $({one})({two})$.",
        f"({one})({two})",
        poly(a * c, a * d + b * c, b * d, letter=x),
        {
            "one distribution": f"{poly(a, 0, letter=x)}({two}){b:+d}({two})",
            "the other": f"({one}){poly(c, 0, letter=x)}{d:+d}({one})",
            "terms left": f"{poly(a * c, a * d, 0, letter=x)}{b * c:+d}{x}{b * d:+d}",
            "Horner": f"{x}({poly(a * c, a * d + b * c, letter=x)}){b * d:+d}",
            "turned": f"({two})({one})",
        },
    )


def _square(rng: Random) -> Row:
    x, y = rng.sample(LETTERS, 2)
    m = rng.choice((f"{x}", f"{x}{y}", f"2{x}"))
    k = rng.randint(1, 9)
    top = {1: f"{x}^2", 2: f"{x}^2{y}^2" if m[0] != "2" else f"4{x}^2"}[len(m)]
    middle = f"{2 * k}{m}" if m[0] != "2" else f"{4 * k}{x}"
    return Row(
        "expand",
        f"Expand $({m}+{k})^2$.",
        f"({m}+{k})^2",
        f"{top}+{middle}+{k * k}",
        {
            "written twice": f"({m}+{k})({m}+{k})",
            "one distribution": f"{m}({m}+{k})+{k}({m}+{k})",
            "turned": f"({k}+{m})^2",
            "some powers": f"({m})^2+2*{m}*{k}+{k}^2",
            "a square and a rest": f"{m}({m}+{2 * k})+{k * k}",
        },
    )


def _distribute(rng: Random) -> Row:
    x, b = rng.choice(LETTERS), *_signed(rng, 1)
    a = rng.randint(2, 9)
    return Row(
        "expand",
        f"Expand ${a}({poly(1, b, letter=x)})$.",
        f"{a}({poly(1, b, letter=x)})",
        poly(a, a * b, letter=x),
        {
            "in two": f"{a}{x}+{a}*{b}",
            "turned": f"({poly(1, b, letter=x)})*{a}",
            "sign": f"-{a}({poly(-1, -b, letter=x)})",
        },
    )


def _collect(rng: Random) -> Row:
    x, b = rng.choice(LETTERS), *_signed(rng, 1)
    a, c = rng.randint(2, 9), rng.randint(2, 9)
    formula = f"{a}{x}+{c}({poly(1, b, letter=x)})"
    return Row(
        "simplify",
        f"Simplify ${formula}$.",
        formula,
        poly(a + c, c * b, letter=x),
        {
            "distributed": f"{a}{x}+{c}{x}{c * b:+d}",
            "turned": f"{c}({poly(1, b, letter=x)})+{a}{x}",
            "one out": f"{x}({a}+{c}){c * b:+d}",
        },
    )


def _fraction(rng: Random) -> Row:
    value, k = _value(rng), rng.randint(2, 12)
    n, d = value.numerator * k, value.denominator * k
    return Row(
        "fraction",
        rf"Simplify $\frac{{{n}}}{{{d}}}$.",
        rf"\frac{{{n}}}{{{d}}}",
        rf"\frac{{{value.numerator}}}{{{value.denominator}}}",
        {
            "slash": f"{n}/{d}",
            "decimal": f"{n / d:.10f}",
            "per cent": rf"{100 * n / d:.8f}\%",
            "scaled": rf"\frac{{{2 * n}}}{{{2 * d}}}",
            "in decimals": rf"\frac{{{n / 4 + 0.0}}}{{{d / 4 + 0.0}}}" if k % 4 else f"{n}/{d}",
            "ratio": f"{n}:{d}",
            "mixed": rf"0\frac{{{n}}}{{{d}}}",
        },
    )


def _rational(rng: Random) -> Row:
    x, (k, _) = rng.choice(LETTERS), _signed(rng, 2)
    below = poly(1, k, letter=x)
    formula = rf"\frac{{{x}^2-{k * k}}}{{{below}}}"
    return Row(
        "simplify",
        f"Simplify ${formula}$.",
        formula,
        poly(1, -k, letter=x),
        {
            "factored": rf"\frac{{({x}-{abs(k)})({x}+{abs(k)})}}{{{poly(1, k, letter=x)}}}",
            "slash": f"({x}^2-{k * k})/({poly(1, k, letter=x)})",
            "turned": rf"\frac{{{k * k}-{x}^2}}{{{poly(-1, -k, letter=x)}}}",
            "in two": rf"\frac{{{x}^2}}{{{below}}}-\frac{{{k * k}}}{{{below}}}",
        },
    )


def _root(rng: Random) -> Row:
    n, k = rng.choice((2, 3, 5, 6, 7, 10)), rng.randint(2, 9)
    formula = rf"\sqrt{{{n * k * k}}}"
    return Row(
        "root",
        f"Simplify ${formula}$.",
        formula,
        rf"{k}\sqrt{{{n}}}",
        {
            "a half": f"{n * k * k}^{{1/2}}",
            "fourth root": rf"\sqrt[4]{{{(n * k * k) ** 2}}}",
            "two roots": rf"\sqrt{{{k * k}}}\sqrt{{{n}}}",
            "a product": rf"\sqrt{{{k * k}\cdot {n}}}",
            "over a root": rf"\frac{{{n * k * k}}}{{\sqrt{{{n * k * k}}}}}",
            "over a smaller root": rf"\frac{{{n * k}}}{{\sqrt{{{n}}}}}",
            "decimal": f"{(n * k * k) ** 0.5:.9f}",
            "a root of four": rf"\frac{{1}}{{2}}\sqrt{{{4 * n * k * k}}}",
            "a root of a root": rf"\sqrt{{\sqrt{{{(n * k * k) ** 2}}}}}",
        },
    )


def _letter_root(rng: Random) -> Row:
    x = rng.choice(LETTERS)
    k = rng.choice((2, 3, 5))
    degree = rng.choice((2, 3))
    mark = "" if degree == 2 else f"[{degree}]"
    formula = rf"\sqrt[{degree * k}]{{{x}^{{{k}}}}}"
    return Row(
        "root",
        f"Simplify ${formula}$ for a positive ${x}$.",
        formula,
        rf"\sqrt{mark}{{{x}}}",
        {
            "doubled": rf"\sqrt[{degree * k * 2}]{{{x}^{{{2 * k}}}}}",
            "a power": f"{x}^{{{k}/{degree * k}}}",
            "two powers": f"({x}^{{{k}}})^{{1/{degree * k}}}",
            "over itself": rf"\frac{{{x}}}{{{x}^{{{degree - 1}/{degree}}}}}",
        },
    )


def _rationalise(rng: Random) -> Row:
    n, k = rng.choice((2, 3, 5, 6, 7)), rng.randint(1, 5)
    top = rng.choice((n * k, n * k, 1))
    formula = rf"\frac{{{top}}}{{\sqrt{{{n}}}}}"
    right = rf"\frac{{\sqrt{{{n}}}}}{{{n}}}" if top == 1 else rf"{k}\sqrt{{{n}}}"
    right = right.removeprefix("1")
    return Row(
        "root",
        f"Rationalise ${formula}$.",
        formula,
        right,
        {
            "a power below": formula.replace(rf"\sqrt{{{n}}}", f"{n}^{{1/2}}"),
            "a power": f"{top}*{n}^{{-1/2}}",
            "scaled": formula.replace(r"\frac{", r"\frac{2*", 1).replace(r"}{\sqrt", r"}{2\sqrt"),
            "one root": rf"\sqrt{{\frac{{{top**2}}}{{{n}}}}}",
        },
    )


def _write(rng: Random) -> Row:
    value = Fraction(rng.randint(1, 199), rng.choice((4, 5, 8, 20, 25, 40, 50, 80, 125)))
    if value.denominator == 1:
        value += Fraction(1, 4)
    n, d = value.numerator, value.denominator
    power = 0
    while value < Fraction(10) ** power:
        power -= 1
    while value >= Fraction(10) ** (power + 1):
        power += 1
    tens = Fraction(10) ** -power
    forms = {
        "a fraction": rf"\frac{{{n}}}{{{d}}}",
        "a decimal": f"{float(value)}",
        "a percent": rf"{_decimal(value * 100)}\%",
        "a number in scientific notation": rf"{_decimal(value * tens)}\times 10^{{{power}}}",
    }
    if n > d:
        forms["a mixed number"] = rf"{n // d}\frac{{{n % d}}}{{{d}}}"
    asked, told = rng.sample(sorted(forms), 2)
    others = {f"as {name}": form for name, form in forms.items() if name != asked}
    return Row(
        f"write as {asked}",
        f"Write ${forms[told]}$ as {asked}.",
        forms[told],
        forms[asked],
        {
            **others,
            "over a power of ten": rf"\frac{{{_decimal(value * 1000)}}}{{1000}}",
            "another power of ten": rf"{_decimal(1000 * value * tens)}\times 10^{{{power - 3}}}",
            "scaled": rf"\frac{{{3 * n}}}{{{3 * d}}}",
            "a slash and per cent": f"{_decimal(value * 100)}/100",
            "one more place": f"{float(value)}0000",
        }
        if asked != "a decimal"
        else others,
    )


def _units(rng: Random) -> Row:
    big, small, n = rng.choice(
        (("km", "m", 1000), ("m", "cm", 100), ("ft", "in", 12), ("h", "min", 60))
    )
    k = rng.randint(2, 30)
    unit = rng.random() < 0.5
    return Row(
        "units",
        rf"Convert ${k}\text{{ {big}}}$ to {small}.",
        rf"{k}\text{{ {big}}}",
        rf"{k * n}\text{{ {small}}}" if unit else str(k * n),
        {
            "a product": rf"{k}\cdot {n}\text{{ {small}}}",
            "the other unit": rf"{k * n}\text{{ {big}}}" if unit else rf"{k}\text{{ {small}}}",
            "the number": str(k),
            "the unit's name": rf"{k} \text{{ {small}}}",
        },
    )


def _digits(number: int, base: int) -> str:
    text = ""
    while number:
        text, number = "0123456789ABCDEF"[number % base] + text, number // base
    return text


def _bases(rng: Random) -> Row:
    number, (one, two) = rng.randint(20, 300), rng.sample((2, 3, 5, 8, 10, 16), 2)
    told = _digits(number, one) + (f"_{{{one}}}" if one != 10 else "")
    right = _digits(number, two) + (f"_{{{two}}}" if two != 10 else "")
    bare = _digits(number, one)
    return Row(
        "bases",
        f"Write ${told}$ in base ${two}$.",
        told,
        right,
        {
            "the digits": bare,
            "the other base": f"{bare}_{{{two}}}",
            "base ten": f"{number}_{{10}}",
            "decimal": str(number),
        }
        if two != 10
        else {"the digits": bare, "the other base": f"{bare}_{{10}}"},
    )


def _solve(rng: Random) -> Row:
    a, x0 = rng.randint(2, 9), rng.randint(-9, 9)
    b = rng.randint(1, 20)
    formula = f"{a}x+{b}={a * x0 + b}"
    right = rng.choice((str(x0), f"x={x0}"))
    return Row(
        "solve",
        f"Solve ${formula}$.",
        formula,
        right,
        {
            "one step": f"{a}x={a * x0}",
            "all on one side": f"{a}x{-a * x0:+d}=0",
            "divided": f"x+{b}/{a}={Fraction(a * x0 + b, a)}",
            "not worked out": rf"x=\frac{{{a * x0 + b}-{b}}}{{{a}}}",
            "unreduced": rf"\frac{{{a * x0}}}{{{a}}}",
            "shifted": f"x-1={x0 - 1}",
        },
    )


def _nought(rng: Random) -> Row:
    a = rng.randint(2, 9)
    formula = rng.choice((f"{a}x=0", f"x^{a}=0", f"{a}x+x=0", f"x+{a}x^2=x"))
    return Row("solve", f"Which number solves ${formula}$, and is smallest in size?", formula, "0")


def _inequality(rng: Random) -> Row:
    a, c, b = rng.randint(2, 9), rng.randint(-9, 9), rng.randint(1, 9)
    sign, bracket = rng.choice((("<", ")"), (r"\le", "]")))
    formula = f"{a}x+{b} {sign} {a * c + b}"
    return Row(
        "inequality",
        f"Solve ${formula}$. Answer with an interval.",
        formula,
        rf"(-\infty,{c}{bracket}",
        {
            "one step": f"{a}x {sign} {a * c}",
            "divided": f"x+{b}/{a} {sign} {Fraction(a * c + b, a)}",
            "on one side": f"x-{c} {sign} 0" if c > 0 else f"x+{-c} {sign} 0",
            "unreduced": rf"(-\infty,\frac{{{a * c}}}{{{a}}}{bracket}",
        },
    )


def _interval(rng: Random) -> Row:
    low, high = sorted(rng.sample(range(-9, 10), 2))
    formula = rf"{low} \le x < {high}"
    if rng.random() < 0.5:
        return Row(
            "inequality",
            f"Write ${formula}$ as an interval.",
            formula,
            f"[{low},{high})",
            {"turned": f"{high} > x \\ge {low}"},
        )
    return Row(
        "inequality",
        f"Write $[{low},{high})$ as an inequality in $x$.",
        f"[{low},{high})",
        formula,
        {"a member": rf"x \in [{low},{high})"},
    )


def _compute(rng: Random) -> Row:
    a, b, c = rng.randint(11, 40), rng.randint(3, 12), rng.randint(2, 6)
    formula, value, rewrites = rng.choice(
        (
            (
                rf"{a}\cdot {b}",
                a * b,
                {"split": rf"{a - 1}\cdot {b}+{b}", "turned": rf"{b}\cdot {a}"},
            ),
            (
                f"{a}+{b}+{c}",
                a + b + c,
                {"one step": f"{a + b}+{c}", "ten": f"{a + b + c - 10}+10"},
            ),
            (
                f"{a}^2-{b}^2",
                a * a - b * b,
                {"product": f"({a}-{b})({a}+{b})", "step": f"{a * a}-{b * b}"},
            ),
            (
                rf"\binom{{{b}}}{{2}}",
                comb(b, 2),
                {
                    "fraction": rf"\frac{{{b}\cdot {b - 1}}}{{2}}",
                    "other": rf"\binom{{{b}}}{{{b - 2}}}",
                },
            ),
            (f"{c}^{{4}}", c**4, {"product": rf"{c}^2\cdot {c}^2", "square": f"({c * c})^2"}),
            ("10^{4}", 10**4, {"scientific": r"1\times 10^{4}", "turned": r"10\times 10^{3}"}),
            (rf"\gcd({6 * a},{6 * b})", 6 * gcd(a, b), {"product": rf"6\cdot {gcd(a, b)}"}),
            (
                rf"\sqrt{{{a * a}}}",
                a,
                {"power": f"({a * a})^{{1/2}}", "two": rf"\sqrt{{{a}}}\sqrt{{{a}}}"},
            ),
            (
                rf"{a * b} \div {b}",
                a,
                {"fraction": rf"\frac{{{a * b}}}{{{b}}}", "slash": f"{a * b}/{b}"},
            ),
            (rf"\log_{{{c}}} {c**3}", 3, {"two": rf"\frac{{\ln {c**3}}}{{\ln {c}}}"}),
            (
                rf"\frac{{{c}}}{{{b}}}+\frac{{1}}{{{b}}}",
                Fraction(c + 1, b),
                {"one": rf"\frac{{{c}+1}}{{{b}}}"},
            ),
            (rf"|{b}-{a}|", a - b, {"turned": f"{a}-{b}"}),
            (rf"{a}\% \text{{ of }} 100", a, {"per cent": rf"{a}\%"}),
            (rf"\cos 60^\circ + {a}", Fraction(2 * a + 1, 2), {"half": rf"\frac{{1}}{{2}}+{a}"}),
        )
    )
    right = (
        str(value)
        if Fraction(value).denominator == 1
        else rf"\frac{{{Fraction(value).numerator}}}{{{Fraction(value).denominator}}}"
    )
    verb = rng.choice(("Compute", "Evaluate", "What is", "Find", "Calculate"))
    return Row("compute", f"{verb} ${formula}$.", formula, right, rewrites)


def _complex(rng: Random) -> Row:
    a, b, c, d = (rng.randint(1, 9) for _ in range(4))
    a += a * c == b * d
    formula = f"({a}+{b}i)({c}+{d}i)"
    return Row(
        "complex",
        f"Compute ${formula}$.",
        formula,
        f"{a * c - b * d}+{a * d + b * c}i",
        {
            "distributed": f"{a}({c}+{d}i)+{b}i({c}+{d}i)",
            "terms": f"{a * c}+{a * d}i+{b * c}i+{b * d}i^2",
            "nearly": f"{a * c}-{b * d}+{a * d + b * c}i",
        },
    )


def _powers(rng: Random) -> Row:
    x, (p, q) = rng.choice(LETTERS), rng.sample(range(2, 9), 2)
    formula, right, rewrites = rng.choice(
        (
            (
                rf"{x}^{p}\cdot {x}^{q}",
                f"{x}^{{{p + q}}}",
                {"sum": f"{x}^{{{p}+{q}}}", "three": rf"{x}\cdot {x}^{{{p + q - 1}}}"},
            ),
            (
                f"({x}^{p})^{q}",
                f"{x}^{{{p * q}}}",
                {"turned": f"({x}^{q})^{p}", "product": f"{x}^{{{p}*{q}}}"},
            ),
            (
                f"{x}^{{-{p}}}",
                rf"\frac{{1}}{{{x}^{p}}}",
                {"outside": f"({x}^{p})^{{-1}}", "inside": rf"(\frac{{1}}{{{x}}})^{p}"},
            ),
            (rf"\frac{{1}}{{{x}^{p}}}", f"{x}^{{-{p}}}", {"slash": f"1/{x}^{p}"}),
            (
                rf"\frac{{{x}}}{{2/3}}",
                rf"\frac{{3{x}}}{{2}}",
                {"slash": f"{x}/(2/3)", "product": rf"{x}\cdot\frac{{1}}{{2/3}}"},
            ),
            (f"-({x}-{p})", f"{p}-{x}", {"one": f"-1({x}-{p})", "nought": f"0-({x}-{p})"}),
            (
                f"4^{{{p}}}",
                f"2^{{{2 * p}}}",
                {"power": f"(2^2)^{{{p}}}", "two": rf"4\cdot 4^{{{p - 1}}}"},
            ),
        )
    )
    ask = {"4": "Write ${}$ as a power of $2$.", "-": "Simplify ${}$."}.get(
        formula[0], "Simplify ${}$ with {} exponents."
    )
    return Row(
        "powers",
        ask.format(formula, "negative" if right.startswith(f"{x}^{{-") else "positive"),
        formula,
        right,
        rewrites,
    )


def _line(rng: Random) -> Row:
    m, x0, y0 = rng.randint(2, 9), rng.randint(1, 9), rng.randint(1, 9)
    formula = f"y-{y0}={m}(x-{x0})"
    b = y0 - m * x0
    right = f"y={poly(m, b)}"
    return Row(
        "line",
        f"Write ${formula}$ as $y=mx+b$.",
        formula,
        right,
        {
            "one step": f"y={m}(x-{x0})+{y0}",
            "distributed": f"y-{y0}={m}x-{m * x0}",
            "the right side": f"{m}(x-{x0})+{y0}",
            "on one side": f"{m}x-y{b:+d}=0" if b else f"{m}x-y=0",
        },
    )


def _ratio(rng: Random) -> Row:
    value, k = _value(rng), rng.randint(2, 9)
    n, d = value.numerator, value.denominator
    formula = f"{n * k}:{d * k}"
    return Row(
        "fraction",
        f"Simplify the ratio ${formula}$.",
        formula,
        f"{n}:{d}",
        {
            "fraction": rf"\frac{{{n * k}}}{{{d * k}}}",
            "scaled": f"{2 * n}:{2 * d}" if k != 2 else f"{3 * n}:{3 * d}",
        },
    )


def _pairs(rng: Random) -> Row:
    a, b, c, d = (2 * rng.randint(1, 9) for _ in range(4))
    formula = rf"\left(\frac{{{a}+{b}}}{{2}}, \frac{{{c}+{d}}}{{2}}\right)"
    return Row(
        "pairs",
        f"Find the midpoint ${formula}$.",
        formula,
        f"({(a + b) // 2},{(c + d) // 2})",
        {
            "half": rf"(\frac{{{a + b}}}{{2}}, \frac{{{c + d}}}{{2}})",
            "one": f"({(a + b) // 2}, ({c}+{d})/2)",
        },
    )


def _trig(rng: Random) -> Row:
    formula, right, rewrites = rng.choice(
        (
            (
                r"\sin 60^\circ",
                r"\frac{\sqrt{3}}{2}",
                {"other": r"\cos 30^\circ", "decimal": "0.8660254038", "root": r"\sqrt{3/4}"},
            ),
            (r"\tan 45^\circ", "1", {"other": r"\frac{\sin 45^\circ}{\cos 45^\circ}"}),
            (r"\sin^2 x+\cos^2 x", "1", {"turned": r"\cos^2 x+\sin^2 x"}),
            (r"2\sin x\cos x", r"\sin 2x", {"turned": r"2\cos x\sin x"}),
            (r"\frac{\sin x}{\cos x}", r"\tan x", {"slash": r"\sin x/\cos x"}),
            (r"\ln e^{3}", "3", {"turned": r"3\ln e"}),
            (r"e^{\ln x}", "x", {"exp": r"\exp(\ln x)"}),
        )
    )
    return Row("functions", f"Simplify ${formula}$.", formula, right, rewrites)


def _signed(rng: Random, count: int) -> list[int]:
    return [rng.choice((-1, 1)) * rng.randint(1, 9) for _ in range(count)]


def _value(rng: Random) -> Fraction:
    while (value := Fraction(rng.randint(1, 30), rng.randint(2, 31))).denominator == 1:
        pass
    return value


def _decimal(value: Fraction) -> str:
    """A decimal, written out."""
    text = f"{float(value):.10f}".rstrip("0").rstrip(".")
    return text if Fraction(text) == value else str(float(value))


KINDS = (
    *(_factor, _common, _squares, _expand, _square, _distribute, _collect, _fraction, _rational),
    *(_root, _letter_root, _rationalise, _write, _write, _units, _bases, _solve, _nought),
    *(_inequality, _interval, _compute, _compute, _complex, _powers, _powers, _line, _ratio),
    *(_pairs, _trig),
)


def rows(seed: int, each: int) -> Iterator[Row]:
    """So many questions of every kind."""
    for place, kind in enumerate(KINDS):
        rng = Random(f"{seed} {place}")
        for _ in range(each):
            yield kind(rng)
