"""How often the solver of `solve_and_evaluate-v0` can be right: bounds of success."""

from __future__ import annotations

from llm_marl_envs.core.outcome import Bounds
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.debate.solve_and_evaluate import SolveAndEvaluateEnv
from llm_marl_envs.envs.questions import blind_guess, question_of


def accuracy_bounds(env: SolveAndEvaluateEnv, task: Task) -> Bounds:
    """Of a generated question: by a guess, by the solver alone, after evaluations."""
    question = question_of(task)
    solo = env.alone(question)
    told = not env.divided or (env.max_turns > 1 and bool(env.evaluators))
    return Bounds(random=blind_guess(question), solo=solo, team=1.0 if told else solo)
