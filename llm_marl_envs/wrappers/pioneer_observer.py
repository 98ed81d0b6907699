"""One task twice: a pioneer answers it, an observer answers it and sees the pioneer's answer.

`make(id, pioneer_observer=True)` makes this of an environment of this library. The task is what
one agent plays: where there are several seats, one agent behind all of them (`single_seat.py`).
`pioneer_0` plays it to its end. Then `observer_0` plays it from its beginning, under the same seed,
and is shown every text of the pioneer, quoted line by line, without its thinking. The pioneer is
shown nothing of the observer. What feedback the pioneer got is not passed on.

Rewards: each seat earns what the task pays it for its own texts. Both are paid after the observer's
last text, so the team's mean (`credit: team`) counts for both. `success`, which is None before the
end, is the observer's; `info["solved"]` is each seat's own.

Source: CORY, Ma et al., NeurIPS 2024, arXiv 2410.06101; deviations: `docs/algorithms/cory.md`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from llm_marl_envs.core.environment import TextAECEnv, TextEnv, TextParallelEnv, described
from llm_marl_envs.core.experts import Experts, ListeningExperts
from llm_marl_envs.core.outcome import Bounds, Outcome, added, summed
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import quoted
from llm_marl_envs.wrappers.single_seat import SingleSeat

PIONEER, OBSERVER = "pioneer_0", "observer_0"
HEARD = f"{PIONEER} was given the same task."
NEXT = "Now give your own answer."
OWN_ENTRIES = ("task_id", "turn", "action_truncated", "reward_terms", "success", "task_clusters")
"""Entries of `info` that this environment writes itself."""


class PioneerObserver(TextAECEnv):
    """A task for one agent, played by two in turn; see the module's docstring.

    Attributes:
        inner: seat -> the environment that it plays.

    Args:
        env: an environment of this library; it must not be used elsewhere.

    Raises:
        TypeError: another library's environment.
    """

    metadata: ClassVar[dict[str, Any]] = described("pioneer_observer")

    def __init__(self, env: TextEnv) -> None:
        single = isinstance(env, TextParallelEnv) and len(env.possible_agents) == 1
        task = cast("TextParallelEnv", env) if single else SingleSeat(env)
        super().__init__(
            agents=[PIONEER, OBSERVER],
            source=task.source,
            max_turns=task.max_turns,
            max_action_chars=task.max_action_chars,
            render_mode=task.render_mode,
        )
        self.inner: dict[str, TextParallelEnv] = {PIONEER: task, OBSERVER: copy.copy(task)}
        self.reward_range, self.task_range = task.reward_range, task.task_range
        self.blocking = task.blocking
        self.append_only = task.append_only
        (self._player,) = task.possible_agents
        self._counts: dict[str, int] = {}  # seat -> how many messages of its task it knows
        self._paid: dict[str, dict[str, float]] = {}  # by the task
        self._added: dict[str, dict[str, float]] = {}  # by what lies around it
        self._facts: dict[str, dict[str, Any]] = {}
        self._passed: list[str] = []  # what the observer is to be shown of the pioneer's texts

    def __copy__(self) -> PioneerObserver:
        """A copy steps environments of its own; reset it first, as every copy."""
        duplicate = object.__new__(type(self))
        duplicate.__dict__.update(self.__dict__)
        duplicate.inner = {seat: copy.copy(env) for seat, env in self.inner.items()}
        return duplicate

    # -- the episode ------------------------------------------------------------------------------
    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """As `TextAECEnv.reset`; what chance deals is the same in both seats."""
        super().reset(seed=seed, options=options)
        common = self.rng.getrandbits(32) if seed is None else seed
        for env in self.inner.values():
            env.reset(seed=common, options={"task": self.task})
        # An opening may be drawn at random: both are told the one of this episode.
        self._chat = {
            seat: list(self.with_notice(seat, env.chat(self._player)))
            for seat, env in self.inner.items()
        }
        self._take_up_habits()
        self._counts = {seat: len(chat) for seat, chat in self._chat.items()}
        self._passed = []
        self._paid = {seat: {} for seat in self.inner}
        self._added = {seat: {} for seat in self.inner}
        self._facts = {seat: {} for seat in self.inner}

    def redraw(self, seed: int) -> None:
        """As `TextEnv.redraw`, of the environments inside, too."""
        super().redraw(seed)
        for env in self.inner.values():
            env.redraw(seed)

    def close(self) -> None:
        """As `TextAECEnv.close`, of the environments inside, too."""
        for env in self.inner.values():
            env.close()
        super().close()

    def documents(self, task: Task) -> Sequence[str]:
        """As the environment inside."""
        return self.inner[PIONEER].documents(task)

    def record(self, task: Task) -> Mapping[str, str]:
        """As the environment inside."""
        return self.inner[PIONEER].record(task)

    def solution(self, task: Task) -> str:
        """As the environment inside."""
        return self.inner[PIONEER].solution(task)

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """What the task tells its one agent, to both."""
        return dict.fromkeys(self.inner, self.inner[PIONEER].first_words(task)[self._player])

    def next_agent(self, agent: str) -> str:
        """The pioneer until its task has ended, then the observer."""
        return PIONEER if self.inner[PIONEER].agents else OBSERVER

    def play_one(self, agent: str, action: str) -> Outcome:
        """One step of a seat's own task; both are paid after the last one."""
        env = self.inner[agent]
        if agent == PIONEER:
            self._passed += self.pass_on(agent, action, [OBSERVER]).values()
        _, paid, _, _, infos = env.step({self._player: action})
        info, of_task = infos[self._player], env.task_pay()
        terms = info["reward_terms"]
        own = terms if of_task is None else of_task.get(self._player, {})
        more = added(paid[self._player], terms, own)
        self._paid[agent] = summed(self._paid[agent], own)
        self._added[agent] = summed(self._added[agent], more)
        own = {name: value for name, value in info.items() if name not in OWN_ENTRIES}
        self._facts[agent] = {**own, "solved": info["success"]}
        if env.agents:
            return Outcome(reward_terms={}, feedback=self._news(agent), facts=self._facts)
        if agent == PIONEER:
            return Outcome(reward_terms={}, feedback={OBSERVER: self._heard()}, facts=self._facts)
        return Outcome(
            reward_terms=self._paid,
            added_terms=self._added,
            ended=True,
            success=info["success"],
            facts=self._facts,
        )

    def _news(self, agent: str) -> dict[str, str]:
        """What a seat's own task tells it after its last action."""
        texts = [m.content for m in self.inner[agent].chat(self._player) if m.role != "assistant"]
        fresh = texts[self._counts[agent] :]
        self._counts[agent] = len(texts)
        return {agent: "\n\n".join(fresh)} if fresh else {}

    def _heard(self) -> str:
        """What the observer is shown of the pioneer."""
        return "\n".join([HEARD, *(quoted(PIONEER, text) for text in self._passed), NEXT])

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """The observer hears the pioneer."""
        return {OBSERVER: {PIONEER: self.max_turns}}

    # -- scripted experts, bounds -----------------------------------------------------------------
    def experts(self) -> Experts | None:
        """Those of the task, who do not heed the pioneer; None: it has none."""
        experts = self.inner[PIONEER].experts()
        return None if experts is None else _Unheeding(experts, self._player)

    def bounds(self, task: Task) -> Bounds:
        """The task's; `solo` is that one seat does its best and the other guesses.

        Raises:
            ValueError: as the environment inside.
        """
        inner = self.inner[PIONEER].bounds(task)
        return Bounds(random=inner.random, solo=(inner.random + inner.team) / 2, team=inner.team)

    def clusters(self, task: Task) -> tuple[str, ...]:
        """As the environment inside."""
        return self.inner[PIONEER].clusters(task)


class _Unheeding(ListeningExperts):
    """The experts of the task in both seats.

    Args:
        inner: the experts of the task.
        player: the seat that they play there.
    """

    def __init__(self, inner: Experts, player: str) -> None:
        self.inner = inner
        self.player = player

    def conventions(self, task: Task) -> tuple[str, ...]:
        """As the experts inside."""
        return self.inner.conventions(task)

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """What the expert would say that had not seen the pioneer's answer."""
        own = [m for m in messages if m.role == "assistant" or not m.content.startswith(HEARD)]
        return self.inner.reply(task, self.player, convention, own)

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """As the experts inside."""
        return self.inner.read(task, self.player, action)
