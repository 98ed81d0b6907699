"""Games of TextArena as turn-based environments: `make("textarena/KuhnPoker-v0")`.

A seat `player_<i>` is told what the game sends it, each message once, when it is to act; the own
wrapper of TextArena repeats the whole game every time. What another player says is quoted: each of
its lines is behind `> `, whoever repeats it, so none passes for a line of the game. A task is a
seed of the game. The game's rewards are paid at its end. Actions are in the form that the game's
rules ask for, such as `[bet]`.

TextArena draws from the process's random generators. They are put back after every call, and each
game goes on with its own; threads wait for each other. Needs the extra `textarena`.
"""

# ruff: noqa: NPY002 - the games draw from the generators of the process

from __future__ import annotations

import importlib
import math
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from llm_marl_envs.core.environment import TextAECEnv, described
from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.options import Options, RenderMode, render_field
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.core.parsing import QUOTE, lines_of
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import FIRST_SEEDS, SEEDS_OF_A_SPLIT, SeedSource, Task
from llm_marl_envs.core.texts import quoted

GAME = -1
"""Who speaks where the game does."""
TRIED = (2, 1, 3, 4, 5, 6, 7, 8)
"""Numbers of players that are tried where none is given."""
YOUR_TURN = "It is your turn."
_GENERATORS = threading.Lock()
"""Held while the process's random generators are a game's."""


class TextArenaOptions(Options):
    """The arguments of a game."""

    game: str = Field(description="its id in TextArena, e.g. 'KuhnPoker-v0'")
    players: int | None = Field(
        default=None,
        ge=1,
        description="seats; None takes the first of 2, 1, 3, ... 8 that the game allows",
    )
    refusals: int | None = Field(
        default=None,
        ge=0,
        description="how many of a seat's actions in a row may be refused without a loss; None "
        "takes the game's own number, which is 1 in TextArena unless a game says otherwise",
    )
    turns: int = Field(default=64, ge=1, description="most actions of one seat")
    split: Literal["train", "val", "test", "ood"] = Field(
        default="train", description="which seeds of the game"
    )
    size: int = Field(default=1000, ge=1, le=SEEDS_OF_A_SPLIT, description="how many seeds")
    max_action_chars: int = Field(
        default=1024, ge=1, description="Unicode code points of an action"
    )
    observation_chars: int = Field(
        default=10_000_000, ge=1, description="most characters of what a seat sees in a game"
    )
    render_mode: RenderMode = render_field()


class TextArenaEnv(TextAECEnv):
    """One game; see the module.

    A game refuses an action that it does not take, and asks once more. Most end where an action is
    refused again. Where a game goes on and asks a seat that has no refusal left, that seat has
    lost, and so has one over whose action the game raises: it is paid -1, the other one of two is
    paid 1, and its info has `error`. An end by `turns` pays nothing.

    Raises:
        ImportError: TextArena is not installed.
        ValueError: an argument out of range, no such game, other players than it takes, or it
            cannot be played here: a game that downloads word lists or asks a judge needs the
            network.
    """

    metadata: ClassVar[dict[str, Any]] = described("textarena")
    Options = TextArenaOptions
    reward_range = (-1.0, 1.0)

    def __init__(self, **given: Any) -> None:
        options = TextArenaOptions(**given)
        self.game, self.refusals = options.game, options.refusals
        self._generators: Any = None
        self._arena: Any = None
        self._player = 0
        self.players = options.players or self._smallest()
        if options.players is not None:
            try:
                self._begin_game(FIRST_SEEDS[options.split])
            except AssertionError as error:
                raise ValueError(f"{self.game}, players={self.players}: {error}") from error
        super().__init__(
            agents=[f"player_{i}" for i in range(self.players)],
            source=SeedSource(options.split, options.size),
            max_turns=options.turns,
            max_action_chars=options.max_action_chars,
            render_mode=options.render_mode,
            observation_chars=options.observation_chars,
        )

    # -- the game ---------------------------------------------------------------------------------
    def _made(self) -> Any:
        """A fresh game without TextArena's wrappers."""
        with Extra("textarena", "TextArena's bridge"):
            textarena: Any = importlib.import_module("textarena")
        games = textarena.envs.registration.ENV_REGISTRY
        if self.game not in games:
            raise ValueError(f"TextArena has no game {self.game!r}; it has e.g. {[*games][::40]}")
        raw = f"{self.game}-raw"
        return textarena.make(raw if raw in games else self.game)

    def _smallest(self) -> int:
        """The first number of players that the game takes."""
        for players in TRIED:
            self.players = players
            try:
                self._begin_game(0)
            except AssertionError:
                continue
            return players
        raise ValueError(f"{self.game}: expected the number of players; none of {TRIED} is allowed")

    def _begin_game(self, seed: int) -> None:
        """A new game: games keep what the last one left.

        Raises:
            AssertionError: the game does not take so many players.
            ValueError: it cannot be played here.
        """
        self._generators = None
        with self._own_generators():
            random.seed(seed)
            np.random.seed(seed)
            try:
                self._arena = self._made()
                self._arena.reset(num_players=self.players, seed=seed)
                if self.refusals is not None:
                    self._arena.state.error_allowance = self.refusals
                self._player = self._arena.state.current_player_id
            except (AssertionError, ImportError, ValueError):
                raise
            except Exception as error:  # a game may raise anything
                raise ValueError(
                    f"{self.game} cannot be played here: {type(error).__name__}: {error!s:.300}; "
                    "games that download word lists or ask a judge need the network"
                ) from error

    @contextmanager
    def _own_generators(self) -> Iterator[None]:
        """The game's random numbers inside, the process's outside."""
        with _GENERATORS:
            before = random.getstate(), np.random.get_state()
            if self._generators is not None:
                random.setstate(self._generators[0])
                np.random.set_state(self._generators[1])
            try:
                yield
            finally:
                self._generators = random.getstate(), np.random.get_state()
                random.setstate(before[0])
                np.random.set_state(before[1])

    def _news(self, player: int) -> str:
        """What a player has not been told yet, but for its own words."""
        state = self._arena.state
        messages, state.observations[player] = state.observations[player], []
        return "\n".join(shown(sender, text) for sender, text, _ in messages if sender != player)

    # -- the episode ------------------------------------------------------------------------------
    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """As `TextAECEnv.reset`; the game says who begins."""
        super().reset(seed=seed, options=options)
        self.agent_selection = f"player_{self._player}"

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """What each player is told first."""
        self._begin_game(int(task.data["seed"]))
        return {
            agent: (Message("user", self._news(player) or YOUR_TURN),)
            for player, agent in enumerate(self.possible_agents)
        }

    def next_agent(self, agent: str) -> str:
        """Whom the game asks next."""
        return f"player_{self._player}"

    def play_one(self, agent: str, action: str) -> Outcome:
        """One move."""
        author = self._player
        with self._own_generators():
            try:
                paid = self._judged(marked(action))
            except Exception as error:  # noqa: BLE001 - a model's text must not end a run
                return self._lost(author, f"{type(error).__name__}: {error!s:.300}")
        if paid is not None:
            solved = paid.get("player_0", 0.0) >= 1.0 if self.players == 1 else None
            terms = {player: {"game": reward} for player, reward in paid.items()}
            return Outcome(reward_terms=terms, ended=True, success=solved)
        if self._arena.state.game_info[self._player].get("invalid_move"):
            return self._lost(self._player, "more actions refused than the game allows")
        text = self._news(self._player) or YOUR_TURN
        return Outcome(reward_terms={}, feedback={f"player_{self._player}": text})

    def _judged(self, action: str) -> dict[str, float] | None:
        """What the game pays where an action ends it; None where it goes on.

        Raises:
            Exception: the game does, or it pays no number or asks nobody.
        """
        done, _ = self._arena.step(action)
        seats = dict(enumerate(self.possible_agents))
        if not done:
            self._player = self._arena.state.current_player_id
            if self._player not in seats:
                raise ValueError(f"the game asks player {self._player!r}")
            return None
        paid = {seats[i]: float(reward) for i, reward in (self._arena.close()[0] or {}).items()}
        if not all(map(math.isfinite, paid.values())):
            raise ValueError(f"the game pays {paid}")
        return paid

    def _lost(self, player: int, why: str) -> Outcome:
        """The end of a game that one player's text has lost."""
        seat = self.possible_agents[player]
        paid = {other: 1.0 for other in self.possible_agents if self.players == 2}
        terms = {other: {"game": reward} for other, reward in paid.items()}
        terms[seat] = {"error": -1.0}
        solved = False if self.players == 1 else None
        return Outcome(reward_terms=terms, ended=True, success=solved, facts={seat: {"error": why}})


def marked(action: str) -> str:
    """An action with `> ` before each of its lines but the first.

    Games put actions into texts of their own: no line of those can be one that a player wrote.
    """
    return f"\n{QUOTE}".join(lines_of(action.strip()))


def shown(sender: Any, text: Any) -> str:
    """What a game tells, and what a player says as others are shown it."""
    if isinstance(sender, int) and sender != GAME:
        return quoted(f"player_{sender}", str(text).replace(f"\n{QUOTE}", "\n"))
    return f"[GAME] {text}"
