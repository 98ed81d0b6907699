"""Reward functions of TRL's and of verifiers' form as a one-seat environment."""

from __future__ import annotations

from typing import Any

import pytest
from trl.rewards.format_rewards import think_format_reward

from llm_marl_envs.bridges.reward_function import RewardFunctionEnv
from llm_marl_envs.play.testing import check_text_env

ROWS = [
    {"prompt": "2 + 2?", "answer": "4"},
    {"prompt": [{"role": "system", "content": "Short."}, {"role": "user", "content": "1 + 1?"}]},
]


def right(completion: Any, answer: str = "2") -> float:
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return float(text.strip() == answer)


def short(prompts: Any, completions: Any, **columns: Any) -> list[float]:
    assert all(len(column) == len(completions) == 1 for column in (prompts, *columns.values()))
    return [-0.5 if len(str(completion)) > 30 else 0.0 for completion in completions]


def made(**changes: Any) -> RewardFunctionEnv:
    return RewardFunctionEnv(
        **{"rows": ROWS, "rewards": [right, short], "reward_range": (-0.5, 1.0), **changes}
    )


def paid(env: RewardFunctionEnv, task: int, text: str) -> tuple[float, dict[str, float]]:
    env.reset(options={"task": task})
    _, rewards, ended, _, infos = env.step({"writer_0": text})
    assert ended["writer_0"]
    return rewards["writer_0"], infos["writer_0"]["reward_terms"]


def test_contract():
    check_text_env(made, seeds=(0,))


@pytest.mark.parametrize(
    ("task", "text", "terms"),
    [
        (0, "4", {"right": 1.0, "short": 0.0}),
        (0, "5" * 50, {"right": 0.0, "short": -0.5}),
        (1, "2", {"right": 1.0, "short": -0.5}),  # a chat, whose form is longer than 30 characters
    ],
)
def test_both_forms(task: int, text: str, terms: dict[str, float]):
    assert paid(made(), task, text) == (sum(terms.values()), terms)


def test_a_reference_completion_is_not_what_was_written():
    def both(completions: Any, **columns: Any) -> list[float]:
        assert not columns.keys() & {"completion", "completions", "prompt"}
        return [float(completion == "4") for completion in completions]

    rows = [{"prompt": "2 + 2?", "completion": "4", "completions": "4", "answer": "4"}]
    env = made(rows=rows, rewards=[right, both])
    assert paid(env, 0, "5") == (0.0, {"right": 0.0, "both": 0.0})
    assert paid(env, 0, "4")[0] == 2.0


def test_functions_that_trl_ships():
    rows = [{"prompt": [{"role": "user", "content": "2 + 2?"}], "solution": r"\boxed{4}"}]
    env = made(rows=rows, rewards=[think_format_reward], reward_range=(0.0, 1.0))
    assert paid(env, 0, "<think>\neasy\n</think>\n4")[0] == 1.0
    assert paid(env, 0, "4")[0] == 0.0


def test_none_counts_nothing_and_nan_is_an_error():
    assert paid(made(rewards={"none": lambda completion: None}), 0, "x") == (0.0, {"none": 0.0})
    with pytest.raises(ValueError, match=r"'bad', task 'train/0': expected a finite number"):
        paid(made(rewards={"bad": lambda completion: float("nan")}), 0, "x")


def test_functions_that_give_something_else():
    async def later(completion: str) -> float:
        return 1.0

    with pytest.raises(ValueError, match=r"\['later'\]: .* got `async def`; wrap each"):
        made(rewards=[later])
    with pytest.raises(TypeError, match=r"'one': expected a list of one value .* got 0\.5"):
        paid(made(rewards={"one": lambda completions: 0.5}), 0, "x")


def test_rows_and_functions_that_cannot_be():
    with pytest.raises(ValueError, match=r"row train/0: expected a `prompt`, got \['answer'\]"):
        made(rows=[{"answer": "4"}])
    for rewards in ([], [right, right]):
        with pytest.raises(ValueError, match="expected at least one, each of another name"):
            made(rewards=rewards)
