"""HTML and SVG from Python values, escaped by construction.

A `str` that is not `Markup` is text, whatever it holds; only `tag` and `join` make `Markup`. So no
caller can forget to escape, and a model's text cannot become an element, an attribute or a script.
"""

from __future__ import annotations

import html

from llm_marl_envs.rendering import visible


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


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
