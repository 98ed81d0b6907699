"""Where the exact policy gradient ends in the commons, from 200 starts of nearly uniform tables.

    python -m benchmarks.societies.starts

`commons-v0` with twelve months and no talk, five seats or two. Each seat has a table over month and
stock, names one of a few amounts, and climbs the exact gradient of its own return, or of the mean
return, by Adam; nothing is sampled. Of each end the pay is exact, and so is what the best response
to the others would gain a seat: 0 in an equilibrium.

The criterion, written before the runs. With five seats every symmetric pure Markov-perfect
equilibrium pays 20 (docs/environments/commons.md): at least 0.95 of 200 starts that climb their own
return end within 1 unit of 20, and gain at most 1 by a best response. With two seats equilibria pay
from 50 to 325, so nothing is predicted. Of starts that climb the mean return at least 0.95 end
within 0.05 of the social optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.claims.common import Run, begun, options_of
from benchmarks.societies import FOLDER
from benchmarks.societies.lake import Lake
from benchmarks.societies.tables import Table
from llm_marl_envs.envs.games.landscape import STARTS, ascend, near_uniform, softmax
from llm_marl_envs.envs.societies.stock import Rules

LAKES = {
    "five seats": Lake(Rules(seats=5, months=12, capacity=100), (10, 20, 100)),
    "two seats": Lake(Rules(seats=2, months=12, capacity=100), (0, 25, 50, 100)),
}
UPDATES, RATE, CHUNK = 100, 0.2, 10
"""Of Adam, and starts at once, which are independent."""


def answers(values: Any, tables: Sequence[Table], seat: int) -> Table:
    """(B, S, W): what a seat expects of each amount; values (B, S, J), tables (B, S, W)."""
    n, words = len(tables), tables[0].shape[-1]
    left = values.reshape(*values.shape[:2], *[words] * n)
    for other in reversed(range(n)):
        if other != seat:
            weights = tables[other].reshape(
                *tables[other].shape[:2], *[words if k == other else 1 for k in range(other + 1)]
            )
            extra = left.ndim - weights.ndim
            left = (left * weights.reshape(*weights.shape, *[1] * extra)).sum(2 + other)
    return left


def backward(lake: Lake, tables: Sequence[Table], mode: str) -> tuple[list[list[Table]], Table]:
    """What seats expect of each amount, by month and seat (B, S, W), and of all (n, B).

    Args:
        lake: the game.
        tables: of each seat, (B, T, S, W) probabilities.
        mode: "own" or "team" returns; "best": of a seat that answers best in every month.
    """
    n, (starts, months, stocks, _) = lake.n, tables[0].shape
    after = lake.levels[..., 2]
    paid = np.repeat(lake.got.mean(-1, keepdims=True), n, -1) if mode == "team" else lake.got
    values = np.zeros((n, starts, stocks))
    found: list[list[Table]] = []
    for month in reversed(range(months)):
        now = [table[:, month] for table in tables]
        each = []
        for seat in range(n):
            later = np.where(after < 0, 0.0, (1 - lake.rules.end) * values[seat][:, after])
            each.append(answers(paid[..., seat] + later, now, seat))
        values = np.array(
            [
                one.max(-1) if mode == "best" else (one * own).sum(-1)
                for one, own in zip(each, now, strict=True)
            ]
        )
        found.insert(0, each)
    return found, values[..., -1]


def gradient(lake: Lake, mode: str, logits: Sequence[Table]) -> list[Table]:
    """Of each seat's expected return, in units, in its own logits (B, T, S, W)."""
    tables = [softmax(one) for one in logits]
    expected, _ = backward(lake, tables, mode)
    starts, months, stocks, _ = tables[0].shape
    after = lake.levels[..., 2]
    at = np.zeros((starts, stocks))
    at[:, -1] = 1.0
    slopes = [np.zeros_like(table) for table in tables]
    goes = np.eye(stocks + 1)[after][..., :stocks]  # (S, J, S)
    for month in range(months):
        joint = np.ones((starts, stocks, 1))
        for seat, table in enumerate(tables):
            now, worth = table[:, month], expected[month][seat]
            above = worth - (worth * now).sum(-1, keepdims=True)
            slopes[seat][:, month] = at[..., None] * now * above
            joint = (joint[..., None] * now[:, :, None]).reshape(starts, stocks, -1)
        flow = np.einsum("bsj,sjz->bsz", joint, goes, optimize=True)
        at = (1 - lake.rules.end) * np.einsum("bs,bsz->bz", at, flow)
    return slopes


def ends(name: str, mode: str, starts: int, updates: int) -> Run:
    """Pay in units, mean over seats, and the largest gain of a best response, of each start."""
    lake = LAKES[name]
    shape = lake.rules.months, len(lake.stocks), len(lake.amounts)
    begin = near_uniform([shape] * lake.n, starts, seed=1)
    pay, gain = [], []
    for first in range(0, starts, CHUNK):
        part = [table[first : first + CHUNK] for table in begin]
        tables = [softmax(t) for t in ascend(partial(gradient, lake, mode), part, updates, RATE)]
        own, best = (backward(lake, tables, kind)[1] for kind in ("own", "best"))
        pay += own.mean(0).round(2).tolist()
        gain += (best - own).max(0).round(2).tolist()
    return {"pay": pay, "gain": gain, "optimum": lake.best}


def compared(run: Run) -> dict[str, Any]:
    """The shares of starts that end where."""
    pay, gain, best = np.array(run["pay"]), np.array(run["gain"]), run["optimum"]
    stable = gain <= 1
    return {
        "starts": len(pay),
        "optimal": float((pay >= 0.95 * best).mean()),
        "stable": float(stable.mean()),
        "span": [float(pay.min()), float(np.median(pay)), float(pay.max())],
        "grabs": float(((np.abs(pay - run["grab"]) <= 1) & stable).mean()),
        "largest gain": float(gain.max()),
    }


def main() -> None:
    options = options_of(__doc__, "starts", FOLDER)
    starts, updates = (4, 3) if options.quick else (STARTS, UPDATES)
    record = begun(options, __doc__, updates=updates, starts=starts)
    summary: dict[str, Any] = {}
    for name, lake in LAKES.items():
        grab = lake.rules.capacity / lake.n
        for mode in ("own", "team"):
            job = partial(ends, name, mode, starts, updates)
            run = {**record.get(f"{name}/{mode}", job), "grab": grab}
            summary[f"{name}, {mode}"] = compared(run)
    record.save(summary={"commons": {"methods": summary}})


if __name__ == "__main__":
    main()
