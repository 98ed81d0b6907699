"""What facts in `info` tell of a society, and how that is drawn."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
from support.reports import HOSTILE

from llm_marl_envs.core.rendering import visible
from llm_marl_envs.core.society import Society, known, round_of_each, society_of
from llm_marl_envs.core.society_drawing import described, shown, society_svg

SVG = "{http://www.w3.org/2000/svg}"
TALK: dict[str, Any] = {"turn": 1}


def took(got: float, over: bool = False, **facts: Any) -> dict[str, Any]:
    return {"turn": 2, "got": got, "over_use": over, **facts}


def of(told: dict[str, list[dict[str, Any]]]) -> Society:
    society = society_of(told)
    assert society is not None
    return society


LAKE = {
    "villager_0": [TALK, took(10, stock=100), TALK, took(5, stock=20, survival=0.5)],
    "villager_1": [TALK, took(70, True, stock=100), TALK, took(15, True, stock=20, survival=0.5)],
}


def classes(drawn: str) -> dict[str, str]:
    """Class -> the path of the first shape that has it."""
    root = ElementTree.fromstring(drawn)
    shapes = reversed([*root.iter(f"{SVG}path")])
    return {shape.get("class", ""): shape.get("d", "") for shape in shapes}


# -- facts ----------------------------------------------------------------------------------------
def test_talk_belongs_to_what_comes_after_it():
    give, fine = {"given": 1, "over_use": False}, {"spent": 1}
    assert round_of_each([TALK, TALK, give, fine, TALK, give, fine]) == [0, 0, 0, 0, 1, 1, 1]
    assert round_of_each([give, TALK, fine, give]) == [0, 0, 0, 1]
    assert round_of_each([give, give, TALK, TALK]) == [0, 1, 2, 2]
    assert round_of_each([TALK, TALK]) == [0, 0]
    assert round_of_each([]) == []


def test_rounds_are_put_together():
    society = of(LAKE)
    assert society.seats == ("villager_0", "villager_1")
    assert society.each("got", "villager_1") == [70.0, 15.0]
    assert [society.stock(at) for at in (0, 1)] == [100.0, 20.0]
    assert (society.amount, society.verb, society.collapsed) == ("got", "took", True)
    parts = [{"given": 3, "over_use": True}, {"spent": 1, "fined": 0.5}]
    goods = of({"a_0": parts, "a_1": parts[:1]})
    expected = {"given": 3.0, "over_use": True}
    assert goods.rounds == ({"a_0": {**expected, "spent": 1.0, "fined": 0.5}, "a_1": expected},)
    assert goods.verb == "gave"


def test_who_stops_earlier_is_not_known_later():
    society = of({"a_0": [took(1), took(2)], "a_1": [took(3)]})
    assert society.each("got", "a_1") == [3.0, None]
    assert "a_1 3." in described(society)


@pytest.mark.parametrize(
    "told", [{}, {"a_0": []}, {"a_0": [TALK]}, {"a_0": [{"got": 1, "share": 0.5}]}]
)
def test_others_are_no_societies(told: dict[str, list[dict[str, Any]]]):
    assert society_of(told) is None


def test_only_facts_of_the_right_kind_are_known():
    odd = {"got": "ten", "named": None, "stock": float("nan"), "had": 10**200, "spent": True}
    assert known({**odd, "over_use": "yes", "group": [1], "fined": [2], "other": 1}) == {}
    assert known({"given": -3, "group": ["a", "b"]}) == {"given": 0.0, "group": ("a", "b")}


# -- the drawing ----------------------------------------------------------------------------------
def test_a_stock_and_who_took_what():
    drawn = society_svg(of(LAKE))
    shapes = classes(drawn)
    # Two rounds of 48 units from 96 on; 110 units high are 100 of stock; below it is 134.
    assert shapes["stock"] == "M96.0 134.0h48.0v-110.0h-48.0zM144.0 134.0h48.0v-22.0h-48.0z"
    assert shapes["seat c0"] == "M103.2 134.0h33.6v-11.0h-33.6zM151.2 134.0h33.6v-5.5h-33.6z"
    assert shapes["seat c1"] == "M103.2 123.0h33.6v-77.0h-33.6zM151.2 128.5h33.6v-16.5h-33.6z"
    assert drawn.count('class="over"') == 2  # of villager_1, and what it means
    assert shapes["end"] == "M192.0 24V212"
    root = ElementTree.fromstring(drawn)
    assert (root.get("role"), root.get("width"), root.get("viewBox")) == (
        "img",
        "400",
        "0 0 400 234",
    )
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts == [
        "what each took, grey what there was",
        *("0", "25", "50", "75", "100"),
        *("round", "1", "2", "each took", "villager_0", "villager_1"),
        *("over in round 2", "over-use"),
    ]


def test_words_for_those_who_do_not_see_it():
    root = ElementTree.fromstring(society_svg(of(LAKE)))
    assert root[0].text == "A society over time"
    assert root[1].text == (
        "2 rounds. There was 100 at first, 20 before the last. In all took: villager_0 15, "
        "villager_1 85. Over-use, by round: villager_1 in 1 to 2. Over in round 2."
    )
    often = {"a_0": [took(1, over) for over in map(bool, (1, 0, 1, 1, 1))]}
    assert "Over-use, by round: a_0 in 1, 3 to 5." in described(of(often))
    goods = {"a_0": [{"given": 2.5, "over_use": False, "spent": 1, "fined": 0}]}
    assert described(of(goods)) == (
        "1 round. In all gave: a_0 2.5. Over-use, by round: none. Spent to punish: a_0 1."
    )
    gifts = {"a_0": [{"had": 10, "gave": 5, "share": 0.5, "over_use": False}]}
    assert described(of(gifts)) == (
        "1 round. Had before the last: a_0 10. In all gave: a_0 5. Over-use, by round: none."
    )


def test_wealth_has_lines_and_shares_have_bars():
    def gave(had: float, share: float, **facts: Any) -> dict[str, Any]:
        return {"had": had, "gave": had * share, "share": share, "over_use": share < 0.5, **facts}

    told = {"a_0": [gave(9, 1), gave(99, 0.5)], "a_1": [gave(9, 0, spent=2), gave(0, 0)]}
    shapes = classes(society_svg(of(told)))
    assert shapes["path c0"] == "M120.0 79.0L168.0 24.0"  # log 10 is a half of log 100
    assert shapes["path c1"] == "M120.0 79.0L168.0 134.0"
    # The whole of a share is 13 units high, below the 11 of marks.
    assert shapes["seat c0"] == "M103.2 195.0h33.6v-13.0h-33.6zM151.2 195.0h33.6v-6.5h-33.6z"
    assert shapes["mark"].startswith("M117.0 206.0l6.0 6.0")


def test_who_was_with_whom():
    def gave(*group: str) -> dict[str, Any]:
        return {"given": 1, "over_use": False, "group": group}

    pairs = (("a_0", "a_1"), ("a_2", "a_3"), ("a_4",))
    told = {seat: [gave(*pair)] for pair in pairs for seat in pair}
    letters = re.findall(r'class="letter"[^>]*>(.)<', society_svg(of(told)))
    assert letters == ["a", "a", "b", "b", "-"]
    all_in_one = {seat: [gave(*told)] for seat in told}
    assert "letter" not in society_svg(of(all_in_one)).split("</style>")[1]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_text(text: str):
    drawn = society_svg(of({text: [took(1, True)], "b_0": [took(2, group=[text])]}))
    root = ElementTree.fromstring(drawn)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        *("svg", "title", "desc", "style", "rect", "path", "text")
    }
    assert visible(text) in (root[1].text or "")
    plain = society_svg(of({"a": [took(1, True)], "b_0": [took(2, group=["a"])]}))
    assert [e.tag for e in root.iter()] == [e.tag for e in ElementTree.fromstring(plain).iter()]


@pytest.mark.parametrize("rounds", [1, 2, 400])
@pytest.mark.parametrize("amount", [0, 5e-324, 1e-320, 1e-300, 7, 9e99])
def test_any_numbers_can_be_drawn(rounds: int, amount: float):
    facts = {"stock": amount, "spent": amount, "fined": amount, "group": ("a_0",)}
    told = {f"a_{i}": [took(amount, True, **facts)] * rounds for i in range(12)}
    for more in ({}, {"had": amount, "share": amount}):
        rows = {seat: [{**info, **more} for info in infos] for seat, infos in told.items()}
        drawn = society_svg(of(rows))
        assert not re.search(r"nan|inf(?!o)", drawn.split("</style>")[1])
        for x in re.findall(r"[Mx]=?\"?([\d.]+)[ \"]", drawn):
            assert 0 <= float(x) <= 400
        assert len(drawn) < 900_000


def test_numbers_are_short():
    amounts = (None, 0, 2.5, 10, 1 / 3, 1234567, 9e99)
    assert [shown(a) for a in amounts] == ["-", "0", "2.5", "10", "0.33", "1.23e+06", "9e+99"]


def test_nothing_is_drawn_of_nothing():
    assert society_svg(Society((), ())) == ""
