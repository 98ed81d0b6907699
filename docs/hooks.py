"""Hooks of the documentation site: tables that the code already holds, and formulae."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

from llm_marl_envs.measure.numbers.metrics import METRICS, Metric

KINDS = {
    ("episode", "action", "team"): "Episodes",
    ("update",): "Updates of a training",
    ("run",): "A whole training",
    ("study",): "Comparisons of teams",
}
METRICS_HEAD = (
    "| number | name: in tables, logs and summaries | unit | meaning | interval | better |\n"
    "|---|---|---|---|---|---|"
)
FORMULA = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in `{{ metrics }}` and `{{ refused }}`.

    What stands between two lines of `$$` is a formula in LaTeX.
    """
    if "{{ refused }}" in markdown:
        markdown = markdown.replace("{{ refused }}", _refused())
    if "{{ metrics }}" in markdown:
        markdown = markdown.replace("{{ metrics }}", _metrics())
    return FORMULA.sub(lambda found: _formula(found[1]), markdown)


def _formula(latex: str) -> str:
    """MathML, which browsers show without a script from the network."""
    return f'<div class="formula">{convert(latex.strip(), display="block")}</div>'


def _metrics() -> str:
    """The table of metrics, one part for each kind of thing that is measured."""
    parts = []
    for of, about in KINDS.items():
        rows = [_metric(one) for one in METRICS.values() if one.of in of]
        parts += [f"## {about}", "\n".join([METRICS_HEAD, *rows])]
    return "\n\n".join(parts)


def _metric(one: Metric) -> str:
    places = [*one.log, *([".".join(one.path)] if one.path else [])]
    names = ", ".join(f"`{name}`" for name in dict.fromkeys([one.name, *places]))
    better = {1: "higher", -1: "lower", 0: ""}[one.better]
    title = one.title.replace("<", "&lt;")
    return f"| {title} | {names} | {one.unit} | {one.doc} | {one.interval or ''} | {better} |"


def _refused() -> str:
    from trainers.config import NOT_READ, SPLIT

    rows = {"`loss_type: bnpo`": SPLIT, **{f"`{name}`": why for name, why in NOT_READ.items()}}
    lines = [f"| {name} | {reason} |" for name, reason in rows.items()]
    return "\n".join(["| setting | why, or what instead |", "|---|---|", *lines])
