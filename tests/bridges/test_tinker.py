"""Seats of one episode as the cookbook's environments, in its own rollouts without the service."""

from __future__ import annotations

import pytest

pytest.importorskip("tinker_cookbook", reason="make test-bridges installs it")

import asyncio
import importlib
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from support.models import tiny_tokenizer
from support.toys import Relay, WordPair

from llm_marl_envs import make, register
from llm_marl_envs.core.environment import TextParallelEnv, described
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task
from trainers.bridges.tinker import TeamDatasetBuilder, TeamGroup

completers: Any = importlib.import_module("tinker_cookbook.completers")
data_processing: Any = importlib.import_module("tinker_cookbook.rl.data_processing")
renderers: Any = importlib.import_module("tinker_cookbook.renderers")
rollouts: Any = importlib.import_module("tinker_cookbook.rl.rollouts")
strategies: Any = importlib.import_module("tinker_cookbook.rl.rollout_strategy")
tokenizers: Any = importlib.import_module("tinker_cookbook.tokenizer_utils")

TASK = "apple-birch"
LONG = 400


class Heard(TextParallelEnv):
    """Pays each seat by all that was said so far, and each seat another share of it."""

    metadata: ClassVar[dict[str, Any]] = described("heard")
    reward_range = (0.0, 1.0)

    def __init__(self, turns: int = 2, render_mode: str | None = None) -> None:
        super().__init__(
            agents=["a_0", "b_0"],
            source=ListSource([Task("train/0", "train", {})], "train"),
            max_turns=turns,
            max_action_chars=LONG,
            render_mode=render_mode,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        self.heard = ""
        return dict.fromkeys(self.possible_agents, (Message("user", "Speak."),))

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        self.heard += "|".join(joint_action.values())
        worth = sum(place * ord(c) for place, c in enumerate(self.heard, 1)) % 997 / 997
        return Outcome(
            reward_terms={"a_0": {"heard": worth}, "b_0": {"heard": worth / 2}},
            feedback=dict.fromkeys(joint_action, f"Heard: {self.heard}"),
        )


class FirstDecides(Relay):
    """The first runner ends the episode, and all are paid."""

    def play_one(self, agent: str, action: str) -> Outcome:
        return Outcome(
            reward_terms={one: {"word": 0.5} for one in self.agents}, ended=True, success=True
        )


class Breaks(WordPair):
    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        raise OSError("the disk is full")


@pytest.fixture(autouse=True)
def toys(own_registry: None) -> None:
    for env_id, made in (("pair-v0", WordPair), ("heard-v0", Heard), ("breaks-v0", Breaks)):
        register(env_id, made)
    register("relay-v0", Relay, api="aec")
    register("decides-v0", FirstDecides, api="aec")


def renderer(name: str = "qwen3_disable_thinking") -> Any:
    return renderers.get_renderer(name, tiny_tokenizer(), model_name="tiny")


class Says(completers.TokenCompleter):
    """Samples what a function of the prompt says; `prompts` are all that were asked."""

    def __init__(self, answer: Callable[[str], str | list[int]]) -> None:
        self.tokenizer, self.answer = tiny_tokenizer(), answer
        self.prompts: list[str] = []

    async def __call__(self, model_input: Any, stop: Any, **_: Any) -> Any:
        await asyncio.sleep(0)
        self.prompts.append(self.tokenizer.decode(model_input.to_ints()))
        said = self.answer(self.prompts[-1])
        ids = said
        if isinstance(said, str):
            end = stop if isinstance(stop[0], int) else self.tokenizer.encode(stop[0])
            ids = [*self.tokenizer.encode(said, add_special_tokens=False), *end]
        return completers.TokensWithLogprobs(tokens=ids, maybe_logprobs=[0.0] * len(ids))


def own_word(prompt: str) -> str:
    return prompt.split("Your word: ")[1].split("<|im_end|>")[0].split("\n")[0]


def group(env_id: str, task: str = TASK, **changes: Any) -> TeamGroup:
    return TeamGroup(env_id, task, **{"renderer": renderer(), "episodes": 1, **changes})


def rolled(one: TeamGroup, policy: Any, **changes: Any) -> Any:
    return asyncio.run(rollouts.do_group_rollout(one, policy, **changes))


@pytest.mark.parametrize("name", ["qwen3_disable_thinking", "role_colon"])
def test_seats_that_act_at_once(name: str):
    says = Says(own_word)
    found = rolled(group("pair-v0", episodes=3, renderer=renderer(name)), says)
    assert found.get_total_rewards() == [1.0] * 6
    assert [len(one.transitions) for one in found.trajectories_G] == [1] * 6
    assert len(set(says.prompts)) == 2
    assert found.trajectories_G[0].transitions[-1].metrics == {"success": 1.0}


def test_seats_that_act_in_turn():
    order: list[str] = []

    def word(prompt: str) -> str:
        order.append(prompt)
        return "cedar"

    found = rolled(group("relay-v0", "cedar-fig"), Says(word))
    env = make("relay-v0")
    env.reset(options={"task": "cedar-fig"})
    while env.agents:
        env.step("cedar" if not env.terminations[env.agent_selection] else None)
    assert found.get_total_rewards() == [1.0] * 3
    assert len(order) == 3


@pytest.mark.parametrize("seed", range(3))
def test_any_tokens_pay_what_their_texts_pay_in_process(seed: int):
    rng = random.Random(seed)

    def ids(prompt: str) -> list[int]:
        said = [rng.randrange(3, 290) for _ in range(12)]
        return [*said, 2] if rng.random() < 0.5 else said  # without an end: cut by the limit

    found = rolled(group("heard-v0", "train/0", episodes=3), Says(ids))
    read = renderer()
    for first in range(0, 6, 2):
        seats = found.trajectories_G[first : first + 2]
        env = Heard()
        env.reset()
        returns = {"a_0": 0.0, "b_0": 0.0}
        for turn in zip(*(seat.transitions for seat in seats), strict=True):
            texts = [read.parse_response(one.ac.tokens)[0]["content"] for one in turn]
            texts = [renderers.get_text_content({"role": "assistant", "content": t}) for t in texts]
            _, rewards, *_ = env.step(dict(zip(env.possible_agents, texts, strict=True)))
            returns = {agent: returns[agent] + rewards[agent] for agent in returns}
        assert [len(seat.transitions) for seat in seats] == [2, 2]
        assert found.get_total_rewards()[first : first + 2] == pytest.approx([*returns.values()])
    advantages = data_processing.compute_advantages([found])[0]
    assert advantages.abs().max() > 0.01  # episodes of a group differ


def test_unicode_arrives_and_comes_back():
    says = Says(lambda prompt: "grüß 好 🙂")
    rolled(group("heard-v0", "train/0"), says)
    assert "assistant\ngrüß 好 🙂<|im_end|>" in says.prompts[-1]
    assert "Heard: grüß 好 🙂|grüß 好 🙂<|im_end|>" in says.prompts[-1]


def test_a_seat_that_never_acts_is_paid():
    found = rolled(group("decides-v0", "cedar-fig"), Says(lambda prompt: "x"))
    assert found.get_total_rewards() == [0.5] * 3
    assert [len(one.transitions[0].ac.tokens) > 0 for one in found.trajectories_G] == [
        True,
        False,
        False,
    ]


def test_partners_leave_one_seat():
    team = {"runner_0": "expert", "runner_2": "expert"}
    says = Says(lambda prompt: "cedar")
    found = rolled(group("relay-v0", "cedar-fig", partners=team, episodes=2), says)
    assert found.get_total_rewards() == [1.0] * 2
    assert len(says.prompts) == 2


def test_many_groups_at_once():
    async def all_of_them() -> list[Any]:
        groups = [group("relay-v0", "cedar-fig", episodes=4) for _ in range(8)]
        says = Says(lambda prompt: "cedar")
        return await asyncio.gather(*(rollouts.do_group_rollout(one, says) for one in groups))

    assert [one.get_total_rewards() for one in asyncio.run(all_of_them())] == [[1.0] * 12] * 8


def test_what_an_environment_raises_ends_the_group():
    with pytest.raises((OSError, RuntimeError), match="the disk is full"):
        rolled(group("breaks-v0"), Says(own_word))


def test_a_seat_whose_others_are_left_out():
    strategy = strategies.RetryOnFailure(max_retries=1)  # begins one seat of a new episode
    failed: list[str] = []

    def once(prompt: str) -> str:
        if not failed:
            failed.append(prompt)
            raise OSError("the service is away")
        return own_word(prompt)

    with pytest.raises(TimeoutError, match=r"waited 0.2 s for \['\w+_0'\]; all seats"):
        rolled(group("pair-v0", patience=0.2), Says(once), strategy=strategy)


def test_a_failure_leaves_nobody_waiting():
    def never(prompt: str) -> str:
        if "apple" in prompt:
            raise OSError("the service is away")
        return own_word(prompt)

    async def failing() -> set[Any]:
        with pytest.raises(OSError, match="the service is away"):
            await rollouts.do_group_rollout(group("pair-v0"), Says(never))
        await asyncio.sleep(0.05)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(failing()) == set()


def test_it_is_not_its_turn():
    async def second() -> None:
        seats = await group("relay-v0", "cedar-fig").make_envs()
        await seats[1].step([2])

    with pytest.raises(ValueError, match=r"runner_1: it is not its turn; expected .*'runner_0'"):
        asyncio.run(second())


def test_groups_travel_to_other_processes():
    tokenizers.register_tokenizer("tiny", tiny_tokenizer)
    try:
        one = pickle.loads(pickle.dumps(group("pair-v0")))
        assert rolled(one, Says(own_word)).get_total_rewards() == [1.0, 1.0]
    finally:
        tokenizers.unregister_tokenizer("tiny")


def built(**changes: Any) -> Any:
    fields = {"env_id": "pair-v0", "model_name": "tiny", "renderer_name": "role_colon"}
    sizes = {"tasks": 7, "groups_per_batch": 3}
    tokenizers.register_tokenizer("tiny", tiny_tokenizer)
    try:
        return asyncio.run(TeamDatasetBuilder(**{**fields, **sizes, **changes})())
    finally:
        tokenizers.unregister_tokenizer("tiny")


def test_the_dataset():
    dataset, nothing = built(arguments={"turns": 1})
    assert (len(dataset), nothing) == (2, None)
    batch = dataset.get_batch(1)
    tasks = [one.task for one in dataset.groups]
    assert [one.task for one in batch] == tasks[3:6]
    assert len({one.seed for one in dataset.groups}) == 7
    assert batch[0].logging_tags() == ["pair-v0"]
    assert len(asyncio.run(batch[0].make_envs())) == 16


def test_what_cannot_be():
    with pytest.raises(ValueError, match=r"episodes=1, .* expected at least 2 episodes to compare"):
        built(episodes=1)
    with pytest.raises(ValueError, match="groups_per_batch=9"):
        built(groups_per_batch=9)
    with pytest.raises(ValueError, match="n=31 tasks: expected 1 to 30"):
        built(tasks=31)
    with pytest.raises(ValueError, match=r"partners: got \['nobody_0'\]"):
        rolled(group("pair-v0", partners={"nobody_0": "expert"}), Says(own_word))
