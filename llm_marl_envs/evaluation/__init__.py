"""Measuring teams: held-out tasks, intervals, and whether a team is coordinated."""

from llm_marl_envs.evaluation.coordination import Coordination, measure_coordination
from llm_marl_envs.evaluation.runner import TeamResult, evaluate_team

__all__ = ["Coordination", "TeamResult", "evaluate_team", "measure_coordination"]
