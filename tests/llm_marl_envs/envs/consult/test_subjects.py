"""Cases, builds and records: what is drawn, its splits, and how texts are read."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest

from llm_marl_envs.core.tasks import SPLITS
from llm_marl_envs.envs.consult.builds import FAMILIES, answers, build_tasks, family, price
from llm_marl_envs.envs.consult.cases import (
    CLASSES,
    FACTS,
    LEVELS,
    case_of,
    case_tasks,
    split_of_table,
    table_text,
)
from llm_marl_envs.envs.consult.record import (
    NOT_KNOWN,
    Record,
    asked_fact,
    names_one_of,
    question_of,
    stated_facts,
)
from llm_marl_envs.envs.consult.subjects import KINDS, generated, subject_of
from llm_marl_envs.envs.consult.vocabulary import DOMAINS, MACHINE

FACTS_HERE = (*MACHINE.signs, *MACHINE.kinds)
NAMES = [fact.name for fact in FACTS_HERE]


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=[*DOMAINS])
def test_no_word_names_two_facts(domain):
    facts = (*domain.signs, *domain.kinds)
    words = [word for fact in facts for word in (fact.name, *fact.words)]
    assert [word for word, n in Counter(words).items() if n > 1] == []
    for name in domain.classes:
        assert asked_fact(f"Is it the {name}?", facts) is None
    assert len(set(domain.classes)) >= CLASSES[1]
    assert len(facts) >= FACTS[1]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("leaks?", "leaks"),
        ("Is there any DRIPPING?", "leaks"),
        ("Which colour has the lamp?", "lamp"),
        ("lamp or speed?", "lamp"),
        ("speed or lamp?", "speed"),
        ("It may be the pump.\nDoes it hum?\nThank you.", "hums"),
        ("hums or leaks\n\n  smokes  \n", "smokes"),
        ("<think>hums? leaks?</think>smokes?", "smokes"),
        ("What is wrong?", None),
        ("humsleaks", None),
        ("", None),
        ("\x00\ud800", None),
    ],
)
def test_what_a_question_asks(text: str, fact: str | None):
    place = asked_fact(text, FACTS_HERE)
    assert (None if place is None else NAMES[place]) == fact


def test_the_question_of_a_text():
    assert question_of("a?\nb\nc") == "a?"
    assert question_of("a?\nb?\nc") == "b?"
    assert question_of("a\nb") == "b"
    assert question_of(" \n") == ""


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        ("leaks: yes", None, {"leaks": "yes"}),
        ("Leaks: no. Hums: yes, lamp: red", None, {"leaks": "no", "hums": "yes", "lamp": "red"}),
        ("Yes, it does.", "hums", {"hums": "yes"}),
        ("It does, yes.", "hums", {"hums": "yes"}),
        ("No. Lamp: red, leaks: yes", "hums", {"hums": "no", "lamp": "red", "leaks": "yes"}),
        ("Say yes or no", "hums", {}),
        ("It is green.", "lamp", {"lamp": "green"}),
        ("leaks: maybe", None, {}),
        ("leaks: yes\nleaks: no", None, {"leaks": "yes"}),
        ("lamp:\nred", None, {}),
        ("<think>hums: yes</think>", None, {}),
        (NOT_KNOWN, "hums", {}),
    ],
)
def test_what_an_answer_tells(text: str, asked: str | None, expected: dict[str, str]):
    place = None if asked is None else NAMES.index(asked)
    stated = stated_facts(text, FACTS_HERE, place)
    assert {NAMES[at]: value for at, value in stated.items()} == expected


def test_values_of_a_function_are_whole_numbers():
    facts = subject_of(build_tasks("train")[0]).record.facts
    names = [fact.name for fact in facts]
    stated = stated_facts("f( 8 ): 27, f(9): -1; f(1): 270", facts)
    assert stated == {names.index("f(8)"): "27", names.index("f(9)"): "-1"}


def test_the_scripted_person_tells_one_fact():
    record = Record(FACTS_HERE, ("yes",) * len(MACHINE.signs) + ("red", "slow"), (0,))
    assert record.reply("hums? leaks?") == "hums: yes"
    assert record.reply("What is the fault? The pump?") == NOT_KNOWN
    assert record.opening == {0: "yes"}
    assert names_one_of("It is the Pump!", MACHINE.classes)
    assert not names_one_of("It is pumped.", MACHINE.classes)


@pytest.mark.parametrize("split", SPLITS)
def test_cases_are_as_they_are_told(split: str):
    for index in range(40):
        task = case_tasks(split)[index]
        case, data = case_of(task), task.data
        assert FACTS[0] <= len(case.record.facts) <= FACTS[1]
        assert CLASSES[0] <= len(case.classes) <= CLASSES[1]
        assert sum(case.prior) == pytest.approx(1)
        assert all(sum(shares) == pytest.approx(1) for row in case.likelihood for shares in row)
        assert len(set(case.likelihood)) == len(case.classes)
        lines = table_text(data).split("\n")[2:]
        for line, name, weight, signs in zip(
            lines, data["classes"], data["weights"], data["signs"], strict=True
        ):
            assert line.startswith(f"{name}, {weight}: ")
            usual = line.partition("usually ")[2].partition(";")[0].split(", ")
            assert [fact for fact in usual if fact] == [
                fact for fact, level in zip(data["facts"], signs, strict=True) if level == "usually"
            ]


def test_records_are_drawn_by_the_chances_that_are_told():
    met, yes = Counter[str](), Counter[str]()
    for index in range(1500):
        data = case_tasks("train")[index].data
        levels = data["signs"][data["classes"].index(data["answer"])]
        met.update(levels)
        yes.update(level for level, v in zip(levels, data["values"], strict=False) if v == "yes")
    for level, of_ten in LEVELS.items():
        assert yes[level] / met[level] == pytest.approx(of_ten / 10, abs=0.03)


def test_no_table_is_in_two_splits():
    for split in ("train", "val", "test"):
        source = case_tasks(split)
        assert {split_of_table(source[index].data) for index in range(60)} == {split}


def test_no_function_is_in_two_splits_and_none_is_two():
    every = [f for values in FAMILIES.values() for f in product(*values)]
    assert len({answers(f)[4:] for f in every}) == len(every) == 512
    functions = [f for split in SPLITS for f in family(split)]
    assert sorted(functions) == sorted(every)
    assert all(len(build_tasks(split)) == 4 * len(family(split)) for split in SPLITS)


def test_prices_by_hand():
    assert [price((3, 2, 1, bulk), 12) for bulk in ("usual", "capped", "doubled", "refused")] == [
        25,
        17,
        50,
        -1,
    ]
    assert [price((3, 2, 1, "refused"), n) for n in (0, 1, 2, 8)] == [3, 3, 5, 17]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", SPLITS)
def test_tasks_follow_from_split_and_index(kind: str, split: str):
    source: Any = type(generated(kind, split))
    fresh = source(split)
    for index in (0, 7):
        assert fresh[index].data == generated(kind, split)[index].data
        assert fresh[index].data["kind"] == kind
