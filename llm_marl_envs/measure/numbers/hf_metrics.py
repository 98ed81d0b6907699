"""Metrics as `evaluate.Metric` classes: built directly, no Hub, usable in `evaluate.combine`.

    from llm_marl_envs.measure.numbers.hf_metrics import CoopReturn
    CoopReturn().compute(returns=[0.5, 1.0], task_ids=["a", "b"])

Owns inputs and names; the intervals are those of `estimates.py`. `evaluate` (and with it pandas) is
imported when a class is first asked for, so that importing this library stays light.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llm_marl_envs.measure.numbers import estimates
from llm_marl_envs.measure.numbers.metrics import answer_agreement, contribution_balance
from llm_marl_envs.measure.numbers.values import mean

if TYPE_CHECKING:
    from evaluate import Metric

    CoopReturn: type[Metric]
    SuccessRate: type[Metric]
    PassAtK: type[Metric]
    RewardTerms: type[Metric]
    ContributionBalance: type[Metric]
    AnswerAgreement: type[Metric]
    Rouge: type[Metric]

ROUGE_TYPES = ("rouge1", "rouge2", "rougeL")


def __getattr__(name: str) -> Any:
    if name not in _METRICS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {[*_METRICS]}")
    globals()[name] = _metric(name, *_METRICS[name])
    return globals()[name]


def mean_terms(episodes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Name -> mean over episodes; an episode that lacks a term counts as 0.

    Raises:
        ValueError: no episodes.
    """
    each = list(episodes)
    if not each:
        raise ValueError("no episodes; expected at least one")
    names = dict.fromkeys(name for terms in each for name in terms)
    return {name: math.fsum(t.get(name, 0.0) for t in each) / len(each) for name in names}


def rouge(
    predictions: Sequence[str],
    references: Sequence[str],
    types: Sequence[str] = ROUGE_TYPES,
) -> dict[str, float]:
    """ROUGE F-measures, means over pairs, as `rouge_score` computes them (no stemming).

    Raises:
        ImportError: `rouge_score` is not installed.
        ValueError: other numbers of predictions and references, or none.
    """
    if len(predictions) != len(references) or not len(predictions):
        raise ValueError(
            f"{len(predictions)} predictions, {len(references)} references: expected as many of "
            "each, and at least one"
        )
    try:
        from rouge_score import rouge_scorer
    except ImportError as error:
        raise ImportError("ROUGE needs rouge_score: pip install 'llm-marl-envs[eval]'") from error
    scorer = rouge_scorer.RougeScorer(list(types), use_stemmer=False)
    scores = [scorer.score(r, p) for p, r in zip(predictions, references, strict=True)]
    return {kind: math.fsum(s[kind].fmeasure for s in scores) / len(scores) for kind in types}


# Each takes its inputs and options by name; `evaluate.combine` passes those of the others, too.


def _coop_return(returns: Any, task_ids: Any, clusters: Any = None, **_: Any) -> dict[str, Any]:
    """Mean team return with its 95 % interval over tasks; None of fewer than six.

    Option `clusters`: task -> what it shares with others, one key for each way of sharing.
    """
    groups = estimates.by_task(task_ids, returns)
    means = [math.fsum(of) / len(of) for of in groups.values()]
    shared = [(clusters or {}).get(task, ()) for task in groups]
    return _with_ends(estimates.over_tasks(means, shared), "mean_return", "return")


def _success_rate(successes: Any, task_ids: Any, clusters: Any = None, **_: Any) -> dict[str, Any]:
    """Share of solved episodes with its 95 % interval over tasks; None of fewer than six.

    Option `clusters`: task -> what it shares with others, one key for each way of sharing.
    """
    return _with_ends(estimates.share(task_ids, successes, clusters), "success_rate", "success")


def _with_ends(found: estimates.Estimate, name: str, start: str) -> dict[str, Any]:
    low, high = found.ci95 or (None, None)
    return {name: found.mean, f"{start}_low": low, f"{start}_high": high}


def _pass_at_k(successes: Any, task_ids: Any, k: Any = 1, **_: Any) -> dict[str, Any]:
    """pass@k, unbiased (Chen et al. 2021), mean over tasks; option `k`, a number or several."""
    each = [k] if isinstance(k, int) else list(k)
    return {f"pass@{count}": estimates.mean_pass_at_k(task_ids, successes, count) for count in each}


def _reward_terms(term_names: Any, term_values: Any, **_: Any) -> dict[str, Any]:
    """Each named reward term, mean over episodes; per episode the names and their values."""
    episodes = []
    for names, values in zip(term_names, term_values, strict=True):
        if len(names) != len(values):
            raise ValueError(f"{len(names)} term names for {len(values)} term values in an episode")
        if len(set(names)) < len(names):
            raise ValueError(f"an episode names a term twice: {list(names)}")
        episodes.append(dict(zip(names, values, strict=True)))
    return mean_terms(episodes)


def _contribution_balance(contributions: Any, **_: Any) -> dict[str, Any]:
    """Smallest over mean contribution of the agents, mean over episodes that have any."""
    return {"contribution_balance": mean(map(contribution_balance, contributions))}


def _answer_agreement(answers: Any, **_: Any) -> dict[str, Any]:
    """Share of pairs of agents with the same answer, mean over episodes; None: no answer."""
    return {"answer_agreement": mean(map(answer_agreement, answers))}


def _rouge(
    predictions: Any, references: Any, rouge_types: Any = ROUGE_TYPES, **_: Any
) -> dict[str, Any]:
    """ROUGE F-measures; option `rouge_types`."""
    return rouge(predictions, references, rouge_types)


# class -> (its function, input -> its dtype, in a list where an episode has several)
_METRICS: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, Any]]] = {
    "CoopReturn": (_coop_return, {"returns": "float64", "task_ids": "string"}),
    "SuccessRate": (_success_rate, {"successes": "bool", "task_ids": "string"}),
    "PassAtK": (_pass_at_k, {"successes": "bool", "task_ids": "string"}),
    "RewardTerms": (_reward_terms, {"term_names": ["string"], "term_values": ["float64"]}),
    "ContributionBalance": (_contribution_balance, {"contributions": ["float64"]}),
    "AnswerAgreement": (_answer_agreement, {"answers": ["string"]}),
    "Rouge": (_rouge, {"predictions": "string", "references": "string"}),
}


def _metric(name: str, function: Callable[..., dict[str, Any]], inputs: dict[str, Any]) -> type:
    try:
        import datasets
        import evaluate
    except ImportError as error:
        raise ImportError(
            "these metrics need `evaluate`: pip install 'llm-marl-envs[eval]'"
        ) from error

    def feature(dtype: Any) -> Any:
        if isinstance(dtype, list):
            return datasets.List(datasets.Value(dtype[0]))
        return datasets.Value(dtype)

    class Metric(evaluate.Metric):
        __doc__ = function.__doc__

        def _info(self) -> Any:
            return evaluate.MetricInfo(
                description=f"{self.__doc__} Inputs, one entry per episode: {inputs}.",
                citation="",
                inputs_description="",  # `evaluate` appends it to `compute` at each construction
                features=datasets.Features({key: feature(kind) for key, kind in inputs.items()}),
            )

        def add_batch(self, **columns: Any) -> None:
            """As `evaluate.Metric.add_batch`, which `compute` calls, too.

            Raises:
                ValueError: an input is missing, empty or of another length, or a success is
                    neither true nor false.
            """
            for key in inputs:
                if columns.get(key) is None or not len(columns[key]):
                    raise ValueError(
                        f"{name}: input {key!r} is missing or empty; expected an entry per episode"
                    )
            for success in columns.get("successes", ()):
                if success not in (True, False):  # `evaluate` would take any text for True
                    raise ValueError(f"{name}: {success!r} is neither True nor False")
            super().add_batch(**columns)

        def _compute(self, **columns: Any) -> dict[str, Any]:
            return function(**columns)

    Metric.__name__ = Metric.__qualname__ = name
    return Metric
