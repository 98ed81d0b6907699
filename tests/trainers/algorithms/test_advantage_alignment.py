"""Advantage alignment, with numbers worked by hand; runs that it cannot train."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.enumeration import Game, Played, algorithm_of, inputs_of
from support.episodes import episode, group_of
from support.models import make_trainer
from support.toys import BareParallel, Lower, Relay

from llm_marl_envs.core.records import Branch, StopReason
from llm_marl_envs.wrappers import Tools
from trainers.algorithms.advantage_alignment import past_advantages

ALIGNED: dict[str, Any] = {"name": "advantage_alignment", "weight": 2.0}
Paid = list[list[float]]


def judged(
    *planned: Paid, endings: dict[tuple[int, int], Paid], failed: int | None = None, **args: Any
) -> tuple[np.ndarray, Any]:
    """Advantages of the planned episodes, (G, A, K), and the algorithm.

    Args:
        planned: what each episode pays, (A, K); all act at every turn.
        endings: (episode, turn) -> what its other ending from there pays, (A, K).
        failed: the number of the ending that failed.
        args: of the run.
    """
    paid = [*planned, *endings.values()]
    shape = np.array(paid[0]).shape
    played = tuple(Played(np.zeros(shape, int), np.array(rewards)) for rewards in paid)
    game = Game(np.zeros((*shape, 1)), played)
    inputs = inputs_of(game, np.arange(len(paid))[None], discount=args.get("discount", 1.0))
    left = [Branch(parent=parent, agent="role0_0", turn=turn) for parent, turn in endings]
    records = [episode(inputs.agents, (), branch) for branch in [*[None] * len(planned), *left]]
    if failed is not None:
        place = len(planned) + failed
        lost = {"stop_reason": StopReason.FAILED, "failure": "broke"}
        records[place] = replace(records[place], **lost)
        inputs.alive[:, place] = False
    algorithm = algorithm_of(ALIGNED, **args)
    inputs = replace(inputs, groups=(group_of(records),))
    assert algorithm.weights(inputs)[0, :, 0, 0].tolist() == [1.0] * len(planned) + [0.0] * len(
        left
    )
    return algorithm.advantages(inputs)[0, : len(planned)], algorithm


ENDINGS: dict[tuple[int, int], Paid] = {
    (0, 1): [[9, 2, 2], [9, 0, 0]],
    (0, 2): [[9, 9, 5], [9, 9, 0]],
    (1, 1): [[9, 0, 1], [9, 1, 0]],
    (1, 2): [[9, 9, 0], [9, 9, 2]],
}
"""What is paid before an ending leaves its episode, 9, counts for nothing."""


def test_the_past_weighs_what_the_other_gains():
    """The first agent is paid 1, 1, 1 and nothing in two episodes, the other 1, -4, 4 and nothing.

    Own advantages are 3, 2, 1 and 1, 0, 4, with the opposite sign in the second episode. At first 0
    was expected of each agent in the first episode, and of the second 3 and 1. From turn 1 on the
    other ending pays 4 and 0 in the first episode, from turn 2 on 5 and 0. So what the past added
    in the first episode is 1 + 4 = 5 and 1 + 1 + 5 = 7 of the one and 1 + 0 and 1 - 4 + 0 of the
    other, and in the second 0 + 1 - 3 and 0 + 0 + 0 - 3, 0 + 1 - 1 and 0 + 0 + 2 - 1.
    """
    advantages, algorithm = judged([[1, 1, 1], [1, -4, 4]], [[0, 0, 0], [0, 0, 0]], endings=ENDINGS)
    first = [[3, 2 + 2 * 5 * 0, 1 + 2 * 7 * 4], [1, 0 + 2 * 1 * 2, 4 + 2 * -3 * 1]]
    second = [[-3, -2 + 2 * -2 * 0, -1 + 2 * -3 * -4], [-1, 0 + 2 * 0 * -2, -4 + 2 * 1 * -1]]
    assert advantages.tolist() == [first, second]
    assert algorithm.counters["unshaped"] == 0


def test_a_discount_weighs_the_past_and_the_whole_term():
    """gamma = 1/2: the past is 1/2 * (r_0 + 1/2 * V_1 - V_0), then 1/2 * (that and the next)."""
    past = past_advantages(np.array([3.0, 5.0, 7.0]), np.array([1.0, 4.0, 6.0]), 0.5)
    assert past.tolist() == [0.0, 0.5 * (3 + 2 - 1), 0.5 * (2.0 + 5 + 3 - 4)]
    ending: dict[tuple[int, int], Paid] = {(0, 1): [[0, 8], [0, 0]]}
    advantages, _ = judged([[1, 2], [0, 6]], endings=ending, discount=0.5)
    # Alone, it is compared with nothing: V_0 is what is left of the return, 0 beside A = R.
    assert advantages[0, 0].tolist() == [1 + 1, 2 + 2 * (1 / 2) * (1 / 2 * (1 + 4 - 0)) * 6]
    nothing, _ = judged([[1, 1], [1, 1]], endings={(0, 1): [[0, 3], [0, 3]]}, discount=0.0)
    assert nothing[0].tolist() == [[1, 1], [1, 1]]  # finite, and the past does not count


def test_the_gains_of_all_others_are_added():
    ending: dict[tuple[int, int], Paid] = {(0, 1): [[0, 4], [0, 0], [0, 0]]}
    advantages, _ = judged([[1, 0], [0, 2], [0, 3]], endings=ending)
    assert advantages[0, 0].tolist() == [1, 0 + 2 * (1 + 4) * (2 + 3)]
    assert advantages[0, 1].tolist() == [2, 2 + 2 * 0 * (0 + 3)]


def test_what_the_own_ending_pays_is_no_part_of_the_past():
    """A later reward of the episode moves the own advantage, and not what weighs the other's."""
    ending: dict[tuple[int, int], Paid] = {(0, 1): [[0, 4], [0, 0]], (1, 1): [[0, 4], [0, 0]]}
    for late in (0.0, 100.0):
        advantages, _ = judged([[1, late], [0, 1]], [[0, 0], [0, 0]], endings=ending)
        assert advantages[0, 0, 1] - late == 2 * (1 + 4 - 0) * 1


def test_luck_at_a_turn_counts_as_what_was_done_there():
    """A coin pays the first agent 1 or -1 whatever is said; the paper's advantage of it is 0."""
    same: Paid = [[0, 0], [0, 0]]
    endings: dict[tuple[int, int], Paid] = {(0, 1): same, (1, 1): same}
    advantages, _ = judged([[1, 0], [0, 1]], [[-1, 0], [0, 0]], endings=endings)
    assert advantages[:, 0, 1].tolist() == [0 + 2 * (1 + 0 + 1) * 1, 0 + 2 * (-1 + 0 - 1) * -1]


def test_turns_after_an_ending_that_failed_have_their_own_advantage():
    paid: tuple[Paid, Paid] = ([[1, 1, 1], [1, -4, 4]], [[0, 0, 0], [0, 0, 0]])
    advantages, algorithm = judged(*paid, endings=ENDINGS, failed=0)
    whole, _ = judged(*paid, endings=ENDINGS)
    assert advantages[0].tolist() == [[3, 2, 1], [1, 0, 4]]
    assert np.array_equal(advantages[1], whole[1])
    assert algorithm.counters["unshaped"] == 2 * 2  # agents, turns


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_a_weight_is_at_least_0(weight: float):
    with pytest.raises(ValueError, match=r"weight=.*: expected a number, at least 0"):
        algorithm_of({"name": "advantage_alignment", "weight": weight})


@pytest.mark.parametrize(
    ("env", "changes", "words"),
    [
        (Lower, {"credit": "team"}, "nothing is to be aligned; set credit: own"),
        (Lower, {"frozen": ["left_0"]}, "the only trained agent is .'right_0'., and it needs"),
        (Lower, {"schedules": {"pool": {}}}, "has no advantages to align with"),
        (lambda: Relay(rounds=2), {}, "act one after the other"),
        (lambda: Tools(Lower(), {"left_0": ["calculate"]}), {}, "call tools"),
        (BareParallel, {}, "cannot be told which actions are simultaneous"),
    ],
)
def test_a_run_that_lacks_what_it_needs_is_refused_before_any_work(
    tmp_path: Path, env: Any, changes: Any, words: str
):
    with pytest.raises(ValueError, match=words):
        make_trainer(tmp_path, env, algorithm="advantage_alignment", **{"credit": "own", **changes})
