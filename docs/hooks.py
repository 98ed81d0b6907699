"""Hooks of the documentation site: tables that the code already holds."""

from __future__ import annotations

from typing import Any

from llm_marl_envs import list_envs, spec


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in `{{ metrics }}` and `{{ environments }}`."""
    if "{{ metrics }}" in markdown:
        markdown = markdown.replace("{{ metrics }}", _metrics())
    if "{{ environments }}" in markdown:
        markdown = markdown.replace("{{ environments }}", _environments())
    return markdown


def _metrics() -> str:
    from trainers.metrics import METRICS

    rows = [f"| `{name}` | {unit} | {meaning} |" for name, (unit, meaning) in METRICS.items()]
    return "\n".join(["| scalar | unit | meaning |", "|---|---|---|", *rows])


def _environments() -> str:
    rows = [
        f"| `{one.id}` | {one.api} | {', '.join(f'`{a}`' for a in one.agents)} | {one.summary} |"
        for one in map(spec, list_envs())
    ]
    return "\n".join(["| id | native form | seats | |", "|---|---|---|---|", *rows])
