"""(d) Environments with a policy that answers at once, at 1, 64 and 1,024 copies.

    python -m benchmarks.speed.envs [--repetitions 5] [--ids debate-v0]

The answers are those of the scripted experts, written down before. "Own" time is
what `rollout` takes besides `reset`, `step` and `observe`, per turn of an agent. Programs of
`coop_coding-v0` are not run again: their verdicts are remembered. The second table runs them, in
wall time, for the processes that they run in are others. The third plays `debate-v0` where seats
have tools; with `--ids` and no id it is the only one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from pettingzoo import AECEnv

from benchmarks.speed.record import REPETITIONS, Row, keep, ratio
from llm_marl_envs import list_envs, make
from llm_marl_envs.core.records import Episode, Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.registry import env_factory
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy, Team
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.sandbox import Sandbox

COPIES = (1, 64, 1024)
FEWEST = 64
"""Episodes of one measurement, where there are fewer copies."""
CODING = "coop_coding-v0"
WORKERS = 2


def instant(episodes: Sequence[Episode]) -> ScriptedPolicy:
    """Says again what was said in these episodes."""
    said = {
        (number, turn.agent, turn.index): turn.response.text
        for number, episode in enumerate(episodes)
        for turn in episode.turns
    }
    return ScriptedPolicy(lambda request: said[request.episode, request.agent, request.turn])


class Played:
    """Episodes of one environment, ready to be played again at once.

    Attributes:
        turns: of agents, in all episodes.
        steps: of the environment.
        inside: seconds of each call of an environment, in the newest rollout.
    """

    def __init__(
        self, make_env: Callable[[], Any], copies: int, policy: ScriptedPolicy | None = None
    ) -> None:
        self.copies = VectorTextEnv([make_env() for _ in range(copies)])
        env = self.copies.envs[0]
        tasks = len(env.unwrapped.source)
        count = max(copies, FEWEST)
        self.starts = [Start(task=k % tasks, seed=k, sample_seed=k) for k in range(count)]
        experts: Team = dict.fromkeys(env.possible_agents, policy or ExpertPolicy(env))
        self.episodes = rollout(self.copies, experts, self.starts)
        self.team: Team = dict.fromkeys(env.possible_agents, instant(self.episodes))
        self.turns = sum(len(episode.turns) for episode in self.episodes)
        together = 1 if isinstance(env, AECEnv) else len(env.possible_agents)
        self.steps = self.turns // together
        self.inside: list[float] = []
        for copy in self.copies.envs:
            for method in ("reset", "step", "observe"):
                if hasattr(copy, method):
                    setattr(copy, method, self._timed(getattr(copy, method)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.inside.append(time.thread_time() - begun)

        return timed

    def again(self) -> Row:
        """Process seconds of the whole, and of all but the environments."""
        self.inside.clear()
        begun = time.process_time()
        rollout(self.copies, self.team, self.starts)
        seconds = time.process_time() - begun
        return {"all": seconds, "own": seconds - sum(self.inside)}


def environment(env_id: str, copies: Sequence[int], repetitions: int) -> Row:
    """One row of the table; numbers of copies take turns."""
    make_env = env_factory(env_id)
    with Sandbox(workers=WORKERS) as sandbox:

        def made() -> Any:
            env = make_env()
            if env_id == CODING:
                env.unwrapped.sandbox = sandbox
            return env

        ready = {count: Played(made, count) for count in copies}
        found: dict[int, list[Row]] = {count: [] for count in copies}
        for _ in range(repetitions + 1):
            for count, played in ready.items():
                found[count].append(played.again())
    row: Row = {"environment": f"`{env_id}`"}
    each = {
        count: [one["all"] / ready[count].steps for one in found[count][1:]] for count in copies
    }
    for count in copies:
        row[f"steps/s, {count:,}"] = 1 / median(each[count])
    cost = ratio(each[copies[-1]], each[copies[0]])
    row[f"cost of a step, {copies[-1]:,} to {copies[0]:,}"] = cost
    for count in copies:
        own = median(one["own"] for one in found[count][1:]) / ready[count].turns
        row[f"own µs a turn, {count:,}"] = 1e6 * own
    return row | {"raw": {str(count): each for count, each in found.items()}}


def calling(copies: int, repetitions: int) -> list[Row]:
    """`debate-v0` without tools, with tools that nobody calls, and with a call at every turn."""

    def call(request: Request) -> str:
        return "Answer: [yes]" if request.turn % 2 else "Call: calculate(17 * 23)"

    answer = ScriptedPolicy(lambda request: "Answer: [yes]")
    tools = {"debater_0": ["calculate"], "debater_1": ["calculate"]}
    arms: dict[str, tuple[dict[str, Any], ScriptedPolicy]] = {
        "no tools": ({}, answer),
        "tools, no call": ({"tools": tools}, answer),
        "a call before each answer": ({"tools": tools}, ScriptedPolicy(call)),
    }
    ready = {
        name: Played(partial(make, "debate-v0", **kwargs), copies, policy)
        for name, (kwargs, policy) in arms.items()
    }
    found: dict[str, list[Row]] = {name: [] for name in arms}
    for _ in range(repetitions + 1):
        for name, played in ready.items():
            found[name].append(played.again())
    rows = []
    for name, played in ready.items():
        own, whole = (
            median(row[part] for row in found[name][1:]) / played.turns for part in ("own", "all")
        )
        rows.append(
            {
                f"`debate-v0`, {copies} copies": name,
                "own µs a turn": 1e6 * own,
                "µs of a turn in the environment": 1e6 * (whole - own),
                "raw": found[name],
            }
        )
    return rows


def programs(copies: int) -> Row:
    """`coop_coding-v0`, each program run: wall time."""
    make_env = env_factory(CODING)
    with Sandbox(workers=WORKERS, cache=0) as sandbox:

        def made() -> Any:
            env = make_env()
            env.unwrapped.sandbox = sandbox
            return env

        played = Played(made, copies)
        seconds = []
        for _ in range(REPETITIONS):
            begun = time.perf_counter()
            rollout(played.copies, played.team, played.starts)
            seconds.append(time.perf_counter() - begun)
        played.copies.close()
    return {
        "copies": copies,
        "sandbox workers": WORKERS,
        "steps/s, wall": played.steps / median(seconds),
        "raw": seconds,
    }


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--ids", nargs="*", default=[i for i in list_envs() if "*" not in i])
    options = parser.parse_args()
    keep("calling", calling(COPIES[1], options.repetitions))
    if options.ids:
        keep("envs", [environment(one, COPIES, options.repetitions) for one in options.ids])
        keep("programs", [programs(copies) for copies in COPIES[:2]])


if __name__ == "__main__":
    main()
