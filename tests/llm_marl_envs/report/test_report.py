"""The report: what it reads, what it computes, and that no text in it can act."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.chromium import CHROMIUM, Browser
from support.pairings import experts
from support.toys import SameCase, WordPair

from llm_marl_envs.cli import main
from llm_marl_envs.evaluation import evaluate_team
from llm_marl_envs.evaluation.numbers.results import result_to_dict, summarise
from llm_marl_envs.evaluation.numbers.table import result_table
from llm_marl_envs.evaluation.studies.cross_play import cross_play
from llm_marl_envs.evaluation.studies.cross_play_files import write_cross_play
from llm_marl_envs.evaluation.studies.zero_shot import zero_shot
from llm_marl_envs.experts import ExpertPolicy
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.records import (
    Episode,
    EpisodeGroup,
    Response,
    StopReason,
    Turn,
    episode_to_dict,
    write_jsonl,
)
from llm_marl_envs.report import write_report
from llm_marl_envs.report.axes import SIGN, WIDTH, Frame, labels, number, ticks
from llm_marl_envs.report.charts import bins, curve_chart, histogram, tally
from llm_marl_envs.report.episodes import _shade, pairs, telling
from llm_marl_envs.report.markup import Markup, escape, join, tag, visible
from llm_marl_envs.report.pairings import read_cross_play
from llm_marl_envs.report.series import change, curve, estimate, measures, per_task, t_interval
from llm_marl_envs.report.sources import read_results
from llm_marl_envs.spaces import Message
from trainers.running.metrics import group_metrics

HOSTILE = (
    "</script><script>window.pwned = 1</script>",
    '<img src="https://example.invalid/x.png" onerror="window.pwned = 1">',
    "<svg onload=window.pwned=1><style>body{display:none}</style></svg>",
    '" onmouseover="window.pwned=1" x="',
    "</pre></details></main><iframe src=javascript:window.pwned=1></iframe>",
    "<!-- <plaintext> ]]> &lt;b&gt; &amp; <link rel=stylesheet href=//example.invalid/a.css>",
    "NUL \x00 escape \x1b[31m lone \ud800 turned \u202edlrow\u2066 return \r.",
    "</title></style><meta http-equiv=refresh content='0;url=https://example.invalid/'>",
)


def turn(agent: str, text: str, reward: float, index: int = 0, **changes: Any) -> Turn:
    told = (Message("system", "Say your word."), Message("user", f"You are {agent}."))
    given = {"reward_terms": {"words": reward}, "messages": told, **changes}
    return Turn(agent=agent, index=index, response=Response(text=text), reward=reward, **given)


def episode(task: str, reward: float, text: str = "a word", **changes: Any) -> Episode:
    """Two agents, one turn each, paid alike; solved if the reward is 1."""
    given = {
        "env_id": "word_pair-v0",
        "env_kwargs": {},
        "task_id": task,
        "seed": 0,
        "agents": ("left_0", "right_0"),
        "turns": (turn("left_0", text, reward), turn("right_0", text, reward)),
        "stop_reason": StopReason.TERMINATED,
        "success": reward == 1,
    }
    return Episode(**{**given, **changes})


def with_tokens(one: Episode, advantage: float, texts: tuple[str, ...]) -> dict[str, Any]:
    """A line of a training transcript."""
    data = episode_to_dict(one)
    data["turns"][0]["tokens"] = {
        "texts": list(texts),
        "advantages": [advantage] * len(texts),
        "logprobs": [-0.5] * len(texts),
    }
    return data


def lines(path: Path, values: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def a_run(folder: Path, *, text: str = "a word", name: str = "train/388") -> Path:
    """A folder like the demo's, small: 4 tasks before and after, 20 updates, one group."""
    before = [episode(f"{name}/{i}", reward, text) for i, reward in enumerate((0, 0, 1, 0.5))]
    after = [episode(f"{name}/{i}", reward, text) for i, reward in enumerate((1, 1, 0, 0.5))]
    write_jsonl(folder / "transcripts_before.jsonl", before)
    write_jsonl(folder / "transcripts_after.jsonl", after)
    log = [
        {"step": i, "reward": i / 20, "success": i / 20, "reward_terms/words": i / 20, text: 1.0}
        for i in range(1, 21)
    ]
    lines(folder / "train" / "log.jsonl", log)
    group = [
        with_tokens(e, a, (text, text, "")) for e, a in zip(after[:2], (0.5, -0.5), strict=True)
    ]
    lines(folder / "train" / "transcripts" / "update-000000.jsonl", group)
    summary = {
        "before": {"n": 4, "ci95": [0.0, 1.0], text: 1},
        "after": {"n": 4, text: text},
        "env": text,
        "seed": 0,
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    cross = {"teams": [text, "other"], "matrix": [[1.0, 0.25], [None, 0.5]]}
    (folder / "cross_play.json").write_text(json.dumps(cross))
    return folder


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside of the style sheet."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag  # well nested, so text stays where it was put

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


# -- the whole page -------------------------------------------------------------------------------
def test_a_report_shows_every_part(tmp_path: Path):
    page = Reader(write_report(a_run(tmp_path)).read_text(encoding="utf-8"))
    parts = ("Summary", "Learning", "Reward terms over time", "Distributions", "Cross-play")
    for heading in (*parts, "Episodes", "Training groups", "Recorded in summary.json"):
        assert heading in page.text
    assert "train/388/0 not solved (0.000) → solved (1.000)" in page.text
    assert "2 of 2 pairs" not in page.text
    assert "4 of 4 pairs" in page.text
    assert "advantage 0.500" in page.text
    assert "Self-play (framed): mean return 0.750 of 2 pairings; cross-play: mean" in page.text
    # 0.375 before, 0.625 after; paired changes +1, +1, -1, 0.
    assert re.search(r"team return0\.375 .*0\.625 .*0\.250 ", page.text)
    shades = [given.get("class") for name, given in page.tags if name == "span"]
    assert shades.count("t p4") == 3 + 1  # and one in the legend
    assert shades.count("t n4") == 3 + 1


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


# -- bad and odd input ----------------------------------------------------------------------------
def test_folders_with_nothing_to_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        write_report(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"nothing to report; expected one of summary\.json"):
        write_report(tmp_path)
    assert not list(tmp_path.iterdir())
    assert main(["report", str(tmp_path)]) == 2
    assert "nothing to report" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("summary.json", '{"half": ', r"summary\.json: no JSON"),
        ("summary.json", "[1]", "expected a JSON object, got list"),
        ("summary.json", "[" * 100_000, "no JSON"),
        ("episodes.jsonl", '{"version": 1}\n', "line 1: transcript lacks the field"),
        ("episodes.jsonl", "no json\n{}\n", "line 1: no JSON"),
        ("log.jsonl", "[1]\n", "line 1: expected an object"),
        ("checkpoint-1/trainer_state.json", "{}", "expected a list under 'log_history'"),
        ("cross_play.json", '{"teams": ["a"], "matrix": [[1, 2]]}', "must be 1 x 1"),
        ("cross_play.json", '{"teams": ["a"], "matrix": [["1"]]}', "a finite number or null"),
        ("cross_play.json", '{"teams": ["a"]}', "expected a list of 'teams'"),
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
    with pytest.raises(ValueError, match="line 1: reward of left_0: expected a number, got '1'"):
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


def test_numbers_that_are_none_do_not_break_a_page(tmp_path: Path):
    odd = (float("nan"), float("inf"), -1e308, 1e308, 1e-320, 0)
    episodes = [episode(f"t{i}", reward) for i, reward in enumerate(odd)]
    write_jsonl(tmp_path / "episodes.jsonl", episodes)
    lines(tmp_path / "log.jsonl", [{"step": i, "reward": r} for i, r in enumerate(odd)])
    lines(tmp_path / "a" / "log.jsonl", [{"step": 10**400, "reward": 1}, {"loss": True}])
    page = Reader(write_report(tmp_path).read_text())
    points = [given[key] or "" for _, given in page.tags for key in given if key == "points"]
    assert points
    assert not [one for one in points if "nan" in one or "inf" in one]


def test_transcripts_that_share_no_task(tmp_path: Path):
    write_jsonl(tmp_path / "transcripts_before.jsonl", [episode("a", 0)])
    write_jsonl(tmp_path / "transcripts_after.jsonl", [episode("b", 1)])
    assert "share no task and seed" in Reader(write_report(tmp_path).read_text()).text


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
        assert "a not solved (0.000) → solved (1.000)" in shown
        assert "per episodeoldnewnew minus old, paired" in shown
        assert "95 %: old -; new -" in shown
        assert "old (n = 1) new (n = 1)" in re.sub(r"\s+", " ", shown.replace(") new", ") new"))
        assert [f"<h4>{name}</h4>" in page for name in names] == [True, True]
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


def test_the_newest_checkpoint_is_read_where_there_is_no_log(tmp_path: Path):
    for step in (9, 10):  # as text, "checkpoint-9" comes last
        state = {"log_history": [{"step": i, "reward": i} for i in range(step + 1)]}
        path = tmp_path / f"checkpoint-{step}" / "trainer_state.json"
        path.parent.mkdir()
        path.write_text(json.dumps(state))
    (run,) = read_results(tmp_path).runs
    assert (run.file, len(run.log)) == ("checkpoint-10/trainer_state.json", 11)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    a_run(tmp_path / "run")
    output = tmp_path / "deep" / "r.html"
    given = ["report", str(tmp_path / "run"), "--output", str(output), "--episodes", "1"]
    assert main(given) == 0
    assert capsys.readouterr().out == f"report written to {output}\n"
    assert "1 of 4 pairs" in Reader(output.read_text()).text
    assert main([*given[:-1], "-1"]) == 2


# -- numbers --------------------------------------------------------------------------------------
def test_measures_by_hand():
    one = episode("a", 0.5)
    own = dataclasses.replace(one.turns[1], reward=1.5, reward_terms={"words": 1.0, "form": 0.5})
    two = dataclasses.replace(one, turns=(one.turns[0], own), success=None)
    found = measures([one, two])
    assert found["team return"] == [0.5, 1.0]
    assert found["solved"] == [0.0, None]
    assert found["return of right_0"] == [0.5, 1.5]
    assert found["reward term: words"] == [0.5, 0.75]
    assert found["reward term: form"] == [0.0, 0.25]
    assert found["turns per agent"] == [1.0, 1.0]
    assert found["characters per episode"] == [12.0, 12.0]


def test_everybody_counts_turns_alike(tmp_path: Path):
    """Some tasks take two turns; in one episode an agent acts alone once more."""
    late = {
        "left_0": ScriptedPolicy(lambda r: "fig" if r.turn else "not yet"),
        "right_0": ExpertPolicy(WordPair(), "lower"),
    }
    result = evaluate_team(WordPair, late, n_tasks=30)
    first = result.episodes[0]
    longer = dataclasses.replace(first, turns=(*first.turns, first.turns[0]))
    episodes = [longer, *result.episodes[1:]]
    whole = summarise(episodes, 1)
    by_hand = sum(len(e.turns) / 2 for e in episodes) / len(episodes)
    assert by_hand == pytest.approx(whole.cost.turns_per_agent) != round(by_hand)
    one = estimate(per_task(episodes, measures(episodes)["turns per agent"]).values())
    assert one is not None
    assert one.mean == pytest.approx(whole.cost.turns_per_agent)
    groups = [EpisodeGroup(task_id=e.task_id, seed=e.seed, episodes=(e, e)) for e in episodes]
    logged = group_metrics(groups, np.zeros((len(groups), 2, 2, 3)))["turns"]
    assert logged == pytest.approx(whole.cost.turns_per_agent)
    shown = result_table({"late": result_to_dict(whole)})
    assert re.search(rf"turns per agent +{by_hand:.2f}\n", shown)
    write_jsonl(tmp_path / "episodes.jsonl", episodes)
    page = Reader(write_report(tmp_path).read_text()).text
    assert f"turns per agent{by_hand:.3f} " in page
    assert "turns per episode" not in page


def test_episodes_of_one_task_count_once():
    episodes = [episode("a", 0), episode("a", 1, seed=1), episode("b", 1)]
    found = per_task(episodes, measures(episodes)["team return"])
    assert sorted(found.values()) == [0.5, 1.0]
    one = estimate(found.values())
    assert one is not None
    assert (one.mean, one.n) == (0.75, 2)
    nameless = [dataclasses.replace(e, task_id="") for e in episodes]
    assert len(per_task(nameless, [0.0, 1.0, 1.0])) == 2  # seeds 0, 1


def test_a_change_is_paired():
    before = {("a", 0): 0.0, ("b", 0): 1.0, ("c", 0): 5.0}
    after = {("a", 0): 0.5, ("b", 0): 1.5, ("d", 0): 9.0}
    one = change(before, after)
    assert one is not None
    assert (one.mean, one.interval, one.n) == (0.5, (0.5, 0.5), 2)
    assert change(before, {}) is None


def test_t_interval_by_hand():
    # mean 2, standard deviation 1, standard error 1/sqrt(3), quantile 4.303 for 2 degrees
    low, high = t_interval([1.0, 2.0, 3.0])
    assert low == pytest.approx(2 - 4.303 / 3**0.5)
    assert high == pytest.approx(2 + 4.303 / 3**0.5)
    assert t_interval([7.0]) == (7.0, 7.0)
    many = t_interval([0.0, 2.0] * 50)  # standard error 0.1005, quantile 1.984 for 99 degrees
    assert many[1] - 1 == pytest.approx(1.984 * 0.1005, rel=0.002)


def test_a_curve_of_one_run_and_of_several():
    log = [{"step": i, "reward": float(i)} for i in range(1, 21)]
    one = curve([log], "reward")
    assert one is not None
    assert one.window == 8
    assert (one.steps[0], one.mean[0]) == (8, 4.5)
    assert (one.steps[-1], one.mean[-1]) == (20, 16.5)
    other = [{"step": i, "reward": float(i + 2)} for i in range(1, 11)]
    two = curve([log, other], "reward")
    assert two is not None
    assert (two.steps, two.mean[0]) == (tuple(range(1, 11)), 2.0)
    # values 1 and 3: standard error 1, quantile 12.706 for 1 degree
    assert two.high[0] == pytest.approx(2 + 12.706)
    assert curve([log], "absent") is None


def test_long_logs_are_thinned_without_losing_their_mean():
    log = [{"step": i, "x": float(i)} for i in range(10_000)]
    one = curve([log], "x")
    assert one is not None
    assert len(one.members[0]) == 200
    assert sum(y for _, y in one.members[0]) / 200 == pytest.approx(4999.5)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 80, [0, 20, 40, 60, 80]),
        (-0.3, 0.1, [-0.3, -0.2, -0.1, 0, 0.1]),
        (5, 5, [4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]):
    found = ticks(low, high)
    if low != high:
        assert found == pytest.approx(expected)
    assert found[0] <= low
    assert found[-1] >= high
    assert len(set(labels(found))) == len(found)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1e6, 1e6 + 20, 1e6 + 40), ["1000000", "1000020", "1000040"]),
        ((0, 2e8, 4e8), ["0", "2e+08", "4e+08"]),
        ((1e9, 1e9 + 1), ["1000000000", "1000000001"]),
        ((0.1, 0.1000002), ["0.1000000", "0.1000002"]),
        ((0.0, 1e-10, 2e-10), ["0", "1e-10", "2e-10"]),
        ((-0.5, 0.0, 0.5), ["-0.5", "0.0", "0.5"]),
    ],
)
def test_labels_tell_ticks_apart(values: tuple[float, ...], expected: list[str]):
    assert labels(values) == expected


ODD_CURVES: dict[str, list[tuple[float, float]]] = {
    "huge": [(i, -1e9 * i) for i in range(200)],
    "narrow": [(i, -123456.789 + i * 1e-5) for i in range(200)],
    "tiny": [(i, 1e-9 * i) for i in range(200)],
    "one": [(1, 12345678.9)],
    "late": [(10**6 + i, i) for i in range(60)],
    "later": [(12_345_678 * i, i) for i in range(60)],
    "wide": [(i, (-1.0) ** i * 10 ** (i / 3)) for i in range(60)],
}
LONG_UNIT = "a unit whose name somebody chose to write out in full, to the end and beyond, twice"


def odd_charts() -> list[str]:
    found = []
    for name, points in ODD_CURVES.items():
        one = curve([[{"step": x, name: y} for x, y in points]], name)
        assert one is not None
        found.append(curve_chart(name, [one], unit="reward"))
    samples = {"a/b/c/" * 9: [-1234567.0, -3.5, 0.0], "W" * 80: [5.0] * 200}
    found.append(histogram("far apart", samples, unit=LONG_UNIT))
    found.append(
        histogram("many", {f"s{k}": [k + i / 7 for i in range(200)] for k in range(9)}, unit="x")
    )
    found.append(histogram("one", {"one": [1e-12]}, unit="team return"))
    found.append(histogram("long", {"one": [1e5 + 1e3 * i for i in range(200)]}, unit="characters"))
    return found


def test_no_label_of_a_chart_leaves_it():
    """Each sign of a label taken as wide as the widest; where it begins and ends follows."""
    place = re.compile(r'<text x="([-\d.]+)" y="([-\d.]+)" class="tick (middle|end)">([^<]*)<')
    for chart in odd_charts():
        rows: dict[str, list[tuple[float, float]]] = {}
        for x, y, anchor, text in place.findall(chart):
            width = SIGN * len(html.unescape(text))
            left = float(x) - (width if anchor == "end" else width / 2)
            assert left >= 0
            assert left + width <= WIDTH
            if anchor == "middle":
                rows.setdefault(y, []).append((left, left + width))
        for row in rows.values():
            assert all(end <= begin for (_, end), (begin, _) in zip(row, row[1:], strict=False))


def test_a_frame_places_numbers():
    frame = Frame.around([0, 10], [0, 1], x_label="x", y_label="y")
    assert (frame.x(0), frame.x(10)) == (46.0, 406.0)
    assert (frame.y(0), frame.y(1), frame.y(7)) == (214.0, 10.0, 10.0)


def test_bins_hold_every_value_once():
    edges, exact = bins([0.2, 1.0, 0.2, 0.6])
    assert exact
    assert tally([0.2, 1.0, 0.2, 0.6], edges) == [2, 1, 1]
    values = [i * i / 7 for i in range(50)]
    edges, exact = bins(values)
    assert not exact
    assert sum(tally(values, edges)) == 50
    assert tally([values[-1]], edges)[-1] == 1
    assert sum(tally([3.0, 3.0], bins([3.0])[0])) == 2


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
    assert [_shade(value, 1) for value in given] == ["z", "p1", "p2", "p4", "n4", "z", "z"]


def test_numbers_are_short():
    given = (0.12345, 12.345, 1234.5, 1e-7, 0.0, None, float("nan"), 2e7, 25.0, 139.97)
    assert [number(v) for v in given] == [
        *("0.123", "12.3", "1234", "1.0e-07", "0.000", "-", "-", "2e+07", "25", "140.0")
    ]


def test_markup_escapes_by_construction():
    assert tag("p", "<b>", tag("i", "&"), None, class_="a\"'") == (
        '<p class="a&quot;&#x27;">&lt;b&gt;<i>&amp;</i></p>'
    )
    assert join("<", Markup("<")) == "&lt;<"
    assert escape("a\tb\n") == "a\tb\n"
    assert visible("\x00\ud800\u202e") == r"\x00\ud800\u202e"


def test_cross_play_is_read(tmp_path: Path):
    (tmp_path / "c.json").write_text('{"teams": ["a", 1], "matrix": [[1, null], [NaN, 0.5]]}')
    found = read_cross_play(tmp_path / "c.json")
    assert (found.teams, found.matrix) == (("a", "1"), ((1.0, None), (None, 0.5)))
    gap = {"teams": ["a"], "matrix": [[1]], "gap": {"mean": 0.5, "ci95": [0.25, 0.75]}}
    (tmp_path / "cross_play.json").write_text(json.dumps(gap))
    shown = Reader(write_report(tmp_path).read_text()).text
    assert "gap: self-play minus cross-play0.500 0.250 to 0.750these teams" in shown


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("matrix", [[1, 0]], "must be 2 x 2"),
        ("matrix", [[1, 0], [True, 1]], "expected a finite number"),
        ("success_matrix", [[1]], "must be 2 x 2"),
        ("gap", {"mean": 0.5}, "'ci95'"),
        ("gap", 3, "wrong kind"),
        ("gap", {"mean": 0.5, "ci95": [1]}, "expected 2"),
        ("gap_ci95_over_teams", ["low", "high"], "expected a finite number"),
        ("zero_shot", [{"team": "a"}], "'agent'"),
    ],
)
def test_a_malformed_cross_play_is_named(tmp_path: Path, field: str, value: Any, complaint: str):
    whole = {"teams": ["a", "b"], "matrix": [[1, 0], [0, 1]], field: value}
    (tmp_path / "c.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=complaint) as caught:
        read_cross_play(tmp_path / "c.json")
    assert "c.json" in str(caught.value)


def test_a_cross_play_that_is_no_object_is_named(tmp_path: Path):
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(ValueError, match=r"c\.json: expected a JSON object, got list"):
        read_cross_play(tmp_path / "c.json")


def a_cross_play(path: Path) -> None:
    """A measured one: two scripted teams, two seats, partners of each convention."""
    teams = {"loud": experts("upper"), "quiet": experts("lower")}
    partners = zero_shot(SameCase, teams, n_tasks=30)
    write_cross_play(path, cross_play(SameCase, teams, n_tasks=30), partners)


def test_a_measured_cross_play_is_shown_whole(tmp_path: Path):
    a_cross_play(tmp_path / "cross_play.json")
    shown = Reader(write_report(tmp_path).read_text()).text
    assert "SameCase" in shown
    assert "Rows: the team that plays left_0. Columns: the team that plays right_0." in shown
    assert "Every pairing played 30 tasks." in shown
    for title in ("Team return", "Solved"):
        corner = "row plays left_0, column plays right_0"
        assert f"{title}{corner}loudquietloud1.0000.333quiet0.3331.000" in shown
    assert re.search(r"gap: self-play minus cross-play0\.667 0\.\d+ to 0\.\d+these teams", shown)
    assert re.search(r"loud, left_0lower0\.333 0\.\d{3} to 0\.\d{3}1\.000", shown)
    assert "Files" not in shown  # there are no others


# -- in a browser ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_reads_without_javascript(browser: Browser, tmp_path: Path, width: int, dark: bool):
    page = write_report(a_run(tmp_path, text="word " * 40 + "w" * 400))
    browser.open(page.as_uri(), width=width, dark=dark, scripts=False)
    assert browser.requested() == [page.as_uri()]
    # Nothing is wider than the screen: only tables scroll, inside of their boxes.
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    charts = "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().height)"
    heights = browser.evaluate(charts)
    assert len(heights) >= 4
    assert min(heights) > 100
    tick = "document.querySelector('svg text').getBoundingClientRect().height"
    assert browser.evaluate(tick) >= 8  # still legible on a phone
    shown = "document.querySelector('details.card[open] pre').getBoundingClientRect().height"
    assert browser.evaluate(shown) > 20
    colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(20, 23, 26)") is dark
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_a_heat_map_is_coloured(browser: Browser, tmp_path: Path):
    a_cross_play(tmp_path / "cross_play.json")
    browser.open(write_report(tmp_path).as_uri(), width=360, scripts=False)
    cells = browser.evaluate(
        "[...document.querySelectorAll('.heat')].map(grid => [...grid.querySelectorAll('td')].map("
        "cell => [cell.innerText, getComputedStyle(cell).backgroundColor]))"
    )
    expected = [["1.000", "0.333", "0.333", "1.000"]] * 2
    assert [[text for text, _ in grid] for grid in cells] == expected
    for grid in cells:
        high, low = grid[0][1], grid[1][1]
        assert high == grid[3][1] != low == grid[2][1]
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360


def test_text_can_be_told_from_its_ground(browser: Browser, tmp_path: Path):
    """The contrast of text, WCAG's 4.5 : 1, in both forms."""
    page = write_report(a_run(tmp_path))
    program = """(() => {
        const light = c => { const s = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * s[0] + 0.7152 * s[1] + 0.0722 * s[2] };
        const ground = light(getComputedStyle(document.body).backgroundColor);
        return ['body', '.note', 'nav a', '.term', 'small', 'svg text'].map(q => {
            const style = getComputedStyle(document.querySelector(q));
            const ink = light(q === 'svg text' ? style.fill : style.color);
            return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05) }) })()"""
    for dark in (False, True):
        browser.open(page.as_uri(), width=1280, dark=dark)
        assert min(browser.evaluate(program)) > 4.5


@pytest.mark.parametrize("width", [1280, 360])
def test_no_label_of_a_chart_is_clipped(browser: Browser, tmp_path: Path, width: int):
    report = write_report(a_run(tmp_path)).read_text()
    (tmp_path / "odd.html").write_text(
        re.sub(
            "<main>.*</main>", lambda _: f"<main>{''.join(odd_charts())}</main>", report, flags=re.S
        )
    )
    browser.open((tmp_path / "odd.html").as_uri(), width=width, scripts=False)
    outside = browser.evaluate("""[...document.querySelectorAll('svg')].flatMap(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(text => {
            const r = text.getBoundingClientRect();
            return r.left < box.left - 0.5 || r.right > box.right + 0.5
                || r.bottom > box.bottom + 1;
        }).map(text => text.textContent) })""")
    assert outside == []
    touching = browser.evaluate("""[...document.querySelectorAll('svg')].flatMap(svg => {
        const ticks = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
        const near = a => 0.3 * a.height;  // above and below the digits
        return ticks.flatMap((a, i) => ticks.slice(i + 1).filter(b => a.left < b.right - 0.5 &&
            b.left < a.right - 0.5 && a.top < b.bottom - near(a) && b.top < a.bottom - near(a)))
        }).length""")
    assert touching == 0
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_text_does_nothing_in_a_browser(browser: Browser, tmp_path: Path):
    text = "\n".join(HOSTILE)
    page = write_report(a_run(tmp_path, text=text))
    browser.open(page.as_uri(), width=1280, scripts=True)
    browser.call("Page.captureScreenshot")  # laid out and drawn
    assert browser.evaluate("typeof window.pwned") == "undefined"
    assert browser.requested() == [page.as_uri()]
    assert browser.evaluate("document.querySelectorAll('script,img,iframe,link').length") == 0
    assert browser.evaluate("location.href") == page.as_uri()
    action = browser.evaluate("document.querySelector('.act pre').textContent")
    assert action == visible(text)
    assert not [e for e in browser.events if "Dialog" in e.get("method", "")]


def test_the_policy_holds_even_where_escaping_would_not(browser: Browser, tmp_path: Path):
    page = write_report(a_run(tmp_path))
    attack = "<script>window.pwned = 1</script><img src='http://127.0.0.1:9/x.png'>"
    broken = page.read_text().replace("<main>", f"<main>{attack}")
    page.write_text(broken)
    browser.open(page.as_uri(), width=1280, scripts=True)
    assert browser.evaluate("document.querySelectorAll('script').length") == 1
    assert browser.evaluate("typeof window.pwned") == "undefined"
    blocked = [e["params"] for e in browser.events if e.get("method") == "Network.loadingFailed"]
    assert all(one.get("blockedReason") == "csp" for one in blocked)


def test_closed_episodes_are_printed(browser: Browser, tmp_path: Path):
    page = write_report(a_run(tmp_path, text="line\n" * 60))
    browser.open(page.as_uri(), width=1280)
    closed = browser.pdf()
    browser.evaluate("document.querySelectorAll('.card').forEach(card => card.open = true)")
    opened = browser.pdf()
    assert closed.count(b"/Type /Page\n") == opened.count(b"/Type /Page\n") > 3
