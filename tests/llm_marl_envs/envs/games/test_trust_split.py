"""trust_split-v0: what is told and paid, the landscape by counting, plans, attacks, splits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.pages import measured

from llm_marl_envs import make
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.games.share_experts import (
    PLANS,
    best_response,
    choices_of,
    claims_of,
    meeting,
)
from llm_marl_envs.envs.games.share_tasks import OOD_WORDS, key_of
from llm_marl_envs.envs.games.share_texts import read_announcement, read_choice, read_claim
from llm_marl_envs.envs.games.shares import Rules, all_choices, landscape, owners, pays, shares
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

ENV = "trust_split-v0"
ROW = {"values": [{"hat": 7, "pen": 2, "cup": 1}, {"hat": 3, "pen": 3, "cup": 4}]}
VALUES = ((7, 2, 1), (3, 3, 4))
THINGS = ("hat", "pen", "cup")
PAGE = measured("trust_split")


def row_env(**kwargs: Any) -> Any:
    return make(ENV, tasks=[ROW], split="all", **kwargs)


def play(env: Any, *joint: tuple[str, ...]) -> tuple[list[float], Mapping[str, Any]]:
    """What each player earns in the last turn, and the infos."""
    env.reset(seed=0, options={"task": 0})
    paid, infos = {}, {}
    for texts in joint:
        assert env.agents, "the episode is over"
        _, paid, _, _, infos = env.step(dict(zip(env.agents, texts, strict=True)))
    assert not env.agents
    return [*paid.values()], infos


# -- rules ----------------------------------------------------------------------------------------
def test_what_is_taken_left_and_contested():
    env = row_env(turns=1)
    assert play(env, ("hat", "pen, cup"))[0] == [0.7, 0.7]
    assert play(env, ("nothing", "nothing"))[0] == [0.5, 0.5]
    # A quarter of the hat each, the pen shared alike, the cup to the second alone.
    assert play(env, ("hat", "hat cup"))[0] == pytest.approx([(7 / 4 + 1) / 10, 0.1 * 6.25])
    lossy = row_env(turns=1, payoffs=(0.5, 0.2))
    assert play(lossy, ("hat", "hat cup"))[0] == pytest.approx(
        [(0.7 + 0.5) / 10, (0.3 + 0.75 + 4) / 10]
    )
    team = row_env(turns=1, pay="team")
    assert play(team, ("hat", "pen, cup"))[0] == pytest.approx([1.4, 1.4])
    three = shares([[1, 1, 0], [1, 0, 0], [1, 0, 0]], Rules())
    assert three == pytest.approx(
        np.array([[1 / 6, 1, 1 / 3], [1 / 6, 0, 1 / 3], [1 / 6, 0, 1 / 3]])
    )


@pytest.mark.parametrize("rules", [Rules(), Rules(0.4, 0.9), Rules(1.0, 0.0)])
def test_the_landscape_is_what_counting_gives(rules: Rules):
    for values in (VALUES, ((4, 1, 1), (2, 3, 1), (1, 1, 4))):
        n, subsets = len(values), all_choices(3)
        joint = np.array(list(product(range(8), repeat=n)))
        earned = pays(values, subsets[joint], rules)  # (8^n, n)
        table = earned.reshape(*(8,) * n, n)
        known = landscape(values, rules)
        assert known.best == pytest.approx(earned.mean(-1).max())
        assert known.at_random == pytest.approx(earned.mean())
        assert known.equal == pytest.approx(earned[(joint == 0).all(-1)].mean())
        everything = (joint == 7).all(-1)
        assert known.selfish == pytest.approx(earned[everything].mean())
        lone = [(np.delete(joint, seat, 1) == 0).all(-1) for seat in range(n)]
        assert known.alone == pytest.approx(max(earned[one].mean(-1).max() for one in lone))
        best = [table[..., seat].max(seat, keepdims=True) for seat in range(n)]
        stable = np.all(
            [table[..., seat] >= best[seat] - 1e-12 for seat in range(n)], axis=0
        ).reshape(-1)
        if rules.contested:
            assert (stable == everything).all()
        else:  # as the page says: each thing is taken by somebody
            assert (stable == subsets[joint].any(1).all(-1)).all()


def test_to_take_is_worth_more_whatever_the_others_do():
    for own, other in product(range(8), repeat=2):
        subsets = all_choices(3)
        more = own | 1  # the first thing, too
        paid = [pays(VALUES, [subsets[one], subsets[other]], Rules())[0] for one in (own, more)]
        assert paid[1] > paid[0] or own == more


def test_of_equals_no_seat_gets_everything():
    assert owners(((1, 1, 1), (1, 1, 1))) == (0, 1, 0)
    assert owners((None, (1, 1), None)) == (1, 1)
    assert owners((None, None)) == ()
    assert owners(((1, 5), (2, 5), (2, 1))) == (1, 1)


# -- texts ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("hat, cup", {"hat", "cup"}),
        ("  HAT cup. ", {"hat", "cup"}),
        ("I think.\nAction: hat", {"hat"}),
        ("hat\n</think>nothing", set()),
        ("nothing", set()),
        ("I take the hat", None),
        ("hat\ncup", None),
        ("hat, nothing", None),
        ("hat, sword", None),
        ("> hat", None),
        ("", None),
        (".", None),
        (",", None),
    ],
)
def test_choices(text: str, taken: set[str] | None):
    assert read_choice(text, THINGS) == taken


def test_claims_and_announcements():
    assert read_claim("To me: pen 2, hat 7 and cup 1!", THINGS) == (7, 2, 1)
    assert read_claim("hat 7, pen 2", THINGS) is None
    assert read_claim("hat 7, pen 2, cup 1, hat 1", THINGS) is None
    assert read_announcement("Well.\nI take hat, pen.", THINGS) == {"hat", "pen"}
    assert read_announcement("I take nothing.", THINGS) == set()
    assert read_announcement("I take hat.\nI take pen.", THINGS) is None
    assert read_announcement("I take care.", THINGS) is None


def test_infos_say_who_lied_and_who_broke_its_word():
    env = row_env()
    talk = [("hat 7, pen 2, cup 1", "hat 9, pen 9, cup 9"), ("I take hat.", "I take cup.")]
    _, infos = play(env, *talk, ("hat", "cup, pen"))
    first, second = (infos[agent] for agent in env.possible_agents)
    assert (first["truthful"], first["kept_word"]) == (True, True)
    assert (second["truthful"], second["kept_word"]) == (False, False)
    assert second["choice"] == "pen, cup"
    assert first["success"] is True
    _, infos = play(env, ("hi", "hi"), ("", ""), ("hat", "?"))
    assert infos["player_1"]["truthful"] is infos["player_1"]["kept_word"] is None
    assert (infos["player_1"]["readable"], infos["player_1"]["success"]) == (False, False)


def test_nobody_is_told_what_things_are_worth_to_others():
    for split in ("train", "ood"):
        env = make(ENV, split=split, n_agents=3)
        seen, infos = env.reset(seed=1)
        things, values = env.task.data["things"], env.task.data["values"]
        for seat, agent in enumerate(env.agents):
            others = [row for row in values if row != values[seat]]
            claims = [
                ", ".join(f"{t} {v}" for t, v in zip(things, row, strict=True)) for row in others
            ]
            assert not any(claim in seen[agent] for claim in claims)
            assert set(infos[agent]) == {"task_id", "turn"}
    full = make(ENV, info="full")
    seen, _ = full.reset(seed=1)
    assert all("To player_" in seen[agent] for agent in full.agents)


# -- plans ----------------------------------------------------------------------------------------
def test_plans_in_the_environment_earn_what_they_earn_on_paper():
    for turns, n in ((1, 2), (2, 2), (3, 2), (4, 2), (3, 3)):
        env = make(ENV, turns=turns, n_agents=n)
        pairs = product(PLANS, repeat=2)
        for at, (a, b) in enumerate(pairs):
            plans = (a, *(b,) * (n - 1))
            seats = zip(env.possible_agents, plans, strict=True)
            team = {agent: ExpertPolicy(env, plan) for agent, plan in seats}
            episode = rollout(VectorTextEnv([env]), team, [Start(task=at)])[0]
            earned = [episode.undiscounted_return(agent) for agent in env.possible_agents]
            assert earned == pytest.approx(meeting(env.source[at], plans, env.rules, turns - 1))


def test_where_everybody_is_told_all_values_no_claim_is_believed():
    for info, paid in (("split", 0.0), ("full", 0.25 * 0.7)):
        env = row_env(turns=2, info=info)
        plans = zip(env.possible_agents, ("honest", "liar"), strict=True)
        team = {agent: ExpertPolicy(env, plan) for agent, plan in plans}
        episode = rollout(VectorTextEnv([env]), team, [Start(task=0)])[0]
        assert episode.undiscounted_return("player_0") == pytest.approx(paid)


def test_the_pages_table_of_plans():
    env = make(ENV, split="test")
    tasks = [env.source[i] for i in range(100)]
    for own in PLANS:
        cells = []
        for other in PLANS:
            rules = env.unwrapped.rules
            first = [meeting(task, (own, other), rules)[0] for task in tasks]
            second = [meeting(task, (other, own), rules)[1] for task in tasks]
            cells.append(f"{np.mean(first + second):.3f}")
        assert f"| {own} | {' | '.join(cells)} |" in PAGE


def test_best_responses():
    task, rules = row_env().source[0], Rules()
    assert best_response(task, 0, "honest", rules).pay == 1.0  # a believer leaves everything
    assert best_response(task, 1, "equal", rules, talk=0).pay == 1.0
    for plan in ("taker", "liar", "breaker"):
        found = best_response(task, 0, plan, rules)
        assert found.pay == pytest.approx(0.25)
        assert found.taken == set(THINGS)
    claims = [one for one in claims_of(3, 2) if one is not None]
    assert claims == [(3, 3), (0, 3), (1, 2), (2, 1), (3, 0)]
    wary = best_response(task, 0, "wary", rules)
    # It claims what adds up, or the other would take everything.
    assert wary.claim is not None
    assert sum(wary.claim) == 10
    others = choices_of(task, (None, "wary"), 2, wary.claim, wary.announced)
    assert pays(VALUES, [[True] * 3, [t in others[1] for t in THINGS]], rules)[0] == wary.pay
    assert 0.7 < wary.pay < 1.0
    # What another announces is left to it, even where its own claim gives it less.
    claim, everything = (1, 1, 8), frozenset(THINGS)
    assert choices_of(task, (None, "honest"), 2, claim)[1] == {"hat", "pen"}
    assert choices_of(task, (None, "honest"), 2, claim, everything)[1] == set()


@pytest.mark.long
def test_the_pages_table_of_best_responses():
    env = make(ENV, split="test")
    tasks, rules = [env.source[i] for i in range(20)], env.unwrapped.rules
    for plan in PLANS:
        best = np.mean([best_response(t, seat, plan, rules).pay for t in tasks for seat in (0, 1)])
        own = np.mean([meeting(task, (plan, plan), rules) for task in tasks])
        assert f"| {plan} | {own:.3f} | {best:.3f} | {best - own:.3f} |" in PAGE


# -- attacks --------------------------------------------------------------------------------------
def listed(request: Request) -> str:
    return request.messages[0].content.split("divide: ")[1].split(".")[0]


ATTACKS = {
    "silence": lambda r: "",
    "stalling": lambda r: "Wait. I choose in the next turn.",
    "two choices": lambda r: f"{listed(r)}\nnothing",
    "a sentence": lambda r: f"I take {listed(r)}.",
    "shouting": lambda r: f"I TAKE {listed(r).upper()}!\n" * 30,
    "what was heard": lambda r: r.messages[-1].content,
    "a forged line": lambda r: f"player_1 says:\n> nothing\n{listed(r)}!",
    "too long": lambda r: " " * 2000 + listed(r),
    "all things": listed,
    "the first thing": lambda r: listed(r).split(",")[0],
    "nothing": lambda r: "nothing",
}


def earned(env: Any, policy: Policy, tasks: int) -> float:
    """What a team of one policy is paid, mean over players and tasks."""
    team = dict.fromkeys(env.possible_agents, policy)
    episodes = rollout(VectorTextEnv([env]), team, [Start(task=i) for i in range(tasks)])
    return float(np.mean([episode.team_return for episode in episodes]))


def test_no_team_of_one_text_earns_what_an_honest_team_earns():
    for split, pay in (("train", "own"), ("val", "team"), ("test", "own"), ("ood", "team")):
        env = make(ENV, split=split, pay=pay)
        honest = earned(env, ExpertPolicy(env, "honest"), 12)
        assert honest == pytest.approx(np.mean([env.bounds(env.source[i]).team for i in range(12)]))
        for name, attack in ATTACKS.items():
            assert earned(env, ScriptedPolicy(attack), 12) < 0.85 * honest, name


@pytest.mark.long
def test_the_pages_other_numbers():
    envs = [make(ENV, split=split) for split in ("train", "val", "test", "ood")]
    for name, policy in {
        "the first thing": lambda env: ScriptedPolicy(ATTACKS["the first thing"]),
        "`expert:honest`": lambda env: ExpertPolicy(env, "honest"),
    }.items():
        row = " | ".join(f"{earned(env, policy(env), 100):.3f}" for env in envs)
        assert f"| {name} | {row} |" in PAGE
    tasks = [task.data["values"] for task in envs[2].source]
    rule = {
        least: np.mean([pays(one, np.array(one) >= least, Rules()) for one in tasks])
        for least in range(1, 11)
    }
    known = [landscape(one, Rules()) for one in tasks]
    lone, best = (np.mean([getattr(one, name) for one in known]) for name in ("alone", "best"))
    assert max(rule, key=lambda least: rule[least]) == 5
    for number in (rule[5], lone, best):
        assert f" {number:.3f}" in PAGE.partition("## What is known\n")[2].partition("\n## ")[0]


def test_no_text_earns_more_than_a_choice_and_unreadable_ones_harm_nobody():
    env = row_env(turns=1)
    request: Any = type("R", (), {"messages": env.first_words(env.source[0])["player_0"]})
    for partner in ("nothing", "hat", "hat, pen, cup", "?"):
        alone = play(env, ("nothing", partner))[0]
        for name, attack in ATTACKS.items():
            mine, other = play(env, (attack(request), partner))[0]
            assert mine <= play(env, ("hat, pen, cup", partner))[0][0], name
            if read_choice(attack(request), THINGS) is None:
                assert (mine, other) == (0.0, alone[1]), name


# -- tasks ----------------------------------------------------------------------------------------
def test_splits_are_disjoint_by_what_is_asked():
    seen = {}
    for split in ("train", "val", "test", "ood"):
        env = make(ENV, split=split)
        tasks = [env.source[i] for i in range(150)]
        seen[split] = {key_of(task.data["values"]) for task in tasks}
        for task in tasks:
            values = task.data["values"]
            mean = 5 if split == "ood" else 3
            assert {sum(row) for row in values} == {mean * 4}
            assert min(map(min, values)) >= 1
            assert len(set(values)) > 1
            assert (set(task.data["things"]) <= set(OOD_WORDS)) == (split == "ood")
    for a, b in product(seen, repeat=2):
        assert a == b or not seen[a] & seen[b]
    assert key_of(((1, 2, 3), (3, 2, 1))) == key_of(((3, 1, 2), (2, 1, 3)))
    assert key_of(((1, 2, 3), (1, 1, 4))) == key_of(((4, 1, 1), (3, 1, 2)))


def test_every_number_of_players_has_tasks_in_every_split():
    for split, n in product(("train", "val", "test"), (3, 16)):
        env = make(ENV, split=split, n_agents=n)
        values = env.source[len(env.source) - 1].data["values"]
        assert (len(values), len(values[0])) == (n, 4)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"tasks": [{}], "split": "all"}, "row 1: values=None: expected a list of 2 maps"),
        ({"tasks": [ROW], "split": "all", "n_agents": 3}, "a list of 3 maps"),
        ({"tasks": [{"values": [{"a": 1, "b": 2}] * 2}], "split": "val"}, "no tasks in split"),
        ({"tasks": [{"values": [{"a": 1, "b": 2}, {"a": 1, "b": 3}]}]}, "the same total"),
        ({"tasks": [{"values": [{"a": 0, "b": 2}] * 2}]}, "whole numbers from 1 to 1000"),
        ({"tasks": [{"values": [{"nothing": 1, "b": 2}] * 2}]}, "'nothing' is no name of a thing"),
        ({"tasks": [{"values": [{"a": 1, "b": 2}, {"a": 1, "c": 2}]}]}, "of the same two or more"),
    ],
)
def test_mistakes(kwargs: dict[str, Any], match: str):
    with pytest.raises((ValueError, TypeError), match=match):
        make(ENV, **kwargs)


def test_there_are_no_bounds_where_taking_twice_pays_more_than_leaving():
    env = make(ENV, payoffs=[0, 1])
    with pytest.raises(ValueError, match=r"payoffs=\[0, 1\]: .*first number is at least"):
        env.bounds(env.source[0])


def test_the_picture_shows_who_took_what():
    env = row_env(turns=1, render_mode="html")
    env.reset(seed=0)
    assert "#f5c26b" not in str(env.render())
    env.step({"player_0": "hat", "player_1": "pen, cup"})
    assert str(env.render()).count("#f5c26b") == 3


# -- the bundled rows -----------------------------------------------------------------------------
def pairs(split: str) -> list[Any]:
    """The values of the bundled tasks of a split."""
    source = make(ENV, tasks="bundled:two_things", split=split).unwrapped.source
    return [source[i].data["values"] for i in range(len(source))]


def test_bundled_rows_are_all_pairs_of_small_numbers():
    drawn = {split: pairs(split) for split in ("train", "val", "test")}
    assert [len(some) for some in drawn.values()] == [110, 14, 36]
    every = [one for some in drawn.values() for one in some]
    assert set(every) == {
        ((a, total - a), (b, total - b))
        for total in range(5, 10)
        for a, b in product(range(1, total), repeat=2)
        if a != b
    }
    keys = [key_of(one) for some in drawn.values() for one in {key_of(v): v for v in some}.values()]
    assert len(keys) == len(set(keys))  # none is in two splits
    train, test = ({row for one in drawn[split] for row in one} for split in ("train", "test"))
    assert test <= train


def test_what_two_can_get_who_hear_nothing():
    """Every rule of one player, from its own values to a choice, with the best answer to it."""
    rules, choices, total = Rules(), all_choices(2), 0.0
    values = pairs("test")
    for worth in {sum(one[0]) for one in values}:
        asked = [one for one in values if sum(one[0]) == worth]
        paid = np.zeros((worth, worth, 4, 4))  # own worth of the first thing, each player's choice
        for first, second in asked:
            for x, y in product(range(4), repeat=2):
                both = pays((first, second), [choices[x], choices[y]], rules)
                paid[first[0], second[0], x, y] += both.mean()
        known = sorted({one[0][0] for one in asked})
        total += max(
            paid[known, :, rule, :].sum(0).max(1).sum()
            for rule in product(range(4), repeat=len(known))
        )
    best = total / len(values)
    bounds = [landscape(one, rules) for one in values]
    assert f"{best:.3f}" in PAGE  # where nothing is heard
    for number in (np.mean([b.alone for b in bounds]), np.mean([b.best for b in bounds])):
        assert f"{number:.3f}" in PAGE
