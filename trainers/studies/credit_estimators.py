"""Which estimators an audit asks, and what those with a memory remember.

Every algorithm that is installed is one, with its own default settings, and so are the other
baselines of `magrpo`: `magrpo_mean` (the paper's, which contains the sample), `magrpo_none`
(MAREINFORCE) and `magrpo_max` (MAREMAX). `rae` and `marshal` keep a role for each seat.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_marl_envs.core.checks import refuse_unknown
from llm_marl_envs.core.records import EpisodeGroup
from trainers.algorithms import ALGORITHMS, AdvantageInputs, Algorithm, make_algorithm
from trainers.algorithms.base import Baseline, Form, in_turn
from trainers.algorithms.central_critic import CentralCritic
from trainers.config import MAGRPOConfig

BASELINES: Mapping[str, Baseline] = {
    "magrpo_mean": "mean",
    "magrpo_none": "none",
    "magrpo_max": "max",
}
"""Estimator -> the baseline of `magrpo` that it is."""
SEATS = ("rae", "marshal")
"""Algorithms that are told that every seat has a role of its own."""


@dataclass(frozen=True, slots=True)
class Estimators:
    """Those that can judge, and why others cannot.

    Attributes:
        algorithms: name -> algorithm.
        refused: name -> what the algorithm said.
    """

    algorithms: Mapping[str, Algorithm]
    refused: Mapping[str, str]


def estimator_names() -> list[str]:
    """All of them, `magrpo` and its baselines first."""
    others = (name for name in ALGORITHMS.names() if name != "magrpo")
    return ["magrpo", *BASELINES, *others]


def make_estimators(
    env: Any,
    trained: Sequence[str],
    names: Sequence[str] | None = None,
    *,
    alternatives: int = 4,
    **settings: Any,
) -> Estimators:
    """The estimators of an audit.

    Args:
        env: one copy of the environment.
        trained: whose messages are judged.
        names: of estimators; None: all.
        alternatives: J of `c3`.
        settings: of the run that they would train in: `num_generations`, `credit`, `chance` and
            `seed`.

    Raises:
        ValueError: no such estimator, or none of them can judge here.
    """
    asked = estimator_names() if names is None else list(names)
    refuse_unknown("estimators", dict.fromkeys(asked), estimator_names())
    form = Form(
        size=settings["num_generations"],
        agents=tuple(trained),
        seats=len(env.possible_agents),
        turns=1,
        in_turn=in_turn(env),
    )
    algorithms: dict[str, Algorithm] = {}
    refused: dict[str, str] = {}
    for name in asked:
        chosen: dict[str, Any] = {"name": "magrpo" if name in BASELINES else name}
        if name in ("c3", "c3_sim"):
            chosen["alternatives"] = alternatives
        if name in SEATS:
            chosen["roles"] = "seat"
        args = MAGRPOConfig(
            output_dir="unused",
            report_to="none",
            bf16=False,
            baseline=BASELINES.get(name, "leave_one_out"),
            **settings,
        )
        try:
            algorithm = make_algorithm(chosen, args)
            algorithm.check(env, trained)
            algorithm.budget(form)
        except ValueError as error:
            refused[name] = str(error)
            continue
        if name == "c3_sim" and form.in_turn:
            refused[name] = "'c3_sim' is 'c3' where agents act in turn"
            continue
        algorithms[name] = algorithm
    if not algorithms:
        raise ValueError(f"none of the estimators {asked} can judge here: {refused}")
    return Estimators(algorithms, refused)


class Memory:
    """An algorithm's running means and critic, as they are after some updates with a frozen team.

    Each judgement begins with the same memory: in training, too, none sees its own future.
    """

    def __init__(self, algorithm: Algorithm, updates: Iterable[AdvantageInputs]) -> None:
        self.algorithm = algorithm
        for inputs in updates:
            algorithm.advantages(inputs)
        # Pickled: a critic's state is many lists of numbers, which deepcopy takes seconds for.
        self.kept = pickle.dumps(algorithm.state_dict())

    def judge(
        self,
        groups: Sequence[EpisodeGroup],
        inputs_of: Callable[[Sequence[EpisodeGroup]], AdvantageInputs],
    ) -> Iterator[np.ndarray]:
        """The advantages of each group, (G, A, K); nothing is remembered of them."""
        # V is read before it learns from what it judges, so a critic may judge many groups at once.
        together = isinstance(self.algorithm, CentralCritic)
        for some in [groups] if together else [[group] for group in groups]:
            self.algorithm.load_state_dict(pickle.loads(self.kept))
            yield from self.algorithm.advantages(inputs_of(some))
