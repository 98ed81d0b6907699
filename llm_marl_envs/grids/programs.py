"""Programs that a seat writes as a tool: run in the sandbox, and what they print.

Owns how a program gets its standard input and how its output comes back. The program runs in a
confined process. What it prints is lent to a second process as the value of a function, and the
sandbox's trace of lent values holds it. So nothing that the program says is believed: it is text.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_marl_envs.parsing import code_of
from llm_marl_envs.sandbox import Sandbox

MOST_PRINTED = 2000
"""Characters of an output that are kept, fewer where they are not ASCII; the rest is dropped."""
MOST_ERROR = 200
TRACED = 3500
"""Characters that an output and an error may have as Python writes them: longer values than 4096
are no part of the sandbox's trace."""

RUN = """
class Output:
    def __init__(self):
        self.parts, self.left = [], MOST

    def write(self, text):
        kept = str(text)[: self.left]
        self.left -= len(kept)
        self.parts += [kept] if kept else []
        return len(text)

    def flush(self):
        pass


def run():
    import io, random, sys

    random.seed(0)
    output, error = Output(), ""
    sys.stdout, sys.stdin = output, io.StringIO(GIVEN)
    try:
        exec(compile(SOURCE, "program", "exec"), {"__name__": "__main__"})
    except SystemExit:
        pass
    except BaseException as caught:
        error = f"{type(caught).__name__}: {caught}"[:200]
    text = "".join(output.parts)
    while len(ascii((text, error))) > TRACED:
        text, error = text[: len(text) * 3 // 4], error[: MOST // 40]
    return text, error
"""
MAIN = "def solve():\n    return run()"


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program did.

    Attributes:
        text: what it printed, at most `MOST_PRINTED` characters.
        error: how it failed, at most `MOST_ERROR` characters; "" where it ended by itself.
    """

    text: str
    error: str


def run_program(said: str, given: str, sandbox: Sandbox) -> Printed:
    """Run the Python code in a text.

    Args:
        said: model text; the code is what `parsing.code_of` finds.
        given: the program's standard input.
        sandbox: where it runs, under that sandbox's limits of time and memory.

    Raises:
        InfraError: the machine failed, not the program.
    """
    named = {"MOST": MOST_PRINTED, "TRACED": TRACED, "SOURCE": code_of(said), "GIVEN": given}
    constants = "".join(f"{name} = {value!a}\n" for name, value in named.items())
    verdict = sandbox.check(
        {"tool": constants + RUN, "main": MAIN},
        entry_point="solve",
        exports={"tool": ["run"]},
        tests="assert solve() is not None",
    )
    for _, _, _, value in verdict.helper_trace[:1]:
        match value:
            case (str(text), str(error)):
                return Printed(text[:MOST_PRINTED], error[:MOST_ERROR])
            case _:  # the program has changed what runs it
                return Printed("", "no text")
    return Printed("", verdict.detail[:MOST_ERROR])
