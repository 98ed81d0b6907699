"""`calculate`: arithmetic with fractions, exact; no program is run."""

from __future__ import annotations

import ast
import operator
import random
import re
from collections.abc import Mapping
from fractions import Fraction
from math import isinf
from typing import Any

from llm_marl_envs.core.tasks import Task
from llm_marl_envs.sandbox.jail.source import ERRORS, parse
from llm_marl_envs.tools.base import Tool, ToolArguments

MOST_CHARS = 200
MOST_BITS = 2048
"""Of numerators and denominators."""
DIGIT = re.compile("[1-9]")
SIGNS = str.maketrans(
    {"\N{MULTIPLICATION SIGN}": "*", "\N{MIDDLE DOT}": "*", "\N{DIVISION SIGN}": "/"}
    | {"\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "^": "**"}
)
"""What models write for the signs of Python."""
OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Calculate(Tool):
    """Arithmetic: + - * / // % ** and parentheses."""

    name = "calculate"
    description = "the exact value of numbers with + - * / // % ** and parentheses"

    class Arguments(ToolArguments):
        """What is to be worked out."""

        expression: str

    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """The value: a whole number, or a fraction with its decimals."""
        return shown(value_of(arguments["expression"]))


def value_of(expression: str) -> Fraction:
    """The exact value of an expression.

    Raises:
        ValueError: it is no expression, divides by zero, or is too long or too large.
    """
    if len(expression) > MOST_CHARS:
        raise ValueError(f"an expression has at most {MOST_CHARS} characters")
    source = expression.translate(SIGNS).strip()
    try:
        tree = parse(source, mode="eval")
    except ERRORS as error:
        raise ValueError("no expression of numbers and + - * / // % ** ( )") from error
    return _value(tree.body, source)


def shown(value: Fraction) -> str:
    """A number as text."""
    if value.denominator == 1:
        return str(value.numerator)
    try:
        return f"{value}, about {float(value):.6g}"
    except OverflowError:
        return str(value)


def _value(node: ast.expr, source: str) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            if isinstance(number, int):
                return _bounded(Fraction(number))
            return _decimal(ast.get_source_segment(source, node) or "", number)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, source)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, source)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, source), _value(right, source))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            try:
                value = OPERATIONS[type(op)](_value(left, source), _value(right, source))
            except ZeroDivisionError as error:
                raise ValueError("divides by zero") from error
            return _bounded(Fraction(value))
    raise ValueError("no expression of numbers and + - * / // % ** ( )")


def _decimal(written: str, number: float) -> Fraction:
    """A number as it is written: 0.1 is a tenth."""
    if isinf(number) or (number == 0 and DIGIT.search(written.lower().partition("e")[0])):
        raise ValueError("the value is too large")  # 1e99999999 would fill the memory
    return _bounded(Fraction(written if number else 0))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ValueError("a power takes a whole exponent")
    if base == 0 and exponent < 0:
        raise ValueError("divides by zero")
    if _bits(base) * abs(exponent) > MOST_BITS:
        raise ValueError("the value is too large")
    return _bounded(base ** int(exponent))


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > MOST_BITS:
        raise ValueError("the value is too large")
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
