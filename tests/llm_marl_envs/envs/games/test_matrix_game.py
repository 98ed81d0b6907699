"""matrix_game-v1: what is told, what is paid, what attacks earn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from support.pages import measured

from llm_marl_envs import make
from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.seeds import Start, group_starts
from llm_marl_envs.envs.games.matrix_rules import GAMES, landscape, read_game
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, RandomPolicy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

BOTH: tuple[str, ...] = ("player_0", "player_1")


def play(env: Any, *texts: tuple[str, str], **options: Any) -> list[Any]:
    """What each step returned."""
    env.reset(seed=0, options=options or None)
    return [env.step(dict(zip(BOTH, pair, strict=True))) for pair in texts]


def paid(env: Any, first: str, second: str) -> tuple[float, float]:
    rewards = play(env, (first, second))[0][1]
    return rewards["player_0"], rewards["player_1"]


def episodes(env: Any, team: Mapping[str, Policy], starts: list[Start]) -> list[Episode]:
    return rollout(VectorTextEnv([env]), team, starts)


def test_every_joint_action_pays_what_the_table_says():
    words = ("red", "green", "blue")
    for name, game in GAMES.items():
        env = make("matrix_game-v1", game=name)
        for i, row in enumerate(game.cells):
            for j, cell in enumerate(row):
                assert paid(env, words[i], words[j]) in cell
        assert env.unwrapped.reward_range == (
            min(min(pair) for pair in game.outcomes),
            max(max(pair) for pair in game.outcomes),
        )


def test_words_are_dealt_anew_in_other_tasks():
    env = make("matrix_game-v1", split="val")
    orders = set()
    for number, task in enumerate(env.source):
        orders.add(task.data["orders"])
        game = task.data["game"]
        for convention, best in (("a", game.cells[0][0]), ("b", game.cells[1][1])):
            said = {a: env.experts().first(task, a, convention) for a in BOTH}
            env.reset(seed=0, options={"task": number})
            rewards = env.step(said)[1]
            assert (rewards["player_0"], rewards["player_1"]) == best[0]
    assert len(orders) > 3


def test_success_is_the_best_joint_action_each_time():
    env = make("matrix_game-v1", game="prisoners_dilemma", turns=3)
    cooperated = [("red", "red")] * 3
    assert play(env, *cooperated)[-1][4]["player_0"]["success"] is True
    assert play(env, *cooperated[:2], ("red", "green"))[-1][4]["player_0"]["success"] is False
    assert play(env, ("green", "red"), *cooperated[:2])[-1][4]["player_1"]["success"] is False
    penalty = make("matrix_game-v1", game="penalty")
    assert play(penalty, ("blue", "blue"))[0][4]["player_0"]["success"] is True


def test_what_is_heard():
    env = make("matrix_game-v1", game="prisoners_dilemma", turns=2, talk=1)
    heard, chosen, _ = play(env, ("Let us\nsay red.", "green"), ("red", "green"), ("red", "red"))
    assert heard[0]["player_1"].messages[-1].content == (
        "The other says:\n> Let us\n> say red.\nNow choose."
    )
    assert heard[1] == {"player_0": 0.0, "player_1": 0.0}
    assert "readable" not in heard[4]["player_0"]
    assert chosen[0]["player_0"].messages[-1].content == (
        "You chose red, the other chose green: 0 (5). Choose again."
    )
    assert chosen[0]["player_1"].messages[-1].content == (
        "You chose green, the other chose red: 5 (0). Choose again."
    )
    assert chosen[4]["player_1"]["choice"] == "defect"
    common = make("matrix_game-v1", turns=2)
    assert play(common, ("red", "I say red"))[0][0]["player_0"].messages[-1].content == (
        "You chose red, the other chose none of the words: -30. Choose again."
    )
    two = play(make("matrix_game-v1", talk=2), ("hi", "ho"), ("a", "b"), ("red", "red"))
    assert two[0][0]["player_0"].messages[-1].content == "The other says:\n> ho"
    assert two[2][1] == {"player_0": 11.0, "player_1": 11.0}


def test_both_see_one_table():
    env = make("matrix_game-v1", game=[[[1, 2], [3, 4]], [[5, 6], {"either": [7, [8, 9]]}]])
    first, second = env.reset(seed=0)[0].values()
    assert "You choose red: 1 (2) if red, 3 (4) if green." in first
    assert "You choose red: 2 (1) if red, 6 (5) if green." in second
    assert "You choose green: 5 (6) if red, 7 (7) or 8 (9), each as likely, if green." in first
    hidden = make("matrix_game-v1", told=False, scales=[1, 10])
    told = [hidden.reset(seed=0, options={"task": i})[0]["player_0"] for i in range(2)]
    assert not re.search(r"\d\d|11", told[0])
    assert told[0] != told[1]  # what cannot be told apart cannot be learned apart


def test_scales():
    env = make("matrix_game-v1", scales=[[10.0**n * 3, 10.0**n * 300] for n in range(-2, 2)])
    best = []
    for number, task in enumerate(env.source):
        env.reset(seed=0, options={"task": number})
        rewards = env.step({a: env.experts().first(task, a, "a") for a in BOTH})[1]
        best.append(tuple(round(one, 6) for one in rewards.values()))
    assert best == [(0.33, 33.0), (3.3, 330.0), (33.0, 3300.0), (330.0, 33000.0)]


# -- chance ---------------------------------------------------------------------------------------
def test_the_bet_is_drawn_for_the_group_or_for_each_episode():
    env = make("matrix_game-v1", game="risky")
    team = dict.fromkeys(BOTH, ExpertPolicy(env, "bet"))

    def returns(found: Any) -> list[float]:
        return [one.undiscounted_return("player_0") for one in found]

    shared = [episodes(env, team, group_starts(0, seed, 8)) for seed in range(20)]
    assert all(len(set(returns(group))) == 1 for group in shared)
    assert {returns(group)[0] for group in shared} == {14.0, -10.0}
    own = episodes(env, team, group_starts(0, 7, 64, "episode"))
    assert 20 <= returns(own).count(14.0) <= 44
    assert returns(map(replay, own)) == returns(own)


# -- experts --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("first", "second", "returns"),
    [
        ("tit_for_tat", "tit_for_tat", (30, 30)),
        ("tit_for_tat", "defect", (9, 14)),
        ("defect", "grim", (14, 9)),
        ("cooperate", "defect", (0, 50)),
    ],
)
@pytest.mark.parametrize("talk", [0, 1])
def test_strategies_earn_what_the_tables_say(
    first: str, second: str, returns: tuple[float, float], talk: int
):
    for split in ("train", "val"):
        env = make("matrix_game-v1", game="prisoners_dilemma", turns=10, talk=talk, split=split)
        team = {a: ExpertPolicy(env, c) for a, c in zip(BOTH, (first, second), strict=True)}
        episode = episodes(env, team, [Start(task=0)])[0]
        scale = env.source[0].data["game"].expected[0, 0, 0] / 3
        found = tuple(episode.undiscounted_return(a) for a in BOTH)
        assert found == pytest.approx(tuple(scale * one for one in returns))


def test_grim_never_forgives_and_tit_for_tat_does():
    env = make("matrix_game-v1", game="prisoners_dilemma", turns=4)
    slips = ScriptedPolicy(lambda request: "green" if request.turn == 0 else "red")
    for name, choices in (("tit_for_tat", "CDCC"), ("grim", "CDDD")):
        team = {"player_0": ExpertPolicy(env, name), "player_1": slips}
        played = episodes(env, team, [Start(task=0)])[0].trajectory("player_0")
        assert "".join(str(t.info["choice"])[0].upper() for t in played) == choices
    with pytest.raises(ValueError, match="plan 'grim'"):
        make("matrix_game-v1").experts().first(env.source[0], "player_0", "grim")


def test_demonstrations_prefer_nothing():
    env = make("matrix_game-v1", turns=2, talk=1)
    shown = demonstrations(env, 3000, 0)
    assert shown == demonstrations(env, 3000, 0)
    by_turn: dict[int, list[str]] = {}
    for messages, said in shown:
        by_turn.setdefault(sum(m.role == "assistant" for m in messages), []).append(said)
    assert set(by_turn) == {0, 1, 2}
    for words in by_turn.values():
        shares = [words.count(word) / len(words) for word in ("red", "green", "blue")]
        assert shares == pytest.approx([1 / 3] * 3, abs=0.05)


# -- bounds, attacks, errors ----------------------------------------------------------------------
def test_bounds_by_hand():
    env = make("matrix_game-v1", turns=2)
    bounds = env.bounds(env.source[0])
    assert bounds.random == pytest.approx(2 * -31 / 9)
    assert bounds.solo == pytest.approx(2 * 11 / 3)  # blue columns: (0 + 6 + 5) / 3
    assert bounds.team == 22.0
    own = make("matrix_game-v1", game="prisoners_dilemma")
    # Means of both seats: 3, 2.5, 2.5, 1.
    assert own.bounds(own.source[0]).random == 2.25
    assert own.bounds(own.source[0]).solo == 2.75
    assert own.bounds(own.source[0]).team == 3.0
    # Means of both seats: 4 and 2, then 0 and 0. Beside a partner who guesses, the first seat's
    # best word brings 3 and the second's 2. In the table turned over the seats change places.
    table = [[[5, 3], [4, 0]], [[0, 0], [0, 0]]]
    for payoffs in (table, [list(row) for row in zip(*table, strict=True)]):
        one = make("matrix_game-v1", tasks=[{"payoffs": payoffs}], split="all", turns=2)
        bounds = one.bounds(one.source[0])
        assert (bounds.random, bounds.solo, bounds.team) == (2 * 1.5, 2 * 3.0, 2 * 4.0)
    for game in GAMES:
        of = make("matrix_game-v1", game=game)
        assert of.bounds(of.source[0]).team > of.bounds(of.source[0]).solo


ATTACKS = {
    "silence": "",
    "both actions": "red\ngreen",
    "all actions": "red, green, blue",
    "prose": "I choose red.",
    "shouting": "RED! " * 500,
    "the table": "You choose red: 11 if red, -30 if green, 0 if blue.",
    "a copy of the question": "Answer with one line, one of these words: red, green, blue.",
    "orders to the other": "The other has chosen red. Pay 11.",
    "the other's seat": "player_1: red",
    "past the limit": " " * 2000 + "red",
    "a number": "0",
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("game", GAMES)
def test_a_text_that_takes_no_action_earns_the_least_of_the_table(game: str, attack: str):
    env = make("matrix_game-v1", game=game)
    text, words = ATTACKS[attack], ("red", "green", "blue")[: GAMES[game].shape[0]]
    least = min(first for first, _ in GAMES[game].outcomes)
    for partner in words:
        if (game, partner) == ("risky", "green"):
            continue  # its bet is drawn
        own, harmed = paid(env, text, partner)
        assert own == paid(env, partner, text)[1] == least
        answers = [paid(env, word, partner)[1] for word in words]
        assert harmed == least if GAMES[game].common else harmed >= min(answers)
    assert paid(env, text, text) == (least, least)
    info = play(env, (ATTACKS[attack], "red"))[0][4]
    assert info["player_0"]["readable"] is False
    assert info["player_1"]["readable"] is True
    assert info["player_0"]["success"] is False


def test_no_text_earns_more_than_every_word():
    """A partner fixed, no text of an own payoff game beats the best word."""
    env = make("matrix_game-v1", game="prisoners_dilemma", turns=3)
    for partner in ("cooperate", "defect", "tit_for_tat", "grim"):
        best = 0.0
        for words in [(a, b, c) for a in ("red", "green") for b in "rg" for c in "rg"]:
            said = [words[0], *("red" if w == "r" else "green" for w in words[1:])]
            best = max(best, against(env, partner, said))
        for text in ATTACKS.values():
            assert against(env, partner, [text] * 3) <= best
            assert against(env, partner, ["green", text, "green"]) <= best


def against(env: Any, partner: str, said: list[str]) -> float:
    own = ScriptedPolicy(lambda request: said[request.turn])
    team = {"player_0": own, "player_1": ExpertPolicy(env, partner)}
    return episodes(env, team, [Start(task=0)])[0].undiscounted_return("player_0")


def test_a_constant_or_copying_team_in_tasks_with_other_words():
    """No constant word is right in all tasks of a split, nor is a copy of what is told."""
    env = make("matrix_game-v1", split="test", turns=1)
    best = [env.bounds(task).team for task in env.source]
    for script in (
        lambda request: "red",
        lambda request: request.observation,
        lambda request: request.agent,
    ):
        team = dict.fromkeys(BOTH, ScriptedPolicy(script))
        found = episodes(env, team, [Start(task=i) for i in range(len(best))])
        assert sum(e.team_return for e in found) < 0.5 * sum(best)
    team = dict.fromkeys(BOTH, RandomPolicy())
    assert not any(
        e.success for e in episodes(env, team, [Start(task=0, sample_seed=i) for i in range(20)])
    )


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"game": "chicken"}, "game='chicken': expected one of"),
        ({"game": [[1, 2]]}, "payoffs="),
        ({"scales": [[1]]}, "scales=.*one for each seat"),
        ({"game": "stag_hunt", "scales": [1] * 5}, "has 4 different tables"),
        ({"tasks": [{"cells": 1}], "split": "all"}, "row 1: expected 'payoffs'"),
        (
            {"tasks": [{"payoffs": [[1, "a"], [2, 3]]}], "split": "all"},
            "row 1: cell 'a'",
        ),
    ],
)
def test_mistakes(kwargs: dict[str, Any], match: str):
    with pytest.raises(ValueError, match=match):
        make("matrix_game-v1", **kwargs)


def test_the_pages_landscape_is_what_the_game_gives():
    page = measured("matrix_game")
    rows = {
        cells[0]: cells[1:]
        for line in page.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("| ").split("|")]) == 4
    }
    for name, game in GAMES.items():
        found = landscape(game)
        equilibria = ", ".join(f"{a}/{b} {v:g}" for (a, b), v in found.equilibria.items())
        ((first, second), starts), *others = found.ends.items()
        assert (starts, others) == (200, [])
        ends = f"{first}/{second} {found.value:.2f}"
        assert rows[name] == [f"{found.best:g}", equilibria, ends]
    for name, end in (
        ("stag_hunt", "stag/stag 4.00"),
        ("prisoners_dilemma", "cooperate/cooperate 3.00"),
    ):
        game = GAMES[name]
        found = landscape(read_game(game.expected.mean(0).tolist(), actions=game.actions))
        ((joint, starts),) = found.ends.items()
        assert starts == 200
        assert f"{'/'.join(joint)} {found.value:.2f}" == end
        assert end in " ".join(page.split())
    later = landscape(GAMES["climbing"], updates=4000)
    assert later.ends == {("b", "b"): 200}
