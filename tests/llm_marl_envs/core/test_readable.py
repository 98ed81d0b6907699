"""Which actions every environment counts as unreadable: those that lack the form it asked for."""

from __future__ import annotations

import pytest

from llm_marl_envs import make
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.policies import RandomPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

# (environment, arguments, seats that play at random beside experts, unreadable, format success)
FORMS = [
    ("coop_coding-v0", {}, (), 0.0, 1.0),
    ("coop_coding-v0", {}, ("helper_0",), 0.5, 0.0),
    ("debate-v0", {}, (), 0.0, 1.0),
    ("debate-v0", {}, ("debater_1",), 1 / 3, 0.0),
    ("solve_critique_refine-v0", {"n_agents": 4}, (), 0.0, 1.0),
    ("solve_critique_refine-v0", {}, ("critic_0",), 0.0, 1.0),
    ("solve_critique_refine-v0", {}, ("generator_0",), 0.5, 0.0),
    ("solve_and_evaluate-v0", {}, (), 0.0, 1.0),
    ("solve_and_evaluate-v0", {}, ("evaluator_0",), 0.0, 1.0),
    ("solve_and_evaluate-v0", {}, ("scorer_0",), 0.5, 0.0),
    ("solve_and_evaluate-v0", {}, ("solver_0", "scorer_0"), 1.0, 0.0),
    ("solve_and_evaluate-v0", {"ablate": "scoring"}, ("evaluator_0",), 0.5, 0.0),
    ("debate_pro_con-v0", {}, (), 0.0, 1.0),
    ("debate_pro_con-v0", {"judge": "seats"}, ("judge_1",), 0.5, 0.0),
    ("debate_pro_con-v0", {"judge": "scripted"}, (), None, None),
    ("coop_writing_tldr-v0", {}, ("brief_0",), None, None),
    ("coop_writing_tldr-v0", {"protocol": "pipeline", "turns": 2}, (), None, None),
]


@pytest.mark.parametrize(("env_id", "kwargs", "junk", "unreadable", "well_formed"), FORMS)
def test_format_success_in_every_environment(env_id, kwargs, junk, unreadable, well_formed):
    env = make(env_id, **kwargs)
    expert, random = ExpertPolicy(env), RandomPolicy()
    seats = {agent: random if agent in junk else expert for agent in env.possible_agents}
    faults = evaluate_team(env, seats, n_tasks=6).faults
    assert faults.unreadable_actions == (unreadable and pytest.approx(unreadable))
    assert faults.format_success == well_formed
