"""Policies: what plays a seat."""

from llm_marl_envs.policies.base import Policy, Team, check_team
from llm_marl_envs.policies.endpoint import EndpointError, EndpointPolicy
from llm_marl_envs.policies.human import HumanPolicy
from llm_marl_envs.policies.scripted import RandomPolicy, ScriptedPolicy

__all__ = [
    "EndpointError",
    "EndpointPolicy",
    "HumanPolicy",
    "Policy",
    "RandomPolicy",
    "ScriptedPolicy",
    "Team",
    "check_team",
]
