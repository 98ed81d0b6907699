"""Many copies of a parallel environment stepped together.

Gymnasium's vector environments return stale text through shared memory; here observations stay
Python objects. Copies whose `play` waits for something outside (`blocking`, e.g. the sandbox) are
stepped by threads, the others in a plain loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

MAX_THREADS = 32

T = TypeVar("T")


class VectorTextEnv:
    """n parallel environments with list-valued results: element i belongs to copy i.

    Copies do not reset themselves: give an ended copy None, and it returns None, until `envs[i]` is
    reset.
    `rollout` drives copies of turn-based (AEC) environments too; `reset` and `step` here do not.

    Args:
        envs: the copies, at least one.

    Raises:
        ValueError: no copies, or the same object twice (one episode would overwrite another).
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        if not envs:
            raise ValueError("VectorTextEnv needs at least one environment")
        if len({id(env) for env in envs}) < len(envs):
            raise ValueError("VectorTextEnv got one environment twice; make a copy for each place")
        self.envs = list(envs)
        self._pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return len(self.envs)

    def reset(
        self,
        seeds: Sequence[int | None] | None = None,
        options: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[tuple[dict[str, str], dict[str, dict[str, Any]]]]:
        """Reset every copy; element i is what copy i's `reset` returned."""
        seeds = seeds if seeds is not None else [None] * len(self)
        options = options if options is not None else [None] * len(self)
        for name, values in (("seeds", seeds), ("options", options)):
            if len(values) != len(self):
                raise ValueError(f"{len(values)} {name} for {len(self)} environments")
        return [
            env.reset(seed=seed, options=option)
            for env, seed, option in zip(self.envs, seeds, options, strict=True)
        ]

    def step(self, actions: Sequence[Mapping[str, str] | None]) -> list[Any]:
        """Step the copies that have an action; None leaves a copy alone and returns None.

        Raises:
            ValueError: not one entry for each copy.
        """
        if len(actions) != len(self):
            raise ValueError(f"{len(actions)} joint actions for {len(self)} environments")
        jobs = [i for i, action in enumerate(actions) if action is not None]
        started = self.submit(lambda i: self.envs[i].step(actions[i]), jobs)
        results = {i: result() for i, result in zip(jobs, started, strict=True)}
        return [results.get(i) for i in range(len(self))]

    def submit(self, function: Callable[[int], T], indices: Sequence[int]) -> list[Callable[[], T]]:
        """Start `function` of each index; each item waits for one result, or raises its error.

        Environments that do not block, and a single one, are run by `submit` itself, so only the
        others go on beside what the caller does next.
        """
        if len(self) == 1 or not getattr(self.envs[0], "blocking", False):
            done = [function(i) for i in indices]
            return [lambda result=result: result for result in done]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(MAX_THREADS, len(self)), "env-step")
        started: list[Future[T]] = [self._pool.submit(function, i) for i in indices]
        return [future.result for future in started]

    def replace(self, index: int, env: Any) -> None:
        """Put another environment in the place of a copy, which is closed.

        Raises:
            ValueError: the environment stands in another place already.
        """
        if any(env is other for place, other in enumerate(self.envs) if place != index):
            raise ValueError(f"place {index} got the environment of another; make a copy for each")
        old, self.envs[index] = self.envs[index], env
        if old is not env:
            old.close()

    def close(self) -> None:
        """Close every copy and the threads."""
        for env in self.envs:
            env.close()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
