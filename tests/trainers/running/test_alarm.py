"""The alarm when rewards inside groups do not vary, and the scalar that it listens to."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from support.models import make_trainer
from support.toys import Lower

from llm_marl_envs import make
from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.core.records import Request
from llm_marl_envs.policies import ScriptedPolicy
from trainers.algorithms.magrpo import MAGRPO
from trainers.config import MAGRPOConfig
from trainers.experience.collect import Collector
from trainers.running.callbacks import FlatRewards
from trainers.running.metrics import group_metrics


def log(alarm: FlatRewards, *shares: float, every: int = 1, main: bool = True) -> None:
    """Logs after every so many updates."""
    for share in shares:
        state = SimpleNamespace(is_world_process_zero=main, global_step=alarm._seen + every)
        alarm.on_log(None, state, None, logs={"frac_reward_zero_std": share})


def test_it_warns_once_per_stretch() -> None:
    alarm = FlatRewards(patience=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(alarm, 1, 1, 0.9, 1, 1)
        alarm.on_log(None, SimpleNamespace(), None, logs={"loss": 0.0})  # of something else
    with pytest.warns(UserWarning, match="not varied for 3 updates"):
        log(alarm, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(alarm, 1, 1)
    with pytest.warns(UserWarning, match="for 6 updates"):
        log(alarm, 1)


def test_it_counts_updates_not_logs() -> None:
    alarm = FlatRewards(patience=20)
    alarm.on_train_begin(None, SimpleNamespace(global_step=100), None)  # a resumed run
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(alarm, 1, every=19)
    with pytest.warns(UserWarning, match="for 38 updates"):
        log(alarm, 1, every=19)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(alarm, 1)  # 39
    with pytest.warns(UserWarning, match="for 40 updates"):
        log(alarm, 1)


def test_an_update_may_have_several_steps() -> None:
    """Three steps each, the first of which logs the rollout; a run resumed before the third."""
    alarm = FlatRewards(patience=2, steps=3)
    alarm.on_train_begin(None, SimpleNamespace(global_step=6), None)

    def log_at(step: int) -> None:
        state = SimpleNamespace(is_world_process_zero=True, global_step=step)
        alarm.on_log(None, state, None, logs={"frac_reward_zero_std": 1})

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log_at(7)
    with pytest.warns(UserWarning, match="not varied for 2 updates"):
        log_at(10)


def test_other_processes_keep_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log(FlatRewards(patience=1), 1, main=False)


def flat_share(
    tmp_path: Path, credit: Literal["team", "own"], scores: list[str], returns: str = "discounted"
) -> float:
    """The scalar of one group of `solve_and_evaluate-v0` in which the scorer gives `scores`."""
    args = MAGRPOConfig(
        output_dir=str(tmp_path),
        use_cpu=True,
        max_steps=1,
        tasks_per_update=1,
        num_generations=len(scores),
        credit=credit,
        returns=returns,
    )
    asked = iter(scores)

    def script(request: Request) -> str:
        return next(asked) if request.agent == "scorer_0" else "no idea"

    def make_env():
        return make("solve_and_evaluate-v0", rounds=1)

    trained = ("solver_0", "evaluator_0")
    names: dict[str, str] = dict.fromkeys(trained, "a")
    collector = Collector(make_env, MAGRPO(args), args, trained, names)
    policy = ScriptedPolicy(script)
    groups = collector.play(0, dict.fromkeys(make_env().possible_agents, policy))
    inputs, advantages = collector.judge(0, groups)
    share = group_metrics(groups, inputs.returns)["frac_reward_zero_std"]
    assert (share == 1) == (not np.any(advantages))
    return share


def test_it_listens_to_what_is_trained_on(tmp_path: Path) -> None:
    """A constant sum: the team's return never varies, what each seat earns does."""
    mixed = ["Score: 1", "Score: 3", "Score: 3"]
    assert flat_share(tmp_path, "own", mixed) == 0.0
    assert flat_share(tmp_path, "team", mixed) == 1.0
    assert flat_share(tmp_path, "own", ["Score: 3"] * 3) == 1.0
    # Who was right is the same in all episodes: rewards vary, and are not what is learned from.
    assert flat_share(tmp_path, "own", mixed, returns="maporl") == 1.0


class Even(Lower):
    """Pays everybody the same, whatever they say."""

    def play(self, joint_action: Any) -> Outcome:
        return Outcome(reward_terms={agent: {"even": 0.5} for agent in self.agents})


def test_a_run_without_a_signal_warns(tmp_path: Path) -> None:
    """Of two updates, in each of which two policies take a step one after the other."""
    trainer = make_trainer(
        tmp_path, lambda: Even(turns=1), max_steps=4, schedules={"sequential": {}}
    )
    alarm = next(c for c in trainer.callback_handler.callbacks if isinstance(c, FlatRewards))
    assert alarm.patience == 20
    alarm.patience = 2
    with pytest.warns(UserWarning, match="not varied for 2 updates"):
        trainer.train()
    shares = [log.get("frac_reward_zero_std") for log in trainer.state.log_history[:4]]
    assert shares == [1.0, None, 1.0, None]
