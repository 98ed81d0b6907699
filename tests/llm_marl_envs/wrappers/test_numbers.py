"""Text as numbers: menus, masks, token ids and the codecs behind them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from support.models import tiny_tokenizer
from support.toys import BareParallel, Relay, SameCase, WordPair

from llm_marl_envs import make
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.wrappers import (
    Bytes,
    Choose,
    ExpertMenu,
    GymSeat,
    Partners,
    SingleSeat,
    Tokenize,
    Tokens,
    Words,
)


def words(env: Any, agent: str) -> dict[int, str]:
    """A menu of one's own: the right word, and a wrong one."""
    word = dict(zip(env.possible_agents, env.task.data["words"], strict=True))[agent]
    return {0: "wrong", 3: word}


# -- choices ---------------------------------------------------------------------------------------
def test_choices_of_experts_earn_what_the_experts_earn():
    env = Choose(SameCase())
    assert env.action_space("left_0").n == 2
    env.reset(seed=0, options={"task": "apple-birch"})
    _, rewards, *_ = env.step({"left_0": 1, "right_0": np.int64(1)})
    assert rewards == {"left_0": 1.0, "right_0": 1.0}
    assert env.unwrapped.chat("left_0")[-1].content == "APPLE"
    env.reset(seed=0, options={"task": "apple-birch"})
    assert env.step({"left_0": 0, "right_0": 1})[1] == {"left_0": 0.0, "right_0": 0.0}


def test_masks_follow_the_task():
    env = Choose(SameCase(), mask="info")
    _, infos = env.reset(options={"task": "apple-fig"})  # "fig" has one convention
    assert {agent: info["action_mask"].tolist() for agent, info in infos.items()} == {
        "left_0": [1, 0],
        "right_0": [1, 0],
    }
    env.step({"left_0": 1, "right_0": 0})  # without a message: silence
    assert env.unwrapped.chat("left_0")[-1].content == ""
    _, infos = env.reset(options={"task": "apple-elder"})
    assert infos["left_0"]["action_mask"].tolist() == [1, 1]


def test_a_menu_of_ones_own_and_masks_in_observations():
    env = Choose(WordPair(), k=4, menu=words, codec=Words(16), mask="observation")
    observations, infos = env.reset(seed=0, options={"task": "elder-daisy"})
    assert env.observation_space("left_0").contains(observations["left_0"])
    assert observations["left_0"]["action_mask"].tolist() == [1, 0, 0, 1]
    assert infos["left_0"] == {"success": 0.0, "turn": 0.0}
    _, rewards, _, _, infos = env.step({"left_0": 3, "right_0": 0})
    assert rewards == {"left_0": 0.5, "right_0": 0.5}
    assert infos["left_0"] == {"success": 0.0, "turn": 1.0}
    assert env.step({"left_0": 0, "right_0": 3})[4]["left_0"] == {"success": 1.0, "turn": 2.0}


def test_turn_based_environments_ask_only_the_seat_that_acts():
    asked: list[str] = []

    def menu(env: Any, agent: str) -> dict[int, str]:
        asked.append(agent)
        return {0: "pass", 1: env.task.data["words"][0]}

    env = Choose(Relay(), k=2, menu=menu, mask="info")
    env.reset(seed=0)
    assert env.action_mask("runner_2").tolist() == [1, 1]  # not its turn, so not asked
    for _ in env.possible_agents:
        env.step(1)
    assert asked == ["runner_0", "runner_1", "runner_2"]
    assert env.rewards["runner_0"] == 1.0


def test_masks_of_a_gymnasium_seat():
    env = GymSeat(Choose(Partners(SameCase(), {"right_0": "expert"})))
    env.reset(options={"task": "apple-fig"})
    assert env.action_masks().tolist() == [True, False]
    assert env.action_masks().dtype == bool
    turns = GymSeat(Choose(Partners(Relay(), {"runner_1": "expert", "runner_2": "expert"})))
    turns.reset(seed=0)
    assert turns.action_masks().tolist() == [True]
    with pytest.raises(AttributeError, match="put `Choose` inside"):
        GymSeat(make("debate-v0", single_seat=True)).action_masks()


@pytest.mark.parametrize(
    ("menu", "message"),
    [({}, "is empty; expected at least one message"), ({0: "a", 5: "b"}, r"has the numbers \[5\]")],
    ids=["empty", "too long"],
)
def test_menus_that_cannot_be(menu: dict[int, str], message: str):
    env = Choose(WordPair(), k=2, menu=lambda env, agent: menu)
    env.reset(options={"task": "fig-apple"})
    with pytest.raises(ValueError, match=f"the menu of left_0, task 'fig-apple', {message}"):
        env.step({"left_0": 0, "right_0": 0})


@pytest.mark.parametrize("menu", [["a", "b"], {"a": "b"}, {0: None}, "ab"], ids=repr)
def test_menus_of_a_wrong_kind(menu: Any):
    env = Choose(WordPair(), k=2, menu=lambda env, agent: menu)
    env.reset(options={"task": "fig-apple"})
    with pytest.raises(TypeError, match=r"left_0, task 'fig-apple': expected a dict number -> mes"):
        env.step({"left_0": 0, "right_0": 0})


@pytest.mark.parametrize("mask", ["info", "observation"])
def test_a_task_that_leaves_nothing_to_choose(mask: Any):
    """A mask without a legal action: trainers sample from it without an error."""
    env = Choose(SameCase(), menu=ExpertMenu(["shouted"]), mask=mask)
    with pytest.raises(ValueError, match=r"the menu of left_0, task 'apple-fig', is empty"):
        env.reset(options={"task": "apple-fig"})
    seat = GymSeat(Choose(Partners(SameCase(), {"right_0": "expert"}), menu=ExpertMenu(["no"])))
    seat.reset(options={"task": "apple-fig"})
    with pytest.raises(ValueError, match=r"the menu of left_0, task 'apple-fig', is empty"):
        seat.action_masks()


@pytest.mark.parametrize(
    ("action", "error"),
    [
        *((2, ValueError), (-1, ValueError), ("lower", TypeError), (0.5, TypeError)),
        *((None, TypeError), (True, TypeError), (np.array([0, 1]), TypeError)),
    ],
)
def test_choices_that_cannot_be(action: Any, error: type[Exception]):
    env = Choose(WordPair())
    env.reset(seed=0)
    with pytest.raises(error, match=r"Choose: action .*left_0: expected .*0 to 1"):
        env.step({"left_0": action, "right_0": 0})


@pytest.mark.parametrize("wrap", [Choose, Tokenize])
@pytest.mark.parametrize("actions", [3, "lower", [0, 0], None])
def test_what_is_no_joint_action(wrap: Any, actions: Any):
    env = wrap(WordPair())
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"actions: expected a dict agent -> action, got "):
        env.step(actions)


def test_seats_that_are_unknown():
    env = Choose(WordPair())
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"'x_0': expected one of \['left_0', 'right_0'\]"):
        env.action_mask("x_0")


def number_seat() -> Any:
    return Choose(Partners(SameCase(), {"right_0": "expert"}))


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (Choose, "Choose"),
        (partial(Choose, k=2, menu=words), "Choose"),
        (Tokenize, "Tokenize"),
        (lambda env: Partners(env, {"left_0": "expert"}), "Partners"),
    ],
    ids=["choose", "own menu", "tokenize", "partners"],
)
def test_numbers_where_texts_are_needed(wrap: Any, name: str):
    with pytest.raises(TypeError, match=rf"{name}: expected a text env.*Discrete\(2\); `Choose`"):
        wrap(Choose(SameCase()))
    with pytest.raises(TypeError, match=rf"{name}: expected a text env.*MultiDiscrete"):
        wrap(Tokenize(SameCase(), action_tokens=2))
    with pytest.raises(TypeError, match=f"{name}: expected a PettingZoo environment, got GymSeat"):
        wrap(GymSeat(number_seat()))


def test_numbers_where_an_episode_is_played():
    seats: Any = dict.fromkeys(("left_0", "right_0"), ScriptedPolicy(lambda request: "x"))
    with pytest.raises(TypeError, match=r"only text environments .* without `Choose` and `Token"):
        rollout(VectorTextEnv([Choose(SameCase())]), seats, [Start(seed=0)])
    with pytest.raises(TypeError, match=r"got NumbersParallel; wrappers go around single_seat"):
        SingleSeat(Choose(SameCase()))


@pytest.mark.parametrize("action", [3, 0.5, np.int64(1), [1, 2], np.zeros(2)])
def test_numbers_for_what_takes_texts_name_the_wrappers(action: Any):
    seats = {
        "one learner": GymSeat(Partners(SameCase(), {"right_0": "expert"})),
        "one agent": GymSeat(SingleSeat(SameCase())),
        "turn by turn": GymSeat(Partners(Relay(), {"runner_1": "expert", "runner_2": "expert"})),
    }
    for env in seats.values():
        env.reset(seed=0)
        with pytest.raises(TypeError, match=rf"{env.seat}: expected str.*`Choose` or `Tokenize`"):
            env.step(action)
    several = Partners(Relay(), {"runner_1": "expert"})
    several.reset(seed=0)
    with pytest.raises(TypeError, match=r"runner_0: expected str.*`Choose` or `Tokenize`"):
        several.step(action)


@pytest.mark.parametrize("wrapper", [Choose, Tokenize])
def test_joint_actions_that_cannot_be(wrapper: Any):
    env, name = wrapper(WordPair()), wrapper.__name__
    with pytest.raises(RuntimeError, match=f"{name}: no episode is running"):
        env.step({"left_0": 0, "right_0": 0})
    env.reset(seed=0)
    for actions in ({}, {"left_0": 0}, {"left_0": 0, "right_0": 0, "nobody_0": 0}):
        with pytest.raises(ValueError, match=r"actions .*for each of \['left_0', 'right_0'\]"):
            env.step(actions)


def test_arguments_of_choose():
    with pytest.raises(TypeError, match="expected k"):
        Choose(WordPair(), menu=words)
    with pytest.raises(ValueError, match="k=0: expected"):
        Choose(WordPair(), k=0)
    with pytest.raises(ValueError, match=r"mask='obs': expected None, 'info' or 'observation'"):
        Choose(WordPair(), mask="obs")  # pyright: ignore[reportArgumentType]
    for wrap in (partial(Choose, k=2, menu=words), Choose):
        with pytest.raises(TypeError, match="Choose: expected a PettingZoo environment, got int"):
            wrap(3)
    with pytest.raises(TypeError, match="Tokenize: expected a PettingZoo environment, got int"):
        Tokenize(3)
    with pytest.raises(TypeError, match=r"got BareParallel\); give k= and menu="):
        Choose(BareParallel())
    assert ExpertMenu.of(Relay()).conventions == ("",)


# -- tokens ----------------------------------------------------------------------------------------
def test_bytes_there_and_back():
    codec = Bytes(6)
    assert codec.encode("ab\N{SNOWMAN}").tolist() == [98, 99, 227, 153, 132, 0]
    assert codec.decode(codec.encode("ab\N{SNOWMAN}")) == "ab\N{SNOWMAN}"
    assert codec.encode("the end is kept").tolist() == codec.encode("s kept").tolist()
    assert codec.decode([98, 0, 99]) == "a"
    assert codec.decode([230, 98]) == "\N{REPLACEMENT CHARACTER}a"
    assert codec.space.contains(codec.encode("\ud800"))  # half a surrogate pair


def test_word_counts():
    array = Words(8).encode("a b a")
    assert array.dtype == np.float32
    assert sorted(array[array > 0].tolist()) == pytest.approx([np.log(2), np.log(3)])


def test_tokens_of_a_tokenizer():
    tokenizer = tiny_tokenizer()
    codec = Tokens(tokenizer, 8)
    array = codec.encode("Say your word.")
    ids = tokenizer.encode("Say your word.")
    assert codec.space.contains(array)
    assert array.tolist() == ids + [tokenizer.pad_token_id] * (8 - len(ids))
    assert codec.decode(array) == "Say your word."
    assert codec.decode([ids[0], tokenizer.eos_token_id, ids[1]]) == tokenizer.decode(ids[:1])
    tokenizer.pad_token = None
    with pytest.raises(ValueError, match="no padding token"):
        Tokens(tokenizer, 5)


def test_token_ids_reach_the_environment_as_text():
    env = Tokenize(WordPair(), observation_tokens=20, action_tokens=6)
    observations, _ = env.reset(seed=0, options={"task": "apple-fig"})
    assert Bytes(20).decode(observations["right_0"]).endswith("Your word: fig")
    right = Bytes(6).encode("fig")
    _, rewards, *_ = env.step({"left_0": Bytes(6).encode("apple"), "right_0": right})
    assert rewards == {"left_0": 1.0, "right_0": 1.0}
    assert env.state_space.contains(env.state())
    assert env.state().shape == (40,)


def test_a_vocabulary_of_pieces():
    env = Tokenize(WordPair(), action_tokens=2, vocabulary=["", "fi", "g"])
    env.reset(seed=0, options={"task": "fig-apple"})
    assert env.step({"left_0": [1, 2], "right_0": [0, 0]})[1]["left_0"] == 0.5
    with pytest.raises(ValueError, match="vocabulary is empty"):
        Tokenize(WordPair(), vocabulary=[])
    tokens = Tokenize(WordPair(), codec=partial(Tokens, tiny_tokenizer()))
    assert tokens.action_space("left_0").nvec[0] == len(tiny_tokenizer())


@pytest.mark.parametrize(
    ("action", "error"),
    [
        *(
            ("abc", TypeError),
            ([0.5, 1.0], TypeError),
            (None, TypeError),
            ([[1], [2, 3]], TypeError),
        ),
        *(([1], ValueError), ([1, 257], ValueError)),
    ],
    ids=["text", "fractions", "nothing", "ragged", "too few", "out of range"],
)
def test_token_ids_that_cannot_be(action: Any, error: type[Exception]):
    env = Tokenize(WordPair(), action_tokens=2)
    env.reset(seed=0)
    with pytest.raises(error, match="Tokenize: action of left_0: expected 2"):
        env.step({"left_0": action, "right_0": [0, 0]})


@pytest.mark.parametrize("codec", [Bytes, Words])
def test_lengths_below_one(codec: Any):
    with pytest.raises(ValueError, match="length=0: expected at least 1"):
        codec(0)
