"""coop_coding-v0 over several turns: gains, the early end, feedback and what it may reveal."""

from __future__ import annotations

import itertools

import pytest

from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.outcome import gains
from llm_marl_envs.core.spaces import Observation
from llm_marl_envs.envs.coding import feedback as words
from llm_marl_envs.envs.coding import rewards
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv

BROKEN = {HELPER: "def aux(x) return", MAIN: "def solve(xs:\n    return 1"}


def env_of(**kwargs: object) -> CoopCodingEnv:
    env = CoopCodingEnv(**{"turns": 3, **kwargs})  # type: ignore[arg-type]
    env.reset(seed=0, options={"task": 0})
    return env


def right(env: CoopCodingEnv) -> dict[str, str]:
    task = env.source[0]
    return {
        agent: experts_of(env).first(task, agent, experts_of(env).conventions(task)[0])
        for agent in (HELPER, MAIN)
    }


def play(env: CoopCodingEnv, joint_actions: list[dict[str, str]]) -> list[dict[str, float]]:
    """Reward terms of each turn."""
    env.reset(seed=0, options={"task": 0})
    terms = []
    for joint_action in joint_actions:
        terms.append(env.step(joint_action)[4][MAIN]["reward_terms"])
    return terms


@pytest.mark.parametrize("reward", ["tests", "contribution"])
def test_turns_pay_what_they_add(reward: str) -> None:
    env = env_of(reward=reward)
    good = right(env)
    half = {**good, HELPER: "def aux(x):\n    return 0"}
    terms = play(env, [BROKEN, half, good])
    assert sum(terms[0].values()) == 0.0
    assert terms[1]["structure"] == pytest.approx(0.1)
    assert terms[2]["structure"] == terms[2]["syntax"] == 0.0
    assert all(term >= 0 for term in terms[2].values())
    [at_once] = play(env, [good])
    for name in rewards.TERM_RANGES[reward]:
        assert sum(turn[name] for turn in terms) == pytest.approx(at_once[name])


def test_a_worse_revision_costs_what_it_lost() -> None:
    env = env_of()
    half = {**right(env), HELPER: "def aux(x):\n    return 0"}
    terms = play(env, [half, BROKEN, half])
    assert sum(terms[1].values()) == pytest.approx(-sum(terms[0].values()))
    assert sum(terms[2].values()) == pytest.approx(sum(terms[0].values()))


def test_solving_earlier_never_returns_less() -> None:
    levels = (0.0, 0.2, 0.5, 1.0)
    for turns in (2, 3, 4):
        for scores in itertools.product(levels, repeat=turns - 1):
            for solved_at in range(turns - 1):
                late = gains([*scores, 1.0])
                early = gains([*scores[:solved_at], 1.0])
                for discount in (0.0, 0.3, 0.9, 1.0):
                    value = [sum(r * discount**k for k, r in enumerate(g)) for g in (early, late)]
                    assert value[0] >= value[1] - 1e-12


def test_solving_earlier_in_the_environment() -> None:
    env = env_of()
    good = right(env)
    half = {**good, HELPER: "def aux(x):\n    return 0"}
    for discount in (0.0, 0.5, 0.9, 1.0):
        returns = [
            sum(discount**k * sum(terms.values()) for k, terms in enumerate(play(env, actions)))
            for actions in ([good], [half, good], [half, half, good], [BROKEN, BROKEN, good])
        ]
        assert returns[0] == max(returns)
        assert discount < 1 or returns == pytest.approx([1.0] * 4)


def test_the_paper_pays_each_turn_in_full() -> None:
    env = env_of(reward="paper")
    good = right(env)
    half = {**good, HELPER: "def aux(x):\n    return 0"}
    assert env.reward_range == (0.0, 12.0)
    first, second = play(env, [half, half])
    assert first == second
    assert first["structure"] == 1.0


def test_the_episode_ends_when_the_task_is_solved() -> None:
    env = env_of()
    _, _, terminations, truncations, infos = env.step(right(env))
    assert all(terminations.values())
    assert not any(truncations.values())
    assert env.agents == []
    assert infos[HELPER]["success"] is True
    with pytest.raises(RuntimeError, match="reset"):
        env.step(right(env))


def test_the_episode_ends_after_the_last_turn() -> None:
    env = env_of()
    for turn in range(3):
        _, _, terminations, _, infos = env.step(BROKEN)
        assert all(terminations.values()) is (turn == 2)
        assert infos[MAIN]["turn"] == turn + 1


# -- feedback -------------------------------------------------------------------------------------
def told(env: CoopCodingEnv, joint_action: dict[str, str]) -> dict[str, str]:
    """The last message of each agent after one turn."""
    observations: dict[str, Observation] = env.step(joint_action)[0]
    return {agent: seen.messages[-1].content for agent, seen in observations.items()}


def test_plain_feedback_tells_of_ones_own_syntax_and_of_nothing_else() -> None:
    env = env_of()
    assert env.feedback_mode == "plain"
    texts = told(env, BROKEN)
    own = "Your code does not parse: expected ':', line 1, column 12.\n"
    assert texts[HELPER] == own + words.REVISE
    assert texts[MAIN].startswith("Your code does not parse: '(' was never closed, line 1")
    wrong = {HELPER: "raise ValueError('a secret')", MAIN: "nothing"}
    assert set(told(env, wrong).values()) == {words.REVISE}
    assert CoopCodingEnv(info="full").feedback_mode == "diagnostics"


def test_diagnostics_say_where_the_syntax_broke() -> None:
    texts = told(env_of(feedback="diagnostics"), BROKEN)
    assert "Your code does not parse: expected ':', line 1, column 12." in texts[HELPER]
    assert "Your partner's code does not parse, line 1, column 10." in texts[HELPER]
    assert "'(' was never closed" not in texts[HELPER]
    assert "Your code does not parse: '(' was never closed, line 1, column 10." in texts[MAIN]


def test_diagnostics_name_missing_definitions_and_the_failing_test() -> None:
    env = env_of(feedback="diagnostics")
    texts = told(env, {**right(env), HELPER: "def aux(x):\n    pass"})
    assert "Your code defines no function aux that returns a value." in texts[HELPER]
    assert "Your code defines solve." in texts[MAIN]
    assert "of 8 tests passed. First failing test: assert solve(" in texts[MAIN]
    assert texts[MAIN].endswith(words.REVISE)


def test_diagnostics_show_what_was_returned() -> None:
    env = env_of(feedback="diagnostics")
    texts = told(env, {**right(env), MAIN: "def solve(xs):\n    return [12345]"})
    assert "returned [12345]." in texts[HELPER]


def test_partner_feedback_shows_the_code() -> None:
    env = env_of(feedback="partner")
    good = right(env)
    texts = told(env, {**good, MAIN: "def solve(xs):\n    return 12345"})
    assert "Your partner's code:\ndef solve(xs):\n    return 12345" in texts[HELPER]
    assert good[HELPER] in texts[MAIN]


SECRET = "the zup is a secret"


@pytest.mark.parametrize(
    ("helper", "main"),
    [
        ("def aux(*a):\n    raise ValueError('{s}')", "def solve(xs):\n    return aux(xs)"),
        ("def aux(*a):\n    return '{s}'", "def solve(xs):\n    return aux(xs)"),
        ("def aux(*a):\n    return ['{s}']", "def solve(xs):\n    return aux(xs)"),
        ("def aux(*a):\n    return '{s}'", "def solve(xs):\n    raise ValueError(aux(xs))"),
        (
            "def aux(*a):\n    return '{s}'",
            "raise ValueError(aux(1))\ndef solve(xs):\n    return 1",
        ),
        ("def aux(*a):\n    return '{s}'", "def solve(xs):\n    return type(aux(1), (), {{}})()"),
        ("raise ValueError('{s}')", "def solve(xs):\n    return 1"),
        ("'{s}' = 1", "def solve(xs):\n    return 1"),
        ("def aux(a, {s}):\n    return 1", "def solve(xs):\n    return 1"),
        (
            "class E(Exception):\n    pass\nE.__name__ = '{s}'\ndef aux(*a):\n    raise E",
            "def solve(xs):\n    return aux(xs)",
        ),
    ],
)
def test_under_split_no_text_of_the_partner_is_quoted(helper: str, main: str) -> None:
    env = env_of(feedback="diagnostics")
    joint_action = {HELPER: helper.format(s=SECRET), MAIN: main.format(s=SECRET)}
    assert SECRET not in told(env, joint_action)[MAIN]


def test_under_full_errors_are_shown_whole() -> None:
    env = env_of(info="full")
    helper = f"def aux(*a):\n    raise ValueError({SECRET!r})"
    assert SECRET in told(env, {HELPER: helper, MAIN: "def solve(xs):\n    return aux(xs)"})[MAIN]


@pytest.mark.parametrize(
    ("error", "public"),
    [
        ("AssertionError, solve returned 47", "returned 47"),
        ("AssertionError, solve returned [1, -2, ...]", "returned [1, -2, ...]"),
        ("AssertionError, solve returned None", "returned None"),
        ("AssertionError, solve returned 'text'", "returned something else"),
        ("AssertionError, solve returned [1, 'text']", "returned something else"),
        ("AssertionError, solve returned [<x>]", "returned something else"),
        ("TypeError: can only concatenate", "raised TypeError"),
        ("solve raised KeyError: 'secret'", "raised KeyError"),
        ("Secret: text", "an error"),
        ("", "an error"),
    ],
)
def test_what_is_public_in_an_error(error: str, public: str) -> None:
    assert words.public_error(error) == public


def test_feedback_is_bounded() -> None:
    env = env_of(feedback="partner")
    long = "def solve(xs):\n    return 0\n" + "# padding\n" * 800
    assert len(told(env, {**right(env), MAIN: long})[HELPER]) < 6000
