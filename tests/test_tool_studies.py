"""The studies of tools, pipelines and notes: their exact numbers by other ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from llm_marl_envs.core.seeds import Start, derive_seed
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from trainers.studies.credit_audit import group_of

pytestmark = pytest.mark.full  # `make test-all` runs it


@pytest.fixture
def pipeline(bench_module: Callable[[str], Any]) -> Any:
    return bench_module("pipeline")


@pytest.fixture
def forgetting(bench_module: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    module = bench_module("forgetting")
    monkeypatch.setattr(module, "MEASURED", 200)
    return module


def test_the_exact_success_is_that_of_episodes(pipeline: Any) -> None:
    seats = pipeline.Seats(7)
    exact = pipeline.success(pipeline.exact(seats))
    copies = VectorTextEnv([pipeline.make("retrieve_pipeline-v0", houses=5) for _ in range(8)])
    starts = [Start(task=n, seed=n, sample_seed=derive_seed("test", n)) for n in range(1200)]
    policies: Any = dict.fromkeys(pipeline.SEATS, seats)
    episodes = rollout(copies, policies, starts)
    played = np.mean([bool(episode.success) for episode in episodes])
    assert abs(played - exact) < 4 * (exact * (1 - exact) / len(starts)) ** 0.5


def test_ceilings_by_hand(pipeline: Any) -> None:
    """Beside two seats of 0.5 for each order all that a third can do is to take one of them."""
    even = np.array([0.5, 0.5])
    shares = {
        pipeline.REWRITER: even,
        pipeline.SELECTOR: np.array([[0.5, 0.0], [0.5, 0.0]]),
        pipeline.GENERATOR: even,
    }
    assert pipeline.success(shares) == pytest.approx(0.25)
    ceilings = [pipeline.ceiling(shares, arm) for arm in pipeline.ARMS]
    assert ceilings == pytest.approx([0.25] * 3 + [0.5] * 3 + [1.0])


def test_signs_by_hand(pipeline: Any) -> None:
    assert pipeline.p_of([0.1] * 5) == 1 / 32
    assert pipeline.p_of([0.1, -0.1]) == 3 / 4
    arms = [{"arm": [*arm], "seed": 0, "success": 0.0} for arm in pipeline.ARMS]
    assert len(pipeline.contrasts(arms)) == 9


def test_scripted_notes_keep_what_they_must(forgetting: Any) -> None:
    """Only notes that know what will be needed keep it; the last two facts need none."""
    fresh = forgetting.Keeper()

    class Right(forgetting.Keeper):
        def of(self, seen: Any) -> np.ndarray:
            asked = forgetting.animal_of(forgetting.OPENING, seen.messages[0].content)
            own = [
                forgetting.animal_of(forgetting.FACT, f) == asked for f in forgetting.in_view(seen)
            ]
            chances = np.array(own, dtype=float) if any(own) else np.ones(len(own))
            return chances / chances.sum()

    right = Right()
    rules = {name: forgetting.Script(rule) for name, rule in forgetting.RULES.items()}
    needed = forgetting.shares(forgetting.Parts(rules["the fact that will be needed"], right))
    first = forgetting.shares(forgetting.Parts(rules["the first characters in view"], right))
    assert needed["all"] == 1.0
    assert (first["1"], first["7"], first["8"]) == (1.0, 1.0, 1.0)
    assert max(first[str(turn)] for turn in range(2, 7)) == 0.0
    assert forgetting.shares(fresh)["early"] < 0.2


def test_the_slope_of_a_fact_in_view(forgetting: Any) -> None:
    """Against finite differences of the log-probability."""
    keeper = forgetting.Keeper()
    env = forgetting.bed()
    (episode,) = rollout(VectorTextEnv([env]), {forgetting.SEAT: keeper}, [Start(task=3, seed=1)])
    turn = next(t for t in episode.turns if forgetting.table_of(t) == forgetting.NOTES)
    weighed = np.zeros((1, 1, 1, len(episode.turns)))
    weighed[0, 0, 0, turn.index] = 2.0
    slopes = keeper.slopes([group_of([episode])], weighed, [forgetting.SEAT])
    asked = forgetting.animal_of(forgetting.OPENING, turn.messages[0].content)
    key = forgetting.NOTES, asked
    place = (turn.response.completion_ids or (-1,))[0]
    for animal in range(len(forgetting.ANIMALS)):
        values = []
        for change in (1e-5, -1e-5):
            keeper.logits[key] = np.zeros(len(forgetting.ANIMALS))
            keeper.logits[key][animal] = change
            values.append(np.log(keeper.of(turn)[place]))
        assert slopes[key][animal] == pytest.approx(2 * (values[0] - values[1]) / 2e-5, abs=1e-6)


def test_a_placebo_is_a_result_of_another_task(bench_module: Callable[[str], Any]) -> None:
    tool_use = bench_module("tool_use")
    shown = tool_use.demonstrations(4)
    assert shown[0][1].startswith("Call: calculate(")
    assert shown[1][1].startswith("Answer: ")
    messages = [Message(**message) for message in shown[1][0]]
    assert messages[-1].content.startswith("Result of calculate:")
    results = {}
    for arm, tool in tool_use.ARMS.items():
        if tool is None:
            continue
        env = tool_use.env_of(tool)
        told = []
        for index in range(10):
            env.reset(seed=0, options={"task": index})
            env.step("1 2 3 4")
            ((_, arguments),) = env.unwrapped.known_calls(env.unwrapped.task, tool_use.ACTOR)
            env.step(f"Call: calculate({arguments['expression']})")
            told.append(env.observe(tool_use.ACTOR).messages[-1].content.splitlines()[1])
        results[arm] = told
    assert results["empty"] == ["> "] * 10
    same = [a == b for a, b in zip(results["real"], results["exchanged"], strict=True)]
    assert sum(same) <= 3
