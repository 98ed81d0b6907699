"""The alarm when rewards inside groups do not vary."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from trainers.callbacks import FlatRewards

STATE = SimpleNamespace(is_world_process_zero=True)


def log(alarm: FlatRewards, *shares: float) -> None:
    for share in shares:
        alarm.on_log(None, STATE, None, logs={"frac_reward_zero_std": share})


def test_it_warns_once_per_stretch() -> None:
    alarm = FlatRewards(patience=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(alarm, 1, 1, 0.9, 1, 1)
        alarm.on_log(None, STATE, None, logs={"loss": 0.0})  # a log of something else
    with pytest.warns(UserWarning, match="not varied for 3 updates"):
        log(alarm, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(alarm, 1, 1)
    with pytest.warns(UserWarning, match="for 6 updates"):
        log(alarm, 1)


def test_other_processes_keep_silent() -> None:
    alarm = FlatRewards(patience=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alarm.on_log(
            None, SimpleNamespace(is_world_process_zero=False), None, {"frac_reward_zero_std": 1}
        )
