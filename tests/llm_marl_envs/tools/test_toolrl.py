"""What ToolRL pays for a call: by hand, never by default, and what it never asks."""

from __future__ import annotations

from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.play.testing import check_text_env
from llm_marl_envs.tools.calculate import Calculate
from llm_marl_envs.tools.toolrl import match

KNOWN = ("search", {"words": "red  river", "most": 3})
TOOLS: dict[str, Any] = {"actor": ["calculate"], "calls": 2, "scheme": "toolrl", "price": 0.5}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("search", {"words": "red river", "most": 3}, 3.0),
        ("search", {"words": "red river", "most": 4}, 6 * 3 / 4 - 3),
        ("search", {"words": "red river"}, 6 * 2.5 / 4 - 3),
        ("search", {"words": "red river", "most": 3, "more": 1}, 6 * (1 + 2 / 3 + 2) / 4 - 3),
        ("search", {"words": "x", "most": True}, 6 * 2 / 4 - 3),
        ("search", {}, 6 * 1 / 4 - 3),
        ("look_up", {"words": "red river", "most": 3}, -3.0),
        ("", {}, -3.0),
    ],
)
def test_a_match_by_hand(tool: str, arguments: dict[str, Any], expected: float) -> None:
    """S is 2 and one for each of two values."""
    assert match(tool, arguments, KNOWN) == pytest.approx(expected)


def test_a_call_without_arguments_and_one_that_nobody_asked_for() -> None:
    assert match("now", {}, ("now", {})) == 3.0
    assert match("now", {}, None) == -3.0


def after_the_cards(tools: dict[str, Any]) -> Any:
    env = make("math_team-v1", tools=tools)
    env.reset(seed=0, options={"task": 3})
    env.step("nothing")
    assert env.agent_selection == "actor_0"
    return env


def paid(env: Any, text: str) -> dict[str, float]:
    env.step(text)
    return env.infos["actor_0"]["reward_terms"]


def test_what_is_paid_beside_the_price() -> None:
    env = after_the_cards(TOOLS)
    ((tool, arguments),) = env.unwrapped.known_calls(env.unwrapped.task, "actor_0")
    right = f"Call: {tool}({arguments['expression']})"
    assert paid(env, right) == {"calls": -0.5, "format": 1.0, "match": 3.0}
    assert paid(env, right) == {"calls": -0.5, "format": 1.0, "match": -3.0}  # only one is known
    env = after_the_cards(TOOLS)
    assert paid(env, "Call: calculate(1 / 0)") == {"calls": -0.5, "format": 1.0, "match": 1.0}
    env = after_the_cards(TOOLS)
    assert paid(env, "Call: calculate({})") == {"calls": -0.5, "format": 0.0, "match": -1.0}
    env = after_the_cards(TOOLS)
    assert paid(env, "Call: calculate(1 + 1)") == {"calls": -0.5, "format": 1.0, "match": 1.0}
    assert paid(env, "Call: fly(1 + 1)") == {"calls": -0.5, "format": 0.0, "match": -3.0}


def test_the_known_call_of_every_level_gives_the_answer() -> None:
    for level in (1, 2):
        env: Any = make("math_team-v1", level=level).unwrapped
        for index in range(0, 400, 20):
            task = env.source[index]
            ((_, arguments),) = env.known_calls(task, "actor_0")
            value = Calculate(env).call(arguments, task, None)  # type: ignore[arg-type]
            assert env.is_right(task, value.split(",")[0])
        assert env.known_calls(env.source[0], "reasoner_0") == ()


def test_it_is_never_the_default_and_pays_for_a_wrong_answer() -> None:
    """By the default a wrong answer after a perfect call earns less than a right one without."""
    env = after_the_cards({**TOOLS, "scheme": "price"})
    assert paid(env, "Call: calculate(6 / 3)") == {"calls": -0.5}
    earned = []
    for scheme in ("price", "toolrl"):
        env = after_the_cards({**TOOLS, "scheme": scheme})
        ((_, arguments),) = env.unwrapped.known_calls(env.unwrapped.task, "actor_0")
        total = sum(paid(env, f"Call: calculate({arguments['expression']})").values())
        earned.append(total + sum(paid(env, "Answer: -7").values()))
    assert earned == [-0.5, 3.5]  # a right answer without a call earns 1


def test_returns_stay_in_the_declared_range_and_others_are_refused() -> None:
    env = make("math_team-v1", tools=TOOLS)
    assert env.unwrapped.reward_range == (-7.0, 9.0)
    check_text_env(lambda: make("math_team-v1", tools=TOOLS))
    with pytest.raises(ValueError, match=r"scheme=.*knows no calls.*leave the scheme out"):
        make("debate-v0", tools={"debater_0": ["calculate"], "scheme": "toolrl"})
    with pytest.raises(ValueError, match="scheme"):
        make("math_team-v1", tools={**TOOLS, "scheme": "format"})
