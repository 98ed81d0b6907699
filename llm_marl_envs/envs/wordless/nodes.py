"""Networks of eight nodes without a word: answers by seat and number of lines.

The tables are the best that hill climbing found on 2000 tasks of `train` for each problem, from
random tables, 150 s of one core each (colours) or until nothing changed (guards).
"""

from __future__ import annotations

from llm_marl_envs.core.records import Request
from llm_marl_envs.envs.wordless.reading import answers_now, found, told

COLOURS = ("1234457", "1111567", "1222566", "0004466", "1111567", "1000067", "0133366", "1222567")
"""Of each seat the colour, counted from 0, by its number of lines, 1 to 7."""
GUARDS = (3, 3, 3, 3, 6, 3, 6, 3)
"""Of each seat, from how many lines on it is a guard."""
SAID = {"Leader": "Babado", "Consensus": "10008"}
"""What all name: of so many names and values that it is next to never one that is there."""


def seats_and_lines(request: Request) -> str:
    """`agents_net`, 8 nodes: colours and guards by seat and lines, line 1, one name for all."""
    if not answers_now(request):
        return ""
    opening = told(request)
    problem = found(r"\n(\w+): ", opening)[1]
    return f"Answer: {SAID.get(problem) or _own(problem, request)}"


def _own(problem: str, request: Request) -> str:
    """The answer of one seat.

    Raises:
        ValueError: a network of another size.
    """
    opening = told(request)
    if found(r"one of ([0-9]+) nodes", opening)[1] != str(len(GUARDS)):
        raise ValueError(f"{opening!r:.80}: wordless teams know networks of {len(GUARDS)} nodes")
    seat = int(request.agent.rpartition("_")[2])
    lines = int(found(r"You have (?:one line, |lines 1 to )([0-9]+)", opening)[1])
    if problem == "Colours":
        return str(int(COLOURS[seat][lines - 1]) + 1)
    if problem == "Guards":
        return "yes" if lines >= GUARDS[seat] else "no"
    return "1"
