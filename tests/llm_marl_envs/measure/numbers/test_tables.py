"""LaTeX tables of results: the text, the escaping, and files that are no results."""

from __future__ import annotations

import doctest
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.toys import WordPair

from llm_marl_envs import make
from llm_marl_envs.files.json_files import write_json
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers import tables
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.metrics import METRICS
from llm_marl_envs.measure.numbers.results import result_to_dict
from llm_marl_envs.measure.numbers.tables import (
    TableRow,
    best_places,
    escape,
    latex_table,
    markdown_table,
    rows_at,
    text_table,
)
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

ROWS = [
    TableRow("magrpo_2", {"success": Estimate(0.95, (0.9, 0.98)), "seconds": Estimate(-3.456)}),
    TableRow("50% & more", {"success": Estimate(0.5)}),
]


def test_the_table_is_this_text():
    assert latex_table(ROWS, ["success", "seconds"], caption="A $ & c.", label="tab:x") == (
        "\\begin{table}\n"
        "\\centering\n"
        "\\begin{tabular}{lcc}\n"
        "\\toprule\n"
        " & success & seconds \\\\\n"
        "\\midrule\n"
        "magrpo\\_2 & $0.95$ {\\scriptsize $[0.90, 0.98]$} & $-3.46$ \\\\\n"
        "50\\% \\& more & $0.50$ & -- \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\caption{A \\$ \\& c.}\n"
        "\\label{tab:x}\n"
        "\\end{table}\n"
    )
    assert latex_table(ROWS).count("table}") == 0
    assert doctest.testmod(tables).failed == 0


def test_every_special_character_is_escaped():
    assert escape("a\\b~c^d<e>f&g%h$i#j_k{l}\nm") == (
        r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\textless{}e\textgreater{}"
        r"f\&g\%h\$i\#j\_k\{l\} m"
    )


def test_the_text_form_has_the_same_numbers():
    lines = text_table(ROWS, ["success"]).splitlines()
    assert lines[1].split("  ")[0] == "magrpo_2"
    assert lines[1].endswith("0.95 [0.90, 0.98]")
    assert lines[2].endswith("0.50")


def evaluation(folder: Path, right: Any, **fields: Any) -> None:
    team = {"left_0": ExpertPolicy(WordPair(), "lower"), "right_0": right}
    result = evaluate_team(WordPair, team, n_tasks=8)
    write_json(folder / "summary.json", {**result_to_dict(result), **fields})


def test_evaluations_become_rows(tmp_path: Path):
    evaluation(tmp_path / "good", ExpertPolicy(WordPair(), "lower"), team="runs/good")
    evaluation(tmp_path / "half", ScriptedPolicy(lambda r: ""))
    rows = rows_at(tmp_path)
    assert [row.label for row in rows] == ["runs/good", "half"]
    whole: Any = pytest.approx(8 / (8 + 2.36462**2), abs=1e-5)
    assert rows[0].cells["success"] == Estimate(1.0, (whole, 1.0))
    assert rows[1].cells["cooperation"].ci95 == (0.0, pytest.approx(1 - whole.expected, abs=1e-5))
    few = TableRow("few", {"success": Estimate(0.5, None, why="too few tasks: 4")})
    assert r"$0.50$ {\scriptsize [too few tasks: 4]}" in latex_table([few])
    assert rows[1].cells["words"].mean == 0.5
    assert rows_at(tmp_path / "half") == rows_at(tmp_path / "half" / "summary.json") == rows[1:]


def test_a_reward_term_does_not_hide_a_result(tmp_path: Path):
    terms = {"success": 0.01, "mean_return": 9.0, "turns_per_agent": 7.0, "words": 0.5}
    evaluation(tmp_path, ExpertPolicy(WordPair(), "lower"), reward_terms=terms)
    (row,) = rows_at(tmp_path)
    shown = {name: cell.mean for name, cell in row.cells.items()}
    assert (shown["success"], shown["mean_return"], shown["turns_per_agent"]) == (1.0, 1.0, 1.0)
    assert (shown["term success"], shown["term mean_return"], shown["term turns_per_agent"]) == (
        0.01,
        9,
        7,
    )
    assert shown["words"] == 0.5
    # Nor does one take the place of a result that this evaluation has not.
    named = {"cooperation": 1.3, "prompt_tokens": 5.0}
    evaluation(tmp_path, ExpertPolicy(WordPair()), reward_terms=named, cooperation=None)
    (row,) = rows_at(tmp_path)
    assert not {"cooperation", "prompt_tokens"} & set(row.cells)
    assert row.cells["term cooperation"].mean == 1.3
    assert row.cells["term prompt_tokens"].mean == 5.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cooperation", {"ci95": [0, 1]}),
        ("cooperation", {"mean": None, "ci95": [0, 1]}),
        ("cooperation", 5),
        ("mean_return", "x"),
        ("mean_return", None),
        ("success", [1]),
        ("return_ci95", [0.5]),
        ("faults", {"cut_actions": "none"}),
        ("pass_at_k", None),
        ("pass_at_k", {"1": None}),
        ("reward_terms", {"words": None}),
    ],
)
def test_damaged_summaries_are_named(tmp_path: Path, name: str, value: Any):
    evaluation(tmp_path, ExpertPolicy(WordPair(), "lower"), **{name: value})
    with pytest.raises(ValueError, match=rf"summary\.json: '?{name}\b"):
        rows_at(tmp_path)
    found = json.loads((tmp_path / "summary.json").read_text())
    del found[name]
    write_json(tmp_path / "summary.json", found)
    with pytest.raises(ValueError, match=rf"summary\.json: '{name}' is missing"):
        rows_at(tmp_path)


def test_a_team_without_an_index_has_a_row(tmp_path: Path):
    none = {"mean": None, "ci95": None, "above_solo": 0.0, "n_tasks": 0}
    evaluation(tmp_path, ExpertPolicy(WordPair(), "lower"), cooperation=none)
    assert "cooperation" not in rows_at(tmp_path)[0].cells


def test_a_sweep_becomes_a_row_per_setting(tmp_path: Path):
    group = {
        "settings": {"learning_rate": 0.001, "algorithm": "magrpo"},
        "seeds": [0, 1],
        "results": {"success": {"mean": 0.4, "ci95": [0.2, 0.6], "n": 2}},
    }
    write_json(tmp_path / "results.json", {"version": 1, "groups": [group]})
    (row,) = rows_at(tmp_path)
    assert row.label == "learning_rate=0.001, algorithm=magrpo (2 seeds)"
    assert row.cells == {"success": Estimate(0.4, (0.2, 0.6), 2)}
    assert rows_at(tmp_path / "results.json") == [row]


def test_files_that_are_no_results_are_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"no summary\.json there"):
        rows_at(tmp_path)
    path = tmp_path / "results.json"
    group = {"settings": {}, "seeds": [0]}
    for text, words in (
        ('{"groups": [', "half-written"),
        ("{}", "no groups"),
        (json.dumps({"groups": [{"settings": {}}]}), r"'\[0\]\.seeds' is missing"),
        (json.dumps({"groups": [3]}), r"\[0\]: expected an object, got 3"),
        (
            json.dumps({"groups": [{**group, "results": {"success": {"mean": "x"}}}]}),
            "success.mean",
        ),
        (
            json.dumps({"groups": [{**group, "results": {"a": {"mean": 1, "ci95": [0]}}}]}),
            "expected 2 entries, got 1",
        ),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            rows_at(tmp_path)
    with pytest.raises(ValueError, match=r"columns \['speed'\]: there are \['success', 'seconds'"):
        latex_table(ROWS, ["speed"])
    with pytest.raises(ValueError, match="columns none: there are"):
        latex_table([])


def test_what_stands_at_the_begin_of_a_row_is_no_argument_of_the_line_before():
    rows = [TableRow(name, {"success": Estimate(1.0)}) for name in ("[2cm]", "*", "a--b", "---")]
    lines = latex_table(rows, caption="100 % of $x_1$ [& \\evil{}]\n\nnext\x00").splitlines()
    assert [line.partition(" & ")[0] for line in lines[6:10]] == [
        "{}[2cm]",
        "{}*",
        "a-{}-b",
        "-{}-{}-",
    ]
    assert r"\caption{100 \% of \$x\_1\$ [\& \textbackslash{}evil\{\}] next}" in lines
    assert latex_table(rows, label="tab:a_b-1.x").count(r"\label{tab:a_b-1.x}") == 1
    for label in ("a}b", "\\x", "a b", "", "é", "a%"):
        with pytest.raises(ValueError, match="expected letters, digits"):
            latex_table(rows, label=label)


SCORES = [
    TableRow(
        "a",
        {"success": Estimate(0.904, (0.8, 1.0)), "seconds": Estimate(9.0), "words": Estimate(1.0)},
    ),
    TableRow("b", {"success": Estimate(0.896), "seconds": Estimate(7.0), "words": Estimate(2.0)}),
    TableRow("c|_", {"success": Estimate(0.5), "seconds": Estimate(8.0), "pass@2": Estimate(0.1)}),
    TableRow("d", {"success": Estimate(float("nan")), "pass@2": Estimate(-0.1)}),
]
SHOWN = ["success", "seconds", "words", "pass@2"]


def test_the_best_values_are_marked_each_on_its_own_side():
    # 0.904 and 0.896 are shown alike; nobody knows which way `words` is better.
    found = {name: best_places(SCORES, name) for name in SHOWN}
    assert found == {"success": {0, 1}, "seconds": {1}, "words": set(), "pass@2": {2}}
    assert best_places(SCORES[:1], "success") == frozenset()  # the best of one is no news
    assert best_places(SCORES, "absent") == frozenset()


def test_the_best_values_in_each_form():
    assert [line.split() for line in text_table(SCORES, SHOWN, best=True).splitlines()[1:4]] == [
        ["a", "0.90", "[0.80,", "1.00]*", "9.00", "1.00", "-"],
        ["b", "0.90*", "7.00*", "2.00", "-"],
        ["c|_", "0.50", "8.00", "-", "0.10*"],
    ]
    assert markdown_table(SCORES[:3], SHOWN, best=True) == (
        "|  | success | seconds | words | pass@2 |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| a | **0.90** [0.80, 1.00] | 9.00 | 1.00 | - |\n"
        "| b | **0.90** | **7.00** | 2.00 | - |\n"
        "| c\\|\\_ | 0.50 | 8.00 | - | 0.10 |\n"
    )
    latex = latex_table(SCORES, SHOWN, best=True)
    assert r"a & $\mathbf{0.90}$ {\scriptsize $[0.80, 1.00]$} & $9.00$" in latex
    assert r"c\textbar{}\_ & $0.50$ & $8.00$ & -- & $\mathbf{0.10}$ \\" in latex
    for plain in (text_table(SCORES), markdown_table(SCORES), latex_table(SCORES)):
        assert "*" not in plain
        assert "mathbf" not in plain


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    else:
        yield path


def test_every_leaf_of_a_summary_has_an_entry(tmp_path: Path):
    """A new number shows up here: give it one in the table of metrics."""
    env = make("debate-v0")
    team = dict.fromkeys(env.possible_agents, ExpertPolicy(env))
    result = evaluate_team("debate-v0", team, n_tasks=2, samples=2)
    summary = result_to_dict(result)
    asked = {("version",), ("samples",), ("seeds",), ("tasks",)}
    places = {"pass_at_k": "<k>", "reward_terms": "<term>"}
    known = {path for one in METRICS.values() for path in (one.path, one.ci95)}
    found = {(p[0], places[p[0]]) if p[0] in places else p for p in leaves(summary)}
    assert {("cost", "chars"), ("pass_at_k", "<k>"), ("cooperation", "mean")} <= found
    found = {path for path in found if path[0] != "no_interval"}
    assert found - asked - known == set()
    write_json(tmp_path / "summary.json", summary)
    (row,) = rows_at(tmp_path)
    assert row.cells["mean_return"].ci95 == result.return_ci95
    names = {METRICS[name].name for name in ("mean_return", "success", "cooperation", "chars")}
    assert names <= set(row.cells)


def test_a_sweeps_costs_are_those_of_its_trainings():
    trained = [TableRow("a", {"prompt_tokens": Estimate(1e6)}, trained=True)]
    played = [TableRow("b", {"prompt_tokens": Estimate(1e2)})]
    assert text_table(trained).splitlines()[0].split() == ["prompt", "tokens"]
    assert text_table(played).splitlines()[0].split() == ["tokens", "read", "per", "episode"]


def test_small_numbers_are_formulae():
    row = TableRow("a", {"kl": Estimate(1.2e-5, (-2e-6, 3e-5))})
    line = latex_table([row, row]).splitlines()[4]
    assert line == (r"a & $1.2\cdot 10^{-5}$ {\scriptsize $[-2\cdot 10^{-6}, 3\cdot 10^{-5}]$} \\")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_latex_accepts_it(tmp_path: Path):
    odd = TableRow("a\\b~c^d<e>f&g%h$i#j_k{l}", {"success": Estimate(1.0)})
    more = [TableRow(name, odd.cells) for name in ("[1]", "*", "--", "a\x00\x1b\u2028b")]
    table = latex_table([*ROWS, odd, *more], caption=odd.label, label="tab:x_y", best=True)
    text = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}{table}"
    (tmp_path / "t.tex").write_text(text + "\\end{document}")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout.decode()
