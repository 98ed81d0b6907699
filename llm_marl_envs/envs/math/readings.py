r"""Formulas as they are written: how much stands in one, and what is still to be worked out in it.

Reads LaTeX and plain texts of one line. Owns no mathematics beyond the sums and products of
fractions: whether two formulas are the same is `formulas.py`'s business. The library there works
out what it reads (`\binom{7}{1}`, `12 \div 4` and `\gcd(14,21)` are read as numbers), so what a
text leaves to the reader must be seen in the text itself.

A *fold* is a step that a reader could take at once: a number with a number (`3+4`, `6/8`, `2^5`,
`\sqrt{49}`, `7!`), like terms (`x+x`), equal factors (`x\cdot x`), something neutral (`f+0`,
`f/1`, `f^1`). A formula without folds is not yet simple: `(x+1)^2` and `\sqrt{12}` have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt, lcm
from typing import Any

MOST_DEPTH = 24
"""Of groups within groups."""
MOST_SIGNS = 3
"""One after the other."""
MOST_POWER = 12
"""A larger exponent is not worked out here."""
MOST_BITS = 256
"""Of a number's power; a larger one is not worked out here."""
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
TOKEN = re.compile(r"\s*(?:([0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(\\[a-zA-Z]+|\\.|[^\s\\])|(?=\Z))")
OPEN = {"(": (")", "]"), "[": (")", "]"), "{": ("}",), "\\{": ("\\}",)}
CLOSE = frozenset(")]}|") | {"\\}"}
SIGNS = ("+", "-", "\\pm", "\\mp")
SEPARATORS = frozenset(",;:&") | {"\\\\", "\\cup", "\\cap"}
RELATIONS = re.compile(r"[=<>~]|\\(?:leq?|geq?|neq?|in|approx|equiv|sim|to|subset|mid)")
FUNCTIONS = re.compile(
    r"\\(?:sin|cos|tan|cot|sec|csc|arc(?:sin|cos|tan)|sinh|cosh|tanh|log|ln|lg|exp|det|gcd|lcm|max|"
    r"min|sum|prod|int|lim|[tbd]?binom|choose|b?mod|pmod|arg|deg|dim|ker|sup|inf|Re|Im)"
)
"""What takes an argument without braces; another command is a name there."""
IRRATIONAL = frozenset(
    {"\\sin", "\\cos", "\\tan", "\\log", "\\ln", "\\exp", "\\arcsin", "\\arctan"}
)
"""Functions that often have no simpler value."""
PAIRS = {"\\lfloor": "\\rfloor", "\\lceil": "\\rceil", "\\langle": "\\rangle"}

LIKE = {"\\ln": "\\log", "\\lg": "\\log", "\\exp": ""}
"""What other functions are to `Reading.functions`."""
Rest = Any
"""What a term is but for its coefficient, hashable; None for a number alone."""
Term = tuple[Fraction, Rest]
ONE = Fraction(1)


class UnreadableError(ValueError):
    """A text that is no formula, or one with too much in it."""


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        term: the formula with its folds taken: sums and products in one order, a coefficient apart.
        size: how many numbers, letters and functions stand in it; a fraction of numbers is one.
        folds: how many steps are left to the reader.
        largest: the largest number that is an exponent or that a function is of, as in `7!`.
        functions: what is applied in it, but for roots and `exp`.
    """

    term: Term
    size: int
    folds: int
    largest: Fraction
    functions: frozenset[str]

    @property
    def number(self) -> bool:
        """Whether it is a number, written out."""
        return self.term[1] is None and not self.folds


def read(text: str) -> Reading:
    """Read a formula.

    Raises:
        UnreadableError: brackets that do not close, nothing at all, groups too deep, a division by
            0, a number with thousands of digits.
    """
    reader = _Reader(text)
    try:
        term = reader.listed(0)
    except UnreadableError:
        raise
    except (ArithmeticError, ValueError) as error:  # 0^{-1/2}; a number too long to write
        raise UnreadableError(f"{text!r:.80}: {error}") from error
    if reader.peek() is not None:
        raise UnreadableError(f"{text!r:.80}: nothing belongs to {reader.peek()!r}")
    return Reading(
        term, reader.size * reader.signs, reader.folds, reader.largest, frozenset(reader.functions)
    )


def parts(term: Term) -> Iterator[Rest]:
    """Everything that stands in a formula, each without its coefficient; itself first."""
    rest = term[1]
    if rest is None:
        return
    yield rest
    if rest[0] == "pow" and rest[1][0][1] is None:
        number = rest[1][0][0]
        yield "root", max(number, 1 / number) if number else number
    for inner in rest[1:]:
        for part in inner if isinstance(inner, tuple) else ():
            if isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Fraction):
                yield from parts(part)


def times(terms: Sequence[Term]) -> tuple[Term, int]:
    """A product, and how many of its factors go together with others."""
    coefficient, powers, roots, joined = ONE, {}, {}, 0
    for factor, rest in terms:
        coefficient *= factor
        for part in () if rest is None else _factors(rest):
            base, power = _base(part)
            if base[1] is None and power[1] is None and power[0].denominator > 1:
                number = base[0] if power[0] > 0 else 1 / base[0]
                joined += abs(power[0]) in roots
                roots[abs(power[0])] = roots.get(abs(power[0]), ONE) * number
                continue
            joined += base in powers
            powers[base] = plus([powers[base], power])[0] if base in powers else power
    made = [_power(base, power) for base, power in powers.items() if power != (Fraction(0), None)]
    for power, number in roots.items():
        root = _root(number, power)
        coefficient *= root or 1
        made += [] if root else [("pow", ((number, None), (power, None)))]
    if not coefficient or not made:
        return (coefficient, None), joined
    if len(made) == 1:
        return (coefficient, made[0]), joined
    return (coefficient, ("mul", tuple(sorted(((ONE, rest) for rest in made), key=repr)))), joined


def _factors(rest: Rest) -> list[Rest]:
    return [inner for _, inner in rest[1]] if rest[0] == "mul" else [rest]


def _base(rest: Rest) -> tuple[Rest, Term]:
    return (rest[1][0], rest[1][1]) if rest[0] == "pow" else ((ONE, rest), (ONE, None))


def _power(base: Term, power: Term) -> Rest:
    if power == (ONE, None) and base[0] == 1:
        return base[1]
    return ("pow", (base, power))


def plus(terms: Sequence[Term]) -> tuple[Term, int]:
    """A sum, and how many of its terms go together with others."""
    sums: dict[Rest, Fraction] = {}
    joined = 0
    for coefficient, rest in terms:
        flat = rest[1] if rest is not None and rest[0] == "add" else ((ONE, rest),)
        for inner, part in flat:
            joined += part in sums
            sums[part] = sums.get(part, Fraction(0)) + coefficient * inner
    kept = sorted(((c, rest) for rest, c in sums.items() if c), key=lambda term: repr(term[1]))
    if not kept:
        return (Fraction(0), None), joined
    if len(kept) == 1:
        return kept[0], joined
    top, bottom = gcd(*(c.numerator for c, _ in kept)), lcm(*(c.denominator for c, _ in kept))
    content = Fraction(top, bottom) * (1 if kept[0][0] > 0 else -1)
    return (content, ("add", tuple((c / content, rest) for c, rest in kept))), joined


def _large(number: Fraction, power: Fraction) -> bool:
    """Whether a power is not worked out: `9^{12}^{12}^{12}^{12}` has as many digits as a book."""
    bits = max(number.numerator.bit_length(), number.denominator.bit_length())
    return abs(power) > MOST_POWER or bits * abs(power) > MOST_BITS


def _root(value: Fraction, power: Fraction) -> Fraction | None:
    """A fractional power that is a fraction; None for another, or a large one."""
    if abs(power) > MOST_POWER:
        return None
    if power.denominator != 2 or value < 0:
        cube = round(abs(value) ** (1 / power.denominator)) if abs(value) < 10**15 else 0
        exact = power.denominator != 2 and value == cube**power.denominator
        return Fraction(cube) ** power.numerator if exact and cube else None
    roots = isqrt(value.numerator), isqrt(value.denominator)
    if roots[0] ** 2 != value.numerator or roots[1] ** 2 != value.denominator:
        return None
    if not roots[0] and power < 0:
        return None
    return Fraction(*roots) ** power.numerator


class _Reader:
    """Reads from left to right; counts as it goes."""

    def __init__(self, text: str) -> None:
        self.tokens = [match[1] or match[2] for match in TOKEN.finditer(text) if match[0].strip()]
        self.at = 0
        self.size = self.folds = 0
        self.largest = Fraction(0)
        self.functions: set[str] = set()
        self.bars = 0
        self.signs = 1

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *expected: str) -> str:
        token = self.peek()
        if token is None or (expected and token not in expected):
            raise UnreadableError(f"expected {expected or 'more'}, got {token!r}")
        self.at += 1
        return token

    # -- from the loosest to the tightest ---------------------------------------------------------
    def listed(self, depth: int) -> Term:
        """Formulas between separators."""
        formulas = [self.related(depth)]
        while self.peek() in SEPARATORS:
            self.take()
            if self.peek() is not None and self.peek() not in CLOSE:
                formulas.append(self.related(depth))
        return formulas[0] if len(formulas) == 1 else (ONE, ("list", tuple(formulas)))

    def related(self, depth: int) -> Term:
        """Formulas between signs such as `=`."""
        formulas, signs = [self.added(depth)], []
        while RELATIONS.fullmatch(self.peek() or ""):
            signs.append(self.take())
            formulas.append(self.added(depth))
        return formulas[0] if not signs else (ONE, ("related", " ".join(signs), tuple(formulas)))

    def added(self, depth: int) -> Term:
        terms: list[Term] = []
        while not terms or self.peek() in SIGNS:
            sign, both, first = ONE, False, self.at
            while (token := self.peek()) in SIGNS:
                self.take()
                if self.at > first + MOST_SIGNS:
                    raise UnreadableError("too many signs")
                sign *= -1 if token == "-" else 1
                both |= token in SIGNS[2:]
            value, rest = self.multiplied(depth)
            self.signs += both
            terms.append(
                (ONE, ("call", "\\pm", ((value, rest),))) if both else (value * sign, rest)
            )
        if len(terms) == 1:
            return terms[0]
        total, joined = plus(terms)
        self.folds += joined + sum(not value for value, _ in terms)
        return total

    def multiplied(self, depth: int) -> Term:
        factors, inverse = [self.powered(depth)], [False]
        while True:
            token = self.peek()
            if token in ("*", "/"):
                self.take()
                sign = ONE
                while self.peek() in ("+", "-"):
                    sign *= -1 if self.take() == "-" else 1
                value, rest = self.powered(depth)
                factors.append((value * sign, rest))
                inverse.append(token == "/")
            elif self._begins(token):
                factors.append(self.powered(depth))
                inverse.append(False)
            else:
                break
        return self.product(factors, inverse)

    def product(self, factors: Sequence[Term], inverse: Sequence[bool]) -> Term:
        """A product of factors and inverses, its folds counted."""
        if len(factors) == 1:
            return factors[0]
        over = [factor for factor, below in zip(factors, inverse, strict=True) if not below]
        under = [factor for factor, below in zip(factors, inverse, strict=True) if below]
        if any(not value for value, _ in factors):
            self.folds += 1
            if any(not value for value, _ in under):
                raise UnreadableError("nothing is divided by 0")
            return Fraction(0), None
        numbers = [value for value, rest in over if rest is None]
        below = [value for value, rest in under if rest is None]
        lone = len(over) == 1 and under
        self.folds += max(0, len(numbers) - 1) + max(0, len(below) - 1)
        self.folds += sum(value == 1 for value in below) + (0 if lone else numbers.count(ONE))
        top, bottom = ONE, ONE
        for value, _ in over:
            top *= value
        for value, _ in under:
            bottom *= value
        self.folds += not _lowest(top, bottom)
        flipped = [
            (1 / value, None if rest is None else self._inverse(rest)) for value, rest in under
        ]
        made, joined = times([*over, *flipped])
        self.folds += joined
        if made[1] is None and len(over) == len(under) == 1 and not joined:
            self.size -= 1  # a fraction of numbers
        return made

    def _inverse(self, rest: Rest) -> Rest:
        base, (value, power) = _base(rest)
        return _power(base, (-value, power))

    def powered(self, depth: int) -> Term:
        base = self.atom(depth)
        while (token := self.peek()) in ("^", "_", "!", "'", "%", "\\%"):
            self.take()
            if token in ("%", "\\%"):
                base = (base[0] / 100, base[1])
            elif token in ("!", "'"):
                base = self.called(token, [base])
            else:
                sign = ONE
                while self.peek() == "-":
                    self.take()
                    sign = -sign
                value, rest = self.atom(depth)
                inner = (value * sign, rest)
                base = self.raised(base, inner) if token == "^" else self.named(base, inner)
        return base

    def named(self, base: Term, index: Term) -> Term:
        """Something with an index: a letter has another name then."""
        self.folds += base[1] is None or base[1][0] != "name"
        return ONE, ("call", "_", (base, index))

    def raised(self, base: Term, power: Term) -> Term:
        """A power; a number's power is worked out where it is small."""
        value, rest = power
        if rest is not None:
            return ONE, ("pow", (base, power))
        self.largest = max(self.largest, abs(value))
        if value in (0, 1) or base == (ONE, None):
            self.folds += 1
            return base if value == 1 else (ONE, None)
        if base[1] is None:
            return self._number_raised(base, value)
        if base[1][0] == "pow" and base[0] == 1 and base[1][1][1][1] is None:
            self.folds += 1  # a power of a power
            inner, (old, _) = base[1][1]
            return (
                times([(ONE, _power(inner, (old * value, None)))])[0] if old * value != 1 else inner
            )
        if value.denominator == 1 and not _large(base[0], value):
            if base[1][0] == "mul":
                raised = [
                    (ONE, _power(b, (p[0] * value, p[1])))
                    for b, p in (_base(factor[1]) for factor in base[1][1])
                ]
                self.folds += 1
                return times([(base[0] ** int(value), None), *raised])[0]
            return base[0] ** int(value), _power((ONE, base[1]), power)
        return ONE, ("pow", (base, power))

    def _number_raised(self, base: Term, value: Fraction) -> Term:
        number = base[0]
        if value.denominator > 1:
            root = _root(number, value)
            if root is None:
                return times([(ONE, ("pow", (base, (value, None))))])[0]
            self.folds += 1
            return root, None
        self.folds += 1
        if number == 0 or _large(number, value):
            return ONE, ("pow", (base, (value, None)))
        return number ** int(value), None

    def called(self, name: str, arguments: Sequence[Term]) -> Term:
        """A function; it is left to the reader, but for those of `IRRATIONAL`."""
        self.size += 1
        self.functions |= {LIKE.get(name, name)} - {""}
        if name not in IRRATIONAL:
            self.folds += 1
            numbers = (abs(value) for value, rest in arguments if rest is None)
            self.largest = max([self.largest, *numbers])
        return ONE, ("call", name, tuple(arguments))

    # -- atoms -------------------------------------------------------------------------------------
    def _begins(self, token: str | None) -> bool:
        if (
            token is None
            or token in SEPARATORS
            or RELATIONS.fullmatch(token)
            or token in PAIRS.values()
        ):
            return False
        if token == "|":
            return not self.bars
        return token not in CLOSE and token not in (*SIGNS, "^", "_", "!", "'")

    def group(self, opening: str, depth: int) -> Term:
        if self.peek() in CLOSE:
            raise UnreadableError("an empty group")
        inner = self.listed(depth + 1)
        closing = self.take(*OPEN[opening])
        if inner[1] is not None and inner[1][0] == "list":
            return ONE, ("call", opening + closing, (inner,))
        return inner

    def atom(self, depth: int) -> Term:
        if depth > MOST_DEPTH:
            raise UnreadableError("groups are too deep")
        token = self.take()
        if NUMBER.fullmatch(token):
            return self._number(token, depth)
        if token == "|" and not self.bars:
            self.bars += 1
            inner = self.listed(depth + 1)
            self.take("|")
            self.bars -= 1
            return self.called("|", [inner])
        if token in OPEN:
            return self.group(token, depth)
        if token in PAIRS:
            inner = self.listed(depth + 1)
            self.take(PAIRS[token])
            return self.called(token, [inner])
        if token == "\\frac":
            both = [self._argument(depth), self._argument(depth)]
            return self.product(both, [False, True])
        if token == "\\sqrt":
            return self._rooted(depth)
        if token[0] == "\\" and len(token) > 1:
            return self._command(token, depth)
        if not (token.isascii() and token.isalpha()):
            raise UnreadableError(f"{token!r} begins nothing")
        self.size += 1
        return ONE, ("name", token)

    def _number(self, token: str, depth: int) -> Term:
        self.size += 1
        whole = Fraction(token)
        if self.peek() != "\\frac":
            return whole, None
        start = self.at, self.size, self.folds
        self.take()
        over, under = self._argument(depth), self._argument(depth)
        mixed = over[1] is None and under[1] is None and 0 < over[0] < under[0] == int(under[0])
        if mixed and whole.denominator == 1:
            self.size -= 2
            self.folds += not _lowest(over[0], under[0])
            return whole + over[0] / under[0], None
        self.at, self.size, self.folds = start
        return whole, None

    def _argument(self, depth: int) -> Term:
        r"""What a command takes: a group, or one sign (`\frac12`)."""
        token = self.peek()
        if token is not None and NUMBER.fullmatch(token) and len(token) > 1:
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
        return self.atom(depth + 1)

    def _rooted(self, depth: int) -> Term:
        self.size += 1
        degree = Fraction(2)
        if self.peek() == "[":
            self.take()
            value, rest = self.listed(depth + 1)
            self.take("]")
            if rest is not None or value.denominator != 1 or not 2 <= value <= MOST_POWER:
                raise UnreadableError("a root of no whole number")
            degree, self.size = value, self.size - 1
        return self.raised(self._argument(depth), (1 / degree, None))

    def _command(self, token: str, depth: int) -> Term:
        if not FUNCTIONS.fullmatch(token) and self.peek() != "{":
            self.size += 1
            return ONE, ("name", token)
        marks: list[Term] = []
        while self.peek() in ("_", "^"):
            self.take()
            marks.append(self._argument(depth))
        if self.peek() != "{":
            return self.called(token, [*marks, self.powered(depth + 1)])
        while self.peek() == "{":
            marks.append(self._argument(depth))
        return self.called(token, marks)


def _lowest(top: Fraction, bottom: Fraction) -> bool:
    """Whether nothing can be cancelled; a decimal over or under a line can."""
    if top.denominator == bottom.denominator == 1:
        return gcd(int(top), int(bottom)) == 1
    return bottom == 1 or abs(top) == 1
