"""One agent behind all seats: it sees what they see, acts in their order, is paid their mean."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pettingzoo.test import parallel_api_test
from support.toys import BareParallel, Relay, WordPair

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message, render_messages
from llm_marl_envs.measure import cooperation_index, evaluate_team
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.testing import check_text_env
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.wrappers import SingleSeat

WRITER = "writer_0"
IDS = ("coop_coding-v0", "coop_writing_tldr-v0", "debate-v0", "solve_critique_refine-v0")


def play(env: Any, *parts: str, task: int = 0) -> Any:
    """An episode in which the writer says these parts, in order."""
    script = ScriptedPolicy(lambda request: parts[request.turn])
    return rollout(VectorTextEnv([env]), {WRITER: script}, [Start(task=task, seed=3)])[0]


def agreeing(env: Any) -> ScriptedPolicy:
    """Experts that follow the first convention of each task: of all seats the same one."""

    def script(request: Any) -> str:
        task = env.source.find(request.task_id)
        convention = (*experts_of(env).conventions(task), "")[0]
        return experts_of(env).reply(task, request.agent, convention, request.messages)

    return ScriptedPolicy(script)


@pytest.mark.filterwarnings("ignore:.*unknown reset options")  # PettingZoo's test sends one
@pytest.mark.parametrize("env_id", IDS)
def test_contract(env_id: str):
    check_text_env(lambda: make(env_id, single_seat=True), seeds=(0,))
    parallel_api_test(make(env_id, single_seat=True), num_cycles=12)


@pytest.mark.parametrize("env_id", IDS)
def test_experts_earn_what_they_earn_as_a_team(env_id: str):
    single, team = make(env_id, single_seat=True), make(env_id)
    alone = evaluate_team(single, {WRITER: agreeing(single)}, n_tasks=5)
    together = evaluate_team(team, dict.fromkeys(team.possible_agents, agreeing(team)), n_tasks=5)
    assert alone.success == 1.0
    assert alone.mean_return == pytest.approx(together.mean_return)
    assert alone.success == together.success
    index, expected = (
        cooperation_index(env, result.episodes)
        for env, result in ((single, alone), (team, together))
    )
    assert (index is None) == (expected is None)
    if index is not None and expected is not None:
        assert index.mean == pytest.approx(expected.mean)


def test_the_writer_is_told_everything_and_writes_one_part_after_the_other():
    """Task 0 of `WordPair` wants "apple" on the left and "birch" on the right; two turns."""
    env = SingleSeat(WordPair())
    episode = play(env, "apple", "no", "fig", "birch")
    chats = [turn.messages for turn in episode.turns]
    openings = WordPair().opening(env.source[0])
    for seat, messages in openings.items():
        assert f"=== {seat} ===\n{render_messages(messages)}" in chats[0][0].content
    asked = [chat[-1].content for chat in chats]
    assert asked[0].endswith("Now write the part of left_0.")
    assert asked[1] == "Now write the part of right_0."
    # What the seats are told after their first turn, each when it is its turn again.
    inner = WordPair()
    inner.reset(seed=3, options={"task": 0})
    inner.step({"left_0": "apple", "right_0": "no"})
    for text, seat in zip(asked[2:], inner.possible_agents, strict=True):
        assert text == f"{inner.chat(seat)[-1].content}\n\nNow write the part of {seat}."


def test_rewards_are_the_mean_of_the_seats_and_come_with_the_joint_action():
    """Each right word is worth half: one after the first joint action, one after the second."""
    episode = play(SingleSeat(WordPair()), "apple", "no", "apple", "birch")
    assert [turn.reward for turn in episode.turns] == [0.0, 0.5, 0.0, 0.5]
    assert [sum(turn.reward_terms.values()) for turn in episode.turns] == [0.0, 0.5, 0.0, 0.5]
    assert episode.success
    assert len(play(SingleSeat(WordPair()), "apple", "birch").turns) == 2  # ends early


def test_turn_based_environments_are_played_in_their_order():
    inner = Relay()
    inner.reset(seed=3, options={"task": 0})
    order, paid = [], []
    while inner.agents and not any(inner.terminations.values()):
        order.append(inner.agent_selection)
        inner.step("word")
        paid.append(sum(inner.rewards.values()) / len(inner.possible_agents))
    episode = play(SingleSeat(Relay()), *["word"] * len(order))
    asked = [turn.messages[-1].content for turn in episode.turns]
    assert [text.rpartition("part of ")[2].rstrip(".") for text in asked] == order
    assert [turn.reward for turn in episode.turns] == pytest.approx(paid)
    taken = [[info["turn"] for info in turn.info["seats"].values()] for turn in episode.turns]
    assert taken == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]  # of each time, not of the end


@pytest.mark.full
def test_demonstrations_draw_each_part_s_convention_alone():
    """With two seats and two conventions, half of the programs do not fit together."""
    env = make("coop_coding-v0", single_seat=True)
    tasks = [env.source[index] for index in range(len(env.source))]
    pairs = demonstrations(env, 400, seed=1)
    matches = []
    for (_, helper), (shown, main) in zip(pairs[::2], pairs[1::2], strict=True):
        assert shown[-2].content == helper
        task = next(task for task in tasks if env.opening(task)[WRITER][0] == shown[0])
        convention_of = experts_of(env.inner).read
        if len(experts_of(env.inner).conventions(task)) == 2:
            own = convention_of(task, "helper_0", helper)
            matches.append(own == convention_of(task, "main_0", main))
        if len(matches) == 40:
            break
    assert 0.25 < sum(matches) / len(matches) < 0.75


def test_copies_step_environments_of_their_own():
    env = SingleSeat(WordPair())
    other = copy.copy(env)
    env.reset(seed=1, options={"task": 0})
    other.reset(seed=1, options={"task": 1})
    env.step({WRITER: "red"})
    assert other.inner.task.id != env.inner.task.id
    assert len(other.chat(WRITER)) == 1


def test_a_stranger_s_environment_is_refused():
    with pytest.raises(
        TypeError, match="expected an environment of this library, got BareParallel"
    ):
        SingleSeat(BareParallel())  # pyright: ignore[reportArgumentType]


def test_make_notes_how_it_was_made():
    env = make("debate-v0", single_seat=True, n_agents=3)
    assert env.env_kwargs == {"n_agents": 3, "single_seat": True}
    assert env.spec.id == "debate-v0"
    assert env.metadata["name"] == "single_seat"
    turned = make("coop_coding-v0", single_seat=True, api="aec")
    assert turned.env_kwargs == {"single_seat": True, "api": "aec"}


class Dicey(WordPair):
    """What is told is drawn; so is nothing else."""

    def opening(self, task: Any) -> Any:
        drawn = self.rng.randrange(10**9)
        openings = super().opening(task)
        return {
            seat: [*messages, Message("user", f"Number {drawn}.")]
            for seat, messages in openings.items()
        }


def test_the_writer_is_told_the_opening_of_this_episode():
    env = SingleSeat(Dicey())
    for seed in (1, 2, 1):
        env.reset(seed=seed, options={"task": 0})
        (message,) = env.chat(WRITER)
        inner = env.inner.chat("left_0")[-1].content
        assert inner.startswith("Number")
        assert message.content.count(inner) == 2  # of both seats
    check_text_env(lambda: SingleSeat(Dicey()), seeds=(0, 1))


def test_what_is_told_is_told_once_however_many_turns():
    """Six turns of the writer are three of each debater: rounds 2 and 3 bring news once each."""
    env = make("debate-v0", single_seat=True, rounds=3)
    episode = play(env, *[f"statement {i}\nAnswer: a{i}" for i in range(9)])
    chat = "\n".join(m.content for m in episode.turns[-1].messages if m.role == "user")
    assert chat.count("statement 0") == 2  # each of the two others heard it, once
    assert chat.count("statement 4") == 2
    assert chat.count("Now write the part of debater_0.") == 3


def test_limits_and_bounds_are_the_team_s():
    inner = make("debate-v0", rounds=3)
    env = make("debate-v0", rounds=3, single_seat=True)
    assert (env.max_turns, env.max_action_chars) == (9, inner.max_action_chars)
    assert (env.reward_range, env.blocking) == (inner.reward_range, inner.blocking)
    coding = make("coop_coding-v0", single_seat=True)
    assert (coding.blocking, coding.reward_range) == (
        coding.inner.blocking,
        coding.inner.reward_range,
    )


def test_the_seed_reaches_the_environment_inside():
    openings = set()
    for seed in range(4):
        env = SingleSeat(Dicey())
        env.reset(seed=seed, options={"task": 0})
        openings.add(env.inner.chat("left_0")[-1].content)
    assert len(openings) == 4


@pytest.mark.parametrize(
    ("env_id", "parts", "readable"),
    [
        (
            "debate-v0",
            ["no"] * 3 + ["Answer: a", "no", "Answer: b"],
            [None] * 3 + [True, False, True],
        ),
        ("coop_coding-v0", ["def aux(a, b):\n    return a", "no"], [None, False]),
        ("coop_writing_tldr-v0", ["one", "two"], [None, None]),
    ],
)
def test_whether_parts_were_readable_is_said(env_id: str, parts: list[str], readable: list[Any]):
    """In simultaneous environments of the whole joint action, with its last part."""
    episode = play(make(env_id, single_seat=True), *parts)
    assert [turn.info.get("readable") for turn in episode.turns] == readable


def test_closing_closes_the_environment_inside():
    closed = []

    class Closing(WordPair):
        def close(self) -> None:
            closed.append(True)

    SingleSeat(Closing()).close()
    assert closed == [True]


def test_single_seat_is_true_or_false():
    with pytest.raises(TypeError, match="single_seat='no': expected true or false"):
        make("debate-v0", single_seat="no")  # pyright: ignore[reportArgumentType]
