"""Answers without a word: what is most likely by the own part and what everybody knows.

Three debaters do better than each its best guess. A majority needs two who say the same, so they
share out the cases: each knows one dial and bets on cases in which it has that word, two on each
case. Nodes of a network answer by seat and number of lines. Programs and texts are of one author:
the others always write the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, lru_cache

from llm_marl_envs.core.records import Request
from llm_marl_envs.envs.coding.composition import OPS, Composition, describe_main, expert
from llm_marl_envs.envs.coding.functions import SPLITS, compositions
from llm_marl_envs.envs.debate.stations import REFINER
from llm_marl_envs.envs.math.card_tasks import LEVELS
from llm_marl_envs.envs.math.cards import best_guess, by_text
from llm_marl_envs.envs.questions.kind import MAX_LEVEL
from llm_marl_envs.envs.questions.kinds import SAFE
from llm_marl_envs.envs.questions.solo import ways
from llm_marl_envs.envs.questions.vocabulary import listed
from llm_marl_envs.envs.wordless.reading import answers_now, match_in, opening_of

WORD = re.compile(r"\[([^\[\]]+)\]")
COLOURS = ("1234457", "1111567", "1222566", "0004466", "1111567", "1000067", "0133366", "1222567")
"""Of each seat the colour, counted from 0, by its number of lines, 1 to 7.

Colours and guards are the best that hill climbing found on 2000 tasks of `train` for each problem,
from random tables, 150 s of one core each (colours) or until nothing changed (guards).
"""
GUARDS = (3, 3, 3, 3, 6, 3, 6, 3)
"""Of each seat, from how many lines on it is a guard."""
SAID = {"Leader": "Babado", "Consensus": "10008"}
"""What all name: of so many names and values that it is next to never one that is there."""
IDLE_HELPER = "def aux(x):\n    return x"
GUESS = """
OPS = [{ops}]

def solve(xs):
    answers = [run(op, xs) for op in OPS]
    return max(answers, key=answers.count)
"""
SENTENCE = re.compile(r"^\w+: .+$", re.MULTILINE)


def best_number(request: Request) -> str:
    """`math_team`: the actor gives the answer that most deals give."""
    if not request.agent.startswith("actor"):
        return ""
    opening = opening_of(request)
    low, high = map(int, match_in(r"from ([0-9]+) to ([0-9]+)", opening).groups())
    text = match_in(r"What is (.+)\?", opening)[1]
    level = next(level for level in (*LEVELS, LEVELS[-1] + 1) if text in by_text(level))
    return f"Answer: {best_guess(by_text(level)[text], low, high)}"


def first_object(request: Request) -> str:
    """`referential`: the listener names the first object that it is shown."""
    if not request.agent.startswith("listener"):
        return ""
    return match_in(r"Objects: ([^,]+),", opening_of(request))[1]


def shared_bets(request: Request) -> str:
    """`debate`, dials: three debaters bet on cases, two on each, in the last round."""
    if not answers_now(request):
        return ""
    lure, dial, own = _dials(opening_of(request))
    words = _words(lure, own)
    return _answer(lure, words, _bet(dial, words, own, lure))


def own_part(request: Request) -> str:
    """`solve_critique_refine`: the refiner answers by its own part: dials or numbers to add."""
    if request.agent.rpartition("_")[0] != REFINER:
        return ""
    opening = opening_of(request)
    if "dials" not in opening:
        return f"Answer: [{_total(opening)}]"
    lure, dial, own = _dials(opening)
    words = _words(lure, own)
    others = [0] * len(lure)
    others[dial] = _case(words, lure[dial], own)
    return _answer(lure, words, tuple(others))


# -- dials ----------------------------------------------------------------------------------------
def _dials(opening: str) -> tuple[list[str], int, str]:
    """The manual's words, the own dial counted from 0, and its word in the manual's description."""
    lure = WORD.findall(match_in(r"The manual says (\S+)\.", opening)[1])
    dial = match_in(r"Dial ([0-9]+): (\S+)", opening)
    # What the manual names is the first description that has not worn off, as on the dial.
    return lure, int(dial[1]) - 1, WORD.findall(dial[2])[0]


def _words(lure: list[str], own: str) -> tuple[str, ...]:
    """The words of the description, of the lowest level that has those of the manual.

    All know the manual, so all come to the same; the own word may need a higher level, where the
    bet of this seat is lost.
    """
    tables = [
        words
        for level in range(1, MAX_LEVEL + 1)
        for words in SAFE.tables(level)
        if {*lure} <= {*words}
    ]
    return next((words for words in tables if own in words), tables[0])


def _case(words: tuple[str, ...], lure: str, own: str) -> int:
    """Which of the words that the manual does not say at a dial."""
    return [word for word in words if word != lure].index(own)


def _bet(dial: int, words: tuple[str, ...], own: str, lure: list[str]) -> tuple[int, ...]:
    """The case on which a debater bets, for each dial which of the words left.

    With m words left, debaters 0 and 1 share (m + 1) // 2 cases, 0 and 2 the rest of those of 0, 1
    and 2 the rest of those of 1. That is as many as there can be: each has m bets, and each case
    takes two. More debaters bet on the first case.
    """
    left, case = len(words) - 1, _case(words, lure[dial], own)
    both = (left + 1) // 2
    rest = left - both
    cases = [(at, at, 0) for at in range(both)]
    cases += [(both + at, 0, at) for at in range(rest)]
    cases += [(0, both + at, rest + at) for at in range(rest)]
    bettors = [(0, 1)] * both + [(0, 2)] * rest + [(1, 2)] * rest
    if len(lure) == len(cases[0]):
        for at, who in zip(cases, bettors, strict=True):
            if dial in who and at[dial] == case:
                return at
    return tuple(case if at == dial else 0 for at in range(len(lure)))


def _answer(lure: list[str], words: tuple[str, ...], case: tuple[int, ...]) -> str:
    chosen = [
        [word for word in words if word != wrong][number]
        for wrong, number in zip(lure, case, strict=True)
    ]
    return f"Answer: {listed(chosen)}"


# -- numbers to add -------------------------------------------------------------------------------
def _total(opening: str) -> int:
    """The likeliest choice: neither the number that all have heard nor what that is misread as."""
    choices = [int(choice) for choice in WORD.findall(match_in(r"Choices: (\S+)", opening)[1])]
    parts, places = map(int, match_in(r"There are ([0-9]+) \w+ of ([0-9]+) ", opening).groups())
    lure = int(match_in(r"says ([0-9]+)\.", opening)[1])
    own = int(match_in(r"Only you know:\n\w+ [0-9]+: ([0-9]+) ", opening)[1])
    left = [choice for choice in choices if choice not in (lure, parts * places - lure)]
    return max(left, key=lambda total: _likely(places, parts, total, own))


@lru_cache(maxsize=4096)
def _likely(places: int, parts: int, total: int, own: int) -> float:
    return ways(places, parts - 1)[total - own] / ways(places, parts)[total]


# -- nodes of a network ---------------------------------------------------------------------------
def seats_and_lines(request: Request) -> str:
    """`agents_net`, 8 nodes: colours and guards by seat and lines, line 1, one name for all."""
    if not answers_now(request):
        return ""
    opening = opening_of(request)
    problem = match_in(r"\n(\w+): ", opening)[1]
    return f"Answer: {SAID.get(problem) or _of_node(problem, request)}"


def _of_node(problem: str, request: Request) -> str:
    """The answer of one seat.

    Raises:
        ValueError: a network of another size.
    """
    opening = opening_of(request)
    if match_in(r"one of ([0-9]+) nodes", opening)[1] != str(len(GUARDS)):
        raise ValueError(f"{opening!r:.80}: wordless teams know networks of {len(GUARDS)} nodes")
    seat = int(request.agent.rpartition("_")[2])
    lines = int(match_in(r"You have (?:one line, |lines 1 to )([0-9]+)", opening)[1])
    if problem == "Colours":
        return str(int(COLOURS[seat][lines - 1]) + 1)
    if problem == "Guards":
        return "yes" if lines >= GUARDS[seat] else "no"
    return "1"


# -- programs and texts ---------------------------------------------------------------------------
def lone_main(request: Request) -> str:
    """`coop_coding`: main answers what most of the operations would, of all that there are."""
    if not request.agent.startswith("main"):
        return IDLE_HELPER
    by_prompt = _by_main()
    asked = next((text for text in by_prompt if text in opening_of(request)), None)
    if asked is None:
        raise ValueError(f"{opening_of(request)!r:.200}: no task of two authors")
    first = by_prompt[asked][0]
    names = {"item": "x", "fold": "a, b", "sequence": "xs"}[first.kind]
    ops = ", ".join(f"lambda {names}: {OPS[first.kind][task.op].code}" for task in by_prompt[asked])
    interface = {"item": "item", "fold": "args", "sequence": "list"}[first.kind]
    solve = expert(first, "main", interface)
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
    return match_in(r"Rent: .+", opening_of(request))[0]


def lone_background(request: Request) -> str:
    """`coop_writing_arxiv`: the first author states three facts, the other guesses the last."""
    if not request.agent.startswith("background"):
        return "The encoder supports the parser."
    return "\n".join(SENTENCE.findall(opening_of(request))[:3])
