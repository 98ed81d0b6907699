"""The random-partner control: a seat is paid for its text beside an expert drawn by lot."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models import make_trainer
from support.toys import BareParallel, Relay, SameCase, WordExperts, WordPair, shaky

from llm_marl_envs import make
from llm_marl_envs.core.experts import Experts, experts_of
from llm_marl_envs.core.records import Episode
from llm_marl_envs.policies import Team
from llm_marl_envs.policies.expert import ExpertPolicy
from trainers.experience.collect import Collector

pytestmark = pytest.mark.full  # `make test-all` runs it

SEATS = ("left_0", "right_0")


def experts(convention: str | None = "lower") -> Team:
    return dict.fromkeys(SEATS, ExpertPolicy(SameCase(), convention))


def collector(folder: Path, env: Any = SameCase, **changes: Any) -> Collector:
    sizes = {"tasks_per_update": 16, "num_generations": 16, "random_partner": True}
    return make_trainer(folder, env, **{**sizes, **changes}).collector


def played(folder: Path, team: Team | None = None, **changes: Any) -> list[Episode]:
    groups = collector(folder, **changes).play(0, team or experts())
    return [episode for group in groups for episode in group.episodes]


def test_a_seat_earns_what_its_text_earns_beside_the_drawn_expert(tmp_path: Path):
    """Of two who both say their words in lower case each is paid where its partner is drawn so."""
    episodes = played(tmp_path)
    for episode in episodes:
        choice = len(experts_of(SameCase()).conventions(SameCase().source.find(episode.task_id)))
        for turn in episode.turns:
            expected = float(turn.info["partner"] == "lower")
            assert (turn.reward, turn.team_reward) == (expected, expected)
            assert sum(turn.reward_terms.values()) == expected
            assert choice > 1 or expected == 1.0
        assert episode.success  # what the two did together stays on record


def test_the_same_in_the_environment_of_the_demo(tmp_path: Path):
    """Each text is taken to an environment of its own, beside the expert that was drawn."""
    env = make("coop_coding-v0")
    team = dict.fromkeys(env.possible_agents, ExpertPolicy(env))
    sizes = {"tasks_per_update": 4, "num_generations": 4}
    groups = collector(tmp_path, lambda: make("coop_coding-v0"), **sizes).play(0, team)
    paid = []
    for episode in (each for group in groups for each in group.episodes):
        task = env.source.find(episode.task_id)
        for turn in episode.turns:
            env.reset(seed=episode.seed, options={"task": task})
            texts = {
                a: experts_of(env).first(task, a, turn.info["partner"]) for a in env.possible_agents
            }
            _, rewards, _, _, _ = env.step({**texts, turn.agent: turn.action})
            assert turn.reward == rewards[turn.agent]
            paid.append(turn.reward)
    assert min(paid) < max(paid) == 1.0


def test_conventions_are_drawn_uniformly_and_apart_for_each_seat(tmp_path: Path):
    drawn = Counter(
        tuple(turn.info["partner"] for turn in episode.turns)
        for episode in played(tmp_path)
        if "fig" not in episode.task_id  # there experts have one convention
    )
    assert len(drawn) == 4
    n = sum(drawn.values())
    for count in drawn.values():  # within four standard deviations of a quarter
        assert abs(count / n - 1 / 4) < 4 * (3 / 16 / n) ** 0.5


def test_no_convention_pays_more_whatever_the_team_does(tmp_path: Path):
    """The mean advantage of an upper-case word in a team of lower-case words: none but noise."""
    odd = {"left_0": ExpertPolicy(SameCase()), "right_0": ExpertPolicy(SameCase(), "lower")}
    control = collector(tmp_path, tasks_per_update=32, num_generations=32)
    groups = control.play(0, odd)
    inputs, advantages = control.judge(0, groups)
    upper = np.array(
        [[episode.turns[0].action.isupper() for episode in group.episodes] for group in groups]
    )
    seen = advantages[:, :, 0, 0][upper]
    assert abs(seen.mean()) < 4 * 0.5 / len(seen) ** 0.5
    plain = collector(tmp_path, tasks_per_update=32, num_generations=32, random_partner=False)
    _, led = plain.judge(0, plain.play(0, odd))
    assert led[:, :, 0, 0][upper].mean() < -0.2  # without the control it costs
    assert inputs.alive.all()


def test_a_seed_decides_every_draw(tmp_path: Path):
    def drawn(**changes: Any) -> list[str]:
        return [t.info["partner"] for e in played(tmp_path, **changes) for t in e.turns]

    assert drawn() == drawn()
    assert drawn() != drawn(seed=4)


def test_only_trained_seats_are_paid_beside_experts(tmp_path: Path):
    partner = {"right_0": ExpertPolicy(SameCase(), "upper")}
    episodes = played(tmp_path, {**experts(), **partner}, partners=partner)
    assert all("partner" in e.turns[0].info for e in episodes)
    assert not any("partner" in e.turns[1].info for e in episodes)


def test_an_environment_that_raises_beside_the_expert_fails_the_episode(tmp_path: Path):
    """An environment's episodes are: the team's, its left text, its right text."""
    broken = shaky(SameCase, lambda env: env.episode >= 1 and env.number % 7 == 0)
    control = collector(tmp_path, broken)
    episodes = [episode for group in control.play(0, experts()) for episode in group.episodes]
    failed = [episode for episode in episodes if episode.failed]
    assert 0 < len(failed) < len(episodes)
    assert all("broke in its episode" in str(episode.failure) for episode in failed)
    assert isinstance(control.failures.first, OSError)
    assert all(
        "partner" in turn.info
        for episode in episodes
        if not episode.failed
        for turn in episode.turns
    )


def test_a_run_trains_under_the_control(tmp_path: Path):
    trainer = make_trainer(tmp_path, SameCase, random_partner=True)
    trainer.train()
    assert trainer.state.global_step == 2


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (lambda: WordPair(turns=2), "turns=1"),
        (Relay, "at the same time"),
        (BareParallel, "at the same time"),
        (lambda: make("coop_coding-v0", turns=2), "turns=1"),
        (lambda: make("debate-v0"), "at the same time"),
    ],
)
def test_where_nobody_can_be_drawn_it_is_refused(tmp_path: Path, env: Any, words: str):
    changes: dict[str, Any] = {"max_steps": 1} if env is BareParallel else {}
    with pytest.raises(ValueError, match=words):
        make_trainer(tmp_path, env, random_partner=True, **changes)


def test_an_environment_without_a_choice_of_conventions_is_refused(tmp_path: Path):
    class Sure(WordExperts):
        def conventions(self, task: Any) -> tuple[str, ...]:
            return ("lower",)

    class Unnamed(WordExperts):
        def conventions(self, task: Any) -> tuple[str, ...]:
            return ()

    class Named(SameCase):
        def __init__(self, experts: Experts | None) -> None:
            super().__init__()
            self.given = experts

        def experts(self) -> Experts | None:
            return self.given

    for experts in (None, Unnamed(), Sure()):
        env = partial(Named, experts)
        with pytest.raises(ValueError, match="nothing to draw"):
            make_trainer(tmp_path, env, random_partner=True)


@pytest.mark.parametrize("other", [{"shuffle_rewards": True}, {"returns": "maporl"}])
def test_two_controls_at_once_are_refused(tmp_path: Path, other: dict[str, Any]):
    with pytest.raises(ValueError, match="random_partner"):
        make_trainer(tmp_path, SameCase, random_partner=True, **other)
