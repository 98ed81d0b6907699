"""What a report reads, and files that are not as they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.reports import Reader, a_run, episode, lines, with_tokens

from llm_marl_envs.core.records import (
    episode_to_dict,
)
from llm_marl_envs.report import write_report
from llm_marl_envs.report.sources import read_results


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("summary.json", '{"half": ', r"summary\.json: half-written or no JSON"),
        ("summary.json", "[1]", "expected a JSON object, got list"),
        ("summary.json", "[" * 100_000, "no JSON"),
        ("episodes.jsonl", '{"version": 1}\n', "line 1: transcript: 'env_id' is missing"),
        ("episodes.jsonl", "no json\n{}\n", "line 1: no JSON"),
        ("log.jsonl", "[1]\n", "line 1: expected an object"),
        ("checkpoint-1/trainer_state.json", "{}", "expected a list under 'log_history'"),
        ("cross_play.json", '{"teams": ["a"], "matrix": [[1, 2]]}', "must be 1 x 1"),
        (
            "cross_play.json",
            '{"teams": ["a"], "matrix": [["1"]]}',
            r"matrix\[0\]\[0\]: expected a finite number",
        ),
        ("cross_play.json", '{"teams": ["a"]}', "'matrix' is missing"),
    ],
)
def test_malformed_files_are_named(tmp_path: Path, name: str, content: str, complaint: str):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(ValueError, match=complaint) as raised:
        write_report(tmp_path)
    assert path.name in str(raised.value)
    assert not (tmp_path / "report.html").exists()


def test_a_reward_that_is_no_number(tmp_path: Path):
    data = episode_to_dict(episode("a", 1))
    data["turns"][0]["reward"] = "1"
    lines(tmp_path / "episodes.jsonl", [data])
    with pytest.raises(ValueError, match=r"line 1: .*turns\[0\]\.reward: expected .*'1'"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("success",), 5),
        (("success",), []),
        (("agents", 0), []),
        (("turns", 0, "agent"), []),
        (("turns", 0, "index"), None),
        (("turns", 0, "reward"), 10**400),
        (("turns", 0, "reward_terms"), None),
        (("turns", 0, "reward_terms"), {"a": 10**400}),
    ],
)
def test_a_hostile_value_is_a_line_of_the_file(tmp_path: Path, place: tuple[Any, ...], value: Any):
    data: Any = episode_to_dict(episode("a", 1))
    inside = data
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    lines(tmp_path / "episodes.jsonl", [data])
    with pytest.raises(ValueError, match="line 1"):
        write_report(tmp_path)


def test_a_seat_that_never_acted_is_checked_too(tmp_path: Path):
    data = episode_to_dict(episode("a", 1))
    data["idle"] = {"right_0": {"reward": 1.0, "reward_terms": {"quit": "1"}}}
    lines(tmp_path / "episodes.jsonl", [data])
    with pytest.raises(ValueError, match=r"line 1: .*right_0\.reward_terms\.quit: .*'1'"):
        write_report(tmp_path)


def test_tokens_of_unequal_lengths(tmp_path: Path):
    data = with_tokens(episode("a", 1), 0.5, ("a", "b"))
    data["turns"][0]["tokens"]["logprobs"] = [0.0]
    lines(tmp_path / "transcripts" / "update-000000.jsonl", [data])
    with pytest.raises(ValueError, match="2 token texts, 2 advantages and 1 log-probs"):
        write_report(tmp_path)


def test_a_last_line_that_was_cut_off_is_left_out_and_said(tmp_path: Path):
    a_run(tmp_path)
    log = tmp_path / "train" / "log.jsonl"
    log.write_text(log.read_text() + '{"step": 21, "rew')
    page = Reader(write_report(tmp_path).read_text())
    assert "line 21 is cut off and left out" in page.text
    assert len(read_results(tmp_path).runs[0].log) == 20


def test_the_newest_checkpoint_is_read_where_there_is_no_log(tmp_path: Path):
    for step in (9, 10):  # as text, "checkpoint-9" comes last
        state = {"log_history": [{"step": i, "reward": i} for i in range(step + 1)]}
        path = tmp_path / f"checkpoint-{step}" / "trainer_state.json"
        path.parent.mkdir()
        path.write_text(json.dumps(state))
    (run,) = read_results(tmp_path).runs
    assert (run.file, len(run.log)) == ("checkpoint-10/trainer_state.json", 11)
