"""The templates: whatever a value holds is text, and a template that misses a value says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from support.reports import HOSTILE, Reader, macro

from llm_marl_envs import report
from llm_marl_envs.core.rendering import visible
from llm_marl_envs.report.page import TEMPLATES
from llm_marl_envs.report.tables import Noted, table

FOLDER = Path(report.__file__).parent / "templates"
SOURCES = {path.name: path.read_text() for path in FOLDER.glob("*.j2")}


def shown(template: str, **values: object) -> str:
    return TEMPLATES.from_string(template).render(values)


def test_values_are_escaped_and_what_cannot_be_shown_is_spelled_out():
    given = "<b>&\"'\x00\ud800\u202e"
    expected = r"&lt;b&gt;&amp;&#34;&#39;\x00\ud800\u202e"
    assert shown("{{ given }}", given=given) == expected
    assert shown("{% macro m(t) %}<p>{{ t }}</p>{% endmacro %}{{ m(given) }}", given=given) == (
        f"<p>{expected}</p>"
    )
    assert shown("{{ given }}", given="a\tb\n") == "a\tb\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_cell_stays_in_its_cell(text: str):
    given = table(["head", text], [[text, Noted(text, text)], ["x", text]])
    page = Reader(macro("tables.html.j2", "table", given))
    assert page.text.count(visible(text)) == 5
    names = " ".join(name for name, _ in page.tags)
    assert names == "div table thead tr th th tbody tr th td small tr th td"


def test_a_value_that_is_missing_is_an_error():
    for template in ("{{ absent }}", "{{ given.absent }}", "{% if given.absent %}{% endif %}"):
        with pytest.raises(UndefinedError, match="absent"):
            shown(template, given=Noted("a", "b"))


@pytest.mark.parametrize("name", SOURCES)
def test_no_template_lets_a_value_out_of_its_place(name: str):
    """Autoescaping guards text and quoted attributes; nothing else may hold a value."""
    source = re.sub(r"{#.*?#}", "", SOURCES[name], flags=re.S)
    assert not re.search(r"\|\s*safe|autoescape|Markup|<script|style=|\bon\w+=", source)
    tags = re.findall(r"<[a-z](?:{{.*?}}|{%.*?%}|[^>{])*>", source)
    assert sum(source.count(f"<{c}") for c in "abcdefghijklmnopqrstuvwxyz") == len(tags)
    for tag in tags:
        outside = re.sub(r'"[^"]*"', "", re.sub(r"{%.*?%}", "", tag))
        assert "{{" not in outside, tag
        assert not re.search(r'href="(?!#part-{{)|src=', tag), tag
