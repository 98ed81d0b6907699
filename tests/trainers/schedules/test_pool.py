"""Pools of past selves and opponents: who plays whom, who learns, and that nothing else moves."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.models import make_trainer, weights
from support.toys import Lower

from llm_marl_envs.core.records import EpisodeGroup
from trainers import MAGRPOConfig
from trainers.engines.base import Draw
from trainers.engines.generate import GenerateEngine
from trainers.schedules.pool import Match, Pool, Sampled, checked

pytestmark = pytest.mark.full  # `make test-all` runs it

SEATS = ("left_0", "right_0")
MODES: dict[str, dict[str, Any]] = {
    "adapters": {},
    "shared": {"adapters": False},
    "shared adapter": {"weights": "shared"},
    "separate": {"adapters": False, "weights": "separate"},
}
FEW_MODES = [
    mode if mode == "adapters" else pytest.param(mode, marks=pytest.mark.long) for mode in MODES
]
PLAN: dict[str, Any] = {"tasks_per_update": 4, "num_generations": 2, "credit": "own"}


class Nobody:
    """Present weights always play, and past selves are kept none the less."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def line_up(self, match: Match) -> Mapping[str, str]:
        return {}


class Newest(Nobody):
    """The newest past self plays every seat beside the learner."""

    def line_up(self, match: Match) -> Mapping[str, str]:
        others = (seat for seat in match.seats if seat != match.learner)
        return {seat: match.past[seat][-1] for seat in others if match.past[seat]}


class Wrong(Nobody):
    def line_up(self, match: Match) -> Mapping[str, str]:
        return {"left_0": "right_0@0"}


def name(kind: type) -> str:
    return f"{__name__}:{kind.__name__}"


def match(**changes: Any) -> Match:
    past = {"a_0": ("a@0", "a@5"), "b_0": (), "c_0": ("c@0",)}
    match = {"seed": 1, "update": 7, "learner": "a_0", "seats": ("a_0", "b_0", "c_0")}
    return Match(**{**match, "past": past, "opponents": ("expert",), **changes})


# -- who plays whom --------------------------------------------------------------------------------
def test_seats_beside_the_learner_are_drawn_with_the_given_chances():
    strategy = Sampled(Pool(past=0.5, opponents={"expert": 0.2}))
    drawn = [strategy.line_up(match(seed=seed)) for seed in range(4000)]
    assert all("a_0" not in line_up for line_up in drawn)
    of_c = Counter(line_up.get("c_0", "present") for line_up in drawn)
    assert of_c.keys() == {"c@0", "expert", "present"}
    # Three standard deviations of 4000 draws are 0.024 at most.
    assert abs(of_c["c@0"] / 4000 - 0.5) < 0.024
    assert abs(of_c["expert"] / 4000 - 0.2) < 0.024
    of_b = Counter(line_up.get("b_0", "present") for line_up in drawn)
    assert of_b.keys() == {"expert", "present"}  # it has no past self yet
    assert drawn[:50] == [strategy.line_up(match(seed=seed)) for seed in range(50)]
    of_a = Counter(strategy.line_up(match(seed=s, learner="b_0")).get("a_0") for s in range(4000))
    assert abs(of_a["a@0"] / 4000 - 0.25) < 0.024
    assert abs(of_a["a@5"] / 4000 - 0.25) < 0.024


def test_chances_may_be_all_or_nothing():
    assert Sampled(Pool(past=0.0)).line_up(match()) == {}
    both = Sampled(Pool(past=1.0)).line_up(match())
    assert both == {"c_0": "c@0"}
    third = Pool(past=1 / 3, opponents={"expert": 1 / 3, "random": 1 / 3})
    assert all("c_0" in Sampled(third).line_up(match(seed=seed)) for seed in range(300))


@pytest.mark.parametrize(
    ("line_up", "words"),
    [
        ({"c_0": "c@5"}, "'c@5' cannot play 'c_0'.*one of .'c@0', 'expert'"),
        ({"d_0": "expert"}, "'expert' cannot play 'd_0'"),
        ({"a_0": "expert", "b_0": "expert", "c_0": "expert"}, "nobody is left to learn"),
    ],
)
def test_a_line_up_that_cannot_play_is_refused(line_up: Any, words: str):
    with pytest.raises(ValueError, match=words):
        checked(line_up, match(), "mine")
    with pytest.raises(TypeError, match="expected a map"):
        checked([], match(), "mine")  # type: ignore[arg-type]


def test_which_past_self_goes_when_there_is_no_room():
    assert Pool().leaving(1, "a", 40, 5) == 0
    drawn = [Pool(full="random").leaving(1, "a", update, 5) for update in range(200)]
    assert set(drawn) == {0, 1, 2, 3, 4}
    assert drawn[:9] == [Pool(full="random").leaving(1, "a", update, 5) for update in range(9)]


# -- what is refused -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"every": 0}, "every=0: expected a whole number, at least 1"),
        ({"size": 0}, "size=0: expected a whole number, at least 1"),
        ({"full": "newest"}, "expected one of .*oldest"),
        ({"past": 1.5}, "past=1.5: expected a number, 0 to 1"),
        ({"past": 0.6, "opponents": {"expert": 0.5}}, "together at most 1"),
        ({"strategy": "sampeld"}, "no strategy 'sampeld'; did you mean 'sampled'"),
        ({"pst": 0.5}, "unknown key 'pst'"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_when_the_run_is_configured(given: Any, words: str):
    with pytest.raises(ValueError, match=words):
        MAGRPOConfig("runs/none", schedules={"pool": given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"opponents": {"expert": "often"}},
            "opponents, expert=.*often.*: expected a number",
        ),
        ({"strategy": "math:pi"}, "expected a class or function that takes the Pool"),
        ({"strategy": "builtins:repr"}, "gives an object with line_up"),
    ],
    ids=str,
)
def test_settings_of_the_wrong_kind_are_refused(given: Any, words: str):
    with pytest.raises(TypeError, match=words):
        MAGRPOConfig("runs/none", schedules={"pool": given})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"frozen": ["left_0"]}, "only trained seat.*leave the pool out"),
        ({"schedules": {"pool": {}, "exchange": {}}}, "expected pool or exchange, not both"),
        ({"algorithm": "magrpo_tree"}, "samples branches.*algorithm: magrpo"),
        ({"engine": {"name": "vllm", "urls": ["http://localhost:1"]}}, "set engine: generate"),
        ({"shard_weights": True}, "leave shard_weights out"),
        ({"policies": {"left_0": "a@1", "right_0": "b"}}, "'@' marks past selves"),
        ({"schedules": {"pool": {"opponents": {"experte": 0.1}}}}, "no policy 'experte'"),
    ],
    ids=str,
)
def test_a_run_that_cannot_have_a_pool_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
):
    with pytest.raises(ValueError, match=words):
        make_trainer(tmp_path, Lower, **{"schedules": {"pool": {}}, **changes})


def test_a_strategy_that_seats_a_stranger_is_named(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower, schedules={"pool": {"strategy": name(Wrong)}})
    with pytest.raises(ValueError, match=r"update 0: 'right_0@0' cannot play 'left_0'"):
        trainer.train()


# -- nothing else moves ----------------------------------------------------------------------------
@pytest.mark.parametrize("mode", FEW_MODES)
@pytest.mark.parametrize(
    "pool",
    [
        pytest.param({"past": 0.0}, marks=pytest.mark.long),
        {"every": 1, "size": 2, "strategy": name(Nobody)},
    ],
    ids=["chance 0", "kept and never asked"],
)
def test_a_pool_that_never_plays_changes_no_bit(tmp_path: Path, mode: str, pool: dict[str, Any]):
    plan = {**PLAN, **MODES[mode], "max_steps": 4, "weight_decay": 0.1}
    plain = make_trainer(tmp_path / "a", Lower, **plan)
    plain.train()
    pooled = make_trainer(tmp_path / "b", Lower, **plan, schedules={"pool": pool})
    pooled.train()
    assert len(pooled.players.names) == (0 if "past" in pool else 2 * len(plain.team.policies))
    for policy, value in weights(plain).items():
        assert torch.equal(value, weights(pooled)[policy]), policy
    states = [trainer.optimizer.state_dict()["state"] for trainer in (plain, pooled)]
    assert states[0].keys() == states[1].keys()
    for key, state in states[0].items():
        assert all(
            torch.equal(torch.as_tensor(v), torch.as_tensor(states[1][key][n]))
            for n, v in state.items()
        )


@pytest.mark.parametrize("mode", MODES)
def test_a_past_self_says_what_its_policy_said(tmp_path: Path, mode: str):
    """Beside present weights in one batch, after they have moved; and it moves nothing."""
    trainer = make_trainer(tmp_path, Lower, **MODES[mode])
    team, (first, *_) = trainer.team, trainer.team.policies
    engine = GenerateEngine(team)
    with torch.no_grad():  # an adapter that adds nothing would be the base whatever is switched
        for parameter in team.parameters(first):
            parameter.add_(torch.randn(parameter.shape, generator=torch.manual_seed(1)) * 0.1)

    def said(policy: str) -> list[Any]:
        draws = [Draw(policy, (1, 5 + seed, 9), seed) for seed in range(8)]
        return engine.sample(draws, max_tokens=6, temperature=1.0)

    before = said(first)
    random_state = torch.get_rng_state()
    team.keep(first, f"{first}@0")
    assert torch.equal(random_state, torch.get_rng_state())
    with torch.no_grad():
        for parameter in team.parameters(first):
            parameter.mul_(-3)
    now, trained = said(first), weights(trainer)
    assert [action.ids for action in now] != [action.ids for action in before]
    draws = [Draw(p, (1, 5 + s, 9), s) for s in range(8) for p in (first, f"{first}@0")]
    mixed = engine.sample(draws, max_tokens=6, temperature=1.0)
    assert [action.ids for action in mixed[::2]] == [action.ids for action in now]
    assert [action.ids for action in mixed[1::2]] == [action.ids for action in before]
    for policy, value in weights(trainer).items():
        assert torch.equal(value, trained[policy])
    team.activate(first)
    assert all(p.requires_grad for policy in team.policies for p in team.parameters(policy))
    assert mode != "adapters" or not any(p.requires_grad for p in team.kept(f"{first}@0"))
    team.forget(f"{first}@0")
    assert [action.ids for action in said(first)] == [action.ids for action in now]


# -- who learns ------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", MODES)
def test_seats_of_a_past_self_teach_nothing_and_seats_take_turns(tmp_path: Path, mode: str):
    pool = {"pool": {"every": 2, "size": 2, "past": 1.0}}
    trainer = make_trainer(tmp_path, Lower, **PLAN, **MODES[mode], schedules=pool)
    own = trainer.team.policy_of
    for update in range(3):
        trainer._step = update * trainer._per_rollout
        trainer.players.keep(update)
        groups, inputs, advantages = trainer._experience()
        for place, group in enumerate(groups):
            learner = SEATS[(update * 4 + place) % 2]
            acted = {(t.agent, t.response.policy) for e in group.episodes for t in e.turns}
            other = {"left_0": "right_0", "right_0": "left_0"}[learner]
            past = {0: set(), 1: {0}, 2: {0}}[update]
            if not past:
                assert acted == set(own.items())
                assert inputs.alive[place].any(axis=(0, 2)).tolist() == [True, True]
                continue
            assert acted == {(learner, own[learner]), (other, f"{own[other]}@0")}
            assert inputs.alive[place].any(axis=(0, 2)).tolist() == [a == learner for a in SEATS]
            assert not inputs.returns[place, :, SEATS.index(other)].any()
            assert not inputs.rewards[place, :, SEATS.index(other)].any()
            assert not advantages[place, :, SEATS.index(other)].any()
            # Two episodes: what one is above the other, the other is below.
            first, second = advantages[place, :, SEATS.index(learner)]
            np.testing.assert_allclose(first[:1], -second[:1])
        rows = {label for batch in trainer._new_batches() for label in batch["labels"]}
        counted = Counter(label.rpartition(" ")[2] for label in rows - {"padding"})
        assert counted == (
            {"left_0": 8, "right_0": 8} if update == 0 else {"left_0": 4, "right_0": 4}
        )
        logged = trainer.players.logged(update)
        assert sum(logged.values()) == 8  # 4 groups of two seats
        assert logged["pool/present"] == (8 if update == 0 else 4)
    assert trainer.team.policy_of == own
    assert trainer.token_policy.stand_ins == {}


@pytest.mark.parametrize(
    "algorithm",
    ["magrpo", "central_critic"]
    + [
        pytest.param(algorithm, marks=pytest.mark.long)
        for algorithm in ("dr_mas", "rejection", "mappo")
    ],
)
def test_advantages_are_those_of_the_learners_alone(tmp_path: Path, algorithm: str):
    """Whatever a past self earned; a critic must not learn from its turns either."""
    schedules = {"pool": {"every": 1, "past": 1.0}}
    judged = []
    for bonus in (0.0, 100.0):
        trainer = make_trainer(
            tmp_path / str(bonus), Lower, **PLAN, algorithm=algorithm, schedules=schedules
        )
        trainer.players.keep(0)
        for update in (1, 2):
            trainer._step = update * trainer._per_rollout
            groups = [_paid_more(group, bonus) for group in trainer.stage.once(update)]
            judged.append(trainer.collector.judge(update, groups)[1])
    for paid, other in zip(judged[:2], judged[2:], strict=True):
        assert paid.any()
        np.testing.assert_array_equal(paid, other)


def _paid_more(group: EpisodeGroup, bonus: float) -> EpisodeGroup:
    """The group, its past selves paid more."""

    def more(turn: Any) -> Any:
        past = "@" in turn.response.policy
        return dataclasses.replace(turn, reward=turn.reward + bonus) if past else turn

    episodes = (
        dataclasses.replace(episode, turns=tuple(map(more, episode.turns)))
        for episode in group.episodes
    )
    return dataclasses.replace(group, episodes=tuple(episodes))


def test_an_opponent_plays_its_share_under_its_name(tmp_path: Path):
    pool = {"pool": {"past": 0.0, "opponents": {"expert:lower": 0.5, "random": 0.5}}}
    trainer = make_trainer(tmp_path, Lower, **PLAN, max_steps=2, schedules=pool, transcript_every=1)
    trainer.train()
    for update in range(2):
        line_ups = trainer.players.line_ups(update)
        assert [next(iter(line_up)) for line_up in line_ups] == ["right_0", "left_0"] * 2
        log = trainer.state.log_history[update]
        counted = Counter(seat for line_up in line_ups for seat in line_up.values())
        assert {n: log[f"pool/{n}"] for n in counted} == counted
        assert log["pool/present"] == 4
        lines = (tmp_path / f"transcripts/update-{update:06d}.jsonl").read_text().splitlines()
        assert len(lines) == 2  # the first group's episodes have the same line-up
        for turn in [turn for line in lines for turn in json.loads(line)["turns"]]:
            opponent = line_ups[0].get(turn["agent"])
            assert turn["response"]["policy"] == (opponent or turn["agent"])
            assert ("tokens" in turn) is (opponent is None)


def test_line_ups_are_a_function_of_seed_update_and_task(tmp_path: Path):
    pool = {"pool": {"past": 0.0, "opponents": {"random": 0.5}}}
    runs = {
        (n, seed): make_trainer(tmp_path / f"{n}-{seed}", Lower, **PLAN, schedules=pool, seed=seed)
        for n, seed in ((0, 1), (1, 1), (0, 2))
    }
    line_ups = {
        key: [trainer.players.line_ups(u) for u in range(30)] for key, trainer in runs.items()
    }
    assert line_ups[0, 1] == line_ups[1, 1] != line_ups[0, 2]
    assert len({str(line_up) for line_up in line_ups[0, 1]}) > 5


def test_only_those_in_turn_are_learners(tmp_path: Path):
    schedules = {
        "pool": {"past": 0.0, "opponents": {"random": 1.0}},
        "in_turn": {"order": [["right_0"]]},
    }
    trainer = make_trainer(tmp_path, Lower, **PLAN, schedules=schedules)
    assert trainer.players.line_ups(3) == [{"left_0": "random"}] * 4


def test_the_rule_on_the_page_plays(tmp_path: Path):
    page = (Path(__file__).parents[3] / "docs" / "training_settings.md").read_text()
    block = re.search(r"```python\n(class Newest.*?)```", page, re.S)
    assert block is not None
    namespace: dict[str, Any] = {}
    exec(block[1], namespace)  # our own page
    rule = namespace["Newest"](Pool())
    assert rule.line_up(match(seed=3)) == {"c_0": "c@0"}
    assert rule.line_up(match(seed=3, learner="c_0")) == {"a_0": "a@5"}
    assert rule.line_up(match(seed=4)) == {}


def test_each_process_seats_the_line_ups_of_its_own_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trainer = make_trainer(tmp_path, Lower, **PLAN, schedules={"pool": {"past": 1.0, "every": 1}})
    trainer.players.keep(0)
    alone = trainer.players.line_ups(1)
    monkeypatch.setattr(MAGRPOConfig, "world_size", 2)
    for rank in (0, 1):
        monkeypatch.setattr(MAGRPOConfig, "process_index", rank)
        assert trainer.players.line_ups(1) == alone
        with trainer.players.seated(1):
            seated = dict(trainer.token_policy.stand_ins)
        for number in range(4):  # two groups of two episodes
            line_up = alone[2 * rank + number // 2]
            assert {seat: name for (e, seat), name in seated.items() if e == number} == line_up


# -- checkpoints -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mode", "full", "iterations"),
    [
        pytest.param("adapters", "oldest", 1, marks=pytest.mark.long),
        ("adapters", "random", 2),
        pytest.param("shared", "random", 1, marks=pytest.mark.long),
        ("separate", "oldest", 1),
    ],
)
def test_resumed_equals_unbroken_with_a_pool(tmp_path: Path, mode: str, full: str, iterations: int):
    pool = {"pool": {"every": 1, "size": 2, "full": full, "past": 1.0}}
    plan = {**PLAN, **MODES[mode], "schedules": pool, "num_iterations": iterations}
    plan |= {"max_steps": 7, "save_strategy": "steps", "save_steps": 5}
    unbroken = make_trainer(tmp_path, Lower, **plan)
    unbroken.train()
    resumed = make_trainer(tmp_path, Lower, **plan)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert resumed.players.kept == unbroken.players.kept
    for past in unbroken.players.names:
        for weight, other in zip(unbroken.team.kept(past), resumed.team.kept(past), strict=True):
            assert torch.equal(weight, other)
    for policy, value in weights(resumed).items():
        assert torch.equal(value, weights(unbroken)[policy]), policy
    logs = unbroken.state.log_history
    played = {key for log in logs for key, count in log.items() if "@" in key and count}
    assert len(played) >= 2, "past selves never played"


def test_past_selves_are_written_once_and_lie_in_every_checkpoint(tmp_path: Path):
    pool = {"pool": {"every": 2, "size": 2, "past": 0.5}}
    plan = {**PLAN, "schedules": pool, "max_steps": 6, "save_strategy": "steps", "save_steps": 1}
    trainer = make_trainer(tmp_path, Lower, **plan)
    trainer.train()

    def files(step: int) -> dict[str, int]:
        files = (tmp_path / f"checkpoint-{step}" / "pool").glob("*")
        return {path.name: os.stat(path).st_ino for path in files}

    assert files(1).keys() == {f"{seat}@0.safetensors" for seat in SEATS}
    assert files(4).keys() == {f"{seat}@{n}.safetensors" for seat in SEATS for n in (0, 2)}
    assert files(6).keys() == {f"{seat}@{n}.safetensors" for seat in SEATS for n in (2, 4)}
    for step in range(1, 6):
        before, after = files(step), files(step + 1)
        assert all(after[name] == before[name] for name in before.keys() & after.keys())
    resumed = make_trainer(tmp_path, Lower, **{**plan, "max_steps": 7})
    resumed.train(resume_from_checkpoint=True)
    assert files(7).items() >= {n: i for n, i in files(6).items() if "@4" in n}.items()
    # A whole team is saved without them.
    resumed.save_team(tmp_path / "team")
    assert not (tmp_path / "team" / "pool").exists()


def test_another_saved_team_under_an_opponents_name_is_another_run(tmp_path: Path):
    folder = tmp_path / "opponent"
    make_trainer(tmp_path / "x", Lower, adapters=False).save_team(folder)
    pool = {"pool": {"past": 0.0, "opponents": {str(folder): 0.5}}}
    plan = {**PLAN, "schedules": pool, "save_strategy": "steps", "save_steps": 1}
    trainer = make_trainer(tmp_path / "run", Lower, **plan)
    trainer.train()
    assert trainer.state.log_history[0][f"pool/{folder}"] > 0
    other = make_trainer(tmp_path / "y", Lower, adapters=False, max_steps=1)
    other.train()
    other.save_team(folder)
    again = make_trainer(tmp_path / "run", Lower, **{**plan, "max_steps": 3})
    with pytest.raises(ValueError, match=r"partners.*pool"):
        again.train(resume_from_checkpoint=True)
