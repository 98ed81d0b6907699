"""The environment that all are in which seats answer one question, one after the other.

Owns what they share: which task asks the question, how evidence is divided over seats, what one
seat can know alone. Prompts, turns and rewards are those of the environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, InstanceOf, WithJsonSchema

from llm_marl_envs.core.environment import TextAECEnv
from llm_marl_envs.core.options import EXPECTED, INFO, Info, TaskOptions, tasks_field
from llm_marl_envs.core.tasks import ListSource
from llm_marl_envs.envs.questions import KINDS, Question, question_of, question_tasks
from llm_marl_envs.policies.base import Policy

MAX_ACTION_CHARS = 4096
OWN = "Only you know:"


ASKED = (
    "None (generated), 'generated:<kind>,<kind>:<level>', a JSONL file, 'hub:<dataset>', "
    "'reasoning-gym:<set>', a list of rows or a TaskSource of questions"
)
Judge = Annotated[InstanceOf[Policy], WithJsonSchema({EXPECTED: "a policy"})]


def question_field(more: str = "") -> Any:
    """The argument `tasks` of an environment that asks questions."""
    return tasks_field(more, ASKED)


class QuestionOptions(TaskOptions):
    """What every environment takes that asks questions."""

    tasks: Any = question_field()
    info: Info | None = Field(
        default=None,
        description=f"{INFO}. None takes 'split' where the questions bring evidence, which then "
        "all rows must",
    )


class QuestionEnv(TextAECEnv):
    """One question, of which each seat may know a part.

    Args:
        options: the arguments of the environment.
        shares: the seats, in the order in which they act, and which part of the evidence each is
            told, counted from 0; None for none.
        kinds: of questions that are generated where `tasks` names none.
        parts: of generated evidence; None: as many as are told to seats.
        turns: how often each seat acts.

    Raises:
        ValueError: an argument out of range, or `info="split"` for questions without evidence.
    """

    def __init__(
        self,
        options: QuestionOptions,
        *,
        shares: Mapping[str, int | None],
        kinds: Sequence[str],
        parts: int | None = None,
        turns: int,
    ) -> None:
        places = {place for place in shares.values() if place is not None}
        self.shares = shares
        self.parts = len(places) if parts is None else parts
        super().__init__(
            agents=list(shares),
            source=question_tasks(
                options.tasks, split=options.split, kinds=kinds, parts=self.parts
            ),
            max_turns=turns,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=options.render_mode,
        )
        self.info_mode = self.info_of(options.info)
        self.question: Question

    def info_of(self, info: Info | None) -> Info:
        """The argument `info`: None takes "split" where the questions bring evidence in parts.

        Rows are all looked at; of other sources, which may make questions when asked, the first.

        Raises:
            ValueError: a question has no evidence in parts, which "split" needs, while others have
                it or "split" was asked for. The row is named.
        """
        if info == "full":
            return info
        looked_at = len(self.source) if isinstance(self.source, ListSource) else 1
        in_parts = [len(question_of(self.source[i]).evidence) >= 2 for i in range(looked_at)]
        if info is None and not any(in_parts):
            return "full"
        if not all(in_parts):
            number = in_parts.index(False)
            task = self.source[number]
            raise ValueError(
                f"info='split' needs questions with evidence in parts, and task {task.id!r}, "
                f"number {number + 1} of {looked_at}, {question_of(task).text!r:.60}, has none; "
                "give each question a list of two or more texts as `evidence`, or use info='full'"
            )
        return "split"

    def begin_episode(self) -> None:
        """The question of the task."""
        self.question = question_of(self.task)

    def evidence(self, question: Question, agent: str) -> tuple[str, ...] | None:
        """The lines that a seat alone is told; None for a seat that is told none.

        Of P parts a seat is told every P-th from its own.

        Raises:
            ValueError: the evidence is to be divided and is not in parts.
        """
        place = self.shares[agent]
        if not self.divided or place is None:
            return None
        if len(question.evidence) < 2:
            raise ValueError(
                f"info='split' needs questions with evidence in parts, and {question.text!r:.60} "
                "has none; use info='full'"
            )
        return question.evidence[place :: self.parts]

    def asked(self, question: Question) -> str:
        """The question and what everybody knows; where nothing is divided, all evidence too."""
        lines = [*question.shared, *(() if self.divided else question.evidence)]
        return "\n".join(
            [f"Question: {question.text}", *(["Everybody knows:", *lines] if lines else [])]
        )

    def told(self, question: Question, agent: str) -> list[str]:
        """Texts: the question as it is asked, and the part that the seat alone knows, if any."""
        own = self.evidence(question, agent)
        return [self.asked(question), *(() if own is None else (OWN, *own))]

    def in_parts(self, question: Question) -> bool:
        """Whether it was generated with one part of the evidence for each share."""
        return len(question.parts) == self.parts

    def alone(self, question: Question) -> float:
        """How often a seat that hears nothing can be right, of generated questions."""
        if not self.divided:
            return 1.0
        return KINDS[question.kind].solo(question.level, self.parts)
