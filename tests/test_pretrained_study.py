"""The study with a pretrained model: its sets, its measures by hand, its pages."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llm_marl_envs import make
from llm_marl_envs.envs.coding.source import composition_of
from llm_marl_envs.files.json_files import read_json

pytestmark = pytest.mark.full  # `make test-all` runs it

NAMES = ("sets", "pairings", "measures", "units", "summary", "page")
WARM = [0, 0, 1, 1]


@pytest.fixture
def there(bench_module: Callable[[str], Any]) -> Any:
    """The modules of the study."""
    return SimpleNamespace(**{one: bench_module(f"pretrained.{one}") for one in NAMES})


def test_sets_hold_what_they_say_and_nothing_that_was_looked_at(there: Any) -> None:
    sets: dict[str, list[Any]] = {
        name: [composition_of(t) for t in one.tasks()] for name, one in there.sets.SETS.items()
    }
    assert {name: len(one) for name, one in sets.items()} == {
        "operations": 217,
        "test": 100,
        "pairs": 100,
        "endings": 100,
    }
    assert all(there.sets.new_operation(one) for one in sets["operations"])
    assert not any(there.sets.new_operation(one) for one in sets["test"])
    shown = make("coop_coding-v0", split="train")
    told = {m[0].content for i in range(len(shown.source)) for m in first_words(shown, i)}
    for name in ("pairs", "endings"):
        split = make("coop_coding-v0", split="ood")
        for task in there.sets.SETS[name].tasks():
            helper, main = (said[0].content for said in split.first_words(task).values())
            assert (helper in told, main in told) == (True, False)
    assert all(len(one.predicates) == 2 for one in sets["pairs"])
    every = [task.id for one in there.sets.SETS.values() for task in one.tasks()]
    assert len({*every}) == len(every)
    first = {f"{split}/{i}" for split in ("test", "ood") for i in range(100)}
    assert not first & {*every}
    assert not {task.id for task in there.sets.TUNING["val"].tasks()} & {*every}


def first_words(env: Any, index: int) -> Any:
    return env.first_words(env.source[index]).values()


def test_a_ceiling_has_one_convention_of_each_kind(there: Any) -> None:
    env = make("coop_coding-v0", split="train")
    shown = {*there.units.CONVENTIONS}
    kinds = [{*env.experts().conventions(env.source[i])} for i in range(300)]
    assert {len(one & shown) for one in kinds if len(one) > 1} == {1}


def test_the_matrix_by_hand(there: Any) -> None:
    m = there.measures
    matrix = np.array(
        [
            [0.9, 0.5, 0.1, 0.1],
            [0.7, 1.0, 0.1, 0.1],
            [0.2, 0.2, 0.8, 0.4],
            [0.2, 0.2, 0.6, 0.7],
        ]
    )
    assert m.partners(matrix).tolist() == [0.9, 1.0, 0.8, 0.7]
    assert {k: v.tolist() for k, v in m.strangers(matrix, WARM).items()} == {
        0: [0.5, 0.7],
        1: [0.4, 0.6],
    }
    assert m.own_minus_stranger(matrix, WARM) == pytest.approx(0.85 - 0.55)
    assert m.inherited(matrix, WARM) == pytest.approx(0.55 - 0.15)
    assert [*m.regroupings(WARM)] == [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]]
    assert m.inherited_p(matrix, WARM) == 1 / 3
    assert m.inherited_p(matrix, [0, 1, 0, 1]) == 1
    assert next(m.arrangements(WARM)) == [0, 1, 2, 3]
    assert sorted(m.arrangements(WARM)) == [[0, 1, 2, 3], [0, 1, 3, 2], [1, 0, 2, 3], [1, 0, 3, 2]]
    assert m.permutation_p(matrix, WARM) == 1 / 4
    assert m.permutation_p(matrix[:, [1, 0, 3, 2]], WARM) == 1
    assert m.permutation_p(np.ones((4, 4)), WARM) == 1


def test_as_many_arrangements_as_the_plan_says(there: Any) -> None:
    warm = [one for one in range(there.units.WARM_STARTS) for _ in range(there.units.TEAMS)]
    found = [*there.measures.arrangements(warm)]
    assert len(found) == len({*map(tuple, found)}) == 216
    groupings = [*there.measures.regroupings(warm)]
    assert len(groupings) == len({*map(tuple, groupings)}) == 280
    assert groupings[0] == warm


def test_what_chance_gives_by_hand(there: Any) -> None:
    kinds = {0: "item", 1: "item", 2: "item", 3: "item", 4: "fold", 5: "fold"}
    helper = {0: "item", 1: "item", 2: "item", 3: "list", 4: "args", 5: None}
    main = {0: "item", 1: "list", 2: "item", 3: None, 4: "pair", 5: "pair"}
    # item: 3/4 item, 1/4 list against 1/2 item, 1/4 list; fold: no common one.
    expected = (4 * (3 / 4 * 1 / 2 + 1 / 4 * 1 / 4) + 2 * 0) / 6
    assert there.measures.marginals(helper, main, kinds) == pytest.approx(expected)
    assert there.measures.constants(helper, main, kinds) == pytest.approx(4 / 6)
    nothing = dict.fromkeys(kinds)
    assert there.measures.constants(nothing, nothing, kinds) == 0
    assert there.measures.marginals(nothing, nothing, kinds) == 0


def test_pairs_of_texts_are_judged_as_the_environment_judges(there: Any) -> None:
    task_set = there.sets.TaskSet("test", 1, lambda task: True, 4)
    judge = there.pairings.Judge(task_set)

    def texts(pick: Callable[[tuple[str, ...]], str], agent: str) -> list[dict[str, Any]]:
        return [
            {
                "task": one.id,
                "agent": agent,
                "sample": 0,
                "text": judge.experts.first(one, agent, pick(judge.experts.conventions(one))),
            }
            for one in judge.tasks.values()
        ]

    helper, main = there.sets.SEATS
    same = judge.seats([*texts(lambda c: c[0], helper), *texts(lambda c: c[0], main)])
    other = judge.seats([*texts(lambda c: c[0], helper), *texts(lambda c: c[1], main)])
    assert (there.pairings.agreement(*same.values()), judge.success(*same.values())) == (1, 1)
    assert (there.pairings.agreement(*other.values()), judge.success(*other.values())) == (0, 0)
    assert [judge.competence(seat) for seat in other.values()] == [1, 1]
    unread = [{**one, "text": "no code"} for one in texts(lambda c: c[0], helper)]
    lost = judge.seats([*unread, *texts(lambda c: c[0], main)])
    assert there.pairings.agreement(*lost.values()) == 0
    assert judge.competence(lost[helper]) == 0


def test_texts_are_kept_as_they_were(there: Any, tmp_path: Any) -> None:
    texts = [
        {"task": "test/1", "agent": "helper_0", "sample": 0, "text": "def aux(x):\n  return x"}
    ]
    path = tmp_path / "texts.jsonl.gz"
    there.sets.write_texts(path, texts)
    first = path.read_bytes()
    there.sets.write_texts(path, texts)
    assert (there.sets.read_texts(path), path.read_bytes()) == (texts, first)


def test_the_rate_is_the_one_that_agrees_most_and_of_equal_ones_the_lowest(
    there: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"2e-4": 0.8, "4e-4": 0.9, "8e-4": 0.9}
    monkeypatch.setattr(
        there.units,
        "result",
        lambda name: {"agreement": found[name.removeprefix("rate-shared-")]},
    )
    assert there.units.rate_of("shared") == "4e-4"


def test_weights_that_are_not_here_are_made_apart_and_compared(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that costs is not the unit's, and other weights are refused."""
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        calls.append(command)
        (tmp_path / "warm-0").mkdir()
        (tmp_path / "warm-0" / there.units.WEIGHTS).write_bytes(b"weights")

    monkeypatch.setattr(there.units, "RUNS", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    digest = hashlib.sha256(b"weights").hexdigest()
    about = {"seed": 1, "threads": 3, "weights": digest}
    monkeypatch.setattr(there.units, "result", lambda name: about)
    assert there.units._base_of(0) == str(tmp_path / "warm-0")
    assert there.units._base_of(0) == str(tmp_path / "warm-0")
    (command,) = calls
    assert command[-4:] == ["warm-0", "--again", "--threads", "3"]
    about["weights"] = "others"
    with pytest.raises(ValueError, match="other weights"):
        there.units._base_of(0)


def test_costs_of_stopped_calls_are_summed_and_texts_can_be_written_again(
    there: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(there.units, "RUNS", tmp_path)
    calls = []

    def make_it() -> dict[str, Any]:
        calls.append(1)
        (tmp_path / "team-0-0").mkdir(exist_ok=True)
        sum(i * i for i in range(2_000_000))  # some CPU
        if len(calls) == 1:
            raise KeyboardInterrupt
        return {"seed": 5}

    with pytest.raises(KeyboardInterrupt):
        there.units._counted("team-0-0", make_it)
    first = read_json(tmp_path / "team-0-0.costs.json")["cpu_seconds"]
    found = there.units._counted("team-0-0", make_it)
    assert (found["seed"], found["calls"]) == (5, 2)
    assert found["cpu_seconds"] > first > 0
    assert there.units._counted("team-0-0", make_it) == found
    assert len(calls) == 2
    (tmp_path / "team-0-0").rmdir()  # a run whose folder has gone is another one
    assert there.units._counted("team-0-0", make_it)["calls"] == 1


def test_pages_hold_the_tables_of_the_summary(there: Any) -> None:
    found = read_json(there.summary.SUMMARY)
    for path in there.page.PAGES.values():
        text = path.read_text(encoding="utf-8")
        assert there.page.page(text, found) == text, "python -m benchmarks.pretrained.page"
