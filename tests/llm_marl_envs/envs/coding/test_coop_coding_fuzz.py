"""Teams of drawn programs: no exception in the caller, no false pass, one budget for a check."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from support.fuzzing import LIMITS, WORKERS, Metered, Played, fuzz, play
from support.program_grammar import WEIGHTS, Draw, grammar, harness_names
from support.teams import (
    BASES,
    BLOCKS,
    FORMS,
    SPLITS,
    Problem,
    Team,
    Turn,
    claim,
    fuzz_team,
    generated,
    row,
)

from llm_marl_envs.envs.coding import attempt
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux"),
]

STYLES = ("seat", "calm seat", "kind seat", "value heart", "layout", "kind layout")
QUICK = range(10_000, 10_020)
# The latter were not used while the harness was mended.
LONG = (*range(10_020, 10_300), *range(700_000, 705_000))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that fails is asked for again at once: here no machine is given time to recover."""
    monkeypatch.setattr(attempt, "PAUSES", (0.0, 0.0))


def report(played: Iterable[Played], repeated: int) -> str:
    """Play on to the end, print a summary, return what went wrong."""
    found: list[str] = []
    statuses: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    teams: list[Played] = []
    for one in played:
        teams.append(one)
        statuses.update(one.verdicts)
        kinds.update(wrong.partition(":")[0] for wrong in one.wrong)
        if one.wrong:
            found.append("\n".join([*one.wrong, str(one.team)]))
    slowest = max(teams, key=lambda one: one.wall_s)
    programs = sum(2 * len(one.verdicts) for one in teams)
    print(
        f"\n{len(teams)} teams, {programs} programs, {sum(one.passed for one in teams)} passed; "
        f"wrong: {dict(kinds) or 'nothing'}; verdicts: {dict(statuses.most_common())}\n"
        f"slowest check {slowest.wall_s:.1f} s (fuzz_team({slowest.team.seed})); most processor "
        f"time of one side {max(one.spent_s for one in teams):.2f} s of {LIMITS.cpu_seconds} s, "
        f"of the caller {max(one.caller_s for one in teams):.2f} s; most elapsed time counted "
        f"{max(one.counted_s for one in teams):.2f} s of {LIMITS.wall_seconds} s; "
        f"every {repeated}th team twice"
    )
    return f"\n{'=' * 80}\n".join(found[:5])


def test_twenty_teams() -> None:
    with Metered(workers=WORKERS, limits=LIMITS, cache=0) as sandbox:
        wrong = report(fuzz(QUICK, sandbox, repeated=10), repeated=10)
    assert not wrong, wrong


@pytest.mark.long
def test_five_thousand_teams() -> None:
    with Metered(workers=WORKERS, limits=LIMITS, cache=0) as sandbox:
        wrong = report(fuzz(LONG, sandbox, repeated=10), repeated=10)
    assert not wrong, wrong


def test_a_team_is_a_function_of_its_seed() -> None:
    for seed in range(20):
        first, second = str(fuzz_team(seed)), str(fuzz_team(seed))
        assert first == second
        assert f"fuzz_team({seed})" in first
    assert len({str(fuzz_team(seed)) for seed in range(20)}) == 20


def problems() -> list[Problem]:
    """A row of every form, one with every block, and tasks of every split."""
    rng = Random(0)
    rows = [row(form, [], level=False) for form in FORMS]
    tasks = [generated(split, rng.randrange(100), rng.randrange(2)) for split in SPLITS]
    return [*rows, row("bare", [*BLOCKS], level=True), *tasks]


@pytest.mark.parametrize("problem", problems(), ids=lambda p: f"{p.split}-{p.name}")
def test_hearts_are_what_is_claimed_of_them(problem: Problem) -> None:
    """On this rests what counts as a false pass."""
    with Metered(workers=WORKERS, limits=LIMITS) as sandbox:
        for kinds in [(h, m) for h in BASES["helper"] for m in BASES["main"]]:
            if claim(*kinds) is None or (
                kinds[0] != "right" and kinds[1] not in ("right", "alone")
            ):
                continue
            texts = {HELPER: problem.base("helper", kinds[0]), MAIN: problem.base("main", kinds[1])}
            turn = Turn(texts, claim(*kinds), kinds)
            played = play(Team(0, problem, {"info": "full", "reward": "tests"}, (turn,)), sandbox)
            assert played.wrong == (), kinds
            assert played.passed == claim(*kinds), kinds


def test_every_alternative_of_the_grammar_is_drawn() -> None:
    """Each symbol is reached, within three thousand programs."""
    context = {"own": "solve", "partner": "aux", "base": "solve = 1", "replaced": "True"}
    seen: set[str] = set()
    for seed in range(3_000):
        style = STYLES[seed % len(STYLES)]
        draw = Draw(Random(seed), {**context, "program": "pass", "huge ask": "1"})
        draw.text(style)
        seen.update(draw.used)
    assert seen == grammar().keys()
    assert {one.weight for every in grammar().values() for one in every} == set(WEIGHTS.values())


def test_names_come_from_the_harness_itself() -> None:
    names = {"trivial_uses", "candidate", "encode_any", "ready", "outcomes"}
    assert names <= set(harness_names())
