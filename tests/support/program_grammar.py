"""Programs drawn from a grammar of hostile and of harmless fragments, as a function of a seed.

Owns the reading of `hostile.grammar` and what cannot be written there: names that are taken from
the harness's own source, depth, numbers at the edges of limits. Knows no task (`teams`).

Format: `[name]` opens a symbol with one alternative per line, `[name:]` one whose alternatives are
blocks with blank lines between, `[name|]` one whose alternatives are words. `<x>` stands
for any alternative of x, `<n:x>` for one that `<n>` repeats within the alternative, `<last>` for
the name that was made last. "~ " marks an alternative that is drawn seldom, "~~ " one that is drawn
rarely. A block keeps the indentation of the place where it is put.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

from llm_marl_envs.sandbox.jail import codec, syscalls
from llm_marl_envs.sandbox.jail.routing import MAX_TRACE_TEXT
from llm_marl_envs.sandbox.jail.source import parse

HERE = Path(__file__).parent
WEIGHTS = {"": 1.0, "~ ": 0.2, "~~ ": 0.04}  # of an alternative with such a mark
MAX_STEPS = 40  # symbols of one program after which the shortest alternatives are taken
_REFERENCE = re.compile(r"<(?:([a-z]\w*):)?([a-z][a-z ]*)>")


@dataclass(frozen=True)
class Alternative:
    """One right side: its text, its weight, and how deep the shortest text below it is."""

    text: str
    weight: float
    symbols: tuple[str, ...]


# --- what the grammar file leaves open ---------------------------------------------------------


@cache
def harness_names() -> tuple[str, ...]:
    """Every name in the source of the confined processes."""
    sources = [path.read_text() for path in sorted(Path(codec.__file__).parent.glob("*.py"))]
    names: set[str] = set()
    for source in sources:
        names |= set(re.findall(r"\b[A-Za-z_]\w*\b", source)) & _names_of(parse(source))
    return tuple(sorted(names - _WORDS))


def _names_of(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        for attribute in ("id", "attr", "name", "arg"):
            name = getattr(node, attribute, None)
            found |= {name} if isinstance(name, str) else set()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} if node.value.isidentifier() else set()
    return found


# Names that a harmless program may not bind, for right programs use them.
_WORDS = {"aux", "solve", "None", "True", "False", "__debug__", *dir(builtins)}
_BUILTINS = tuple(sorted(set(dir(builtins)) - {"None", "True", "False", "__debug__"}))
_ERRORS = tuple(
    name
    for name in _BUILTINS
    if isinstance(kind := getattr(builtins, name), type) and issubclass(kind, BaseException)
)
_DUNDERS = tuple(
    sorted({name for kind in (int, str, dict, list, set, type, object) for name in dir(kind)})
)


def _syscall(rng: Random) -> str:
    """Mostly a call that is allowed or guarded, for whose arguments anything may be given."""
    table = syscalls.current()
    if table is None or rng.random() < 0.1:
        return str(rng.randrange(0, 460))
    return str(rng.choice([*table.allowed.values(), *table.guarded.values()]))


def _nested(rng: Random, depth: int) -> str:
    """One expression that nests `depth` deep, in one of the ways that Python has."""
    ways: tuple[Callable[[int], str], ...] = (
        lambda n: "[" * n + "]" * n,
        lambda n: "(" * n + "0" + ")" * n,
        lambda n: "{0: " * n + "0" + "}" * n,
        lambda n: "print(" * n + ")" * n,
        lambda n: "-" * n + "1",
        lambda n: "not " * n + "1",
        lambda n: "1" + " + 1" * n,
        lambda n: "1" + "**1" * n,
        lambda n: "aux" + ".a" * n,
        lambda n: "args" + "[0]" * n,
        lambda n: "aux" + "()" * n,
        lambda n: "lambda: " * n + "0",
        lambda n: "0 if 0 else " * n + "0",
        lambda n: "[x for x in " * n + "[]" + "]" * n,
        lambda n: "1" + " < 1" * n,
        lambda n: " ".join(["''"] * n),
        lambda n: "f'{" * n + "1" + "}'" * n,
        lambda n: "0x" + "f" * n,
        lambda n: "1" * n,
        lambda n: "(x:=" * n + "1" + ")" * n,
        lambda n: "aux(*" * n + "[]" + ")" * n,
    )
    return rng.choice(ways)(depth)


def _tower(rng: Random, depth: int) -> str:
    """Statements that nest, or follow each other, `depth` deep."""
    head = rng.choice(
        ("if 0:", "while 0:", "def f():", "class C:", "try:", "with aux:", "for x in ():")
    )
    if rng.random() < 0.3:
        return "if 0:\n    pass\n" + "elif 0:\n    pass\n" * depth
    if rng.random() < 0.2:
        return "\n".join(f"def f{i}(x={i}): return f{i + 1}" for i in range(depth))
    return "\n".join(" " * i + head for i in range(depth)) + "\n" + " " * depth + "pass"


def _steep(rng: Random) -> str:
    """An expression that parses and evaluates, as deep as the parser lets it be."""
    depth = rng.choice((200, 500, 800, 950))
    ways = ("-" * depth + "1", "not " * depth + "1", "1" + " + 1" * depth, "lambda: " * depth + "0")
    return rng.choice(ways)


def power(rng: Random) -> str:
    """Digits of an integer: about the limits of what is written out and of what is reported."""
    digits = sys.get_int_max_str_digits()
    longest = int(MAX_TRACE_TEXT * math.log10(16))
    between = (digits + longest) // 2
    edges = (19, 63, 300, digits - 1, digits, between, between, longest - 9, longest)
    # The square of an integer of half as many digits is such a one, too.
    return str(rng.choice((*edges, *[between // 2] * 4, 20_000)))


TERMINALS: Mapping[str, Callable[[Random], str]] = {
    "harness name": lambda rng: rng.choice(harness_names()),
    "builtin": lambda rng: rng.choice(_BUILTINS),
    "error": lambda rng: rng.choice(_ERRORS),
    "method": lambda rng: rng.choice(_DUNDERS),
    "tag": lambda rng: rng.choice(sorted(codec._READERS)),
    "syscall": _syscall,
    "digit": lambda rng: str(rng.randrange(10)),
    "number": lambda rng: str(rng.randrange(64)),
    "power": power,
    "deep": lambda rng: _nested(rng, rng.choice((3, 30, 90, 95, 150, 199, 201, 600, 990, 2_900))),
    "nesting": lambda rng: _nested(rng, rng.choice((90, 199, 990, 5_000, 30_000))),
    "steep": _steep,
    "tower": lambda rng: _tower(rng, rng.choice((3, 19, 21, 95, 101, 300))),
    "long line": lambda rng: "#" + "x" * rng.choice((100, 5_000, 50_000)),
    "think": lambda rng: "<think>",
    "bom": lambda rng: "\ufeff",
    "nul": lambda rng: "\0",
    "form feed": lambda rng: "\f",
    "carriage return": lambda rng: "\r",
}
"""Symbols that code draws."""


# --- the engine ---------------------------------------------------------------------------------


@cache
def grammar() -> dict[str, tuple[Alternative, ...]]:
    """Symbol -> alternatives, read from the file.

    Raises:
        ValueError: a symbol that is used is nowhere defined.
    """
    rules: dict[str, tuple[Alternative, ...]] = {}
    text = re.sub(r"^##.*\n", "", (HERE / "hostile.grammar").read_text("utf-8"), flags=re.MULTILINE)
    for section in re.split(r"^\[(?=[a-z][a-z ]*[:|]?\]$)", text, flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("]\n")
        between = {":": r"\n\n+", "|": r"\s+"}.get(name[-1], r"\n+")
        rules[name.rstrip(":|")] = tuple(map(_alternative, re.split(between, body.strip("\n"))))
    known = {*rules, *TERMINALS, *CONTEXT, "fresh", "last"}
    for name, alternatives in rules.items():
        for alternative in alternatives:
            if unknown := set(alternative.symbols) - known:
                raise ValueError(f"[{name}] uses {sorted(unknown)}, which nothing defines")
    return rules


CONTEXT = ("own", "partner", "base", "program", "replaced", "huge ask")
"""Symbols that whoever draws a program gives a text for."""


def _alternative(text: str) -> Alternative:
    mark = next(mark for mark in sorted(WEIGHTS, reverse=True) if text.startswith(mark))
    text = text.removeprefix(mark)
    found = list(_REFERENCE.finditer(text))
    bound = {match[1] for match in found if match[1]}
    symbols = tuple(match[2] for match in found if match[2] not in bound)
    return Alternative(text, WEIGHTS[mark], symbols)


@cache
def _height(symbol: str) -> int:
    """Symbols on the way to the shortest text of a symbol."""
    heights = dict.fromkeys((*TERMINALS, *CONTEXT, "fresh", "last"), 0)
    rules = grammar()
    while symbol not in heights:
        found = {
            name: 1 + min(_known_heights(alternatives, heights))
            for name, alternatives in rules.items()
            if name not in heights and _known_heights(alternatives, heights)
        }
        assert found, f"no text of {symbol!r} ends"
        heights |= found
    return heights[symbol]


def _known_heights(alternatives: tuple[Alternative, ...], heights: dict[str, int]) -> list[int]:
    return [
        max((heights[s] for s in one.symbols), default=0)
        for one in alternatives
        if set(one.symbols) <= heights.keys()
    ]


@dataclass
class Draw:
    """One drawing from the grammar: what is left open, and what was made so far."""

    rng: Random
    context: Mapping[str, str]
    steps: int = 0
    names: int = 0
    last: str = "print"
    used: list[str] = field(default_factory=list)  # symbols, in the order of their drawing

    def text(self, symbol: str) -> str:
        """A text of `symbol`."""
        self.steps += 1
        if symbol in self.context:
            return self.context[symbol]
        if symbol == "fresh":
            self.names += 1
            self.last = f"_v{self.names}"
            return self.last
        if symbol == "last":
            return self.last
        if symbol in TERMINALS:
            return TERMINALS[symbol](self.rng)
        self.used.append(symbol)
        return self._filled(self._chosen(grammar()[symbol]).text)

    def _chosen(self, alternatives: tuple[Alternative, ...]) -> Alternative:
        if self.steps > MAX_STEPS:
            heights = [max((_height(s) for s in one.symbols), default=-1) for one in alternatives]
            flat = zip(alternatives, heights, strict=True)
            alternatives = tuple(one for one, height in flat if height == min(heights))
        return self.rng.choices(alternatives, [one.weight for one in alternatives])[0]

    def _filled(self, template: str) -> str:
        bound: dict[str, str] = {}
        parts: list[str] = []
        end = 0
        for match in _REFERENCE.finditer(template):
            label, symbol = match[1], match[2]
            text = bound[symbol] if symbol in bound else self.text(symbol)
            if label:
                bound[label] = text
            parts.append(template[end : match.start()])
            line = template[: match.start()].rpartition("\n")[2]
            parts.append(text.replace("\n", "\n" + line) if not line.strip() else text)
            end = match.end()
        return "".join(parts) + template[end:]
