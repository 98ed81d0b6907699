"""The tasks on which teams are compared, and the texts that seats write for them."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs import make
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.coding.composition import OPS, Composition, conventions
from llm_marl_envs.envs.coding.source import composition_of
from llm_marl_envs.envs.coding.vocabulary import REDUCTIONS
from llm_marl_envs.measure.progress import counter
from llm_marl_envs.policies.base import Policy

ENV = "coop_coding-v0"
SEATS = HELPER, MAIN = "helper_0", "main_0"
LOOKED_AT = 100
"""Tasks of a split, from the first, that were looked at before."""
ROWS = 64
"""Texts that are asked for at once."""


def new_operation(task: Composition) -> bool:
    """Whether its operation is one of those that `ood` alone has."""
    return OPS[task.kind][task.op].kept_for == "ood"


def shown_operation(task: Composition) -> bool:
    """Whether tasks of training have its operation."""
    return not OPS[task.kind][task.op].kept_for


def new_ending(task: Composition) -> bool:
    """Whether its ending is in no task of training."""
    return task.ending in REDUCTIONS and REDUCTIONS[task.ending].kept_for == "ood"


def two_conditions(task: Composition) -> bool:
    """Whether two conditions must hold at once, which is in no task of training."""
    return len(task.predicates) > 1


@dataclass(frozen=True)
class TaskSet:
    """Tasks of a split that have two possible interfaces, and what else they must be.

    Attributes:
        split: of the environment.
        samples: texts of a seat for each task.
        holds: which compositions belong to it.
        most: how many of them, from the first.
    """

    split: str
    samples: int
    holds: Callable[[Composition], bool]
    most: int | None = None

    def tasks(self) -> list[Task]:
        """They, in order."""
        source = make(ENV, split=self.split).source
        every = (source[index] for index in range(LOOKED_AT, len(source)))
        found = []
        for task in every:
            composition: Any = composition_of(task)
            if len(conventions(composition)) > 1 and self.holds(composition):
                found.append(task)
            if len(found) == self.most:
                break
        return found


SETS = {
    "operations": TaskSet("ood", 2, new_operation),
    "test": TaskSet("test", 1, lambda task: True, 100),
    "pairs": TaskSet(
        "ood",
        1,
        lambda task: two_conditions(task) and shown_operation(task) and not new_ending(task),
        100,
    ),
    "endings": TaskSet(
        "ood",
        1,
        lambda task: new_ending(task) and shown_operation(task) and not two_conditions(task),
        100,
    ),
}


TUNING = {"val": TaskSet("val", 1, lambda task: True, 100)}
"""What rates are chosen on."""


def prompt_of(task: Task, agent: str) -> str:
    """What a seat is told of a task."""
    return make(ENV).first_words(task)[agent][-1].content


def shown_prompts() -> frozenset[str]:
    """All prompts of training, of either seat."""
    env = make(ENV, split="train")
    tasks = (env.source[index] for index in range(len(env.source)))
    return frozenset(said[-1].content for task in tasks for said in env.first_words(task).values())


def written(policy: Policy, seed: int, sets: Mapping[str, TaskSet]) -> list[dict[str, Any]]:
    """What a team's seats write for all sets: set, task, seat, sample, text and its tokens."""
    asked = [
        (name, task, agent, sample)
        for name, one in sets.items()
        for agent in SEATS  # a seat's texts are about as long, so few rows of a batch wait
        for task in one.tasks()
        for sample in range(one.samples)
    ]
    env = make(ENV)
    found = []
    with counter(len(asked), "texts", unit="text") as bar:
        for start in range(0, len(asked), ROWS):
            part = asked[start : start + ROWS]
            requests = [
                Request(
                    env_id=ENV,
                    observation="",
                    episode=start + place,
                    agent=agent,
                    turn=0,
                    messages=env.first_words(task)[agent],
                    seed=_seed(seed, name, task.id, agent, sample),
                    task_id=task.id,
                )
                for place, (name, task, agent, sample) in enumerate(part)
            ]
            for (name, task, agent, sample), said in zip(part, policy.act(requests), strict=True):
                about = {"set": name, "task": task.id, "agent": agent, "sample": sample}
                found.append({**about, "text": said.text, "tokens": len(said.completion_ids or ())})
            bar(len(part))
    return found


def _seed(*of: Any) -> int:
    return zlib.crc32("/".join(map(str, of)).encode())


def write_texts(path: Path, texts: Sequence[dict[str, Any]]) -> None:
    """As lines of JSON, packed; the same texts give the same bytes."""
    lines = "".join(json.dumps(one, sort_keys=True) + "\n" for one in texts)
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))


def read_texts(path: Path) -> list[dict[str, Any]]:
    """What `write_texts` wrote."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
