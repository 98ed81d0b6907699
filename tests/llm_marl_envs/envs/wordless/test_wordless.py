"""Teams that tell nothing: what they earn, that they use nothing they hear, their arithmetic."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from llm_marl_envs import make
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.envs.games.shares import Rules, pays
from llm_marl_envs.envs.grids.sudoku_bounds import expected_alone
from llm_marl_envs.envs.wordless.answers import shared_bets
from llm_marl_envs.envs.wordless.division import best_thresholds, mean_sum
from llm_marl_envs.envs.wordless.grids import _common, _likeliest, _worth
from llm_marl_envs.envs.wordless.walks import Worlds, best_walk, ends_of
from llm_marl_envs.measure.studies.benchmark import benchmark
from llm_marl_envs.measure.studies.fresh_tasks import ceiling_of, floor_of, rule_of
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.named import Context, named_policy, named_team
from llm_marl_envs.policies.scripted import ScriptedPolicy

pytestmark = pytest.mark.full  # `make test-all` runs it

CURRENT = benchmark("bench-v2")
ENTRIES = [*CURRENT.entries]


@pytest.mark.parametrize("name", ENTRIES)
def test_the_floor_is_what_the_wordless_team_returns(name: str) -> None:
    entry = CURRENT.entries[name]
    assert rule_of(entry) == entry.floor_rule
    assert floor_of(entry) == pytest.approx(entry.floor, abs=1e-9)
    assert ceiling_of(entry) == pytest.approx(entry.ceiling, abs=1e-9)


def without_quotes(message: Message) -> Message:
    lines = [">" if line.startswith("> ") else line for line in message.content.split("\n")]
    return Message(message.role, "\n".join(lines))


@pytest.mark.parametrize("name", ENTRIES)
def test_nobody_uses_what_it_hears(name: str) -> None:
    """The same text where every quoted line is blank: nothing goes from seat to seat."""
    entry = CURRENT.entries[name]
    env = entry.made()
    rule = named_policy("wordless", Context(env=env)).act

    def checked(request: Request) -> str:
        deaf = replace(request, messages=tuple(map(without_quotes, request.messages)), task_id="")
        said = rule([request])[0].text
        assert rule([deaf])[0].text == said
        return said

    starts = [Start(task=index) for index in range(5)]
    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(checked))
    assert len(rollout(VectorTextEnv([env]), team, starts)) == 5


def test_other_forms_are_refused() -> None:
    other_words = make("collab_maze-v0", prompts={"walker": "Find the way."})
    for env in (make("agents_net-v0"), make("sudoku-v0", level="6x6"), other_words):
        team = named_team("wordless", Context(env=env)).seats
        with pytest.raises(ValueError, match="wordless teams know"):
            rollout(VectorTextEnv([env]), team, [Start(task=0)])
    with pytest.raises(ValueError, match="no wordless team of 'matrix_game"):
        named_policy("wordless", Context(env=make("matrix_game-v1")))
    with pytest.raises(ValueError, match="takes no argument"):
        named_policy("wordless:loud", Context(env=make("debate-v0")))


# -- things ---------------------------------------------------------------------------------------
def test_silence_earns_no_more_than_a_fixed_division_in_the_benchmark() -> None:
    """Four players, everything lost that not exactly one takes: by all sets of thresholds."""
    rules = Rules(0.0, 0.0)
    known = max(
        mean_sum(one, 4, 12, rules) for one in combinations_with_replacement(range(1, 11), 4)
    )
    assert known == pytest.approx(1.0)
    assert mean_sum(best_thresholds(4, 4, 12, rules), 4, 12, rules) == pytest.approx(1.0)
    assert CURRENT.entries["trust"].floor == 1.0
    assert CURRENT.entries["trust"].ceiling > 1.7


@pytest.mark.parametrize("pay", [(1.0, 0.5), (1.0, 0.0), (0.5, 0.5)])
@pytest.mark.parametrize("players", [2, 3])
def test_the_best_thresholds_are_found(players: int, pay: tuple[float, float]) -> None:
    rules = Rules(*pay)
    every = combinations_with_replacement(range(1, 11), players)
    known = max(mean_sum(one, 4, 12, rules) for one in every)
    found = mean_sum(best_thresholds(players, 4, 12, rules), 4, 12, rules)
    assert found == pytest.approx(known)


def test_no_rule_on_the_own_view_is_better_than_thresholds() -> None:
    """Two players, two things worth 4: the best of all tables from own values to a choice."""
    rows = [(1, 3), (2, 2), (3, 1)]
    choices = [*product((False, True), repeat=2)]
    for rules in (Rules(1.0, 0.5), Rules(0.0, 0.0), Rules(1.0, 0.0)):
        pay = np.array(
            [
                [
                    [[pays((a, b), (x, y), rules).sum() for y in choices] for x in choices]
                    for b in rows
                ]
                for a in rows
            ]
        )  # own rows a, b; own choices x, y
        best = 0.0
        for table in product(range(4), repeat=3):
            mine = np.mean([pay[i, :, table[i], :] for i in range(3)], axis=0)  # (b, y)
            best = max(best, float(mine.max(1).mean()))
        thresholds = best_thresholds(2, 2, 4, rules)
        assert mean_sum(thresholds, 2, 4, rules) == pytest.approx(best)


# -- walks ----------------------------------------------------------------------------------------
def test_the_best_walk_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        ahead = rng.integers(-1, 5, (5, 3))
        worlds = Worlds(rng.random(6), rng.random((6, 5)), ahead, rng.random((6, 5, 3)) < 0.3)

        def value(moves: tuple[int, ...], worlds: Worlds = worlds) -> float:
            ends = ends_of(worlds, 0, moves)[1]
            return float((worlds.weights * worlds.scores[np.arange(6), ends]).sum())

        every = [moves for n in range(6) for moves in product(range(3), repeat=n)]
        assert value(best_walk(worlds, 0)) >= max(map(value, every)) - 1e-12


def test_a_walk_ends_before_what_blocks_it() -> None:
    ahead = np.array([[1], [2], [-1]])
    blocked = np.array([[[False], [True], [False]], [[False], [False], [False]]])
    worlds = Worlds(np.ones(2), np.zeros((2, 3)), ahead, blocked)
    made, ends = ends_of(worlds, 0, (0, 0, 0))
    assert made.tolist() == [1, 2]
    assert ends.tolist() == [1, 2]


# -- questions ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("words", "right"), [(4, 4), (8, 10)])
def test_three_debaters_bet_on_as_many_cases_as_two_of_three_can(words: int, right: int) -> None:
    """With m words left: 3 m bets, two for each case, so 3 m / 2 at most, rounded down."""
    known = ("red", "blue", "green", "gold", "pink", "grey", "black", "white")[:words]
    lure = ["red", "blue", known[-1]]
    count = 0
    for truth in product(*([one for one in known if one != wrong] for wrong in lure)):
        answers = Counter(said(dial, lure, truth[dial]) for dial in range(3))
        count += answers[f"Answer: {''.join(f'[{one}]' for one in truth)}"] >= 2
    assert count == right


def said(dial: int, lure: list[str], own: str) -> str:
    manual = "".join(f"[{one}]" for one in lure)
    told = f"The manual says {manual}.\nOnly you know:\nDial {dial + 1}: [{own}][star]"
    messages = (Message("user", told), Message("user", "Round 2 of 2."))
    return shared_bets(
        Request(
            env_id="debate-v0",
            agent=f"debater_{dial}",
            turn=1,
            episode=0,
            task_id="",
            messages=messages,
            observation="",
            seed=0,
        )
    )


def test_digits_are_offered_as_the_bound_says() -> None:
    rng = random.Random(0)
    for _ in range(20):
        solutions = list({tuple(rng.randint(1, 4) for _ in range(4)) for _ in range(6)})
        first = _common(solutions)
        rest = [one for one in solutions if one != first]
        earned = (1 + _worth(_likeliest(rest), rest)) / len(solutions)
        assert earned == pytest.approx(expected_alone(solutions, 2))
