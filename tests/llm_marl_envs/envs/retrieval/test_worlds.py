"""Made-up worlds: what documents say, that names are of one split and cases are as likely."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from llm_marl_envs import make
from llm_marl_envs.envs.retrieval.scores import answer_words, f1, is_exact
from llm_marl_envs.envs.retrieval.world_tasks import case_of, world_of, world_tasks
from llm_marl_envs.envs.retrieval.worlds import cases, documents_of, right_names
from llm_marl_envs.tools.bm25 import Index

NAME = re.compile(r"[A-Z][a-z]+")


@pytest.mark.parametrize("houses", [5, 6, 9])
def test_a_world_has_five_lines_for_each_house(houses: int):
    source = world_tasks("train", houses)
    for index in range(20):
        task = source[index]
        world, documents = world_of(task), task.data["documents"]
        assert len(documents) == len(set(documents)) == 5 * houses
        assert 24 <= len(documents) <= 48
        assert not any("\n" in text for text in documents)
        assert documents != tuple(documents_of(world))  # shuffled
        for number, house in enumerate(world.houses):
            texts = [documents[place] for place in Index(documents).best(house, 10)]
            assert len(texts) == 5
            assert all(house in text for text in texts)
            for source_name, keeper in zip(world.sources, world.people[number], strict=False):
                assert f"{source_name}: {keeper} keeps {house}." in texts
        assert task.data["answer"] == ", ".join(right_names(world, case_of(task)))


def test_every_name_is_there_once_and_every_case_has_an_answer_of_its_own():
    for index in range(20):
        world = world_of(world_tasks("train", 6)[index])
        names = [name for people in world.names for row in people for name in row]
        names += [*world.houses, *(person for people in world.people for person in people)]
        assert len(names) == len(set(names)) == 6 + 18 + 72
        assert not {name.lower() for name in names} & {*world.relations, *world.sources}
        answers = [right_names(world, case) for case in cases(world)]
        assert len(answers) == len(set(answers)) == 240


def test_no_name_of_a_split_occurs_in_another():
    seen: dict[str, set[str]] = {}
    for split in ("train", "val", "test", "ood"):
        words = Counter(
            word
            for index in range(60)
            for text in world_tasks(split, 6)[index].data["documents"]
            for word in NAME.findall(text)
        )
        seen[split] = {word for word in words if word not in ("Herald", "Gazette")}
    for split, names in seen.items():
        others = set().union(*(seen[other] for other in seen if other != split))
        assert not names & others, split


@pytest.mark.full
def test_all_cases_are_as_likely():
    """Of 3000 tasks: each fact within five standard deviations, and the facts independent."""
    source = world_tasks("train", 5)
    drawn = [case_of(source[index]) for index in range(3000)]
    for part, count in (("meant", 20), ("current", 2), ("relation", 4)):
        seen = Counter(getattr(case, part) for case in drawn)
        assert len(seen) == count
        mean, spread = 3000 / count, (3000 / count * (1 - 1 / count)) ** 0.5
        assert all(abs(n - mean) < 5 * spread for n in seen.values())
    pairs = Counter((case.current, case.relation) for case in drawn)
    assert all(abs(n - 375) < 5 * 18.2 for n in pairs.values())


def test_ood_has_other_words():
    usual, ood = (make("retrieve_pipeline-v0", split=split).source[0] for split in ("test", "ood"))
    for name in ("words", "sources", "relations"):
        assert not {*usual.data[name]} & {*ood.data[name]}
    assert len(ood.data["houses"][0]) == len(usual.data["houses"][0]) + 2


@pytest.mark.parametrize(
    ("answer", "right", "exact", "overlap"),
    [
        ("Anok, Bifad", "Anok, Bifad", True, 1.0),
        ("anok bifad", "Anok, Bifad", True, 1.0),
        ("Bifad, Anok", "Anok, Bifad", False, 1.0),
        ("Anok", "Anok, Bifad", False, 2 / 3),
        ("Anok, Bifad, Dorel, Ekum", "Anok, Bifad", False, 2 / 3),
        ("the Anok and a Bifad", "Anok, Bifad", False, 0.8),
        ("x " * 30 + "Anok", "Anok, Bifad", False, 0.0),  # beyond the thirtieth word
        ("", "Anok", False, 0.0),
        (None, "Anok", False, 0.0),
    ],
)
def test_scores_by_hand(answer: str | None, right: str, exact: bool, overlap: float):
    assert is_exact(answer, right) is exact
    assert f1(answer, right) == pytest.approx(overlap)
    assert answer_words("The U.S., an 1,000-fold") == ["u", "s", "1", "000", "fold"]
