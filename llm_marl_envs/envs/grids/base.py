"""The environment that all grids are in: in each turn a tool speaks, then a planner answers.

Owns who hears what, the tool's program, and pay. What an answer is worth, and the words of a task,
are those of the environments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from llm_marl_envs.core.environment import Outcome, TextAECEnv
from llm_marl_envs.core.options import INFO, Info, TaskOptions, info_of
from llm_marl_envs.core.outcome import gains
from llm_marl_envs.core.parsing import quote
from llm_marl_envs.core.tasks import Task, TaskSource
from llm_marl_envs.core.texts import quoted
from llm_marl_envs.sandbox import Sandbox, default_sandbox
from llm_marl_envs.tools.programs import MOST_PRINTED, run_program

TOOL, PLANNER = "tool_0", "planner_0"
SEATS = (TOOL, PLANNER)
MAX_ACTION_CHARS = 8192

TELL = f"You are {TOOL}. Tell {PLANNER} what it needs; its answer counts for both."
PROGRAM = (
    f"You are {TOOL}. Write a Python program. Its standard input is the grid above, as you see it. "
    f"{PLANNER} reads the program and what it prints, at most {MOST_PRINTED} characters; its "
    "answer counts for both."
)
PLAN = f"You are {PLANNER}. {TOOL} speaks first; your answer counts for both."
AGAIN = "There are {turns} turns."
PRINTED = "The program of tool_0 printed:"
FAILED = "It failed: {error}"
NEXT = {TOOL: "Speak again.", PLANNER: f"{TOOL} speaks again first."}


@dataclass(frozen=True, slots=True)
class Judged:
    """What an answer of the planner is worth.

    Attributes:
        terms: parts of the score, which is in [0, 1]; every answer has the same parts.
        solved: whether the task is solved.
        readable: whether there was an answer.
        news: what came of it, for each seat, told where the episode goes on.
        facts: more entries of `info`.
        over: whether the episode ends here, solved or not.
    """

    terms: Mapping[str, float]
    solved: bool
    readable: bool
    news: Mapping[str, str]
    facts: Mapping[str, Any] = field(default_factory=dict)
    over: bool = False


class ToolOptions(TaskOptions):
    """The arguments of an environment in which a seat may answer by a program."""

    info: Info | None = Field(default=None, description=f"{INFO}; None takes the default")
    tool: Literal["text", "python"] = Field(
        default="text", description="how the answering seat acts: in text, or by a program"
    )


class GridEnv(TextAECEnv):
    """A tool and a planner.

    Args:
        options: the arguments of the environment.
        source: tasks.
        generated: whether they are this library's own, whose parts can be divided.
        turns: how often both act.

    Raises:
        ValueError: an argument out of range, or `info="split"` for rows.
    """

    reward_range = (0.0, 1.0)

    def __init__(
        self, options: ToolOptions, *, source: TaskSource, generated: bool, turns: int
    ) -> None:
        super().__init__(
            agents=SEATS,
            source=source,
            max_turns=turns,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=options.render_mode,
        )
        self.info_mode, self.tool = info_of(options.info, generated), options.tool
        self.blocking = self.tool == "python"
        self.sandbox: Sandbox | None = None

    # -- what an environment provides -------------------------------------------------------------
    @abstractmethod
    def rules(self, task: Task, agent: str) -> str:
        """What is to be done, and the grid as a seat sees it."""

    @abstractmethod
    def given(self, task: Task) -> str:
        """The grid as the tool sees it: its program's standard input."""

    @abstractmethod
    def form(self, task: Task) -> str:
        """What the planner's answer looks like."""

    @abstractmethod
    def judge(self, action: str) -> Judged:
        """What an answer of the planner is worth."""

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nobody has spoken."""
        self._terms: list[Mapping[str, float]] = []  # of each turn, as scores
        self._facts: dict[str, dict[str, Any]] = {agent: {} for agent in SEATS}
        self._printed = ""

    def brief(self, task: Task, agent: str) -> str:
        """The grid, the role, the number of turns, and what the planner's answer looks like."""
        lines = [self.rules(task, agent)]
        if agent == PLANNER:
            lines.append(PLAN)
        else:
            lines.append(PROGRAM if self.tool == "python" else TELL)
        if self.max_turns > 1:
            lines.append(AGAIN.format(turns=self.max_turns))
        return "\n".join([*lines, self.form(task)] if agent == PLANNER else lines)

    def play_one(self, agent: str, action: str) -> Outcome:
        """The planner hears the tool; or its answer is judged and paid."""
        if agent == TOOL:
            self._printed, heard = self._hear(action), self._quoted(TOOL, action, PLANNER)
            news = "\n".join([heard, self._printed] if self._printed else [heard])
            return Outcome(reward_terms={}, feedback={PLANNER: news}, facts=self._facts)
        judged = self.judge(action)
        self._terms.append(judged.terms)
        self._facts[PLANNER] = {"readable": judged.readable, **judged.facts}
        paid = {name: gains([terms[name] for terms in self._terms])[-1] for name in judged.terms}
        last = judged.solved or judged.over or self._taken[PLANNER] >= self.max_turns
        heard = "" if last else self._quoted(PLANNER, action, TOOL)
        news = {
            TOOL: [self._printed, heard, judged.news[TOOL], NEXT[TOOL]],
            PLANNER: [judged.news[PLANNER], NEXT[PLANNER]],
        }
        return Outcome(
            reward_terms=dict.fromkeys(SEATS, paid),
            feedback={}
            if last
            else {agent: "\n".join(filter(None, lines)) for agent, lines in news.items()},
            ended=last,
            success=judged.solved,
            facts=self._facts,
        )

    def clusters(self, task: Task) -> tuple[str, ...]:
        """The two prompts: each comes in many tasks, beside many others."""
        return tuple(messages[-1].content for messages in self.first_words(task).values())

    def _quoted(self, speaker: str, action: str, listener: str) -> str:
        """A text as the other seat is shown it."""
        return quoted(speaker, self.pass_on(speaker, action, [listener])[listener])

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """The planner hears the tool; with more turns the tool is shown the planner's answers.

        Raises:
            ValueError: with `tool="python"`, where the planner also reads what a program prints.
        """
        if self.tool == "python":
            raise ValueError(
                "with tool='python' the planner also reads what the program prints, which does not "
                "pass through a channel; use tool='text'"
            )
        turns = self.max_turns
        return {PLANNER: {TOOL: turns}, **({TOOL: {PLANNER: turns - 1}} if turns > 1 else {})}

    def _hear(self, action: str) -> str:
        """What the tool's program printed, in words; nothing where the tool only speaks."""
        if self.tool == "text":
            return ""
        sandbox = default_sandbox() if self.sandbox is None else self.sandbox
        printed = run_program(action, self.given(self.task), sandbox)
        self._facts[TOOL] = {"readable": not printed.error and bool(printed.text.strip())}
        lines = [PRINTED, quote(printed.text)]
        if printed.error:
            lines.append(FAILED.format(error=" ".join(printed.error.split())))
        return "\n".join(lines)
