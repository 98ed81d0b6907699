"""Questions with one verifiable answer: generated ones, rows of files and data sets.

Generated questions bring evidence in parts: each part beside what everybody knows points to a wrong
answer or to none, all parts together decide; in some kinds fewer do. What a team does with them is
an environment's rule.
"""

from llm_marl_envs.core.answers import canonical, read_answer, same_answer
from llm_marl_envs.envs.questions.kinds import KINDS, Kind, blind_guess
from llm_marl_envs.envs.questions.question import Question, is_right, question_of, task_of
from llm_marl_envs.envs.questions.source import ProceduralQuestions, question_tasks
from llm_marl_envs.envs.questions.stats import constant_accuracy

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
