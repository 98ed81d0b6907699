"""Questions with one verifiable answer: generated ones, rows of files and data sets.

Generated questions bring evidence in parts: each part beside what everybody knows points to a wrong
answer or to none, all parts together decide; in some kinds fewer do. What a team does with them is
an environment's rule.
"""

from llm_marl_envs.core.answers import canonical, read_answer, same_answer
from llm_marl_envs.envs.questions.guessing import blind_guess, constant_accuracy
from llm_marl_envs.envs.questions.kind import Kind
from llm_marl_envs.envs.questions.kinds import KINDS
from llm_marl_envs.envs.questions.question import Question, is_right, question_of, task_of
from llm_marl_envs.envs.questions.source import ProceduralQuestions, question_tasks

__all__ = [
    "KINDS",
    "Kind",
    "ProceduralQuestions",
    "Question",
    "blind_guess",
    "canonical",
    "constant_accuracy",
    "is_right",
    "question_of",
    "question_tasks",
    "read_answer",
    "same_answer",
    "task_of",
]
