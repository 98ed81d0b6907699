r"""What a formula is worth, how much work it leaves, and how it is written.

All is exact. A *value* is a normal form: sums and products of fractions, letters and roots in one
order, a coefficient apart. Nothing is multiplied out and nothing is factored. So `x^2-1` and
`(x-1)(x+1)` have two values, and no answer to *factor* is found without factoring. A *step* is work
that a text leaves to its reader: a number joined with a number (`3+4`, `6/8`, `2^5`, `\sqrt{12}`),
like terms, equal letters (`x\cdot x`), something neutral (`f+0`, `f/1`). How a formula is *written*
is its tree in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, isqrt, lcm, prod
from typing import Any

from llm_marl_envs.envs.math.reading import Node, UnreadableError, value_of

MOST_BITS = 3000
"""Of a number's power; a text with a larger one is unreadable. Other numbers have four times as
many."""
MOST_DEGREE = 12
"""Of a root."""
PRIMES = [n for n in range(2, 200) if all(n % d for d in range(2, isqrt(n) + 1))]
"""Whose powers are taken out of roots."""
CONSTANTS = frozenset({"\\pi", "e", "\\infty", "\\emptyset"})
"""Names that are no letters."""
Rest = Any
"""What a value is but for its coefficient, hashable; None for a number alone."""
Value = tuple[Fraction, Rest]
ONE = Fraction(1)
INFINITY: Value = (ONE, ("name", "\\infty"))


@dataclass(frozen=True, slots=True)
class Worth:
    """A formula's value, and how many steps are left in it."""

    value: Value
    steps: int

    @property
    def number(self) -> Fraction | None:
        """The number that it is; None for anything else."""
        return self.value[0] if self.value[1] is None else None


@lru_cache(maxsize=16384)
def worth(node: Node) -> Worth:
    """The value of a formula.

    Raises:
        UnreadableError: a division by 0, a number with thousands of digits.
    """
    maker = _Maker()
    try:
        value = maker.value(node)
    except ZeroDivisionError as error:
        raise UnreadableError("a division by 0") from error
    return Worth(value, maker.steps)


@lru_cache(maxsize=16384)
def written(node: Node) -> Any:
    r"""A formula as it is written, but for the order of terms and factors, and the place of a sign.

    `\frac{1}{2}x` is `\frac{x}{2}`, and `\frac{-1}{2}` is `-\frac{1}{2}`.
    """
    minus, factors = _signed(node)
    others = [factor for factor in factors if factor != ("number", "1")]
    return minus, *sorted(others or factors[:1], key=repr)


def _signed(node: Node) -> tuple[bool, list[Any]]:
    """Whether a sign stands before a product, and its factors as they are written."""
    if node.kind == "minus":
        minus, factors = _signed(node.of[0])
        return not minus, factors
    if node.kind == "over":
        minus, *factors = written(node.of[0])
        return minus, [("over", *factors)]
    if node.kind == "product":
        minus, made = False, []
        for part in _flat(node):
            sign, factors = _signed(part)
            minus ^= sign
            made += [("product", *sorted(factors, key=repr))] if part.kind == "product" else factors
        return minus, made
    parts = [written(part) for part in node.of]
    if node.kind in ("sum", "list") or (node.kind == "relation" and node.text == "="):
        parts.sort(key=repr)
    return False, [(node.kind, node.text, *parts)]


def _flat(node: Node) -> list[Node]:
    r"""The factors of a product, and those of a numerator or a number: `\frac{ac}{b}` is `ac/b`.

    `\frac{a}{b}c` is another text.
    """
    lone = sum(part.kind != "over" for part in node.of) == 1
    parts: list[Node] = []
    for part in node.of:
        line = lone and all(inner.kind != "over" for inner in part.of)
        flat = part.kind == "product" and (line or worth(part).number is not None)
        parts += part.of if flat else [part]
    return parts


def is_sum(node: Node) -> bool:
    r"""Whether a formula is a sum, also over a number: `\frac{x+1}{2}`, `\frac{1}{2}(x+1)`."""
    if node.kind != "product":
        return node.kind == "sum"
    rest = [
        part
        for part in node.of
        if not (part.kind == "over" and part.of[0].kind == "number")
        and not (part.kind == "product" and is_unit(part))
    ]
    return len(rest) == 1 and is_sum(rest[0])


def is_unit(node: Node) -> bool:
    """Whether a product is one over a number."""
    value = worth(node).number
    return value is not None and value.numerator == 1


def letters(value: Value) -> bool:
    """Whether a letter stands in a value."""

    def within(part: Any) -> bool:
        if not isinstance(part, tuple):
            return False
        if part[:1] == ("name",):
            return part[1] not in CONSTANTS
        return any(map(within, part))

    return within(value[1])


def times(values: Sequence[Value]) -> tuple[Value, int]:
    """A product, and how many of its factors go together with others."""
    coefficient, powers, roots, joined = ONE, {}, {}, 0
    for factor, rest in values:
        coefficient *= factor
        for part in () if rest is None else _parts(rest):
            base, power = _base(part)
            if base[1] is None and power[1] is None:  # a root of a number
                joined += power[0] in roots
                roots[power[0]] = roots.get(power[0], ONE) * base[0]
            elif base in powers:
                factored = _summed(base[1]) and powers[base][0] > 0 < power[0]
                joined += not factored  # (x+1)(x+1) is as factored as (x+1)^2
                powers[base] = plus([powers[base], power])[0]
            else:
                powers[base] = power
    made = [_power(base, power) for base, power in powers.items() if power[0]]
    for power, number in roots.items():
        inner = _root(number, power)
        coefficient *= inner[0]
        made += [] if inner[1] is None else [inner[1]]
    _check(coefficient)
    if not coefficient or not made:
        return (coefficient, None), joined
    if len(made) == 1:
        return (coefficient, made[0]), joined
    return (coefficient, ("mul", tuple(sorted(((ONE, rest) for rest in made), key=repr)))), joined


def plus(values: Sequence[Value]) -> tuple[Value, int]:
    """A sum, and how many of its terms go together with others or must be multiplied out."""
    sums: dict[Rest, Fraction] = {}
    joined = 0
    for coefficient, rest in values:
        flat = rest[1] if _summed(rest) else ((ONE, rest),)
        joined += len(flat) > 1 and coefficient != 1
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
    _check(content)
    return (content, ("add", tuple((c / content, rest) for c, rest in kept))), joined


def _check(number: Fraction) -> None:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > 4 * MOST_BITS:
        raise UnreadableError("a number with thousands of digits")


def _parts(rest: Rest) -> list[Rest]:
    return [inner for _, inner in rest[1]] if rest[0] == "mul" else [rest]


def _base(rest: Rest) -> tuple[Value, Value]:
    return (rest[1][0], rest[1][1]) if rest[0] == "pow" else ((ONE, rest), (ONE, None))


def _summed(rest: Rest) -> bool:
    return rest is not None and rest[0] == "add"


def _power(base: Value, power: Value) -> Rest:
    return base[1] if power == (ONE, None) and base[0] == 1 else ("pow", (base, power))


def _whole_power(number: Fraction, power: int) -> Fraction:
    bits = max(number.numerator.bit_length(), number.denominator.bit_length())
    if bits > 1 and bits * abs(power) > MOST_BITS:
        raise UnreadableError("a power with thousands of digits")
    return number**power


def _root(number: Fraction, power: Fraction) -> Value:
    r"""A number to a power: `\sqrt{12}` is `2\sqrt{3}`, and `1/\sqrt{3}` is `\sqrt{3}/3`."""
    degree = power.denominator
    made = _whole_power(number, power.numerator)
    if degree == 1:
        return made, None
    if number <= 0 or degree > MOST_DEGREE:
        raise UnreadableError("a root of no positive number, or one of a high degree")
    outside = Fraction(1, made.denominator)
    inside = made.numerator * int(_whole_power(Fraction(made.denominator), degree - 1))
    for prime in PRIMES:
        while inside % prime**degree == 0:
            inside //= prime**degree
            outside *= prime
    if degree == 2 and isqrt(inside) ** 2 == inside:
        outside, inside = outside * isqrt(inside), 1
    if inside == 1:
        return outside, None
    return outside, ("pow", ((Fraction(inside), None), (Fraction(1, degree), None)))


def raised(base: Value, power: Fraction) -> Value:
    r"""A value to a power: `(2x)^3` is `8x^3`, `\sqrt{4x}` is `2x^{1/2}`."""
    number, rest = base
    if rest is None:
        return _root(number, power)
    if number < 0 and power.denominator > 1:  # the root of -x
        return ONE, ("pow", (base, (power, None)))
    factors = [_root(number, power)]
    for part in _parts(rest):
        inner, (old, exponent) = _base(part)
        if inner[1] is None and exponent is None:
            factors.append(_root(inner[0], old * power))
        else:
            factors.append((ONE, _power(inner, (old * power, exponent))))
    return times(factors)[0]


class _Maker:
    """Makes the value of a tree; counts the steps that it takes."""

    def __init__(self) -> None:
        self.steps = 0

    def value(self, node: Node) -> Value:
        made = getattr(self, f"_{node.kind}")(node)
        _check(made[0])
        return made

    def all(self, nodes: Sequence[Node]) -> tuple[Value, ...]:
        return tuple(self.value(node) for node in nodes)

    def _number(self, node: Node) -> Value:
        return value_of(node.text), None

    def _percent(self, node: Node) -> Value:
        value, rest = self.value(node.of[0])
        return value / 100, rest

    def _mixed(self, node: Node) -> Value:
        whole, over, under = (int(part.text) for part in node.of)
        self.steps += gcd(over, under) > 1
        return whole + Fraction(over, under), None

    def _based(self, node: Node) -> Value:
        digits, _, base = node.text.partition("_")
        try:
            number = int(digits, int(base))
        except ValueError as error:
            raise UnreadableError(f"{node.text!r:.80}: {error}") from error
        return (Fraction(number), None) if base == "10" else (ONE, ("based", base, number))

    def _name(self, node: Node) -> Value:
        return ONE, ("name", node.text)

    def _minus(self, node: Node) -> Value:
        value, rest = self.value(node.of[0])
        self.steps += node.of[0].kind == "minus"
        return -value, rest

    def _sum(self, node: Node) -> Value:
        terms = self.all(node.of)
        total, joined = plus(terms)
        self.steps += joined + sum(not value for value, _ in terms)
        return total

    def _over(self, node: Node) -> Value:
        return raised(self.value(node.of[0]), -ONE)

    def _product(self, node: Node) -> Value:
        values = self.all(node.of)
        made, joined = times(values)
        if scientific(node):
            return made
        over: list[Value] = []
        under: list[Value] = []
        for part, value in zip(node.of, values, strict=True):
            (under if part.kind == "over" else over).append(value)
        lone = len(over) == 1 and bool(under)  # one thing over others
        self.steps += joined + (not made[0]) + (not _lowest(node))
        top, bottom = ([n for n, rest in side if rest is None] for side in (over, under))
        self.steps += max(0, len(top) - 1) + max(0, len(bottom) - 1)
        self.steps += bottom.count(ONE) + (0 if lone else top.count(ONE))
        self.steps += made[1] is None and not fraction(node)
        signs = sum(
            (part.of[0] if part.kind == "over" else part).kind == "minus" for part in node.of
        )
        self.steps += signs > (len(over) == 1)  # (-a)b, \frac{-a}{-b}
        if letters(made) and not (lone and all(rest is None for _, rest in under)):
            self.steps += sum(_content(value) for value in values)
        return made

    def _power(self, node: Node) -> Value:
        base, power = self.all(node.of)
        if power[1] is not None:
            return ONE, ("pow", (base, power))
        ten = node.of[0].text == "10" and power[0].denominator == 1
        self.steps += 0 if ten else self._taken(base, power[0])
        return raised(base, power[0])

    def _root(self, node: Node) -> Value:
        base, (degree, rest) = self.all(node.of)
        if rest is not None or degree.denominator > 1 or not 2 <= degree <= MOST_DEGREE:
            raise UnreadableError("a root of no whole number")
        self.steps += self._taken(base, 1 / degree)
        return raised(base, 1 / degree)

    def _taken(self, base: Value, power: Fraction) -> bool:
        r"""Whether a power can be worked out: `2^5`, `\sqrt{12}`, `(2x)^3`, `\sqrt[4]{x^2}`."""
        number, rest = base
        if power in (0, 1) or base == (ONE, None):
            return True
        parts = () if rest is None else _parts(rest)
        if power.denominator == 1:
            turned = number == -1 and _summed(rest)  # (1-x)^2
            powers = len(parts) > 1 or any(part[0] == "pow" for part in parts)
            return rest is None or powers or not (turned or number == 1)
        for part in parts:
            old = _base(part)[1][0] * power
            if part[0] == "pow" and (old >= 1 or old.denominator != power.denominator):
                return True
        outside = _root(abs(number), power)[0]
        below = power < 0 and outside == 1 / abs(number)  # 3^{-1/2} is as simple as 1/\sqrt{3}
        return outside != 1 and not below

    def _call(self, node: Node) -> Value:
        if node.text == "\\exp":
            return self.value(Node("power", (Node("name", (), "e"), node.of[0])))
        parts = self.all(node.of)
        if node.text == "\\log_":
            over, under = ((ONE, ("call", "\\ln", (part,))) for part in parts)
            made, joined = times([over, raised(under, -ONE)])
            self.steps += joined
            return made
        return ONE, ("call", node.text, parts)

    def _list(self, node: Node) -> Value:
        return ONE, ("list", tuple(sorted(self.all(node.of), key=repr)))

    def _group(self, node: Node) -> Value:
        parts = self.all(node.of)
        if node.text == ":" and [rest for _, rest in parts] == [None, None]:
            over, under = parts[0][0], parts[1][0]
            if over.denominator == under.denominator == 1 and gcd(int(over), int(under)) == 1:
                return over / under, None  # 3:2, but not 3:30
        return ONE, ("group", node.text, parts)

    def _matrix(self, node: Node) -> Value:
        return ONE, ("matrix", self.all(node.of))

    def _relation(self, node: Node) -> Value:
        if node.text not in ("=", "<", "<=", "!="):
            return ONE, ("relation", node.text, self.all(node.of))
        terms: list[Value] = []
        for part, sign in zip(node.of, (1, -1), strict=True):
            value, rest = self.value(part)
            self.steps += _summed(rest) and not is_sum(part)
            inner = rest[1] if _summed(rest) else ((ONE, rest),)
            terms += [(sign * value * one, other) for one, other in inner if value]
        (content, rest), joined = plus(terms)
        self.steps += joined
        sign = -ONE if content < 0 and node.text[0] == "<" else ONE
        return sign, ("relation", node.text, rest)


def _content(value: Value) -> bool:
    """Whether a number stands in all terms of a sum: `2x+2`."""
    return _summed(value[1]) and abs(value[0].numerator) != 1


def _lowest(node: Node) -> bool:
    """Whether no number can be cancelled in a product; a decimal over or under a line can."""
    factors = [worth(part).value for part in node.of if part.kind != "over"]
    ratios = [(1, 1), *(number.as_integer_ratio() for number, _ in factors)]
    over, under = (prod(parts) for parts in zip(*ratios, strict=True))
    if any(rest is not None for _, rest in factors) and over and gcd(over, under) > 1:
        return False  # 6\cdot\frac{x}{9}
    top, bottom = Fraction(over, under), ONE
    for part in node.of:
        if part.kind != "over":
            continue
        value, rest = worth(part.of[0]).value
        for base, power in map(_base, () if rest is None else _parts(rest)):
            value *= base[0] if base[1] is None and power[1] is None else 1  # \sqrt{3} below 6
        bottom *= value
    if top.denominator == bottom.denominator == 1:
        return gcd(int(top), int(bottom)) == 1 or not top
    return bottom == 1


def fraction(node: Node) -> bool:
    """Whether a product is a whole number over another."""
    parts = [part.of[0] if part.kind == "over" else part for part in node.of]
    bare = [part.of[0] if part.kind == "minus" else part for part in parts]
    kinds = [part.kind for part in node.of]
    return (
        len(kinds) == 2 and kinds[1] == "over" != kinds[0] and all(p.text.isdigit() for p in bare)
    )


def scientific(node: Node) -> bool:
    r"""Whether a number is written so: `4.2\cdot 10^{-4}`."""
    if node.kind != "product" or len(node.of) != 2 or node.of[1].kind != "power":
        return False
    first, (base, power) = node.of[0], node.of[1].of
    whole = power.of[0] if power.kind == "minus" else power
    return (
        first.kind == base.kind == whole.kind == "number"
        and base.text == "10"
        and 1 <= value_of(first.text) < 10
        and whole.text.isdigit()
    )


def interval(node: Node) -> tuple[str, Node] | None:
    """The letter and the interval of an inequality that is solved; None for another formula."""
    signs = node.text.split(" ")
    if node.kind != "relation" or not set(signs) <= {"<", "<=", "!="} or len(signs) > 2:
        return None
    lone = [part.kind == "name" and letters(worth(part).value) for part in node.of]
    if lone.count(True) != 1 or any(letters(worth(p).value) and p.kind != "name" for p in node.of):
        return None
    at = lone.index(True)
    far = Node("name", (), "\\infty")
    low, high = (
        (node.of[0] if at else Node("minus", (far,))),
        (node.of[-1] if not lone[-1] else far),
    )
    if signs == ["!="]:
        other = node.of[1 - at]
        ends = ((Node("minus", (far,)), other), (other, far))
        return node.of[at].text, Node("list", tuple(Node("group", pair, "()") for pair in ends))
    first, last = worth(low).number, worth(high).number
    if at + 2 < len(node.of) or (len(signs) == 2 and at != 1) or "!=" in signs:
        return None
    if first is not None and last is not None and first >= last:
        return None
    brackets = "(["[at > 0 and signs[0] == "<="] + ")]"[not lone[-1] and signs[-1] == "<="]
    return node.of[at].text, Node("group", (low, high), brackets)
