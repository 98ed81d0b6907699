"""Evaluation and coordination, with teams whose results are known."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from support.toys import BareAEC, Relay, SameCase, WordPair, word_tasks

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.outcome import Bounds
from llm_marl_envs.core.records import Episode, Request, Response, StopReason, Turn
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.tasks import ListSource
from llm_marl_envs.files.json_files import write_json
from llm_marl_envs.measure import cooperation_index, evaluate_team, measure_coordination
from llm_marl_envs.measure.numbers.coordination import convention_match, match_by_choice
from llm_marl_envs.measure.numbers.estimates import wilson_interval
from llm_marl_envs.measure.numbers.results import (
    TeamResult,
    read_result,
    result_to_dict,
    summarise,
)
from llm_marl_envs.measure.numbers.tables import result_table
from llm_marl_envs.policies import Policy, RandomPolicy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy


def team(left: str | None, right: str | None) -> dict[str, ExpertPolicy]:
    env = WordPair()
    return {"left_0": ExpertPolicy(env, left), "right_0": ExpertPolicy(env, right)}


def test_experts_solve_everything():
    result = evaluate_team(WordPair, team("lower", "lower"), n_tasks=8, samples=2, copies=3)
    assert (result.n_tasks, result.samples, len(result.episodes)) == (8, 2, 16)
    assert result.success == 1.0
    seven = wilson_interval(8, 8, z=2.36462)  # t of 7 degrees of freedom
    assert result.success_ci95 == pytest.approx(seven, rel=1e-4)
    assert result.mean_return == 1.0
    assert math.isclose(sum(result.reward_terms.values()), 1.0)
    assert [e.task_id for e in result.episodes[:4]] == [result.episodes[0].task_id] * 2 + [
        result.episodes[2].task_id
    ] * 2


def test_a_half_silent_team_earns_half():
    half = {**team("lower", "lower"), "right_0": ScriptedPolicy(lambda r: "")}
    result = evaluate_team(WordPair, half, n_tasks=5)
    assert result.mean_return == 0.5
    assert result.success == 0.0


def test_coordination_of_teams_in_one_convention_and_in_two():
    env = WordPair()
    together = evaluate_team(WordPair, team("upper", "upper"), n_tasks=10)
    apart = evaluate_team(WordPair, team("upper", "lower"), n_tasks=10)
    one = measure_coordination(env, together.episodes)
    two = measure_coordination(env, apart.episodes)
    assert (one.convention_match, one.choice_match, one.success_given_match) == (1.0, 1.0, 1.0)
    assert (two.convention_match, two.choice_match, two.success_given_match) == (0.0, 0.0, None)
    assert two.competence == {"left_0": 1.0, "right_0": 1.0}


def test_experts_at_random_match_by_chance():
    result = evaluate_team(WordPair, team(None, None), n_tasks=30, samples=20)
    match = measure_coordination(WordPair(), result.episodes).convention_match
    assert 0.42 < match < 0.58  # 600 draws: 4 standard deviations of 0.5


def test_an_unreadable_action_is_incompetent():
    def mumble(request: Request) -> str:
        return "?"

    mixed = {**team("lower", "lower"), "left_0": ScriptedPolicy(mumble)}
    result = evaluate_team(WordPair, mixed, n_tasks=4)
    found = measure_coordination(WordPair(), result.episodes)
    assert found.competence == {"left_0": 0.0, "right_0": 1.0}
    assert found.convention_match == 0.0


def test_evaluation_does_not_depend_on_the_number_of_copies():
    one = evaluate_team(WordPair, team(None, None), n_tasks=7, copies=1)
    many = evaluate_team(WordPair, team(None, None), n_tasks=7, copies=64)
    assert one.episodes == many.episodes


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="expected 1 to 30"):
        evaluate_team(WordPair, team(None, None), n_tasks=31)
    with pytest.raises(ValueError, match="samples=0"):
        evaluate_team(WordPair, team(None, None), n_tasks=1, samples=0)
    with pytest.raises(ValueError, match="coordination needs"):
        measure_coordination(WordPair(), [])


def test_wilson_interval_by_hand():
    # 8 of 10: centre (0.8 + 1.9207 / 10) / 1.38415, half width 0.2264...
    low, high = wilson_interval(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson_interval(0, 10)[0] == 0.0
    with pytest.raises(ValueError, match="11 successes"):
        wilson_interval(11, 10)


def test_the_cooperation_index_is_0_for_one_good_seat_and_1_for_a_team():
    """Bounds of WordPair: solo 0.5, team 1."""
    silent = ScriptedPolicy(lambda r: "")
    teams = {
        1.0: team("lower", "lower"),
        0.0: {**team("lower", "lower"), "right_0": silent},
        -1.0: {"left_0": silent, "right_0": silent},
    }
    for expected, players in teams.items():
        episodes = evaluate_team(WordPair, players, n_tasks=8, samples=2).episodes
        index = cooperation_index(WordPair(), episodes)
        assert index is not None
        assert index.mean == expected
        assert (index.ci95 is None, index.why) == ((expected < 0), "all alike" * (expected < 0))
        assert index.ci95 is None or expected in index.ci95  # an end of the scale
        assert index.above_solo == expected * 0.5
        assert index.n_tasks == 8
        few = cooperation_index(WordPair(), episodes[:10])
        assert few is not None
        assert (few.ci95, few.why) == (None, "too few tasks: 5")


def test_nothing_is_credited_where_one_seat_could_do_it_all():
    class Easy(WordPair):
        def bounds(self, task: Any) -> Bounds:
            return Bounds(random=0.0, solo=1.0, team=1.0)

    class Unknown(WordPair):
        def bounds(self, task: Any) -> Bounds:
            raise ValueError("not known")

    half = {**team("lower", "lower"), "right_0": ScriptedPolicy(lambda r: "")}
    episodes = evaluate_team(WordPair, half, n_tasks=4).episodes
    index = cooperation_index(Easy(), episodes)
    assert index is not None
    assert (index.mean, index.ci95, index.above_solo) == (None, None, -0.5)
    assert cooperation_index(Unknown(), episodes) is None


def test_several_seeds_and_samples_count_per_task():
    result = evaluate_team(WordPair, team(None, None), n_tasks=4, samples=3, seed=[0, 5])
    assert (result.seeds, result.samples, len(result.episodes)) == ((0, 5), 3, 24)
    assert [len(task.returns) for task in result.tasks] == [6] * 4
    assert len({e.seed for e in result.episodes[:6]}) == 6  # each sample has its own
    assert sorted(result.pass_at_k) == [1, 2, 4, 6]
    first = evaluate_team(WordPair, team(None, None), n_tasks=4, samples=3, seed=5)
    assert result.episodes[3:6] == first.episodes[:3]


@pytest.mark.parametrize(
    ("env_id", "samples"), [("kuhn_poker-v1", 60), ("donor-v0", 5), ("debate-v0", 5)]
)
def test_each_sample_is_dealt_anew_and_the_same_to_all_teams(env_id: str, samples: int):
    """Also with other copies; the first sample is that of an evaluation with one."""

    def made() -> Any:
        return make(env_id, split="test")

    def played(policy: Policy, samples: int, **more: Any) -> TeamResult:
        seats = dict.fromkeys(made().possible_agents, policy)
        return evaluate_team(made, seats, n_tasks=2, samples=samples, **more)

    random, silent = (
        played(policy, samples) for policy in (RandomPolicy(), ScriptedPolicy(lambda r: ""))
    )
    assert random.episodes == played(RandomPolicy(), samples, copies=7).episodes
    assert random.episodes[::samples] == (one := played(RandomPolicy(), 1)).episodes
    # Of one sample, the reset seeds of every release.
    assert [e.seed for e in one.episodes] == [derive_seed("evaluate", 0, t) % 2**32 for t in (0, 1)]
    assert played(RandomPolicy(), 2, seed=(0, 3)).resets == 4
    deals = [[(e.task_id, e.seed) for e in result.episodes] for result in (random, silent)]
    assert deals[0] == deals[1]
    assert len({*deals[0]}) == 2 * samples
    assert (random.resets, silent.resets) == (samples, samples)
    table = result_table({"team": result_to_dict(random)})
    assert re.search(rf"reset seeds per task +{samples}\b", table)
    if env_id == "kuhn_poker-v1":  # all six deals of both antes
        told = [tuple(m.content for t in e.turns[:2] for m in t.messages) for e in silent.episodes]
        assert len({*told}) == 12


def test_pass_at_k_of_known_samples():
    def script(request: Request) -> str:
        return request.observation.rpartition(" ")[2] if request.episode % 4 == 0 else "?"

    mixed = dict.fromkeys(WordPair().possible_agents, ScriptedPolicy(script))
    result = evaluate_team(lambda: WordPair(turns=1), mixed, n_tasks=3, samples=4)
    assert result.success == 0.25  # one of four samples of each task
    assert result.pass_at_k == {1: 0.25, 2: 0.5, 4: 1.0}
    assert result.tasks[0].solved == (True, False, False, False)
    assert result.tasks[0].returns == (1.0, 0.0, 0.0, 0.0)


class Counting:
    """Says "ab" and claims to have read 10 and written 4 tokens; every second answer is cut."""

    def act(self, requests):
        return [
            Response(text="ab", usage=(10, 4), cut=request.agent == "left_0")
            for request in requests
        ]


def test_cost_and_faults_by_hand():
    mixed = {"left_0": Counting(), "right_0": ScriptedPolicy(lambda r: "x" * 300)}
    result = evaluate_team(WordPair, mixed, n_tasks=3)
    cost, faults = result.cost, result.faults
    assert cost.turns_per_agent == 2.0
    assert cost.chars == 2 * 2 + 2 * 300
    assert (cost.prompt_tokens, cost.completion_tokens) == (20.0, 8.0)  # only one agent counts
    assert cost.seconds is not None
    assert cost.tokens_per_second == pytest.approx(8 * 3 / cost.seconds)
    assert cost.text_balance == pytest.approx(2 * 4 / 604)
    assert faults.cut_actions == 0.5
    assert faults.overlong_actions == 0.5  # 300 of 200 characters
    assert faults.truncated_episodes == 0.0
    assert faults.unreadable_actions is None
    assert result.cooperation is not None
    assert result.cooperation.mean == pytest.approx(-1.0)  # nothing, where one seat could get half
    silent = evaluate_team(WordPair, team("lower", "lower"), n_tasks=3)
    assert silent.cost.completion_tokens is None
    assert silent.cost.tokens_per_second is None


def test_truncated_episodes_are_counted():
    env = BareAEC()
    policies = dict.fromkeys(env.possible_agents, ScriptedPolicy(lambda request: "hello"))
    result = evaluate_team(BareAEC, policies, n_tasks=2)
    assert result.faults.truncated_episodes == 1.0
    assert result.success is None
    assert result.pass_at_k == {}
    assert [task.task_id for task in result.tasks] == ["#0", "#1"]


def turn(agent: str, index: int, **info: Any) -> Turn:
    return Turn(
        agent=agent, index=index, messages=(), response=Response(text="x"), reward=0.0, info=info
    )


def known(*turns: Turn) -> Episode:
    return Episode(
        env_id="e",
        env_kwargs={},
        task_id="t",
        seed=0,
        agents=tuple(dict.fromkeys(one.agent for one in turns)),
        turns=turns,
        stop_reason=StopReason.TERMINATED,
        success=True,
    )


def test_what_environments_say_of_unreadable_actions():
    half = known(turn("a_0", 0, readable=True), turn("b_0", 0, readable=False))
    whole = known(turn("a_0", 0), turn("b_0", 0, readable=True), turn("c_0", 0, readable=True))
    both = summarise([half, whole], 1)
    assert both.faults.unreadable_actions == 0.25  # one of the four that had to have a form
    assert both.faults.format_success == 0.5
    silent = summarise([known(turn("a_0", 0), turn("b_0", 0))], 1)
    assert silent.faults.unreadable_actions is silent.faults.format_success is None


def test_agreement_is_of_the_last_answers_that_were_asked_for():
    changed = known(
        turn("a_0", 0, answer=None),
        turn("b_0", 0, answer="4"),
        turn("c_0", 0),
        turn("a_0", 1, answer="4.0"),
        turn("b_0", 1, answer=None),
        turn("c_0", 1),
    )
    assert summarise([changed], 1).answer_agreement == 0.0
    agreed = known(turn("a_0", 0, answer="4.0"), turn("b_0", 0, answer="4"), turn("c_0", 0))
    assert summarise([agreed], 1).answer_agreement == 1.0
    alone = known(turn("a_0", 0, answer="4"), turn("b_0", 0))
    assert summarise([alone], 1).answer_agreement is None


def test_numbers_of_episodes_must_fit():
    with pytest.raises(ValueError, match="1 episodes: expected a multiple of 2"):
        summarise([known(turn("a_0", 0))], 2)
    with pytest.raises(ValueError, match="0 episodes"):
        summarise([], 1)
    with pytest.raises(ValueError, match="none twice"):
        evaluate_team(WordPair, team(None, None), n_tasks=1, seed=[1, 1])


def test_an_empty_split_is_named():
    class Empty(ListSource):
        def __len__(self) -> int:
            return 0

    class EmptyPair(WordPair):
        def __init__(self) -> None:
            super().__init__()
            self.source = Empty([word_tasks()[0]], "val")

    with pytest.raises(ValueError, match="the split 'val' is empty"):
        evaluate_team(EmptyPair, team(None, None))


def test_a_result_becomes_json_and_a_table(tmp_path: Path):
    result = evaluate_team(WordPair, team("lower", "upper"), n_tasks=8, samples=2)
    summary = result_to_dict(result)
    write_json(tmp_path / "summary.json", summary)
    assert read_result(tmp_path) == summary
    table = result_table({"expert": summary, "again": summary})
    assert "mean return  " in table
    assert table.count("1.00 [0.59, 1.00]") == 6  # return, success, index: 8 / (8 + 2.365^2)
    few = result_to_dict(evaluate_team(WordPair, team("lower", "upper"), n_tasks=4))
    assert (few["success_ci95"], few["return_ci95"]) == (None, None)
    write_json(tmp_path / "summary.json", few)
    assert result_table({"x": read_result(tmp_path)}).count("1.00 [too few tasks: 4]") == 3
    assert "pass@2" in table
    assert "term words" in table
    assert "tokens written" not in table  # nobody counts them
    assert len({len(line) for line in table.splitlines()}) == 1


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_return_that_is_no_number_names_its_episode(reward: float):
    bad = Turn(agent="a_0", index=0, messages=(), response=Response(text="x"), reward=reward)
    with pytest.raises(ValueError, match="task 't', reset seed 0: the return is"):
        summarise([known(bad)], 1)


def test_a_match_is_counted_where_seats_show_a_convention():
    """Lower-case words with upper-case ones agree where only one case is possible: in 10 of 30."""
    seats = zip(SameCase().possible_agents, ("lower", "upper"), strict=True)
    split = {agent: ExpertPolicy(SameCase(), case) for agent, case in seats}
    apart = evaluate_team(SameCase, split, n_tasks=30).episodes
    assert convention_match(SameCase(), apart) == pytest.approx(1 / 3)
    (choice,) = match_by_choice(SameCase(), apart)
    assert (choice.conventions, choice.matching, choice.episodes) == (("lower", "upper"), 0, 20)
    passed_on = dict.fromkeys(Relay().possible_agents, ExpertPolicy(Relay()))
    relay = evaluate_team(Relay, passed_on, n_tasks=2).episodes
    assert convention_match(Relay(), relay) is None
    assert match_by_choice(Relay(), relay) == []


def test_a_seat_that_cannot_show_a_convention_is_no_mismatch():
    """The scorer of `solve_and_evaluate` reports nothing; the others follow one shorthand."""
    env = make("solve_and_evaluate-v0")
    shorthand = experts_of(env).conventions(env.source[0])[0]
    agreed = dict.fromkeys(env.possible_agents, ExpertPolicy(env, shorthand))
    episodes = evaluate_team(env, agreed, n_tasks=1).episodes
    assert convention_match(env, episodes) == 1.0
