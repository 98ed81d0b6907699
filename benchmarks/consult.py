"""What askers of `consult-v0` earn beside the scripted person, and what can be earned.

    python -m benchmarks.consult [--tasks 1000]

Tables in Markdown: the mean of the bounds of each split, and askers on `test`. They all name the
likeliest answer at last, and differ in what they ask and when they stop.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any

from llm_marl_envs import make
from llm_marl_envs.core.records import Episode, Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.consult.experts import ASKER, answered, ask, heard
from llm_marl_envs.envs.consult.subjects import KINDS, Subject, plan_of, subject_of
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy

COPIES = 32
ENOUGH = 0.01
"""Bits below which the greedy asker stops."""
Choose = Callable[[Subject, Mapping[int, str], int, float], int | None]


def open_facts(subject: Subject, known: Mapping[int, str]) -> list[int]:
    """The facts that are not known."""
    return [place for place in range(len(subject.record.facts)) if place not in known]


def nothing(subject: Subject, known: Mapping[int, str], left: int, price: float) -> int | None:
    """Answer at once."""
    return None


def in_order(subject: Subject, known: Mapping[int, str], left: int, price: float) -> int | None:
    """The first fact that is not known, to the last question."""
    unknown = open_facts(subject, known)
    return unknown[0] if left and unknown else None


def most_bits(subject: Subject, known: Mapping[int, str], left: int, price: float) -> int | None:
    """The fact that is expected to tell most, whatever it costs."""
    chances = subject.chances
    assert chances is not None
    bits = {place: chances.information(known, place) for place in open_facts(subject, known)}
    best = max(bits, key=lambda place: bits[place], default=None)
    return best if left and best is not None and bits[best] > ENOUGH else None


def one_ahead(subject: Subject, known: Mapping[int, str], left: int, price: float) -> int | None:
    """The best fact for who answers after it."""
    assert subject.chances is not None
    return plan_of(subject.chances, known, min(left, 1), price).question()


def best(subject: Subject, known: Mapping[int, str], left: int, price: float) -> int | None:
    """The fact that the best asker asks for."""
    assert subject.chances is not None
    return plan_of(subject.chances, known, left, price).question()


ASKERS: dict[str, Choose] = {
    "answers at once": nothing,
    "all questions, in order": in_order,
    "all questions, most bits first": most_bits,
    "one question ahead": one_ahead,
    "expectimax": best,
}


def policy(env: Any, choose: Choose) -> ScriptedPolicy:
    """An asker that asks for what a rule chooses."""
    inner = env.unwrapped

    def say(request: Request) -> str:
        subject = subject_of(inner.source.find(request.task_id))
        known = heard(subject.record, request.messages)
        left = inner.max_turns - 1 - request.turn
        place = choose(subject, known, left, inner.price)
        assert subject.chances is not None
        if place is None:
            return answered(subject, subject.chances.guess(known))
        return ask(subject.record.facts[place])

    return ScriptedPolicy(say)


def played(kind: str, choose: Choose, tasks: int) -> list[Episode]:
    """Episodes on `test`, each task once."""
    copies = [make("consult-v0", kind=kind, person="script", split="test") for _ in range(COPIES)]
    starts = [Start(task=index) for index in range(min(tasks, len(copies[0].source)))]
    return rollout(VectorTextEnv(copies), {ASKER: policy(copies[0], choose)}, starts)


def table(*head: str) -> None:
    """Begin a table."""
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")


def print_bounds(tasks: int) -> None:
    """The mean of the bounds of each split."""
    table("kind", "split", "tasks", "random", "solo", "team, script", "team, seat")
    for kind in KINDS:
        for split in ("train", "val", "test", "ood"):
            script, seat = (
                make("consult-v0", kind=kind, split=split, person=person).unwrapped
                for person in ("script", "seat")
            )
            every = [script.source[index] for index in range(min(tasks, len(script.source)))]
            bounds = [script.bounds(task) for task in every]
            names = ("random", "solo", "team")
            numbers = [mean(getattr(each, name) for each in bounds) for name in names]
            numbers.append(mean(seat.bounds(task).team for task in every))
            row = " | ".join(f"{number:.3f}" for number in numbers)
            print(f"| {kind} | {split} | {len(script.source)} | {row} |")


def print_askers(tasks: int) -> None:
    """What each asker earns on `test`."""
    table("kind", "asker", "return", "success", "questions", "bits of a question")
    for kind in KINDS:
        for name, choose in ASKERS.items():
            episodes = played(kind, choose, tasks)
            last = [episode.turns[-1].info for episode in episodes]
            bits = [value for info in last for value in info["information"]]
            print(
                f"| {kind} | {name} | {mean(e.undiscounted_return(ASKER) for e in episodes):.3f} "
                f"| {mean(bool(e.success) for e in episodes):.3f} "
                f"| {mean(info['questions'] for info in last):.2f} | {mean(bits or [0]):.2f} |"
            )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000, help="of each split, at most")
    tasks = parser.parse_args().tasks
    print_bounds(tasks)
    print_askers(tasks)


if __name__ == "__main__":
    main()
