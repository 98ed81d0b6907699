"""The part of a report on an audit of credit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.reports import HOSTILE, Reader, a_run

from llm_marl_envs.cli import main
from llm_marl_envs.measure.numbers.credit import read_credit_audit
from llm_marl_envs.measure.numbers.format import number, with_interval
from llm_marl_envs.report import write_report
from llm_marl_envs.report.credit import credit, seen
from llm_marl_envs.report.tables import Noted


def estimate(mean: float) -> dict[str, Any]:
    return {"mean": mean, "ci95": [mean - 0.25, mean + 0.25], "n_tasks": 2}


def priced(signal: float | None = 0.5) -> dict[str, Any]:
    return {"cost": 2.0, "variance": 0.125, "signal": signal, "rank": 0.9, "averaged": 3}


def figures(name: str, **changes: Any) -> dict[str, Any]:
    given = {"bias": estimate(0.0), "bias_error": 0.1, "offset": 0.0, "variance": estimate(1.0)}
    given |= {"signal": estimate(0.5), "tokens": priced(250.0), "calls": priced()}
    return {"name": name, **given, **changes}


def audit(folder: Path, name: str = "c3", **changes: Any) -> Path:
    """Two estimators and two messages; `changes` are keys of the file."""
    message = {"point": 0, "task_id": "t", "agent": "left_0", "turn": 0, "text": "a"}
    good = {**message, "worth": 1.0, "ci95": [0.5, 1.5], "judged": {"magrpo": [2, 1], name: [1]}}
    bad = {**message, "worth": -1.0, "ci95": [-1.5, -0.5], "judged": {"magrpo": [-1], name: [0]}}
    data = {
        "version": 2,
        "estimators": [
            figures("magrpo", bias=estimate(0.375), cosine={"left_0": estimate(0.75)}),
            figures(name, tokens=priced(400.0), rank=None),
        ],
        "refused": {"rae": "it has no roles"},
        "messages": [good, bad],
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "credit_audit.json").write_text(json.dumps(data))
    return folder / "credit_audit.json"


def test_the_page_shows_what_the_file_holds() -> None:
    page = (ROOT / "docs" / "credit_audit.md").read_text(encoding="utf-8")
    held = read_credit_audit(ROOT / "benchmarks" / "results" / "credit_audit.json")
    lines = (
        page.partition("<!-- audit -->")[2].partition("<!-- end -->")[0].strip().splitlines()[2:]
    )
    shown = {line.split("`")[1]: line for line in lines}
    assert {*shown} == {one.name for one in held.estimators}
    for one in held.estimators:
        cosines = sorted(cosine.mean for cosine in one.cosine.values())
        cells = [with_interval(one.rank), f"{number(cosines[0])} to {number(cosines[-1])}"]
        cells += [number(one.variance.mean), with_interval(one.signal)]
        cells += [number(one.tokens.signal), number(one.calls.signal)]
        assert shown[one.name] == f"| `{one.name}` | {' | '.join(cells)} |"
        assert not seen(one.bias)


def test_what_an_audit_says(tmp_path: Path) -> None:
    found = credit(read_credit_audit(audit(tmp_path)))
    assert found.says == (
        "For 1000 sampled tokens c3 brings the most signal (400, then magrpo 250); bias was seen "
        "in magrpo."
    )
    assert found.figures.head[5] == "cosine left_0"
    assert [row[5] for row in found.figures.rows] == [
        Noted("0.75", "[0.50, 1.00], n = 2"),
        "-",
    ]
    assert [one.rows[1] for one in found.prices] == [
        ("c3", "2.00", "0.12", "400", "3", "0.90", "-"),
        ("c3", "2.00", "0.12", "0.50", "3", "0.90", "-"),
    ]
    assert found.refused == ("rae could not judge: it has no roles",)
    assert found.chart.numbers.rows == (
        ("left_0, turn 0, point 0", "1.00", "1.50", "1.00"),
        ("left_0, turn 0, point 0", "-1.00", "-1.00", "0.00"),
    )
    series = re.findall(r'<g class="dot (s\d)">(.*?)</g>', found.chart.picture, re.DOTALL)
    assert [colour for colour, _ in series] == ["s0", "s1"]
    dots = [re.findall(r'd="M (\S+) (\S+) L', paths) for _, paths in series]
    ((right, high), (left, lowest)), ((_, low), _) = (
        [(float(x), float(y)) for x, y in one] for one in dots
    )
    assert right > left
    assert high < low < lowest  # places on paper: what is worth more lies higher


def test_the_picture_has_those_with_the_most_signal(tmp_path: Path) -> None:
    names = [f"one_{i}" for i in range(9)]
    message = {"point": 0, "agent": "left_0", "turn": 0, "worth": 1.0, "ci95": [0.5, 1.5]}
    messages = [{**message, "judged": {name: [1.0] for name in names}}]
    given = [figures(name, tokens=priced(float(i))) for i, name in enumerate(names)]
    chart = credit(read_credit_audit(audit(tmp_path, estimators=given, messages=messages))).chart
    assert [name for _, name in chart.keys] == names[3:]
    assert "3 with less signal" in chart.note


def test_nothing_told_apart(tmp_path: Path) -> None:
    nothing = [
        figures("magrpo", signal=None, tokens=priced(None)),
        figures("c3", signal=estimate(0.2)),  # its interval holds 0
    ]
    found = credit(read_credit_audit(audit(tmp_path, estimators=nothing)))
    assert found.says == "No estimator told these messages apart."


def test_a_page_has_it_from_its_own_folder_or_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit(tmp_path / "audit")
    alone = Reader(write_report(tmp_path / "audit").read_text(encoding="utf-8"))
    assert "c3 brings the most signal" in alone.text
    a_run(tmp_path / "run")
    given = ["report", str(tmp_path / "run"), "--credit-audit", str(tmp_path / "audit")]
    assert main(given) == 0
    beside = Reader((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert "c3 brings the most signal" in beside.text
    assert "Training groups" in beside.text
    assert main([*given[:3], str(tmp_path / "run")]) == 2
    assert "credit_audit.json" in capsys.readouterr().err


@pytest.mark.parametrize("text", HOSTILE)
def test_names_are_only_text(tmp_path: Path, text: str) -> None:
    audit(tmp_path / "hostile", text)
    audit(tmp_path / "plain")
    pages = [Reader(write_report(tmp_path / one).read_text()) for one in ("hostile", "plain")]
    assert [name for name, _ in pages[0].tags] == [name for name, _ in pages[1].tags]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 1}, "version 1, this release reads 2"),
        ({"estimators": []}, "no estimators"),
        ({"messages": []}, "or no messages"),
        ({"estimators": [figures("magrpo")]}, r"message 0: expected judgements of \['magrpo'\]"),
        ({"estimators": [{"name": "c3"}]}, "bias"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path: Path, changes: Any, words: str) -> None:
    path = audit(tmp_path, **changes)
    with pytest.raises(ValueError, match=words):
        read_credit_audit(path)
