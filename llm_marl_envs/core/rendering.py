"""An episode as text or HTML, for `render`. Pure functions of the agents' chats."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from llm_marl_envs.core.spaces import Message, render_messages

# What a terminal or a page would act on instead of showing, and what HTML cannot hold: control
# characters except tab and newline, characters that turn the reading direction of what follows,
# lone surrogates (UTF-8 has no form for them), noncharacters.
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufdd0-\ufdef\ufffe\uffff]"
)

HIGH, LETTER, MARGIN = 28, 8, 8
"""Pixels of a table: a cell's height and least width, a letter, and what is left free."""


def visible(text: str) -> str:
    r"""`text` with what cannot be shown written as Python would: an escape becomes `\x1b`."""
    return _UNSHOWABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def episode_text(title: str, chats: Mapping[str, Sequence[Message]]) -> str:
    """One section per agent; what `state()` returns, and `render`, made `visible`."""
    sections = (f"## {agent}\n{render_messages(chat)}" for agent, chat in chats.items())
    return f"# {title}\n" + "\n\n".join(sections)


def episode_html(title: str, chats: Mapping[str, Sequence[Message]], picture: str = "") -> str:
    """An `<article>` with one `<section>` per agent; message roles are CSS classes.

    `picture` is HTML, shown as it is below the title.
    """
    cards = []
    for agent, chat in chats.items():
        rows = "".join(
            f'<pre class="{m.role}">{html.escape(visible(m.content))}</pre>' for m in chat
        )
        cards.append(f"<section><h2>{html.escape(agent)}</h2>{rows}</section>")
    head = f"<h1>{html.escape(title)}</h1>{picture}"
    return f'<article class="episode">{head}{"".join(cards)}</article>'


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of `table_svg`.

    Attributes:
        text: what stands in it.
        fill: its colour, as CSS writes it.
        framed: whether it has a frame and a colour; a heading has none.
    """

    text: str
    fill: str = "#ffffff"
    framed: bool = True


def table_svg(kind: str, rows: Sequence[Sequence[Cell]]) -> str:
    """A table as a drawing, an SVG on white; it can stand in HTML and in a file of its own.

    Args:
        kind: its CSS class.
        rows: of cells; those of one column are as wide as the longest text needs.
    """
    texts = [[visible(cell.text) for cell in row] for row in rows]
    columns = zip_longest(*texts, fillvalue="")
    widths = [max(HIGH, *(LETTER * len(text) + 2 * MARGIN for text in cells)) for cells in columns]
    places = [MARGIN, *(MARGIN + right for right in accumulate(widths))]
    parts = []
    for y, (row, line) in enumerate(zip(rows, texts, strict=True)):
        top = MARGIN + HIGH * y
        for cell, text, x, wide in zip(row, line, places, widths, strict=False):
            if cell.framed:
                parts.append(
                    f'<rect x="{x}" y="{top}" width="{wide}" height="{HIGH}" fill="{cell.fill}" '
                    'stroke="#888888"/>'
                )
            if text:
                parts.append(
                    f'<text x="{x + wide / 2:g}" y="{top + HIGH / 2 + 4:g}" '
                    f'text-anchor="middle">{html.escape(text)}</text>'
                )
    wide, high = places[-1] + MARGIN, HIGH * len(rows) + 2 * MARGIN
    return (
        f'<svg class="{kind}" width="{wide}" height="{high}" font-family="monospace" '
        f'font-size="13" xmlns="http://www.w3.org/2000/svg">'
        f'<rect width="{wide}" height="{high}" fill="#ffffff"/>{"".join(parts)}</svg>'
    )


def print_text(text: str) -> None:
    """Print any text, `visible`: no escape sequence in it reaches the terminal."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(visible(text).encode(encoding, "backslashreplace").decode(encoding))
