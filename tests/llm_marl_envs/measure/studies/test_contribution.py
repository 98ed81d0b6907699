"""What an action and a message are worth, on toys whose numbers are worked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.models import lora, untrained
from support.pairings import stage
from support.toys import WORDS, Relay, WordPair

from llm_marl_envs import make
from llm_marl_envs.core.environment import Outcome, TextParallelEnv
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.measure.studies.contribution import (
    Contribution,
    contributions,
    replay_with,
)
from llm_marl_envs.measure.studies.messages import (
    MessageEffect,
    message_effects,
    other_tasks,
)
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy
from trainers.policies.token_policy import TokenPolicy
from trainers.weights.team_files import build_team_model


def heard(request: Request) -> str:
    return request.messages[-1].content.rpartition(": ")[2]


def own_word(request: Request) -> str:
    return request.messages[1].content.rpartition(": ")[2]


RUNNERS = dict.fromkeys(Relay().possible_agents, ScriptedPolicy(heard))
PAIR = dict.fromkeys(WordPair().possible_agents, ScriptedPolicy(own_word))


class Whisper(TextParallelEnv):
    """`guide_0` knows the word and says it on turn 0; `walker_0` must say it on turn 1.

    Only what the walker says in the last turn is paid; it hears the guide line by line, quoted.
    """

    metadata = {"name": "whisper"}  # noqa: RUF012
    reward_range = (0.0, 1.0)

    def __init__(self) -> None:
        super().__init__(
            agents=("guide_0", "walker_0"),
            source=WordPair().source,
            max_turns=2,
            max_action_chars=100,
            render_mode=None,
        )

    def opening(self, task: Task) -> Mapping[str, tuple[Message, ...]]:
        self.turn = 0
        return {
            "guide_0": (Message("user", f"The word: {task.data['words'][0]}"),),
            "walker_0": (Message("user", "Listen."),),
        }

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        self.turn += 1
        solved = self.turn == 2 and joint_action["walker_0"] == self.task.data["words"][0]
        quoted = "\n".join(f"> {line}" for line in joint_action["guide_0"].split("\n"))
        return Outcome(
            reward_terms={agent: {"word": float(solved)} for agent in self.agents},
            feedback={"walker_0": f"The guide says:\n{quoted}", "guide_0": "Go on."},
            success=solved,
        )


def walk(request: Request) -> str:
    return request.messages[-1].content.rpartition("> ")[2] if request.turn else "?"


def guide(request: Request) -> str:
    return "take\n" + request.messages[0].content.rpartition(": ")[2]


GUIDED = {"guide_0": ScriptedPolicy(guide), "walker_0": ScriptedPolicy(walk)}


def worths(found: list[Contribution]) -> dict[tuple[str, int | None], float]:
    return {(one.agent, one.turn): one.lost.mean for one in found}


def effects(found: list[MessageEffect]) -> dict[tuple[str, str], tuple[float, float]]:
    return {(one.speaker, one.intervention): (one.lost.mean, one.heard) for one in found}


# -- actions --------------------------------------------------------------------------------------


def test_every_runner_of_a_relay_is_worth_everything():
    found = contributions(stage(Relay, n_tasks=6), RUNNERS, "")
    runners = [f"runner_{i}" for i in range(3)]
    assert worths(found) == {(a, k): 1.0 for a in runners for k in (0, None)}
    # Six of six: 6 / (6 + 2.57058^2) of a scale from -1 to 1.
    low = 2 * 6 / (6 + 2.57058**2) - 1
    assert all(one.lost.ci95 == (pytest.approx(low, rel=1e-4), 1.0) for one in found)
    assert {(one.mattered, one.changed) for one in found} == {(1.0, 1.0)}


def test_a_second_attempt_repairs_the_first():
    found = contributions(stage(WordPair, n_tasks=5), PAIR, "")
    # Silenced once, an agent says its word in the second turn, for the same return; silenced
    # always, its half is lost.
    assert worths(found) == {
        ("left_0", 0): 0.0,
        ("left_0", None): 0.5,
        ("right_0", 0): 0.0,
        ("right_0", None): 0.5,
    }


def test_turns_that_only_some_episodes_have():
    """The left agent needs a second turn where its word begins with `a`: in 5 of 30 tasks."""

    def late(request: Request) -> str:
        word = own_word(request)
        return "" if word.startswith("a") and request.turn == 0 else word

    team = {**PAIR, "left_0": ScriptedPolicy(late)}
    found = {(c.agent, c.turn): c for c in contributions(stage(WordPair), team, "")}
    assert found["left_0", 1].lost.n == 5
    assert found["left_0", 1].lost.mean == 0.5
    assert found["right_0", 1].lost.mean == 0.0  # it had said its word before
    assert found["left_0", 0].lost.mean == 0.0
    assert found["left_0", 0].changed == pytest.approx(25 / 30)


def test_a_replacement_that_says_the_same_loses_nothing():
    found = contributions(stage(Relay, n_tasks=3), RUNNERS, ScriptedPolicy(heard))
    assert {one.lost.mean for one in found} == {0.0}
    assert {(one.mattered, one.changed) for one in found} == {(0.0, 0.0)}


def test_a_better_replacement_has_a_negative_loss():
    team = {**RUNNERS, "runner_1": ScriptedPolicy(lambda r: "nothing")}
    found = contributions(stage(Relay, n_tasks=3), team, {"runner_1": ScriptedPolicy(heard)})
    assert worths(found) == {("runner_1", 0): -1.0, ("runner_1", None): -1.0}


def test_what_went_before_comes_from_the_record():
    """A policy that never answers twice alike: the record holds its first answer."""
    calls: list[str] = []

    class Fickle:
        def act(self, requests: Any) -> list[Response]:
            calls.extend(r.agent for r in requests)
            return [Response(text=heard(r) if len(calls) <= 2 else "lost") for r in requests]

    team = {**RUNNERS, "runner_0": Fickle()}
    found = contributions(stage(Relay, n_tasks=2), team, {"runner_1": ScriptedPolicy(heard)})
    assert found[0].turn == 0
    assert found[0].lost.mean == 0.0  # asked again, runner_0 would have said "lost"


def test_agents_are_compared_on_the_same_draws():
    """Experts at random differ by their seeds alone, so replacing one by itself changes nothing."""
    env = make("coop_coding-v0")
    expert = ExpertPolicy(env)
    team = dict.fromkeys(env.possible_agents, expert)
    found = contributions(stage(lambda: make("coop_coding-v0"), n_tasks=4), team, expert)
    assert {one.lost.mean for one in found} == {0.0}


def test_a_model_that_replaces_itself_repeats_every_token():
    """Also in the second turn, which continues the token ids of the first."""
    model, tokenizer = untrained()
    seats = WordPair().possible_agents
    team = build_team_model(
        model, seats, weights="adapters", peft_config=lora(), tokenizer=tokenizer
    )
    policy = TokenPolicy(team, max_completion_length=6)
    played = stage(WordPair, n_tasks=4)
    starts = played.schedule.starts
    seated = dict.fromkeys(seats, policy)
    actual = played.play(seated, starts)
    assert len(actual[0].turns) == 4
    for agent in seats:
        for turn in (0, 1):
            twin = TokenPolicy(team, max_completion_length=6)
            again = replay_with(played, seated, actual, starts, agent, turn, twin)
            # A twin that has not seen the first turn reads its text anew, maybe as other tokens.
            assert [
                (t.response.prompt_ids, t.response.completion_ids)
                for episode in again
                for t in episode.turns
                if (t.agent, t.index) != (agent, 1)
            ] == [
                (t.response.prompt_ids, t.response.completion_ids)
                for episode in actual
                for t in episode.turns
                if (t.agent, t.index) != (agent, 1)
            ]


def test_replacements_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"replacements for \['left_0'\]"):
        contributions(stage(Relay, n_tasks=1), RUNNERS, {"left_0": ""})
    with pytest.raises(TypeError, match="replacement of runner_0: expected a policy or a text"):
        contributions(stage(Relay, n_tasks=1), RUNNERS, {"runner_0": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="missing"):
        contributions(stage(Relay, n_tasks=1), PAIR, "")


# -- messages -------------------------------------------------------------------------------------


def test_silencing_the_first_runner_loses_everything():
    found = effects(message_effects(stage(Relay, n_tasks=6), RUNNERS))
    assert found["runner_0", "silent"] == (1.0, 1.0)
    assert found["runner_1", "silent"] == (1.0, 1.0)
    # Nobody hears the last one: what it says is the answer, not a message.
    assert found["runner_2", "silent"] == (0.0, 0.0)
    assert found["runner_2", "shuffled"] == (0.0, 0.0)


def test_messages_of_other_episodes_mislead_except_where_they_are_the_same():
    # The first six tasks: apple-birch ... apple-fig (five), then birch-apple. Shuffled in a cycle
    # over tasks, birch-apple hears "apple" and one of the others hears "birch".
    assert WORDS[:2] == ("apple", "birch")
    found = effects(message_effects(stage(Relay, n_tasks=6), RUNNERS))
    assert found["runner_0", "shuffled"] == (pytest.approx(2 / 6), pytest.approx(2 / 6))


def test_another_teams_messages_are_of_use_if_it_speaks_the_same_way():
    def backwards(request: Request) -> str:
        return heard(request)[::-1]

    cipher = {**RUNNERS, "runner_0": ScriptedPolicy(backwards)}
    same = effects(message_effects(stage(Relay, n_tasks=3), RUNNERS, other=dict(RUNNERS)))
    assert same["runner_0", "other_team"] == (0.0, 0.0)
    other = effects(message_effects(stage(Relay, n_tasks=3), RUNNERS, other=cipher))
    assert other["runner_0", "other_team"] == (1.0, 1.0)
    # In its own team the second runner passes the cipher on.
    assert other["runner_1", "other_team"] == (1.0, 1.0)


def test_only_the_message_changes_not_the_action():
    """In a simultaneous game, quoted line by line: the walker needs the guide, not the reverse."""
    found = effects(message_effects(stage(Whisper, n_tasks=10, copies=3), GUIDED))
    assert found["guide_0", "silent"] == (1.0, 1.0)
    assert found["walker_0", "silent"] == (0.0, 0.0)
    assert found["guide_0", "shuffled"][0] > 0
    # As an action the walker's last one is worth everything and its first nothing.
    walker = worths(contributions(stage(Whisper, n_tasks=3), GUIDED, ""))
    assert walker["walker_0", 0] == 0.0
    assert walker["walker_0", 1] == 1.0
    assert walker["guide_0", 0] == 1.0
    assert walker["guide_0", 1] == 0.0


def test_a_twin_that_ends_early_is_counted():
    """`left_0` says nothing at first; the other team would have solved the task at once."""
    late = {**PAIR, "left_0": ScriptedPolicy(lambda r: own_word(r) * r.turn)}
    found = message_effects(stage(WordPair, n_tasks=2), late, other=PAIR)
    parted = {(one.speaker, one.intervention): one.parted for one in found}
    assert parted["left_0", "other_team"] == 1.0
    assert parted["left_0", "silent"] == 0.0


def test_debaters_need_each_others_statements():
    """Experts of one convention; what one of them holds is missing where it is not heard."""
    env = make("debate-v0")

    def speak(request: Request) -> str:
        task = env.source.find(request.task_id)
        return experts_of(env).reply(
            task, request.agent, experts_of(env).conventions(task)[0], request.messages
        )

    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(speak))
    found = effects(message_effects(stage(lambda: make("debate-v0"), n_tasks=10), team))
    silent = [found[agent, "silent"] for agent in env.possible_agents]
    assert all(share == 1.0 for _, share in silent)
    assert all(lost > 0.3 for lost, _ in silent)


def test_a_single_simultaneous_turn_has_no_messages():
    env = make("coop_coding-v0")
    team = dict.fromkeys(env.possible_agents, ExpertPolicy(env))
    found = message_effects(stage(lambda: make("coop_coding-v0"), n_tasks=3), team)
    assert {(one.lost.mean, one.heard) for one in found} == {(0.0, 0.0)}


def test_messages_come_from_another_task_and_each_is_used_once():
    schedule = stage(WordPair, n_tasks=5, samples=3).schedule
    found = other_tasks(schedule, seed=1)
    assert sorted(found) == list(range(15))
    assert all(i // 3 != other // 3 for i, other in enumerate(found))
    assert other_tasks(schedule, seed=2) != found


def test_one_task_cannot_be_shuffled():
    with pytest.raises(ValueError, match="at least 2 tasks"):
        message_effects(stage(Relay, n_tasks=1), RUNNERS)
    with pytest.raises(ValueError, match="missing"):
        message_effects(stage(Relay, n_tasks=2), RUNNERS, other=PAIR)


def test_unreadable_teams_do_not_crash_it():
    team = dict.fromkeys(Relay().possible_agents, RandomPolicy())
    assert {one.lost.mean for one in message_effects(stage(Relay, n_tasks=3), team)} == {0.0}
