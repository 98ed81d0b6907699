"""A tool and a planner in a grid: an episode with given texts, or with scripted experts."""

from __future__ import annotations

from typing import Any

from llm_marl_envs.envs.grids.base import PLANNER, TOOL


def play(env: Any, *texts: str, task: Any = 0) -> list[float]:
    """What the team is paid after each of the planner's texts; a text for each action."""
    env.reset(seed=0, options={"task": task})
    paid = []
    for text in texts:
        agent = env.agent_selection
        env.step(text)
        if agent == PLANNER:
            assert env.rewards[TOOL] == env.rewards[PLANNER]
            paid.append(env.rewards[PLANNER])
    return paid


def answers(env: Any, *plans: str, task: Any = 0) -> list[float]:
    """What the team is paid for answers with these words, the tool silent."""
    texts = [text for words in plans for text in ("", f"Answer: {words}")]
    return play(env, *texts, task=task)


def expert_return(env: Any, index: int, tool: str | None, planner: str) -> float:
    """The team's return where each seat follows its own convention; None: the tool is silent."""
    experts = env.experts()
    env.reset(seed=0, options={"task": index})
    total = 0.0
    while not any(env.terminations.values()):
        agent = env.agent_selection
        convention = tool if agent == TOOL else planner
        said = ""
        if convention:
            said = experts.reply(env.task, agent, convention, env.chat(agent))
        env.step(said)
        total += env.rewards[agent]
    return total
