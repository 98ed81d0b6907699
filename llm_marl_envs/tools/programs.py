"""Programs that a seat writes as a tool: run in the sandbox, and what they print.

Owns how a program gets its standard input and how its output comes back. The program runs in a
confined process. What it prints it tells a second process at once, piece by piece, by a call of a
lent function, and the sandbox's trace of such calls holds it. So what was printed before a program
was ended is kept, and nothing that the program says is believed: it is text.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_marl_envs.core.parsing import code_of
from llm_marl_envs.sandbox import Sandbox

MOST_PRINTED = 2000
"""Characters of an output that are kept; the rest is dropped."""
MOST_ERROR = 200
PIECE = 300
"""Characters of one call: the sandbox's trace has values of at most 4096 characters, of which one
character of a text takes up to 12."""
SINGLE = 120
"""Calls for one text that was written each; then they are gathered, for the trace has 200 calls."""
GATHERED = 40
"""Characters that are gathered."""

EAR = "def hear(text):\n    return None"
RUN = """
class Output:
    def __init__(self):
        self.left, self.calls, self.waiting = MOST, 0, ""

    def write(self, text):
        text = str(text)
        kept = text[: self.left]
        self.left -= len(kept)
        self.waiting += kept
        if self.calls < SINGLE or len(self.waiting) >= GATHERED:
            self.tell()
        return len(text)

    def tell(self):
        while self.waiting:
            piece, self.waiting = self.waiting[:PIECE], self.waiting[PIECE:]
            self.calls += 1
            hear(piece)

    def flush(self):
        pass


def solve():
    import io, random, sys

    random.seed(0)
    output, error = Output(), ""
    sys.stdout, sys.stdin = output, io.StringIO(GIVEN)
    try:
        exec(compile(SOURCE, "program", "exec"), {"__name__": "__main__"})
    except SystemExit:
        pass
    except BaseException as caught:
        error = f"{type(caught).__name__}: {caught}"[:MOST_ERROR]
    output.tell()
    hear([error])
    return ""
"""


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program did.

    Attributes:
        text: what it printed, at most `MOST_PRINTED` characters.
        error: how it failed, at most `MOST_ERROR` characters; "" where it ended by itself.
    """

    text: str
    error: str


def run_program(action: str, puzzle: str, sandbox: Sandbox) -> Printed:
    """Run the Python code in a text.

    Args:
        action: model text; the code is what `parsing.code_of` finds.
        puzzle: the program's standard input.
        sandbox: where it runs, under that sandbox's limits of time and memory.

    Raises:
        InfraError: the machine failed, not the program.
    """
    named = {"MOST": MOST_PRINTED, "MOST_ERROR": MOST_ERROR, "PIECE": PIECE, "SINGLE": SINGLE}
    named |= {"GATHERED": GATHERED, "SOURCE": code_of(action), "GIVEN": puzzle}
    constants = "".join(f"{name} = {value!a}\n" for name, value in named.items())
    verdict = sandbox.check(
        {"ear": EAR, "tool": constants + RUN},
        entry_point="solve",
        exports={"ear": ["hear"]},
        tests="assert solve() == ''",
    )
    text, error = "", verdict.detail
    for _, _, heard, _ in verdict.helper_trace:
        match heard:
            case (str(piece),):
                text += piece
            case ([str(told)],):
                error = told or error
    return Printed(text[:MOST_PRINTED], error[:MOST_ERROR])
