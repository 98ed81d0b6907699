"""Hooks of the documentation site: tables that the code already holds, and formulae."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

from llm_marl_envs import spec
from llm_marl_envs.core.options import Declared, declared, options_of, words
from llm_marl_envs.measure.numbers.metrics import METRICS, Metric
from llm_marl_envs.play.registry import load_entry_point

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
ARGUMENTS = re.compile(r"<h\d[^>]*>Arguments.*?</h\d>", re.DOTALL)
CODE = re.compile(r"`(.+?)`")
RECIPE = re.compile(r"\{\{ recipe (\w+) \}\}")
FORMULA = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in `{{ metrics }}`, `{{ tracked }}`, `{{ settings }}`, `{{ refused }}`, recipes by name.

    What stands between two lines of `$$` is a formula in LaTeX.
    """
    markdown = RECIPE.sub(lambda found: _recipe(found[1]), markdown)
    tables = {
        "metrics": _metrics,
        "tracked": _tracked,
        "settings": _settings,
        "refused": _refused,
    }
    for name, table in tables.items():
        if f"{{{{ {name} }}}}" in markdown:
            markdown = markdown.replace(f"{{{{ {name} }}}}", table())
    return FORMULA.sub(lambda found: _formula(found[1]), markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the table of arguments under that heading of an environment's page."""
    place = Path(page.file.src_uri)
    heading = ARGUMENTS.search(html)
    if place.parent.name != "environments" or heading is None:
        return html
    options = options_of(load_entry_point(spec(place.stem)))
    return html[: heading.end()] + _arguments(options) + html[heading.end() :]


def _arguments(options: Any) -> str:
    rows = ["".join(f"<td>{cell}</td>" for cell in _cells(one)) for one in declared(options)]
    head = "".join(f"<th>{name}</th>" for name in ("argument", "default", "takes", "what it is"))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(one: Declared) -> list[str]:
    return [
        f"<code>{one.name}</code>",
        *(
            CODE.sub(r"<code>\1</code>", escape(said))
            for said in (one.default, one.expected, one.about)
        ),
    ]


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
    title, interval = one.title.replace("<", "&lt;"), "yes" if one.interval else ""
    return f"| {title} | {names} | {one.unit} | {one.doc} | {interval} | {better} |"


def _tracked() -> str:
    """The table of what a training logs, by the groups that trackers draw."""
    groups: dict[str, list[str]] = {}
    for one in METRICS.values():
        for name in one.log:
            held_out = name.startswith("eval_")
            shown = f"eval/{name.removeprefix('eval_')}" if held_out else f"train/{name}"
            group = shown.rpartition("/")[0]
            groups.setdefault(group, []).append(f"`{shown}` ({one.unit})")
    rows = [f"| `{group}/` | {', '.join(names)} |" for group, names in groups.items()]
    return "\n".join(["| group | numbers and their units |", "|---|---|", *rows])


def _recipe(name: str) -> str:
    """What a recipe sets, where it is from, and its numbered deviations."""
    from trainers.recipes import recipe_named

    found = recipe_named(name)
    if found is None:
        raise ValueError(f"no recipe {name!r}")
    sets = {"algorithm": found.algorithm, **found.trainer}
    rows = [f"| `trainer` | `{key}` | `{value}` |" for key, value in sets.items()]
    rows += [f"| `env_kwargs` | `{key}` | `{value}` |" for key, value in found.env_kwargs.items()]
    table = "\n".join(["| section | sets | to |", "|---|---|---|", *rows])
    deviations = "\n".join(f"{i}. {one}" for i, one in enumerate(found.deviations, start=1))
    own = f"A run that sets one of these otherwise is called `{name} (modified)`."
    return f"## What it sets\n\n{found.paper}. {own}\n\n{table}\n\n## Deviations\n\n{deviations}"


def _settings() -> str:
    """What `MAGRPOConfig` adds to TRL's settings, or takes otherwise."""
    from trainers.config import NOT_READ, MAGRPOConfig
    from trainers.run_schema import fields_schema

    schema = fields_schema(MAGRPOConfig)["properties"]
    rows = ["| setting | default | takes | what it is |", "|---|---|---|---|"]
    for name in (name for name in MAGRPOConfig.__annotations__ if name not in NOT_READ):
        default, about = getattr(MAGRPOConfig, name), schema[name].get("description", "")
        rows.append(f"| `{name}` | `{default!r}` | {words(schema[name])} | {about} |")
    return "\n".join(rows)


def _refused() -> str:
    from trainers.config import NOT_READ, REFUSED

    rows = {f"`{name}: {value}`": why for (name, value), why in REFUSED.items()}
    rows |= {f"`{name}`": why for name, why in NOT_READ.items()}
    lines = [f"| {name} | {reason} |" for name, reason in rows.items()]
    return "\n".join(["| setting | why, or what instead |", "|---|---|", *lines])
