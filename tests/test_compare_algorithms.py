"""The comparison of algorithms: what is run next, what its numbers say, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.models import untrained
from support.paths import ROOT

pytestmark = pytest.mark.full  # `make test-all` runs it


@pytest.fixture(autouse=True)
def comparison(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import compare_algorithms as command
    from benchmarks.comparison import cells, report, text

    return SimpleNamespace(command=command, cells=cells, report=report, text=text)


def new_cell(there: Any, file: Path, **about: Any) -> Any:
    named = {"bed": "climbing", "method": "magrpo", "budget": 100, **about}
    cell = there.cells.Cell(file, named, rates=[0.1, 0.3], tuning=[1000, 1001], seeds=[0, 1, 2])
    cell.check()
    return cell


def line(there: Any, part: str, rate: float, seed: int, score: float, calls: int = 50) -> Any:
    half = calls // 2
    costs = [[0, 0, 0, 0], [50, half, 1, 0], [100, calls, 2, 0]]
    return there.cells.Line(part, rate, seed, costs, [0.0, 0.5, score], 0.1)


def test_what_is_due(comparison: SimpleNamespace, tmp_path: Path):
    """Every rate with every tuning seed; beyond an edge, twice at most; then fresh seeds."""
    due, cell = comparison.cells.due, new_cell(comparison, tmp_path / "a.jsonl")
    worth = {0.1: 0.2, 0.3: 0.4, 0.9: 0.6, 2.7: 0.8, 8.1: 1.0}
    order = []
    while (work := due(cell, 2)) is not None:
        part, rate, seeds = work
        order.append((part, rate, seeds))
        cell.append([line(comparison, part, rate, seed, worth[rate]) for seed in seeds])
    tuning = [("tuning", rate, [1000, 1001]) for rate in (0.1, 0.3, 0.9, 2.7)]
    assert order == [*tuning, ("report", 2.7, [0, 1]), ("report", 2.7, [2])]
    more = comparison.cells.Cell(cell.file, cell.about, cell.rates, [1000, 1001, 1002], cell.seeds)
    for rate in (0.1, 0.3, 0.9, 2.7):
        assert due(more, 2) == ("tuning", rate, [1002])
        more.append([line(comparison, "tuning", rate, 1002, 3.0 if rate == 0.9 else 0.0)])
    assert due(more, 3) == ("report", 0.9, [0, 1, 2])  # those at 2.7 do not count any more
    inner = new_cell(comparison, tmp_path / "b.jsonl")
    scores = {0.1: (0.5, 0.5), 0.3: (0.4, 0.5)}
    for rate, each in scores.items():
        for seed, score in zip((1000, 1001), each, strict=True):
            inner.append([line(comparison, "tuning", rate, seed, score)])
    assert due(inner, 1) == ("tuning", 0.0333, [1000])  # the best is the lowest
    inner.append([line(comparison, "tuning", 0.0333, seed, 0.1) for seed in (1000, 1001)])
    assert due(inner, 2) == ("report", 0.1, [0, 1])


def test_a_run_for_its_costs_alone(comparison: SimpleNamespace, tmp_path: Path):
    """At the best rate, once; it is no tuning run, and no score of it is reported."""
    due, cell = comparison.cells.costs_due, new_cell(comparison, tmp_path / "bed" / "magrpo.jsonl")
    with pytest.raises(ValueError, match="climbing, magrpo: no rate was tried yet"):
        due(cell, 1)
    cell.append([line(comparison, "tuning", rate, 1000, rate) for rate in (0.1, 0.3)])
    cell.append([line(comparison, "report", 0.3, 0, 1.0)])
    assert due(cell, 1) == ("costs", 0.3, [200])
    spent = {"prompt_tokens": 900, "new_prompt_tokens": 90, "critic_tokens": 0, "wall_seconds": 7.4}
    run = comparison.cells.Line("costs", 0.3, 200, [[101, 51, 3, 1]], [0.0], 9.0, spent)
    cell.append([run])
    assert due(cell, 1) is None
    entry = comparison.report.read(tmp_path)["climbing"]["magrpo"]
    assert (entry.finals, entry.priced) == ([1.0], [run])
    row = comparison.report.costs({"magrpo": entry}).splitlines()[-1]
    assert row == "| magrpo | 1 | 101 | 900 | 90 | 0 | 3 | 51 (1) | 7 | 9 |"
    cell.append([line(comparison, "tuning", 0.1, 1001, 1.0)])  # now another rate is the best
    assert due(cell, 1) == ("costs", 0.1, [200])
    assert comparison.report.read(tmp_path) == {}


def test_files_go_on_and_refuse_others(comparison: SimpleNamespace, tmp_path: Path):
    cell = new_cell(comparison, tmp_path / "a.jsonl")
    cell.append([line(comparison, "tuning", 0.1, 1000, 0.5)])
    with open(cell.file, "a") as file:
        file.write('{"part": "tun')  # killed while it wrote
    assert len(comparison.cells.lines_of(cell.file)) == 1
    cell.check()
    cell.append([line(comparison, "tuning", 0.1, 1001, 0.5)])
    assert [one.seed for one in comparison.cells.lines_of(cell.file)] == [1000, 1001]
    with pytest.raises(ValueError, match="move it away"):
        new_cell(comparison, cell.file, budget=7)


def filled(there: Any, folder: Path) -> Any:
    """Three methods with 10 runs each: 0, 10 and 1 of them reach the optimum; calls differ."""
    reached = {"magrpo": (0, 50), "rejection": (10, 50), "difference": (1, 100)}
    for method, (count, calls) in reached.items():
        cell = new_cell(there, folder / "climbing" / f"{method}.jsonl", method=method)
        cell.append([line(there, "tuning", rate, 1000, rate, calls) for rate in (0.1, 0.3)])
        scores = [0.95] * count + [0.45] * (10 - count)
        cell.append([line(there, "report", 0.3, s, v, calls) for s, v in enumerate(scores)])
    return there.report.read(folder)


def test_unequally_tuned_methods_are_not_compared(comparison: SimpleNamespace, tmp_path: Path):
    filled(comparison, tmp_path)
    cell = new_cell(comparison, tmp_path / "climbing" / "rejection.jsonl", method="rejection")
    cell.append([line(comparison, "tuning", rate, 1001, rate) for rate in (0.1, 0.3)])
    assert [*comparison.report.read(tmp_path)["climbing"]] == ["difference", "magrpo"]


def test_verdicts_say_what_cannot_be_told_apart(comparison: SimpleNamespace, tmp_path: Path):
    entries = filled(comparison, tmp_path)
    said = comparison.report.verdicts(entries)
    assert said["climbing", "rejection"][1] == "more often"
    assert said["climbing", "rejection"][0] == pytest.approx(2 * 2 / 184756)  # two comparisons
    assert said["climbing", "difference"] == (1.0, "undecided")
    both = comparison.report.verdicts({**entries, "text_climbing": entries["climbing"]})
    assert both["climbing", "rejection"][0] == pytest.approx(4 * 2 / 184756)  # one correction
    text = comparison.report.table("climbing", entries["climbing"], said)
    (row,) = [one for one in text.splitlines() if one.startswith("| rejection")]
    assert "10 of 10 [0.69, 1.00] | more often" in row
    assert "reached within 50 calls" in text
    assert entries["climbing"]["difference"].reached_within(50) == (0, 10)  # half of its run
    assert "**0.30**" in comparison.report.rates(entries["climbing"])


def test_costs_are_means_over_runs(comparison: SimpleNamespace, tmp_path: Path):
    cell = new_cell(comparison, tmp_path / "bed" / "magrpo.jsonl")
    cell.append([line(comparison, "tuning", rate, 1000, rate) for rate in (0.1, 0.3)])
    for seed, calls, updates, replayed in ((0, 50, 2, 0), (1, 51, 4, 6)):
        costs = [[0, 0, 0, 0], [100, calls, updates, replayed]]
        run = comparison.cells.Line("report", 0.3, seed, costs, [0.0, 1.0], 0.1 + seed)
        cell.append([run])
    some = comparison.report.read(tmp_path)["climbing"]
    text = comparison.report.table("climbing", some, {})
    assert text.splitlines()[-1].endswith("| 0.3 (2) | 3 | 50.5 (3) | 0.6 |")
    text = comparison.report.blocks({"climbing": some})["tables"]
    assert "Costs of one run" not in text  # nothing but points of curves is known of these


def test_a_report_is_written(
    comparison: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(comparison.report, "DOCS", tmp_path)
    page = tmp_path / comparison.report.PAGE
    empty = "<!-- {0} -->\nbefore it\n<!-- /{0} -->\n"
    page.write_text(f"# A\n{empty.format('overview')}between\n{empty.format('tables')}end\n")
    filled(comparison, tmp_path / "results")
    comparison.report.report(tmp_path / "results")
    row = "| [climbing](#climbing) | 0 of 10 | `rejection` 10 of 10 | none | 1 |"
    assert page.read_text().count(f"{row}\n") == 1
    assert "Decided: 1 of 2 comparisons with `magrpo`." in page.read_text()
    assert page.read_text().count("\n| difference | 1 of 10 [0.00, 0.45] |\n") == 1
    assert page.read_text().count("**10 of 10 [0.69, 1.00] more often**") == 1
    assert page.read_text().count("<details") == page.read_text().count("</details>") == 3
    assert "before it" not in page.read_text()
    assert page.read_text().endswith("<!-- /tables -->\nend\n")
    assert (tmp_path / "comparison.png").stat().st_size > 1000
    assert (tmp_path / "comparison_curves.png").stat().st_size > 1000


def test_the_page_holds_what_the_files_say(comparison: SimpleNamespace):
    report, page = comparison.report, ROOT / "docs" / comparison.report.PAGE
    entries = report.read(comparison.command.RESULTS)
    text = page.read_text()
    assert text == report.filled(text, entries), "python -m benchmarks.compare_algorithms show"


def test_tables_are_run_and_not_run_again(
    comparison: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    command = comparison.command
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(command, "BEDS", {"climbing": (96, 4, 2)})
    cells = command.tabular_cells(["climbing"], ["magrpo", "rae", "mappo"])
    assert [cell.name for cell in cells] == ["climbing, magrpo", "climbing, rae"]
    command.carry_out(cells, command.tabular, 0, 10)
    assert "the same command goes on" in capsys.readouterr().out
    command.carry_out(cells, command.tabular, 5, 10)
    kept = {cell.file: cell.file.read_text() for cell in cells}
    command.carry_out(cells, command.tabular, 5, 10)
    for cell in cells:
        assert cell.file.read_text() == kept[cell.file]
        lines = comparison.cells.lines_of(cell.file)
        reports = [one for one in lines if one.part == "report"]
        assert [one.seed for one in reports] == [100, 101]
        assert reports[0].costs[-1] == [96, 48, 6, 0]
        assert len(lines) - 2 in (16, 20, 24)  # four rates and four seeds, edges beside


def test_a_curve_of_a_training_by_hand(comparison: SimpleNamespace, tmp_path: Path):
    text = comparison.text
    bed = text.TEXT_BEDS["climbing"]
    kinds = ("num_tokens", "cost/calls", "cost/updates", "cost/replayed_calls")
    rows = [dict(zip(kinds, (5 * i, 2 * i, i, 0), strict=True)) for i in range(1, 21)]
    rows = [{**row, "reward": 11.0 if i > 9 else 0.0} for i, row in enumerate(rows)]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps(one) for one in [*rows, {"train_loss": 1.0}]))
    costs, scores = text.curve_of(log, bed, "report")
    assert costs[0] == [10, 4, 2, 0]
    assert costs[-1] == [100, 40, 20, 0]
    assert scores == [0.0] * 5 + [1.0] * 5
    assert text.curve_of(log, bed, "tuning")[1][-1] == pytest.approx(1 / text.FACTOR)


@pytest.mark.parametrize("name", ["coop_coding", "climbing"])
def test_tuning_has_a_budget_and_tasks_of_its_own(
    comparison: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    """The run files are read as they are run; what trains is a stand-in, as it takes minutes."""
    from trainers.studies import sweep_run

    bed, points = comparison.text.TEXT_BEDS[name], []

    def run_point(point: Any) -> dict[str, Any]:
        points.append(point)
        kinds = ("cost/calls", "cost/updates", "cost/replayed_calls")
        spent = {"num_tokens": point.run["trainer"]["max_tokens"], **dict.fromkeys(kinds, 1)}
        (point.folder / "train").mkdir(parents=True)
        log = {**spent, "success": 0.0, "reward": 0.0}
        (point.folder / "train" / "log.jsonl").write_text(json.dumps(log) + "\n")
        costs = {"prompt_tokens": 9, "new_prompt_tokens": 3, "critic_tokens": 0, "seconds": 2.0}
        (point.folder / "train" / "run_manifest.json").write_text(json.dumps({"costs": costs}))
        return {"results": {"success": 0.25}}

    monkeypatch.setattr(sweep_run, "run_point", run_point)
    (cell,) = comparison.text.text_cells(tmp_path, name, ["rejection"], 1)
    for part, seed in (("tuning", cell.tuning[0]), ("report", cell.seeds[0])):
        (made,) = comparison.text.text_run(tmp_path / "runs", cell, part, 1e-3, [seed])
        assert (made.part, made.rate, made.seed) == (part, 1e-3, seed)
        assert made.costs[-1] == [points[-1].run["trainer"]["max_tokens"], 1, 1, 1]
        assert made.scores[-1] == (0.25 if bed.best is None else 0.0)
    tuned, reported = (point.run for point in points)
    assert tuned["trainer"]["max_tokens"] == bed.tuning_budget == cell.about["tuning_budget"]
    assert reported["trainer"]["max_tokens"] == bed.budget == cell.about["budget"]
    for run, seed in ((tuned, 1000), (reported, 100)):
        settings = run["trainer"]
        assert (settings["algorithm"], settings["learning_rate"]) == ("rejection", 1e-3)
        assert (settings["seed"], settings["max_steps"]) == (seed, 0)
    if name == "climbing":  # the game is what differs
        assert tuned["env_kwargs"]["tasks"][0]["payoffs"] == comparison.text.PERMUTED
        assert "tasks" not in reported["env_kwargs"]
    else:
        evaluated = [point.evaluation for point in points]
        assert [(one["split"], one["tasks"]) for one in evaluated] == [("val", 64), ("test", 128)]


def test_a_real_run_says_what_it_cost(
    comparison: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two updates of two episodes by an untrained model, whose prompts are the same in a group."""
    model, tokenizer = untrained()
    for one in (model, tokenizer):
        one.save_pretrained(tmp_path / "model")
    sizes = {"tasks_per_update": 1, "num_generations": 2, "max_completion_length": 4}
    run = {"model": str(tmp_path / "model"), "env": "matrix_game-v1"}
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**run, "trainer": {**sizes, "weights": "shared"}}))
    bed = comparison.text.TextBed(
        preset=str(file), methods=(), rates=(), budget=20, tuning_budget=1, best=(1.0, 1.0)
    )
    monkeypatch.setitem(comparison.text.TEXT_BEDS, "climbing", bed)
    (cell,) = comparison.text.text_cells(tmp_path, "climbing", ["central_critic"], 1)
    cell.check()
    cell.append(comparison.text.text_run(tmp_path / "runs", cell, "costs", 1e-3, [200]))
    (made,) = comparison.cells.lines_of(cell.file)
    log = next((tmp_path / "runs").glob("**/log.jsonl")).read_text().splitlines()
    last = [one for one in map(json.loads, log) if "num_tokens" in one][-1]
    assert made.costs == [[last["num_tokens"], last["cost/calls"], last["cost/updates"], 0]]
    assert made.spent["prompt_tokens"] == last["num_prompt_tokens"] > 0
    assert made.spent["new_prompt_tokens"] == last["num_prompt_tokens"] / 2
    assert made.spent["critic_tokens"] == last["cost/critic_tokens"] == 0  # its critic reads words
    assert made.spent["wall_seconds"] >= round(last["cost/seconds"], 1) > 0


def test_the_tuned_game_is_another_table_with_the_same_landscape(comparison: SimpleNamespace):
    from llm_marl_envs.envs.games.matrix_rules import GAMES, best_joint_actions, read_game

    tuned = read_game(comparison.text.PERMUTED)
    assert GAMES["climbing"].expected.tolist() != tuned.expected.tolist()
    assert len(best_joint_actions(tuned)) == 1
    assert sorted(tuned.expected[0].ravel()) == pytest.approx(
        sorted(comparison.text.FACTOR * GAMES["climbing"].expected[0].ravel())
    )


def test_methods_judged_side_by_side_keep_nothing(comparison: SimpleNamespace):
    """Else what one seed learns would depend on the others."""
    from benchmarks.tables import Plan, args_for, bed_of, learn
    from trainers.algorithms import make_algorithm

    def curves(method: Any, *, apart: bool) -> Any:
        def make(seed: int) -> Any:
            return make_algorithm(method.algorithm, args_for(method.options, 2, seed))

        plan = Plan(rate=0.2, budget=60, points=1, apart=apart)
        return learn(bed_of("regime", "train", 0), make, [0, 1, 2], plan)

    for name, method in comparison.command.METHODS.items():
        if not method.apart:
            assert curves(method, apart=True) == curves(method, apart=False), name
    rae = comparison.command.METHODS["rae"]
    assert curves(rae, apart=True) != curves(rae, apart=False)
