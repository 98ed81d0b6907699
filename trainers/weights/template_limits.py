"""Chat templates in bounds: at most 100,000 iterations and 1 MB of text, whoever wrote them.

    {% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}   is an error

A chat template is a program that comes with a model. Transformers renders it in a sandbox, which
keeps it from files and code, not from running for ever. Importing this module puts counters into
that sandbox, for every template that Transformers compiles in this process, TRL's calls included.

Three things are counted while a template renders: iterations (bodies of loops and macros), the text
that comes out, and work: about the characters that all operations together read and write. What
would grow (`'a' * 10**9`, `'a'|center(10**9)`) is counted before it is made. Filters and methods
that no chat template needs are not there. Owns also the date that a template writes, see `today`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache, wraps
from types import GeneratorType
from typing import Any

from jinja2 import Template, TemplateError, nodes, pass_context
from jinja2.ext import Extension
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer
from transformers.utils import chat_template_utils

ITERATIONS = 100_000
OUTPUT = 1_000_000  # characters
WORK = 60_000_000  # characters
SOURCE = 200_000  # characters of a template itself
ENTRY = 100
"""Characters that an entry of a list counts as, which is looked at in Python."""
NODE = 10
"""Characters that a part of a template counts as, each time that it may run."""
DEEPEST = 1_000
LARGEST_BITS = 10_000
LARGEST_WIDTH = 1_000
"""In a format of texts, such as '%5d'."""
TODAY = "today"
"""A variable of every template, an ISO date or time: what `strftime_now` writes; else it is now."""
DATED = "strftime_now"


def _named(words: str) -> frozenset[str]:
    return frozenset(words.split())


FILTERS = _named(
    "abs attr batch capitalize center count d default dictsort e escape first float forceescape "
    "format groupby indent int items join last length list lower map max min reject rejectattr "
    "replace reverse round safe select selectattr slice sort string title tojson trim truncate "
    "unique upper urlencode wordcount"
)
METHODS = _named(
    "capitalize casefold copy count endswith find format get index isalnum isalpha isascii "
    "isdecimal isdigit islower isnumeric isspace istitle isupper items join keys lower lstrip "
    "partition removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split "
    "splitlines startswith strip swapcase title upper values"
)
"""Of texts, numbers, lists and maps."""
GLOBALS = _named("range dict namespace cycler joiner raise_exception strftime_now")
GROWING = _named("batch center format indent join replace round slice tojson truncate")
"""Filters and methods whose result may be longer than what they are given."""
SHALLOW_FILTERS = _named(
    "attr batch count d default first items last length list map reject rejectattr reverse select "
    "selectattr slice"
)
SHALLOW_TESTS = _named(
    "boolean callable defined divisibleby even false filter float integer iterable mapping none "
    "number odd sameas sequence string test true undefined"
)
"""Neither looks into what is in a list or a map."""
OWN = (LoopContext, Cycler, Joiner, Extension)


class TemplateLimitError(TemplateError):
    """A template does more than a chat template may."""


class _Left:
    """What a rendering may still do."""

    def __init__(self) -> None:
        self.iterations = ITERATIONS
        self.work = WORK


_LEFT: ContextVar[_Left | None] = ContextVar("_LEFT", default=None)


def _spend(characters: int) -> None:
    left = _LEFT.get()
    if left is None:  # while a template is compiled, nothing is computed
        raise TemplateLimitError("no template is being rendered")
    left.work -= characters
    if left.work < 0:
        raise TemplateLimitError(
            f"it does more work than reading {WORK:,} characters, too much for a chat template"
        )


def _iterate(cost: int) -> None:
    _spend(cost)
    left = _LEFT.get()
    assert left is not None
    left.iterations -= 1
    if left.iterations < 0:
        raise TemplateLimitError(f"it takes more than {ITERATIONS:,} iterations")


def _size(value: Any, *, deep: bool = True) -> int:
    """About how many characters a value is as text; stops counting where more are not left.

    Raises:
        TemplateLimitError: it is nested deeper than `DEEPEST`: Python's `hash` of it would crash.
    """
    total, depth, level = 0, 0, [value]
    left = _LEFT.get() or _Left()
    while level:
        depth, inside = depth + 1, []
        if depth > DEEPEST:
            raise TemplateLimitError(f"it nests values deeper than {DEEPEST:,}")
        for one in level:
            if isinstance(one, Namespace):
                one = object.__getattribute__(one, "_Namespace__attrs")
            if isinstance(one, (str, bytes)):
                total += len(one) + 1
            elif isinstance(one, int):
                total += one.bit_length() // 3 + 1
            elif isinstance(one, Collection):
                total += ENTRY * (len(one) + 1)
                if deep and total <= left.work and not isinstance(one, range):
                    inside.extend(one)
                    inside.extend(one.values() if isinstance(one, Mapping) else ())
            else:
                total += ENTRY
            if total > left.work:
                return total
        level = inside
    return total


def _spend_growth(name: str, first: Any, others: Any) -> None:
    """Count the largest result that a filter or method can have, before it is made."""
    times = sum(len(one) for one in others if isinstance(one, Collection))
    numbers = sum(abs(one) for one in others if isinstance(one, int))
    _spend(numbers)
    if name == "format":
        _check_format(str(first))
    if name in GROWING:
        _spend(_size(first) * (1 + times + numbers))


def _listed(values: Iterable[Any]) -> list[Any]:
    """Arguments; what gives its entries one by one is counted before it is used."""
    return [list(one) if isinstance(one, Iterator) else one for one in values]


def _check_format(text: str) -> None:
    widths = map(int, re.findall(r"\d{1,9}", text))
    if any(width > LARGEST_WIDTH for width in widths) or re.search(r"[%{][^}\s]*[*{]", text):
        raise TemplateLimitError(f"the format {text!r:.80} may be as wide as it likes")


def _counted(name: str, function: Callable[..., Any], *, deep: bool) -> Callable[..., Any]:
    """A filter or test that counts what it is given and what it gives."""
    skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def counting(*args: Any, **kwargs: Any) -> Any:
        given = _listed(args[skipped:])
        first, *others = [*given, *kwargs.values()]
        _spend(_size(first, deep=deep) + sum(map(_size, others)))
        _spend_growth(name, first, others)
        return _given(function(*args[:skipped], *given, **kwargs))

    return counting


def _given(result: Any) -> Any:
    """A result, counted; what gives its entries one by one is counted as they come."""
    if isinstance(result, GeneratorType):
        return _each(result)
    _spend(_size(result, deep=False))
    return result


def _each(entries: Iterator[Any]) -> Iterator[Any]:
    for entry in entries:
        _spend(ENTRY)
        yield entry


# -- counters that are put into a template; with the context, so that none runs while it is compiled
@pass_context
def _iteration(_: Context, cost: int) -> bool:
    _iterate(cost)
    return True


@pass_context
def _wrote(_: Context, characters: int) -> bool:
    _spend(characters)
    return True


@pass_context
def _weighed(_: Context, value: Any) -> Any:
    _spend(_size(value))
    return value


@pass_context
def _cut(_: Context, value: Any) -> Any:
    _spend(_size(value, deep=False))
    return value


@pass_context
def _searched(_: Context, value: Any) -> Any:
    _spend(NODE if isinstance(value, (Mapping, range)) else _size(value))
    return value


COUNTERS = {f"_{one.__name__}": one for one in (_iteration, _wrote, _weighed, _cut, _searched)}


def _through(counter: Callable[..., Any], value: nodes.Expr) -> nodes.Expr:
    if isinstance(value, nodes.Const) and counter not in (_iteration, _wrote):
        return value
    return nodes.Filter(value, f"_{counter.__name__}", [], [], None, None)


def _step(counter: Callable[..., Any], cost: int) -> nodes.ExprStmt:
    return nodes.ExprStmt(_through(counter, nodes.Const(cost)))


class _Counters(NodeTransformer):
    """Puts counters into a parsed template; Jinja finds methods by the names of its nodes."""

    def _body(self, node: Any) -> Any:
        cost = NODE * sum(1 for _ in node.find_all(nodes.Node))  # what one pass may compute
        self.generic_visit(node)
        node.body.insert(0, _step(_iteration, cost))
        return node

    visit_Macro = visit_CallBlock = _body  # noqa: N815

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self._body(node)
        if node.test is not None:  # it runs where the body does not
            node.test = nodes.And(_through(_iteration, nodes.Const(NODE)), node.test)
        return node

    def visit_Output(self, node: nodes.Output) -> list[nodes.Node]:  # noqa: N802
        self.generic_visit(node)
        texts = [part.data for part in node.nodes if isinstance(part, nodes.TemplateData)]
        node.nodes = [
            part if isinstance(part, nodes.TemplateData) else _through(_weighed, part)
            for part in node.nodes
        ]
        return [_step(_wrote, sum(map(len, texts))), node] if texts else [node]

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Getitem:  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _through(_cut, node.node)
        else:
            node.arg = _through(_weighed, node.arg)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        self.generic_visit(node)
        node.expr = _through(_weighed, node.expr)
        for operand in node.ops:
            searched = operand.op in ("in", "notin")
            operand.expr = _through(_searched if searched else _weighed, operand.expr)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Concat:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_through(_weighed, part) for part in node.nodes]
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Pair:  # noqa: N802
        self.generic_visit(node)
        node.key = _through(_weighed, node.key)
        return node


class CountedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox of Transformers with counters."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def bound(self) -> None:
        """Leave what chat templates need, counted."""
        self.template_class = CountedTemplate
        self.filters = COUNTERS | {
            name: _counted(name, function, deep=name not in SHALLOW_FILTERS)
            for name, function in self.filters.items()
            if name in FILTERS
        }
        self.tests = {
            name: _counted(name, function, deep=name not in SHALLOW_TESTS)
            for name, function in self.tests.items()
        }
        self.globals = {k: value for k, value in self.globals.items() if k in GLOBALS}
        self.globals[DATED] = _strftime

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Counters().visit(super()._parse(source, name, filename))

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As in the sandbox; only `METHODS` of values, counted."""
        owner = getattr(getattr(called, "__wrapped__", called), "__self__", None)
        given = _listed(args)
        others = [*given, *kwargs.values()]
        _spend(NODE + sum(map(_size, others)))
        foreign = owner is not None and not isinstance(owner, OWN)
        if foreign and owner is not self.globals.get("dict"):
            name = str(getattr(called, "__name__", called))
            if name not in METHODS:
                raise TemplateLimitError(f"no chat template needs the method {name:.40}")
            _spend(_size(owner, deep=name not in ("get", "items", "keys", "values")))
            _spend_growth(name, owner, others)
        return _given(super().call(context, called, *given, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """As in the sandbox, counted."""
        _spend(_size(left) + _size(right))
        numbers = [one for one in (left, right) if isinstance(one, int)]
        if operator == "%" and isinstance(left, str):
            _check_format(left)
        elif operator in ("*", "**") and len(numbers) == 2:
            bits = left.bit_length() * (abs(right) if operator == "**" else 1) + right.bit_length()
            if bits > LARGEST_BITS:
                raise TemplateLimitError("it computes with numbers of thousands of digits")
        elif operator == "*" and numbers:
            other = left if numbers[0] is right else right
            _spend(_size(other) * abs(numbers[0]))
        return super().call_binop(context, operator, left, right)


class CountedTemplate(Template):
    """A template whose every rendering has the same limits."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        """As in Jinja."""
        return "".join(self.generate(*args, **kwargs))

    def generate(self, *args: Any, **kwargs: Any) -> Iterator[str]:
        """As in Jinja.

        Raises:
            TemplateLimitError: it does too much.
        """
        pieces, left, written = super().generate(*args, **kwargs), _Left(), 0
        while True:
            before = _LEFT.set(left)
            try:
                piece = next(pieces, None)
            finally:
                _LEFT.reset(before)
            if piece is None:
                return
            written += len(piece)
            if written > OUTPUT:
                raise TemplateLimitError(f"it writes more than {OUTPUT:,} characters")
            yield piece


@pass_context
def _strftime(context: Context, form: str) -> str:
    """What a template calls as `strftime_now`."""
    _spend(ENTRY * len(form) * (1 + len(re.findall("%", form))))
    named = context.get(TODAY)
    return (datetime.fromisoformat(str(named)) if named else datetime.now()).strftime(form)


_plain_compile = chat_template_utils._cached_compile_jinja_template


@lru_cache
def _compile(source: str) -> Template:
    """As in Transformers, with counters."""
    if len(source) > SOURCE:
        raise TemplateLimitError(f"it is longer than {SOURCE:,} characters")
    environment: Any = _plain_compile("").environment
    environment.__class__ = CountedEnvironment
    environment.bound()
    try:
        return environment.from_string(source)
    except (RecursionError, SyntaxError, ValueError, OverflowError) as error:  # of nested brackets
        raise TemplateError(f"it cannot be compiled ({type(error).__name__})") from error


chat_template_utils._compile_jinja_template = _compile
