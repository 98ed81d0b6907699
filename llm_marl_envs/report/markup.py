"""HTML and SVG from Python values, escaped by construction.

A `str` that is not `Markup` is text, whatever it holds; only `tag` and `join` make `Markup`. So no
caller can forget to escape, and a model's text cannot become an element, an attribute or a script.
"""

from __future__ import annotations

import html
import re

# What HTML cannot hold or a page would act on instead of showing: control characters except tab and
# newline, characters that turn the reading direction of what follows, lone surrogates (UTF-8 has no
# form for them), noncharacters.
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufdd0-\ufdef\ufffe\uffff]"
)


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def visible(text: str) -> str:
    r"""`text` with what cannot be shown written as Python would: NUL becomes `\x00`."""
    return _UNSHOWABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def escape(value: object) -> Markup:
    """`value` as HTML: unchanged if it is `Markup`, else its text with every special character."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(visible(str(value)), quote=True))


def join(*parts: object) -> Markup:
    """The parts one after another; None is left out."""
    return Markup("".join(escape(part) for part in parts if part is not None))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. In names of attributes a trailing `_` is dropped and others become `-`.

    Attributes that are None are left out. A child that is None is left out.
    """
    given = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in ("meta", "br", "hr", "col"):
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")
