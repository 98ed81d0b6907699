"""What can be known of a public good: optimum, equilibrium, and what makes giving pay.

Pay is in units, of one seat, mean over what chance does. What is earned beside scripts is
`goods_responses.py`.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor

from llm_marl_envs.envs.societies.goods import TAKES, Rules, fined, incomes


def optimum(rules: Rules) -> float:
    """What a seat is paid where all give everything and nobody punishes: the social optimum."""
    return float(rules.factor * rules.endowment) * rules.expected_rounds


def equilibrium(rules: Rules) -> float:
    """What a seat is paid in all subgame-perfect equilibria of a game with a last round.

    A unit that is given pays its giver `factor / together`, less than 1, whatever others give. A
    unit of punishment costs its giver 1, whatever others do, as spending and fines are each bounded
    by a half of what a seat has. So in the last round nobody punishes, and then nobody gives, and
    so it is in each round before.
    """
    return float(rules.endowment) * rules.expected_rounds


def at_random(rules: Rules) -> float:
    """What a seat is paid where all name amounts at random, each as likely; nobody punishes."""
    gained = (rules.factor - 1) * rules.endowment / 2
    return float(rules.endowment + gained) * rules.expected_rounds


def alone(rules: Rules) -> float:
    """What a seat is paid where one gives everything, the others nothing, mean over seats."""
    gained = (rules.factor - 1) * rules.endowment / rules.seats
    return float(rules.endowment + gained) * rules.expected_rounds


def most(rules: Rules) -> float:
    """The most that any seat can be paid: the others give everything in each round."""
    part = rules.factor * (rules.together - 1) / rules.together
    return float(rules.endowment * (1 + part)) * rules.rounds


def saving(rules: Rules) -> Fraction:
    """What a unit that a seat does not give is worth to it at once."""
    return 1 - rules.factor / rules.together


def lasting_end(rules: Rules) -> Fraction:
    """The largest chance of an end with which giving everything is an equilibrium of grim seats.

    Of a game without a last round, in which all give everything until somebody gives less, and
    nothing from then on; with partner choice, nobody plays with that one again. Who gives nothing
    once gains `saving` times E, and loses (factor - 1) E in each round after. By the one-shot
    deviation principle nothing else need be looked at: less than everything is punished alike.
    """
    return (rules.factor - 1) / (rules.factor - 1 + saving(rules))


def needed(rules: Rules, punishers: int = 1) -> int:
    """The fewest units of each of so many punishers that take more than giving nothing saves."""
    return floor(saving(rules) * rules.endowment / (TAKES * punishers)) + 1


def deterring(rules: Rules, punishers: int = 1) -> int:
    """Units with which each of so many punishers makes giving everything the best response.

    Everybody else gives everything. The fewest whole units so that whoever gives less, however
    little, is paid less in that round.

    Raises:
        ValueError: they cannot pay for so many.
    """
    units, size, gives = needed(rules, punishers), rules.together, rules.endowment
    groups = tuple(tuple(range(at, at + size)) for at in range(0, rules.seats, size))
    fines = [[(0, units)] if 1 <= seat <= punishers else [] for seat in range(rules.seats)]
    for own in range(gives):
        earned = incomes(rules, groups, [own, *[gives] * (rules.seats - 1)])
        if earned[0] - fined(earned, fines)[0].lost >= rules.factor * gives:
            raise ValueError(
                f"punishers={punishers}: they can spend too little with {gives} units each; "
                "expected more punishers or more units"
            )
    return units
