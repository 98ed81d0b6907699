"""What a team of helpers and main is paid: three schemes, each a pure function of frozen facts.

Owns the numbers. How the facts come about: `syntax.py` (the programs as text), the sandbox (tests)
and `ablation.py` (contributions). Every scheme returns named terms; the reward is their sum, the
same for all agents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

TERM_RANGES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "tests": {"structure": (0.0, 0.1), "syntax": (0.0, 0.1), "tests": (0.0, 0.8)},
    "paper": {
        "structure": (0.0, 1.0),
        "syntax": (0.0, 0.5),
        "tests": (0.0, 1.0),
        "cooperation": (0.0, 1.5),
    },
    "contribution": {
        "structure": (0.0, 0.1),
        "syntax": (0.0, 0.1),
        "tests": (0.0, 0.4),
        "helper_contribution": (0.0, 0.2),
        "main_contribution": (0.0, 0.2),
    },
}
"""Scheme -> term -> (smallest, largest) value in one turn."""

REWARD_RANGES: Mapping[str, tuple[float, float]] = {
    scheme: (
        sum(low for low, _ in terms.values()),
        round(sum(high for _, high in terms.values()), 9),  # 0.1 + 0.1 + 0.4 + ... is 1
    )
    for scheme, terms in TERM_RANGES.items()
}
"""Scheme -> (smallest, largest) score of one turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one joint action turned out to be.

    Attributes:
        helper_defined: how many helpers' programs bind the function that is theirs (`aux`) to one
            that returns a value.
        main_defined: main's program does so for the entry point.
        helper_parses: how many of the helpers' texts are programs.
        main_parses: main's text is one.
        passed: tests passed, 0 to `total`.
        total: tests of the task, >= 1.
        calls_helper: main calls `aux` in live code; of several helpers, the function of each.
        ignores_helper: it drops the result of every such call; of several, of all calls of one.
        thin_wrapper: main only passes its arguments on to `aux`.
        helper_contribution, main_contribution: in [0, 1]; see `ablation.Contribution`.
        helpers: how many there are.
    """

    helper_defined: int
    main_defined: bool
    helper_parses: int
    main_parses: bool
    passed: int
    total: int
    calls_helper: bool = False
    ignores_helper: bool = False
    thin_wrapper: bool = False
    helper_contribution: float = 0.0
    main_contribution: float = 0.0
    helpers: int = 1

    @property
    def share(self) -> float:
        """Share of tests passed, in [0, 1]."""
        return self.passed / self.total

    @property
    def solved(self) -> bool:
        """Whether all tests pass."""
        return self.passed == self.total


def tests_terms(facts: Facts) -> dict[str, float]:
    """0.1 for the share of authors that define, 0.1 for syntax, 0.8 for the tests passed."""
    authors = facts.helpers + 1
    return {
        "structure": 0.1 * (facts.helper_defined + facts.main_defined) / authors,
        "syntax": 0.1 * (facts.helper_parses + facts.main_parses) / authors,
        "tests": 0.8 * facts.share,
    }


def paper_terms(facts: Facts) -> dict[str, float]:
    """The levels of Liu et al., "LLM Collaboration With Multi-Agent Reinforcement Learning".

    Structure: `aux` +0.4, the entry point +0.6, without which nothing more is paid. Syntax: +0.5 if
    both programs parse, else nothing more. Tests: the share passed. Cooperation, once a test passes
    and `aux` exists: main calls it +0.5, and then: main is no thin wrapper +1.0, the result of
    `aux` is ignored -0.5. The paper has two authors. Of several helpers each gets its part of the
    0.4, and further pay needs the functions of all.

    Decisions, where the paper's text and its published code differ or leave room:

    1. All facts come from the syntax tree, so a comment, a string or dead code is no call.
    2. The -0.5 is charged whenever every result is ignored; the code's pattern misses `aux(x)`.
    3. A wrapper stays one when padded with `pass`, a docstring or a copy into a local name; the
       code counts lines.
    4. The +1.0 needs a call of `aux`: without one there is no cooperation to reward.
    5. A text that does not parse defines nothing: the code finds definitions in broken text, by
       pattern, and pays structure for them.
    """
    terms = dict.fromkeys(TERM_RANGES["paper"], 0.0)
    terms["structure"] = 0.4 * facts.helper_defined / facts.helpers + 0.6 * facts.main_defined
    all_parse = facts.helper_parses == facts.helpers and facts.main_parses
    if not facts.main_defined or not all_parse:
        return terms
    terms["syntax"] = 0.5
    terms["tests"] = facts.share
    if facts.passed and facts.helper_defined == facts.helpers and facts.calls_helper:
        not_thin = 1.0 * (not facts.thin_wrapper)
        terms["cooperation"] = 0.5 + not_thin - 0.5 * facts.ignores_helper
    return terms


def contribution_terms(facts: Facts) -> dict[str, float]:
    """As `tests_terms`, half of the tests' pay moved to what each author contributed.

    Contributions are a heuristic that can be forged, so no environment pays them by default.
    """
    return {
        **tests_terms(facts),
        "tests": 0.4 * facts.share,
        "helper_contribution": 0.2 * facts.helper_contribution,
        "main_contribution": 0.2 * facts.main_contribution,
    }


TERMS: Mapping[str, Callable[[Facts], dict[str, float]]] = {
    "tests": tests_terms,
    "paper": paper_terms,
    "contribution": contribution_terms,
}
"""Scheme -> facts -> reward terms."""
