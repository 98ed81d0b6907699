"""Measuring teams: held-out tasks, intervals, comparisons, and whether a team is coordinated."""

from llm_marl_envs.measure.numbers.coordination import (
    CooperationIndex,
    Coordination,
    cooperation_index,
    measure_coordination,
)
from llm_marl_envs.measure.numbers.results import TeamResult, read_result, result_to_dict
from llm_marl_envs.measure.runner import Plan, evaluate_team, run_plan

__all__ = [
    "CooperationIndex",
    "Coordination",
    "Plan",
    "TeamResult",
    "cooperation_index",
    "evaluate_team",
    "measure_coordination",
    "read_result",
    "result_to_dict",
    "run_plan",
]
