"""Games of TextArena as turn-based environments: `make("textarena/KuhnPoker-v0")`.

A seat `player_<i>` is told what the game sends it, each message once, when it is to act; the own
wrapper of TextArena repeats the whole game every time. A task is a seed of the game. The game's
rewards are paid at its end. Actions are in the form that the game's rules ask for, such as `[bet]`.

TextArena draws from the process's random generators. They are put back after every call, and each
game goes on with its own; threads wait for each other. Needs the extra `textarena`.
"""

# ruff: noqa: NPY002 - the games draw from the generators of the process

from __future__ import annotations

import importlib
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from llm_marl_envs.core import TextAECEnv, described
from llm_marl_envs.outcome import Outcome
from llm_marl_envs.spaces import Message
from llm_marl_envs.tasks import FIRST_SEEDS, SEEDS_OF_A_SPLIT, SeedSource, Task

GAME = -1
"""Who speaks where the game does."""
TRIED = (2, 1, 3, 4, 5, 6, 7, 8)
"""Numbers of players that are tried where none is given."""
YOUR_TURN = "It is your turn."
_GENERATORS = threading.Lock()
"""Held while the process's random generators are a game's."""


class TextArenaEnv(TextAECEnv):
    """One game; see the module.

    What a game raises over an action ends it: the seat that acted is paid -1, and its info has
    `error`. An end by `turns` pays nothing.

    Args:
        game: its id in TextArena, e.g. "KuhnPoker-v0".
        players: how many seats; the first of 2, 1, 3, ... 8 that the game allows, where None.
        turns: most actions of one seat.
        split: "train", "val", "test" or "ood"; they differ in their seeds alone.
        size: how many seeds.
        max_action_chars: longer actions are cut.
        observation_chars: most characters of what a seat sees in a game.
        render_mode: as every environment.

    Raises:
        ImportError: TextArena is not installed.
        ValueError: an argument out of range, no such game, other players than it takes, or it
            cannot be played here: a game that downloads word lists or asks a judge needs the
            network.
    """

    metadata: ClassVar[dict[str, Any]] = described("textarena")
    reward_range = (-1.0, 1.0)

    def __init__(
        self,
        *,
        game: str,
        players: int | None = None,
        turns: int = 64,
        split: str = "train",
        size: int = 1000,
        max_action_chars: int = 1024,
        observation_chars: int = 10_000_000,
        render_mode: str | None = None,
    ) -> None:
        if split not in FIRST_SEEDS:
            raise ValueError(f"split={split!r}: expected one of {[*FIRST_SEEDS]}")
        if not 1 <= size <= SEEDS_OF_A_SPLIT:
            raise ValueError(f"size={size}: expected 1 to {SEEDS_OF_A_SPLIT} seeds")
        if players is not None and players < 1:
            raise ValueError(f"players={players}: expected at least 1")
        self.game = game
        self._generators: Any = None
        self._arena: Any = None
        self._player = 0
        self.players = players or self._smallest()
        if players is not None:
            try:
                self._begin_game(FIRST_SEEDS[split])
            except AssertionError as error:
                raise ValueError(f"{game}, players={players}: {error}") from error
        super().__init__(
            agents=[f"player_{i}" for i in range(self.players)],
            source=SeedSource(split, size),
            max_turns=turns,
            max_action_chars=max_action_chars,
            render_mode=render_mode,
            observation_chars=observation_chars,
        )

    # -- the game ---------------------------------------------------------------------------------
    def _made(self) -> Any:
        """A fresh game without TextArena's wrappers."""
        try:
            textarena: Any = importlib.import_module("textarena")
        except ImportError as error:
            raise ImportError(
                "TextArena's games need the extra 'textarena': "
                "pip install 'llm-marl-envs[textarena]'"
            ) from error
        known = textarena.envs.registration.ENV_REGISTRY
        if self.game not in known:
            raise ValueError(f"TextArena has no game {self.game!r}; it has e.g. {[*known][::40]}")
        raw = f"{self.game}-raw"
        return textarena.make(raw if raw in known else self.game)

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
        told, state.observations[player] = state.observations[player], []
        lines = [
            f"[{'GAME' if sender == GAME else f'Player {sender}'}] {text}"
            for sender, text, _ in told
            if sender != player
        ]
        return "\n".join(lines)

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
        with self._own_generators():
            try:
                done, _ = self._arena.step(action)
                rewards = self._arena.close()[0] if done else None
            except Exception as error:  # noqa: BLE001 - a model's text must not end a run
                return Outcome(
                    reward_terms={agent: {"error": -1.0}},
                    ended=True,
                    facts={agent: {"error": f"{type(error).__name__}: {error!s:.300}"}},
                )
            self._player = self._arena.state.current_player_id
        if done:
            paid = {f"player_{i}": {"game": float(r)} for i, r in (rewards or {}).items()}
            alone = self.players == 1 and paid.get("player_0", {}).get("game", 0.0) >= 1.0
            return Outcome(
                reward_terms=paid, ended=True, success=alone if self.players == 1 else None
            )
        told = self._news(self._player) or YOUR_TURN
        return Outcome(reward_terms={}, feedback={f"player_{self._player}": told})
