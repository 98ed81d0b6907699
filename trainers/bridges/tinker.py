"""Tinker's cookbook trains teams: an episode is as many of its `Env`s as there are seats.

    config = train.Config(dataset_builder=TeamDatasetBuilder(env_id="debate-v0", ...), ...)

One group is `episodes` episodes of one task, and the trainer compares all trajectories of a group:
where a team is paid together, that is a comparison of episodes. All seats share the model that is
trained; `partners` play seats with policies of this library.

The seats of an episode wait for each other at a `Table`: a simultaneous environment steps when all
have spoken, a turn-based one goes from seat to seat. A step of a seat goes up to its next turn, and
what it was paid on the way is the step's reward.

Needs the extra `tinker`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pettingzoo import AECEnv

from llm_marl_envs.core.environment import TextParallelEnv, task_ids
from llm_marl_envs.core.seeds import RESET_SEEDS, derive_seed
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.play.registry import make
from llm_marl_envs.wrappers import Partners

try:
    import chz  # pyright: ignore[reportMissingImports]
    from tinker import ModelInput  # pyright: ignore[reportMissingImports]
    from tinker_cookbook.renderers import (  # pyright: ignore[reportMissingImports]
        Renderer,
        get_renderer,
        get_text_content,
    )
    from tinker_cookbook.rl.types import (  # pyright: ignore[reportMissingImports]
        Env,
        EnvGroupBuilder,
        InitialObservationOverflow,
        RLDataset,
        RLDatasetBuilder,
        StepResult,
    )
    from tinker_cookbook.tokenizer_utils import (  # pyright: ignore[reportMissingImports]
        get_tokenizer,
    )
except ImportError as error:
    raise ImportError(
        "Tinker's cookbook needs the extra 'tinker': pip install 'llm-marl-envs[tinker]'"
    ) from error


class Table:
    """One episode, at which its seats wait for each other.

    Args:
        env: a text environment of either form, no other's; it has been reset.
        patience: seconds that a seat waits for its next turn.
    """

    def __init__(self, env: Any, patience: float) -> None:
        self.env, self.patience = env, patience
        self.paid: dict[str, float] = dict.fromkeys(env.possible_agents, 0.0)
        self.success: bool | None = None
        self.closed = ""
        self._seen: dict[str, Any] = {}
        self._said: dict[str, str] = {}
        self._change = asyncio.Condition()

    def begin(self, seed: int, task: str) -> None:
        """Reset the environment."""
        begun = self.env.reset(seed=seed, options={"task": task})
        self._seen = begun[0] if begun else {}

    def acting(self) -> list[str]:
        """The seats that are to speak before the environment steps."""
        if not isinstance(self.env, AECEnv):
            return list(self.env.agents)
        seat = self.env.agent_selection if self.env.agents else None
        return [] if seat is None or self.over(seat) else [seat]

    def over(self, seat: str) -> bool:
        """Whether the episode is over for a seat."""
        env = self.env
        if isinstance(
            env.unwrapped, TextParallelEnv
        ):  # seats that pass for a while are no longer in `agents`
            return not env.agents
        if seat not in env.agents:
            return True
        return isinstance(env, AECEnv) and (env.terminations[seat] or env.truncations[seat])

    def seen(self, seat: str) -> Any:
        """What a seat sees now."""
        return self.env.observe(seat) if isinstance(self.env, AECEnv) else self._seen[seat]

    async def turn(self, seat: str) -> bool:
        """Wait for a seat's turn; False: the episode is over for it.

        Raises:
            TimeoutError: it did not come.
            RuntimeError: the episode was given up, or the environment raised.
        """

        def ready() -> bool:
            mine = seat in self.acting() and seat not in self._said
            return bool(self.closed) or mine or self.over(seat)

        async with self._change:
            try:
                async with asyncio.timeout(self.patience):
                    await self._change.wait_for(ready)
            except TimeoutError:
                silent = [other for other in self.acting() if other not in self._said]
                raise TimeoutError(
                    f"{seat} waited {self.patience} s for {silent}; all seats of an episode must "
                    "be played at once: no limit or retry may leave one out"
                ) from None
            if self.closed:
                raise RuntimeError(f"{seat}: {self.closed}")
            return not self.over(seat)

    async def speak(self, seat: str, text: str) -> None:
        """A seat acts; the last one whose turn it is steps the environment.

        Raises:
            ValueError: it is not this seat's turn.
        """
        async with self._change:
            if seat not in self.acting() or seat in self._said:
                raise ValueError(f"{seat}: it is not its turn; expected one of {self.acting()}")
            self._said[seat] = text
            if len(self._said) == len(self.acting()):
                actions, self._said = self._said, {}
                try:
                    await asyncio.to_thread(self._step, actions)
                except BaseException as error:
                    self.closed = f"the episode was given up: {type(error).__name__}: {error}"
                    raise
                finally:
                    self._change.notify_all()

    def collect(self, seat: str) -> float:
        """What a seat was paid since it was asked last."""
        paid, self.paid[seat] = self.paid[seat], 0.0
        return paid

    async def close(self) -> None:
        """Let no seat wait any longer, and close the environment."""
        async with self._change:
            self.closed = self.closed or "the episode was given up"
            self._change.notify_all()
        self.env.close()

    def _step(self, actions: Mapping[str, str]) -> None:
        if isinstance(self.env, AECEnv):
            self.env.step(*actions.values())
            rewards, infos = dict(self.env.rewards), dict(self.env.infos)
            while self.env.agents and self.over(self.env.agent_selection):
                self.env.step(None)  # agents whose episode is over leave
        else:
            now, rewards, _, _, infos = self.env.step(actions)
            self._seen = {**self._seen, **now}
        for seat, reward in rewards.items():
            self.paid[seat] += reward
        successes = [info["success"] for info in infos.values() if info.get("success") is not None]
        self.success = successes[0] if successes else self.success


@dataclass
class Seat(Env):
    """One seat of one episode."""

    table: Table
    name: str
    renderer: Renderer

    async def initial_observation(self) -> Any:
        """What the seat sees at its first turn; no turn: the cookbook's empty trajectory."""
        if await self.table.turn(self.name):
            return self._prompt(), self.renderer.get_stop_sequences()
        return InitialObservationOverflow(self.table.collect(self.name), self._metrics())

    async def step(self, action: list[int], *, extra: Any = None) -> StepResult:
        """Say what was sampled, and go on to the seat's next turn or the end.

        Raises:
            ValueError: it is not this seat's turn.
            TimeoutError, RuntimeError: as `Table.turn`.
        """
        message, _how_it_ended = self.renderer.parse_response(action)
        await self.table.speak(self.name, get_text_content(message))
        goes_on = await self.table.turn(self.name)
        return StepResult(
            reward=self.table.collect(self.name),
            episode_done=not goes_on,
            next_observation=self._prompt() if goes_on else ModelInput.empty(),  # pyright: ignore[reportAttributeAccessIssue]
            next_stop_condition=self.renderer.get_stop_sequences(),
            metrics={} if goes_on else self._metrics(),
        )

    def _prompt(self) -> Any:
        seen = self.table.seen(self.name)
        messages = getattr(seen, "messages", None) or (Message("user", seen),)
        return prompt_of(self.renderer, messages)

    def _metrics(self) -> dict[str, float]:
        success = self.table.success
        return {} if success is None else {"success": float(success)}


def prompt_of(renderer: Renderer, messages: Sequence[Message]) -> Any:
    """The chat that a seat sees, as the model's input."""
    chat = [{"role": message.role, "content": message.content} for message in messages]
    return renderer.build_generation_prompt(chat)


@dataclass
class TeamGroup(EnvGroupBuilder):
    """Episodes of one task; its `Env`s are the seats of the first, then those of the second, ...

    Attributes:
        env_id: of the environment.
        task: id of one of its tasks.
        renderer: of the cookbook's `get_renderer`, so that it pickles.
        episodes: how many. With one, and a team that is paid together, nothing is learned.
        partners: seat -> name of the policy that plays it, e.g. {"debater_1": "expert"}.
        arguments: of `make`.
        seed: the reset seed, which the episodes share.
        patience: seconds that a seat waits for the others.
    """

    env_id: str
    task: str
    renderer: Renderer
    episodes: int = 8
    partners: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    patience: float = 1800.0
    tables: list[Table] = field(default_factory=list, init=False, repr=False)

    async def make_envs(self) -> Sequence[Seat]:
        """The seats of all episodes.

        Raises:
            ValueError: as `make`, `Partners` and `reset`.
        """
        made = [Table(self._env(), self.patience) for _ in range(self.episodes)]
        self.tables += made
        for table in made:
            await asyncio.to_thread(table.begin, self.seed, self.task)
        return [
            Seat(table, seat, self.renderer) for table in made for seat in table.env.possible_agents
        ]

    async def cleanup(self) -> None:
        """Close the environments; who still waits is told."""
        for table in self.tables:
            await table.close()
        self.tables.clear()

    def logging_tags(self) -> list[str]:
        """The environment."""
        return [self.env_id]

    def _env(self) -> Any:
        env = make(self.env_id, **self.arguments)
        return Partners(env, self.partners) if self.partners else env


class TeamDataset(RLDataset):
    """Batches of groups, one group per task.

    Args:
        groups: one per task.
        groups_per_batch: tasks of one batch; the rest of the tasks is left out.
    """

    def __init__(self, groups: Sequence[TeamGroup], groups_per_batch: int) -> None:
        self.groups, self.groups_per_batch = list(groups), groups_per_batch

    def get_batch(self, index: int) -> list[TeamGroup]:
        """The groups of a batch."""
        first = index * self.groups_per_batch
        return self.groups[first : first + self.groups_per_batch]

    def __len__(self) -> int:
        return len(self.groups) // self.groups_per_batch


@chz.chz
class TeamDatasetBuilder(RLDatasetBuilder):
    """The `dataset_builder` of the cookbook's `train.Config`; fields as those of `TeamGroup`.

    Attributes:
        model_name: whose tokenizer writes the prompts.
        renderer_name: of the cookbook's `get_renderer`.
        tasks: how many of the environment's tasks are trained on, once.
        groups_per_batch: tasks of one batch.
    """

    env_id: str
    model_name: str
    renderer_name: str
    tasks: int
    groups_per_batch: int
    episodes: int = 8
    partners: dict[str, str] = chz.field(default_factory=dict)
    arguments: dict[str, Any] = chz.field(default_factory=dict)
    seed: int = 0

    async def __call__(self) -> tuple[TeamDataset, None]:
        """The training set.

        Raises:
            ValueError: more tasks than there are, fewer than a batch, one episode per group.
        """
        if self.episodes < 2 or not 1 <= self.groups_per_batch <= self.tasks:
            raise ValueError(
                f"episodes={self.episodes}, groups_per_batch={self.groups_per_batch}, tasks="
                f"{self.tasks}: expected at least 2 episodes to compare, and one batch of tasks"
            )
        renderer = get_renderer(self.renderer_name, get_tokenizer(self.model_name))
        groups = [
            TeamGroup(
                env_id=self.env_id,
                task=task,
                renderer=renderer,
                episodes=self.episodes,
                partners=self.partners,
                arguments=self.arguments,
                seed=derive_seed(self.seed, "tinker", task) % RESET_SEEDS,
            )
            for task in task_ids(make(self.env_id, **self.arguments), self.tasks)
        ]
        return TeamDataset(groups, self.groups_per_batch), None
