"""Comparisons with p-values counted by hand, and what they refuse."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.toys import WordPair

from llm_marl_envs.cli import main
from llm_marl_envs.core.records import write_jsonl
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers import compare as module
from llm_marl_envs.measure.numbers.compare import (
    compare,
    compare_results,
    report,
    results_at,
    scores_of,
)
from llm_marl_envs.measure.numbers.results import result_to_dict
from llm_marl_envs.measure.numbers.tables import rows_at
from llm_marl_envs.policies import ScriptedPolicy


def scores(*values: float) -> dict[str, float]:
    return {f"t{i}": value for i, value in enumerate(values)}


def test_sign_flips_counted_by_hand():
    # Six differences of 1: of 64 sign patterns only those all alike reach |6|, so p = 2/64.
    found = compare([scores(*[0] * 6)], [scores(*[1] * 6)])
    assert (found.of, found.exact, found.p, found.smallest_p) == (
        "checkpoints",
        True,
        1 / 32,
        1 / 32,
    )
    # Six of six on a scale from -1 to 1, with t of 5 degrees: 2 * 6 / (6 + 2.57058^2) - 1.
    assert found.ci95 == (pytest.approx(2 * 6 / (6 + 2.57058**2) - 1, abs=1e-5), 1.0)
    # Differences 1, 2, 4, 8, 16, -32 sum to -1. Of the 64 sums, 1, 3, ..., 63 and their negatives,
    # all are as far from 0; with 32 in place of -32 they sum to 63, which two patterns reach.
    values = [1, 2, 4, 8, 16]
    assert compare([scores(*[0] * 6)], [scores(*values, -32)]).p == 1.0
    assert compare([scores(*[0] * 6)], [scores(*values, 32)]).p == 2 / 64
    assert compare([scores(*[1, 2] * 3)], [scores(*[1, 2] * 3)]).p == 1.0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_tasks_prove_nothing(n: int):
    found = compare([scores(*[0] * n)], [scores(*[1] * n)])
    assert (found.p, found.ci95, found.difference) == (None, None, 1.0)
    assert (found.why, found.smallest_p) == (f"too few tasks: {n}", min(1.0, 2 / 2**n))


def test_not_all_permutations_are_held_at_once(monkeypatch: pytest.MonkeyPatch):
    """20,000 draws of 300 numbers are 48 MB, of which SciPy holds eight copies."""
    monkeypatch.setattr(module, "AT_ONCE", 600_000)
    many = scores(*np.random.default_rng(0).normal(size=300))
    compare([scores(0, 0)], [scores(1, 1)])  # imports SciPy, whose memory is not asked for here
    tracemalloc.start()
    compare([dict.fromkeys(many, 0.0)], [many])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def test_equal_floats_that_sum_otherwise_are_ties():
    found = compare([scores(*[0] * 6)], [scores(*[0.1, 0.2, 0.3] * 2)])
    assert found.p == 1 / 32  # their sum and its mirror image, in any order of summing
    rng = np.random.default_rng(2)
    for _ in range(200):  # the observed signs always count, however their sum is rounded
        found = compare([scores(*[0.0] * 7)], [scores(*rng.integers(1, 9, 7) / 10)])
        assert found.p is not None
        assert found.p >= found.smallest_p


def test_equal_sums_of_large_numbers_in_another_order_are_ties():
    """The same scores in another order differ by 0 in the mean, and no p is smaller than 1.

    Summed in floats that 0 is 6e-14, which is more than SciPy takes for one.
    """
    values = [50.7, -249.2, -379.5, 0.0, 0.0, 0.0, 0.0]
    other = values[::-1]
    # Not `sum`: from Python 3.12 on it makes up for what rounding loses.
    assert reduce(add, [b - a for a, b in zip(values, other, strict=True)]) != 0
    assert compare([scores(*values)], [scores(*other)]).p == 1.0
    runs, again = [89.7, 8.6, 570.3], [8.6, 570.3, 89.7]
    found = compare([scores(x) for x in runs], [scores(x) for x in again])
    assert (found.of, found.p) == ("runs", 1.0)


def test_a_drawn_p_is_never_0():
    found = compare([scores(*[0.0] * 40)], [scores(*[1.0] * 40)])
    assert found.p == pytest.approx(1 / 20_001)
    assert found.smallest_p == found.p


def test_many_tasks_are_drawn_and_close_to_exact(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, 14), rng.normal(0.5, 1, 14)
    exact = compare([scores(*a)], [scores(*b)])
    assert exact.exact
    monkeypatch.setattr(module, "MAX_EXACT", 16_000)
    drawn = compare([scores(*a)], [scores(*b)])
    assert not drawn.exact
    assert drawn.p == pytest.approx(exact.p, abs=0.015)
    assert drawn.p is not None
    assert drawn.p > 0


def test_the_sign_flip_test_keeps_its_level():
    rng = np.random.default_rng(0)
    found = [
        compare([scores(*rng.normal(size=8))], [scores(*rng.normal(size=8))]).p for _ in range(400)
    ]
    assert 0.02 < np.mean(np.array(found) <= 0.05) < 0.085  # 400 draws: 0.05 +- 3 x 0.011


def test_run_permutations_counted_by_hand():
    # Means 0, 1 against 2, 3: of C(4,2) = 6 divisions only the observed and its mirror are as far
    # apart as 2, so p = 2/6, the least that two against two can give.
    a, b = [scores(0, 0), scores(1, 1)], [scores(2, 2), scores(3, 3)]
    found = compare(a, b)
    assert (found.of, found.exact, found.difference) == ("runs", True, 2.0)
    assert found.p == pytest.approx(1 / 3)
    assert found.smallest_p == pytest.approx(1 / 3)
    # Means 0, 2 against 1, 3: distance 1. {0,2}|{1,3}: 1, {0,1}|{2,3}: 2, {0,3}|{1,2}: 0: 4 of 6.
    mixed = compare([scores(0, 0), scores(2, 2)], [scores(1, 1), scores(3, 3)])
    assert mixed.p == pytest.approx(4 / 6)
    # 2 against 3: C(5,2) = 10 and no mirror among them, so 0.1 is possible.
    uneven = compare(a, [*b, scores(2.5, 2.5)])
    assert (uneven.p, uneven.smallest_p) == (pytest.approx(0.1), pytest.approx(0.1))


def test_the_tasks_of_a_run_are_no_runs():
    """Many tasks make single runs precise, not numerous: p stays at what 2 against 2 can give."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, 200)
    a = [scores(*noise), scores(*(noise + 0.3))]
    b = [scores(*(noise + 0.5)), scores(*(noise + 0.8))]
    found = compare(a, b)
    assert found.p == pytest.approx(1 / 3)
    assert found.ci95 is None
    three = compare([*a, scores(*(noise + 0.6))], [*b, scores(*(noise + 1.1))])
    assert three.ci95 is not None
    assert three.ci95[1] - three.ci95[0] > 0.6  # the runs of a side differ by 0.3 and 0.6
    pooled = compare([scores(*noise)], [scores(*(noise + 0.5))])
    assert pooled.p is not None
    assert pooled.p < 0.001


def test_iqm_shrugs_off_one_broken_run():
    a = [scores(*[0.5] * 8) for _ in range(4)]
    b = [*(scores(*[0.6] * 8) for _ in range(3)), scores(*[-9.0] * 8)]
    found = compare(a, b)
    assert found.difference < 0
    assert found.iqm_difference == pytest.approx(0.1)
    assert "interquartile mean" in report(found)


def test_many_runs_are_drawn():
    rng = np.random.default_rng(5)
    a = [scores(*rng.normal(0, 1, 3)) for _ in range(10)]
    b = [scores(*rng.normal(30, 1, 3)) for _ in range(10)]
    found = compare(a, b)
    assert not found.exact
    assert found.p is not None
    assert 1 / 20_001 <= found.p <= 3 / 20_001  # never 0; the truth is 2 of 184756


def test_the_sentences_do_not_say_more_than_was_asked():
    one = report(compare([scores(*[0] * 6)], [scores(*[1] * 6)]))
    assert "these two checkpoints" in one
    assert "p = 0.03125" in one
    several = report(compare([scores(0), scores(1)], [scores(2), scores(3)]))
    assert "these two checkpoints" not in several
    assert "2 against 2 runs" in several
    assert "0.33" in several


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([], [scores(1)], "0 runs against 1"),
        ([scores(1)], [scores(1), scores(2)], "1 runs against 2"),
        ([scores(1)], [scores(1, 2)], "different tasks: 1 are not in all"),
        ([{}], [{}], "without tasks"),
        ([{"t0": float("nan")}], [{"t0": 1.0}], "NaN or infinite"),
        ([{"t0": 0.0}], [{"t0": float("inf")}], "NaN or infinite"),
    ],
)
def test_unequal_sides_are_refused(a: Any, b: Any, words: str):
    with pytest.raises(ValueError, match=words):
        compare(a, b)


# -- files ----------------------------------------------------------------------------------------


def result(value: float, **changes: Any) -> dict[str, Any]:
    tasks = [{"task_id": f"t{i}", "returns": [value], "solved": [value > 0.5]} for i in range(6)]
    same = [value, value]
    whole = {"mean_return": value, "return_ci95": same, "success": value, "success_ci95": same}
    whole |= {"cooperation": None, "pass_at_k": {}, "reward_terms": {}, "cost": {}, "faults": {}}
    return {"version": 1, "env_id": "e-v0", "env_kwargs": {}, **whole, "tasks": tasks, **changes}


def write(path: Path, value: Any) -> Path:
    path.mkdir(parents=True)
    text = value if isinstance(value, str) else json.dumps(value)
    (path / "summary.json").write_text(text, encoding="utf-8")
    return path


def test_the_command_compares_files_folders_and_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    a, b = write(tmp_path / "a" / "0", result(0.0)), write(tmp_path / "b" / "0", result(1.0))
    assert main(["compare", str(a), str(b / "summary.json"), "--metric", "success"]) == 0
    assert "these two checkpoints" in capsys.readouterr().out
    write(tmp_path / "a" / "1", result(0.1))
    other = write(tmp_path / "c", result(0.9))
    assert main(["compare", str(tmp_path / "a"), f"{b},{other}"]) == 0
    assert "2 against 2 runs" in capsys.readouterr().out
    assert len(results_at(tmp_path / "a")) == 2


def sweep(folder: Path, settings: dict[str, list[float]]) -> Path:
    """What `llm-marl sweep` leaves: per run its point, a summary of its own and an evaluation."""
    for name, values in settings.items():
        for seed, value in enumerate(values):
            run = folder / f"{name}-seed={seed}"
            point = {"digest": "x", "settings": {"rate": name}, "seed": seed}
            write(run / "eval", result(value, identity={"left_0": f"{run}"}))
            (run / "point.json").write_text(json.dumps(point))
            (run / "summary.json").write_text(json.dumps({**point, "results": {}}))
            (run / "log.txt").touch()
    (folder / "results.json").write_text('{"groups": []}')
    return folder


def test_the_command_takes_runs_and_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    old = sweep(tmp_path / "old", {"low": [0.0, 0.1, 0.2]})
    both = sweep(tmp_path / "both", {"low": [0.3, 0.4], "high": [0.8, 0.9, 1.0]})
    (both / "notes").mkdir()
    run = old / "low-seed=1"
    for a, b in (
        (run, both / "high-seed=0"),
        (run / "eval", both / "high-seed=0" / "eval"),
        (run, both / "high-seed=0" / "eval" / "summary.json"),
    ):
        assert main(["compare", str(a), str(b)]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"A: {a} (1 run)\nB: {b} (1 run)\nmean return: A 0.10, B 0.80;")
    high = f"{both}/high*"
    for a in (old, old / "results.json"):
        assert main(["compare", str(a), high]) == 0
        shown = capsys.readouterr().out
        assert f"B: {high} (3 runs)\nmean return: A 0.10, B 0.90;" in shown
        assert "3 against 3 runs" in shown
    assert main(["compare", str(old), str(both)]) == 2
    error = capsys.readouterr().err
    assert "runs of 2 settings, e.g. " in error
    assert "expected those of one a side" in error
    shutil.rmtree(old / "low-seed=2" / "eval")
    assert main(["compare", str(old), high]) == 2
    assert "1 of its runs have no evaluation, e.g. low-seed=2" in capsys.readouterr().err
    comma = tmp_path / "a,b"
    write(comma, result(0.5))
    assert main(["compare", str(comma), str(run)]) == 0


def test_episodes_and_demos_are_results_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    teams = {"good": "apple", "bad": "x"}
    for name, word in teams.items():
        team = dict.fromkeys(WordPair().possible_agents, ScriptedPolicy(lambda r, w=word: w))
        played = evaluate_team(WordPair, team, n_tasks=6, samples=2)
        write_jsonl(tmp_path / f"{name}.jsonl", played.episodes)
        (found,) = results_at(tmp_path / f"{name}.jsonl")
        assert scores_of(found, "return") == scores_of(result_to_dict(played), "return")
        assert found["mean_return"] == played.mean_return
    demo = tmp_path / "demo"
    demo.mkdir()
    shutil.copy(tmp_path / "good.jsonl", demo / "transcripts_after.jsonl")
    (demo / "summary.json").write_text(json.dumps({"before": {}, "after": {}}))
    assert main(["compare", str(tmp_path / "bad.jsonl"), str(demo)]) == 0
    assert "A 0.00, B 0.5" in capsys.readouterr().out
    assert [row.label for row in rows_at(demo)] == ["demo"]
    lines = (tmp_path / "bad.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "bad.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(ValueError, match=r"\[1, 2\] episodes of a task: expected as many"):
        results_at(tmp_path / "bad.jsonl")
    (tmp_path / "bad.jsonl").write_text("")
    with pytest.raises(ValueError, match="no episodes of a task"):
        results_at(tmp_path / "bad.jsonl")


def of_team(word: str, samples: int = 2, seed: int = 0) -> dict[str, Any]:
    team = dict.fromkeys(WordPair().possible_agents, ScriptedPolicy(lambda r: word))
    played = evaluate_team(WordPair, team, n_tasks=6, samples=samples, seed=seed)
    return json.loads(json.dumps(result_to_dict(played)))


def as_before(result: dict[str, Any]) -> dict[str, Any]:
    """As an older release wrote it."""
    old = {name: value for name, value in result.items() if name != "resets"}
    old["tasks"] = [{k: v for k, v in task.items() if k != "resets"} for task in old["tasks"]]
    return old


@pytest.mark.parametrize(
    ("a", "b", "resets"),
    [
        (of_team("apple"), of_team("x"), ""),
        (of_team("apple"), of_team("x", seed=1), "other"),
        (of_team("apple"), of_team("x", samples=1), "other"),
        (of_team("apple"), as_before(of_team("x")), "unknown"),
        (as_before(of_team("apple")), as_before(of_team("x")), ""),
        (as_before(of_team("apple")), as_before(of_team("x", seed=1)), "other"),
        (of_team("apple", samples=1), as_before(of_team("x", samples=1)), ""),
        (of_team("apple", samples=1), as_before(of_team("x", samples=1, seed=1)), "other"),
    ],
)
def test_other_reset_seeds_are_not_paired_in_silence(a: Any, b: Any, resets: str):
    for sides in ((a, b), (b, a)):
        found = compare_results([sides[0]], [sides[1]])
        assert found.resets == resets
        said = report(found)
        assert ("reset seeds" in said) is bool(resets)
        assert not resets or module.RESETS[resets] in said


def test_returns_with_prices_are_not_compared_with_returns_without():
    env_kwargs = {"channel": {"price": 0.1}}
    new = of_team("apple") | {"env_kwargs": env_kwargs, "added_terms": {"channel": -0.5}}
    old = as_before(of_team("x")) | {"env_kwargs": env_kwargs, "team": "runs/x"}
    old["reward_terms"] = {**old["reward_terms"], "channel": -0.5}
    with pytest.raises(ValueError, match="'runs/x' hold what the channel or tools paid"):
        compare_results([new], [old])
    assert compare_results([new], [new]).difference == 0
    assert compare_results([old], [old]).difference == 0


def test_what_is_no_result_is_told_what_was_expected(tmp_path: Path):
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    for path in (tmp_path / "absent", tmp_path / "empty", tmp_path / "none*"):
        with pytest.raises(ValueError, match=r"no summary\.json there; expected the output of"):
            results_at(path)
    (tmp_path / "empty" / "log.jsonl").touch()
    with pytest.raises(ValueError, match=r"nobody evaluated: run llm-marl eval .*empty/eval"):
        results_at(tmp_path / "empty")


def test_results_that_cannot_be_compared_say_why(tmp_path: Path):
    silent = result(1.0)
    for task in silent["tasks"]:
        task["solved"] = None
    with pytest.raises(ValueError, match="env_id is 'e-v0' and 'e-v1'"):
        compare_results([result(0)], [result(1, env_id="e-v1")])
    with pytest.raises(ValueError, match="env_kwargs"):
        compare_results([result(0)], [result(1, env_kwargs={"turns": 2})])
    with pytest.raises(ValueError, match="tasks_sha256 is 'x' and 'y'"):
        compare_results([result(0, tasks_sha256="x")], [result(1, tasks_sha256="y")])
    with pytest.raises(ValueError, match="has no success"):
        compare_results([result(0)], [silent], metric="success")
    twice = result(1.0)
    twice["tasks"].append(twice["tasks"][0])
    with pytest.raises(ValueError, match="'t0' is there twice"):
        compare_results([twice], [twice])
    with pytest.raises(ValueError, match="metric='speed'"):
        compare_results([result(0)], [result(1)], metric="speed")


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (1.0, 0.6, "A sampled at temperature 1.0, B at 0.6"),
        (0.6, {"helper_0": 0.6, "main_0": 1.0}, "B at {'helper_0': 0.6, 'main_0': 1.0}"),
        (0.0, 0.0, None),
    ],
)
def test_sides_that_sampled_at_other_temperatures_are_told_apart(a: Any, b: Any, said: str | None):
    found = report(compare_results([result(0.0, temperature=a)], [result(1.0, temperature=b)]))
    assert said in found if said else "temperature" not in found


def test_several_evaluations_of_one_team_are_no_runs():
    def of(team: str, value: float) -> dict[str, Any]:
        return result(value, team=team, identity={"left_0": team, "right_0": team})

    other = [of("c", 1.0), of("d", 1.0)]
    for side in ([of("a", 0.0), of("a", 0.5)], [of("a", 0.0), of("c", 0.5)]):
        with pytest.raises(ValueError, match="is there more than once"):
            compare_results(side, other)
    assert compare_results([of("a", 0.0), of("b", 0.5)], other).of == "runs"
    # One a side: the same weights, sampled twice, may be paired.
    assert compare_results([of("a", 0.0)], [of("a", 0.5)]).of == "checkpoints"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps(result(1.0))[:-9], "half-written"),
        (json.dumps([1]), "expected a JSON object"),
        (json.dumps(result(1.0, version=99)), "result version 99"),
        (json.dumps(result(1.0, tasks=[])), "list of tasks is empty"),
        (json.dumps(result(1.0, tasks=[{"task_id": "t", "returns": ["x"]}])), "returns"),
        (json.dumps(result(float("nan"))), "expected a finite number, got nan"),
        (json.dumps(result(1.0, cost={"seconds": float("nan")})), r"cost\.seconds: expected"),
        (json.dumps(result(1.0, success=float("nan"))), "success: expected a finite number"),
        (
            json.dumps(
                result(1.0, tasks=[{"task_id": "t", "returns": [1], "solved": [True, True]}])
            ),
            "as many 'solved' as 'returns'",
        ),
    ],
)
def test_damaged_results_are_named(tmp_path: Path, content: str, words: str):
    folder = write(tmp_path / "r", content)
    with pytest.raises(ValueError, match=words) as caught:
        results_at(folder)
    assert "summary.json" in str(caught.value)


def test_a_folder_without_results_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"no summary\.json"):
        results_at(tmp_path)
