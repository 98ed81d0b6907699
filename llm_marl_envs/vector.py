"""Many copies of a parallel environment stepped together.

Gymnasium's vector environments return stale text through shared memory; here observations stay
Python objects. Copies whose `play` waits for something outside (`blocking`, e.g. the sandbox) are
stepped by threads, the others in a plain loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

MAX_THREADS = 32

T = TypeVar("T")


class VectorTextEnv:
    """n parallel environments with list-valued results: element i belongs to copy i.

    Copies do not reset themselves: an ended copy returns None until `reset_at`.

    Args:
        envs: the copies, at least one.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        if not envs:
            raise ValueError("VectorTextEnv needs at least one environment")
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
        for name, given in (("seeds", seeds), ("options", options)):
            if len(given) != len(self):
                raise ValueError(f"{len(given)} {name} for {len(self)} environments")
        return [
            env.reset(seed=seed, options=option)
            for env, seed, option in zip(self.envs, seeds, options, strict=True)
        ]

    def reset_at(
        self, index: int, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Reset one copy."""
        return self.envs[index].reset(seed=seed, options=options)

    def step(self, actions: Sequence[Mapping[str, str] | None]) -> list[Any]:
        """Step the copies that have an action; None leaves a copy alone and returns None.

        Raises:
            ValueError: not one entry for each copy.
        """
        if len(actions) != len(self):
            raise ValueError(f"{len(actions)} joint actions for {len(self)} environments")
        jobs = [i for i, action in enumerate(actions) if action is not None]
        results: list[Any] = [None] * len(self)
        for i, result in zip(jobs, self.map(lambda i: self.envs[i].step(actions[i]), jobs)):
            results[i] = result
        return results

    def map(self, function: Callable[[int], T], indices: Sequence[int]) -> list[T]:
        """`function` of each index, in threads if the environments block, else in a loop."""
        if len(indices) < 2 or not getattr(self.envs[0], "blocking", False):
            return [function(i) for i in indices]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(min(MAX_THREADS, len(self)), "env-step")
        return list(self._pool.map(function, indices))

    def close(self) -> None:
        """Close every copy and the threads."""
        for env in self.envs:
            env.close()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
