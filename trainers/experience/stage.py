"""The episodes of an update: the engine takes the weights, seats are taken, a share is played.

An update that loses a sampling server is played again, on every process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from llm_marl_envs.core.records import EpisodeGroup
from llm_marl_envs.core.specs import env_name
from llm_marl_envs.play.branches import NotReplayableError
from llm_marl_envs.policies.json_server import LostServerError
from trainers.experience.collect import Collector
from trainers.experience.players import Players
from trainers.running.clock import Clock
from trainers.running.processes import Processes

T = TypeVar("T")
REPEATS = 2
"""Times that an update is played again after a sampling server was lost."""


class Stage:
    """Plays this process's share of an update.

    Args:
        collector: plays and judges.
        players: who plays.
        processes: of the run.
        clock: of the run.
    """

    def __init__(
        self,
        collector: Collector,
        players: Players,
        processes: Processes,
        clock: Clock,
    ) -> None:
        self.collector = collector
        self.players = players
        self.policy = players.policy
        self.processes = processes
        self.clock = clock

    def groups(self, update: int) -> list[EpisodeGroup]:
        """This process's groups, whatever servers are lost up to `REPEATS` times.

        Raises:
            Exception: what stopped this process or another one.
        """
        for left in reversed(range(REPEATS + 1)):
            again, repeats = left < REPEATS, left > 0
            if again and not self._together(self._recover, update, repeats=repeats):
                continue
            if self._together(lambda: self._publish(update), update, repeats=repeats):
                with self._weights():
                    groups = self._together(lambda: self.once(update), update, repeats=repeats)
                if groups is not None:
                    return groups
        raise AssertionError("the last time, a lost server is raised")

    def once(self, update: int) -> list[EpisodeGroup]:
        """This process's groups, policies in the seats of this update; weights as they are."""
        with self.players.seated(update) as seated:
            return self.collector.play(update, seated)

    def ready(self, update: int) -> AbstractContextManager[None]:
        """Present weights at the engine, on every process; the block may sample.

        Raises:
            Exception: what stopped this process or another one.
        """
        self._together(lambda: self._publish(update), update, repeats=False)
        return self._weights()

    @contextmanager
    def _weights(self) -> Iterator[None]:
        """All sharded weights on this process, unless others sample (an exact engine is proven).

        What the engine kept for next turns is let go at the end.
        """
        engine = self.policy.engine
        elsewhere = engine.remote and not engine.exact
        try:
            with nullcontext() if elsewhere else self.policy.team.whole():
                yield
        finally:
            engine.let_go()

    def _recover(self) -> bool:
        """Let the engine wait until it can begin anew."""
        self.policy.engine.recover()
        return True

    def _publish(self, update: int) -> bool:
        """Let the engine sample with the present weights; sharded ones take every process."""
        with self.clock.part("publishing"):
            self.policy.engine.publish(update)
        return True

    def _together(self, act: Callable[[], T], update: int, *, repeats: bool) -> T | None:
        """What comes of it on this process, once every process has done it.

        None where a sampling server was lost on one of them and `repeats` says to try again.
        """
        result, error = None, None
        try:
            result = act()
        except Exception as raised:  # noqa: BLE001 - raised again once every process knows of it
            error = raised
        if self.processes.any(isinstance(error, LostServerError)) and repeats:
            warnings.warn(f"update {update} is played again: {error}", stacklevel=2)
            return None
        if isinstance(error, NotReplayableError):
            error = _not_replayed(update, env_name(self.collector.env), error)
        self.processes.stop(error)
        return result


def _not_replayed(update: int, env: str, error: Exception) -> Exception:
    stop = NotReplayableError(
        f"update {update}, environment {env}: {error}. Mend the environment, so that reset seed "
        "and actions decide alone. An algorithm that plays no branches, such as 'magrpo', does not "
        "ask for this"
    )
    stop.__cause__ = error
    return stop
