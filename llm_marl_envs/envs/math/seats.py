"""Who is in a team of mathematics, and what a verifier says besides.

Owns the two forms, verdicts, and when a text only says an answer again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llm_marl_envs.core.answers import ANSWER_MARK
from llm_marl_envs.core.parsing import QUOTE, answer_of, lines_of
from llm_marl_envs.core.texts import told
from llm_marl_envs.envs.math.answers import read_line, same_value

REASONER, ACTOR = "reasoner_0", "actor_0"
SOLVER, VERIFIER = "solver_0", "verifier_0"


@dataclass(frozen=True, slots=True)
class Team:
    """A form of a team.

    Attributes:
        seats: in the order in which they act.
        answers: whose answer counts; it is told the question where knowledge is divided.
        tells: the other one.
        turns: how often the answering seat acts unless somebody says so; at least so often.
    """

    seats: tuple[str, str]
    answers: str
    tells: str
    turns: int


TEAMS = {
    "reasoner_actor": Team((REASONER, ACTOR), ACTOR, REASONER, 1),
    "solver_verifier": Team((SOLVER, VERIFIER), SOLVER, VERIFIER, 2),
}
TELLERS = tuple(team.tells for team in TEAMS.values())
APPROVAL = "Verdict: right"
VERDICT = re.compile(r"verdict:[ \t]*(right|wrong)[ \t]*\.?", re.IGNORECASE)


def approves(text: str) -> bool:
    """Whether a verifier approves: exactly one line is a verdict, and it is `right`.

    Thinking is left out; a quoted line is no verdict.
    """
    found = [VERDICT.fullmatch(line.strip()) for line in lines_of(answer_of(text))]
    verdicts = [one[1].lower() for one in found if one]
    return verdicts == ["right"]


def copied(text: str, heard: str) -> bool:
    """Whether a text says the answer again that `heard` gave, in a line of its own or quoted."""
    answer = read_line(heard)
    if answer is None:
        return False
    for line in lines_of(told(text)):
        bare = line.strip().removeprefix(QUOTE.strip()).strip()
        if bare[: len(ANSWER_MARK)].lower() == ANSWER_MARK:
            bare = bare[len(ANSWER_MARK) :]
        if same_value(bare, answer):
            return True
    return False
