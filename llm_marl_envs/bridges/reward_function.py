"""Reward functions in TRL's and verifiers' form as a one-seat environment.

    env = RewardFunctionEnv(rows=[{"prompt": "2 + 2?", "answer": "4"}], rewards=[right])

Rows have `prompt`, a text or a chat, and what the functions want. A function is of TRL's form
(lists: `prompts`, `completions`, one list per further column) or of verifiers' (`completion`, and
columns by name), told apart by its arguments. In both forms a chat prompt has chat completions.
What the seat wrote stands in the place of a row's own `completion`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from llm_marl_envs.core.environment import TextParallelEnv, described
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task

WRITER = "writer_0"
RewardFunction = Callable[..., Any]
OWN = ("prompt", "prompts", "completion", "completions")
"""What functions are given beside the columns; a row's column of such a name is no column."""


class RewardFunctionEnv(TextParallelEnv):
    """One seat, one turn, paid by functions.

    Args:
        rows: the tasks.
        rewards: functions, each a reward term under its name; or name -> function.
        reward_range: smallest and largest sum of their values.
        split: what the rows are called.
        max_action_chars: longer answers are cut.
        render_mode: as every environment.

    Raises:
        ValueError: a row without `prompt`, no function, two of one name, or an asynchronous one.
    """

    metadata: ClassVar[dict[str, Any]] = described("reward_function")
    blocking = True  # a function may ask a server

    def __init__(
        self,
        *,
        rows: Sequence[Mapping[str, Any]],
        rewards: Sequence[RewardFunction] | Mapping[str, RewardFunction],
        reward_range: tuple[float, float] = (0.0, 1.0),
        split: str = "train",
        max_action_chars: int = 8192,
        render_mode: str | None = None,
    ) -> None:
        tasks = [Task(f"{split}/{i}", split, row) for i, row in enumerate(rows)]
        for task in tasks:
            if "prompt" not in task.data:
                raise ValueError(f"row {task.id}: expected a `prompt`, got {sorted(task.data)}")
        super().__init__(
            agents=[WRITER],
            source=ListSource(tasks, split),
            max_turns=1,
            max_action_chars=max_action_chars,
            render_mode=render_mode,
        )
        self.rewards = _named(rewards)
        self.reward_range = reward_range

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """The row's prompt."""
        prompt = task.data["prompt"]
        if isinstance(prompt, str):
            return {WRITER: (Message("user", prompt),)}
        return {WRITER: [Message(message["role"], message["content"]) for message in prompt]}

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """The functions' values are the terms of the reward.

        Raises:
            TypeError: a function in TRL's form gives no list of one value.
            ValueError: a function gives no finite number.
        """
        terms: dict[str, float] = {}
        for name, function in self.rewards.items():
            value = _call(name, function, joint_action[WRITER], self.task.data)
            # TRL: a function that has nothing to say of a row gives None, which counts nothing.
            paid = 0.0 if value is None else float(value)
            if not math.isfinite(paid):
                raise ValueError(
                    f"reward function {name!r}, task {self.task.id!r}: expected a finite number, "
                    f"got {value!r}"
                )
            terms[name] = paid
        return Outcome(reward_terms={WRITER: terms})


def _named(
    rewards: Sequence[RewardFunction] | Mapping[str, RewardFunction],
) -> dict[str, RewardFunction]:
    if isinstance(rewards, Mapping):
        named = dict(rewards)
    else:
        named = {getattr(pays, "__name__", type(pays).__name__): pays for pays in rewards}
    if not named or len(named) < len(rewards):
        raise ValueError(
            f"reward functions {list(named)}: expected at least one, each of another name; "
            "a map name -> function says names"
        )
    waiting = [name for name, function in named.items() if inspect.iscoroutinefunction(function)]
    if waiting:
        raise ValueError(
            f"reward functions {waiting}: expected functions that return a value, got `async def`; "
            "wrap each in one that runs it, e.g. with asyncio.run"
        )
    return named


def _call(name: str, function: RewardFunction, text: str, row: Mapping[str, Any]) -> Any:
    """What a function of either form pays for one answer."""
    parameters = inspect.signature(function).parameters
    prompt = row["prompt"]
    completion = text if isinstance(prompt, str) else [{"role": "assistant", "content": text}]
    columns = {column: value for column, value in row.items() if column not in OWN}
    if "completions" in parameters:
        lists = {column: [value] for column, value in columns.items()}
        arguments = {"prompts": [prompt], "completions": [completion], **lists}
    else:
        arguments = {"prompt": prompt, "completion": completion, **columns}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    wanted = {key: value for key, value in arguments.items() if anything or key in parameters}
    value = function(**wanted)
    if "completions" not in parameters:
        return value
    if not hasattr(value, "__len__") or len(value) != 1:
        raise TypeError(
            f"reward function {name!r}: expected a list of one value for one completion, "
            f"got {value!r:.80}"
        )
    return value[0]
