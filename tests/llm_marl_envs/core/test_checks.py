"""Names that nobody knows, and values of the wrong type."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from llm_marl_envs import make, register
from llm_marl_envs.commands.options import assignments, named_arguments
from llm_marl_envs.core.checks import check_types, refuse_unknown, suggestion
from llm_marl_envs.policies.named import Context, named_policy, named_team

MANY = [f"learning_rate_{i}" for i in range(30)] + ["lora_alpha", "alpha_pattern"]


def test_at_most_five_names_are_suggested():
    assert suggestion("learning_rate", MANY).count("learning_rate_") == 5
    assert suggestion("zzz", MANY) == ""
    assert suggestion("zzz", ["b", "a"]) == "; known: ['a', 'b']"
    assert suggestion("alpha", MANY) == "; did you mean 'lora_alpha' or 'alpha_pattern'?"


def test_what_is_meant_comes_first():
    with pytest.raises(ValueError, match=r"lora: unknown key 'rank'; did you mean 'r' or 'rank_"):
        refuse_unknown("lora", {"rank": 8}, ["r", "rank_pattern", "bias"], {"rank": "r"})
    with pytest.raises(ValueError, match="unknown key 7; the page lists them"):
        refuse_unknown("x", {7: 8}, MANY, listed="the page")
    refuse_unknown("x", {"lora_alpha": 1}, MANY)


@pytest.mark.parametrize(
    ("value", "hint", "fine"),
    [
        (1, int, True),
        (np.int64(1), int, True),
        (1.5, int, False),
        (True, int, False),
        ("1", int, False),
        (1, float, True),
        (np.float32(1), float, True),
        (True, float, False),
        (None, float, False),
        (None, float | None, True),
        (1, bool, False),
        ("a", str, True),
        (Path("a"), str, False),
        (["a"], list[str] | None, True),
        ("a", list[str] | None, False),
        ({}, dict[str, float], True),
        ([], dict[str, float], False),
        (object(), str | Path | None, True),  # a hint that is not looked at
        (object(), Any, True),
    ],
)
def test_types(value: Any, hint: Any, fine: bool):
    if fine:
        check_types("here", {"x": value}, {"x": hint})
    else:
        with pytest.raises(TypeError, match=r"here: x=.*: expected .*, got "):
            check_types("here", {"x": value}, {"x": hint})


# -- how much is quoted ---------------------------------------------------------------------------
@pytest.mark.parametrize("long", ["x" * 5_000, "ab " * 1_700], ids=["word", "words"])
def test_messages_quote_a_beginning(long: str) -> None:
    """Whatever is too long, of names, options, tasks and policies."""
    chosen, unknown = Context(env=make("debate-v0")), cast("Any", {long: 1})
    named: list[Any] = [
        lambda: make(long),
        lambda: make("debate-v0", split=long),
        lambda: make("debate-v0", **unknown),
        lambda: make("debate-v0", api=long),
        lambda: make("debate-v0").reset(options={"task": long}),
        *(
            lambda begin=begin: make("debate-v0", tasks=begin + long)
            for begin in ("", "bundled:", "generated:", "reasoning-gym:")
        ),
        lambda: make("math_team-v1", tools={"actor_0": [long]}),
        lambda: make("math_team-v1", tools={long: ["calculate"]}),
        lambda: make("debate-v0", memory={long: 1}),
        lambda: make("debate-v0", channel={"hears": {long: [long]}}),
        lambda: make("debate-v0", prompts={long: long}),
        lambda: make("debate-v0", prompts={"debater": "{" + long + "}"}),
        lambda: make("coop_writing_tldr-v0", tasks="bundled:writing_posts", reward=long),
        lambda: register(long, "a:b"),
        lambda: register("q-v0", long),
        *(
            lambda begin=begin: named_policy(begin + long, chosen)
            for begin in ("random:", "agreed:", "endpoint:", "relay:", "hub:", "./", "a/b/")
        ),
        lambda: named_policy(f"endpoint:http://127.0.0.1:9#m?{long}", chosen),
        lambda: named_team("random", chosen, {long: "random"}),
        lambda: assignments([long]),
        lambda: assignments([f"a=[{long}"]),
        lambda: assignments([f"{long}=1", f"{long}=2"]),
        lambda: named_arguments([long, long]),
    ]
    for ask in named:
        with pytest.raises((ValueError, TypeError, ImportError)) as caught:
            ask()
        assert long[:201] not in str(caught.value)
        assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("name", ["memory", "channel", "prompts", "tools"])
@pytest.mark.parametrize("key", [1, None, ("a",), date(2026, 1, 1)])
def test_options_of_wrappers_have_texts_as_keys(name: str, key: Any) -> None:
    wrong: dict[str, Any] = {name: {key: 1}}
    with pytest.raises(TypeError, match=f"{name}: expected texts as keys, got "):
        make("debate-v0", **wrong)
