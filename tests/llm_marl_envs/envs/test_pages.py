"""The episodes that the environments' pages show are what the environments say and pay."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest
from support.pages import module_of

from llm_marl_envs import list_envs, make, spec

LINE = re.compile(r"    (\w+) (is told|hears|writes|says?|earns?) +(?=\S)")


def episode_of(page: str, heading: str) -> tuple[str, list[tuple[str, str, str]]]:
    """The task of the episode under a heading, and its lines.

    They are (seat, or "all" or "both", verb, text).
    """
    part = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines: list[tuple[str, str, str]] = []
    column = 0
    for line in part.splitlines():
        if found := LINE.match(line):
            column = found.end()
            lines.append((found[1], found[2], line[column:]))
        elif line.startswith("    "):
            assert not line[:column].strip(), f"{line!r} stands left of its column"
            seat, verb, text = lines[-1]
            lines[-1] = (seat, verb, f"{text}\n{line[column:]}")
    return part.split("`")[1], lines


def play(env: Any, task: str, said: list[tuple[str, str]]) -> dict[str, float]:
    """What each agent has earned after what was said so far."""
    env.reset(seed=0, options={"task": task})
    earned: dict[str, float] = defaultdict(float)
    for seat, text in said:
        assert env.agent_selection == seat
        env.step(text)
        for agent in env.agents:
            earned[agent] += env.rewards[agent]
    return earned


NAMES = sorted({env_id.rpartition("-")[0] for env_id in list_envs() if spec(env_id).agents})
SHORT: dict[str, dict[str, Any]] = {"public_goods": {"turns": 3, "punish": True}}
"""Arguments of episodes that would be too long to be shown."""
EPISODES = [(name, "An episode", SHORT.get(name, {})) for name in NAMES]
EPISODES += [
    (name, "Three authors", {"n_agents": 3})
    for name in ("coop_coding", "coop_writing_arxiv", "coop_writing_tldr")
]
EPISODES += [("debate", "A leader decides", {"decides": "leader", "rounds": 1})]


@pytest.mark.parametrize(("name", "heading", "kwargs"), EPISODES)
def test_the_episode_of_a_page_is_played_as_it_says(
    name: str, heading: str, kwargs: dict[str, Any]
) -> None:
    page = module_of(name).__doc__ or ""
    task, lines = episode_of(page, heading)
    env: Any = make(name, api="aec", **kwargs)
    said: list[tuple[str, str]] = []
    ended = False
    for seat, verb, text in lines:
        if verb in ("writes", "says", "say"):
            if ended:  # a variant, which begins with this action
                said = said[: [one for one, _ in said].index(seat)]
            said += [(one, text) for one in (env.possible_agents if seat == "all" else [seat])]
        earned = play(env, task, said)
        ended = all(env.terminations.values())
        if verb in ("is told", "hears"):
            seen = " ".join(env.observe(seat).split())
            parts = " ".join(text.split()).split("...")
            missing = [part for part in parts if part.strip() not in seen]
            assert missing == [], f"{seat} sees {seen[-500:]!r}"
        elif verb.startswith("earn"):
            seats = env.agents if seat in ("all", "both") else [seat]
            assert {one: earned[one] for one in seats} == pytest.approx(
                dict.fromkeys(seats, float(text)), abs=1e-4
            )
    assert ended
    assert lines[-1][1].startswith("earn")
