r"""The tables that results make: as text, Markdown or LaTeX (booktabs), mean and 95 % interval.

The best value of a column is marked where that is asked for, and claims nothing: where intervals
overlap the order may be chance.

>>> rows = [TableRow(label="a_b", cells={"success": Estimate(0.5, (0.4, 0.6))})]
>>> print(latex_table(rows, ["success"]).splitlines()[4])
a\_b & $0.50$ {\scriptsize $[0.40, 0.60]$} \\
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs.files.json_files import from_json, read_json
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import (
    NOTHING,
    format_table,
    number,
    whole,
    with_interval,
    within,
)
from llm_marl_envs.measure.numbers.metrics import METRICS, Metric
from llm_marl_envs.measure.numbers.results import EVALUATION, SWEEP_FILE, read_results
from llm_marl_envs.measure.numbers.values import in_summary, named, title

TERM = "reward_terms/<term>"
DEFAULT_COLUMNS = ("mean_return", "success", "cooperation", "match")
FAILED = "failed"
RUN_COLUMNS = {"prompt_tokens": "train_prompt_tokens"}
"""Columns of a sweep that have the name of another number of an evaluation."""
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@dataclass(frozen=True, slots=True)
class TableRow:
    """A label and column name -> number; columns that are not there stay empty.

    Attributes:
        label: text.
        cells: column -> number.
        trained: whether it is of the runs of a sweep.
    """

    label: str
    cells: Mapping[str, Estimate]
    trained: bool = False


def rows_at(path: str | Path) -> list[TableRow]:
    """The rows that a file or folder gives.

    Args:
        path: the `results.json` of a sweep or the folder that holds it (a row per setting), or what
            `result_files` takes (a row per result).

    Raises:
        ValueError: nothing of that kind there, or a file is damaged.
    """
    path = Path(path)
    if path.name == SWEEP_FILE or (path / SWEEP_FILE).is_file():
        return _sweep_rows(path / SWEEP_FILE if path.is_dir() else path)
    return [_result_row(*pair) for pair in read_results(path)]


def _result_row(file: Path, result: Mapping[str, Any]) -> TableRow:
    folder = file.parent.parent if file.parent.name == EVALUATION else file.parent
    cells: dict[str, Estimate] = {}
    for metric in METRICS.values():
        if metric.name != TERM:
            cells |= in_summary(metric, result)
    # A term may have a metric's name.
    for name, estimate in in_summary(METRICS[TERM], result).items():
        term = name.removeprefix(TERM.partition("<")[0])
        cells[title(name) if named(term) else term] = estimate
    return TableRow(str(result.get("team") or folder.name), cells)


@dataclass(frozen=True, slots=True)
class _Group:
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    results: Mapping[str, Estimate]


def _sweep_rows(path: Path) -> list[TableRow]:
    groups = read_json(path).get("groups")
    if not groups:
        raise ValueError(f"{path}: no groups; expected the results of `llm-marl sweep`")
    rows = []
    for group in from_json(tuple[_Group, ...], groups, f"{path}, groups"):
        settings = ", ".join(f"{key}={value}" for key, value in group.settings.items())
        label = f"{settings or 'all'} ({len(group.seeds)} seeds)"
        rows.append(TableRow(label, group.results, trained=True))
    return rows


def _metric(rows: Sequence[TableRow], column: str) -> Metric | None:
    """What a column shows; None where the table of metrics does not say, e.g. a reward term."""
    trained = all(row.trained for row in rows if column in row.cells)
    return named(RUN_COLUMNS.get(column, column) if trained else column)


def known_columns(rows: Sequence[TableRow], columns: Sequence[str] | None) -> list[str]:
    """The columns to show: those asked for, else the default ones that some row has.

    Beside the default ones stands how many episodes failed, where any did.

    Raises:
        ValueError: no rows, or a column that no row has; the message lists what there is.
    """
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    if columns is None:
        columns = [name for name in DEFAULT_COLUMNS if name in names] or names
        if any(row.cells[FAILED].mean for row in rows if FAILED in row.cells):
            columns = list(dict.fromkeys([*columns, FAILED]))
    unknown = [name for name in columns if name not in names]
    if unknown or not rows or not columns:
        raise ValueError(f"columns {unknown or 'none'}: there are {names}")
    return list(columns)


def latex_table(
    rows: Sequence[TableRow],
    columns: Sequence[str] | None = None,
    *,
    caption: str | None = None,
    label: str | None = None,
    best: bool = False,
) -> str:
    r"""A `tabular` with booktabs rules, in a `table` where a caption or label is given.

    Needs `\usepackage{booktabs}`.

    Args:
        rows: one line each.
        columns: names of cells; those of `DEFAULT_COLUMNS` that there are where None.
        caption: text, printed as it is.
        label: for `\ref`; letters, digits and `:._/+-`.
        best: set the best value of each column in bold, see `best_places`.

    Raises:
        ValueError: no rows, a column that no row has, or another label.
    """
    columns = known_columns(rows, columns)
    if label is not None and not re.fullmatch(r"[A-Za-z0-9:._/+-]+", label):
        raise ValueError(f"label {label!r}: expected letters, digits and :._/+- , e.g. tab:main")
    heads, *body = map(_line, _grid(rows, columns, escape, _latex, best))
    lines = [rf"\begin{{tabular}}{{l{'c' * len(columns)}}}", r"\toprule", heads, r"\midrule"]
    lines += [*body, r"\bottomrule", r"\end{tabular}"]
    if caption is not None or label is not None:
        around = [r"\begin{table}", r"\centering", *lines]
        around += [rf"\caption{{{escape(caption)}}}"] if caption is not None else []
        around += [rf"\label{{{label}}}"] if label is not None else []
        lines = [*around, r"\end{table}"]
    return "\n".join(lines) + "\n"


def text_table(
    rows: Sequence[TableRow], columns: Sequence[str] | None = None, *, best: bool = False
) -> str:
    """The same as plain text, the best values with a star."""
    heads, *body = _grid(rows, known_columns(rows, columns), str, _text, best)
    return format_table(heads, body)


def markdown_table(
    rows: Sequence[TableRow], columns: Sequence[str] | None = None, *, best: bool = False
) -> str:
    """The same in Markdown, the best values in bold."""
    columns = known_columns(rows, columns)
    heads, *body = _grid(rows, columns, _markdown_text, _markdown, best)
    lines = [heads, ["---", *["---:"] * len(columns)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def best_places(rows: Sequence[TableRow], column: str) -> frozenset[int]:
    """Rows with the best value of a column, ties as the numbers are shown.

    Empty where nobody can say which way is better, or where fewer than two rows have the column.
    """
    metric = _metric(rows, column)
    sign = metric.better if metric else 0
    values = {
        place: row.cells[column].mean for place, row in enumerate(rows) if column in row.cells
    }
    numbers = {place: value for place, value in values.items() if math.isfinite(value)}
    if not sign or len(numbers) < 2:
        return frozenset()
    best = number(max(numbers.values(), key=lambda value: sign * value))
    return frozenset(place for place, value in numbers.items() if number(value) == best)


def _grid(
    rows: Sequence[TableRow],
    columns: Sequence[str],
    text: Callable[[str], str],
    cell: Callable[[Estimate | None, bool], str],
    best: bool,
) -> list[list[str]]:
    """The heads, then label and cells of each row, as a form writes texts and numbers."""
    metrics = [_metric(rows, column) for column in columns]
    marked = [best_places(rows, column) if best else frozenset() for column in columns]
    heads = [of.title if of else name for of, name in zip(metrics, columns, strict=True)]
    lines = [["", *map(text, heads)]]
    for place, row in enumerate(rows):
        cells = [
            cell(row.cells.get(name), place in of) for name, of in zip(columns, marked, strict=True)
        ]
        lines.append([text(row.label), *cells])
    return lines


def escape(text: str) -> str:
    """Text that LaTeX prints as it is; line ends and control characters become spaces."""
    escaped = "".join(_SPECIAL.get(sign, sign) for sign in _printable(text))
    return " ".join(re.sub("-(?=-)", "-{}", escaped).split())  # two of them would be a dash


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _line(cells: Sequence[str]) -> str:
    # What follows a line's end, a bracket or a star, would be taken as its argument.
    guard = "{}" if cells[0].startswith(("[", "*")) else ""
    return guard + " & ".join(cells) + r" \\"


def _latex(cell: Estimate | None, best: bool) -> str:
    if cell is None:
        return "--"
    mean = _tex(cell.mean)
    shown = rf"$\mathbf{{{mean}}}$" if best else f"${mean}$"
    if cell.ci95 is None or cell.ci95[0] == cell.ci95[1]:
        return rf"{shown} {{\scriptsize [{why}]}}" if (why := within(cell)) else shown
    low, high = map(_tex, cell.ci95)
    return rf"{shown} {{\scriptsize $[{low}, {high}]$}}"


def _tex(value: float) -> str:
    return re.sub(r"e([+-])0*(\d+)$", r"\\cdot 10^{\1\2}", number(value)).replace("{+", "{")


def _text(cell: Estimate | None, best: bool) -> str:
    if cell is None:
        return NOTHING
    return with_interval(cell) + ("*" if best else "")


def _markdown_text(text: str) -> str:
    return " ".join(re.sub(r"([\\`*_{}\[\]<>|~$&#])", r"\\\1", _printable(text)).split())


def _markdown(cell: Estimate | None, best: bool) -> str:
    if cell is None:
        return NOTHING
    mean = number(cell.mean)
    interval = with_interval(cell).removeprefix(mean)
    return (f"**{mean}**" if best else mean) + interval


# -- one column per team --------------------------------------------------------------------------
def result_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Columns side by side; rows that no result knows are left out.

    Args:
        results: heading -> what `result_to_dict` or `read_result` returns.
    """
    rows = []
    for metric in METRICS.values():
        columns = [in_summary(metric, result) for result in results.values()]
        for name in dict.fromkeys(name for column in columns for name in column):
            cells = [shown(metric, column.get(name)) for column in columns]
            rows.append((title(name), *cells))
    return format_table(("", *results), rows)


def shown(metric: Metric, estimate: Estimate | None) -> str:
    """A number with its interval; a count without decimals."""
    return whole(estimate and estimate.mean) if metric.unit == "count" else with_interval(estimate)
