"""An episode as text or HTML, for `render`. Pure functions of the agents' chats."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping, Sequence

from llm_marl_envs.spaces import Message, render_messages


def episode_text(title: str, chats: Mapping[str, Sequence[Message]]) -> str:
    """One section per agent; what `state()` and `render_mode="ansi"` return."""
    sections = (f"## {agent}\n{render_messages(chat)}" for agent, chat in chats.items())
    return f"# {title}\n" + "\n\n".join(sections)


def episode_html(title: str, chats: Mapping[str, Sequence[Message]]) -> str:
    """An `<article>` with one `<section>` per agent; message roles are CSS classes."""
    cards = []
    for agent, chat in chats.items():
        rows = "".join(f'<pre class="{m.role}">{html.escape(m.content)}</pre>' for m in chat)
        cards.append(f"<section><h2>{html.escape(agent)}</h2>{rows}</section>")
    return f'<article class="episode"><h1>{html.escape(title)}</h1>{"".join(cards)}</article>'


def print_text(text: str) -> None:
    """Print text that may hold what the terminal cannot show (lone surrogates, any script)."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
