"""Plays drawn teams in the real environment and says what must never be.

Owns the oracle: no exception in the caller, rewards in the documented range whose terms sum to
them, plain infos, no false pass, no false fail, the same again for the same team, and a cost that
stays within the limits. Does not own the teams (`teams`).
"""

from __future__ import annotations

import json
import math
import threading
import time
import traceback
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from support.teams import Team, Turn, fuzz_team

from llm_marl_envs.envs.coding.coop_coding import CoopCodingEnv
from llm_marl_envs.envs.coding.rewards import TERM_RANGES
from llm_marl_envs.sandbox import Budget, Cost, Limits, Sandbox

LIMITS = Limits(cpu_seconds=2, wall_seconds=1.5, memory_mib=128)
WORKERS = 2
ROUNDING = 1e-9
# Statuses that a second run need not repeat, and words of programs that race with themselves.
LIMITED = ("cpu_limit", "wall_limit", "memory", "died", "early_exit")
RACY = ("thread", "time", "signal", "id(", "random", "urandom", "object()", "syscall", "gc", "hash")


class Noted(Budget):
    """A budget that can be asked what was spent of it."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.costs: dict[Hashable, Cost] = {}
        self.late = 0  # runs first heard of when nothing was left

    def spend(self, run: Hashable, cost: Cost) -> None:
        """As `Budget.spend`."""
        limits = self.limits
        spent = self.cpu_s > limits.cpu_seconds or self.wall_s > limits.wall_seconds
        self.late += spent and run not in self.costs
        self.costs[run] = cost
        super().spend(run, cost)

    def forget(self, run: Hashable) -> None:
        """As `Budget.forget`."""
        self.costs.pop(run, None)
        super().forget(run)

    @property
    def cpu_s(self) -> float:
        """Processor seconds of the side that used most."""
        sides = Counter[str]()
        for cost in list(self.costs.values()):
            sides.update(cost.cpu)
        return max(sides.values(), default=0.0)

    @property
    def wall_s(self) -> float:
        """Elapsed seconds of all runs, as `Limits` counts them."""
        return sum(cost.wall for cost in list(self.costs.values()))


class Metered(Sandbox):
    """A sandbox that keeps, for each thread, the budget of the last check."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.last = threading.local()

    def budget(self) -> Noted:
        """A full budget, noted."""
        self.last.budget = Noted(self.limits)
        return self.last.budget


@dataclass(frozen=True)
class Played:
    """One team's episode.

    Attributes:
        team: who played.
        wrong: what must never be, one text each.
        rewards: per turn, agent -> reward.
        verdicts: per turn, the status of the team's own run.
        passed: whether the tests passed.
        caller_s: processor seconds of the caller, most of any turn.
        spent_s: processor seconds that the budget of a check counts, most of any side and turn.
        counted_s: elapsed seconds that it counts, most of any turn.
        wall_s: elapsed seconds, most of any turn.
    """

    team: Team
    wrong: tuple[str, ...]
    rewards: tuple[Mapping[str, float], ...]
    verdicts: tuple[str, ...]
    passed: bool
    caller_s: float
    spent_s: float
    counted_s: float
    wall_s: float


def play(team: Team, sandbox: Metered) -> Played:
    """Play a team's episode to its end, or to the first exception."""
    env = team.environment()
    env.sandbox = sandbox
    wrong: list[str] = []
    rewards: list[Mapping[str, float]] = []
    verdicts: list[str] = []
    passed, caller, spent, counted, wall = False, 0.0, 0.0, 0.0, 0.0
    env.reset(seed=0, options={"task": team.problem.task})
    for turn in team.turns:
        if not env.agents:
            break
        began, used = time.monotonic(), time.thread_time()
        try:
            observations, reward, _, _, infos = env.step(turn.actions)
        except Exception as error:  # noqa: BLE001 - the very thing that is looked for
            where = "".join(traceback.format_tb(error.__traceback__)[-2:])
            wrong.append(f"exception: {type(error).__name__}: {str(error)[:300]}\n{where}")
            break
        caller = max(caller, time.thread_time() - used)
        spent = max(spent, sandbox.last.budget.cpu_s)
        counted = max(counted, sandbox.last.budget.wall_s)
        wall = max(wall, time.monotonic() - began)
        if sandbox.last.budget.late > WORKERS:  # as many may have been under way
            wrong.append(f"cost: {sandbox.last.budget.late} runs made when nothing was left")
        rewards.append(reward)
        info = infos["main_0"]
        verdicts.append(info["verdict"])
        passed = passed or info["success"]
        wrong += _wrong_of_turn(env, turn, reward, infos, observations)
    total = [sum(one[agent] for one in rewards) for agent in env.possible_agents]
    low, high = env.reward_range
    if not all(low - ROUNDING <= value <= high + ROUNDING for value in total):
        wrong.append(f"return: {total}, documented {env.reward_range}")
    # A program is stopped between its limit and twice as much, see `Limits`.
    if max(caller, spent / 2) > sandbox.limits.cpu_seconds:
        used = f"{caller:.1f} s of the caller's, {spent:.1f} s of one side's"
        wrong.append(f"cost: {used} processor time")
    measured = (passed, caller, spent, counted, wall)
    return Played(team, tuple(wrong), tuple(rewards), tuple(verdicts), *measured)


def _wrong_of_turn(
    env: CoopCodingEnv, turn: Turn, reward: Any, infos: Any, observations: Any
) -> Iterator[str]:
    ranges = TERM_RANGES[env.reward_scheme]
    for agent, info in infos.items():
        terms = info["reward_terms"]
        if set(terms) != set(ranges) or not math.isclose(
            sum(terms.values()), reward[agent], abs_tol=ROUNDING
        ):
            yield f"terms: {terms} and reward {reward[agent]}"
        for name, value in terms.items():
            low, high = ranges.get(name, (0.0, 0.0))
            low = low if env.reward_scheme == "paper" else -high  # else a gain
            if not low - ROUNDING <= value <= high + ROUNDING:
                yield f"terms: {name} is {value}, documented {ranges.get(name)}"
        if json.loads(json.dumps(info, allow_nan=False)) != info:
            yield f"info is not plain: {info}"
        if not isinstance(observations[agent], str):
            yield f"observation of {agent} is {type(observations[agent]).__name__}"
    info = infos["main_0"]
    if info["success"] and turn.solves is False:
        yield f"false pass: {info}"
    if not info["success"] and turn.solves:
        yield f"false fail: {info}"


def again(first: Played, sandbox: Metered) -> Iterator[str]:
    """What differs when the same team plays again; nothing where limits or races may decide."""
    texts = "".join(text for turn in first.team.turns for text in turn.actions.values())
    if first.wrong or set(first.verdicts) & set(LIMITED) or any(word in texts for word in RACY):
        return
    if first.wall_s > LIMITS.wall_seconds / 2:
        return
    second = play(first.team, sandbox)
    if set(second.verdicts) & set(LIMITED):
        return
    if second.rewards != first.rewards or second.verdicts != first.verdicts:
        yield f"not the same again: {first.rewards} {first.verdicts}, then {second.rewards}"
        yield f"{second.verdicts}"


def fuzz(
    seeds: Iterable[int], sandbox: Metered, repeated: int, threads: int = WORKERS
) -> Iterator[Played]:
    """Play the teams of `seeds`, every `repeated`-th of them twice, in their order."""

    def one(seed: int) -> Played:
        first = play(fuzz_team(seed), sandbox)
        if first.wrong and "wall_limit" in first.verdicts:  # the machine's doing, if not twice
            first = play(first.team, sandbox)
        more = tuple(again(first, sandbox)) if seed % repeated == 0 else ()
        return replace(first, wrong=first.wrong + more)

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(one, seeds)
