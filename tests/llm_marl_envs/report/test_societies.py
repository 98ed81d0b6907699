"""A society over time: which episodes stand beside each other, what is said of a round, curves."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.reports import HOSTILE, Reader, episode, lines, turn
from support.societies import always, plans, played

from llm_marl_envs import make
from llm_marl_envs.core.records import (
    Episode,
    EpisodeGroup,
    StopReason,
    episode_to_dict,
    write_jsonl,
)
from llm_marl_envs.core.rendering import visible
from llm_marl_envs.measure.numbers.values import measure
from llm_marl_envs.report import write_report
from llm_marl_envs.report.societies import RoundView, societies
from llm_marl_envs.report.sources import read_results
from trainers.running.metrics import group_metrics

PART = "A society over time"


def done(text: str, amount: float, over: bool = False, **facts: Any) -> tuple[str, dict[str, Any]]:
    return text, {"got": amount, "over_use": over, **facts}


def society(task: str = "train/1", left: Any = (), right: Any = (), **changes: Any) -> Episode:
    """Two seats; texts with their facts, in turns that both take."""
    left = left or [("I take 1.", {}), done("1", 1)]
    right = right or [("So do I.", {}), done("9", 4, True, named=9)]
    turns = [
        turn(agent, text, 0.5, index, info=info)
        for index, both in enumerate(zip(left, right, strict=True))
        for agent, (text, info) in zip(("left_0", "right_0"), both, strict=True)
    ]
    return episode(task, 1, turns=tuple(turns), **changes)


def stories(folder: Path) -> list[list[str]]:
    """Titles of the episodes that a report shows, row by row."""
    part = societies(read_results(folder), (), episodes=True)
    return [] if part is None else [[story.title for story in row] for row in part.rows]


def rounds(folder: Path, one: Episode) -> list[RoundView]:
    write_jsonl(folder / "episodes.jsonl", [one])
    part = societies(read_results(folder), (), episodes=True)
    assert part is not None
    return [*part.rows[0][0].rounds]


# -- which episodes -------------------------------------------------------------------------------
def test_the_first_and_the_newest_stand_beside_each_other(tmp_path: Path):
    names = ("train/1", "train/2", "train/3")
    write_jsonl(tmp_path / "episodes.jsonl", map(society, names))
    assert stories(tmp_path) == [
        ["episodes, train/1: solved (1.00)", "episodes, train/3: solved (1.00)"]
    ]
    write_jsonl(tmp_path / "episodes.jsonl", [society()])
    assert stories(tmp_path) == [["episodes, train/1: solved (1.00)"]]


def test_the_newest_is_of_the_same_task_where_there_is_one(tmp_path: Path):
    write_jsonl(tmp_path / "transcripts_before.jsonl", map(society, ("train/1", "train/2")))
    after = [society(name) for name in ("train/2", "train/1", "train/3")]
    write_jsonl(tmp_path / "transcripts_after.jsonl", after)
    assert [title.split(":")[0] for title in stories(tmp_path)[0]] == [
        "before, train/1",
        "after, train/1",
    ]
    write_jsonl(tmp_path / "transcripts_after.jsonl", [after[0], after[2]])
    assert stories(tmp_path)[0][1].startswith("after, train/3")


def test_updates_of_the_first_run_are_a_row(tmp_path: Path):
    write_jsonl(tmp_path / "episodes.jsonl", [episode("a", 1)])
    for run in ("a", "b"):
        for update in ("000000", "000010", "000020"):
            path = tmp_path / run / "transcripts" / f"update-{update}.jsonl"
            lines(path, [episode_to_dict(society(f"train/{run}{update}"))])
    assert [title.split(":")[0] for title in stories(tmp_path)[0]] == [
        "update-000000, train/a000000",
        "update-000020, train/a000020",
    ]
    assert len(stories(tmp_path)) == 1


@pytest.mark.parametrize(
    "facts", [{}, {"got": 1}, {"over_use": "yes", "got": 1}, {"over_use": None}]
)
def test_other_episodes_have_no_part(tmp_path: Path, facts: dict[str, Any]):
    one = society(left=[("a", facts)], right=[("b", facts)])
    write_jsonl(tmp_path / "episodes.jsonl", [one, dataclasses.replace(one, turns=())])
    assert stories(tmp_path) == []
    assert PART not in write_report(tmp_path).read_text()


def test_no_episodes_where_none_are_asked_for(tmp_path: Path):
    write_jsonl(tmp_path / "episodes.jsonl", [society()])
    assert PART in write_report(tmp_path).read_text()
    assert PART not in write_report(tmp_path, most_episodes=0).read_text()


def test_nothing_depends_on_the_name_of_an_environment(tmp_path: Path):
    write_jsonl(tmp_path / "episodes.jsonl", [society(env_id="mine-v7")])
    assert len(stories(tmp_path)) == 1


# -- what is said of a round ----------------------------------------------------------------------
def test_what_was_done_and_said(tmp_path: Path):
    left = [("I take 1.", {}), done("1", 1), ("Again.", {}), done("Less.\n0", 0, fined=6)]
    right = [("So do I.", {}), done("9", 4, True, named=9), ("", {}), done("2", 2, spent=3)]
    assert rounds(tmp_path, society(left=left, right=right)) == [
        RoundView(
            "Round 1: left_0 1, right_0 4 of 9 (over-use)",
            (("left_0", "I take 1."), ("right_0", "So do I.")),
        ),
        RoundView(
            "Round 2: left_0 0 (fined 6), right_0 2 (fines 3)",
            (("left_0", "Again."), ("right_0", ""), ("left_0", "Less.\n0")),
        ),
    ]
    had = {"gave": 5, "had": 20, "over_use": False}
    one = society(left=[("5", had)], right=[("no", {"over_use": True})])
    assert [view.heading for view in rounds(tmp_path, one)] == [
        "Round 1: left_0 5 of 20, right_0 - (over-use)"
    ]


def test_an_episode_that_failed_is_shown_as_far_as_it_went(tmp_path: Path):
    talk = [("Now?", {})]
    one = society(left=[done("1", 1), *talk], right=[done("2", 2), *talk])
    broken = dataclasses.replace(
        one, stop_reason=StopReason.FAILED, failure="Traceback", success=None, floor=0.0
    )
    assert rounds(tmp_path, broken) == [
        RoundView("Round 1: left_0 1, right_0 2", ()),
        RoundView("Round 2, not played", (("left_0", "Now?"), ("right_0", "Now?"))),
    ]
    assert "failed: the environment raised" in stories(tmp_path)[0][0]


def test_long_episodes_are_cut_and_say_so(tmp_path: Path):
    many = [done("a", 1)] * 130
    assert len(rounds(tmp_path, society(left=many, right=many))) == 100
    shown = Reader(write_report(tmp_path).read_text()).text
    assert "30 more rounds" in shown
    assert "130 rounds. In all took: left_0 130" in shown


@pytest.mark.parametrize("env_id", ["commons-v0", "public_goods-v0", "donor-v0"])
def test_transcripts_of_societies_have_the_part(tmp_path: Path, env_id: str):
    env = make(env_id)
    team = {**plans(env, "sharer"), env.possible_agents[0]: always("2")}
    write_jsonl(tmp_path / "episodes.jsonl", [played(env, team)])
    page = Reader(write_report(tmp_path).read_text())
    assert PART in page.text
    assert env.possible_agents[0] in page.text
    drawn = [
        given for name, given in page.tags if name == "svg" and given.get("class") == "society"
    ]
    assert len(drawn) == 1
    text = (tmp_path / "report.html").read_text()
    assert env.unwrapped.picture() in text


# -- texts that want out --------------------------------------------------------------------------
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(tmp_path: Path, text: str):
    def page(text: str, task: str) -> Reader:
        left = [(text, {}), done(text, 1, group=[text])]
        seats = {"left_0": text, "right_0": "right_0"}
        one = society(task, left, [(text, {}), done(text, 2, True, group=["right_0"])])
        turns = tuple(dataclasses.replace(t, agent=seats[t.agent]) for t in one.turns)
        write_jsonl(
            tmp_path / "episodes.jsonl",
            [dataclasses.replace(one, agents=tuple(seats.values()), turns=turns)],
        )
        return Reader(write_report(tmp_path).read_text(encoding="utf-8"))

    hostile, plain = page(text, text), page("w" * len(text), "w")
    assert [name for name, _ in hostile.tags] == [name for name, _ in plain.tags]
    assert {key for _, given in hostile.tags for key in given} == {
        key for _, given in plain.tags for key in given
    }
    assert visible(text) in hostile.text


# -- curves ---------------------------------------------------------------------------------------
def test_curves_over_updates(tmp_path: Path):
    log = [
        {"step": i, "survival": i / 9, "efficiency": 0.5, "gini": 0.1, "over_use": 1 - i / 9}
        for i in range(10)
    ]
    lines(tmp_path / "log.jsonl", log)
    page = write_report(tmp_path).read_text()
    shown = Reader(page).text
    assert PART in shown
    assert "Learning" not in shown
    part = page[page.index(f"<h2>{PART}") :]
    keys = re.findall(r'class="key s\d"></span> (\w+)<', part)
    assert keys == ["survival", "efficiency", "gini", "over_use"]


def test_a_training_logs_them_of_societies_alone():
    env = make("commons-v0")
    team = {seat: always("40") for seat in env.possible_agents}
    one = played(env, team)
    group = EpisodeGroup(task_id=one.task_id, seed=one.seed, episodes=(one, one))
    logged = group_metrics([group], np.zeros((1, 2, 5, 24)))
    found = {name: logged[name] for name in ("survival", "efficiency", "gini", "over_use")}
    # All is gone after a month of twelve: 20 each where each could have had 130.
    assert found == pytest.approx(
        {"survival": 1 / 12, "efficiency": 20 / 130, "gini": 0, "over_use": 1}
    )
    other = episode("a", 1)
    group = EpisodeGroup(task_id="a", seed=0, episodes=(other, other))
    assert not {*found} & {*group_metrics([group], np.zeros((1, 2, 2, 1)))}


def test_facts_that_are_no_numbers_are_not_measured():
    odd = {"optimum": "best", "survival": None, "over_use": True}
    one = society(left=[("a", odd)], right=[("b", odd)])
    values = measure([one], ["survival", "efficiency", "over_use"])
    assert values == {"survival": [None], "efficiency": [None], "over_use": [1.0]}
