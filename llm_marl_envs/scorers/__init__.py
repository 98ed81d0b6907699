"""What texts from outside are worth: scorers by name.

Owns the names. A scorer is named `NAME` or `NAME:ARGUMENT`, e.g. "reference", "nli:MODEL". Names
come through the entry-point group `llm_marl_envs.scorers`; an entry is called with the argument
(nothing where there is none) and returns a `Scorer`. Nothing is imported before a scorer is opened.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from .base import Scorer, Submission
from .sharing import SharedScorer

GROUP = "llm_marl_envs.scorers"
FORMS = {
    "reference": "reference",
    "nli": "nli:MODEL",
    "reward": "reward:MODEL",
    "judge": "judge:ENDPOINT#MODEL",
}
"""Name -> how it is written, of the scorers that come with this distribution."""

__all__ = ["FORMS", "GROUP", "Scorer", "SharedScorer", "Submission", "open_scorer", "scorer_names"]


def scorer_names() -> tuple[str, ...]:
    """How each scorer is written, those of this distribution first; imports none of them."""
    others = sorted(_entries().keys() - FORMS.keys())
    return (*FORMS.values(), *(f"{name}[:ARGUMENT]" for name in others))


@lru_cache(maxsize=8)
def open_scorer(name: str) -> SharedScorer:
    """The scorer of a name; one per process, shared by all environments that ask for it.

    Raises:
        ValueError: no scorer of that name is installed, or its argument is of no use.
        ImportError: the scorer needs an extra that is not installed; the message names it.
    """
    first, _, argument = name.partition(":")
    found = _entries().get(first)
    if found is None and first in FORMS:
        raise ValueError(
            f"scorer {name!r}: the installed llm-marl-envs is older than this code and does not "
            "offer it; install it again (in a checkout `pip install -e .`)"
        )
    if found is None:
        raise ValueError(f"scorer {name!r}: expected one of {', '.join(scorer_names())}")
    try:
        make = found.load()
    except ImportError as error:
        raise ImportError(
            f"scorer {name!r} needs more than is installed ({error}); those of this library come "
            "with pip install 'llm-marl-envs[train]'"
        ) from error
    return SharedScorer(make(argument) if argument else make())


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
