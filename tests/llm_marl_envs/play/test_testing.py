"""`check_text_env` accepts the toy environments and refuses each that breaks one rule."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from support.toys import Relay, WordExperts, WordPair

from llm_marl_envs.core.environment import Bounds, Outcome
from llm_marl_envs.core.experts import Experts
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.spaces import Message, Observation, TextSpace
from llm_marl_envs.core.specs import register
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.testing import check_text_env, episode_digest
from llm_marl_envs.policies import Policy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy


def experts(env: Any) -> Mapping[str, Policy]:
    return dict.fromkeys(env.possible_agents, ExpertPolicy(env))


@pytest.mark.parametrize("make_env", [WordPair, Relay, lambda: Relay(rounds=2)])
def test_sound_environments_pass(make_env: Any) -> None:
    check_text_env(make_env, solution=experts, solution_return=1.0)


@pytest.mark.usefixtures("own_registry")
def test_the_converted_form_passes() -> None:
    register("testing_pair-v0", WordPair)
    check_text_env(lambda: make("testing_pair-v0", api="aec"))


class Mutant(WordPair):
    """WordPair with one rule broken in a subclass."""

    def changed(self, outcome: Outcome, **fields: Any) -> Outcome:
        names = ("reward_terms", "feedback", "ended", "success", "facts")
        return Outcome(**{**{name: getattr(outcome, name) for name in names}, **fields})


class DrawsGlobally(Mutant):
    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        random.random()
        return super().play(joint_action)


class DrawsFromNumpy(Mutant):
    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        np.random.rand()  # noqa: NPY002 - the fault
        return super().play(joint_action)


class SeedsGlobally(Mutant):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        random.seed(seed)
        return super().reset(seed, options)


class DiffersFromTurnTwo(Mutant):
    counter = itertools.count()

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        outcome = super().play(joint_action)
        return self.changed(outcome, feedback={"left_0": f"Number {next(self.counter)}"})


class PaysAtRandom(Mutant):
    counter = itertools.count()

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        terms = {agent: {"luck": next(self.counter) % 5 / 9} for agent in self.agents}
        return self.changed(super().play(joint_action), reward_terms=terms)


class RemembersTheLastEpisode(Mutant):
    score = 0.0

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        self.score += 0.1
        terms = {agent: {"kept": self.score / 10} for agent in self.agents}
        return self.changed(super().play(joint_action), reward_terms=terms)


class SharesStateBetweenCopies(Mutant):
    shared: ClassVar[list[str]] = []

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        self.shared.clear()
        return super().opening(task)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        self.shared.append(joint_action["left_0"])
        outcome = super().play(joint_action)
        return self.changed(outcome, feedback={"left_0": f"{len(self.shared)} so far"})


class IgnoresTheSeed(Mutant):
    def _begin(self, seed: int | None, options: Any) -> None:
        super()._begin(None, options)


class TermsDoNotSum(Mutant):
    def _info(self, agent: str, outcome: Outcome) -> dict[str, Any]:
        return {**super()._info(agent, outcome), "reward_terms": {"words": 0.3}}


class NoSuccess(Mutant):
    def _info(self, agent: str, outcome: Outcome) -> dict[str, Any]:
        info = super()._info(agent, outcome)
        return {key: info[key] for key in info if key != "success"}


class PaysNaN(Mutant):
    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        terms = {agent: {"odd": float("nan")} for agent in self.agents}
        return self.changed(super().play(joint_action), reward_terms=terms)


class PaysTooMuch(Mutant):
    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        terms = {agent: {"gift": 5.0} for agent in self.agents}
        return self.changed(super().play(joint_action), reward_terms=terms)


class Forgets(Mutant):
    def _tell(self, outcome: Outcome) -> None:
        super()._tell(outcome)
        for chat in self._chat.values():
            del chat[0]


class DropsTheAction(Mutant):
    def _tell(self, outcome: Outcome) -> None:
        for agent, chat in self._chat.items():
            chat[-1] = Message("user", f"{agent} said something.")


class AsksNothing(Mutant):
    def _tell(self, outcome: Outcome) -> None:
        """The chat ends with the agent's own action."""


class AcceptsAnything(Mutant):
    def _check(self, agent: str, action: Any) -> None:
        """No check."""

    def _accept(self, agent: str, action: Any) -> str:
        return super()._accept(agent, str(action))


class RaisesSomethingElse(Mutant):
    def _check(self, agent: str, action: Any) -> None:
        if not isinstance(action, str):
            raise KeyError(agent)


class SaysNothingOfWhatCame(Mutant):
    def _check(self, agent: str, action: Any) -> None:
        if not isinstance(action, str):
            raise TypeError("bad action")


class SendsBareStrings(Mutant):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        observations, infos = super().reset(seed, options)
        return {agent: str(text) for agent, text in observations.items()}, infos


class TextDiffersFromMessages(Mutant):
    def _observe(self, agent: str) -> Observation:
        seen = super()._observe(agent)
        return Observation(f"{seen} (secret)", seen.messages)


class LeavesItsSpace(Mutant):
    def observation_space(self, agent: str) -> TextSpace:
        return self.small

    small = TextSpace(5)


class NewSpaces(Mutant):
    def action_space(self, agent: str) -> TextSpace:
        return TextSpace(200)


class OddNames(Mutant):
    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = ["left", "right"]


class NamesNoTask(Mutant):
    def _first_info(self) -> dict[str, Any]:
        return {}


class EmptyRange(Mutant):
    reward_range = (0.0, 0.0)


class StateOutOfSpace(Mutant):
    def state(self) -> Any:
        return None


class RandomExperts(WordExperts):
    counter = itertools.count()

    def first(self, task: Task, agent: str, convention: str) -> str:
        return f"{next(self.counter)}"


class DemonstratesAtRandom(Mutant):
    def experts(self) -> Experts | None:
        return RandomExperts()


@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        (DrawsGlobally, "global random generator"),
        (DrawsFromNumpy, "global random generator"),
        (SeedsGlobally, "global random generator"),
        (DiffersFromTurnTwo, "equal actions differ"),
        (PaysAtRandom, "equal actions differ"),
        (RemembersTheLastEpisode, "equal actions differ"),
        (SharesStateBetweenCopies, "equal actions differ"),
        (IgnoresTheSeed, "equal actions differ"),
        (TermsDoNotSum, "reward terms sum to 0.3, the reward is 0.0"),
        (NoSuccess, "info lacks keys"),
        (PaysTooMuch, "outside of the documented range"),
        (Forgets, "does not extend the one before"),
        (DropsTheAction, "does not extend the one before"),
        (AsksNothing, "nothing was asked"),
        (AcceptsAnything, "no str was accepted"),
        (RaisesSomethingElse, "expected TypeError, got KeyError"),
        (SaysNothingOfWhatCame, "does not say what came"),
        (SendsBareStrings, "expected Observation, got <class 'str'>"),
        (TextDiffersFromMessages, "not what its messages say"),
        (LeavesItsSpace, "not in its space"),
        (NewSpaces, "spaces must be kept"),
        (OddNames, "expected <role>_<int>"),
        (NamesNoTask, "first info lacks task_id"),
        (EmptyRange, "is empty"),
        (StateOutOfSpace, "not in state_space"),
        (DemonstratesAtRandom, "demonstrations depend"),
    ],
)
def test_each_broken_rule_is_found(mutant: type[WordPair], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_text_env(mutant)


def test_a_reward_that_is_no_number_is_refused_by_the_environment_itself() -> None:
    with pytest.raises(ValueError, match=r"reward 'odd' of left_0, turn 0: .*got nan"):
        check_text_env(PaysNaN)


class Spoken(Mutant):
    """The right seat is shown what the left one wrote, when it arrives."""

    def links(self) -> Mapping[str, Mapping[str, int]]:
        return {"right_0": {"left_0": 1}}

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        outcome = super().play(joint_action)
        shown = self.shown(joint_action["left_0"])
        return self.changed(outcome, feedback={**outcome.feedback, **shown})

    def shown(self, text: str) -> Mapping[str, str]:
        heard = self.pass_on("left_0", text, ["right_0"])
        return {agent: f"Left wrote {told}." for agent, told in heard.items()}


class ShowsTheTextItself(Spoken):
    def shown(self, text: str) -> Mapping[str, str]:
        super().shown(text)
        return {"right_0": f"Left wrote {text}."}


class PassesNothingOn(Spoken):
    def shown(self, text: str) -> Mapping[str, str]:
        return {}


class PassesOnToOthers(Spoken):
    def shown(self, text: str) -> Mapping[str, str]:
        return {**super().shown(text), **self.pass_on("left_0", text, ["left_0"])}


class NarrowRange(Mutant):
    reward_range = (0.0, 0.5)


class LowBounds(Mutant):
    def bounds(self, task: Task) -> Bounds:
        return Bounds(random=0.0, solo=0.5, team=0.9)


class UnorderedBounds(Mutant):
    def bounds(self, task: Task) -> Bounds:
        return Bounds(random=0.0, solo=2.0, team=1.0)


@pytest.mark.parametrize(
    ("mutant", "words"),
    [
        (ShowsTheTextItself, "right_0 was shown what left_0 wrote where nothing arrives"),
        (PassesNothingOn, "right_0 is shown texts of left_0, and none was handed"),
        (PassesOnToOthers, "left_0 passed a text on to left_0, and links"),
        (NarrowRange, "returned 1.0, outside of the documented range"),
        (
            LowBounds,
            "experts returned more than the best of bounds.* in each of 3 episodes, by 0.1",
        ),
        (UnorderedBounds, r"\(random, solo, team\) are"),
    ],
)
def test_what_random_text_never_shows_is_found(mutant: type[WordPair], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_text_env(mutant)


def test_a_bound_that_is_a_mean_is_no_limit_of_one_episode() -> None:
    said: list[str] = []
    check_text_env(LowBounds, seeds=(0,), say=said.append)
    assert "+0.1 at most from the best of bounds()" in said[0]


def test_it_says_what_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    check_text_env(Spoken, seeds=(0, 5))
    said = capsys.readouterr().out
    for words in (
        "word_pair holds on the reset seeds [0, 5]",
        "experts: returns 1 to 1, in reward_range 0 to 1",
        "experts who agree: returns 1 to 1",
        "solved 2 of 2",
        "texts of 1 pair of links() went through pass_on",
    ):
        assert words in said
    check_text_env(Relay, seeds=(0,))
    assert "no links(): nobody is shown what another one wrote" in capsys.readouterr().out


class Fragile(Mutant):
    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        joint_action["left_0"].encode()  # a lone surrogate cannot be encoded
        return super().play(joint_action)


def test_an_environment_must_survive_any_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        check_text_env(Fragile)


class TellsEarly(Relay):
    """Shows the last runner's observation another text each time it is looked at."""

    counter = itertools.count()

    def observe(self, agent: str) -> Observation:
        seen = super().observe(agent)
        return Observation.of((*seen.messages, Message("user", str(next(self.counter)))))


def test_aec_faults_are_found_too() -> None:
    with pytest.raises(AssertionError, match="equal actions differ"):
        check_text_env(TellsEarly)


def test_a_solution_must_solve() -> None:
    def silent(env: Any) -> Mapping[str, Policy]:
        def script(request: Request) -> str:
            return ""

        return dict.fromkeys(env.possible_agents, ScriptedPolicy(script))

    with pytest.raises(AssertionError, match=r"the solution earned left_0 0.0, expected 1.0"):
        check_text_env(WordPair, solution=silent, solution_return=1.0)
    with pytest.raises(AssertionError, match="the solution failed task"):
        check_text_env(WordPair, solution=silent)


def test_episodes_are_equal_in_every_process(run_python: Any) -> None:
    program = (
        "from support.toys import Relay, WordPair\n"
        "from llm_marl_envs.play.testing import episode_digest\n"
        "print(episode_digest(WordPair), episode_digest(Relay))"
    )
    digests = {run_python(program, PYTHONHASHSEED=seed) for seed in ("0", "1", "77")}
    assert len(digests) == 1
    assert digests.pop().split() == [episode_digest(WordPair), episode_digest(Relay)]
