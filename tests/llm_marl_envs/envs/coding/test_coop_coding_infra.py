"""coop_coding-v0 where the sandbox cannot run anything: no reward is made up."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.coding import attempt
from llm_marl_envs.envs.coding.coop_coding import CoopCodingEnv
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.sandbox import InfraError, Sandbox, Verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")


class Flaky(Sandbox):
    """Cannot run anything the first `failures` times; raises, or masks, as it was made to."""

    failures = 0

    def check(self, *args: Any, **kwargs: Any) -> Any:
        if self.failures <= 0:
            return super().check(*args, **kwargs)
        self.failures -= 1
        if self.on_infra == "raise":
            raise InfraError("a run failed twice")
        return Verdict("infra_error", 0, 0, "a run failed twice", None, (), 0.0, 0.0, 0.0)


@pytest.mark.parametrize("on_infra", ["raise", "mask"])
@pytest.mark.parametrize("reward", ["tests", "contribution"])
def test_a_failure_of_the_sandbox_is_no_reward(
    monkeypatch: pytest.MonkeyPatch, on_infra: Any, reward: str
) -> None:
    """Neither 0 nor the end of a run: tried again, then an error that names the task."""
    monkeypatch.setattr(attempt, "PAUSES", (0.0, 0.0))
    copies = VectorTextEnv([CoopCodingEnv(info="full", reward=reward) for _ in range(2)])
    env = copies.envs[0]
    task = env.source[0]
    convention = experts_of(env).conventions(task)[0]
    policy = ScriptedPolicy(lambda request: experts_of(env).first(task, request.agent, convention))
    seats = dict.fromkeys(env.possible_agents, policy)
    starts = [Start(task=0), Start(task=0)]
    with Sandbox(workers=1) as sound:
        for one in copies.envs:
            one.sandbox = sound
        wanted = [e.turns[0].reward for e in rollout(copies, seats, starts)]
    for failures in (2, 10**6):
        with Flaky(workers=1, on_infra=on_infra, cache=0) as flaky:
            flaky.failures = failures
            for one in copies.envs:
                one.sandbox = flaky
            if failures == 2:
                episodes = rollout(copies, seats, starts)
                assert [e.turns[0].reward for e in episodes] == wanted
                continue
            with pytest.raises(InfraError, match=rf"{re.escape(task.id)}.*failed 3 times"):
                rollout(copies, seats, starts)
    copies.close()
