"""The audit of credit against enumeration, on games of two words and policies that are tables."""

from __future__ import annotations

import json
import random
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import formula
from support.models import make_trainer
from support.toys import Lower

from llm_marl_envs.core import Outcome, TextAECEnv, TextParallelEnv
from llm_marl_envs.policies import Team
from llm_marl_envs.records import Request, Response
from llm_marl_envs.report import write_report
from llm_marl_envs.spaces import Message
from llm_marl_envs.tasks import ListSource, Task
from trainers.commands import CREDIT_AUDIT
from trainers.studies.credit_audit import Audit, AuditPlan, Stage, _cosine, _rank, credit_audit
from trainers.studies.credit_gradients import gram_of

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


def paid(left: str, right: str) -> Outcome:
    pay = PAY.get((left, right), 0.5)
    return Outcome(reward_terms={agent: {"table": pay} for agent in SEATS}, ended=True)


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


PLAN = AuditPlan(points=8, messages=4, replays=48, judgements=24, size=3, copies=32)


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


def test_the_bias_of_every_estimator_is_that_of_enumeration(audited: Any) -> None:
    """None: leave-one-out, tree, c3, difference. The sample in the mean shrinks by 1 / G."""
    env, audit = audited
    worth, _ = exact(env, audit)
    figures = {one.name: one for one in audit.estimators}
    c3 = "c3" if env is InTurn else "c3_sim"
    assert [*figures] == ["magrpo", "magrpo_mean", "rejection", "magrpo_tree", c3, "difference"]
    for name in ("magrpo", "magrpo_tree", c3, "difference"):
        assert figures[name].bias < 0.25, name
    spread = worth.reshape(8, 4) - worth.reshape(8, 4).mean(axis=1, keepdims=True)
    shrunk = float((spread**2).mean()) ** 0.5 / PLAN.size
    assert figures["magrpo_mean"].bias == pytest.approx(shrunk, abs=0.2)
    assert figures["rejection"].bias > figures["rejection"].bias_error
    # A factor is bias, and no less signal.
    assert figures["magrpo_mean"].signal == pytest.approx(figures["magrpo"].signal)
    assert all(one.signal is not None and one.signal > 0 for one in figures.values())


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
    figures = {one.name: one for one in audit.estimators}
    # G = 3: a group takes 6 actions; each is trained on.
    assert figures["magrpo"].tokens == figures["magrpo_mean"].tokens == 1.0
    # c3, J = 4: 6 messages, each in 4 versions; after left's three alternatives right acts again.
    turns, held = 6 + 3 * 3 * 2 + 3 * 3 * 1, 6 + 6 * 3
    name = "c3" if env is InTurn else "c3_sim"
    assert figures[name].tokens == pytest.approx((turns if env is InTurn else held) / 24)
    assert all(0.5 < one.rank <= 1 for one in audit.estimators if one.rank is not None)
    assert max(one.rank or 0 for one in audit.estimators) > 0.7


def test_rank_counts_pairs_that_the_reference_tells_apart() -> None:
    points, worth = np.array([0, 0, 0, 1]), np.array([1.0, 0.0, 0.9, 9.0])
    judged = np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 2.0], [0.0, 0.0]])
    # 3 or 0 against 1 or 0: two right, a tie, one wrong. 2 against 1 or 0: right. The third and
    # the first differ by less than two standard errors.
    assert _rank(points, worth, np.full(4, 0.1), judged) == pytest.approx((2.5 / 4 + 1) / 2)
    assert _rank(points, np.zeros(4), np.full(4, 0.1), judged) is None


def test_an_audit_is_a_function_of_its_seed() -> None:
    small = AuditPlan(points=2, messages=2, replays=3, judgements=2, size=2, copies=5)
    team: Team = dict.fromkeys(SEATS, Tables())
    one, again = (credit_audit(Stage(InTurn, team, SEATS, small)) for _ in range(2))
    assert one.estimators == again.estimators
    assert [m.worth for m in one.messages] == [m.worth for m in again.messages]


@pytest.mark.parametrize(("name", "least"), [("points", 1), ("messages", 2), ("size", 2)])
def test_sizes_that_say_nothing_are_refused(name: str, least: int) -> None:
    with pytest.raises(ValueError, match=f"{name}={least - 1}: expected at least {least}"):
        AuditPlan(**{name: least - 1})


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
        worth = np.arange(len(places), dtype=float)
        assert _cosine(worth, worth[:, None], range(len(places)), found) == pytest.approx(1)
        assert _cosine(worth, -worth[:, None], range(len(places)), found) == pytest.approx(-1)


def test_the_command_writes_table_file_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"points": 2, "messages": 2, "replays": 2, "judgements": 2, "size": 2, "copies": 8}
    flags = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    parser = ArgumentParser()
    CREDIT_AUDIT.add(parser)
    given = ["coop_writing_tldr-v0", "--team", "random", *flags, "--output", str(tmp_path / "out")]
    CREDIT_AUDIT.run(parser.parse_args(given))
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[1:7]] == [
        *("magrpo", "magrpo_mean", "rejection", "magrpo_tree", "c3_sim", "difference")
    ]
    kept = json.loads((tmp_path / "out" / "credit_audit.json").read_text())
    assert kept["plan"]["points"] == 2
    assert len(kept["messages"]) == 4
    assert len(kept["messages"][0]["judged"]["magrpo"]) == 2
    assert (tmp_path / "out" / "credit_audit.png").stat().st_size > 1000
    page = write_report(tmp_path / "out").read_text(encoding="utf-8")
    assert all(line.split()[0] in page for line in shown.splitlines()[1:7])
    assert page.count("<circle") == 4 * 6  # a dot for each message and estimator
