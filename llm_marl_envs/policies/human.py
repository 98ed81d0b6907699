"""A person in a seat: shows what is new in the chat, reads a text of several lines.

Owns the prompt and the end mark. Works the same at a terminal and with piped input.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.rendering import print_text
from llm_marl_envs.core.spaces import render_messages

END_MARK = "."


class HumanPolicy:
    """Asks a person for each action.

    An action is everything up to a line that holds only a full stop, or to the end of the input;
    after the end of the input every further action is empty, which is said once.

    Args:
        source: where lines are read from; standard input where None.

    Raises:
        ValueError: standard input ends before anything was typed, or holds no text.
    """

    def __init__(self, source: TextIO | None = None) -> None:
        self.source = source
        self._shown: dict[tuple[int, str], int] = {}
        self._typed = self._ended = False

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One typed text per request."""
        return [Response(text=self._ask(request)) for request in requests]

    def _ask(self, request: Request) -> str:
        seat = (request.episode, request.agent)
        shown = self._shown.get(seat, 0) if request.turn else 0
        # The person's own actions are in the chat too, and known already.
        fresh = [m for m in request.messages[shown:] if m.role != "assistant"]
        self._shown[seat] = len(request.messages)
        print_text(f"--- {request.agent}, turn {request.turn} ---\n{render_messages(fresh)}")
        print(f"--- your action; end it with a line that holds only {END_MARK!r} ---", flush=True)
        try:
            return self._lines().removesuffix("\n")
        except UnicodeError as error:
            encoding = getattr(self.source or sys.stdin, "encoding", None) or "its encoding"
            raise ValueError(
                f"standard input is no text in {encoding}; save what is piped as {encoding}, or "
                "set PYTHONIOENCODING to what it is, such as latin-1"
            ) from error

    def _lines(self) -> str:
        """What is typed up to the end mark, or to the end of the input."""
        lines: list[str] = []
        for line in self.source or sys.stdin or ():  # None: it is closed
            self._typed = True
            if line.rstrip("\r\n") == END_MARK:
                return "".join(lines)
            lines.append(line)
        if not (self._typed or self.source):
            raise ValueError(
                "standard input is empty: type or pipe your actions, each with a line that holds "
                f"only {END_MARK!r} below it"
            )
        if not (lines or self._ended):
            self._ended = True
            print("the input has ended: your actions are empty from here on", file=sys.stderr)
        return "".join(lines)
