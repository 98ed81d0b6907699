"""Two seats at one task: who is shown what, who is paid what, and when."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pettingzoo.test import api_test
from support.toys import BareParallel, WordPair

from llm_marl_envs import make
from llm_marl_envs.core.environment import Bounds, Outcome, TextParallelEnv
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.records import Episode, Request, read_jsonl, write_jsonl
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.testing import check_text_env
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy, Team
from llm_marl_envs.wrappers import PioneerObserver, SingleSeat

PIONEER, OBSERVER = SEATS = ("pioneer_0", "observer_0")
IDS = ("coop_coding-v0", "debate-v0", "matrix_game-v1")


class Sums(TextParallelEnv):
    """One seat is asked for a sum, and told a number that is drawn; a right answer pays `worth`."""

    metadata: ClassVar[dict[str, Any]] = {"name": "sums", "render_modes": ["ansi"]}
    reward_range = (0.0, 3.0)

    def __init__(self, worth: float = 1.0) -> None:
        tasks = [Task(f"{n}+2", "train", {"sum": n + 2}) for n in (40, 50)]
        super().__init__(
            agents=["solver_0"],
            source=ListSource(tasks, "train"),
            max_turns=1,
            max_action_chars=200,
            render_mode=None,
        )
        self.worth = worth

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        drawn = self.rng.randrange(10**9)
        return {"solver_0": (Message("user", f"What is {task.id}? Your number: {drawn}."),)}

    def bounds(self, task: Task) -> Bounds:
        return Bounds(random=0.2, solo=1.0, team=1.0)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        right = joint_action["solver_0"] == str(self.task.data["sum"])
        return Outcome(reward_terms={"solver_0": {"right": self.worth * right}}, success=right)


def play(env: Any, pioneer: Sequence[str], observer: Sequence[str], **start: Any) -> Episode:
    """An episode in which the seats say these texts, in order."""
    texts = {PIONEER: pioneer, OBSERVER: observer}
    script = ScriptedPolicy(lambda request: texts[request.agent][request.turn])
    begun = Start(**{"task": 0, "seed": 3, **start})
    return rollout(VectorTextEnv([env]), dict.fromkeys(SEATS, script), [begun])[0]


def agreed(env: Any) -> dict[str, ScriptedPolicy]:
    """Experts who follow a convention that solves the task."""

    def script(request: Request) -> str:
        task = env.unwrapped.source.find(request.task_id)
        experts = experts_of(env)
        convention = (*experts.conventions(task), "")[0]
        return experts.reply(task, request.agent, convention, request.messages)

    return dict.fromkeys(SEATS, ScriptedPolicy(script))


@pytest.mark.filterwarnings("ignore")  # PettingZoo: no Box space, an unknown reset option
@pytest.mark.parametrize("env_id", IDS[1:])
def test_contract(env_id: str):
    def fresh(**more: Any) -> Any:
        return make(env_id, pioneer_observer=True, **more)

    exact = None if env_id == "matrix_game-v1" else 1.0
    check_text_env(fresh, solution=agreed, solution_return=exact, seeds=(0,))
    api_test(fresh(), num_cycles=20)


@pytest.mark.parametrize("env_id", IDS)
def test_a_written_transcript_replays(env_id: str, tmp_path: Path):
    envs = VectorTextEnv([make(env_id, pioneer_observer=True) for _ in range(2)])
    teams: tuple[Team, ...] = (agreed(envs.envs[0]), dict.fromkeys(SEATS, RandomPolicy()))
    for team in teams:
        episodes = rollout(envs, team, [Start(task=0, seed=i, sample_seed=i) for i in range(3)])
        write_jsonl(tmp_path / "episodes.jsonl", episodes)
        for episode in read_jsonl(tmp_path / "episodes.jsonl"):
            again = replay(episode)
            assert [t.messages for t in again.turns] == [t.messages for t in episode.turns]
            assert [t.reward for t in again.turns] == [t.reward for t in episode.turns]


def test_the_observer_is_shown_the_task_and_the_pioneer_s_answer_and_not_the_reverse():
    episode = play(PioneerObserver(Sums()), ["<think>hm</think>It is\n42\u202e"], ["fifty"])
    first, second = episode.turns
    assert (first.agent, second.agent) == SEATS
    (asked,) = first.messages
    assert asked.content.startswith("What is 40+2?")
    assert second.messages == (
        asked,  # with the number that was drawn
        Message(
            "user",
            "pioneer_0 was given the same task.\npioneer_0 says:\n> It is\n> 42\n"
            "Now give your own answer.",
        ),
    )
    env = PioneerObserver(Sums())
    env.reset(seed=3, options={"task": 0})
    env.step("42")
    env.step("fifty")
    assert "fifty" not in str(env.chat(PIONEER))


@pytest.mark.parametrize(
    ("pioneer", "observer", "own", "success"),
    [
        ("42", "7", (3.0, 0.0), False),
        ("7", "42", (0.0, 3.0), True),
        ("42", "42", (3.0, 3.0), True),
        ("7", "7", (0.0, 0.0), False),
    ],
)
def test_each_earns_its_own_and_the_team_s_mean_is_of_both(
    pioneer: str, observer: str, own: tuple[float, float], success: bool
):
    episode = play(PioneerObserver(Sums(worth=3.0)), [pioneer], [observer])
    assert tuple(turn.reward for turn in episode.turns) == own
    assert [turn.reward_terms for turn in episode.turns] == [{"right": reward} for reward in own]
    # Half of CORY's sum, the same for both seats.
    assert [turn.team_reward for turn in episode.turns] == [sum(own) / 2] * 2
    assert episode.success is success
    env = PioneerObserver(Sums(worth=3.0))
    env.reset(seed=0, options={"task": 0})
    env.step(pioneer)
    assert env.infos[OBSERVER]["success"] is None
    assert set(env.rewards.values()) == {0.0}
    env.step(observer)
    assert [env.infos[seat]["solved"] for seat in SEATS] == [value > 0 for value in own]


def test_several_turns_are_played_to_the_end_one_seat_after_the_other():
    """Task 0 wants "apple" and "birch", half a point each; right at once is the end."""
    env = PioneerObserver(WordPair())
    episode = play(env, ["apple", "birch"], ["apple", "no", "no", "birch"])
    assert [turn.agent for turn in episode.turns] == [PIONEER] * 2 + [OBSERVER] * 4
    assert [turn.reward for turn in episode.turns] == [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    shown = [turn.messages[-1].content for turn in episode.turns]
    alone = SingleSeat(WordPair())
    alone.reset(seed=3, options={"task": 0})
    for part, heard in zip(["apple", "no", "no", "birch"], shown[2:], strict=True):
        if heard != shown[2]:
            assert heard == alone.chat("writer_0")[-1].content
        alone.step({"writer_0": part})
    assert "pioneer_0 says:\n> apple\npioneer_0 says:\n> birch\n" in shown[2]
    assert "Again." not in shown[2]


def test_both_are_told_the_same_draw_and_each_episode_its_own():
    env = PioneerObserver(Sums())
    openings = []
    for seed in (1, 2, None, None, 1):
        env.reset(seed=seed, options={"task": 0})
        pioneer, observer = (env.chat(seat)[0].content for seat in SEATS)
        assert pioneer == observer
        openings.append(pioneer)
    assert len(set(openings)) == 4
    assert openings[0] == openings[4]


def test_copies_step_environments_of_their_own():
    env = PioneerObserver(Sums())
    other = copy.copy(env)
    env.reset(seed=1, options={"task": 0})
    other.reset(seed=1, options={"task": 1})
    env.step("42")
    assert other.agent_selection == PIONEER
    assert len({id(inner) for shell in (env, other) for inner in shell.inner.values()}) == 4


def test_experts_of_the_observer_read_their_own_task_alone():
    """With several rounds they listen, and what the pioneer wrote is no round of theirs."""
    env = make("debate-v0", pioneer_observer=True, rounds=3)
    noise = random.Random(0)
    expert = agreed(env)[OBSERVER]
    pioneer = ScriptedPolicy(lambda request: f"[w{noise.random()}]\nAnswer: none")
    (episode,) = rollout(
        VectorTextEnv([env]), {PIONEER: pioneer, OBSERVER: expert}, [Start(task=0)]
    )
    assert episode.success
    assert episode.trajectory(PIONEER)[-1].reward == 0.0


def test_bounds_are_of_the_mean_of_both():
    env = PioneerObserver(Sums())
    assert env.bounds(env.source[0]) == Bounds(random=0.2, solo=0.6, team=1.0)


def test_make_notes_how_it_was_made_and_refuses_what_is_no_flag():
    env = make("debate-v0", single_seat=True, pioneer_observer=True, n_agents=3)
    assert env.env_kwargs == {"n_agents": 3, "single_seat": True, "pioneer_observer": True}
    assert env.possible_agents == [*SEATS]
    assert make("debate-v0", pioneer_observer=True, api="parallel").possible_agents == [*SEATS]
    with pytest.raises(TypeError, match="pioneer_observer='no': expected true or false"):
        make("debate-v0", pioneer_observer="no")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="expected an environment of this library"):
        PioneerObserver(BareParallel())  # pyright: ignore[reportArgumentType]
