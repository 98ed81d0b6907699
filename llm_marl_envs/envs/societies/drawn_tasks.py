"""Tasks of societies that are pairs of numbers: which split each is in, and in what order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from llm_marl_envs.core.tasks import ListSource, Task, hash_of, split_of_row


def drawn_tasks(
    name: str,
    split: str,
    pairs: Iterable[tuple[Any, Any]],
    first: tuple[Any, Any],
    fields: tuple[str, str],
    key: Callable[[Any, Any], str],
) -> ListSource:
    """The tasks of a split, in a fixed order that looks drawn.

    Args:
        name: what the order follows from, beside the split.
        split: of the tasks; all pairs of `ood` are its own.
        pairs: those of which the split takes its part.
        first: the first task of `train`, and in no other place.
        fields: what the numbers are called.
        key: pair -> what decides its split.
    """
    own = [
        pair
        for pair in pairs
        if pair != first and (split == "ood" or split_of_row({}, key(*pair)) == split)
    ]
    random.Random(hash_of(f"{name}/{split}")).shuffle(own)
    own = [first, *own] if split == "train" else own
    tasks = [
        Task(f"{split}/{number}", split, dict(zip(fields, pair, strict=True)))
        for number, pair in enumerate(own)
    ]
    return ListSource(tasks, split)
