"""Reads model text: the code in an answer, whatever prose and fences stand around it.

Owns what a text *says*; whether that is a program, and what it does, is decided elsewhere. Pure
functions of any `str` or None: no text raises, and the time taken grows with its length only.
"""

from __future__ import annotations

import textwrap

THINK_END = "</think>"
QUOTE = "> "
FENCES = ("```", "~~~")
# A fence indented further is text inside a program (a docstring that shows an example).
MAX_FENCE_INDENT = 3
PYTHON_LABELS = ("", "python", "python3", "py", "py3")


def answer_of(text: str | None) -> str:
    """The text after the last `</think>`: what a reasoning model means as its answer."""
    return (text or "").rpartition(THINK_END)[2]


def lines_of(text: str) -> list[str]:
    """The lines of a text, split at every line end that Unicode knows (`str.splitlines`).

    Whoever quotes a text and whoever looks for a line in it must see the same lines. Programs are
    read otherwise: in Python's sources fewer characters end a line.
    """
    return text.splitlines()


def quote(text: str) -> str:
    """A text with every line of it behind `> `; an empty text is one empty line."""
    return "\n".join(QUOTE + line for line in lines_of(text) or [""])


def code_of(text: str | None) -> str:
    """The Python code in an answer.

    Fenced blocks win over the prose around them: those labelled as Python or not at all, joined in
    their order, so that a later definition replaces an earlier one as it would in a file. An
    unclosed fence runs to the end. Without such a block, the whole text is taken as code.

    Args:
        text: model text; None counts as "".

    Returns:
        Source without leading and trailing blank lines, common indentation removed.
    """
    lines = answer_of(text).replace("\r\n", "\n").split("\n")
    blocks = _fenced_blocks(lines)
    python = [block for label, block in blocks if label in PYTHON_LABELS]
    return "\n\n".join(_tidy(block) for block in python) if python else _tidy(lines)


def outside_fences(lines: list[str]) -> list[str]:
    """The lines that stand in no fenced block and mark none."""
    return _split(lines)[0]


def _fenced_blocks(lines: list[str]) -> list[tuple[str, list[str]]]:
    """(label, lines) of every fenced block."""
    return _split(lines)[1]


def _split(lines: list[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The lines outside of fenced blocks, and (label, lines) of every block."""
    outside: list[str] = []
    blocks: list[tuple[str, list[str]]] = []
    fence = ""  # the marker that is open
    for line in lines:
        bare = line.strip()
        if fence:
            closes = bare.startswith(fence) and not bare.strip(fence[0])
            if closes and len(line) - len(line.lstrip()) <= MAX_FENCE_INDENT:
                fence = ""
            else:
                blocks[-1][1].append(line)
            continue
        label = bare.lstrip(bare[0]) if bare.startswith(FENCES) else "`"
        if "`" in label:  # no fence, or inline code, as in CommonMark
            outside.append(line)
        else:
            fence = bare[: len(bare) - len(label)]
            blocks.append((label.strip().split(" ")[0].lower(), []))
    return outside, blocks


def _tidy(lines: list[str]) -> str:
    return textwrap.dedent("\n".join(lines)).strip("\n").rstrip()
