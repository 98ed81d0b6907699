"""What seats are told of a question, and how its evidence is divided over them. Pure functions."""

from __future__ import annotations

from llm_marl_envs.core.checks import refuse_other
from llm_marl_envs.core.environment import INFOS
from llm_marl_envs.core.tasks import ListSource, TaskSource
from llm_marl_envs.envs.questions import Question, question_of


def check_info(info: str) -> str:
    """The argument `info`; raises `ValueError` where it is neither "split" nor "full"."""
    refuse_other("info", info, INFOS)
    return info


def info_of(info: str | None, source: TaskSource) -> str:
    """The argument `info`: None takes "split" where the questions bring evidence in parts.

    Rows are all looked at; of other sources, which may make questions when asked, the first.

    Raises:
        ValueError: neither "split" nor "full"; or a question has no evidence in parts, which
            "split" needs, while others have it or "split" was asked for. The row is named.
    """
    if info is not None and check_info(info) == "full":
        return info
    looked_at = len(source) if isinstance(source, ListSource) else 1
    divided = [len(question_of(source[i]).evidence) >= 2 for i in range(looked_at)]
    if info is None and not any(divided):
        return "full"
    if not all(divided):
        number = divided.index(False)
        task = source[number]
        raise ValueError(
            f"info='split' needs questions with evidence in parts, and task {task.id!r}, number "
            f"{number + 1} of {looked_at}, {question_of(task).text!r:.60}, has none; give each "
            "question a list of two or more texts as `evidence`, or use info='full'"
        )
    return "split"


def asked(question: Question, everything: bool) -> str:
    """The question and what everybody knows, one line each; with `everything` all evidence too."""
    known = [*question.shared, *(question.evidence if everything else ())]
    lines = [f"Question: {question.text}"]
    if known:
        lines += ["Everybody knows:", *known]
    return "\n".join(lines)


def share(question: Question, seat: int, seats: int) -> tuple[str, ...]:
    """The parts of the evidence that one of `seats` seats is told: every `seats`-th from its own.

    Raises:
        ValueError: the question's evidence is not in parts.
    """
    if len(question.evidence) < 2:
        raise ValueError(
            f"info='split' needs questions with evidence in parts, and {question.text!r:.60} "
            "has none; use info='full'"
        )
    return question.evidence[seat::seats]
