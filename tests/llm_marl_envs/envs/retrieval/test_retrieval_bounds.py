"""Ceilings of teams of which some seats are blind: by hand, by brute force, and played."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import combinations, permutations, product
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.envs.retrieval.bounds import GENERATOR, REWRITER, SEATS, SELECTOR, ceiling
from llm_marl_envs.envs.retrieval.dealing import retrieve
from llm_marl_envs.envs.retrieval.world_tasks import asking, world_of
from llm_marl_envs.envs.retrieval.worlds import (
    Case,
    World,
    cases,
    documents_of,
    portrait,
    right_names,
)

GROUPS = [blind for n in range(4) for blind in combinations(SEATS, n)]
"""Nobody, and the seven groups of blind seats."""
SMALL = World(
    houses=("Borun", "Kelat"),
    sources=("Herald", "Gazette"),
    people=(("Anok", "Bifad", "Dorel"), ("Ekum", "Finor", "Garit")),
    relations=("friend", "rival"),
    names=(
        (("a", "b"), ("c", "d"), ("e", "f")),
        (("g", "h"), ("i", "j"), ("k", "l")),
    ),
)


def answers_of(world: World) -> dict[Any, Hashable]:
    return {(c.meant, c.current, c.relation): right_names(world, c) for c in cases(world)}


@pytest.mark.parametrize(
    ("blind", "share"),
    [
        ((), 1),
        ((REWRITER,), 1 / 30),  # 6 * 5 pairs of houses
        ((SELECTOR,), 1 / 2),  # orders of two sources
        ((GENERATOR,), 1 / 4),  # relations
        ((REWRITER, SELECTOR), 1 / 60),
        ((REWRITER, GENERATOR), 1 / 120),
        ((SELECTOR, GENERATOR), 1 / 8),
        (SEATS, 1 / 240),
    ],
)
def test_ceilings_of_a_generated_task(blind: tuple[str, ...], share: float):
    env = make("retrieve_pipeline-v0")
    for index in range(3):
        assert env.ceiling(env.source[index], blind) == pytest.approx(share)
        full = make("retrieve_pipeline-v0", info="full")
        assert full.ceiling(full.source[index], blind) == 1.0


def test_a_ceiling_by_hand_where_answers_repeat():
    answers: dict[Any, Hashable] = {
        ("h", "s", "r"): "x",
        ("h", "s", "q"): "y",
        ("h", "t", "r"): "x",
        ("h", "t", "q"): "x",
        ("g", "s", "r"): "z",
        ("g", "s", "q"): "x",
        ("g", "t", "r"): "z",
        ("g", "t", "q"): "z",
    }
    assert ceiling(answers, ()) == 1.0
    assert ceiling(answers, SEATS) == 4 / 8  # x
    assert ceiling(answers, [SELECTOR, GENERATOR]) == 6 / 8  # x beside h, z beside g
    assert ceiling(answers, [REWRITER, GENERATOR]) == 4 / 8  # x beside s; x or z beside t
    assert ceiling(answers, [GENERATOR]) == (1 + 2 + 1 + 2) / 8


def test_wrong_seats_and_no_answers_are_refused():
    with pytest.raises(ValueError, match="blind"):
        ceiling({(0, 0, 0): "x"}, ["selector"])
    with pytest.raises(ValueError, match="answers"):
        ceiling({}, [])


# -- by brute force --------------------------------------------------------------------------------
def shown_to_generator(world: World, searches: Sequence[str]) -> list[tuple[str, ...]]:
    """What a selector can pass on of what searches bring: nothing, or two keepers, in any order."""
    documents = tuple(documents_of(world))
    brought = {documents[place] for batch in retrieve(documents, searches) for place in batch}
    people = [portrait(world, h, s) for h in (0, 1) for s in (0, 1)]
    return [(), *permutations([text for text in people if text in brought], 2)]


def best_by_force(world: World, answers: Mapping[Any, Hashable], blind: Collection[str]) -> float:
    """The most over all texts of a rewriter, all choices of a selector, all answers."""
    meant = [*dict.fromkeys(facts[0] for facts in answers)]
    current = [*dict.fromkeys(facts[1] for facts in answers)]
    texts = [("Borun", "Kelat"), ("Kelat", "Borun")]
    choices = {text: shown_to_generator(world, text) for text in texts}
    best = 0
    for spoken in product(texts, repeat=1 if REWRITER in blind else len(meant)):
        text_of = {fact: spoken[n % len(spoken)] for n, fact in enumerate(meant)}
        seen = [*dict.fromkeys(spoken)]
        cells = [(text, None if SELECTOR in blind else c) for text in seen for c in current]
        cells = [*dict.fromkeys(cells)]
        for chosen in product(*(choices[text] for text, _ in cells)):
            passed = dict(zip(cells, chosen, strict=True))
            counts: dict[Any, Counter[Hashable]] = defaultdict(Counter)
            for (house, source, relation), answer in answers.items():
                text = text_of[house]
                shown = passed[text, None if SELECTOR in blind else source]
                counts[shown, None if GENERATOR in blind else relation][answer] += 1
            best = max(best, sum(max(count.values()) for count in counts.values()))
    return best / len(answers)


REPEATED = dict(zip(answers_of(SMALL), "xyxxzxzz", strict=True))


@pytest.mark.full
@pytest.mark.parametrize("answers", [answers_of(SMALL), REPEATED], ids=["names", "repeated"])
@pytest.mark.parametrize("blind", GROUPS, ids=lambda blind: "+".join(blind) or "nobody")
def test_no_team_does_better_and_one_does_as_well(
    blind: tuple[str, ...], answers: dict[Any, Hashable]
):
    """All pipelines over a small form, the generator's answers free: whatever it knows by heart."""
    assert best_by_force(SMALL, answers, blind) == pytest.approx(ceiling(answers, blind))


# -- played ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("blind", GROUPS, ids=lambda blind: "+".join(blind) or "nobody")
def test_teams_that_know_nothing_by_heart_reach_the_ceiling(blind: tuple[str, ...]):
    """Experts over all cases of a task; a blind one is told the same part each time."""
    env = make("retrieve_pipeline-v0")
    task = env.source[0]
    world, experts = world_of(task), env.unwrapped.experts()
    fixed = Case(meant=(0, 1), current=(0, 1), relation=0)
    total, count = 0.0, 0
    for case in cases(world):
        true = asking(task, case)
        env.reset(seed=0, options={"task": true})
        for agent in SEATS:
            known = asking(task, fixed) if agent in blind else true
            env.step(experts.reply(known, agent, "forward", env.chat(agent)))
        total += env.rewards[REWRITER]
        count += 1
    assert count == 240
    assert total / count == pytest.approx(env.ceiling(task, blind))
