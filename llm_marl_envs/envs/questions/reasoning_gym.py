"""Questions of reasoning-gym's sets: those with one short answer, compared by our own rule.

Only the sets of `ALLOWED` can be named. reasoning-gym's scorers are never called: nine of them
execute the text of an answer, and its default one pays for an answer that merely contains the right
one. Needs the extra `reasoning-gym` (Apache-2.0).
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from llm_marl_envs.core.answers import MAX_ANSWER_CHARS, can_be_given
from llm_marl_envs.core.tasks import ListSource, Task, split_of_row
from llm_marl_envs.envs.questions.question import Question, task_of

ALLOWED = (
    *("aiw", "calendar_arithmetic", "chain_sum", "color_cube_rotation", "count_bits"),
    *("course_schedule", "family_relationships", "gcd", "gsm_symbolic"),
    *("isomorphic_strings", "lcm", "leg_counting", "letter_counting", "needle_haystack"),
    *("products", "ransom_note", "self_reference", "simple_equations"),
)
"""Sets whose answers are one number or one word, none right for more than 55 % of questions."""
SIZES = {"train": 1024, "val": 128, "test": 256}
MAX_DRAWS = 20_000
"""Questions looked at; a set with fewer different ones gives smaller splits."""


@lru_cache(maxsize=16)
def gym_questions(name: str, split: str) -> ListSource:
    """The questions of one set and split; splits are disjoint by the text of the question.

    Raises:
        ValueError: the set is not allowed, or there is no such split.
        ImportError: reasoning-gym is not installed.
    """
    if name not in ALLOWED:
        raise ValueError(f"tasks='reasoning-gym:{name:.80}': expected one of the sets {ALLOWED}")
    if split not in SIZES:
        raise ValueError(f"split {split!r}: reasoning-gym's sets have {tuple(SIZES)}")
    try:
        package: Any = import_module("reasoning_gym")
    except ImportError as error:
        raise ImportError(
            "tasks='reasoning-gym:...' needs the extra: pip install 'llm-marl-envs[reasoning-gym]'"
        ) from error
    drawn = package.create_dataset(name, seed=0, size=MAX_DRAWS)
    tasks: dict[str, Task] = {}
    for index in range(MAX_DRAWS):
        if len(tasks) == SIZES[split]:
            break
        question = _question(name, drawn[index])
        identity = question.identity()
        if split_of_row({}, identity) == split and identity not in tasks:
            tasks[identity] = task_of(question, f"{name}/{index}", split)
    return ListSource(list(tasks.values()), split)


def _question(name: str, item: Any) -> Question:
    answer = str(item["answer"]).strip()
    if "\n" in answer or len(answer) > MAX_ANSWER_CHARS or not can_be_given(answer):
        raise ValueError(f"reasoning-gym:{name}: answer {answer!r:.80} is not one short line")
    return Question(kind=name, level=0, text=str(item["question"]).strip(), answer=answer)
