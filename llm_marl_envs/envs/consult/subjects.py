"""What a task is about: generated cases and builds, and rows of a file.

Owns what environment, experts and bounds ask of any task, and how rows become tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llm_marl_envs.core.answers import can_be_given
from llm_marl_envs.core.tasks import Row, Task, TaskSource, hash_of, split_of_row
from llm_marl_envs.envs.consult.builds import (
    ENTRY_POINT,
    Build,
    answers,
    build_of,
    build_tasks,
    family,
    family_text,
    program,
    tests,
)
from llm_marl_envs.envs.consult.cases import case_of, case_tasks, table_text
from llm_marl_envs.envs.consult.chances import Case
from llm_marl_envs.envs.consult.plans import CasePlan, FamilyPlan
from llm_marl_envs.envs.consult.record import Fact, Record
from llm_marl_envs.sandbox import units_of

KINDS = ("case", "build")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a task is about.

    Attributes:
        kind: of `KINDS`.
        statement: what the asker is told, beside the complaint.
        person: what the person is told, beside the record.
        record: what the person knows.
        chances: what is known of a generated task; None for a row.
        solution: the right class, or a program.
        classes: what may be answered; empty for a build.
        entry_point: the function to write; "" for a case.
        tests: assertions about it.
    """

    kind: str
    statement: str
    person: str
    record: Record
    chances: Case | Build | None
    solution: str
    classes: tuple[str, ...] = ()
    entry_point: str = ""
    tests: str = ""


def subject_of(task: Task) -> Subject:
    """What a task is about."""
    if "prompt" in task.data:
        return _subject_of_row(task.data)
    if task.data["kind"] == "build":
        build = build_of(task)
        return Subject(
            kind="build",
            statement=family_text(task),
            person="You know what parcels cost.",
            record=build.record,
            chances=build,
            solution=program(build.function),
            entry_point=ENTRY_POINT,
            tests=tests(build.function),
        )
    case = case_of(task)
    return Subject(
        kind="case",
        statement=table_text(task.data),
        person=f"Something is wrong with your {task.data['thing']}. You do not know what.",
        record=case.record,
        chances=case,
        solution=case.right,
        classes=case.classes,
    )


def generated(kind: str, split: str) -> TaskSource:
    """The generated tasks of a kind."""
    return case_tasks(split) if kind == "case" else build_tasks(split)


def plan_of(
    chances: Case | Build, known: Mapping[int, str], questions: int, price: float
) -> CasePlan | FamilyPlan:
    """The best way to ask from what is known (place -> value).

    Raises:
        ValueError: too many facts or states, see `plans.py`.
    """
    state = tuple(sorted(known.items()))
    if isinstance(chances, Case):
        return _case_plan(chances, state, questions, price)
    return _family_plan(chances.split, state, questions, price)


State = tuple[tuple[int, str], ...]


@lru_cache(maxsize=1024)
def _case_plan(case: Case, state: State, questions: int, price: float) -> CasePlan:
    return CasePlan(case, dict(state), questions, price)


@lru_cache(maxsize=1024)
def _family_plan(split: str, state: State, questions: int, price: float) -> FamilyPlan:
    return FamilyPlan({f: answers(f) for f in family(split)}, dict(state), questions, price)


# -- rows -----------------------------------------------------------------------------------------
def task_of_row(row: Row, kind: str) -> Task:
    """The task of a row.

    Args:
        row: `prompt`, a text; `facts`, name -> value; perhaps `complaint`, names of facts that the
            asker is told first. For a case `classes`, a list, and `answer`, one of them. For a
            build `entry_point`, `tests` and a `solution`. Perhaps `id` and `split`.
        kind: of the environment.

    Raises:
        ValueError: a column is missing or of the wrong kind; the message names it.
    """
    _check_texts(row, "prompt", *(() if kind == "case" else ("entry_point", "tests", "solution")))
    facts, complaint = row.get("facts"), row.get("complaint", [])
    if (
        not isinstance(facts, Mapping)
        or not facts
        or not all(map(_is_text, (*facts, *facts.values())))
    ):
        raise ValueError(f"facts={facts!r:.80}: expected a map, name -> value, both texts")
    if not isinstance(complaint, (list, tuple)) or any(name not in facts for name in complaint):
        raise ValueError(f"complaint={complaint!r:.80}: expected names of {[*facts]}")
    data: dict[str, Any] = {"kind": kind, "prompt": row["prompt"], "facts": dict(facts)}
    data["complaint"] = list(complaint)
    if kind == "case":
        data |= _answer_of(row)
    else:
        units_of(row["tests"], row["entry_point"])  # refuses what cannot be run
        data |= {name: row[name] for name in ("entry_point", "tests", "solution")}
    key = repr(sorted((name, str(value)) for name, value in data.items()))
    split = split_of_row(row, key)
    return Task(str(row.get("id") or f"row-{hash_of(key):016x}"), split, data)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def _check_texts(row: Row, *names: str) -> None:
    for name in names:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise ValueError(f"{name}={row.get(name)!r:.80}: expected a text")


def _answer_of(row: Row) -> dict[str, Any]:
    classes, answer = row.get("classes"), row.get("answer")
    if (
        not isinstance(classes, (list, tuple))
        or len(classes) < 2
        or not all(map(_is_text, classes))
    ):
        raise ValueError(f"classes={classes!r:.80}: expected a list of at least two texts")
    if unusable := [name for name in classes if not can_be_given(name)]:
        raise ValueError(f"classes: {unusable[0]!r:.80} cannot be given as an answer")
    if answer not in classes:
        raise ValueError(f"answer={answer!r:.80}: expected one of {[*classes]}")
    return {"classes": list(classes), "answer": answer}


def _subject_of_row(data: Mapping[str, Any]) -> Subject:
    names = [*data["facts"]]
    facts = tuple(Fact(name, (value,), _words(name)) for name, value in data["facts"].items())
    complaint = tuple(names.index(name) for name in data["complaint"])
    record = Record(facts, tuple(data["facts"].values()), complaint)
    case = data["kind"] == "case"
    listed = f"{data['prompt']}\nIt is one of these: {', '.join(data['classes'])}." if case else ""
    return Subject(
        kind=data["kind"],
        statement=listed or data["prompt"],
        person=data["prompt"],
        record=record,
        chances=None,
        solution=data["answer"] if case else data["solution"],
        classes=tuple(data.get("classes", ())),
        entry_point=data.get("entry_point", ""),
        tests=data.get("tests", ""),
    )


def _words(name: str) -> tuple[str, ...]:
    """The single words of a fact's name, if they are long enough to mean it."""
    return tuple(word for word in name.lower().split() if len(word) > 3)
