"""agents_net_tiny: the share solved and the mean return, as the run is and where nothing is heard.

`silenced` is the same team on the same tasks where no message arrives.
"""

from __future__ import annotations

from typing import Any

from benchmarks.presets.study import MEASURE_SEED, Settings, Study, held_out
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.policies import Team

TASKS = 200
SILENCED = {"hears": "none"}


def measure(run: Settings, seats: Team) -> dict[str, Any]:
    """One episode of each of the first held-out tasks."""
    found = {}
    for name, changes in (("heard", {}), ("silenced", {"channel": SILENCED})):
        env = held_out(run, **changes)
        result = evaluate_team(env, seats, n_tasks=TASKS, seed=MEASURE_SEED)
        found[name] = {"solved": result.success, "return": result.mean_return}
    return found


STUDY = Study(
    preset="agents_net_tiny",
    first_seed=100,
    measure=measure,
    columns={"solved": "heard/solved", "return": "heard/return", "silenced": "silenced/return"},
    rises=("solved", "silenced"),
)
