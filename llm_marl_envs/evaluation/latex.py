r"""Results as a LaTeX table (booktabs): mean and 95 % interval, one row per team or setting.

Owns which files can be a row, which columns there are, and the escaping. Nothing is set in bold:
the highest mean is no finding where intervals overlap.

>>> rows = [TableRow(label="a_b", cells={"success": Cell(0.5, (0.4, 0.6))})]
>>> print(latex_table(rows, ["success"]).splitlines()[4])
a\_b & $0.50$ {\scriptsize $[0.40, 0.60]$} \\
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs.evaluation.json_files import read_json
from llm_marl_envs.evaluation.results import RESULT_FILE, read_result
from llm_marl_envs.evaluation.table import format_table, with_interval

SWEEP_RESULTS = "results.json"
DEFAULT_COLUMNS = ("mean_return", "success", "cooperation")
HEADINGS = {"mean_return": "return", "cooperation": "cooperation index"}
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A number and its 95 % interval, None where there is none."""

    mean: float
    ci95: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A label and column name -> number; columns that are not there stay empty."""

    label: str
    cells: Mapping[str, Cell]


def rows_at(path: str | Path) -> list[TableRow]:
    """The rows that a file or folder gives.

    Args:
        path: a folder with the output of `llm-marl eval`, a folder of such folders, its
            `summary.json`, or the `results.json` of a sweep or the folder that holds it.

    Raises:
        ValueError: nothing of that kind there, or a file is damaged.
    """
    path = Path(path)
    if path.name == SWEEP_RESULTS or (path / SWEEP_RESULTS).is_file():
        return _sweep_rows(path / SWEEP_RESULTS if path.is_dir() else path)
    if path.is_dir() and not (path / RESULT_FILE).is_file():
        inside = sorted(path.glob(f"*/{RESULT_FILE}"))
        if inside:
            return [_result_row(file) for file in inside]
    return [_result_row(path)]


def _result_row(path: Path) -> TableRow:
    found = read_result(path)
    folder = path if path.is_dir() else path.parent
    cells: dict[str, Cell] = {}
    for name, interval in (("mean_return", "return_ci95"), ("success", "success_ci95")):
        if found[name] is not None:
            cells[name] = Cell(found[name], _pair(found[interval]))
    index = found["cooperation"]
    if index is not None and index["mean"] is not None:
        cells["cooperation"] = Cell(index["mean"], _pair(index["ci95"]))
    results = {**{f"pass@{k}": v for k, v in found["pass_at_k"].items()}, **found["cost"]}
    results |= {**found["faults"], "failed": found.get("failed")}
    cells |= {name: Cell(value) for name, value in results.items() if value is not None}
    for name, value in found["reward_terms"].items():  # a term may have a result's name
        taken = name in DEFAULT_COLUMNS or name in results
        cells[f"term {name}" if taken else name] = Cell(value)
    return TableRow(str(found.get("team") or folder.name), cells)


def _sweep_rows(path: Path) -> list[TableRow]:
    found = read_json(path)
    groups = found.get("groups")
    if not isinstance(groups, list) or not groups:
        raise ValueError(f"{path}: no groups; expected the results of `llm-marl sweep`")
    rows = []
    try:
        for group in groups:
            settings = ", ".join(f"{key}={value}" for key, value in group["settings"].items())
            label = f"{settings or 'all'} ({len(group['seeds'])} seeds)"
            cells = {
                name: Cell(float(one["mean"]), _pair(one["ci95"]))
                for name, one in group["results"].items()
            }
            rows.append(TableRow(label, cells))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise ValueError(f"{path}: its groups are damaged ({error!r})") from error
    return rows


def _pair(interval: Any) -> tuple[float, float] | None:
    return None if interval is None else (float(interval[0]), float(interval[1]))


def known_columns(rows: Sequence[TableRow], columns: Sequence[str] | None) -> list[str]:
    """The columns to show: those asked for, else the default ones that some row has.

    Raises:
        ValueError: no rows, or a column that no row has; the message lists what there is.
    """
    there = list(dict.fromkeys(name for row in rows for name in row.cells))
    if columns is None:
        columns = [name for name in DEFAULT_COLUMNS if name in there] or there
    unknown = [name for name in columns if name not in there]
    if unknown or not rows or not columns:
        raise ValueError(f"columns {unknown or 'none'}: there are {there}")
    return list(columns)


def latex_table(
    rows: Sequence[TableRow],
    columns: Sequence[str] | None = None,
    *,
    caption: str | None = None,
    label: str | None = None,
) -> str:
    r"""A `tabular` with booktabs rules, in a `table` where a caption or label is given.

    Needs `\usepackage{booktabs}`.

    Args:
        rows: one line each.
        columns: names of cells; those of `DEFAULT_COLUMNS` that there are where None.
        caption: LaTeX, not escaped.
        label: for `\ref`.

    Raises:
        ValueError: no rows, or a column that no row has.
    """
    columns = known_columns(rows, columns)
    heads = ["", *(escape(HEADINGS.get(name, name)) for name in columns)]
    lines = [rf"\begin{{tabular}}{{l{'c' * len(columns)}}}", r"\toprule"]
    lines += [_line(heads), r"\midrule"]
    for row in rows:
        lines.append(_line([escape(row.label), *(_latex(row.cells.get(one)) for one in columns)]))
    lines += [r"\bottomrule", r"\end{tabular}"]
    if caption is not None or label is not None:
        around = [r"\begin{table}", r"\centering", *lines]
        around += [rf"\caption{{{caption}}}"] if caption is not None else []
        around += [rf"\label{{{label}}}"] if label is not None else []
        lines = [*around, r"\end{table}"]
    return "\n".join(lines) + "\n"


def text_table(rows: Sequence[TableRow], columns: Sequence[str] | None = None) -> str:
    """The same as plain text."""
    columns = known_columns(rows, columns)
    lines = []
    for row in rows:
        cells = [row.cells.get(one) for one in columns]
        lines.append(
            [row.label, *("-" if c is None else with_interval(c.mean, c.ci95) for c in cells)]
        )
    return format_table(["", *(HEADINGS.get(name, name) for name in columns)], lines)


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; line ends become spaces."""
    return " ".join("".join(_SPECIAL.get(sign, sign) for sign in text).split())


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex(cell: Cell | None) -> str:
    if cell is None:
        return "--"
    if cell.ci95 is None:
        return f"${cell.mean:.2f}$"
    low, high = cell.ci95
    return rf"${cell.mean:.2f}$ {{\scriptsize $[{low:.2f}, {high:.2f}]$}}"
