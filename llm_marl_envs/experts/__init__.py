"""Scripted experts: what they can do, the policy that plays them, what they show."""

from llm_marl_envs.experts.policy import AgreedPolicy, ExpertPolicy
from llm_marl_envs.experts.protocol import (
    Demonstration,
    Experts,
    ListeningExperts,
    experts_of,
    find_experts,
    text_env,
)

__all__ = [
    "AgreedPolicy",
    "Demonstration",
    "ExpertPolicy",
    "Experts",
    "ListeningExperts",
    "experts_of",
    "find_experts",
    "text_env",
]
