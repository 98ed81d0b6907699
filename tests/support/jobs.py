"""Short ways to run one program, or a helper and a main program, and what they are run against."""

from __future__ import annotations

from llm_marl_envs.sandbox import Sandbox, Verdict

TESTS = "assert solve(1) == 2\nassert solve(5) == 6\nassert solve(-1) == 0\n"
MAIN = "def solve(x):\n    return aux(x)\n"
HELPER = "def aux(x):\n    return x + 1\n"
EXPORTS = {"helper": ["aux"]}


def team(sandbox: Sandbox, helper: str, main: str, tests: str = TESTS) -> Verdict:
    """Check a helper and a main program."""
    programs = {"helper": helper, "main": main}
    return sandbox.check(programs, entry_point="solve", exports=EXPORTS, tests=tests)


def alone(sandbox: Sandbox, source: str, tests: str = TESTS) -> Verdict:
    """Check one program."""
    return sandbox.check(source, entry_point="solve", tests=tests)
