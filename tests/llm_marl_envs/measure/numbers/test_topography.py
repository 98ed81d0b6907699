"""Topographic similarity: numbers by hand, against scipy, under chance, and where there is none."""

from __future__ import annotations

import json
import math
from itertools import combinations, product
from typing import Any

import pytest
from scipy.stats import spearmanr

from llm_marl_envs import make
from llm_marl_envs.envs.signals.messages import edit_distance
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers.results import result_to_dict
from llm_marl_envs.measure.numbers.tables import result_table
from llm_marl_envs.measure.numbers.topography import topographic_similarity, topographies
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

OBJECTS = list(product("ab", "xy", "12"))


def test_a_code_for_words_and_its_inverse_by_hand():
    """Distances of meanings 1, 1, 2, of messages 1, 1, 2; and 2, 2, 1 of the other language."""
    meanings = [("red", "kite"), ("red", "ball"), ("blue", "kite")]
    found = topographic_similarity(list(zip(meanings, ("ba", "bo", "da"), strict=True)))
    assert found.value == pytest.approx(1.0)
    assert (found.meanings, found.reason) == (3, "")
    against = topographic_similarity(list(zip(meanings, ("aa", "bb", "ab"), strict=True)))
    # Of the pairs (1, 2), (1, 3), (2, 3): meanings 1, 1, 2; messages 2, 1, 1.
    assert against.value == pytest.approx(-0.5)


def test_the_value_is_scipys():
    messages = ["aa", "ab", "b", "bba", "", "ba", "bb", "abab"]
    pairs = list(combinations(range(8), 2))
    meant = [sum(x != y for x, y in zip(OBJECTS[i], OBJECTS[j], strict=True)) for i, j in pairs]
    said = [edit_distance(messages[i], messages[j]) for i, j in pairs]
    found = topographic_similarity(list(zip(OBJECTS, messages, strict=True)))
    scipys: Any = spearmanr(meant, said)
    assert found.value == pytest.approx(scipys.statistic)


def test_the_share_by_chance_is_that_of_all_ways_to_deal():
    """Of 4! ways to give these messages to the corners of a square, 8 keep their distances."""
    corners = list(product("ab", "xy"))
    found = topographic_similarity([(one, "".join(one)) for one in corners])
    assert found.value == pytest.approx(1.0)
    assert found.p == pytest.approx(8 / 24, abs=4 * (1 / 3 * 2 / 3 / 999) ** 0.5)
    low, high = found.chance95 or (0, 0)
    assert (low, high) == pytest.approx((-0.5, 1.0))
    many = topographic_similarity([(one, "".join(one)) for one in OBJECTS])
    assert many.p < 0.01
    assert many == topographic_similarity([(one, "".join(one)) for one in OBJECTS])


def test_of_a_meaning_that_is_named_twice_the_mean_distance_counts():
    """ax is "p" or "q": 0.5 from "p", 1 from "r"; so the order of distances is 0.5, 1, 1."""
    said = [(("a", "x"), "p"), (("a", "x"), "q"), (("a", "y"), "p"), (("b", "y"), "r")]
    # Meanings: 1 (ax, ay), 2 (ax, by), 1 (ay, by); messages: 0.5, 1, 1. Ranks 1.5 3 1.5; 1 2.5 2.5.
    assert topographic_similarity(said).value == pytest.approx(0.5)
    assert topographic_similarity(said * 3).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([], "0 different meanings"),
        ([(one, "a") for one in OBJECTS[:2]], "2 different meanings"),
        ([(one, "ba") for one in OBJECTS], "every message is the same"),
        ([(one, chr(97 + n)) for n, one in enumerate(OBJECTS)], "all messages are equally far"),
        ([((n,), "ab"[n == 1]) for n in range(4)], "all meanings are equally far"),
        ([((1,), "a"), ((1, 2), "b"), ((2, 2), "c")], "meanings of different lengths"),
    ],
)
def test_where_there_is_none_it_says_why(pairs: list[Any], reason: str):
    found = topographic_similarity(pairs)
    assert math.isnan(found.value)
    assert math.isnan(found.p)
    assert found.reason.startswith(reason)


def test_an_evaluation_has_it_for_each_speaker():
    env = make("referential-v0", seats=[2, 2])
    team: dict[str, Any] = dict.fromkeys(env.possible_agents, ExpertPolicy(env, "values"))
    team["speaker_1"] = ScriptedPolicy(lambda request: "ba")
    result = evaluate_team(env, team, n_tasks=60)
    found = result.topography
    assert list(found) == ["speaker_0", "speaker_1"]
    assert found["speaker_0"].value > 0.8
    assert found["speaker_0"].p == 0.001
    assert found["speaker_1"].reason == "every message is the same"
    summary = json.loads(json.dumps(result_to_dict(result), allow_nan=False))
    assert summary["topography"]["speaker_1"]["value"] is None
    table = result_table({"team": summary})
    assert "topographic similarity of speaker_0" in table
    assert "similarity of speaker_1" not in table


def test_other_environments_have_none():
    env = make("crowd-v0")
    result = evaluate_team(env, dict.fromkeys(env.possible_agents, ExpertPolicy(env)), n_tasks=1)
    assert result.topography == {}
    assert topographies(object(), result.episodes) == {}
