"""What can be known of giving: optimum, random play, one alone, equilibrium, when giving lasts.

Pay is in units that a seat has at the end, the mean over seats unless it says otherwise. What
scripts earn, and best responses to them, is `gift_responses.py`.

That all give everything in each round is the social optimum: a unit given is `factor` units in the
next round, whoever has them, and punishing only takes away. Then each has `factor` times as much
after a round. That nobody gives is an equilibrium. It is the only subgame-perfect one, since the
last round is known: in it giving and punishing only cost, so nothing in the round before depends on
what is done, and so on.
"""

from __future__ import annotations

from fractions import Fraction

from llm_marl_envs.envs.societies.gifts import Rules


def _grown(rules: Rules, growth: float) -> float:
    """What a seat expects that has so many times as much after each round."""
    paid, weight, wealth = 0.0, 1.0, float(rules.endowment)
    for number in range(1, rules.rounds + 1):
        wealth *= growth
        paid += weight * rules.ends(number) * wealth
        weight *= 1 - rules.ends(number)
    return paid


def optimum(rules: Rules) -> float:
    """All give everything."""
    return _grown(rules, rules.factor)


def equilibrium(rules: Rules) -> float:
    """Nobody gives."""
    return float(rules.endowment)


def at_random(rules: Rules) -> float:
    """All give amounts at random, each as likely up to all: in the mean a half of what they have.

    That grows by (1 + factor) / 2 in a round: with 2 by 1.5, as where half of the seats, drawn in
    each round, give everything.
    """
    return _grown(rules, (1 + rules.factor) / 2)


def alone(rules: Rules) -> float:
    """One gives all that it has, the others nothing."""
    return rules.endowment * (1 + (rules.factor - 1) / rules.seats)


def most(rules: Rules) -> float:
    """More than any seat can have: all that there can be, where no round before is the last."""
    return float(rules.seats * rules.endowment * rules.factor**rules.rounds)


def gain_of_keeping(factor: int, rounds: int, go_on: Fraction) -> Fraction:
    """What a seat gains that gives nothing for some rounds, and then all again as the others do.

    All others give all to those who gave all in their last round, and nothing to others: by image
    scoring, standing or stern judging alike. There is no last round, and what is given never comes
    back to its giver by others. A seat keeps D where each has D, gets `factor` * D once more, and
    then nothing, one round longer than it keeps. The others have `factor` times as much after each
    round, and so would it.

    Args:
        factor: what a unit given becomes.
        rounds: in which it keeps, at least 1.
        go_on: the chance that a round is not the last one.

    Returns:
        In units of D, divided by the chance of an end.
    """
    kept = sum(((1 + factor) * go_on**later for later in range(rounds)), Fraction())
    given = (factor ** (later + 1) * go_on**later for later in range(rounds + 1))
    return kept - sum(given, Fraction())


def giving_lasts(factor: int, end: Fraction, rounds: int = 40) -> bool:
    """Whether giving all to the good is an equilibrium of a game without a last round.

    Args:
        factor: what a unit given becomes.
        end: the chance that a round is the last one.
        rounds: for how many in a row keeping is tried at most; two are the first to pay, with
            factors up to 5.
    """
    return all(gain_of_keeping(factor, kept, 1 - end) <= 0 for kept in range(1, rounds + 1))
