from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.toys import BareParallel, Relay, SameCase, SameCaseExperts, WordExperts, WordPair

from llm_marl_envs.core.experts import Experts, conventions_of, experts_of, find_experts
from llm_marl_envs.core.tasks import NumberedSource, Task
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.wrappers import SingleSeat


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
