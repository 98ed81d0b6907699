"""Environments of somebody else, plain PettingZoo and bare strings, are trained and learn.

`Growing` sends all that was said so far, so each observation extends the one before; `Brief` sends
a new line each time. Both are written without anything of this library, both pay an agent for
lower-case letters, which an untrained policy can improve on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pettingzoo import AECEnv, ParallelEnv
from support.models import make_trainer
from support.strangers import SPACE, Growing, pay

from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.runner import Plan, run_plan
from llm_marl_envs.policies import ScriptedPolicy

pytestmark = pytest.mark.full  # `make test-all` runs it


class Brief(AECEnv):
    """Two agents in turn, two rounds; each sees a line that says where it is."""

    metadata = {"name": "brief"}  # noqa: RUF012 - as PettingZoo declares it

    def __init__(self) -> None:
        self.possible_agents = ["ann", "bob"]

    def observation_space(self, agent: str) -> Any:
        return SPACE

    def action_space(self, agent: str) -> Any:
        return SPACE

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "ann"
        self.count = 0

    def observe(self, agent: str) -> str:
        return f"Round {self.count // 2}. Write, {agent}."

    def step(self, action: str | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self.count += 1
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self.rewards[agent] = pay(action or "")
        self.agent_selection = "bob" if agent == "ann" else "ann"
        if self.count == 4:
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()


class Leaver(ParallelEnv):
    """`ann` speaks once and leaves; what she said decides what `bob` is paid a turn later.

    Its attributes have names that this library uses for other things.
    """

    metadata = {"name": "leaver"}  # noqa: RUF012 - as PettingZoo declares it
    possible_agents = ["ann", "bob"]  # noqa: RUF012 - of the class, as some write it
    source = "a wiki"
    env_kwargs = None

    def max_turns(self) -> int:
        return 2

    def observation_space(self, agent: str) -> Any:
        return SPACE

    def action_space(self, agent: str) -> Any:
        return SPACE

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        return dict.fromkeys(self.agents, "Write."), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, str]) -> Any:
        present = self.agents
        if "ann" in present:
            self.first = pay(actions["ann"])
            rewards, over = {"ann": 0.0, "bob": 0.0}, {"ann": True, "bob": False}
        else:
            rewards, over = {"bob": self.first}, {"bob": True}
        self.agents = [agent for agent in present if not over[agent]]
        return (
            dict.fromkeys(present, "Write."),
            rewards,
            over,
            dict.fromkeys(present, False),
            {agent: {} for agent in present},
        )


def test_an_agent_that_leaves_is_credited_with_what_its_team_earns_later(tmp_path: Path):
    trainer = make_trainer(
        tmp_path, Leaver, adapters=False, max_steps=16, num_generations=16, rows_per_micro_batch=64
    )
    groups = trainer.collector.play(0, trainer.seating)
    inputs, _ = trainer.collector.judge(0, groups)
    episode = groups[0].episodes[0]
    later = episode.trajectory("bob")[1].reward
    # Returns of ann, of bob's first turn and of his second: half of what bob got, for the two.
    assert inputs.returns[0, 0].tolist() == [[later / 2, 0.0], [later / 2, later / 2]]
    assert episode.team_return == later / 2
    trainer.train()
    rewards = [log["reward"] for log in trainer.state.log_history if "reward" in log]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.05


# Every pair of env, context and credit in the default run, every triple in the long one.
@pytest.mark.parametrize(
    ("env", "context", "credit"),
    [
        (Growing, "append", "team"),
        (Growing, "fresh", "own"),
        (Brief, "append", "own"),
        (Brief, "fresh", "team"),
        pytest.param(Growing, "append", "own", marks=pytest.mark.long),
        pytest.param(Growing, "fresh", "team", marks=pytest.mark.long),
        pytest.param(Brief, "append", "team", marks=pytest.mark.long),
        pytest.param(Brief, "fresh", "own", marks=pytest.mark.long),
    ],
)
def test_it_learns(tmp_path: Path, env: Any, context: str, credit: str):
    trainer = make_trainer(
        tmp_path,
        env,
        adapters=False,
        context=context,
        credit=credit,
        max_turns=2,
        max_steps=12,
        num_generations=16,
        rows_per_micro_batch=64,
    )
    trainer.train()
    rewards = [log["reward"] for log in trainer.state.log_history if "reward" in log]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2


@pytest.mark.parametrize("env", [Growing, Brief])
def test_what_an_agent_is_shown(tmp_path: Path, env: Any):
    """Appended: one dialogue, of which only what is new was added; fresh: one message a turn."""

    def texts(context: str) -> list[list[str]]:
        trainer = make_trainer(tmp_path, env, context=context, max_turns=2)
        episode = trainer.collector.play(0, trainer.seating)[0].episodes[0]
        return [[m.content for m in turn.messages] for turn in episode.trajectory("ann")]

    first, second = texts("append")
    action = second[1]
    if env is Growing:
        assert first == ["Write."]
        assert second[0] == "Write."
        assert second[2].startswith(f"\n{action} ")
        assert not second[2].startswith("Write.")
        assert texts("fresh")[1][0].startswith(f"Write.\n{action} ")
    else:
        assert first == ["Round 0. Write, ann."]
        assert second == ["Round 0. Write, ann.", action, "Round 1. Write, ann."]
        assert texts("fresh") == [["Round 0. Write, ann."], ["Round 1. Write, ann."]]


def test_a_growing_dialogue_is_one_row_and_a_fresh_one_is_two(tmp_path: Path):
    for context, rows in (("append", 8), ("fresh", 16)):
        trainer = make_trainer(tmp_path, Brief, context=context, max_turns=2)
        labels = [x for b in trainer._new_batches() if b["policy"] == "ann" for x in b["labels"]]
        assert len(labels) == rows


def test_more_turns_than_expected_are_said(tmp_path: Path):
    trainer = make_trainer(tmp_path, Brief, context="fresh")
    with pytest.warns(UserWarning, match="set max_turns"):
        trainer._new_batches()


def test_attributes_of_strangers_are_not_taken_for_ours():
    """`Leaver` has a `source`, `env_kwargs` and `max_turns` that mean something else."""
    says = ScriptedPolicy(lambda request: "abc")
    team: dict[str, Any] = {"ann": says, "bob": says}
    result = evaluate_team(Leaver, team, n_tasks=2)
    assert result.mean_return == 0.5
    assert result.episodes[0].env_kwargs == {}
    with pytest.raises(ValueError, match="no task source"):
        evaluate_team(Leaver, team)


def test_a_stranger_s_evaluation_is_resumed_like_any_other(tmp_path: Path):
    says = ScriptedPolicy(lambda request: "abc")
    team: dict[str, Any] = {"ann": says, "bob": says}
    first = run_plan(Leaver, team, Plan(n_tasks=2), folder=tmp_path, identity={"team": "abc"})
    again = run_plan(Leaver, team, Plan(n_tasks=2), folder=tmp_path, identity={"team": "abc"})
    assert again.episodes == first.episodes
