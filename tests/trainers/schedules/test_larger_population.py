"""A population larger than its seats: who plays, who learns, growth, resume, saved teams."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import make_trainer, untrained, weights
from support.toys import Lower

from llm_marl_envs.core.records import read_jsonl
from trainers.schedules.population import Members, Population
from trainers.weights.team_files import load_team

pytestmark = pytest.mark.full  # `make test-all` runs it

SEATS = ("left_0", "right_0")
PLAN: dict[str, Any] = {"tasks_per_update": 2, "num_generations": 2, "transcript_every": 1}


def members(population: Population, seats: tuple[str, ...] = SEATS) -> Members:
    return Members(population, seats, {seat: seat for seat in seats})


def trainer(folder: Path, chosen: dict[str, Any], **changes: Any) -> Any:
    return make_trainer(folder, Lower, **{**PLAN, "schedules": {"population": chosen}, **changes})


def line_ups(made: Any, update: int) -> list[dict[str, str]]:
    """Who sits where in each group of an update."""
    return made.collector.seating.line_ups(update, {})


def who_sat(made: Any, update: int) -> set[str]:
    return {name for group in line_ups(made, update) for name in group.values()}


def seated(folder: Path, update: int) -> list[dict[str, str]]:
    """Of each episode of an update's first group, which is written, who sat where."""
    file = folder / "transcripts" / f"update-{update:06d}.jsonl"
    return [
        {turn.agent: str(turn.response.policy) for turn in episode.turns}
        for episode in read_jsonl(file)
    ]


# -- who plays -------------------------------------------------------------------------------------
def test_a_lot_for_each_group_seats_every_policy_equally_often():
    own = members(Population(size=3), ("a_0", "a_1", "b_0"))
    assert own.named == {"a": ["a_0", "a_1", "a_2"], "b": ["b_0", "b_1", "b_2"]}
    assert own.resting == ["a_2", "b_1", "b_2"]
    groups = [own.line_up(update, place, 4, 7) for update in range(300) for place in range(4)]
    assert groups == [own.line_up(u, p, 4, 7) for u in range(300) for p in range(4)]
    assert groups != [own.line_up(u, p, 4, 8) for u in range(300) for p in range(4)]
    assert all(len({*group.values()}) == 3 for group in groups)
    played = Counter(name for group in groups for name in group.values())
    for name in own.named["a"]:
        assert played[name] == pytest.approx(1200 * 2 / 3, abs=60)
    for name in own.named["b"]:
        assert played[name] == pytest.approx(1200 / 3, abs=60)
    pairs = Counter((group["a_0"], group["b_0"]) for group in groups)
    assert len(pairs) == 9  # everybody meets everybody


def test_learners_and_those_who_have_stopped_sit_everywhere():
    """In a role of two seats: the one that learns for sure has either seat equally often."""
    own = members(Population(size=6, grow=1), ("a_0", "a_1"))
    update = 3  # a_0 to a_2 have stopped, a_3 and a_4 learn
    groups = [own.line_up(update, place, 2000, 7) for place in range(2000)]
    learning = own.learners(update)
    for seat in ("a_0", "a_1"):
        sat = Counter(group[seat] for group in groups)
        assert set(sat) == {f"a_{n}" for n in range(5)}
        # One of two learners has a seat for sure, the other is one of four that may have the other.
        for name in learning:
            assert sat[name] == pytest.approx(2000 * (1 / 2 + 1 / 2 * 1 / 4) / 2, abs=100)
        for name in {*sat} - learning:
            assert sat[name] == pytest.approx(2000 * (1 / 4) / 2, abs=80)


def test_roles_of_one_size_draw_apart():
    """Else each policy would only ever meet its twin of the other role."""
    own = members(Population(size=3))
    groups = [own.line_up(update, 0, 1, 7) for update in range(200)]
    assert len({(group["left_0"], group["right_0"]) for group in groups}) == 9


@pytest.mark.parametrize("per_update", [1, 3, 4])
def test_roles_take_turns_in_having_a_learner_for_sure(per_update: int):
    """Over all groups of a run, also where each update has one."""
    own = members(Population(size=6, grow=1), ("a_0", "b_0"))
    updates = range(5, 605)  # five of six have stopped
    groups = [own.line_up(u, place, per_update, 7) for u in updates for place in range(per_update)]
    for role in ("a", "b"):
        learns = [group[f"{role}_0"] == f"{role}_5" for group in groups]
        assert sum(learns) / len(groups) == pytest.approx(1 / 2 + 1 / 2 * 1 / 6, abs=0.06)
    assert all({*group.values()} & {"a_5", "b_5"} for group in groups)


def test_growth_stops_the_oldest_learner_and_begins_a_new_one():
    own = members(Population(size=4, grow=10), ("a_0", "a_1", "b_0"))
    assert own.learners(0) == own.learners(9) == {"a_0", "a_1", "b_0"}
    assert own.learners(10) == {"a_1", "a_2", "b_1"}
    assert own.learners(20) == {"a_2", "a_3", "b_2"}
    assert own.learners(30) == own.learners(999) == {"a_2", "a_3", "b_3"}
    for update, begun in ((0, 1), (10, 2), (30, 4), (99, 4)):
        groups = [own.line_up(update, place, 64, 0) for place in range(64)]
        assert {group["b_0"] for group in groups} == {f"b_{i}" for i in range(begun)}
        assert all({*group.values()} & own.learners(update) for group in groups)


def test_names_of_policies_are_no_names_of_other_seats():
    own = Members(Population(size=3), ("a_0",), {"a_0": "a_0", "a_2": "a_2"}, ("a_0", "a_1", "a_2"))
    assert own.named == {"a": ["a_0", "a_3", "a_4"]}


# -- who learns ------------------------------------------------------------------------------------
@pytest.mark.parametrize("credit", ["team", "own"])
def test_those_who_sit_learn_and_those_who_rest_are_exactly_as_they_were(
    tmp_path: Path, credit: str
):
    made = trainer(tmp_path, {"size": 4}, max_steps=1, credit=credit, weight_decay=0.1)
    names = [f"{role}_{i}" for role in ("left", "right") for i in range(4)]
    assert sorted(made.team.policies) == names
    start = weights(made)
    assert len({tuple(value.tolist()) for value in start.values()}) == 8
    made.train()
    groups, now, sat = line_ups(made, 0), weights(made), who_sat(made, 0)
    assert seated(tmp_path, 0) == [groups[0]] * 2
    assert 2 <= len(sat) < 8
    for name in names:
        assert torch.equal(now[name], start[name]) is (name not in sat)
        state = [made.optimizer.state[p] for p in made.team.parameters(name)]
        assert bool(state[0]) is (name in sat)
    log = made.state.log_history[0]
    played = Counter(name for group in groups for name in group.values())
    assert {name: log[f"population/{name}"] for name in names} == {
        name: played[name] for name in names
    }


def test_advantages_are_told_of_who_began_and_turns_say_who_acted(tmp_path: Path):
    made = trainer(tmp_path, {"size": 3}, max_steps=2)
    given: list[Any] = []
    algorithm = made.collector.algorithm
    advantages = algorithm.advantages

    def noted(inputs: Any) -> Any:
        given.append(inputs)
        return advantages(inputs)

    algorithm.advantages = noted
    made.train()
    assert len(given) == 2
    for update, inputs in enumerate(given):
        assert dict(inputs.policies) == {seat: seat for seat in SEATS}
        sat = line_ups(made, update)
        assert any(group != inputs.policies for group in sat)
        for group, seats in zip(inputs.groups, sat, strict=True):
            for episode in group.episodes:
                assert {turn.agent: turn.response.policy for turn in episode.turns} == seats


def test_costs_count_what_everybody_said(tmp_path: Path):
    made = trainer(tmp_path, {"size": 3, "grow": 1}, max_steps=3)
    played: list[Any] = []
    play = made.collector.play

    def noted(update: int, team: Any) -> Any:
        groups = play(update, team)
        played.extend(turn for group in groups for e in group.episodes for turn in e.turns)
        return groups

    made.collector.play = noted
    made.train()
    assert made.costs.tokens == sum(len(turn.response.completion_ids) for turn in played) > 0


GROWING: dict[str, Any] = {"size": 3, "grow": 2}


def test_growth_moves_learners_alone_and_a_resumed_run_is_the_same(tmp_path: Path):
    run: dict[str, Any] = {"max_steps": 5, "save_strategy": "steps", "save_steps": 1}
    whole = trainer(tmp_path / "run", GROWING, **run)
    points = [weights(whole)]
    step = whole._after_step

    def noted() -> None:
        step()
        points.append(weights(whole))

    whole.callback_handler.callbacks = [
        type(one)(noted) if type(one).__name__ == "AfterStep" else one
        for one in whole.callback_handler.callbacks
    ]
    whole.train()
    own = whole.collector.seating.members
    assert len(points) == 6
    for update, (before, after) in enumerate(zip(points, points[1:], strict=False)):
        learners = own.learners(update)
        sat = who_sat(whole, update)
        assert seated(tmp_path / "run", update)[0] == line_ups(whole, update)[0]
        for name, value in after.items():
            assert torch.equal(value, before[name]) is (name not in learners & sat)
    elders = {"left_0", "left_1", "right_0", "right_1"}
    assert any(who_sat(whole, update) & elders - own.learners(update) for update in (2, 3, 4))
    for number in (1, 3):
        resumed = trainer(tmp_path / "run", GROWING, **run)
        resumed.train(resume_from_checkpoint=str(tmp_path / "run" / f"checkpoint-{number}"))
        for name, value in weights(resumed).items():
            assert torch.equal(value, points[-1][name])


def test_a_saved_team_holds_everybody(tmp_path: Path):
    made = trainer(tmp_path / "run", {"size": 3}, max_steps=1)
    made.train()
    made.save_team(tmp_path / "team")
    told = json.loads((tmp_path / "team" / "team.json").read_text())
    assert told["agents"] == {"left_0": "left_0", "right_0": "right_0"}
    assert told["resting"] == ["left_1", "left_2", "right_1", "right_2"]
    base = tmp_path / "base"
    untrained()[0].save_pretrained(base)  # what the adapters were put on
    team = load_team(tmp_path / "team", base=str(base))
    assert team.policies == made.team.policies
    for name in team.policies:
        pairs = zip(team.parameters(name), made.team.parameters(name), strict=True)
        assert all(torch.equal(own, other) for own, other in pairs)
    told["resting"] = ["../elsewhere"]
    (tmp_path / "team" / "team.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match="elsewhere"):
        load_team(tmp_path / "team")


# -- what does not go together ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("chosen", "changes", "match"),
    [
        ({"size": 1}, {}, "size"),
        ({"size": 3, "grow": 0}, {}, "grow"),
        ({"grow": 3}, {}, "grow"),
        ({"size": 3}, {"adapters": False, "weights": "separate"}, "adapters"),
        ({"size": 3}, {"adapters": False}, "adapters"),
        ({"size": 3}, {"weights": "shared"}, "adapters"),
        ({"size": 3}, {"algorithm": "c3_sim"}, "branches"),
        ({"size": 3}, {"more": {"pool": {}}}, "pool"),
        ({"size": 3}, {"more": {"exchange": {}}}, "exchange"),
        ({"size": 3}, {"more": {"sequential": {}}, "num_iterations": 2}, "sequential"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, chosen: dict[str, Any], changes: dict[str, Any], match: str
):
    more = {**changes}
    schedules = {"population": chosen, **more.pop("more", {})}
    with pytest.raises(ValueError, match=match):
        make_trainer(tmp_path, Lower, **{**PLAN, "schedules": schedules, **more})


def test_a_size_below_the_seats_is_refused():
    seats = ("a_0", "a_1", "a_2")
    for size in (2, 3):
        with pytest.raises(ValueError, match=f"size={size}"):
            Population(size=size).check(seats, {seat: seat for seat in seats})


def test_it_goes_with_in_turn_and_frozen_seats(tmp_path: Path):
    turns = {"population": {"size": 3}, "in_turn": {"order": [["left_0"]]}}
    made = make_trainer(tmp_path / "turns", Lower, **{**PLAN, "schedules": turns, "max_steps": 1})
    start = weights(made)
    made.train()
    sat = {group["left_0"] for group in line_ups(made, 0)}
    for name, value in weights(made).items():
        assert torch.equal(value, start[name]) is (name not in sat)
    made = trainer(tmp_path / "frozen", {"size": 2}, frozen=["right_0"], max_steps=2)
    start = weights(made)
    assert sorted(start) == ["left_0", "left_1", "right_0"]
    made.train()
    assert torch.equal(weights(made)["right_0"], start["right_0"])


def test_a_critic_has_a_head_for_each_and_those_of_who_sat_learn(tmp_path: Path):
    chosen = {"name": "iac", "critic": "head", "rate": 1e-2}
    made = trainer(tmp_path, {"size": 4}, max_steps=1, algorithm=chosen)
    heads = made.collector.algorithm.critic.heads
    assert set(heads) == set(made.team.policies)
    made.train()
    sat = who_sat(made, 0)
    assert 2 <= len(sat) < 8
    assert {name for name, head in heads.items() if head.any()} == sat


def test_who_rests_goes_on_with_a_critic_of_words_and_with_difficulty(tmp_path: Path):
    """Pairs that read what episodes earned, not who sat."""
    made = make_trainer(
        tmp_path,
        Lower,
        **PLAN,
        schedules={"population": {"size": 3}, "difficulty": {"highest": 0.9}},
        algorithm={"name": "central_critic", "critic": "words"},
        max_steps=2,
    )
    start = weights(made)
    made.train()
    sat = who_sat(made, 0) | who_sat(made, 1)
    assert sat != set(start)
    for name in set(start) - sat:
        assert torch.equal(weights(made)[name], start[name])
