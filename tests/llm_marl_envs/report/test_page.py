"""The page as a whole: its parts, its bytes, and that no text in it can act."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.reports import HOSTILE, Reader, a_run, episode, lines

from llm_marl_envs.cli import main
from llm_marl_envs.core.records import (
    write_jsonl,
)
from llm_marl_envs.core.rendering import visible
from llm_marl_envs.report import write_report


def test_a_report_shows_every_part(tmp_path: Path):
    page = Reader(write_report(a_run(tmp_path)).read_text(encoding="utf-8"))
    parts = ("Summary", "Learning", "Reward terms over time", "Distributions", "Cross-play")
    for heading in (*parts, "Episodes", "Training groups", "Recorded in summary.json"):
        assert heading in page.text
    assert "train/388/0 not solved (0.00) → solved (1.00)" in page.text
    assert "2 of 2 pairs" not in page.text
    assert "4 of 4 pairs" in page.text
    assert "advantage 0.50" in page.text
    assert "Self-play (framed): mean return 0.75 of 2 pairings; cross-play: mean" in page.text
    # 0.375 before, 0.625 after; paired changes +1, +1, -1, 0.
    assert re.search(r"mean return0\.38 .*0\.62 .*0\.25 ", page.text)
    shades = [given.get("class") for name, given in page.tags if name == "span"]
    assert shades.count("t p4") == 3 + 1  # and one in the legend
    assert shades.count("t n4") == 3 + 1


def test_a_run_that_did_not_improve_is_explained(tmp_path: Path):
    flat = [
        {"step": step, "reward": 0.0, "success": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1}
        for step in range(1, 21)
    ]
    write_jsonl(tmp_path / "episodes.jsonl", [episode("train/1", 0)])
    for name in ("a", "b"):
        lines(tmp_path / name / "log.jsonl", flat if name == "b" else flat[:19])
    found = Reader(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "Why it did not improve" in found.text
    assert "b: The reward is out of reach" in found.text
    assert "a: The reward" not in found.text
    assert "Evidence: No episode of 20 updates solved its task" in found.text
    assert "What to try: Start from a model" in found.text
    assert "Why it did not" not in Reader(write_report(a_run(tmp_path / "well")).read_text()).text


def test_the_same_files_give_the_same_bytes(tmp_path: Path):
    a_run(tmp_path)
    first = write_report(tmp_path, tmp_path / "a.html").read_bytes()
    assert write_report(tmp_path, tmp_path / "b.html").read_bytes() == first
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(tmp_path: Path, text: str):
    path = write_report(a_run(tmp_path, text=text, name=text))
    raw = path.read_bytes()
    page = raw.decode("utf-8")  # lone surrogates would not have been written
    assert b"\x00" not in raw
    assert "\u202e" not in page
    found = Reader(page)
    plain = Reader(write_report(a_run(tmp_path / "plain", text="w" * len(text))).read_text())
    assert [name for name, _ in found.tags] == [name for name, _ in plain.tags]
    assert {key for _, given in found.tags for key in given} == {
        key for _, given in plain.tags for key in given
    }
    assert visible(text) in found.text


def test_nothing_is_loaded_and_no_script_is_there(tmp_path: Path):
    page = Reader(write_report(a_run(tmp_path)).read_text())
    names = {name for name, _ in page.tags}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for name, given in page.tags:
        assert not [key for key in given if key.startswith("on") or key in ("src", "style")], name
        assert (given.get("href") or "#").startswith("#")
    policy = next(given for _, given in page.tags if given.get("http-equiv"))
    assert (policy["content"] or "").startswith("default-src 'none'")


def test_folders_with_nothing_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        write_report(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"nothing to report; expected one of summary\.json"):
        write_report(tmp_path)
    assert not list(tmp_path.iterdir())
    assert main(["report", str(tmp_path)]) == 2
    assert "nothing to report" in capsys.readouterr().err


def test_numbers_that_are_none_do_not_break_a_page(tmp_path: Path):
    odd = (float("nan"), float("inf"), -1e308, 1e308, 1e-320, 0)
    episodes = [episode(f"t{i}", reward) for i, reward in enumerate(odd)]
    write_jsonl(tmp_path / "episodes.jsonl", episodes)
    lines(tmp_path / "log.jsonl", [{"step": i, "reward": r} for i, r in enumerate(odd)])
    lines(tmp_path / "a" / "log.jsonl", [{"step": 10**299, "reward": 1}, {"loss": True}])
    page = Reader(write_report(tmp_path).read_text())
    paths = [given["d"] or "" for name, given in page.tags if name == "path"]
    assert paths
    assert not [one for one in paths if "nan" in one or "inf" in one]


def test_two_evaluations_side_by_side(tmp_path: Path):
    write_jsonl(tmp_path / "old" / "episodes.jsonl", [episode("a", 0)])
    write_jsonl(tmp_path / "new" / "episodes.jsonl", [episode("a", 1)])
    write_jsonl(tmp_path / "deep" / "old" / "episodes.jsonl", [episode("a", 0)])
    (tmp_path / "new" / "summary.json").write_text('{"made": "today"}')
    lines(tmp_path / "new" / "log.jsonl", [{"step": i, "reward": i / 9} for i in range(9)])
    for other, names in (
        (tmp_path / "old", ("old", "new")),
        (tmp_path / "deep" / "old", ("old", "new")),
    ):
        page = write_report(tmp_path / "new", against=other).read_text()
        shown = Reader(page).text
        assert "Report: new against old" in shown
        assert "a not solved (0.00) → solved (1.00)" in shown
        assert "per episodeoldnewnew minus old, paired" in shown
        assert "95 %: old too few tasks: 1; new too few tasks: 1" in shown
        assert "old (n = 1) new (n = 1)" in re.sub(r"\s+", " ", shown.replace(") new", ") new"))
        assert [f"<h3>{name}</h3>" in page for name in names] == [True, True]
        assert "Recorded in summary.json of new" in shown
        assert "before" not in shown
        assert "after" not in shown
        assert "held-out tasks" not in shown  # another folder's team is not this run's begin
    for name, against, expected in (
        ("a/eval", "b/eval", "a/eval against b/eval"),
        ("x/old", "old", "x/old against"),
    ):
        for one in (name, against):
            write_jsonl(tmp_path / one / "episodes.jsonl", [episode("a", 0)])
        page = write_report(tmp_path / name, against=tmp_path / against).read_text()
        assert f"Report: {expected}" in Reader(page).text
    with pytest.raises(ValueError, match="against itself there is nothing to compare"):
        write_report(tmp_path / "new", against=tmp_path / "x" / ".." / "new")
    with pytest.raises(ValueError, match="no measured episodes"):
        write_report(tmp_path / "new", against=tmp_path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    a_run(tmp_path / "run")
    output = tmp_path / "deep" / "r.html"
    given = ["report", str(tmp_path / "run"), "--output", str(output), "--episodes", "1"]
    assert main(given) == 0
    assert capsys.readouterr().out == f"report written to {output}\n"
    assert "1 of 4 pairs" in Reader(output.read_text()).text
    assert main([*given[:-1], "-1"]) == 2


def test_only_one_run_has_measurements_before_and_after(tmp_path: Path):
    a_run(tmp_path)

    def held() -> int:
        tags = Reader(write_report(tmp_path).read_text()).tags
        return sum(given.get("class") == "dot held" for _, given in tags)

    assert held() == 2 * 2  # of the return and of success
    lines(tmp_path / "again" / "log.jsonl", [{"step": i, "reward": i} for i in range(9)])
    assert held() == 0


def test_every_logged_number_is_named(tmp_path: Path):
    log = [{"step": i, "reward": i / 500, "own": 7.0} for i in range(1, 501)]
    lines(tmp_path / "log.jsonl", log)
    shown = Reader(write_report(tmp_path).read_text()).text
    assert "rewardmean returnreward0.0021.00500" in shown
    assert "own7.007.00500" in shown


def test_a_term_is_drawn_among_the_terms_whatever_its_name(tmp_path: Path):
    log = [{"step": i, "reward_terms/cut": i / 9, "reward_terms/kl": 1.0} for i in range(9)]
    lines(tmp_path / "log.jsonl", log)
    shown = Reader(write_report(tmp_path).read_text()).text
    assert "Reward terms over time" in shown
    assert "Learning" not in shown
