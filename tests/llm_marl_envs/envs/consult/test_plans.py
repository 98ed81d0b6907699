"""The best way to ask, compared with plain recursion and with numbers worked by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from math import prod

import pytest

from llm_marl_envs.envs.consult.chances import Case
from llm_marl_envs.envs.consult.plans import MAX_FACTS, CasePlan, FamilyPlan
from llm_marl_envs.envs.consult.record import Fact, Record


def case(
    likelihood: list[list[list[float]]], prior: list[float], complaint: Mapping[int, int]
) -> Case:
    facts = tuple(
        Fact(f"fact{i}", tuple(f"v{v}" for v in range(len(values))))
        for i, values in enumerate(likelihood[0])
    )
    values = tuple(fact.values[complaint.get(i, 0)] for i, fact in enumerate(facts))
    rows = tuple(tuple(map(tuple, row)) for row in likelihood)
    names = tuple(f"c{i}" for i in range(len(prior)))
    return Case(Record(facts, values, tuple(complaint)), names, tuple(prior), rows, names[0])


def recursion(example: Case, known: dict[int, str], left: int, price: float) -> float:
    """Joint value of a state, as its definition says."""
    facts = example.record.facts

    def joint() -> list[float]:
        at = [(i, facts[i].values.index(value)) for i, value in known.items()]
        rows = zip(example.prior, example.likelihood, strict=True)
        return [chance * prod(row[i][v] for i, v in at) for chance, row in rows]

    best = max(joint())
    if left:
        for i, fact in enumerate(facts):
            if i not in known:
                after = [{**known, i: v} for v in fact.values]
                asked = sum(recursion(example, state, left - 1, price) for state in after)
                best = max(best, asked - price * sum(joint()))
    return best


def test_two_classes_by_hand():
    sure = case([[[0.9, 0.1]], [[0.1, 0.9]]], [0.5, 0.5], {})
    plan = CasePlan(sure, {}, 1, 0.05)
    assert plan.at_once() == 0.5
    assert plan.value() == pytest.approx(0.9 - 0.05)
    assert plan.knowing_all() == pytest.approx(0.9)
    assert plan.question() == 0
    assert CasePlan(sure, {}, 1, 0.4).question() is None  # worth exactly its price
    assert CasePlan(sure, {}, 0, 0.0).question() is None
    assert CasePlan(sure, {0: "v0"}, 3, 0.0).value() == pytest.approx(0.9)
    assert sure.posterior({0: "v1"})["c1"] == pytest.approx(0.9)
    assert sure.information({}, 0) == pytest.approx(0.531, abs=1e-3)  # 1 - H(0.9)
    assert sure.information({0: "v0"}, 0) == 0.0


def test_a_second_question_that_only_agrees_is_not_asked():
    same = case([[[0.9, 0.1]] * 2, [[0.1, 0.9]] * 2], [0.5, 0.5], {})
    assert CasePlan(same, {}, 2, 0.05).value() == pytest.approx(0.85)
    three = case([[[0.9, 0.1]] * 3, [[0.1, 0.9]] * 3], [0.5, 0.5], {})
    # With two of three: ask on where the first two differ, with chance 0.18.
    free = CasePlan(three, {}, 3, 0.0).value()
    assert free == pytest.approx(0.9**3 + 3 * 0.9**2 * 0.1)


@pytest.mark.parametrize("seed", range(8))
def test_the_plan_is_the_recursion(seed: int):
    rng = random.Random(seed)
    sizes = [rng.choice((2, 2, 3)) for _ in range(rng.randint(3, 5))]
    likelihood = []
    for _ in range(rng.randint(2, 5)):
        rows = [[rng.randint(1, 9) for _ in range(size)] for size in sizes]
        likelihood.append([[weight / sum(row) for weight in row] for row in rows])
    weights = [rng.randint(1, 4) for _ in likelihood]
    complaint = {rng.randrange(len(sizes)): 1}
    example = case(likelihood, [w / sum(weights) for w in weights], complaint)
    known = example.record.opening
    total = recursion(example, known, 0, 0) / CasePlan(example, known, 0, 0).at_once()
    for questions in range(4):
        for price in (0.0, 0.03, 0.2):
            want = recursion(example, known, questions, price) / total
            plan = CasePlan(example, known, questions, price)
            assert plan.value() == pytest.approx(want, abs=1e-12)
            assert (plan.question() is None) == (plan.value() <= plan.at_once() + 1e-11)
    free = CasePlan(example, known, len(sizes), 0.0)
    assert free.value() == pytest.approx(free.knowing_all(), abs=1e-12)


def test_what_is_too_large_is_refused():
    wide = case([[[0.5, 0.5]] * (MAX_FACTS + 1)] * 2, [0.5, 0.5], {})
    with pytest.raises(ValueError, match="facts"):
        CasePlan(wide, {}, 1, 0.0)
    deep = case([[[0.5, 0.5]] * MAX_FACTS] * 2, [0.5, 0.5], {})
    with pytest.raises(ValueError, match="states"):
        CasePlan(deep, {}, MAX_FACTS, 0.0)


def test_a_family_by_hand():
    """Four functions; one question tells halves apart, another one from the rest."""
    answers = {"a": "00", "b": "01", "c": "10", "d": "11"}
    plan = FamilyPlan(answers, {}, 2, 0.1)
    assert (plan.at_once(), plan.value(), plan.question()) == (0.25, pytest.approx(0.8), 0)
    assert FamilyPlan(answers, {}, 1, 0.1).value() == pytest.approx(0.4)
    assert FamilyPlan(answers, {0: "1"}, 1, 0.1).value() == pytest.approx(0.9)
    assert FamilyPlan(answers, {0: "1"}, 1, 0.6).question() is None
    uneven = {"a": "0", "b": "1", "c": "2", "d": "2"}
    # 1 - 0.1 at best for two of them; the others are still two: worth half each.
    assert FamilyPlan(uneven, {}, 3, 0.1).value() == pytest.approx(0.75 - 0.1)
