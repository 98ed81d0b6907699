"""Programs and texts without talk, of one author: the others always write the same."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

from llm_marl_envs.core.records import Request
from llm_marl_envs.envs.coding.composition import OPS, Composition, describe_main, expert
from llm_marl_envs.envs.coding.functions import SPLITS, compositions
from llm_marl_envs.envs.wordless.reading import found, told

IDLE_HELPER = "def aux(x):\n    return x"
GUESS = """
OPS = [{ops}]

def solve(xs):
    answers = [run(op, xs) for op in OPS]
    return max(answers, key=answers.count)
"""
SENTENCE = re.compile(r"^\w+: .+$", re.MULTILINE)


def lone_main(request: Request) -> str:
    """`coop_coding`: main answers what most of the operations would, of all that there are."""
    if not request.agent.startswith("main"):
        return IDLE_HELPER
    known = _by_main()
    asked = next((text for text in known if text in told(request)), None)
    if asked is None:
        raise ValueError(f"{told(request)!r:.200}: no task of two authors")
    one = known[asked][0]
    names = {"item": "x", "fold": "a, b", "sequence": "xs"}[one.kind]
    ops = ", ".join(f"lambda {names}: {OPS[one.kind][task.op].code}" for task in known[asked])
    interface = {"item": "item", "fold": "args", "sequence": "list"}[one.kind]
    solve = expert(one, "main", interface)
    run = solve.replace("def solve(xs)", "def run(aux, xs)")
    return run + "\n" + GUESS.format(ops=ops)


@cache
def _by_main() -> dict[str, list[Composition]]:
    """What main is told -> one task for each operation that comes with it."""
    tasks: dict[str, dict[str, Composition]] = defaultdict(dict)
    for split in SPLITS:
        for task in compositions(split):
            tasks[describe_main(task)].setdefault(task.op, task)
    return {text: [*ops.values()] for text, ops in tasks.items()}


def lone_brief(request: Request) -> str:
    """`coop_writing_tldr`: the brief treats one topic, whose detail the other text guesses."""
    if not request.agent.startswith("brief"):
        return "Mia fixed the key."
    return found(r"Rent: .+", told(request))[0]


def lone_background(request: Request) -> str:
    """`coop_writing_arxiv`: the first author states three facts, the other guesses the last."""
    if not request.agent.startswith("background"):
        return "The encoder supports the parser."
    return "\n".join(SENTENCE.findall(told(request))[:3])
