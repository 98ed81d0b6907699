"""Chat templates of strangers end, whatever they do; those of models say what they said."""

from __future__ import annotations

import datetime
import time
from pathlib import Path
from typing import Any

import pytest
import trl
from support.models import tiny_tokenizer
from transformers.utils import chat_template_utils

from llm_marl_envs.core.spaces import Message
from trainers.weights import template_limits
from trainers.weights.chat import ChatTemplate
from trainers.weights.template_limits import TemplateLimitError

SECONDS = 30  # of a busy machine; each takes about one
TOWER = (
    "{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(60) %}"
    "{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}{% endfor %}"
)
LONG = "{% set x = 'a' * 100000 %}"
NEST = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
MESSAGES = [{"role": role, "content": "hi there " * 9} for role in ("user", "assistant")] * 3
HOSTILE = {
    "loops": NEST,
    "hash of a tower": "{% set ns = namespace(a=(1,)) %}{% for i in range(3000) %}{% set ns.a = "
    + "(" * 60
    + "ns.a"
    + ",)" * 60
    + " %}{% endfor %}{{ {ns.a: 1} }}",
    "loops with a condition": NEST.replace("range(99999) %}{% e", "range(99999) if false %}{% e"),
    "recursive loop": "{% for i in range(9) recursive %}{% if loop.depth < 9 %}"
    "{{ loop(range(9)) }}{% endif %}{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "macro without end": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "caller": "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    "{% call f() %}{% for i in range(99999) %}x{% endfor %}{% endcall %}",
    "times": "{{ 'a' * 10**9 }}",
    "times turned": "{{ 10**9 * 'a' }}",
    "list times": "{{ ([0] * 10**9)|length }}",
    "powers": "{{ 10 ** (10 ** 9) }}",
    "squares": "{% set ns = namespace(x=9) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}"
    "{% endfor %}",
    "round": "{{ 1|round(-10**9) }}",
    "center": "{{ 'a'|center(10**9) }}",
    "method center": "{{ 'a'.center(10**9) }}",
    "method ljust": "{{ 'a'.ljust(10**9) }}",
    "to_bytes": "{{ (1).to_bytes(10**9, 'big') }}",
    "format": "{{ '%1000000000d' % 1 }}",
    "format star": "{{ '%*d' % (10**9, 1) }}",
    "format method": "{{ '{:1000000000}'.format(1) }}",
    "format nested": "{{ '{:{}}'.format(1, 10**9) }}",
    "format filter": "{{ '%1000000000d'|format(1) }}",
    "format map": "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "indent": "{{ ('a\\n' * 1000)|indent(10**8) }}",
    "batch": "{{ [1]|batch(10**9, 'x')|list|length }}",
    "slice": "{{ [1]|slice(10**9)|list|length }}",
    "join": LONG + "{{ range(99999)|join(x)|length }}",
    "join method": LONG + "{{ x.join(['a'] * 9999) }}",
    "join of a map": LONG + "{{ x.join(range(99999)|map('string')) }}",
    "replace": LONG + "{{ x|replace('a', x)|length }}",
    "replace method": LONG + "{{ x.replace('', x)|length }}",
    "translate": LONG + "{{ x.translate({97: x}) }}",
    "tojson": "{{ [1]|tojson(indent=10**9) }}",
    "lipsum": "{{ lipsum(n=10**7) }}",
    "tower compared": TOWER + "{{ ns.a == ns.b }}",
    "tower searched": TOWER + "{{ ns.a in [ns.b] }}",
    "tower shown": TOWER + "{{ ns.a }}",
    "tower in a namespace": TOWER + "{{ ns }}",
    "tower joined": TOWER + "{{ (ns.a ~ '')|length }}",
    "tower as JSON": TOWER + "{{ ns.a|tojson|length }}",
    "tower formatted": TOWER + "{{ ('%s' % (ns.a,))|length }}",
    "tower tested": TOWER + "{{ ns.a is eq(ns.b) }}",
    "tower selected": TOWER + "{{ [ns.a]|select('eq', ns.b)|list|length }}",
    "tower sorted": TOWER + "{{ [ns.a, ns.b]|sort|length }}",
    "tower as a key": TOWER + "{{ {ns.a: 1}|length }}",
    "tower looked up": TOWER + "{{ {}[ns.a] }}",
    "tower got": TOWER + "{{ {}.get(ns.a) }}",
    "tower counted": TOWER + "{{ [ns.a].count(ns.b) }}",
    "tower in dict": TOWER + "{{ dict.fromkeys([ns.a])|length }}",
    "text doubled": "{% set ns = namespace(s='a') %}{% for i in range(60) %}"
    "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "list doubled": "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}"
    "{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "block doubled": "{% set ns = namespace(s='a') %}{% for i in range(60) %}"
    "{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}{% endfor %}",
    "much text": "{% for i in range(99999) %}aaaaaaaaaaaaaaaa{% endfor %}",
    "lists in a loop": "{% for i in range(99999) %}{{ range(99999)|list|length }}{% endfor %}",
    "searches": "{% set l = range(99999)|list %}{% for i in l %}{{ -1 in l }}{% endfor %}",
    "cuts": "{% set l = range(99999)|list %}{% for i in l %}{{ l[1:]|length }}{% endfor %}",
    "work on text": LONG + "{% for i in range(99999) %}{{ x.upper()|length }}{% endfor %}",
    "long body": "{% for i in range(99999) %}" + "{{ '' }}" * 9000 + "{% endfor %}",
    "brackets": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "deep loops": "{% for i in [1] %}" * 40 + "{% endfor %}" * 40,
    "long": "a" * 300_000,
    "date": "{{ strftime_now('%c' * 100000) }}",
}


def rendered(template: str, **more: Any) -> str:
    """As every library renders that asks Transformers."""
    texts, _ = chat_template_utils.render_jinja_template([MESSAGES], chat_template=template, **more)
    return texts[0]


@pytest.mark.parametrize("case", ["loops", "times", "format", "join of a map", "much text"])
def test_a_template_beyond_its_limits_is_an_error(case: str):
    with pytest.raises(TemplateLimitError, match=r"more|wide"):
        rendered(HOSTILE[case])


@pytest.mark.full
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_template_ends(case: str):
    begun = time.monotonic()
    with pytest.raises(Exception, match=r".") as caught:
        rendered(HOSTILE[case])
    assert not isinstance(caught.value, MemoryError)
    assert time.monotonic() - begun < SECONDS
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = HOSTILE[case]
    with pytest.raises(ValueError, match="chat template") as caught:
        ChatTemplate(tokenizer)
    assert len(str(caught.value)) < 500
    assert time.monotonic() - begun < 2 * SECONDS


def test_what_a_template_may_do():
    assert rendered("{% for i in range(99998) %}{% endfor %}x") == "x"
    assert len(rendered("{{ 'a' * 1000000 }}")) == 10**6
    assert rendered("{{ '%5.2f|%s' % (1.5, 'a') }}{{ '{:>3}'.format(7) }}") == " 1.50|a  7"
    assert rendered("{{ ', '.join(['a', 'b']) }}{{ ['c']|map('upper')|join }}") == "a, bC"
    each = "{% for m in messages %}{{ m.role[:1] }}{% if loop.last %}{{ loop.length }}{% endif %}"
    assert rendered(each + "{% endfor %}") == "uauaua6"


def test_each_rendering_has_limits_of_its_own():
    template = "{% for i in range(60000) %}{% endfor %}x"
    assert [rendered(template) for _ in range(3)] == ["x"] * 3


def families() -> list[Path]:
    return sorted(Path(trl.__file__).parent.rglob("*.jinja"))


@pytest.mark.full
def test_templates_of_models_say_what_they_said():
    """Those that TRL brings; `_plain_compile` is what Transformers does without limits."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    equal = 0
    for file in families():
        template = file.read_text(encoding="utf-8")
        for given in (None, tools):
            said: dict[str, Any] = {"messages": MESSAGES, "tools": given, "documents": None}
            said |= {"add_generation_prompt": True, "today": "2026-11-27"}
            try:
                plain = template_limits._plain_compile(template).render(**said)
            except Exception:  # noqa: BLE001 - not for these messages
                continue
            if "strftime_now" not in template:
                assert template_limits._compile(template).render(**said) == plain, file.name
                equal += 1
    assert equal > 50


DATED = (
    "{% for m in messages %}{{ strftime_now('%d %b %Y') }} {{ m.role }}: {{ m.content }}\n"
    "{% endfor %}"
)


def test_a_date_is_that_of_the_beginning(monkeypatch: pytest.MonkeyPatch):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = DATED
    chat = ChatTemplate(tokenizer, {"today": "2026-02-03"})
    assert "03 Feb 2026 user" in tokenizer.decode(chat.opening([Message("user", "hi")]))
    written = ChatTemplate(tokenizer, {"today": datetime.date(2026, 2, 3)})  # in YAML
    assert written.template_kwargs == {"today": "2026-02-03"}
    now = ChatTemplate(tokenizer)
    opening = now.opening([Message("user", "hi")])

    class Later(template_limits.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls(2031, 1, 2)

    monkeypatch.setattr(template_limits, "datetime", Later)
    assert now.opening([Message("user", "hi")]) == opening
    assert not ChatTemplate(tiny_tokenizer()).dated
