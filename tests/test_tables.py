"""Teams that are tables: beds beside their environments, and runs beside each other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.pages import measured
from support.paths import ROOT

from benchmarks.tables import (
    BONUS,
    CROWD,
    CROWD_CHOICES,
    REGIME_CHOICES,
    REGIME_TURNS,
    Plan,
    Play,
    Tables,
    args_for,
    bed_of,
    learn,
)
from llm_marl_envs import make
from llm_marl_envs.core.records import Branch, Episode, Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from trainers.algorithms import make_algorithm

pytestmark = pytest.mark.full  # `make test-all` runs it

NO_WORD = "?"
ENVS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: ("matrix_game-v1", {"game": name})
        for name in ("climbing", "penalty", "risky", "stag_hunt")
    },
    "crowd": ("crowd-v0", {"weights": list(CROWD), "choices": CROWD_CHOICES}),
    "regime": ("regime-v0", {"turns": REGIME_TURNS, "bonus": BONUS}),
}


def played(name: str, split: str, task: int, texts: Sequence[list[str]], seed: int) -> Episode:
    """What the environment makes of the texts, turn by turn and seat by seat."""
    env_id, kwargs = ENVS[name]
    copies = VectorTextEnv([make(env_id, split=split, **kwargs)])
    seats = copies.envs[0].possible_agents

    def say(request: Request) -> str:
        return texts[request.turn][seats.index(request.agent)]

    team = dict.fromkeys(seats, ScriptedPolicy(say))
    return rollout(copies, team, [Start(task=task, seed=seed)])[0]


def test_the_page_of_regime_says_what_the_bed_plays():
    """Its landscape has a column for these words and a row for this bonus."""
    page = " ".join(measured("regime").split())
    said = {3: "three"}[REGIME_CHOICES], f"{BONUS:g}", {3: "three"}[REGIME_TURNS]
    assert "has {} words and a bonus of {}, in {} turns.".format(*said) in page


@pytest.mark.parametrize("name", ENVS)
def test_a_bed_pays_what_its_environment_pays(name: str):
    rng = random.Random(name)
    for split, task in (("train", 0), ("val", 1)):
        bed = bed_of(name, split, task)
        if len(bed.seats) == 2 and bed.turns == 1:
            joint = list(itertools.product([*bed.words, NO_WORD], repeat=2))
            said = [[[*one]] for one in joint]
        else:
            legal = [*bed.words, NO_WORD]
            said = [
                [rng.choices(legal, k=len(bed.seats)) for _ in range(bed.turns)] for _ in range(6)
            ]
        for seed, texts in enumerate(said):
            episode = played(name, split, task, texts, seed)
            numbers = [
                tuple(None if w == NO_WORD else bed.words.index(w) for w in t) for t in texts
            ]
            possible = []
            for coin in (0, 1):
                paid = [bed.pay(turn, one, coin) for turn, one in enumerate(numbers)]
                possible.append([p for turn in paid for p in turn])
            earned = [turn.reward for turn in episode.turns]
            matching = [coin for coin in (0, 1) if possible[coin] == pytest.approx(earned)]
            assert matching, (texts, earned, possible)
            news = [turn.messages[-1].content for turn in episode.turns[:: len(bed.seats)]]
            if name == "regime":
                assert ("high" in bed.heard(1, matching[0])) is ("fell high" in news[1])


def test_scores_by_hand():
    even = {"climbing": -31 / 9 / 11, "penalty": -38 / 9 / 10, "crowd": 1 / 8, "regime": 1 / 3}
    for name, expected in even.items():
        bed = bed_of(name, "train", 0)
        assert bed.score(Tables(bed.words).chances) == pytest.approx(expected)
    bed = bed_of("risky", "train", 0)
    team = Tables(bed.words)
    team.logits = {(seat, ""): np.array([0.0, 60.0, 0.0]) for seat in bed.seats}
    assert bed.score(team.chances) == pytest.approx(2 / 5)


def maker(name: Any, size: int = 8, **options: Any) -> Any:
    return lambda seed: make_algorithm(name, args_for(options, size, seed))


def test_seeds_learn_side_by_side_as_they_do_alone():
    bed, run = bed_of("regime", "train", 0), partial(Plan, rate=0.2, budget=480, points=3)
    both = learn(bed, maker("magrpo"), [0, 1], run(apart=False))
    assert both[0] != both[1]
    for seed in (0, 1):
        assert learn(bed, maker("magrpo"), [seed], run(apart=False)) == [both[seed]]
    assert learn(bed, maker("magrpo"), [0, 1], run(apart=True)) == both
    assert [one.tokens for one, _ in both[0]] == [0, 192, 336, 480]  # 48 an update


@pytest.mark.parametrize("name", ["risky", "penalty", "climbing"])
def test_the_page_says_what_a_weight_of_bad_news_does(name: str):
    """How many of 20 seeds end within 0.05 of the best, the word `safe` in `risky`."""
    bed, found = bed_of(name, "train", 0), []
    for weight in (0.2, 1, 2, 10):
        make = maker({"name": "hysteretic", "weight": weight})
        plan = Plan(rate=0.2, budget=3200, points=1, apart=False)
        curves = learn(bed, make, range(100, 120), plan)
        found.append(sum(curve[-1][1] >= 0.95 for curve in curves))
    row = f"| {name} | " + " | ".join(map(str, found)) + " |"
    assert row in (ROOT / "docs" / "algorithms" / "hysteretic.md").read_text(), row


@pytest.mark.parametrize(
    ("name", "size", "tokens", "calls", "replayed"),
    [
        ("magrpo", 8, 48, 24, 0),
        # Of each message 3 alternatives: 144 branches of 3 steps, which replay 0, 1 or 2.
        ("c3_sim", 8, 48 + 48 * (5 + 3 + 1), 24 + 144 * 3, 48 * (0 + 1 + 2)),
        # Of each message a blank: 48 branches; nothing is sampled in the step itself.
        ("difference", 8, 48 + 16 * (4 + 2 + 0), 24 + 48 * 3, 16 * (0 + 1 + 2)),
        # 2 + 4 + 8 nodes of two words; 8 leaves, of which 2 are planned.
        ("magrpo_tree", 2, 2 * (2 + 4 + 8), 8 * 3, 2 * 1 + 4 * 2),
    ],
)
def test_siblings_and_removals_cost(name: str, size: int, tokens: int, calls: int, replayed: int):
    bed = bed_of("regime", "train", 0)
    plan = Plan(rate=0.1, budget=1, points=1, apart=False)
    (_, (spent, _)) = learn(bed, maker(name, size), [0], plan)[0]
    found = spent.tokens, spent.calls, spent.replayed_calls
    assert found == (tokens, calls, replayed)


def test_a_branch_keeps_its_coin_and_its_partners():
    bed = bed_of("regime", "train", 0)
    play, team, rng = Play(bed), Tables(bed.words), random.Random(0)

    class Blank:
        branching, args = True, args_for({}, 6, 0)

        def branches(self, group: Any, agents: Any) -> list[Branch]:
            if len(group.episodes) > 6:
                return []
            own = {"agent": "member_1", "held": True, "instead": ""}
            return [Branch(parent=g, turn=turn, **own) for g in range(6) for turn in (0, 1)]

    group = play.group(Blank(), team, rng)  # type: ignore[arg-type]
    coins = []
    for episode in group.episodes[6:]:
        left = episode.branch
        assert left is not None
        parent = group.episodes[left.parent]
        partner, own = episode.trajectory("member_0"), episode.trajectory("member_1")
        assert partner[left.turn].action == parent.trajectory("member_0")[left.turn].action
        assert own[left.turn].action == ""
        assert [turn.given for turn in own] == [turn <= left.turn for turn in range(3)]
        same = episode.env_kwargs["coin"] == parent.env_kwargs["coin"]
        assert same or left.turn == 0
        coins += [same] if left.turn == 0 else []
    assert not all(coins)  # it falls after the first turn, so it is dealt anew
