"""The audit of credit against enumeration, on games of two words and policies that are tables."""

from __future__ import annotations

import json
import random
import re
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import formula
from support.models import make_trainer
from support.toys import BareAEC, Lower

from benchmarks.tables import args_for
from llm_marl_envs.core.environment import Outcome, TextAECEnv, TextParallelEnv
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task
from llm_marl_envs.measure.numbers.credit import Judged
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.play.registry import make
from llm_marl_envs.policies import ScriptedPolicy, Team
from llm_marl_envs.report import write_report
from trainers.algorithms import ALGORITHMS, AdvantageInputs, algorithm_class, make_algorithm
from trainers.commands import CREDIT_AUDIT
from trainers.studies.credit_audit import Audit, AuditPlan, Stage, credit_audit
from trainers.studies.credit_estimators import Memory
from trainers.studies.credit_figures import Facts, cosine_of, figures, rank_of
from trainers.studies.credit_gradients import gram_of

pytestmark = pytest.mark.full  # `make test-all` runs it

SEATS: tuple[str, ...] = ("left_0", "right_0")
PAY = {("a", "a"): 3.0, ("a", "b"): 0.0, ("b", "a"): 1.0, ("b", "b"): 2.0}
LEFT = 0.6  # chance of "a"
RIGHT = {"a": 0.3, "b": 0.8, "": 0.5}  # by what is heard; the last where nothing is
ONE = {
    "agents": SEATS,
    "source": ListSource([Task("only", "train", {})], "train"),
    "max_turns": 1,
    "max_action_chars": 9,
    "render_mode": None,
}


def paid(left: str, right: str, own: float = 1.0) -> Outcome:
    """`own`: what the right seat gets, as a multiple of what the left one gets."""
    pay = PAY.get((left, right), 0.5)
    terms = {SEATS[0]: {"table": pay}, SEATS[1]: {"table": own * pay}}
    return Outcome(reward_terms=terms, ended=True)


class InTurn(TextAECEnv):
    metadata = {"name": "in_turn"}  # noqa: RUF012 - as PettingZoo declares it
    reward_range = (0.0, 3.0)

    def __init__(self) -> None:
        super().__init__(**ONE)

    def opening(self, task: Task) -> Any:
        return {agent: (Message("user", agent),) for agent in SEATS}

    def play_one(self, agent: str, action: str) -> Outcome:
        if agent == SEATS[0]:
            self.heard = action
            return Outcome(reward_terms={}, feedback={SEATS[1]: f"heard:{action}"})
        return paid(self.heard, action)


class AtOnce(TextParallelEnv):
    metadata = {"name": "at_once"}  # noqa: RUF012 - as PettingZoo declares it
    reward_range = (0.0, 3.0)

    def __init__(self) -> None:
        super().__init__(**ONE)

    def opening(self, task: Task) -> Any:
        return {agent: (Message("user", agent),) for agent in SEATS}

    def play(self, joint_action: Any) -> Outcome:
        return paid(*(joint_action[agent] for agent in SEATS))


class ZeroSum(AtOnce):
    reward_range = (-3.0, 3.0)

    def play(self, joint_action: Any) -> Outcome:
        return paid(*(joint_action[agent] for agent in SEATS), own=-1.0)


class Tables:
    """Says "a" or "b"."""

    def act(self, requests: Sequence[Request]) -> list[Response]:
        found = []
        for one in requests:
            heard = one.messages[-1].content.removeprefix("heard:")
            chance = LEFT if one.agent == SEATS[0] else RIGHT.get(heard, RIGHT[""])
            found.append(Response(text="a" if random.Random(one.seed).random() < chance else "b"))
        return found


def chances(probability: float) -> dict[str, float]:
    return {"a": probability, "b": 1 - probability}


def exact(env: Any, audit: Audit) -> tuple[np.ndarray, np.ndarray]:
    """The advantage of every message of an audit, and the return after it, by enumeration."""
    worth, after = [], []
    for message in audit.messages:
        heard = {t.agent: t.action for t in message.episode.turns}
        words = chances(LEFT)
        if env is InTurn and message.agent == SEATS[1]:
            left = heard[SEATS[0]]
            words = chances(RIGHT[left])
            value = {word: PAY[left, word] for word in words}
        elif message.agent == SEATS[1]:
            words = chances(RIGHT[""])
            value = {w: sum(p * PAY[x, w] for x, p in chances(LEFT).items()) for w in words}
        else:
            right = (lambda w: RIGHT[w]) if env is InTurn else (lambda w: RIGHT[""])
            value = {w: sum(p * PAY[w, x] for x, p in chances(right(w)).items()) for w in words}
        mean = sum(p * value[w] for w, p in words.items())
        worth.append(value[message.said.action] - mean)
        after.append(value[message.said.action])
    return np.array(worth), np.array(after)


def word_shown(request: Request) -> str:
    """A word of what the agent was told at first, by lot."""
    told = re.findall(r"\w+", request.messages[0].content)
    return random.Random(request.seed).choice(told)


JUDGES = ("magrpo", "magrpo_mean", "magrpo_none", "rejection", "magrpo_tree", "c3", "c3_sim")
JUDGES = (*JUDGES, "difference", "at_grpo", "rae", "marshal", "central_critic", "hysteretic")
PLAN = AuditPlan(
    points=8, messages=4, replays=48, judgements=24, size=3, copies=32, estimators=JUDGES
)
SMALL: dict[str, Any] = {"points": 2, "messages": 2, "replays": 8, "judgements": 2, "size": 2}
SMALL["memory"] = 2


def small(**changes: Any) -> AuditPlan:
    return AuditPlan(**{**SMALL, **changes})


@pytest.fixture(scope="module", params=[InTurn, AtOnce])
def audited(request: Any) -> tuple[Any, Audit]:
    stage = Stage(request.param, dict.fromkeys(SEATS, Tables()), SEATS, PLAN)
    return request.param, credit_audit(stage)


def test_references_are_those_of_enumeration(audited: Any) -> None:
    env, audit = audited
    worth, _ = exact(env, audit)
    found = np.array([message.worth for message in audit.messages])
    errors = np.array([message.error for message in audit.messages])
    assert len(audit.messages) == 32
    assert (np.abs(found - worth) <= 4 * errors + 1e-12).all()
    assert np.abs(found - worth).mean() < 0.2
    assert {message.agent for message in audit.messages} == set(SEATS)


UNBIASED = ("magrpo", "magrpo_none", "magrpo_tree", "difference", "rae", "central_critic")
UNBIASED = (*UNBIASED, "marshal")


@pytest.mark.parametrize(("env", "other"), [(InTurn, "c3_sim"), (AtOnce, "c3")])
def test_every_estimator_judges_or_says_why_not(env: Any, other: str) -> None:
    audit = credit_audit(Stage(env, dict.fromkeys(SEATS, Tables()), SEATS, small()))
    assert {*audit.refused} == {"advantage_alignment", other}
    assert "set credit: own" in audit.refused["advantage_alignment"]
    judged = {one.name for one in audit.estimators}
    baselines = {"magrpo_mean", "magrpo_none", "magrpo_max"}
    assert judged == {*ALGORITHMS.names(), *baselines} - {*audit.refused}
    assert all(np.isfinite(values).all() for values in audit.judgements.values())


def test_the_bias_of_every_estimator_is_that_of_enumeration(audited: Any) -> None:
    """None where the algorithm declares none. The sample in the mean shrinks by 1 / G."""
    env, audit = audited
    worth, _ = exact(env, audit)
    found = {one.name: one for one in audit.estimators}
    for name in (*UNBIASED, "c3" if env is InTurn else "c3_sim"):
        assert found[name].bias.mean < 0.25, name
        assert found[name].bias.ci95[0] <= found[name].bias.mean <= found[name].bias.ci95[1], name
    spread = worth.reshape(8, 4) - worth.reshape(8, 4).mean(axis=1, keepdims=True)
    shrunk = float((spread**2).mean()) ** 0.5 / PLAN.size
    noise = found["magrpo_mean"].bias_error
    assert found["magrpo_mean"].bias.mean == pytest.approx(shrunk, abs=noise)
    assert found["rejection"].bias.mean > found["rejection"].bias_error
    # A factor is bias, and no less signal.
    assert found["magrpo_mean"].signal.mean == pytest.approx(found["magrpo"].signal.mean)


def inputs_of(*returns: Any) -> AdvantageInputs:
    """One task, an episode for each return, one agent and turn."""
    earned = np.array(returns).reshape(1, -1, 1, 1)
    alive = np.ones(earned.shape, dtype=bool)
    names = {"agents": ("left_0",), "policies": {"left_0": "one"}, "groups": ()}
    return AdvantageInputs(returns=earned, rewards=earned, alive=alive, **names)


def test_a_memory_is_kept_as_it_was() -> None:
    """RAE after 4 and 2 at rate 0.5 expects 2; what it judges moves it for that group alone."""
    rae = make_algorithm({"name": "rae", "roles": "seat", "rate": 0.5}, args_for({}, 2, 0))
    memory = Memory(rae, [inputs_of(4.0, 2.0)])
    groups: Any = [10.0, 4.0]
    found = list(memory.judge(groups, lambda some: inputs_of(*some, 0.0)))
    assert [one[:, 0, 0].tolist() for one in found] == [[8.0, -6.0], [2.0, -3.0]]
    assert [one.tolist() for one in memory.judge(groups, lambda some: inputs_of(*some, 0.0))] == [
        one.tolist() for one in found
    ]


def test_what_a_memory_subtracts_is_the_same_for_all_messages(audited: Any) -> None:
    """So `rae` differs from bare returns by a number for each seat, which is not 0."""
    _, audit = audited
    for seat in SEATS:
        own = [place for place, one in enumerate(audit.messages) if one.agent == seat]
        less = audit.judgements["magrpo_none"][own] - audit.judgements["rae"][own]
        assert np.ptp(less) < 1e-9
        assert 0.3 < less.mean() < 2.2  # exact: 1.02 in turn, 1.55 at once


def test_at_grpo_compares_at_the_recorded_history(audited: Any) -> None:
    """One step before the end the turn pays all that is paid: its judgement is the advantage."""
    env, audit = audited
    worth, _ = exact(env, audit)
    last = np.array([env is AtOnce or one.agent == SEATS[1] for one in audit.messages])
    judged = audit.judgements["at_grpo"][last]
    error = judged.std(axis=1, ddof=1) / judged.shape[1] ** 0.5
    assert last.any()
    assert (np.abs(judged.mean(axis=1) - worth[last]) <= 4.5 * error + 1e-9).all()


def test_judgements_are_those_of_enumeration(audited: Any) -> None:
    """The mean judgement of each message is its advantage, up to one number for its point."""
    env, audit = audited
    worth, after = exact(env, audit)
    for name in ("magrpo_tree", "c3" if env is InTurn else "c3_sim"):
        judged = audit.judgements[name]
        error = judged.std(axis=1, ddof=1) / judged.shape[1] ** 0.5
        assert (np.abs(judged.mean(axis=1) - worth) <= 4.5 * error + 1e-9).all(), name
    blank = 0.5  # what an empty word pays, whatever the other says
    judged = audit.judgements["difference"]
    error = judged.std(axis=1, ddof=1) / judged.shape[1] ** 0.5
    expected = after - blank
    assert (np.abs(judged.mean(axis=1) - expected) <= 4.5 * error + 1e-9).all()


def test_costs_and_ranks_are_those_of_what_was_played(audited: Any) -> None:
    env, audit = audited
    found = {one.name: one for one in audit.estimators}
    # G = 3: a group takes 6 actions; each is trained on. It steps 3 times, or 6 in turn.
    assert found["magrpo"].tokens.cost == found["magrpo_mean"].tokens.cost == 1.0
    assert found["magrpo"].calls.cost == (1.0 if env is InTurn else 0.5)
    # c3, J = 4: 6 messages, each in 4 versions; after left's three alternatives right acts again.
    turns, held = 6 + 3 * 3 * 2 + 3 * 3 * 1, 6 + 6 * 3
    name = "c3" if env is InTurn else "c3_sim"
    assert found[name].tokens.cost == pytest.approx((turns if env is InTurn else held) / 24)
    assert all(0.4 < one.rank.mean <= 1 for one in audit.estimators if one.rank is not None)
    assert max(one.rank.mean for one in audit.estimators if one.rank) > 0.7


FACTS = Facts(
    points=np.array([0, 0, 0, 1]),
    worth=np.array([1.0, 0.0, 0.9, 9.0]),
    noise=np.full(4, 0.1),
    products={"one": ([0, 1], np.eye(2)), "none": ([1], np.eye(1))},
)


def test_rank_counts_pairs_that_the_reference_tells_apart() -> None:
    judged = np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 2.0], [0.0, 0.0]])
    # 3 or 0 against 1 or 0: two right, a tie, one wrong. 2 against 1 or 0: right. The third and
    # the first differ by less than two standard errors.
    assert rank_of(FACTS, judged)(np.ones(4)) == pytest.approx((2.5 / 4 + 1) / 2)
    alike = Facts(points=FACTS.points, worth=np.zeros(4), noise=FACTS.noise)
    assert rank_of(alike, judged)(np.ones(4)) is None
    assert rank_of(FACTS, judged)(np.array([0.0, 0.0, 0.0, 1.0])) is None


def by_hand(**costs: float) -> dict[str, Judged]:
    judged = np.array([[3.0, 1.0], [1.0, -1.0], [0.0, 2.0], [9.0, 9.0]])
    names = {name: {"tokens": cost, "calls": cost / 2} for name, cost in costs.items()}
    return {one.name: one for one in figures(FACTS, dict.fromkeys(costs, judged), names)}


def test_figures_by_hand() -> None:
    """Means 2, 0, 1, 9 lie 1, 0, 0.1 and 0 from the references; at point 0 0.3667 on average."""
    found = by_hand(dear=4.0, cheap=2.0)["cheap"]
    assert found.variance.mean == pytest.approx(2.0 * 3 / 4)
    assert found.offset == pytest.approx((3 * (1.1 / 3) ** 2 / 4) ** 0.5)
    squares = (1 - 1.1 / 3) ** 2 + (1.1 / 3) ** 2 + (0.1 - 1.1 / 3) ** 2
    noise = 2 / 3 * 3 * (2.0 / 2 + 0.01) / 4  # a point of one message has none
    assert found.bias_error == pytest.approx(noise**0.5)
    assert squares / 4 < noise
    assert found.bias.mean == 0.0
    # References less the mean of their point; that of point 1 has one message.
    right = [1 - 1.9 / 3, -1.9 / 3, 0.9 - 1.9 / 3]
    both = (2 * right[0] + 0 * right[1] + 1 * right[2]) / 4
    squares = ((9 + 1) / 2 + (1 + 1) / 2 + (0 + 4) / 2 + 81) / 4
    rho2 = both**2 / (squares * sum(one**2 for one in right) / 4)
    assert found.signal is not None
    assert found.signal.mean == pytest.approx(rho2 / (1 - rho2))
    # The gradient (3, 1) or (1, -1) against (1, 0), the reference of message 1 being 0.
    assert found.cosine["one"].mean == pytest.approx((3 / 10**0.5 + 1 / 2**0.5) / 2)
    assert "none" not in found.cosine


def test_a_bias_and_a_sign_by_hand() -> None:
    """Twice the references, 0.01 to each side: two points of two messages, 1 and -1, 3 and -1."""
    worth = np.array([1.0, -1.0, 3.0, -1.0])
    facts = Facts(points=np.array([0, 0, 1, 1]), worth=worth, noise=np.full(4, 0.02))
    judged = 2 * worth[:, None] + np.array([0.01, -0.01])
    costs = {name: {"tokens": 1.0, "calls": 1.0} for name in ("twice", "against")}
    twice, against = figures(facts, {"twice": judged, "against": -judged}, costs)
    # Distances 1, -1, 3, -1 less their mean at the point: 1, -1, 2, -2.
    noise = 0.5 * (2 * 0.01**2 / 2 + 0.02**2)
    assert twice.bias.mean == pytest.approx((2.5 - noise) ** 0.5)
    assert (twice.bias.ci95, twice.bias.why) == (None, "too few points: 2")
    assert twice.offset == pytest.approx((1 / 2) ** 0.5)
    assert twice.signal is not None
    assert against.signal is not None
    assert twice.signal.mean == pytest.approx(-against.signal.mean)
    assert twice.signal.mean > 0
    assert (twice.rank, against.rank) == (
        Estimate(1.0, None, 2, "too few points: 2"),
        Estimate(0.0, None, 2, "too few points: 2"),
    )


def test_prices_by_hand() -> None:
    """1000 tokens buy 500 judgements of 2 tokens; a dear one costs as much as two cheap ones."""
    found = by_hand(dear=4.0, cheap=2.0)
    cheap, dear = found["cheap"], found["dear"]
    assert cheap.tokens.variance == pytest.approx(1.5 / 500)
    assert dear.calls.variance == pytest.approx(1.5 * 2)
    assert cheap.signal is not None
    assert cheap.tokens.signal == pytest.approx(500 * cheap.signal.mean)
    assert cheap.calls.signal == pytest.approx(cheap.signal.mean)
    # Means of both judgements: 2, 0, 1 put both pairs in order; one alone is right less often.
    assert cheap.tokens.rank == 1.0
    assert dear.rank is not None
    assert dear.tokens.rank == dear.rank.mean < 1.0
    assert cheap.tokens.cosine["one"] == pytest.approx(1.0)


def test_an_interval_is_of_points() -> None:
    points = np.arange(40) // 2
    worth = np.tile([1.0, -1.0], 20)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(40, 6)) * (1 + (points[:, None] % 3))
    facts = Facts(points=points, worth=worth, noise=np.full(40, 0.01))
    (one,) = figures(facts, {"one": worth[:, None] + noise}, {"one": {"tokens": 1.0, "calls": 1.0}})
    low, high = one.variance.ci95 or (0.0, 0.0)
    assert low < one.variance.mean < high
    by_point = noise.var(axis=1, ddof=1).reshape(20, 2).mean(axis=1)
    assert high - low == pytest.approx(2 * 1.96 * by_point.std(ddof=1) / 20**0.5, rel=0.25)
    assert one.variance.n == 20


# -- whose rewards, whose messages -----------------------------------------------------------------


def test_what_one_wins_the_other_loses() -> None:
    """The team's mean never changes, which is refused; each seat's own does."""
    team: Team = dict.fromkeys(SEATS, Tables())
    with pytest.raises(ValueError, match=r"credit='team'.*nothing can be judged.*credit own"):
        credit_audit(Stage(ZeroSum, team, SEATS, small(estimators=("magrpo",))))
    judges = ("magrpo", "advantage_alignment", "c3", "marft")
    plan = small(points=6, replays=64, credit="own", estimators=judges)
    audit = credit_audit(Stage(ZeroSum, team, SEATS, plan))
    worth, _ = exact(AtOnce, audit)
    sign = np.array([1.0 if one.agent == SEATS[0] else -1.0 for one in audit.messages])
    found = np.array([one.worth for one in audit.messages])
    errors = np.array([one.error for one in audit.messages])
    assert {*sign} == {1.0, -1.0}
    assert (np.abs(found - sign * worth) <= 4 * errors + 1e-12).all()
    assert {*audit.refused} == {"c3", "marft"}


class Twice(AtOnce):
    """Two turns."""

    def __init__(self) -> None:
        TextParallelEnv.__init__(self, **{**ONE, "max_turns": 2})

    def play(self, joint_action: Any) -> Outcome:
        return replace(super().play(joint_action), feedback=dict.fromkeys(SEATS, "?"), ended=False)


def test_alignment_is_audited_with_its_further_endings() -> None:
    """First turns have no past and are judged as by magrpo; the second ones by both endings."""
    judges = ("magrpo", "advantage_alignment")
    plan = small(points=8, judgements=4, credit="own", estimators=judges)
    audit = credit_audit(Stage(Twice, dict.fromkeys(SEATS, Tables()), SEATS, plan))
    alone, aligned = (audit.judgements[name] for name in judges)
    turns = np.array([one.turn for one in audit.messages])
    seats = np.array([one.agent for one in audit.messages])
    assert np.array_equal(alone[turns == 0], aligned[turns == 0])
    for seat in SEATS:
        here = (turns == 1) & (seats == seat)
        assert (alone[here] != aligned[here]).any()


def test_only_trained_seats_are_judged() -> None:
    team: Team = dict.fromkeys(SEATS, Tables())
    plan = small(points=6, estimators=("magrpo", "c3"))
    audit = credit_audit(Stage(InTurn, team, SEATS[1:], plan))
    assert {one.agent for one in audit.messages} == {SEATS[1]}
    assert [one.name for one in audit.estimators] == ["magrpo", "c3"]
    # G = 2: two groups of two episodes with two actions, of which one is trained on.
    assert audit.estimators[0].tokens.cost == 2.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"estimators": ("magrpp",)}, "magrpo"),
        ({"estimators": ("c3",)}, r"none of the estimators \['c3'\] can judge here.*c3_sim"),
    ],
)
def test_estimators_that_are_not_there_or_cannot(changes: Any, words: str) -> None:
    stage = Stage(AtOnce, dict.fromkeys(SEATS, Tables()), SEATS, small(**changes))
    with pytest.raises(ValueError, match=words):
        credit_audit(stage)


def test_an_audit_is_a_function_of_its_seed() -> None:
    plan = small(replays=3, copies=5, estimators=JUDGES)
    team: Team = dict.fromkeys(SEATS, Tables())
    one, again = (credit_audit(Stage(InTurn, team, SEATS, plan)) for _ in range(2))
    assert one.estimators == again.estimators
    assert [m.worth for m in one.messages] == [m.worth for m in again.messages]


@pytest.mark.parametrize(
    ("name", "least"), [("points", 1), ("messages", 2), ("size", 2), ("memory", 1), ("copies", 1)]
)
def test_sizes_that_say_nothing_are_refused(name: str, least: int) -> None:
    with pytest.raises(ValueError, match=f"{name}={least - 1}: expected at least {least}"):
        small(**{name: least - 1})


# -- gradients, and the command --------------------------------------------------------------------
def test_gradients_are_those_of_the_log_prob(tmp_path: Path) -> None:
    """Inner products against the formula, and a cosine of 1 with itself."""
    trainer = make_trainer(tmp_path, Lower)
    group = trainer.collector.play(0, trainer.seating)[0]
    turns = [turn for one in group.episodes for turn in one.turns]
    products = gram_of(trainer.token_policy)(turns)
    assert [*products] == ["left_0", "right_0"]
    for name, (places, found) in products.items():
        trainer.team.activate(name)
        rows = []
        for place in places:
            trainer.model.zero_grad()
            said = turns[place].response
            one = formula.TurnOf(said.prompt_ids or (), said.completion_ids or (), 0.0)
            formula.log_probs(trainer.model, [one], 1.0).sum().backward()
            grads = [p.grad for p in trainer.team.parameters(name)]
            rows.append(torch.cat([g.flatten() for g in grads if g is not None]).double())
        expected = torch.stack(rows) @ torch.stack(rows).T
        assert np.allclose(found, expected.numpy(), rtol=1e-3, atol=1e-5)
        worth, once = np.arange(len(places), dtype=float), np.ones(len(places))
        facts = Facts(
            points=once, worth=worth, noise=once, products={name: (range(len(places)), found)}
        )
        assert cosine_of(facts, worth[:, None], name)(once) == pytest.approx(1)
        assert cosine_of(facts, -worth[:, None], name)(once) == pytest.approx(-1)


BEDS: dict[str, dict[str, Any]] = {
    "crowd": {},
    "regime": {},
    "matrix_game": {"game": "risky", "turns": 3},
    "kuhn_poker": {},
    "tic_tac_toe": {},
    "trust_split": {"pay": "team"},
}


@pytest.mark.parametrize("bed", BEDS)
def test_all_that_can_judge_do_on_every_bed(bed: str) -> None:
    """Those that branch leave branches, with chance of their own at each."""
    env = make(bed, **BEDS[bed])
    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(word_shown))
    plan = small(credit="own", points=4, replays=3, seed=1)
    stage = Stage(partial(make, bed, **BEDS[bed]), team, env.possible_agents, plan)
    audit = credit_audit(stage)
    assert audit.chance == "episode"
    branching = {name for name in ALGORITHMS.names() if algorithm_class(name).branching}
    asked = branching - {*audit.refused}
    assert {"magrpo_tree", "at_grpo"} <= asked <= {*audit.judgements}
    assert all(np.isfinite(one).all() for one in audit.judgements.values())


class Foreign(BareAEC):
    """A stranger's game without `redraw`: it pays `second_0` for each "a" that it says."""

    def step(self, action: str | None) -> None:
        seat = self.agent_selection
        super().step(action)
        if seat == "second_0" and seat in self.agents:
            self.rewards[seat] = float(action == "a")


def test_a_stranger_s_environment_is_judged_with_chance_as_recorded() -> None:
    plan = small(points=4, replays=16, credit="own", messages=3)
    seats = ("first_0", "second_0")
    audit = credit_audit(Stage(Foreign, dict.fromkeys(seats, Tables()), seats, plan))
    assert audit.chance == "group"
    assert {"magrpo_tree", "at_grpo"} <= {*audit.judgements}
    worth = [one.worth for one in audit.messages if one.said.action == "a"]
    assert max(worth) > 0.2


def test_partners_play_on_and_are_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three members the second always says a wrong word; the others' words are judged."""
    flags = [text for name, value in SMALL.items() for text in (f"--{name}", str(value))]
    parser = ArgumentParser()
    CREDIT_AUDIT.add(parser)
    given = ["crowd-v0", "--set", "weights=[1, 1, 1]", "--team", "expert", *flags]
    given += ["--points", "6", "--estimators", "magrpo", "--output", str(tmp_path)]
    CREDIT_AUDIT.run(parser.parse_args([*given, "--partner", "member_1=expert:wrong_1"]))
    assert "magrpo" in capsys.readouterr().out
    kept = json.loads((tmp_path / "credit_audit.json").read_text())
    assert {one["agent"] for one in kept["messages"]} == {"member_0", "member_2"}
    assert kept["team"]["member_1"] != kept["team"]["member_0"]


def test_the_command_writes_table_file_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {**SMALL, "replays": 2, "copies": 8}
    flags = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    parser = ArgumentParser()
    CREDIT_AUDIT.add(parser)
    given = ["coop_writing_tldr-v0", "--team", "expert", *flags, "--output", str(tmp_path / "out")]
    given += ["--trained", "brief_0", "--credit", "own", "--estimators", "rae", "c3_sim", "c3"]
    CREDIT_AUDIT.run(parser.parse_args(given))
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines() if "0." in line] == ["rae", "c3_sim"] * 3
    assert "c3: algorithm='c3'" in shown
    kept = json.loads((tmp_path / "out" / "credit_audit.json").read_text())
    assert kept["plan"]["points"] == 2
    assert len(kept["messages"]) == 4
    assert {one["agent"] for one in kept["messages"]} == {"brief_0"}
    assert len(kept["messages"][0]["judged"]["rae"]) == 2
    assert kept["plan"]["credit"] == "own"
    assert (tmp_path / "out" / "credit_audit.png").stat().st_size > 1000
    page = write_report(tmp_path / "out").read_text(encoding="utf-8")
    assert "c3 could not judge" in page
    series = re.findall(r'<g class="dot s\d">(.*?)</g>', page, re.DOTALL)
    assert [one.count("<path") for one in series] == [4, 4]  # a dot for each message and estimator
    with pytest.raises(ValueError, match="brief_1"):
        CREDIT_AUDIT.run(parser.parse_args([*given[:3], "--trained", "brief_1"]))
