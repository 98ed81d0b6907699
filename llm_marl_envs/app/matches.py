"""Two teams on one task, the same seed; and saved teams whose members change places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_marl_envs.app.games import Setup
from llm_marl_envs.app.players import Players
from llm_marl_envs.app.work import Work
from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.records import Episode
from llm_marl_envs.measure.paired import Stage
from llm_marl_envs.measure.runner import Plan
from llm_marl_envs.measure.studies.cross_play import CrossPlay, cross_play

MOST_TASKS = 50
"""Tasks of a pairing; the command `llm-marl cross-play` takes more."""
MOST_TEAMS = 6


class Match(Work):
    """One episode of each of two teams.

    Args:
        setup: what both play.
        players: who may sit.
        sides: label -> seat -> name of its player; two of them.

    Attributes:
        labels: name of a player -> what people read.
        episodes: label of a side -> its episode, as they are played.

    Raises:
        ValueError: as `games.Game`.
        TypeError: as `make`.
    """

    def __init__(
        self, setup: Setup, players: Players, sides: Mapping[str, Mapping[str, str]]
    ) -> None:
        super().__init__()
        self.setup = setup
        self.players = players
        self.env = setup.env()
        self.sides = {
            label: players.seated(self.env, chosen, person=False) for label, chosen in sides.items()
        }
        self.labels = players.labels(self.env)
        self.episodes: dict[str, Episode] = {}

    def work(self) -> None:
        """Play both."""
        for label, chosen in self.sides.items():
            env = self.setup.env()
            episode = self.setup.play(self.players.team(env, chosen, self), env)
            self.episodes = {**self.episodes, label: episode}


class Pairings(Work):
    """Every pairing of saved teams on the first tasks of a split.

    Args:
        setup: the environment and the seed.
        players: who may sit.
        teams: names of players that take every seat.
        tasks: how many tasks each pairing plays.

    Attributes:
        played: episodes so far.
        result: the matrix, once all are played.

    Raises:
        ValueError: fewer than two teams or too many, tasks out of range, or no such player.
        TypeError: as `make`.
    """

    def __init__(self, setup: Setup, players: Players, teams: Sequence[str], tasks: int) -> None:
        super().__init__()
        if not 2 <= len({*teams}) <= MOST_TEAMS:
            raise ValueError(f"{len({*teams})} teams: expected 2 to {MOST_TEAMS}")
        self.env = setup.env()
        source = task_source(self.env)
        most = MOST_TASKS if source is None else min(MOST_TASKS, len(source))
        if not 1 <= tasks <= most:
            raise ValueError(f"{tasks} tasks: expected 1 to {most}")
        self.setup = setup
        self.players = players
        self.teams = tuple(dict.fromkeys(teams))
        self.tasks = tasks
        for name in self.teams:
            players.seated(self.env, dict.fromkeys(self.env.possible_agents, name), person=False)
        self.played = 0
        self.result: CrossPlay | None = None

    def work(self) -> None:
        """Play all."""
        seats: Any = self.env.possible_agents
        labels = self.players.labels(self.env)
        teams = {
            labels[name]: self.players.team(self.env, dict.fromkeys(seats, name), self)
            for name in self.teams
        }
        plan = Plan(n_tasks=self.tasks, seeds=(self.setup.seed,))
        self.result = cross_play(Stage(self.setup.env, plan, progress=self._count), teams)

    def _count(self, episodes: int) -> None:
        self.check()
        self.played += episodes
