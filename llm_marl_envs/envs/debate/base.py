"""The environment that all are in which seats answer one question, one after the other.

Owns what they share: which task asks the question, how evidence is divided over seats, what one
seat can know alone. Prompts, turns and rewards are those of the environments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, InstanceOf, WithJsonSchema

from llm_marl_envs.core.environment import TextAECEnv
from llm_marl_envs.core.options import EXPECTED, INFO, tasks_field
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task, TaskSource
from llm_marl_envs.envs.debate.briefs import asked, share
from llm_marl_envs.envs.questions import KINDS, Question, question_of
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


def info_field() -> Any:
    """The argument `info`."""
    return Field(
        default=None,
        description=f"{INFO}. None takes 'split' where the questions bring evidence, which then "
        "all rows must",
    )


class QuestionEnv(TextAECEnv):
    """One question, of which each seat may know a part.

    Args:
        shares: the seats, in the order in which they act, and which part of the evidence each is
            told, counted from 0; None for none.
        source: questions.
        info: "split" (seats are told their own parts alone) or "full", checked.
        turns: how often each seat acts.
        render_mode: as in `TextEnv`.

    Raises:
        ValueError: an unknown render mode.
    """

    def __init__(
        self,
        *,
        shares: Mapping[str, int | None],
        source: TaskSource,
        info: str,
        turns: int,
        render_mode: str | None,
    ) -> None:
        super().__init__(
            agents=list(shares),
            source=source,
            max_turns=turns,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=render_mode,
        )
        self.info_mode = info
        self.shares = shares
        self.parts = len({place for place in shares.values() if place is not None})
        self.question: Question

    @property
    def divided(self) -> bool:
        """Whether each seat is told its own part alone; else all are told everything."""
        return self.info_mode == "split"

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """As `TextAECEnv.reset`."""
        super().reset(seed=seed, options=options)
        self.question = question_of(self.task)

    @abstractmethod
    def brief(self, question: Question, agent: str) -> str:
        """What a seat is told first."""

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """One user message per seat."""
        question = question_of(task)
        return {
            agent: (Message("user", self.brief(question, agent)),) for agent in self.possible_agents
        }

    def evidence(self, question: Question, agent: str) -> tuple[str, ...] | None:
        """The lines that a seat alone is told; None for a seat that is told none.

        Raises:
            ValueError: the evidence is to be divided and is not in parts.
        """
        place = self.shares[agent]
        if not self.divided or place is None:
            return None
        return share(question, place, self.parts)

    def asked(self, question: Question) -> str:
        """The question and what everybody knows; where nothing is divided, all evidence too."""
        return asked(question, not self.divided)

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
