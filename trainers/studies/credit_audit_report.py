"""What an audit of credit shows: a table, a picture, and the file that holds both."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from llm_marl_envs.core.checks import refuse_unknown
from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.files.json_files import write_json
from llm_marl_envs.files.pictures import require_matplotlib
from llm_marl_envs.measure.numbers.credit import (
    AUDIT_FILE,
    VERSION,
    Judged,
    policies_of,
    price_table,
)
from llm_marl_envs.measure.numbers.estimates import Estimate, as_filed
from llm_marl_envs.measure.numbers.format import format_table, number, with_interval
from llm_marl_envs.play.registry import make
from llm_marl_envs.policies.named import Context, Sampling, named_team
from trainers.policies.token_policy import TokenPolicy
from trainers.studies.credit_audit import Audit, AuditPlan, Stage, credit_audit
from trainers.studies.credit_figures import PRICES
from trainers.studies.credit_gradients import gram_of

PICTURE_FILE = "credit_audit.png"
Z = 1.96
"""Standard errors to each side of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Finished:
    """An audit and what it is of.

    Attributes:
        audit: what was found.
        about: environment, arguments, seat -> identity of who played, judged seats, temperature.
        plan: sizes.
    """

    audit: Audit
    about: Mapping[str, Any]
    plan: AuditPlan


def run_credit_audit(
    env_id: str,
    env_kwargs: Mapping[str, Any],
    team: str,
    *,
    sizes: Mapping[str, Any],
    sampling: Sampling,
    partners: Mapping[str, str] | None = None,
    trained: Sequence[str] = (),
    transfer: bool = False,
) -> Finished:
    """Audit a named team.

    Args:
        env_id: of the environment.
        env_kwargs: its arguments.
        team: as `named_team` takes it.
        sizes: of `AuditPlan`.
        sampling: how models sample.
        partners: seat that another policy plays -> its name.
        trained: whose messages are audited; empty: those of all seats but the partners'.
        transfer: whether the team may be of another environment.

    Raises:
        ValueError: a size out of range, a team or an agent that does not fit, or an environment
            that does not replay; and what `credit_audit` raises.
    """
    plan = AuditPlan(**sizes)
    env = make(env_id, **env_kwargs)
    others = dict(partners or {})
    named = named_team(team, Context(env=env, sampling=sampling, transfer=transfer), others)
    refuse_unknown("trained", dict.fromkeys(trained), list(named.seats))
    chosen = trained or [seat for seat in named.seats if seat not in others]
    seats = [seat for seat in named.seats if seat in chosen]
    stage = Stage(partial(make, env_id, **env_kwargs), named.seats, seats, plan)
    judged = (named.seats[seat] for seat in seats)
    models = {id(policy): policy for policy in judged if isinstance(policy, TokenPolicy)}
    gram = gram_of(next(iter(models.values()))) if len(models) == 1 else None
    audit = credit_audit(stage, gram)
    about = {"env": env_id, "env_kwargs": dict(env_kwargs), "team": dict(named.identity)}
    about |= {"trained": seats, "temperature": named.temperature}
    return Finished(audit, about, plan)


def audit_to_dict(finished: Finished) -> dict[str, Any]:
    """Everything that was measured, as JSON values."""
    audit = finished.audit
    return {
        "version": VERSION,
        **finished.about,
        "plan": dataclasses.asdict(finished.plan),
        "chance": audit.chance,
        "estimators": [dataclasses.asdict(e, dict_factory=as_filed) for e in audit.estimators],
        "refused": dict(audit.refused),
        "messages": [
            {
                "point": message.point,
                "task_id": message.episode.task_id,
                "agent": message.agent,
                "turn": message.turn,
                "text": message.said.action,
                "worth": message.worth,
                "ci95": [message.worth - Z * message.error, message.worth + Z * message.error],
                "judged": {name: each[place].tolist() for name, each in audit.judgements.items()},
            }
            for place, message in enumerate(audit.messages)
        ],
    }


def audit_tables(audit: Audit) -> str:
    """What one judgement says, what prices buy, and who cannot judge."""
    parts = ["One judgement, with 95 % intervals", _judgements(audit.estimators)]
    for unit in PRICES:
        parts += [f"What {unit} buy", format_table(*price_table(audit.estimators, unit))]
    parts += [f"{name}: {why}" for name, why in audit.refused.items()]
    return "\n".join(parts)


def _judgements(estimators: Sequence[Judged]) -> str:
    policies = policies_of(estimators)
    head = ["estimator", "bias", "(noise)", "offset", "variance", "rank"]
    head += [*(f"cosine {policy}" for policy in policies), "signal"]
    rows = []
    for estimator in estimators:
        # Where no bias was seen the noise says more than an interval.
        bias = with_interval(estimator.bias) if estimator.bias.mean > 0 else number(0.0)
        cells = [estimator.name, bias, number(estimator.bias_error), number(estimator.offset)]
        cosines = map(estimator.cosine.get, policies)
        estimates = [estimator.variance, estimator.rank, *cosines, estimator.signal]
        rows.append([*cells, *map(with_interval, estimates)])
    return format_table(head, rows)


def write_audit(folder: Path, finished: Finished) -> None:
    """Write the file and the picture; each is whole or absent."""
    write_json(folder / AUDIT_FILE, audit_to_dict(finished))
    save_picture(finished.audit, folder / PICTURE_FILE)


def save_picture(audit: Audit, path: Path) -> None:
    """Rank, and the signal of 1000 tokens, of each estimator, with intervals."""
    height = 1.6 + 0.25 * len(audit.estimators)
    figure = require_matplotlib()(figsize=(10, height), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    signals = [_scaled(e.signal, PRICES["tokens"] / e.tokens.cost) for e in audit.estimators]
    _dots(left, [e.rank for e in audit.estimators])
    _dots(right, signals)
    left.axvline(0.5, color="0.6", linewidth=1)
    positive = [signal.mean for signal in signals if signal is not None and signal.mean > 0]
    if positive and max(positive) > 10 * min(positive):
        right.set_xscale("log")
    left.set_yticks(range(len(audit.estimators)), [e.name for e in audit.estimators])
    left.invert_yaxis()
    left.set(xlabel="pairs in the right order, one judgement", title="rank")
    right.set(xlabel="signal of 1000 sampled tokens", title="signal for its price")
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150, format="png")


def _scaled(estimate: Estimate | None, factor: float) -> Estimate | None:
    if estimate is None or estimate.ci95 is None:
        return None
    low, high = estimate.ci95
    return Estimate(factor * estimate.mean, (factor * low, factor * high), estimate.n)


def _dots(axes: Any, values: Sequence[Estimate | None]) -> None:
    """A dot with its interval on each line that has one."""
    for place, estimate in enumerate(values):
        if estimate is not None and estimate.ci95 is not None:
            axes.plot(estimate.ci95, [place, place], color="tab:blue", linewidth=1.5, alpha=0.6)
            axes.plot([estimate.mean], [place], "o", color="tab:blue", markersize=5)
    axes.grid(axis="x", alpha=0.3)
