"""The one table of numbers, and the one record and format of an estimate."""

from __future__ import annotations

import ast
import json
import math
import re
import runpy
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs.core.records import Episode, Response, StopReason, Turn
from llm_marl_envs.files.json_files import from_json
from llm_marl_envs.measure.numbers import values
from llm_marl_envs.measure.numbers.estimates import (
    Estimate,
    as_filed,
    over_runs,
    over_tasks,
    share,
)
from llm_marl_envs.measure.numbers.format import interval, number, whole, with_interval
from llm_marl_envs.measure.numbers.metrics import METRICS
from llm_marl_envs.measure.numbers.society import MEASURES
from llm_marl_envs.measure.numbers.values import logged, measure, named, per_task


# -- estimates ------------------------------------------------------------------------------------
def test_each_kind_of_estimate_has_its_interval():
    assert over_tasks([0.25] * 4) == Estimate(0.25, None, 4, "too few tasks: 4")
    low, high = over_tasks([0.0, 1.0] * 8).ci95 or (0.0, 0.0)
    assert 0.2 < low < 0.5 < high < 0.8
    three = over_runs([0.0, 1.0, 2.0])  # 1 / sqrt 3, times the 0.975 quantile of t with 2
    assert (three.mean, three.n) == (1.0, 3)
    assert three.ci95 == pytest.approx((1 - 2.4841, 1 + 2.4841), abs=1e-4)
    assert over_runs([0.0, 1.0]) == Estimate(0.5, None, 2, "too few runs: 2")
    assert over_runs([3.0]) == Estimate(3.0, None, 1)
    one = share(["a", "a", "b"], [1.0, 0.0, 1.0])
    assert (one.mean, one.n) == (0.75, 2)  # over tasks, not over episodes
    for empty in (over_tasks, over_runs):
        with pytest.raises(ValueError, match="at least one"):
            empty([])


def test_an_estimate_is_read_as_it_was_filed():
    one = over_tasks([0.5, 0.75] * 4)
    filed = json.loads(json.dumps(asdict(one, dict_factory=as_filed)))
    assert list(filed) == ["mean", "ci95", "n_tasks"]

    def read(filed: dict[str, Any]) -> Estimate:
        return from_json(Estimate, filed, "x.json")

    assert read(filed) == one
    few = json.loads(json.dumps(asdict(over_tasks([0.5, 0.75]), dict_factory=as_filed)))
    assert few["why"] == "too few tasks: 2"
    assert read(few) == over_tasks([0.5, 0.75])
    assert read({"mean": 1, "ci95": None, "n": 3}) == Estimate(1.0, None, 3)
    assert read({"mean": 1, "ci95": [0, 2]}) == Estimate(1.0, (0.0, 2.0), None)
    odd: list[tuple[Any, Any]] = [(math.nan, [0, 1]), (1, ["a", 1]), (1, [1]), (True, [0, 1])]
    for mean, ci95 in odd:
        with pytest.raises(ValueError, match=r"x\.json: .*(finite number|expected 2)"):
            read({"mean": mean, "ci95": ci95})
    with pytest.raises(ValueError, match="'ci95' is missing"):
        read({"mean": 1.0})


# -- format ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (math.nan, "-"),
        (-math.inf, "-"),
        (0, "0.00"),
        (-1e-17, "0.00"),
        (0.004, "0.004"),
        (-0.00123, "-0.0012"),
        (1e-6, "1e-06"),
        (0.005, "0.01"),
        (0.0149, "0.01"),
        (99.994, "99.99"),
        (100.4, "100"),
        (-4321.9, "-4322"),
        (4.93e10, "4.9e+10"),
    ],
)
def test_a_number_has_two_decimals_unless_they_say_nothing(value: float | None, shown: str):
    assert number(value) == shown


def test_signs_counts_and_intervals():
    assert (number(0.5, sign=True), number(0.0, sign=True)) == ("+0.50", "+0.00")
    assert (number(-0.5, sign=True), number(150, sign=True)) == ("-0.50", "+150")
    assert (whole(12.4), whole(None)) == ("12", "-")
    assert interval((0.4, 0.601)) == "[0.40, 0.60]"
    assert interval((-0.1, 0.2), sign=True) == "[-0.10, +0.20]"
    assert (interval((1.0, 1.0)), interval(None)) == ("all alike", "-")
    assert with_interval(Estimate(0.5, (0.4, 0.6))) == "0.50 [0.40, 0.60]"
    assert with_interval(Estimate(0.5, (0.5, 0.5))) == "0.50 [all alike]"
    assert (with_interval(Estimate(0.5)), with_interval(None)) == ("0.50", "-")


# -- the table ------------------------------------------------------------------------------------
def test_no_two_metrics_share_a_name_a_title_or_a_place():
    for names in (
        [one.name for one in METRICS.values()],
        [one.title for one in METRICS.values()],
        [name for one in METRICS.values() for name in one.log],
        [one.path for one in METRICS.values() if one.path],
    ):
        assert len(names) == len(set(names))
    for metric in METRICS.values():
        texts = (metric.title, metric.unit, metric.doc)
        assert all(texts)
        # They would end a cell of the page's table, or begin a tag.
        assert not any("|" in text for text in texts), metric.name
        assert not {"<", ">"} & set(metric.doc + metric.unit), metric.name
        assert bool(metric.ci95) <= bool(metric.interval)
        assert (metric.compute is None) == (metric.of not in ("action", "episode"))
        assert bool(metric.places) <= ("<" in metric.name)


def test_a_place_in_a_name_is_filled_in():
    assert logged("helper_0/cut") is not None
    term = logged("reward_terms/cut")
    assert term is not None
    assert (term.name, term.title) == ("reward_terms/cut", "term cut")
    one = named("competence/a\\1_0")
    assert one is not None
    assert one.title == "a\\1_0 beside an expert"
    assert logged("eval_reward") is METRICS["mean_return"]
    for unknown in ("", "reward_terms/", "/cut", "rewards", "eval_rewards", "a/b"):
        assert logged(unknown) is None, unknown
    assert values.title("match") == "convention match"
    assert values.title("words") == "words"
    assert values.pattern("<agent>/tokens") == "*/tokens"


def test_charts_are_named_once_and_drawn_from_the_log():
    charts = values.charts()
    assert list(charts)[:2] == ["Mean return", "Success"]
    assert all(one.log for some in charts.values() for one in some)
    assert {len({one.unit for one in some}) for some in charts.values()} == {1}


# -- measuring ------------------------------------------------------------------------------------
def turn(agent: str, text: str, reward: float, index: int = 0, **info: Any) -> Turn:
    response = Response(text=text, completion_ids=(1,) * len(text), prompt_ids=(1, 2, 3))
    if info.pop("uncounted", False):
        response = Response(text=text)
    return Turn(
        agent=agent,
        index=index,
        messages=(),
        response=response,
        reward=reward,
        reward_terms={"form": reward / 2, "fact": reward / 2},
        info=info,
    )


def episode(*turns: Turn, task: str = "t", **changes: Any) -> Episode:
    given = {"env_id": "e", "env_kwargs": {}, "task_id": task, "seed": 0, "agents": ("a_0", "b_0")}
    rest = {"turns": turns, "stop_reason": StopReason.TERMINATED, "success": True}
    return Episode(**{**given, **rest, **changes})


def test_every_metric_of_an_episode_by_hand():
    one = episode(
        turn("a_0", "ab", 1.0, readable=True, answer="4"),
        turn("b_0", "abcd", 1.0, readable=False, answer="04", action_truncated=True),
    )
    other = episode(
        turn("a_0", "abc", 0.0),
        turn("b_0", "abc", 0.5, uncounted=True),
        success=None,
        stop_reason=StopReason.TRUNCATED,
    )
    assert measure([one, other]) == {
        "mean_return": [1.0, 0.25],
        "success": [1.0, None],
        "return/a_0": [1.0, 0.0],
        "return/b_0": [1.0, 0.5],
        "reward_terms/form": [0.5 + 0.5 - 0.5, 0.125],
        "reward_terms/fact": [0.5, 0.125],
        "format_success": [0.0, None],
        "answer_agreement": [1.0, None],
        **{name: [None, None] for name in MEASURES},
        "turns_per_agent": [1.0, 1.0],
        "chars": [6.0, 6.0],
        "prompt_tokens": [6.0, 3.0],
        "completion_tokens": [6.0, 3.0],
        "text_balance": [2 / 3, 1.0],
        "tokens_per_action": [3.0, 3.0],
        "truncated_episodes": [0.0, 1.0],
        "cut_actions": [0.0, 0.0],
        "empty_actions": [0.0, 0.0],
        "overlong_actions": [0.5, 0.0],
        "unreadable_actions": [0.5, None],
        "failed_calls": [None, None],
        "calls": [None, None],
    }
    assert measure([one], ["mean_return"]) == {"mean_return": [1.0]}
    assert measure([]) == {name: [] for name in measure([]) if "/" not in name}


def test_task_means_are_over_the_episodes_that_say():
    some = [episode(task="t"), episode(task="t"), episode(task=""), episode(task="", seed=7)]
    some += [episode(task="t"), episode(task="u")]
    values = [1.0, None, 0.25, 0.75, math.inf, math.nan]
    found = per_task(some, values)
    assert found == {("t", 0): 1.0, ("", 0): 0.25, ("", 7): 0.75}
    assert per_task(some, [None] * 6) == {}


def test_titles_are_plain_text():
    for metric in METRICS.values():
        assert re.fullmatch(r"[A-Za-z0-9 ,.@<>'/-]+", metric.title), metric.title


def test_every_metric_is_on_the_page():
    page = runpy.run_path(str(Path(__file__).parents[4] / "docs" / "hooks.py"))
    shown = page["on_page_markdown"]("{{ metrics }}")
    for metric in METRICS.values():
        row = f"| {metric.title.replace('<', '&lt;')} | `{metric.name}`"
        assert shown.count(row) == 1, metric.name
        assert metric.doc in shown


# -- nowhere else ---------------------------------------------------------------------------------
ROOT = Path(__file__).parents[4]
READERS = [
    path
    for folder in ("llm_marl_envs/measure", "llm_marl_envs/commands", "trainers")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "metrics.py" or "numbers" not in path.parts
]


def test_titles_are_written_nowhere_else():
    titles = {one.title for one in METRICS.values() if " " in one.title}
    for path in READERS:
        written = {one.value for one in nodes(path) if isinstance(one, ast.Constant)}
        assert not titles & written, path


def test_measured_numbers_are_formatted_nowhere_else():
    studies = [path for path in READERS if "measure" in path.parts or "studies" in path.parts]
    assert len(studies) > 20
    for path in studies:
        digits = [
            ast.unparse(one)
            for one in nodes(path)
            if isinstance(one, ast.FormattedValue)
            and one.format_spec
            and re.search(r"\.\d+[efg%]", ast.unparse(one.format_spec))
        ]
        assert not digits or path.name == "format.py", (path, digits)


def nodes(path: Path) -> Iterable[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))
