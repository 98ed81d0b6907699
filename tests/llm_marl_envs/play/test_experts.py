from __future__ import annotations

import copy
import dataclasses
import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from support.paths import ROOT
from support.toys import BareParallel, Relay, SameCase, SameCaseExperts, WordExperts, WordPair

from llm_marl_envs.core.environment import Outcome
from llm_marl_envs.core.experts import (
    Experts,
    ListeningExperts,
    conventions_of,
    experts_of,
    find_experts,
)
from llm_marl_envs.core.records import Branch, Episode
from llm_marl_envs.core.seeds import Start, branch_start, derive_seed, group_starts
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import NumberedSource, Task
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.wrappers import Partners, SingleSeat


class Plain(WordPair):
    def experts(self) -> Experts | None:
        return None


def test_demonstrations_follow_their_seed(word_pair: WordPair) -> None:
    pairs = demonstrations(word_pair, 40, seed=1)
    assert pairs == demonstrations(WordPair(), 40, seed=1)
    assert pairs != demonstrations(word_pair, 40, seed=2)
    assert len({action.isupper() for _, action in pairs}) == 2  # both conventions occur
    assert all(messages[-1].role == "user" for messages, _ in pairs)


def test_experts_that_listen_show_whole_episodes() -> None:
    class Listening(WordExperts):
        listens = True

    class Words(WordPair):
        def experts(self) -> Experts | None:
            return Listening()

    first = demonstrations(WordPair(), 60, seed=1)
    pairs = demonstrations(Words(), 60, seed=1)
    # Said right at once, episodes end: per episode one message shown to each of two seats.
    shown = [messages for messages, _ in pairs]
    assert all(a[1].content != b[1].content for a, b in zip(shown[::2], shown[1::2], strict=True))
    cases = [
        a.isupper() == b.isupper() for (_, a), (_, b) in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    assert 0.5 < sum(cases) / len(cases) < 1  # half of the episodes agree by design
    assert pairs != first


def test_experts_may_show_in_a_way_of_their_own() -> None:
    class Own(WordExperts):
        def demonstrations(self, env: Any, n: int, seed: int) -> Any:
            return [((), f"{env.metadata['name']} {i} of {n}, {seed}") for i in range(n)]

    class Words(WordPair):
        def experts(self) -> Experts | None:
            return Own()

    assert demonstrations(Words(), 2, 7) == [
        ((), "word_pair 0 of 2, 7"),
        ((), "word_pair 1 of 2, 7"),
    ]


@pytest.mark.parametrize("env", [Plain, lambda: SingleSeat(Plain())])
@pytest.mark.parametrize("ask", [experts_of, ExpertPolicy, lambda env: demonstrations(env, 1, 0)])
def test_an_environment_without_experts_says_so(
    env: Callable[[], Any], ask: Callable[[Any], Any]
) -> None:
    assert find_experts(env()) is None
    with pytest.raises(ValueError, match=r"(word_pair|single_seat) has no scripted experts"):
        ask(env())


@pytest.mark.parametrize("ask", [experts_of, ExpertPolicy, lambda env: demonstrations(env, 1, 0)])
def test_an_environment_of_another_library_has_none(ask: Callable[[Any], Any]) -> None:
    assert find_experts(BareParallel()) is None
    with pytest.raises(TypeError, match="expected an environment of this library, got Bare"):
        ask(BareParallel())


def test_defaults_follow_no_convention() -> None:
    env, experts = Relay(), experts_of(Relay())
    task = env.source[0]
    assert experts.conventions(task) == ()
    assert experts.read(task, "runner_0", "apple") is None
    assert experts.reply(task, "runner_0", "", ()) == experts.first(task, "runner_0", "") == "apple"
    assert not experts.listens


def test_fixed_conventions_are_named_without_a_task() -> None:
    class Unread(NumberedSource):
        def make(self, index: int, task_id: str) -> Task:
            raise AssertionError("a task was made")

    source = Unread("train", 12)
    assert [*conventions_of(WordExperts(), source)] == ["lower", "upper"]
    with pytest.raises(AssertionError, match="a task was made"):
        list(conventions_of(SameCaseExperts(), source))


def test_experts_are_found_inside_wrappers() -> None:
    from pettingzoo.utils.conversions import parallel_to_aec

    made: Any = SameCase()
    assert type(experts_of(parallel_to_aec(made))) is type(experts_of(made))


# -- one convention in an episode -----------------------------------------------------------------
class Steady(WordPair):
    """Three turns of experts whose first action shows no convention that anybody could read."""

    def __init__(self) -> None:
        super().__init__(turns=3)

    def experts(self) -> Experts | None:
        return SteadyExperts()

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        paid = {agent: {"said": 0.0} for agent in self.possible_agents}
        return Outcome(reward_terms=paid, feedback=dict.fromkeys(self.possible_agents, "On."))


class SteadyExperts(ListeningExperts):
    fixed = ("a", "b", "c")

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        return f"{convention}{sum(m.role == 'assistant' for m in messages)}"


def spoken(env: Any, starts: Sequence[Start], copies: int = 1) -> list[Episode]:
    team = dict.fromkeys(env.possible_agents, ExpertPolicy(env))
    return rollout(VectorTextEnv([copy.deepcopy(env) for _ in range(copies)]), team, starts)


def conventions_in(episode: Episode) -> dict[str, str]:
    """Agent -> the convention of all its actions."""
    said = {a: [t.action for t in episode.trajectory(a)] for a in episode.agents}
    for texts in said.values():
        assert texts == [f"{texts[0][0]}{turn}" for turn in range(len(texts))]
    return {agent: texts[0][0] for agent, texts in said.items()}


def test_an_expert_keeps_the_convention_that_it_drew_for_the_episode() -> None:
    starts = [Start(seed=s, sample_seed=s) for s in range(60)]
    episodes = spoken(Steady(), starts)
    drawn = [conventions_in(episode) for episode in episodes]
    assert {tuple(one.values()) for one in drawn} == set(itertools.product("abc", repeat=2))
    assert spoken(Steady(), starts, copies=7) == episodes
    # What is drawn is what the first action has always drawn.
    first = [random.Random(derive_seed(s, "left_0", 0)).choice("abc") for s in range(60)]
    assert [one["left_0"] for one in drawn] == first


def test_branches_go_on_in_the_convention_of_their_origin() -> None:
    group = group_starts(0, 3, 8)
    for start, record in zip(group, spoken(Steady(), group), strict=True):
        for turn in (1, 2):
            branch = Branch(parent=0, agent="left_0", turn=turn)
            begun = branch_start(start, record, branch, 9, "episode")
            (other,) = spoken(Steady(), [begun])
            assert conventions_in(other) == conventions_in(record)
            again = branch_start(begun, other, dataclasses.replace(branch, agent="right_0"), 10)
            (third,) = spoken(Steady(), [again])
            assert conventions_in(third) == conventions_in(record)


@pytest.mark.parametrize("held", [False, True])
def test_who_has_said_nothing_before_a_branch_draws_anew(held: bool) -> None:
    """Else what is sampled again is no sample. What is held was said, and binds who said it."""
    (start,) = group_starts(0, 3, 1)
    (record,) = spoken(Steady(), [start])
    branch = Branch(parent=0, agent="left_0", turn=0, held=held)
    starts = [branch_start(start, record, branch, sibling) for sibling in range(40)]
    episodes = spoken(Steady(), starts, copies=8)
    drawn = [conventions_in(one) for one in episodes]
    assert {one["left_0"] for one in drawn} == {*"abc"}
    said = conventions_in(record)["right_0"]
    assert {one["right_0"] for one in drawn} == ({said} if held else {*"abc"})
    # Who drew in a branch keeps it in the branches of that one.
    later = Branch(parent=0, agent="right_0", turn=1)
    for begun, one in zip(starts[:6], episodes[:6], strict=True):
        (again,) = spoken(Steady(), [branch_start(begun, one, later, 50)])
        assert conventions_in(again) == conventions_in(one)


def test_partners_and_demonstrations_are_of_one_convention() -> None:
    env = Partners(Steady(), {"right_0": "expert"})
    seen = set()
    for seed in range(20):
        env.reset(seed=seed)
        while env.agents:
            env.step({"left_0": "x"})
        texts = [m.content for m in env.unwrapped.chat("right_0") if m.role == "assistant"]
        assert texts == [f"{texts[0][0]}{turn}" for turn in range(3)]
        seen.add(texts[0])
    assert len(seen) == 3
    for messages, answer in demonstrations(Steady(), 200, 0):
        own = [m.content for m in messages if m.role == "assistant"]
        assert all(text[0] == answer[0] for text in own)


def test_the_two_turn_example_of_the_page_needs_no_reading() -> None:
    """Who agrees solves: about a half, also where nobody can read a convention."""
    page = (ROOT / "docs" / "howto" / "own_environment.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        if "MAGRPO" not in block:
            exec(re.sub(r"(?m)^check_text_env\(.*\)$", "", block), names)
    names["NotesExperts"].read = lambda self, task, agent, action: None
    env = names["Notes"](split="train")
    episodes = spoken(env, [Start(seed=s, sample_seed=s) for s in range(400)], copies=20)
    share = sum(bool(episode.success) for episode in episodes) / len(episodes)
    assert 0.43 < share < 0.57
