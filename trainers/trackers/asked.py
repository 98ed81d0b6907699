"""Which trackers a run asks for, and that those which can stay offline do.

Owns the refusal of names in `report_to`, before anything is built.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    get_available_reporting_integrations,
)

from llm_marl_envs.core.checks import suggestion

PACKAGES = {"azure_ml": "azureml-sdk", "comet_ml": "comet-ml"}
"""Name of a tracker -> its package, where that is called differently."""
AT_HOME = {
    "comet_ml": {"COMET_START_ONLINE": "0"},
    "mlflow": {"MLFLOW_DISABLE_TELEMETRY": "true"},
    "swanlab": {"SWANLAB_MODE": "local"},
    "wandb": {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"},
}
"""Name of a tracker -> what it reads from the environment, so that it stays offline."""


def check_trackers(report_to: str | Sequence[str] | None) -> None:
    """Refuse trackers that are unknown or not installed, before anything is built.

    Raises:
        ValueError: no such tracker, or "all", which means others on every machine.
        ImportError: it is not installed; the message names its package.
    """
    for name in [report_to] if isinstance(report_to, str) else report_to or []:
        if name == "none":
            continue
        installed = get_available_reporting_integrations()
        if name == "all":
            raise ValueError(
                f"report_to='all' is another list on every machine, here {installed}: name those "
                "that you want"
            )
        if name not in INTEGRATION_TO_CALLBACK:
            hint = suggestion(name, INTEGRATION_TO_CALLBACK)
            raise ValueError(f"report_to={name!r:.200}: no such tracker{hint}")
        # transformers' list leaves Flyte out, which complains itself.
        if name != "flyte" and name not in installed:
            package = PACKAGES.get(name, name)
            raise ImportError(
                f"report_to={name!r:.200}: {package!r:.200} is not installed; pip install "
                f"{package}, or report_to='none'"
            )


def stay_home(names: Sequence[str]) -> None:
    """Keep these trackers offline, for the whole process, where the environment says nothing."""
    for name in names:
        for variable, value in AT_HOME.get(name, {}).items():
            os.environ.setdefault(variable, value)
