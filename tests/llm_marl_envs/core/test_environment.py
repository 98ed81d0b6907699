from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    seed_test,
)
from support.toys import Coin, Relay, WordPair

from llm_marl_envs import make
from llm_marl_envs.core.outcome import gains
from llm_marl_envs.core.records import episode_to_dict
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.measure.runner import Plan, evaluate_team
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy
from llm_marl_envs.wrappers import GymSeat, Partners


def solve(env: WordPair) -> dict[str, str]:
    return dict(zip(env.possible_agents, env.task.data["words"], strict=True))


# PettingZoo expects arrays, and sends an option that nobody knows.
text_warnings = pytest.mark.filterwarnings("ignore:.*(unknown reset options|NumPy array|probably)")


@text_warnings
def test_pettingzoo_accepts_the_parallel_form() -> None:
    parallel_api_test(WordPair(), num_cycles=50)
    parallel_seed_test(WordPair)


@text_warnings
def test_pettingzoo_accepts_the_aec_form() -> None:
    api_test(Relay(rounds=2), num_cycles=50)
    seed_test(Relay)


def test_a_solved_episode_pays_and_ends(word_pair: WordPair) -> None:
    word_pair.reset(seed=0)
    _, rewards, terminations, truncations, infos = word_pair.step(solve(word_pair))
    assert rewards == {"left_0": 1.0, "right_0": 1.0}
    assert terminations == {"left_0": True, "right_0": True}
    assert truncations == {"left_0": False, "right_0": False}
    assert infos["left_0"] == {
        "task_id": word_pair.task.id,
        "turn": 1,
        "action_truncated": False,
        "reward_terms": {"words": 1.0},
        "success": True,
        "said": True,
    }
    assert word_pair.agents == []


def test_chance_is_a_function_of_the_reset_seed_alone(word_pair: WordPair) -> None:
    def dealt(seed: int | None, options: Any = None) -> float:
        word_pair.reset(seed=seed, options=options)
        return word_pair.chance.random()

    assert dealt(3) == dealt(3, {"task": 0}) == dealt(3, {"task": 5})
    unseeded = [dealt(None), dealt(None)]
    assert len({dealt(3), dealt(4), *unseeded}) == 4
    dealt(3)
    word_pair.redraw(9)
    drawn = word_pair.chance.random()
    dealt(4)
    word_pair.redraw(9)
    assert word_pair.chance.random() == drawn != dealt(3)


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3), np.array(3)], ids=repr)
def test_seeds_of_numpy_are_as_int(seed: Any) -> None:
    """In every form of an environment, in episodes that are played, and in evaluations."""
    partners = {"player_1": RandomPolicy()}
    for make_one in (
        Coin,
        Relay,
        lambda: make("kuhn_poker-v1", pioneer_observer=True),
        lambda: make("collab_maze-v0", single_seat=True),
        lambda: Partners(make("matrix_game-v1"), partners),
    ):
        one: Any = make_one()
        two: Any = make_one()
        assert one.reset(seed=seed) == two.reset(seed=3)
        assert one.unwrapped.rng.getstate() == two.unwrapped.rng.getstate()
        assert one.unwrapped.task == two.unwrapped.task
    seat = GymSeat(Partners(make("matrix_game-v1"), partners))
    assert seat.reset(seed=seed)[0] == seat.reset(seed=3)[0]
    begun = Start(task=seed, seed=seed, sample_seed=seed)
    assert (type(begun.seed), type(begun.sample_seed)) == (int, int)
    team = {"left_0": RandomPolicy(), "right_0": RandomPolicy()}
    played, same = (
        rollout(VectorTextEnv([Coin()]), team, [start])[0]
        for start in (begun, Start(task=3, seed=3, sample_seed=3))
    )
    assert json.dumps(episode_to_dict(played)) == json.dumps(episode_to_dict(same))
    assert evaluate_team(Coin, team, n_tasks=2, seed=seed).seeds == (3,)


@pytest.mark.parametrize(
    "seed", [True, 1.0, "3", b"3", [3], np.float64(3), np.bool_(True)], ids=repr
)
def test_what_is_no_seed_is_named(seed: Any, relay: Relay) -> None:
    words = rf"^\w*={re.escape(repr(seed))}: expected a whole number, got {type(seed).__name__}$"
    for act in (
        lambda: Coin().reset(seed=seed),
        lambda: relay.reset(seed=seed),
        lambda: Start(seed=seed),
        lambda: Start(sample_seed=seed),
        lambda: Plan(seeds=(seed,)),
    ):
        with pytest.raises(TypeError, match=words):
            act()


def test_the_last_turn_ends_an_episode_that_is_not_solved(word_pair: WordPair) -> None:
    word_pair.reset(seed=0)
    first = word_pair.step({"left_0": "no", "right_0": "no"})
    assert not any(first[2].values())
    second = word_pair.step({"left_0": "no", "right_0": "no"})
    assert all(second[2].values())
    assert second[4]["left_0"]["success"] is False


def test_observations_extend_each_other(word_pair: WordPair) -> None:
    before, _ = word_pair.reset(seed=0)
    after = word_pair.step({"left_0": "no", "right_0": "yes"})[0]
    for agent, said in (("left_0", "no"), ("right_0", "yes")):
        assert after[agent].startswith(before[agent])
        assert after[agent].messages[: len(before[agent].messages)] == before[agent].messages
        assert [m.content for m in after[agent].messages[-2:]] == [said, "Again."]


@given(left=st.text(), right=st.text())
def test_any_text_is_an_action(left: str, right: str) -> None:
    env = WordPair()
    env.reset(seed=0)
    seen = env.step({"left_0": left, "right_0": right})[0]
    assert all(env.observation_space(agent).contains(text) for agent, text in seen.items())


def test_long_actions_are_cut_and_it_is_said() -> None:
    env = WordPair(max_action_chars=3)
    env.reset(seed=0)
    infos = env.step({"left_0": "abcd", "right_0": "abc"})[4]
    assert infos["left_0"]["action_truncated"] is True
    assert infos["right_0"]["action_truncated"] is False
    assert "You wrote:\nabc\n" in env.state()


@pytest.mark.parametrize(
    ("actions", "error", "words"),
    [
        ({"left_0": 3, "right_0": "a"}, TypeError, "action of left_0: expected str, got int"),
        ({"left_0": "a", "right_0": None}, TypeError, "right_0: expected str, got NoneType"),
        ({"left_0": "a", "right_0": b"a"}, TypeError, "expected str, got bytes"),
        ({"left_0": "a"}, ValueError, "expected one for each"),
        ({"left_0": "a", "right_0": "a", "x": "a"}, ValueError, "expected one for each"),
        (["a", "b"], TypeError, "expected a dict agent -> str, got list"),
        ("ab", TypeError, "got str"),
    ],
)
def test_bad_joint_actions_change_nothing(
    word_pair: WordPair, actions: Any, error: type[Exception], words: str
) -> None:
    word_pair.reset(seed=0)
    state = word_pair.state()
    with pytest.raises(error, match=words):
        word_pair.step(actions)
    assert word_pair.state() == state


def test_stepping_outside_of_an_episode(word_pair: WordPair, relay: Relay) -> None:
    with pytest.raises(RuntimeError, match=r"word_pair: no episode is running; call reset\(\)"):
        word_pair.step({"left_0": "", "right_0": ""})
    with pytest.raises(RuntimeError, match="no episode is running"):
        relay.step("")
    word_pair.reset(seed=0)
    word_pair.step(solve(word_pair))
    with pytest.raises(RuntimeError, match="no episode is running"):
        word_pair.step({})


@pytest.mark.parametrize(
    "wanted", [3, np.int64(3), "apple-fig", Task("own", "train", {"words": ("x", "y")})]
)
def test_the_task_can_be_chosen(word_pair: WordPair, wanted: Any) -> None:
    _, infos = word_pair.reset(seed=0, options={"task": wanted})
    expected = {"own": "own", "apple-fig": "apple-fig"}
    assert infos["left_0"]["task_id"] in (*expected, word_pair.source[3].id)
    assert word_pair.task is wanted or word_pair.task.id in ("apple-fig", word_pair.source[3].id)


@pytest.mark.parametrize("wanted", [-1, 30, True, 1.0, "nothing", {"id": 3}])
def test_an_unknown_task_is_refused(word_pair: WordPair, wanted: Any) -> None:
    with pytest.raises(ValueError, match="task"):
        word_pair.reset(seed=0, options={"task": wanted})


def test_unknown_options_warn(word_pair: WordPair) -> None:
    with pytest.warns(UserWarning, match=r"unknown reset options \['tsak'\]") as caught:
        word_pair.reset(seed=0, options={"tsak": 3})
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_resets_without_seed_go_on_with_the_same_generator() -> None:
    envs = [WordPair(), WordPair()]
    drawn = []
    for env in envs:
        env.reset(seed=5)
        drawn.append([env.task.id] + [env.reset()[1]["left_0"]["task_id"] for _ in range(9)])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 3


@pytest.mark.parametrize(
    ("bad", "words"),
    [({"turns": 0}, "turns=0"), ({"render_mode": "rgb_array"}, "render_mode='rgb_array'")],
)
def test_constructor_arguments_are_checked(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WordPair(**bad)


def test_render_modes(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for mode in ("ansi", "html", "human"):
        env = WordPair(render_mode=mode)
        env.reset(seed=0)
        env.step({"left_0": "<b>", "right_0": "\ud800 漢"})
        shown[mode] = env.render()
    assert shown["ansi"] is not None
    assert "## left_0" in shown["ansi"]
    assert shown["html"] is not None
    assert "&lt;b&gt;" in shown["html"]
    assert "<b>" not in shown["html"]
    assert shown["human"] is None
    assert "\\ud800" in capsys.readouterr().out  # printable even where the text is not
    with pytest.warns(UserWarning, match="render_mode"):
        assert WordPair().render() is None


def test_state_holds_all_that_agents_know(word_pair: WordPair) -> None:
    observations, _ = word_pair.reset(seed=0)
    state = word_pair.state()
    assert all(text in state for text in observations.values())
    assert word_pair.state_space.contains(state)


def test_an_aec_episode(relay: Relay) -> None:
    relay.reset(seed=0)
    word = relay.task.data["words"][0]
    for agent in ("runner_0", "runner_1"):
        assert relay.agent_selection == agent
        relay.step(word)
        assert relay.infos[agent]["success"] is None
    assert relay.observe("runner_2").endswith(f"You hear: {word}")
    assert relay.observe("runner_0").endswith(f"You wrote:\n{word}")  # it hears nothing
    relay.step(word)
    assert relay.rewards == {"runner_0": 1.0, "runner_1": 1.0, "runner_2": 1.0}
    assert all(relay.terminations.values())
    while relay.agents:
        assert relay.last()[1:3] == (1.0, True)
        relay.step(None)


def test_an_aec_episode_that_was_broken_off_leaves_nothing_behind(relay: Relay) -> None:
    relay.reset(seed=0)
    for _ in range(3):
        relay.step("x")
    relay.step(None)  # one of three dead agents is gone
    relay.reset(seed=0)
    assert relay.agents == relay.possible_agents
    for _ in range(3):
        relay.step("x")
    order = []
    while relay.agents:
        order.append(relay.agent_selection)
        relay.step(None)
    assert order == relay.possible_agents


def test_bad_aec_actions(relay: Relay) -> None:
    relay.reset(seed=0)
    for bad in (7, None):
        with pytest.raises(TypeError, match="action of runner_0: expected str"):
            relay.step(bad)  # type: ignore[arg-type]
    assert relay.agent_selection == "runner_0"


def test_unknown_bounds_say_so(relay: Relay) -> None:
    with pytest.raises(ValueError, match="relay knows no bounds for task 'apple-birch'"):
        relay.bounds(relay.source[0])


def test_gains() -> None:
    assert gains([]) == []
    assert gains([0.25, 0.25, 1.0]) == [0.25, 0.0, 0.75]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0, 1))
def test_gains_never_pay_for_waiting(scores: list[float], discount: float) -> None:
    """The best score reached at once returns at least what any slower way to it returns."""
    best = max(scores)
    slow = sum(discount**k * gain for k, gain in enumerate(gains(scores)))
    assert slow <= best + 1e-9
    assert sum(gains(scores)) == pytest.approx(scores[-1])


class Forgetful(WordPair):
    """Tells only one of its seats something."""

    told: Any = None

    def opening(self, task: Any) -> Any:
        return self.told


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        ({"left_0": []}, ValueError, r"Forgetful.opening, task .*: nothing for \['right_0'\]"),
        (None, TypeError, "expected a map seat -> messages, got NoneType"),
        ({"left_0": "hi", "right_0": []}, TypeError, "a list of messages for left_0, got 'hi'"),
        ({"left_0": [], "right_0": ["hi"]}, TypeError, "a list of messages for right_0"),
        ({"left_0": [], "right_0": None}, TypeError, "a list of messages for right_0, got None"),
    ],
)
def test_an_opening_that_forgets_a_seat_is_named(
    told: Any, error: type[Exception], words: str
) -> None:
    env = Forgetful()
    env.told = told
    with pytest.raises(error, match=words):
        env.reset(seed=0)
