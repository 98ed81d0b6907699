"""Tests with three settings: what is combined in the default run, and what in the long one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def in_pairs(*settings: Iterable[Any]) -> list[Any]:
    """Parameters of three settings, each with two values or more, the last with two.

    Every pair of values is in the default run, and every triple in the long one. What two settings
    do to each other is thus seen at once; the other half tells of all three alone.
    """
    combined = itertools.product(*(list(enumerate(values)) for values in settings))
    found = []
    for one in combined:
        places, values = zip(*one, strict=True)
        found.append(pytest.param(*values, marks=[pytest.mark.long] if sum(places) % 2 else []))
    return found
