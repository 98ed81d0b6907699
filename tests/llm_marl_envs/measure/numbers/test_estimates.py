"""Estimators with numbers worked by hand, alone and as `evaluate.Metric`."""

from __future__ import annotations

import math
import pickle
from itertools import combinations

import numpy as np
import pytest

from llm_marl_envs.measure.numbers import estimates, hf_metrics, metrics


@pytest.mark.parametrize(
    ("n", "c", "k", "chance"),
    [
        (4, 1, 1, 1 / 4),
        (4, 1, 2, 1 / 2),  # 1 - C(3,2)/C(4,2) = 1 - 3/6
        (5, 2, 3, 9 / 10),  # 1 - C(3,3)/C(5,3) = 1 - 1/10
        (5, 3, 3, 1.0),  # three draws of five with two failures cannot all fail
        (3, 0, 3, 0.0),
        (1, 1, 1, 1.0),
    ],
)
def test_pass_at_k_by_hand_and_by_counting(n: int, c: int, k: int, chance: float):
    assert estimates.pass_at_k(n, c, k) == pytest.approx(chance, abs=1e-15)
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert estimates.pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_is_unbiased_where_the_plug_in_is_not():
    rng = np.random.default_rng(0)
    solved = rng.binomial(4, 0.3, size=20_000)
    mean = np.mean([estimates.pass_at_k(4, int(c), 2) for c in solved])
    true = 1 - 0.7**2
    assert mean == pytest.approx(true, abs=0.01)
    assert np.mean(1 - (1 - solved / 4) ** 2) < true - 0.03


@pytest.mark.parametrize(
    ("n", "c", "k", "words"),
    [(4, 5, 1, "5 solved of 4"), (4, 1, 5, "pass@5"), (4, 1, 0, "pass@0"), (2, -1, 1, "-1 solved")],
)
def test_pass_at_k_refuses(n: int, c: int, k: int, words: str):
    with pytest.raises(ValueError, match=words):
        estimates.pass_at_k(n, c, k)


def test_tasks_count_alike_however_many_samples():
    # Task a: 1 of 2, task b: 0 of 1. Mean over tasks 1/4, over episodes it would be 1/3.
    assert estimates.task_means(["a", "b", "a"], [1, 0, 0]) == [0.5, 0.0]
    assert estimates.mean_pass_at_k(["a", "b", "a"], [1, 0, 0], 1) == 0.25


def test_interquartile_mean_by_hand():
    assert estimates.interquartile_mean([8, 1, 2, 3, 4, 5, 6, 100]) == (3 + 4 + 5 + 6) / 4
    assert estimates.interquartile_mean([1, 2, 9]) == 4.0  # a quarter of three, rounded down: none
    assert estimates.interquartile_mean([0, 0, 6, 9, 99]) == 5.0
    with pytest.raises(ValueError, match="at least one"):
        estimates.interquartile_mean([])


def test_balance_agreement_and_terms_by_hand():
    assert metrics.contribution_balance([1, 3]) == 0.5
    assert metrics.contribution_balance([2, 2, 2]) == 1.0
    assert metrics.contribution_balance([-5, 4]) == 0.0
    assert metrics.contribution_balance([0, 0]) is None
    assert metrics.answer_agreement(["4", "4", "5"]) == pytest.approx(1 / 3)
    assert metrics.answer_agreement([None, None]) == 0.0
    assert hf_metrics.mean_terms([{"x": 1.0, "y": 2.0}, {"x": 3.0}]) == {"x": 2.0, "y": 1.0}
    for call in (
        lambda: metrics.contribution_balance([1]),
        lambda: metrics.answer_agreement(["4"]),
        lambda: hf_metrics.mean_terms([]),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()


def test_unequal_lengths_are_named():
    with pytest.raises(ValueError, match="2 task ids for 1 values"):
        estimates.task_means(["a", "b"], [1.0])
    with pytest.raises(ValueError, match="no episodes"):
        estimates.task_means([], [])
    with pytest.raises(ValueError, match="1 predictions, 2 references"):
        hf_metrics.rouge(["a"], ["a", "b"])


def test_rouge_by_hand():
    # "the cat" of "the cat sat": precision 1, recall 2/3, F 0.8; bigrams: 1 and 1/2, F 2/3.
    found = hf_metrics.rouge(["the cat"], ["the cat sat"])
    assert found["rouge1"] == pytest.approx(0.8)
    assert found["rouge2"] == pytest.approx(2 / 3)
    assert found["rougeL"] == pytest.approx(0.8)


# -- as evaluate.Metric ---------------------------------------------------------------------------


@pytest.fixture
def hf(tmp_path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("evaluate")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return hf_metrics


CASES = {
    "CoopReturn": (
        {"returns": [0.0, 1.0, 0.5, 0.5], "task_ids": ["a", "a", "b", "b"]},
        {"mean_return": 0.5, "return_low": None, "return_high": None},
    ),
    "SuccessRate": (
        {"successes": [True, False], "task_ids": ["a", "a"]},
        {"success_rate": 0.5, "success_low": None, "success_high": None},
    ),
    "PassAtK": (
        {"successes": [True, False, False, False], "task_ids": ["a"] * 4, "k": [1, 2]},
        {"pass@1": 0.25, "pass@2": 0.5},
    ),
    "RewardTerms": (
        {"term_names": [["x", "y"], ["x"]], "term_values": [[1.0, 2.0], [3.0]]},
        {"x": 2.0, "y": 1.0},
    ),
    "ContributionBalance": (
        {"contributions": [[1.0, 3.0], [0.0, 0.0], [2.0, 2.0]]},
        {"contribution_balance": 0.75},
    ),
    "AnswerAgreement": (
        {"answers": [["4", "4", None], ["4", "4", "4"]]},
        {"answer_agreement": pytest.approx((1 / 3 + 1) / 2)},
    ),
    "Rouge": (
        {"predictions": ["the cat"], "references": ["the cat sat"], "rouge_types": ["rouge1"]},
        {"rouge1": pytest.approx(0.8)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_metric_alone_offline(hf, name: str):
    inputs, expected = CASES[name]
    assert getattr(hf, name)().compute(**inputs) == expected


def test_every_class_has_a_case_and_a_page(hf):
    assert set(CASES) == set(hf._METRICS)
    for name in CASES:
        metric = getattr(hf, name)()
        assert type(metric).__name__ == name
        assert "Inputs, one entry per episode" in metric.description
    with pytest.raises(AttributeError, match="no attribute 'Clever'"):
        hf.Clever  # noqa: B018


def test_metrics_combine_and_take_only_their_own_inputs(hf):
    import evaluate

    both = evaluate.combine([hf.CoopReturn(), hf.SuccessRate(), hf.PassAtK()])
    found = both.compute(returns=[0.0, 1.0], successes=[False, True], task_ids=["a", "b"])
    assert (found["mean_return"], found["success_rate"], found["pass@1"]) == (0.5, 0.5, 0.5)


def test_metrics_add_up_batches_and_pickle(hf):
    metric = hf.CoopReturn()
    metric.add_batch(returns=[1.0, 0.0], task_ids=["a", "b"])
    metric.add(returns=0.5, task_ids="c")
    assert metric.compute()["mean_return"] == 0.5
    assert pickle.loads(pickle.dumps(hf.CoopReturn)) is hf.CoopReturn


@pytest.mark.parametrize("call", ["compute", "add_batch"])
@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"returns": [1.0, 2.0], "task_ids": ["a"]}, r"returns \(2\) and task_ids \(1\)"),
        ({"returns": [1.0], "task_ids": ["a", "b"]}, r"returns \(1\) and task_ids \(2\)"),
        ({"returns": [], "task_ids": []}, "CoopReturn: input 'returns' is missing or empty"),
        ({"returns": [1.0]}, "CoopReturn: input 'task_ids' is missing"),
    ],
)
def test_unequal_and_missing_inputs_are_named(hf, call: str, inputs: dict, words: str):
    with pytest.raises(ValueError, match=words):
        getattr(hf.CoopReturn(), call)(**inputs)


def test_bad_terms_of_an_episode_are_named(hf):
    with pytest.raises(ValueError, match="2 term names for 1 term values"):
        hf.RewardTerms().compute(term_names=[["x", "y"]], term_values=[[1.0]])
    with pytest.raises(ValueError, match="names a term twice"):
        hf.RewardTerms().compute(term_names=[["x", "x"]], term_values=[[1.0, 5.0]])


@pytest.mark.parametrize("call", ["compute", "add_batch"])
def test_successes_are_true_or_false(hf, call: str):
    for bad in ("no", 0.5, None):
        with pytest.raises(ValueError, match=f"{bad!r} is neither True nor False"):
            getattr(hf.SuccessRate(), call)(successes=[True, bad], task_ids=["a", "b"])
    found = hf.SuccessRate().compute(successes=np.array([1, 0, 0, 0]), task_ids=list("abcd"))
    assert found["success_rate"] == 0.25


def test_the_runner_and_the_metrics_agree(hf):
    from support.toys import WordPair

    from llm_marl_envs.measure import evaluate_team
    from llm_marl_envs.policies import ScriptedPolicy
    from llm_marl_envs.policies.expert import ExpertPolicy

    half = ScriptedPolicy(lambda request: "apple" if request.seed % 2 else "?")
    team = {"left_0": half, "right_0": ExpertPolicy(WordPair())}
    result = evaluate_team(WordPair, team, n_tasks=6, samples=4)
    tasks = [episode.task_id for episode in result.episodes]
    returns = hf.CoopReturn().compute(
        returns=[episode.team_return for episode in result.episodes], task_ids=tasks
    )
    solved = [bool(episode.success) for episode in result.episodes]
    assert 0 < sum(solved) < len(solved)
    assert returns["mean_return"] == result.mean_return
    assert (returns["return_low"], returns["return_high"]) == result.return_ci95
    found = hf.PassAtK().compute(successes=solved, task_ids=tasks, k=[1, 2, 4])
    assert found == {f"pass@{k}": value for k, value in result.pass_at_k.items()}


def test_the_success_rate_takes_clusters(hf):
    """Twelve tasks of six prompts: 6 / (6 + 2.57058^2) where all are solved."""
    tasks = [*"abcdefghijkl"]
    clusters = {task: (place // 2,) for place, task in enumerate(tasks)}
    for metric, given, low in (
        ("SuccessRate", "successes", "success_low"),
        ("CoopReturn", "returns", "return_low"),
    ):
        inputs = {given: [1.0] * 12, "task_ids": tasks}
        found = getattr(hf, metric)().compute(**inputs, clusters=clusters)
        assert found[low] == pytest.approx(6 / (6 + 2.57058**2), rel=1e-4)
        assert found[low] < getattr(hf, metric)().compute(**inputs)[low]


def test_what_is_no_number_is_refused():
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="task 'b': the value"):
            estimates.task_means(["a", "b"], [1.0, value])


def test_means_are_those_of_exact_sums_and_never_raise():
    assert (
        estimates.exact_mean([0.1] * 10) == 0.1
    )  # `sum` gives 0.09999999999999999 before Python 3.12
    assert estimates.exact_mean([1e308, 1e308]) == math.inf
    assert math.isnan(estimates.exact_mean([math.inf, -math.inf]))
