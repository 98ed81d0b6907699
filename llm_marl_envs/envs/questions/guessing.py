"""What can be had without understanding: the best constant answer, and a blind guess."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict

from llm_marl_envs.core.answers import canonical
from llm_marl_envs.core.tasks import TaskSource
from llm_marl_envs.envs.questions.kinds import KINDS
from llm_marl_envs.envs.questions.question import Question, question_of

SAMPLE = 512
"""Tasks looked at, the first of a source."""
MAX_SOURCES = 64
"""Sources whose figures are kept."""
# By identity: a source may be a dataclass, which has no hash.
_accuracies: OrderedDict[int, tuple[TaskSource, dict[str, float]]] = OrderedDict()


def blind_guess(question: Question) -> float:
    """Chance that an answer drawn from all possible ones is right; generated questions only."""
    return len(question.right) / KINDS[question.kind].possible(question)


def constant_accuracy(source: TaskSource) -> dict[str, float]:
    """Kind -> accuracy of the best constant on its questions, from the first `SAMPLE` tasks.

    A constant is one answer for all ("always 4") or one place among the choices ("always the
    first"). The most frequent of few is chosen with hindsight, so the figure errs upwards.
    """
    entry = _accuracies.get(id(source))
    if entry is None:
        # The source is kept too, so that no other one gets its id.
        entry = _accuracies[id(source)] = (source, _counted(source))
        if len(_accuracies) > MAX_SOURCES:
            _accuracies.popitem(last=False)
    return entry[1]


def _counted(source: TaskSource) -> dict[str, float]:
    totals: Counter[str] = Counter()
    constants: defaultdict[str, Counter[str | int]] = defaultdict(Counter)  # answers and places
    for index in range(min(len(source), SAMPLE)):
        question = question_of(source[index])
        totals[question.kind] += 1
        constants[question.kind].update(map(canonical, question.right))
        places = [canonical(choice) for choice in question.choices]
        if canonical(question.answer) in places:
            constants[question.kind][places.index(canonical(question.answer))] += 1
    return {kind: max(constants[kind].values()) / total for kind, total in totals.items()}
