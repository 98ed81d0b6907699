"""What each author contributed, found by replacing the helper's values and running the tests again.

Owns which replacements are made and the arithmetic of contributions. Making them is the sandbox's
business (`sandbox/jail/replacements.py`), paying for them `rewards.py`'s.

The helper's contribution is the share of tests that are lost when main gets other values from
`aux`, under the replacement that loses least. Each replacement answers one kind of forged
cooperation:

| main gets | who gains nothing under it |
|---|---|
| three plausible wrong values, one of the same shape | main that uses no value, or a length only |
| the first argument | a helper that is the identity |
| the helper's most frequent value | a password |
| the length of the first argument | a helper that only measures |
| an exception | main that has a solution of its own to fall back on |

A test is lost to wrong values only if main's three answers are not all the same: a main that
solves the task alone and gives up when `aux` differs from its own value answers the same each time.
Where main's right answer or every value of the helper is a bool there is one wrong value only, and
the rule is left out.

Main's contribution is the share of tests that pass though main's result is none of the helper's
values, nor what two trivial mains make of them: the first item, or another type.

Both programs run as they are in every run. Values are replaced on their way between the two
processes, so nothing but the values tells main that they are, and a helper cannot spoil it.

This is a heuristic, not a proof. Empty inputs and the like pass without the helper, so an honest
helper's share is rarely 1 (5/9 to 7/8 for the references of the bundled problems), and that share
is all that a forged team loses; one that asks for a password in every test gets more. A main that
recomputes the helper's value, compares, and makes up something that varies with a wrong one cannot
be told from one that uses it; nor can a main that decodes an answer which the helper has encoded be
told from one that works on a helper's result.
docs/environments/coop_coding.md has the table of known forgeries and what each earns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.sandbox import HelperCall, Replacement, Verdict

WRONG = tuple(Replacement("wrong", way=way) for way in range(Replacement.WAYS))
"""Three plausible wrong values of each value."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """Who contributed to the tests that pass, in shares of all tests: a heuristic.

    Attributes:
        helper: tests lost without the helper's value, in the replacement that loses least.
        main: tests passed on which main's result is, type-strictly, none of the values that `aux`
            returned, its first item or it as another type.
        cooperative_success: all tests pass, and under no replacement do they all pass still.
        complete: all runs were made; else the shares are the least that they can be.
    """

    helper: float
    main: float
    cooperative_success: bool
    complete: bool = True


def trivial(trace: Sequence[HelperCall]) -> tuple[Replacement, ...]:
    """What helpers answer that know nothing: an argument, a length, an error, a constant.

    Args:
        trace: the calls made of the helper; without a plain value in it there is no constant.
    """
    values = [Replacement.constant(call[3]) for call in trace]
    counts = Counter(value for value in values if value is not None)
    constant = [value for value, _ in counts.most_common(1)]  # the earliest of equals
    return (*map(Replacement, ("argument", "length", "error")), *constant)


def judge(intact: Verdict, wrong: Sequence[Verdict], trivial: Sequence[Verdict]) -> Contribution:
    """Contributions from the run as it was and the runs with one helper's values replaced.

    Args:
        intact: the team's own run; `outcomes` holds one entry per test.
        wrong: the runs under `WRONG`.
        trivial: the runs under `trivial`.
    """
    total = len(intact.outcomes)
    passing = [i for i, outcome in enumerate(intact.outcomes) if outcome.passed]
    boolean = all(isinstance(call[3], bool) for call in intact.helper_trace)
    reacting = [i for i in passing if boolean or intact.outcomes[i].boolean or _reacts(i, wrong)]
    losses = [sum(not _passed(run, i) for i in reacting) for run in wrong]
    losses += [sum(not _passed(run, i) for i in passing) for run in trivial]
    least = min(losses, default=0)
    return Contribution(
        helper=least / total,
        main=sum(not intact.outcomes[i].relayed for i in passing) / total,
        cooperative_success=len(passing) == total and least > 0,
    )


def _passed(run: Verdict, test: int) -> bool:
    return test < len(run.outcomes) and run.outcomes[test].passed


def _reacts(test: int, wrong: Sequence[Verdict]) -> bool:
    """Whether main's answers to different wrong values differ."""
    answers = {
        "passed" if _passed(run, test) else run.outcomes[test].error
        for run in wrong
        if test < len(run.outcomes)
    }
    return len(answers) > 1
