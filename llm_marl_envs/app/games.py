"""An episode with people in some of its seats: played in a thread, which waits for their texts.

`rollout` drives it, as everywhere, so its transcript is an ordinary one. Afterwards the scripted
experts play the same task from the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llm_marl_envs.app.players import YOU, Players
from llm_marl_envs.app.work import Work
from llm_marl_envs.core.environment import TextEnv, task_source
from llm_marl_envs.core.experts import find_experts
from llm_marl_envs.core.records import Episode, Request, Response
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.rollout import Failures, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.base import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is played.

    Attributes:
        env_id: of the environment.
        env_kwargs: its arguments.
        task: index of the task; drawn by the seed where None.
        seed: of the reset, and of the players.
    """

    env_id: str
    env_kwargs: Mapping[str, Any]
    task: int | None = None
    seed: int = 0

    def env(self) -> Any:
        """A fresh environment.

        Raises:
            ValueError: as `make`, or it has no such task.
            TypeError: as `make`.
        """
        env = make(self.env_id, **self.env_kwargs)
        source = task_source(env)
        if self.task is not None and source is not None and self.task >= len(source):
            raise ValueError(f"task {self.task}: expected 0 to {len(source) - 1}")
        return env

    def start(self) -> Start:
        """Where the episode begins."""
        return Start(task=self.task, seed=self.seed, sample_seed=self.seed)

    def play(self, team: Team, env: Any) -> Episode:
        """The episode of a team, in an environment that `env()` made.

        Raises:
            Exception: what a policy raises. What the environment raises is in the record.
        """
        return rollout(VectorTextEnv([env]), team, [self.start()], failures=Failures(self.env))[0]


class Game(Work):
    """One episode.

    Args:
        setup: what is played.
        players: who may sit.
        chosen: seat -> name of its player.

    Attributes:
        labels: name of a player -> what people read.
        asked: what a person is asked now, None where nobody is.
        question: how many questions there have been, this one included.
        episode: the record, once it has ended.
        experts: the same by scripted experts; None where there are none, or not yet.

    Raises:
        ValueError: an environment, task or player that does not exist; or as `make`.
        TypeError: as `make`.
    """

    def __init__(self, setup: Setup, players: Players, chosen: Mapping[str, str]) -> None:
        super().__init__()
        self.setup = setup
        self.players = players
        self.env = setup.env()
        self.chosen = players.seated(self.env, chosen)
        self.labels = players.labels(self.env)
        start = setup.start()
        self.env.reset(
            seed=start.seed, options=None if start.task is None else {"task": start.task}
        )
        self.asked: Request | None = None
        self.question = 0
        self.episode: Episode | None = None
        self.experts: Episode | None = None
        self._text: str | None = None

    @property
    def seats(self) -> tuple[str, ...]:
        """The seats of people."""
        return tuple(agent for agent, player in self.chosen.items() if player == YOU)

    @property
    def waiting(self) -> bool:
        """Whether a person is asked and has not answered."""
        return self.asked is not None

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """The policy of the people's seats: asks for one text after the other."""
        return [Response(text=self._ask(request)) for request in requests]

    def answer(self, question: int, text: str) -> bool:
        """Give a text; False where another question is asked by now, as after a second click."""
        with self.changed:
            if self.asked is None or question != self.question:
                return False
            self.asked, self._text = None, text
            self.changed.notify_all()
            return True

    def chats(self) -> dict[str, tuple[Message, ...]]:
        """Seat -> all that it was told and said; of another package's environment what is known."""
        inner = self.env.unwrapped
        if isinstance(inner, TextEnv):
            return {agent: inner.chat(agent) for agent in inner.possible_agents}
        shown: dict[str, tuple[Message, ...]] = {}
        for turn in self.episode.turns if self.episode else ():
            shown[turn.agent] = (*turn.messages, Message("assistant", turn.action))
        if self.asked is not None:
            shown[self.asked.agent] = self.asked.messages
        return shown

    def work(self) -> None:
        """Play it, then let the experts play."""
        team = self.players.team(self.env, self.chosen, self)
        episode = self.setup.play(team, self.env)
        with self.changed:  # what was played to its end is kept, whatever the time
            self.episode = _without_traceback(episode)
            self.changed.notify_all()
        if find_experts(self.env) is not None:
            env = self.setup.env()
            agreed = dict.fromkeys(env.possible_agents, "agreed")
            team = self.players.team(env, agreed, self)
            self.experts = _without_traceback(self.setup.play(team, env))

    def _ask(self, request: Request) -> str:
        with self.changed:
            self.asked, self._text = request, None
            self.question += 1
            self.changed.notify_all()
            self.changed.wait_for(
                lambda: self._text is not None or self.closed, timeout=self.left_seconds
            )
            self.asked = None
            self.check()
            return self._text or ""


def _without_traceback(episode: Episode) -> Episode:
    """A failed episode says what was raised; where in the program is nothing for a page."""
    if episode.failure is None:
        return episode
    return replace(episode, failure=episode.failure.strip().rpartition("\n")[2])
