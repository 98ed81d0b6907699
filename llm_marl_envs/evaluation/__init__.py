"""Measuring teams: held-out tasks, intervals, and whether a team is coordinated."""

from llm_marl_envs.evaluation.coordination import (
    CooperationIndex,
    Coordination,
    cooperation_index,
    measure_coordination,
)
from llm_marl_envs.evaluation.runner import TeamResult, evaluate_team

__all__ = [
    "CooperationIndex",
    "Coordination",
    "TeamResult",
    "cooperation_index",
    "evaluate_team",
    "measure_coordination",
]
