"""An episode as text or HTML, for `render`. Pure functions of the agents' chats."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Mapping, Sequence

from llm_marl_envs.spaces import Message, render_messages

# What a terminal or a page would act on instead of showing, and what HTML cannot hold: control
# characters except tab and newline, characters that turn the reading direction of what follows,
# lone surrogates (UTF-8 has no form for them), noncharacters.
_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufdd0-\ufdef\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""`text` with what cannot be shown written as Python would: an escape becomes `\x1b`."""
    return _UNSHOWABLE.sub(lambda found: ascii(found[0])[1:-1], text)


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


def print_text(text: str) -> None:
    """Print any text, `visible`: no escape sequence in it reaches the terminal."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(visible(text).encode(encoding, "backslashreplace").decode(encoding))
