"""The pictures of running episodes: what environments of societies keep, and show when asked."""

from __future__ import annotations

import copy
from typing import Any
from xml.etree import ElementTree

import pytest
from support.reports import HOSTILE
from support.societies import always, plans, played

from llm_marl_envs import make
from llm_marl_envs.core.society import society_of
from llm_marl_envs.core.society_drawing import society_svg

IDS = ("commons-v0", "public_goods-v0", "donor-v0")


def words(env: Any) -> str:
    """The drawing in words; empty where there is none."""
    drawn = env.unwrapped.picture()
    return ElementTree.fromstring(drawn)[1].text or "" if drawn else ""


def say(env: Any, *texts: str) -> None:
    env.step(dict(zip(env.agents, texts, strict=True)))


def test_a_lake_that_is_emptied():
    env = make("commons-v0", n_agents=3, turns=6)
    env.reset(seed=0, options={"task": "train/0"})
    say(env, "a", "b", "c")
    assert words(env) == ""
    say(env, "16", "16", "20")
    assert words(env) == (
        "1 round. There was 100 at first, 100 before the last. In all took: villager_0 16, "
        "villager_1 16, villager_2 20. Over-use, by round: villager_2 in 1."
    )
    say(env, "a", "b", "c")
    say(env, "16", "no", "99")
    assert words(env) == (
        "2 rounds. There was 100 at first, 96 before the last. In all took: villager_0 32, "
        "villager_1 16, villager_2 100. Over-use, by round: villager_2 in 1 to 2. Over in round 2."
    )
    env.reset(seed=0)
    assert words(env) == ""


def test_gifts_and_fines():
    env = make("public_goods-v0", turns=6, n_agents=2, punish=True)
    env.reset(seed=0, options={"task": "train/0"})
    say(env, "a", "b")
    say(env, "10", "4")
    say(env, "citizen_1 2", "nobody")
    first = "1 round. In all gave: citizen_0 10, citizen_1 4. Over-use, by round: citizen_1 in 1. "
    assert words(env) == (
        f"{first}Spent to punish: citizen_0 2, citizen_1 0. "
        "Lost by punishment: citizen_0 0, citizen_1 6."
    )


def test_wealth_that_is_given():
    env = make("donor-v0", n_agents=3, turns=2)
    env.reset(seed=0, options={"task": "train/0"})
    say(env, "10", "5", "no")
    say(env, "0", "0", "0")
    told = words(env)
    assert told.startswith("2 rounds. Had before the last: giver_0 ")
    assert "In all gave: giver_0 10, giver_1 5, giver_2 0." in told
    assert "giver_2 in 1 to 2." in told


@pytest.mark.parametrize("env_id", IDS)
def test_render_shows_it_above_the_chats(env_id: str):
    env = make(env_id, render_mode="html")
    env.reset(seed=0)
    assert "<svg" not in str(env.render())
    for text in HOSTILE[: 1 if env_id == "donor-v0" else 2]:
        say(env, *[text] * len(env.agents))
    page = str(env.render())
    drawn = env.unwrapped.picture()
    assert page.startswith(f'<article class="episode"><h1>{env_id}, task ')
    assert 0 < page.index(drawn) < page.index("<section>")
    assert "pwned" not in drawn
    assert "<script" not in page


@pytest.mark.parametrize("env_id", IDS)
def test_transcripts_tell_the_same(env_id: str):
    env = make(env_id)
    episode = played(env, {**plans(env, "sharer"), env.possible_agents[-1]: always("3")})
    seats = {seat: [turn.info for turn in episode.trajectory(seat)] for seat in episode.agents}
    society = society_of(seats)
    assert society is not None
    assert len(society.rounds) == env.unwrapped.schedule.rounds
    assert society_svg(society) == env.unwrapped.picture()


def test_a_copy_has_rounds_of_its_own():
    env = make("donor-v0")
    env.reset(seed=0)
    other = copy.deepcopy(env)
    say(env, *["1"] * 6)
    assert words(env)
    assert words(other) == ""
