"""What an episode tells of a society, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llm_marl_envs.core.records import Episode, Response, StopReason, Turn
from llm_marl_envs.measure.numbers.results import result_to_dict, summarise
from llm_marl_envs.measure.numbers.society import (
    efficiency,
    gini,
    inequality,
    over_use,
    rounds_of,
    survival,
    tipped,
    tipping,
)


def made(agent: str, index: int, reward: float, info: dict[str, Any]) -> Turn:
    return Turn(
        agent=agent,
        index=index,
        messages=(),
        response=Response(text="1"),
        reward=reward,
        info=info,
    )


def episode(*rounds: tuple[bool, ...], pay: tuple[float, ...] = (1.0, 1.0)) -> Episode:
    """Two seats that talk, then act in each round; each action pays as much."""
    turns = []
    for k, row in enumerate(rounds):
        info: dict[str, Any] = {"optimum": 4.0, "survival": 0.5}
        for agent, bad, paid in zip(("a_0", "b_0"), row, pay, strict=True):
            facts = {**info, "over_use": bad}
            turns += [made(agent, 2 * k, 0.0, {}), made(agent, 2 * k + 1, paid, facts)]
    return Episode(
        env_id="e",
        env_kwargs={},
        task_id="t",
        seed=0,
        agents=("a_0", "b_0"),
        turns=tuple(turns),
        stop_reason=StopReason.TERMINATED,
        success=None,
    )


T, F = True, False


@pytest.mark.parametrize(
    ("rounds", "share", "at"),
    [
        ([(F, F), (F, F)], 0.0, None),
        ([(F, F), (T, F)], 0.25, 2.0),
        ([(T, T), (F, F), (T, T)], 2 / 3, 3.0),
        ([(T, T), (T, T)], 1.0, 1.0),
        ([(T, T), (F, F)], 0.5, None),
    ],
)
def test_over_use_and_tipping(rounds: list[tuple[bool, ...]], share: float, at: float | None):
    one = episode(*rounds)
    assert rounds_of(one) == [[*row] for row in rounds]
    assert over_use(one) == pytest.approx(share)
    assert tipping(one) == at
    assert tipped(one) == float(at is not None)


def test_survival_and_efficiency():
    one = episode((F, F), (F, F), pay=(3.0, 1.0))
    assert survival(one) == 0.5
    assert efficiency(one) == pytest.approx((6 + 2) / 2 / 4)


def test_gini():
    assert gini([1, 1, 1]) == 0
    assert gini([0, 0, 0, 8]) == pytest.approx(3 / 4)
    assert gini([1, 3]) == pytest.approx(0.25)
    assert gini([2, -1]) is None
    assert gini([1, -1e-18]) == pytest.approx(0.5)  # sums of pay that are 0 but for rounding
    assert gini([0, 0]) is None
    assert gini([]) is None
    assert inequality(episode((F, F), pay=(1.0, 3.0))) == pytest.approx(0.25)


def test_an_episode_of_no_society_has_none_of_these():
    silent = episode()
    measures = (over_use, tipping, tipped, survival, efficiency, inequality)
    assert [measure(silent) for measure in measures] == [None] * 6
    assert "society" not in result_to_dict(summarise([silent], 1))


def test_a_summary_holds_means_of_the_episodes_that_say():
    played = [episode((F, F), (T, T)), episode((F, F), (F, F))]
    assert result_to_dict(summarise(played, 1))["society"] == {
        "survival": 0.5,
        "efficiency": 0.5,
        "gini": 0.0,
        "over_use": 0.25,
        "tipping": 2.0,
        "tipped": 0.5,
    }


def test_an_episode_that_failed_counts_as_the_worst() -> None:
    """Wherever it failed: were it left out, a crash would be a way to last."""
    lasting = episode((F, F), (F, F))
    ended: dict[str, Any] = {"stop_reason": StopReason.FAILED, "failure": "x", "floor": 0.0}
    for turns in (lasting.turns, lasting.turns[:1]):  # after amounts were named, and before
        failed = replace(lasting, turns=turns, **ended)
        society = summarise([lasting, failed], 1).society
        assert society["survival"] == pytest.approx(0.5 / 2)
        assert society["efficiency"] == pytest.approx((efficiency(lasting) or 0) / 2)
