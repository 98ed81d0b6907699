"""What texts from outside are worth: scorers by name.

Owns the names. A scorer is named `NAME` or `NAME:ARGUMENT`, e.g. "reference", "nli:MODEL". Names
come through the door `llm_marl_envs.scorers`; an entry is called with the argument (nothing where
there is none) and returns a `Scorer`. One that is not installed is named "module:Name", without an
argument. Nothing is imported before a scorer is opened.
"""

from __future__ import annotations

from functools import lru_cache

from llm_marl_envs.core.checks import check_maker
from llm_marl_envs.core.plugins import REFERENCE, Registry
from llm_marl_envs.scorers.base import Scorer, Submission
from llm_marl_envs.scorers.sharing import SharedScorer

SCORERS = Registry("llm_marl_envs.scorers", "scorer")
FORMS = {
    "reference": "reference",
    "nli": "nli:MODEL",
    "reward": "reward:MODEL",
    "judge": "judge:ENDPOINT#MODEL",
}
"""Name -> how it is written, of the scorers that come with this distribution."""

__all__ = [
    "FORMS",
    "SCORERS",
    "Scorer",
    "SharedScorer",
    "Submission",
    "open_scorer",
    "scorer_names",
]


def scorer_names() -> tuple[str, ...]:
    """How each scorer is written, those of this distribution first; imports none of them."""
    others = [name for name in SCORERS.names() if name not in FORMS]
    return (*FORMS.values(), *(f"{name}[:ARGUMENT]" for name in others))


@lru_cache(maxsize=8)
def open_scorer(name: str) -> SharedScorer:
    """The scorer of a name; one per process, shared by all environments that ask for it.

    Raises:
        ValueError: no scorer of that name is installed, or its argument is of no use.
        TypeError: the name stands for no scorer, or for one that takes no argument.
        ImportError: the scorer needs an extra that is not installed; the message names it.
    """
    first, _, argument = name.partition(":")
    if first not in SCORERS and REFERENCE.fullmatch(name):
        first, argument = name, ""
    elif first not in SCORERS:
        raise ValueError(f"scorer {name!r:.200}: expected one of {', '.join(scorer_names())}")
    make, arguments = SCORERS.get(first), [argument] if argument else []
    what, expected = f"scorer {name!r:.200}", "a class with `score`, or a function that makes one"
    check_maker(what, make, arguments, expected)
    scorer = make(*arguments)
    if not callable(getattr(scorer, "score", None)):
        raise TypeError(f"{what}: expected {expected}, got {make!r:.80}")
    return SharedScorer(scorer)
