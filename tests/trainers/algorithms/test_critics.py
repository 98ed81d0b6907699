"""Critics: what they see, what they learn, what they keep; MAPPO's advantages by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.enumeration import (
    Game,
    Played,
    algorithm_of,
    choice,
    episode_of,
    groups_of,
    inputs_of,
    matrix,
    two_turns,
)
from support.models import make_trainer
from support.toys import BareParallel, Lower

from llm_marl_envs import make
from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from trainers.algorithms.base import acts_at_once
from trainers.critics.base import CriticSettings
from trainers.critics.registry import CRITIC_FILE
from trainers.critics.sight import Sight
from trainers.critics.text_value import TextValue, features

NAMES = ("central_critic", "iac", "action_free_critic", "mappo", "marft")


def record() -> Episode:
    """Two turns of two agents, all said and shown once."""
    inputs = inputs_of(two_turns(), np.array([[1]]), told=True)
    return inputs.groups[0].episodes[0]


def changed(episode: Episode, place: int, text: str) -> Episode:
    """The same episode with another action at one place; nobody is shown it."""
    turn = episode.turns[place]
    turn = dataclasses.replace(turn, response=dataclasses.replace(turn.response, text=text))
    turns = (*episode.turns[:place], turn, *episode.turns[place + 1 :])
    return dataclasses.replace(episode, turns=turns)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("sees", ["joint", "solution", "own"])
@pytest.mark.parametrize("actions", [True, False])
def test_the_own_action_and_what_comes_after_never_leaks(at_once: bool, sees: str, actions: bool):
    """Every action is changed in turn; a turn sees those that came before it, or beside it."""
    sight, episode = Sight(sees, actions), record()
    critic = TextValue(CriticSettings(), seed=0)
    critic.scale.fitted = True
    places = range(len(episode.turns))
    before = critic.values([sight.of(episode, place, at_once) for place in places])
    moved = set()
    for acted in places:
        other = changed(episode, acted, "something else")
        after = critic.values([sight.of(other, place, at_once) for place in places])
        moved |= {(acted, place) for place in places if before[place] != after[place]}
    # Turns 0 and 1 are simultaneous, and so are 2 and 3; in turn, the last of the other counts.
    beside = {(0, 1), (1, 0), (2, 3), (3, 2)}
    earlier = {(0, 1), (1, 2), (2, 3)}
    expected = (beside if actions else set()) if at_once else earlier
    assert moved == (set() if sees == "own" else expected)


def test_the_solution_stands_beside_the_chats() -> None:
    episode = record()
    joint = Sight("joint").of(episode, 2, True)
    seen = Sight("solution", solution=lambda task: f"of {task}").of(episode, 2, True)
    assert seen.parts == (("solution", f"of {episode.task_id}"), *joint.parts)
    algorithm = algorithm_of({"name": "central_critic", "sees": "solution"})
    with pytest.raises(ValueError, match="solution"):
        algorithm.check(make("coop_coding-v0"), ("helper_0", "main_0"))
    env = make("retrieve_pipeline-v0")
    algorithm.check(env, env.possible_agents)
    task = env.source[3]
    assert algorithm.sight.solution(task.id) == env.solution(task)


def test_where_seats_call_tools_nothing_that_came_of_an_action_leaks() -> None:
    """Turns of one number are of different times there; what is seen came before all the same."""
    arguments: dict[str, Any] = {"tools": {"main": ["calculate"]}, "turns": 2}
    call, first = "Call: calculate(1 + 1)", "def solve(xs):\n    return 1"
    env = make("coop_coding-v0", feedback="partner", **arguments)
    assert not acts_at_once(env, "central_critic")

    def play(changed: tuple[str, int] | None) -> Episode:
        def say(request: Any) -> str:
            if (request.agent, request.turn) == changed:
                return "def aux(x):\n    return 7" if request.agent == "helper_0" else "pass"
            main = [call, first, call, first]
            own = main if request.agent == "main_0" else ["def aux(x):\n    return x"] * 2
            return own[request.turn]

        team = dict.fromkeys(env.possible_agents, ScriptedPolicy(say))
        return rollout(VectorTextEnv([env]), team, [Start(task=0, seed=0)])[0]

    whole = play(None)
    assert [(t.agent, t.index, t.step) for t in whole.turns][:3] == [
        ("helper_0", 0, 0), ("main_0", 0, 0), ("main_0", 1, 1),
    ]  # fmt: skip
    sight = Sight("joint")
    for place, turn in enumerate(whole.turns):
        other = play((turn.agent, turn.index))
        at = next(
            i for i, t in enumerate(other.turns) if (t.agent, t.index) == (turn.agent, turn.index)
        )
        assert sight.of(other, at, False) == sight.of(whole, place, False)
        assert other.turns[at].action != turn.action


def test_a_central_critic_sees_all_chats_and_an_own_one_only_its_own():
    episode = record()
    others = dataclasses.replace(
        episode.turns[1], messages=(dataclasses.replace(episode.turns[1].messages[0], content="x"),)
    )
    other = dataclasses.replace(episode, turns=(episode.turns[0], others, *episode.turns[2:]))
    for sees, differs in (("joint", True), ("own", False)):
        sight = Sight(sees)
        assert (sight.of(episode, 0, True) != sight.of(other, 0, True)) is differs
        assert sight.of(episode, 1, True) != sight.of(other, 1, True)


def test_words_count_by_whose_they_are():
    assert features((("a_0", "Say it!"),)) == features((("a_0", "say  it !"),))
    assert set(features((("a_0", "say"),))).isdisjoint(features((("b_0", "say"),)))
    assert features((("a_0", "x y"),)) != features((("a_0", "y x"),))


@pytest.mark.parametrize("name", NAMES)
def test_the_first_update_has_no_baseline_and_a_checkpoint_keeps_what_was_learned(name: str):
    inputs = inputs_of(two_turns(), np.array([[0, 3], [7, 12]]), told=True)
    algorithm, again = algorithm_of({"name": name}), algorithm_of({"name": name}, seed=5)
    first = algorithm.advantages(inputs)
    if name not in ("mappo", "marft"):  # whose traces are shorter than 1
        assert np.array_equal(first, inputs.returns)
    again.load_state_dict(json.loads(json.dumps(algorithm.state_dict())))
    for _ in range(3):
        second = algorithm.advantages(inputs)
        assert np.array_equal(again.advantages(inputs), second)
        assert not np.allclose(second, first, atol=1e-3)
    assert algorithm.counters["critic_error"] < 1.0


def test_the_baseline_is_read_before_it_learns():
    """A group of one whose return is its own would else be compared with itself."""
    game = choice([(4.0, 1.0)], [(8.0, 1.0)])
    algorithm = algorithm_of({"name": "central_critic", "steps": 200})
    assert algorithm.advantages(inputs_of(game, np.array([[0]]), told=True)).ravel() == [4.0]
    advantages = algorithm.advantages(inputs_of(game, np.array([[1]]), told=True)).ravel()
    assert advantages == pytest.approx([4.0], abs=0.1)


def test_generalised_advantages_by_hand(monkeypatch: pytest.MonkeyPatch):
    """Rewards 1, 2, 4, values 1/2, 1, 3, gamma = 1/2, lambda = 1/2; the second ends earlier."""
    whole = Played(np.zeros((1, 3), int), np.array([[1.0, 2.0, 4.0]]))
    short = Played(np.array([[0, 0, -1]]), np.array([[1.0, 2.0, 0.0]]))
    game = Game(np.zeros((1, 3, 1)), (whole, short))
    algorithm = algorithm_of({"name": "mappo", "trace": 0.5}, discount=0.5)
    worth = {"turn 0": 0.5, "turn 1": 1.0, "turn 2": 3.0}
    values = lambda seen: np.array([worth[turn.parts[0][1].split(": ")[1]] for turn in seen])  # noqa: E731
    monkeypatch.setattr(algorithm.critic, "values", values)
    fitted: list[Any] = []
    monkeypatch.setattr(algorithm.critic, "fit", lambda seen, to: fitted.append(to))
    advantages = algorithm.advantages(inputs_of(game, np.array([[0, 1]]), 0.5, told=True))[0, :, 0]
    # Errors: 1 + 1/2 - 1/2 = 1, 2 + 3/2 - 1 = 5/2, 4 - 3 = 1; in the second 1 and 2 - 1 = 1.
    assert advantages[0].tolist() == [1 + 2.75 / 4, 2.5 + 1 / 4, 1.0]
    assert advantages[1].tolist() == [1 + 1 / 4, 1.0, 0.0]
    expected = [*(advantages[0] + [0.5, 1.0, 3.0]), *(advantages[1, :2] + [0.5, 1.0])]
    assert fitted[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("chosen", "args", "words"),
    [
        ({"name": "iac", "rate": 0}, {}, "rate=0: expected a number above 0"),
        ({"name": "iac", "steps": 0}, {}, "steps=0: expected a whole number, at least 1"),
        ({"name": "mappo", "trace": 2}, {}, "mappo, trace=2: expected a number, 0 to 1"),
        ("mappo", {"returns": {"name": "maporl"}}, "or choose algorithm: central_critic"),
    ],
)
def test_wrong_settings_say_what_is_wrong(chosen: Any, args: Any, words: str):
    with pytest.raises(ValueError, match=words):
        algorithm_of(chosen, **args)


def test_a_foreign_parallel_environment_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="cannot be told which actions are simultaneous"):
        make_trainer(tmp_path, BareParallel, algorithm="central_critic")


def test_a_saved_team_has_its_critic(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower, algorithm="central_critic", max_steps=1)
    trainer.train()
    trainer.save_team(tmp_path / "team")
    kept = json.loads((tmp_path / "team" / CRITIC_FILE).read_text())
    again = algorithm_of("central_critic", seed=9)
    again.load_state_dict(kept)
    assert again.state_dict() == trainer.algorithm.state_dict()
    assert kept["algorithm"] == "central_critic"


def chained(trace: float, values: Any) -> Any:
    """Advantages (A, K) of one episode of two agents and two turns, the team paid 1 and then 2."""
    game = matrix([[0.0]], [[0.0]], turns=2)
    inputs = inputs_of(game, groups_of(game, 1), told=True)
    returns = np.array([[[[3.0, 2.0], [3.0, 2.0]]]])
    algorithm = algorithm_of({"name": "marft", "trace": trace}, credit="team")
    advantages, targets = algorithm.estimate(
        dataclasses.replace(inputs, returns=returns), np.array([[values]])
    )
    assert np.allclose(targets, advantages + values)
    return advantages[0, 0]


def test_a_chain_goes_through_the_agents_of_a_turn_and_then_to_the_next_turn():
    """V 0.5, 1.5 before the messages of turn 0 and 1.0, 1.8 before those of turn 1, by hand."""
    values = [[0.5, 1.0], [1.5, 1.8]]
    steps = {"left": [1.0, 0.8], "right": [1 + 1.0 - 1.5, 2 - 1.8]}
    assert np.allclose(chained(0.0, values), [steps["left"], steps["right"]])
    # From the end: 0.2; 0.8 + 0.1; 0.5 + 0.45; 1.0 + 0.475
    assert np.allclose(chained(0.5, values), [[1.475, 0.9], [0.95, 0.2]])
    assert np.allclose(chained(1.0, values), [[2.5, 1.0], [1.5, 0.2]])  # returns minus V


def test_a_player_of_a_pool_is_no_part_of_the_chain():
    """The left seat alone is trained; returns 3 and 2, values 0.5 and 1."""
    game = matrix([[0.0]], [[0.0]], turns=2)
    inputs = inputs_of(game, groups_of(game, 1), told=True)
    alive = np.array([[[[True, True], [False, False]]]])
    values = np.array([[[[0.5, 1.0], [0.0, 0.0]]]])
    returns = np.where(alive, np.array([3.0, 2.0]), 0.0)
    inputs = dataclasses.replace(inputs, returns=returns, alive=alive)
    algorithm = algorithm_of({"name": "marft", "trace": 0.5}, credit="team")
    advantages, _ = algorithm.estimate(inputs, values)
    # 2 - 1; (3 - 2) + 1 - 0.5 + 1 / 2
    assert np.allclose(advantages[0, 0], [[2.0, 1.0], [0.0, 0.0]])


def test_the_critic_of_a_chain_hears_the_seats_before_and_nobody_else():
    episode = episode_of(Played(np.array([[0, 1], [1, 0]]), np.zeros((2, 2))))
    sight = algorithm_of({"name": "marft"}, credit="team").sight
    seen = [sight.of(episode, place, True) for place in range(4)]
    says = [[part for part in turn.parts if part[0].endswith("says")] for turn in seen]
    assert says == [[], [("role0_0 says", "word 0")], [], [("role0_0 says", "word 1")]]
    assert {turn.parts[-1][0] for turn in seen} == {"role0_0 acts", "role1_0 acts"}
    with pytest.raises(ValueError, match="sees='own': expected one of"):
        algorithm_of({"name": "marft", "sees": "own"}, credit="team")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"credit": "own"}, "set credit='team'"),
        ({"discount": 0.9}, "discount=0.9: agents count"),
        ({"algorithm": {"name": "marft", "sees": "own"}}, "choose algorithm: iac"),
    ],
)
def test_a_chain_of_agents_that_are_paid_apart_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
):
    with pytest.raises(ValueError, match=words):
        make_trainer(tmp_path, Lower, **{"algorithm": "marft", **changes})
