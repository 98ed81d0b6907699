"""Metrics as `evaluate.Metric` classes: built directly, no Hub, usable in `evaluate.combine`.

    from llm_marl_envs.evaluation.numbers.hf_metrics import CoopReturn
    CoopReturn().compute(returns=[0.5, 1.0], task_ids=["a", "b"])

Owns inputs and names; every number comes from `estimators.py`. `evaluate` (and with it pandas) is
imported when a class is first asked for, so that importing this library stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_marl_envs.evaluation.numbers import estimators

if TYPE_CHECKING:
    from evaluate import Metric

    CoopReturn: type[Metric]
    SuccessRate: type[Metric]
    PassAtK: type[Metric]
    RewardTerms: type[Metric]
    ContributionBalance: type[Metric]
    AnswerAgreement: type[Metric]
    Rouge: type[Metric]

__all__ = [
    "AnswerAgreement",
    "ContributionBalance",
    "CoopReturn",
    "PassAtK",
    "RewardTerms",
    "Rouge",
    "SuccessRate",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {__all__}")
    globals().update(_classes())
    return globals()[name]


def _coop_return(inputs: Any, options: Any) -> dict[str, Any]:
    """Mean team return with a 95 % bootstrap interval over tasks."""
    means = estimators.task_means(inputs["task_ids"], inputs["returns"])
    low, high = estimators.bootstrap_interval(means)
    return {"mean_return": sum(means) / len(means), "return_low": low, "return_high": high}


def _success_rate(inputs: Any, options: Any) -> dict[str, Any]:
    """Share of solved episodes with its 95 % interval, Wilson's at the effective size.

    Option `clusters`: task -> what it shares with others, as `metrics.success_interval` takes it.
    """
    tasks, solved = inputs["task_ids"], inputs["successes"]
    means = estimators.task_means(tasks, solved)
    low, high = estimators.success_interval(tasks, solved, options.get("clusters"))
    return {"success_rate": sum(means) / len(means), "success_low": low, "success_high": high}


def _pass_at_k(inputs: Any, options: Any) -> dict[str, Any]:
    """pass@k, unbiased (Chen et al. 2021), mean over tasks; option `k`, a number or several."""
    wanted = options.get("k", 1)
    each = [wanted] if isinstance(wanted, int) else list(wanted)
    tasks, solved = inputs["task_ids"], inputs["successes"]
    return {f"pass@{k}": estimators.mean_pass_at_k(tasks, solved, k) for k in each}


def _reward_terms(inputs: Any, options: Any) -> dict[str, Any]:
    """Each named reward term, mean over episodes; per episode the names and their values."""
    episodes = []
    for names, values in zip(inputs["term_names"], inputs["term_values"], strict=True):
        if len(names) != len(values):
            raise ValueError(f"{len(names)} term names for {len(values)} term values in an episode")
        if len(set(names)) < len(names):
            raise ValueError(f"an episode names a term twice: {list(names)}")
        episodes.append(dict(zip(names, values, strict=True)))
    return estimators.mean_terms(episodes)


def _contribution_balance(inputs: Any, options: Any) -> dict[str, Any]:
    """Smallest over mean contribution of the agents, mean over episodes that have any."""
    found = [estimators.contribution_balance(one) for one in inputs["contributions"]]
    known = [one for one in found if one is not None]
    return {"contribution_balance": sum(known) / len(known) if known else None}


def _answer_agreement(inputs: Any, options: Any) -> dict[str, Any]:
    """Share of pairs of agents with the same answer, mean over episodes; None: no answer."""
    found = [estimators.answer_agreement(one) for one in inputs["answers"]]
    return {"answer_agreement": sum(found) / len(found)}


def _rouge(inputs: Any, options: Any) -> dict[str, Any]:
    """ROUGE F-measures; option `rouge_types`."""
    types = options.get("rouge_types", estimators.ROUGE_TYPES)
    return estimators.rouge(inputs["predictions"], inputs["references"], types)


# class -> (its function, input -> the feature that holds it)
_METRICS: dict[str, tuple[Any, dict[str, str]]] = {
    "CoopReturn": (_coop_return, {"returns": "float64", "task_ids": "string"}),
    "SuccessRate": (_success_rate, {"successes": "bool", "task_ids": "string"}),
    "PassAtK": (_pass_at_k, {"successes": "bool", "task_ids": "string"}),
    "RewardTerms": (_reward_terms, {"term_names": "list:string", "term_values": "list:float64"}),
    "ContributionBalance": (_contribution_balance, {"contributions": "list:float64"}),
    "AnswerAgreement": (_answer_agreement, {"answers": "list:string"}),
    "Rouge": (_rouge, {"predictions": "string", "references": "string"}),
}


def _given(
    metric: Any, predictions: Any, references: Any, others: dict[str, Any]
) -> dict[str, Any]:
    """What was passed, after a check that the metric's own inputs are all there and as long.

    Raises:
        ValueError: inputs of different lengths, of no episodes, or one is missing.
    """
    named = {"predictions": predictions, "references": references, **others}
    given = {name: value for name, value in named.items() if value is not None}
    unsaid = [one for one in given.get("successes", ()) if one not in (True, False)]
    if unsaid:
        raise ValueError(f"{type(metric).__name__}: {unsaid[0]!r} is neither True nor False")
    lengths = {name: len(given[name]) for name in metric.inputs if name in given}
    if not lengths:  # `compute()` after `add_batch`
        return given
    missing = [name for name in metric.inputs if name not in given]
    if missing:
        raise ValueError(f"{type(metric).__name__}: input {missing[0]!r} is missing")
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        shown = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise ValueError(
            f"{type(metric).__name__}: {shown}; expected as many of each, and at least one"
        )
    return given


def _feature(kind: str) -> Any:
    import datasets

    inner = datasets.Value(kind.removeprefix("list:"))
    return datasets.Sequence(inner) if kind.startswith("list:") else inner


def _base() -> type:
    try:
        import datasets
        import evaluate
    except ImportError as error:
        raise ImportError(
            "these metrics need `evaluate`: pip install 'llm-marl-envs[eval]'"
        ) from error

    class Base(evaluate.Metric):
        function: Any
        inputs: dict[str, str]

        def _info(self) -> Any:
            shown = ", ".join(f"{name} ({kind})" for name, kind in self.inputs.items())
            return evaluate.MetricInfo(
                description=f"{self.__doc__} Inputs, one entry per episode: {shown}.",
                citation="",
                inputs_description="",  # `evaluate` appends it to `compute` at each construction
                features=datasets.Features({n: _feature(k) for n, k in self.inputs.items()}),
            )

        def compute(self, *, predictions: Any = None, references: Any = None, **others: Any) -> Any:
            """As `evaluate.Metric.compute`; inputs of different lengths are a `ValueError`."""
            return super().compute(**_given(self, predictions, references, others))

        def add_batch(
            self, *, predictions: Any = None, references: Any = None, **others: Any
        ) -> None:
            """As `evaluate.Metric.add_batch`; inputs of different lengths are a `ValueError`."""
            super().add_batch(**_given(self, predictions, references, others))

        def _compute(
            self, *, predictions: Any = None, references: Any = None, **others: Any
        ) -> Any:
            named = {"predictions": predictions, "references": references, **others}
            inputs = {name: named.pop(name) for name in self.inputs}
            return type(self).function(inputs, named)

    return Base


def _classes() -> dict[str, type]:
    base = _base()
    return {
        name: type(
            name,
            (base,),
            {
                "__doc__": function.__doc__,
                "__module__": __name__,
                "function": staticmethod(function),
                "inputs": inputs,
            },
        )
        for name, (function, inputs) in _METRICS.items()
    }
