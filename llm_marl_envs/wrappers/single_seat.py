"""One agent plays every seat: what a team must be compared with.

`make(id, single_seat=True)` puts an environment of this library, of either form, behind one agent,
`writer_0`. It is told at once what all seats are told, then it writes one part after the other in
one chat: for each action of a seat it has one turn, with the same limit of characters, so at equal
limits it generates as much as the team. Reward: the mean of the seats', paid when theirs is.

What differs from a team with shared weights is exactly that nothing is hidden from the writer: no
evidence, no instruction, and no part that is written already.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from llm_marl_envs.core.environment import TextAECEnv, TextEnv, TextParallelEnv, described
from llm_marl_envs.core.experts import Demonstration, Experts, ListeningExperts
from llm_marl_envs.core.outcome import Bounds, Outcome, added, summed
from llm_marl_envs.core.spaces import Message, Observation, render_messages
from llm_marl_envs.core.tasks import Task

WRITER = "writer_0"
INTRO = "You write every part of this work alone. Each part has its own instructions."
SECTION = "=== {agent} ===\n{text}"
NEXT = "Now write the part of {agent}."
JOINT = "+"
"""Between the conventions of the seats, in seat order."""


class SingleSeat(TextParallelEnv):
    """An environment with one agent that plays all seats of another; see the module's docstring.

    Attributes:
        inner: the environment around which this one lies.

    Args:
        env: an environment of this library; it must not be used elsewhere.

    Raises:
        TypeError: another library's environment, whose seats may come and go.
    """

    can_forget = False  # its opening says which part comes first
    metadata: ClassVar[dict[str, Any]] = described("single_seat")

    def __init__(self, env: TextEnv) -> None:
        if not isinstance(env, (TextParallelEnv, TextAECEnv)):
            raise TypeError(
                f"single_seat: expected an environment of this library, got {type(env).__name__}; "
                "wrappers go around single_seat"
            )
        super().__init__(
            agents=[WRITER],
            source=env.source,
            max_turns=env.max_turns * len(env.possible_agents),
            max_action_chars=env.max_action_chars,
            render_mode=env.render_mode,
        )
        self.inner = env
        self.reward_range, self.task_range = env.reward_range, env.task_range
        self.blocking = env.blocking
        self.append_only = env.append_only
        self._parts: dict[str, str] = {}  # of the joint action that is being written
        self._counts: dict[str, int] = {}  # seat -> how many of its messages the writer knows

    def __copy__(self) -> SingleSeat:
        """A copy steps an environment of its own; reset it first, as every copy."""
        duplicate = object.__new__(type(self))
        duplicate.__dict__.update(self.__dict__)
        duplicate.inner = copy.copy(self.inner)
        return duplicate

    # -- the episode ------------------------------------------------------------------------------
    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """As `TextParallelEnv.reset`; the seed is the inner environment's, too."""
        _, infos = super().reset(seed=seed, options=options)
        self.inner.reset(seed=seed, options={"task": self.task})
        self._parts = {}
        chats = {seat: self._messages(seat) for seat in self.inner.possible_agents}
        self._counts = {seat: len(messages) for seat, messages in chats.items()}
        # An opening may be drawn at random: the writer is told the one of this episode.
        self._chat = {WRITER: list(self.with_notice(WRITER, [self.assignment(chats)]))}
        self._take_up_habits()
        return {WRITER: self._observe(WRITER)}, infos

    def redraw(self, seed: int) -> None:
        """As `TextEnv.redraw`, of the environment inside, too."""
        super().redraw(seed)
        self.inner.redraw(seed)

    def close(self) -> None:
        """As `TextParallelEnv.close`, of the environment inside, too."""
        self.inner.close()
        super().close()

    def documents(self, task: Task) -> Sequence[str]:
        """As the environment inside."""
        return self.inner.documents(task)

    def record(self, task: Task) -> Mapping[str, str]:
        """As the environment inside."""
        return self.inner.record(task)

    def solution(self, task: Task) -> str:
        """As the environment inside."""
        return self.inner.solution(task)

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """One user message: what every seat is told, and whose part comes first."""
        return {WRITER: (self.assignment(self.inner.first_words(task)),)}

    def assignment(self, chats: Mapping[str, Sequence[Message]]) -> Message:
        """The writer's first message, of what each seat is told."""
        sections = [
            SECTION.format(agent=seat, text=render_messages(chats[seat]))
            for seat in self.inner.possible_agents
        ]
        first = NEXT.format(agent=self.inner.possible_agents[0])
        return Message("user", "\n\n".join([INTRO, *sections, first]))

    @property
    def seat(self) -> str:
        """Whose part is written next."""
        if isinstance(self.inner, TextAECEnv):
            return self.inner.agent_selection
        return next(seat for seat in self.inner.agents if seat not in self._parts)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Take a part; step the environment inside when the joint action is whole."""
        self._parts[self.seat] = joint_action[WRITER]
        if isinstance(self.inner, TextAECEnv):
            (action,) = self._parts.values()
            self.inner.step(action)
            paid, infos = self.inner.rewards, self.inner.infos
            ended = all(self.inner.terminations.values())
        elif len(self._parts) < len(self.inner.agents):
            return Outcome(reward_terms={}, feedback={WRITER: self._news()})
        else:
            _, paid, _, _, infos = self.inner.step(self._parts)
            ended = not self.inner.agents
        own, more = _mean_pay(paid, infos, self.inner.task_pay())
        forms = [infos[seat]["readable"] for seat in self._parts if "readable" in infos[seat]]
        self._parts = {}
        news = {} if ended else {WRITER: self._news()}
        return Outcome(
            reward_terms={WRITER: own},
            added_terms={WRITER: more},
            feedback=news,
            ended=ended,
            success=next(iter(infos.values())).get("success"),
            facts={
                WRITER: {
                    "seats": {seat: dict(info) for seat, info in infos.items()},
                    **({"readable": all(forms)} if forms else {}),
                }
            },
        )

    def _messages(self, seat: str) -> list[Message]:
        """What the environment inside has told a seat."""
        return [m for m in self.inner.chat(seat) if m.role != "assistant"]

    def _news(self) -> str:
        """What the next seat has been told since its last part, and that it is next."""
        fresh = self._messages(self.seat)[self._counts[self.seat] :]
        self._counts[self.seat] += len(fresh)
        return "\n\n".join([*(m.content for m in fresh), NEXT.format(agent=self.seat)])

    # -- scripted experts, bounds -----------------------------------------------------------------
    def experts(self) -> Experts | None:
        """The experts of the environment inside, one part after the other; None: it has none."""
        inner = self.inner.experts()
        return None if inner is None else WriterExperts(self, inner)

    def bounds(self, task: Task) -> Bounds:
        """The team's: what one of its seats can get alone, and what all can get together.

        Raises:
            ValueError: as the environment inside.
        """
        return self.inner.bounds(task)


class WriterExperts(ListeningExperts):
    """The experts inside, each in a convention of its own, one part after the other.

    Args:
        env: the environment around theirs; copies of it are played.
        inner: the experts inside.
    """

    def __init__(self, env: SingleSeat, inner: Experts) -> None:
        self.env = env
        self.inner = inner

    def conventions(self, task: Task) -> tuple[str, ...]:
        """Every way in which the seats' experts, each in a convention of its own, can act."""
        own = self.inner.conventions(task)
        seats = len(self.env.inner.possible_agents)
        return tuple(JOINT.join(chosen) for chosen in itertools.product(own, repeat=seats))

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The next part: what the expert of the seat whose turn it is would say there.

        The parts in `messages` are played to a copy, so that experts hear what they would hear;
        where an environment draws what it tells, under the reset seed 0.
        """
        written = [m.content for m in messages if m.role == "assistant"]
        rehearsal = copy.copy(self.env)
        rehearsal.reset(seed=0, options={"task": task})
        for part in written:
            rehearsal.step({WRITER: part})
        seats = rehearsal.inner.possible_agents
        own = dict(zip(seats, convention.split(JOINT), strict=False)) if convention else {}
        seat = rehearsal.seat
        return self.inner.reply(task, seat, own.get(seat, ""), rehearsal.inner.chat(seat))

    def demonstrations(self, env: TextEnv, n: int, seed: int) -> list[Demonstration] | None:
        """Parts of first turns, each seat's expert in a convention that it draws alone.

        So a writer that learned from them knows each part and has not learned to join them, as a
        team has not that learned from the environment inside. In the usual way, which plays
        episodes, where the experts inside listen.
        """
        if self.inner.listens:
            return None
        rng = random.Random(f"demonstrations/{seed}")
        inside = copy.copy(self.env.inner)
        inside.rng = rng  # of openings that are drawn
        seats = inside.possible_agents
        pairs: list[Demonstration] = []
        while len(pairs) < n:
            task = inside.source[rng.randrange(len(inside.source))]
            chat = [self.env.assignment(inside.first_words(task))]
            possible = self.inner.conventions(task) or ("",)
            for seat, following in itertools.zip_longest(seats, seats[1:]):
                part = self.inner.first(task, seat, rng.choice(possible))
                pairs.append((tuple(chat), part))
                more = NEXT.format(agent=following)
                chat += [Message("assistant", part), Message("user", more)]
        return pairs[:n]


def _mean_pay(
    paid: Mapping[str, float],
    infos: Mapping[str, Mapping[str, Any]],
    of_task: Mapping[str, Mapping[str, float]] | None,
) -> tuple[dict[str, float], dict[str, float]]:
    """What the task, and what wrappers pay the writer: means over the seats.

    A term that a seat is not paid counts 0 there.
    """
    terms = {seat: info["reward_terms"] for seat, info in infos.items()}
    if of_task is None:
        return _mean_terms(terms.values(), len(paid)), {}
    own = {seat: of_task.get(seat, {}) for seat in terms}
    more = [added(paid[seat], terms[seat], own[seat]) for seat in paid]
    return _mean_terms(own.values(), len(paid)), _mean_terms(more, len(paid))


def _mean_terms(terms: Iterable[Mapping[str, float]], seats: int) -> dict[str, float]:
    return summed(*({name: value / seats for name, value in of.items()} for of in terms))
