"""Which episodes are shown, and their shades."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from support.reports import Reader, episode

from llm_marl_envs.core.records import Idle, write_jsonl
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.report import write_report
from llm_marl_envs.report.episodes import pairs, shade, telling


def test_transcripts_that_share_no_task(tmp_path: Path):
    write_jsonl(tmp_path / "transcripts_before.jsonl", [episode("a", 0)])
    write_jsonl(tmp_path / "transcripts_after.jsonl", [episode("b", 1)])
    assert "share no task and seed" in Reader(write_report(tmp_path).read_text()).text


def test_pairs_and_the_telling_ones():
    before = [episode(name, reward) for name, reward in (("a", 0), ("b", 1), ("c", 1), ("d", 0))]
    after = [episode(name, reward) for name, reward in (("d", 1), ("c", 1), ("b", 0), ("a", 0.5))]
    found = pairs(before, after)
    assert [(p.before, p.after, p.gain) for p in found] == [
        (0, 3, 0.5),
        (1, 2, -1.0),
        (2, 1, 0.0),
        (3, 0, 1.0),
    ]
    assert [p.before for p in telling(found, 4)] == [3, 0, 1, 2]
    assert [p.before for p in telling(found, 1)] == [3]
    again = pairs([episode("a", 0), episode("a", 0)], [episode("a", 1), episode("a", 0.5)])
    assert [p.after for p in again] == [0, 1]


def test_shades():
    given = (0, 0.1, 0.5, 1, -1, 2, float("nan"))
    assert [shade(value, 1) for value in given] == ["z", "p1", "p2", "p4", "n4", "z", "z"]


def test_what_stands_beside_an_action(tmp_path: Path):
    one = episode("a", 1)
    cut = dataclasses.replace(one.turns[0].response, cut=True)
    late = dataclasses.replace(
        one.turns[0],
        index=1,
        response=cut,
        messages=(
            *one.turns[0].messages,
            Message("assistant", "a word"),
            Message("user", "Once more."),
        ),
    )
    write_jsonl(tmp_path / "episodes.jsonl", [dataclasses.replace(one, turns=(*one.turns, late))])
    shown = Reader(write_report(tmp_path).read_text()).text
    assert "left_0, turn 1: reward 1.00 words 1.00a wordright_0" in shown
    assert (
        "userOnce more.left_0, turn 2: reward 1.00 words 1.00cut at the token limita word" in shown
    )


def test_what_is_paid_without_an_action_is_shown(tmp_path: Path):
    one = episode("a", 1)
    idle = {"right_0": Idle(reward=0.5, reward_terms={"draw": 0.5})}
    played = dataclasses.replace(one, turns=one.turns[:1], idle=idle)
    write_jsonl(tmp_path / "episodes.jsonl", [played])
    shown = Reader(write_report(tmp_path).read_text()).text
    assert "right_0, without an action: reward 0.50 draw 0.50" in shown


def test_long_texts_are_cut_and_say_so(tmp_path: Path):
    write_jsonl(tmp_path / "episodes.jsonl", [episode("a", 1, "x" * 20_005)])
    shown = Reader(write_report(tmp_path).read_text()).text
    assert shown.count("x\n[5 more characters]") == 2
