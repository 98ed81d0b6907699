r"""Formulas as they are written: one reader, for answers, right answers and questions alike.

Reads LaTeX and plain texts of one line, as `plain.py` shows them, into a tree. It knows a list of
names (`NAMES`, `FUNCTIONS`); any other command makes a text unreadable. Owns no mathematics: what a
tree is worth is `values.py`'s business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from llm_marl_envs.envs.math.plain import MOST_CHARS

MOST_DEPTH = 16
"""Of groups within groups."""
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
REPEATS = re.compile(r"([0-9]*\.[0-9]*)\s*\\(?:overline|bar)\s*\{?\s*([0-9]{1,12})\s*\}?")
TOKEN = re.compile(
    r"\s*(?:([0-9]*\.[0-9]*\([0-9]{1,12}\)|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    r"|(\\[a-zA-Z]+|\\.|[^\s\\])|(?=\Z))",
    re.DOTALL,
)
THOUSANDS = re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
BASED = re.compile(r"\(?\s*([0-9][0-9A-F]*)\s*\)?\s*_\s*(?:\{\s*([0-9]{1,2})\s*\}|([0-9]))")
MIXED = re.compile(r"([0-9]+)\s+([0-9]+)\s*/\s*([0-9]+)")
WORDS = re.compile(r"[A-Za-z]{4,}|[A-Za-z]+(?: [A-Za-z]+)+")
"""A text of words alone is no product of letters."""
SIGNS = ("+", "-")
SEPARATORS = frozenset(",;") | {"\\cup"}
ORDERS = {"<": "<", ">": ">", "\\le": "<=", "\\ge": ">="}
RELATIONS = {**ORDERS, "=": "=", "\\ne": "!=", "\\in": "in"}
GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
    "pi rho sigma tau phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
NAMES = frozenset(f"\\{name}" for name in (*GREEK.split(), "infty", "emptyset", "ell"))
OF_ONE = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp det gcd lcm max min "
    "binom overline vec hat arg"
)
FUNCTIONS = frozenset(f"\\{name}" for name in OF_ONE.split())
PAIRS = {"\\lfloor": "\\rfloor", "\\lceil": "\\rceil", "\\langle": "\\rangle"}
CLOSE = frozenset(")]}|") | {"\\}", "&", "\\\\", "\\end"} | frozenset(PAIRS.values())
MATRICES = frozenset({"matrix", "pmatrix", "bmatrix", "vmatrix"})


class UnreadableError(ValueError):
    """A text that is no formula, or one with too much in it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a formula.

    Attributes:
        kind: number, percent, mixed, based, name, sum, minus, product, over (what is divided by),
            power, root (its degree is the second part), call, list (in any order), group (in this
            one), relation or matrix.
        of: its parts.
        text: a number as it is written, a name, the name of a function, brackets, signs.
    """

    kind: str
    of: tuple[Node, ...] = ()
    text: str = ""


@lru_cache(maxsize=8192)
def read(text: str) -> Node:
    """Read a formula, as `plain.plain` gives it.

    Raises:
        UnreadableError: brackets that do not close, nothing at all, a name that is not known,
            groups too deep, words.
    """
    bare = text.strip()
    if len(bare) > MOST_CHARS or not bare.isascii() or WORDS.fullmatch(bare):
        raise UnreadableError(f"{text!r:.80}: no formula")
    if based := BASED.fullmatch(bare):
        return Node("based", (), f"{based[1]}_{based[2] or based[3]}")
    if THOUSANDS.fullmatch(bare):
        bare = bare.replace(",", "")
    bare = MIXED.sub(r"\1\\frac{\2}{\3}", REPEATS.sub(r"\1(\2)", bare))
    reader = _Reader(bare)
    node = reader.listed(0)
    if reader.peek() is not None:
        raise UnreadableError(f"nothing belongs to {reader.peek()!r:.40}")
    return node


def nodes(node: Node) -> list[Node]:
    """A formula and all its parts."""
    return [node, *(inner for part in node.of for inner in nodes(part))]


def number(text: str) -> Node:
    """A number in one spelling: `.50` is `0.5`, `2.0` is `2`."""
    whole, _, decimals = text.partition(".")
    if "(" in decimals:
        return Node("number", (), f"{whole or 0}.{decimals}")
    decimals = decimals.rstrip("0")
    return Node("number", (), (whole.lstrip("0") or "0") + (f".{decimals}" if decimals else ""))


class _Reader:
    """Reads from left to right."""

    def __init__(self, text: str) -> None:
        self.tokens = [match[1] or match[2] for match in TOKEN.finditer(text) if match[0].strip()]
        self.at = 0
        self.bars = 0

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *expected: str) -> str:
        token = self.peek()
        if token is None or (expected and token not in expected):
            raise UnreadableError(f"expected {expected or 'more'}, got {token!r:.40}")
        self.at += 1
        return token

    def word(self) -> str:
        r"""A name in braces, as after `\begin`."""
        self.take("{")
        name = ""
        while (token := self.take()) != "}":
            name += token
        return name

    # -- from the loosest to the tightest ----------------------------------------------------------
    def listed(self, depth: int) -> Node:
        """Formulas between separators."""
        formulas = [self.related(depth)]
        while self.peek() in SEPARATORS:
            self.take()
            if self.peek() == ",":  # `3, 5, and 7`
                self.take()
            formulas.append(self.related(depth))
        return formulas[0] if len(formulas) == 1 else Node("list", tuple(formulas))

    def related(self, depth: int) -> Node:
        """Formulas between signs such as `=`."""
        formulas, signs = [self.added(depth)], []
        while self.peek() in RELATIONS:
            signs.append(RELATIONS[self.take()])
            formulas.append(self.added(depth))
        if not signs:
            return formulas[0]
        if set(signs) <= {">", ">="}:
            signs = [sign.replace(">", "<") for sign in reversed(signs)]
            formulas.reverse()
        return Node("relation", tuple(formulas), " ".join(signs))

    def added(self, depth: int) -> Node:
        terms: list[Node] = []
        while not terms or self.peek() in SIGNS:
            minus = self.peek() in SIGNS and self.take() == "-"
            term = self.multiplied(depth)
            if terms and term.kind == "minus":  # a+(-b)
                term = Node("sum", (term,))
            terms.append(Node("minus", (term,)) if minus else term)
        return terms[0] if len(terms) == 1 else Node("sum", tuple(terms))

    def multiplied(self, depth: int) -> Node:
        factors = [self.powered(depth)]
        while True:
            token = self.peek()
            if token in ("*", "/", ":"):
                self.take()
                minus = self.peek() in SIGNS and self.take() == "-"
                factor = self.powered(depth)
                if token == ":":
                    before = factors.pop()
                    parts = before.of if before.text == ":" else (before,)
                    factors.append(Node("group", (*parts, factor), ":"))
                    continue
                factor = Node("minus", (factor,)) if minus else factor
                factors.append(factor if token == "*" else Node("over", (factor,)))
            elif self._begins(token):
                factors.append(self.powered(depth))
            else:
                break
        return factors[0] if len(factors) == 1 else Node("product", tuple(factors))

    def powered(self, depth: int) -> Node:
        base, first = self.atom(depth), self.at
        while (token := self.peek()) in ("^", "_", "!", "'", "%", "\\%"):
            self.take()
            if self.at > first + 4 * MOST_DEPTH:
                raise UnreadableError("too many powers")
            if token in ("%", "\\%"):
                base = Node("percent", (base,))
            elif token == "!":
                base = Node("call", (base,), "!")
            elif token in ("'", "_"):
                base = self.indexed(base, token, depth)
            else:
                base = Node("power", (base, self.exponent(depth)))
        return base

    def indexed(self, base: Node, token: str, depth: int) -> Node:
        """A letter with an index is another letter."""
        index = token if token == "'" else ""
        if token == "_":
            inner = self.argument(depth)
            if inner.kind not in ("number", "name"):
                raise UnreadableError("an index that is no name")
            index = "_" + inner.text
        if base.kind != "name" or (base.text[0] == "\\" and token == "'"):
            raise UnreadableError("an index of no letter")
        return Node("name", (), base.text + index)

    def exponent(self, depth: int) -> Node:
        minus = self.peek() == "-" and self.take() == "-"
        power = self.atom(depth + 1)
        return Node("minus", (power,)) if minus else power

    # -- atoms -------------------------------------------------------------------------------------
    def _begins(self, token: str | None) -> bool:
        if token is None or token in SEPARATORS or token in RELATIONS:
            return False
        if token == "|":
            return not self.bars
        return token not in CLOSE and token not in (*SIGNS, "^", "_", "!", "'", "%", "\\%", ":")

    def atom(self, depth: int) -> Node:
        if depth > MOST_DEPTH:
            raise UnreadableError("groups are too deep")
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            return self.numbered(token, depth)
        if token == "|" and not self.bars:
            self.bars += 1
            inner = self.listed(depth + 1)
            self.take("|")
            self.bars -= 1
            return Node("call", (inner,), "|")
        if token in ("(", "[", "{", "\\{"):
            return self.group(token, depth)
        if token in PAIRS:
            inner = self.listed(depth + 1)
            self.take(PAIRS[token])
            return Node("call", (inner,), token)
        if token == "\\frac":
            return Node("product", (self.argument(depth), Node("over", (self.argument(depth),))))
        if token == "\\sqrt":
            return self.rooted(depth)
        if token == "\\begin":
            return self.matrix(depth)
        if token in FUNCTIONS:
            return self.called(token, depth)
        if token in NAMES or (len(token) == 1 and token.isalpha()):
            return Node("name", (), token)
        raise UnreadableError(f"{token!r:.40} begins nothing")

    def group(self, opening: str, depth: int) -> Node:
        inner = self.listed(depth + 1)
        closing = self.take(
            *{"(": (")", "]"), "[": ("]", ")"), "{": ("}",), "\\{": ("\\}",)}[opening]
        )
        if "{" in opening and (inner.kind == "list" or opening == "\\{"):
            return Node("list", inner.of if inner.kind == "list" else (inner,))
        if inner.kind == "list":
            return Node("group", inner.of, opening + closing)
        if opening + closing not in ("()", "{}", "[]"):
            raise UnreadableError("half a bracket")
        return inner

    def numbered(self, token: str, depth: int) -> Node:
        """A number, also a mixed one."""
        if self.peek() != "\\frac" or "." in token:
            return number(token)
        start = self.at
        self.take()
        over, under = self.argument(depth), self.argument(depth)
        proper = all(part.kind == "number" and part.text.isdigit() for part in (over, under))
        if proper and 0 < int(over.text) < int(under.text):
            return Node("mixed", (number(token), over, under))
        self.at = start
        return number(token)

    def argument(self, depth: int) -> Node:
        r"""What a command takes: a group, or one sign (`\frac12`)."""
        token = self.peek()
        if token is not None and NUMBER.fullmatch(token) and len(token) > 1:
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
            token = self.take()
            if token == ".":
                raise UnreadableError("a point alone")
            return number(token)
        return self.atom(depth + 1)

    def rooted(self, depth: int) -> Node:
        degree = number("2")
        if self.peek() == "[":
            self.take()
            degree = self.listed(depth + 1)
            self.take("]")
        return Node("root", (self.argument(depth), degree))

    def matrix(self, depth: int) -> Node:
        name = self.word()
        if name not in MATRICES:
            raise UnreadableError(f"no matrix: {name!r:.40}")
        rows = [[self.listed(depth + 1)]]
        while (sign := self.take("&", "\\\\", "\\end")) != "\\end":
            if sign == "&":
                rows[-1].append(self.listed(depth + 1))
            elif self.peek() != "\\end":
                rows.append([self.listed(depth + 1)])
        if self.word() != name:
            raise UnreadableError("a matrix that does not end")
        made = tuple(Node("group", tuple(row), "row") for row in rows)
        return Node("call", made, "det") if name == "vmatrix" else Node("matrix", made)

    def called(self, name: str, depth: int) -> Node:
        """A function of what stands behind it, up to a sign or another function."""
        base, power = [], []
        while self.peek() in ("_", "^"):
            mark = self.take()
            kept = base if mark == "_" else power
            kept.append(self.argument(depth) if mark == "_" else self.exponent(depth))
        if max(len(base), len(power)) > 1:
            raise UnreadableError("two exponents")
        if self.peek() in ("{", "(", "["):
            given = [self.powered(depth + 1)]
            while name == "\\binom" and self.peek() == "{":
                given.append(self.argument(depth))
        else:
            given = [self.powered(depth + 1)]
            while self._begins(self.peek()) and (self.peek() or "")[0] not in "({[|/*\\":
                given.append(self.powered(depth + 1))
            given = given if len(given) == 1 else [Node("product", tuple(given))]
        made = Node("call", (*given, *base), name + "_" * len(base))
        return Node("power", (made, power[0])) if power else made


def value_of(text: str) -> Fraction:
    """The value of a number as `number` writes it, `0.(27)` too."""
    plain, _, repeats = text.partition("(")
    value = Fraction(plain.removesuffix(".")) if plain.strip(".") else Fraction(0)
    if not repeats:
        return value
    digits = repeats.rstrip(")")
    decimals = len(plain.partition(".")[2])
    return value + Fraction(int(digits), (10 ** len(digits) - 1) * 10**decimals)
