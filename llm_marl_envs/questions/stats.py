"""What can be had without understanding: the accuracy of the best constant answer."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from llm_marl_envs.questions.answers import canonical
from llm_marl_envs.questions.question import question_of
from llm_marl_envs.tasks import TaskSource

SAMPLE = 512
"""Tasks looked at, the first of a source."""


@lru_cache(maxsize=64)
def constant_accuracy(source: TaskSource) -> dict[str, float]:
    """Kind -> accuracy of the best constant on its questions, from the first `SAMPLE` tasks.

    A constant is one answer for all ("always 4") or one place among the choices ("always the
    first"). The most frequent of few is chosen with hindsight, so the figure errs upwards.
    """
    words: dict[str, Counter[str]] = {}
    places: dict[str, Counter[int]] = {}
    totals: Counter[str] = Counter()
    for index in range(min(len(source), SAMPLE)):
        question = question_of(source[index])
        totals[question.kind] += 1
        words.setdefault(question.kind, Counter()).update(map(canonical, question.right))
        options = [canonical(choice) for choice in question.choices]
        if canonical(question.answer) in options:
            place = options.index(canonical(question.answer))
            places.setdefault(question.kind, Counter())[place] += 1
    best: dict[str, float] = {}
    for kind, total in totals.items():
        counts = [*words[kind].values(), *places.get(kind, Counter()).values()]
        best[kind] = max(counts) / total
    return best
