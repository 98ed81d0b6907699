"""Does a pretrained model of 135 million parameters call a tool, and does it use what it is told?

    python -m benchmarks.tool_use

`math_team-v1`, level 2: a scripted reasoner tells the four numbers, SmolLM2-135M-Instruct knows the
formula and answers, and may call `calculate` twice. Two models: as it comes, and after a warm start
(LoRA) on demonstrations of a needed call and of an answer that repeats its result. Each plays the
same tasks of `test` with

    real        the results of its calls
    exchanged   the results of another task's needed calls: a placebo
    empty       results that say nothing
    no tool     without tools

A call counts as used only if success falls where its result is exchanged or empty. One JSON file
for each model and arm. About 30 minutes of one CPU core. Needs the extra `train` and the model:
`llm-marl import-model smollm2` fetches it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.resumable import Run, options, runs_of
from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers.compare import compare, report
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.tools.base import Tool
from llm_marl_envs.tools.calculate import Calculate
from trainers.policies.local import LocalPolicy
from trainers.weights.imported import model_folder
from trainers.weights.shown import Demonstration
from trainers.weights.warm_start import WarmStart, taught

ENV, ACTOR, REASONER = "math_team-v1", "actor_0", "reasoner_0"
LEVEL, CALLS, TASKS = 2, 2, 100
CONVENTION = "forward"
WARM_START = WarmStart(demonstrations=400, steps=50, batch_size=8)
NEWS = 24
"""Most tokens of an action."""


class Exchanged(Calculate):
    """Says what the needed call of another task would have said."""

    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """A result of the right kind that has nothing to do with this task."""
        source = self.env.source
        while (other := source[chance.randrange(len(source))]).id == task.id:
            pass
        ((_, needed),) = self.env.known_calls(other, ACTOR)
        return super().call(needed, other, chance)


class Empty(Calculate):
    """Says nothing."""

    def call(self, arguments: Mapping[str, Any], task: Task, chance: random.Random) -> str:
        """An empty text."""
        return ""


ARMS: dict[str, type[Tool] | str | None] = {
    "real": "calculate",
    "exchanged": "benchmarks.tool_use:Exchanged",
    "empty": "benchmarks.tool_use:Empty",
    "no tool": None,
}


def env_of(tool: Any, split: str = "test") -> Any:
    """The environment of an arm."""
    tools = {} if tool is None else {"tools": {ACTOR: [tool], "calls": CALLS}}
    return make(ENV, level=LEVEL, split=split, **tools)


def demonstrations(n: int) -> list[Demonstration]:
    """Needed calls, and answers that repeat their results, half each."""
    env = env_of("calculate", "train")
    experts = experts_of(env)
    shown: list[Demonstration] = []
    for index in range(n // 2):
        env.reset(seed=0, options={"task": index})
        task = env.unwrapped.task
        env.step(experts.first(task, REASONER, CONVENTION))
        ((tool, arguments),) = env.unwrapped.known_calls(task, ACTOR)
        called = f"Call: {tool}({arguments['expression']})"
        for action in (called, None):
            chat = env.observe(ACTOR).messages
            result = chat[-1].content.splitlines()
            said = action or f"Answer: {result[1].removeprefix('> ').split(',')[0]}"
            shown.append(([{"role": m.role, "content": m.content} for m in chat], said))
            env.step(said)
        assert env.infos[ACTOR]["success"], f"the demonstrated answer to {task.id} is wrong"
    return shown


def measured(model: str, arm: str) -> Run:
    """One arm of one model: calls, and success by task."""
    tool = ARMS[arm]
    policy = LocalPolicy(model, max_completion_length=NEWS, temperature=0.0)
    seats = {REASONER: ExpertPolicy(env_of(tool), CONVENTION), ACTOR: policy}
    result = evaluate_team(env_of(tool), seats, n_tasks=TASKS, seed=1)
    turns = [turn for e in result.episodes for turn in e.trajectory(ACTOR)]
    calls = [turn.info["call"] for turn in turns if "call" in turn.info]
    needed = sum(
        any(_needed(e.task_id, turn) for turn in e.trajectory(ACTOR)) for e in result.episodes
    )
    return {
        "arm": arm,
        "success": result.success,
        "success_ci95": result.success_ci95,
        "by_task": {task.task_id: task.returns[0] for task in result.tasks},
        "calls_per_episode": len(calls) / TASKS,
        "readable_calls": sum(not call["failed"] for call in calls) / max(1, len(calls)),
        "called": sum(any("call" in t.info for t in e.turns) for e in result.episodes) / TASKS,
        "needed": needed / TASKS,
        "examples": [[t.response.text for t in e.trajectory(ACTOR)] for e in result.episodes[:3]],
    }


def _needed(task_id: str, turn: Any) -> bool:
    """Whether a turn made the call that its task needs, or one of the same value."""
    call = turn.info.get("call")
    if not call or call["failed"]:
        return False
    env = env_of("calculate").unwrapped
    task, chance, tool = env.source.find(task_id), random.Random(0), Calculate(env)
    ((_, needed),) = env.known_calls(task, ACTOR)
    return tool.call(call["arguments"], task, chance) == tool.call(needed, task, chance)


def run(model: str, arm: str) -> Run:
    """Make the model of a run, then measure."""
    base = model_folder("smollm2")
    if model == "warm":
        shown = demonstrations(WARM_START.demonstrations)
        base = taught(base, shown, WARM_START, about={"env_id": ENV, "what": "calls"})
    return {"model": model, **measured(base, arm)}


def table(runs: Sequence[Run]) -> str:
    """Markdown, and the two comparisons of each model."""
    head = "| model | results | success | called | calls that can be read | needed call made |"
    lines = [head, "|---|---|---|---|---|---|"]
    for r in runs:
        low, high = r["success_ci95"]
        calls = [f"{r[name]:.2f}" for name in ("called", "readable_calls", "needed")]
        cells = [r["model"], r["arm"], f"{r['success']:.2f} [{low:.2f}, {high:.2f}]", *calls]
        lines.append(f"| {' | '.join(cells)} |")
    by_name = {(r["model"], r["arm"]): r["by_task"] for r in runs}
    for (model, arm), other in by_name.items():
        if arm in ("exchanged", "empty") and (model, "real") in by_name:
            text = report(compare([by_name[model, "real"]], [other]))
            lines.append(f"\n{model}, real against {arm}: {text}")
    return "\n".join(lines)


def main() -> None:
    """Make the runs that are missing, then the table."""
    parser = options("tool_use", __doc__, output="benchmarks/results/tool_use")
    args: argparse.Namespace = parser.parse_args()
    due = [
        (f"{model}-{arm.replace(' ', '-')}", partial(run, model, arm))
        for model in ("base", "warm")
        for arm in ARMS
    ]
    print(table(runs_of(args, due)))


if __name__ == "__main__":
    main()
