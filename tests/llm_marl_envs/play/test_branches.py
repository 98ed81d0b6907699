"""Episodes that leave recorded ones: what is played again, what is sampled, what is refused."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pettingzoo.utils.conversions import turn_based_aec_to_parallel
from support.toys import BareAEC, BareParallel, Coin, CoinInTurn, Relay, WordPair

from llm_marl_envs.core.records import (
    Branch,
    Chance,
    Episode,
    EpisodeGroup,
    Request,
    Response,
    Turn,
    plain,
    read_jsonl,
    write_jsonl,
)
from llm_marl_envs.core.seeds import Start, branch_start, group_starts
from llm_marl_envs.core.specs import list_envs, spec
from llm_marl_envs.play.branches import NotReplayableError
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.replay import check_replays, replay
from llm_marl_envs.play.rollout import Failures, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy
from llm_marl_envs.wrappers import Partners
from llm_marl_envs.wrappers.single_seat import SingleSeat


class Asked:
    """Random text; notes who was asked for which turn."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def act(self, requests: Sequence[Request]) -> list[Response]:
        self.requests += requests
        return RandomPolicy().act(requests)


def played(
    env: Any, starts: Sequence[Start], policy: Any = None, context: Any = "append"
) -> list[Episode]:
    team = dict.fromkeys(env.possible_agents, policy or RandomPolicy())
    return rollout(VectorTextEnv([env]), team, starts, context=context)


def shown(episode: Episode) -> list[Any]:
    """Its turns without what a stranger's info may hold."""
    return [dataclasses.replace(turn, given=False, info=plain(turn.info)) for turn in episode.turns]


def said(episode: Episode) -> dict[tuple[str, int], str]:
    return {(turn.agent, turn.index): turn.action for turn in episode.turns}


KWARGS: dict[str, Any] = {i: {"turns": 2} for i in list_envs() if spec(i).api == "parallel"}
FAMILIES: dict[str, Any] = {
    **{env_id: partial(make, env_id, **KWARGS.get(env_id, {})) for env_id in list_envs()},
    "several turns": WordPair,
    "in turn": lambda: Relay(rounds=2),
    "in turn, as parallel": lambda: turn_based_aec_to_parallel(Relay(rounds=2)),
    "partners": lambda: Partners(Relay(rounds=2), {"runner_1": RandomPolicy()}),
    "foreign, parallel": BareParallel,
    "foreign, in turn": BareAEC,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("context", ["append", "fresh"])
def test_a_branch_is_the_record_up_to_its_point_and_then_anew(family: str, context: str) -> None:
    if context == "fresh" and not family.startswith("foreign"):
        return
    make_env = FAMILIES[family]
    start = Start(seed=5, sample_seed=1)
    record = played(make_env(), [start], context=context)[0]
    assert [turn.given for turn in record.turns] == [False] * len(record.turns)
    many = len(record.turns)
    places = [many // 2] if family in list_envs() else range(many)
    for number, left in ((place, record.turns[place]) for place in places):
        branch = Branch(parent=0, agent=left.agent, turn=left.index)
        policy = Asked()
        begun = branch_start(start, record, branch, number)
        episode = played(make_env(), [begun], policy, context)[0]
        before = {(t.agent, t.index) for t in record.turns if (t.step or 0) < (left.step or 0)}
        assert (episode.branch, episode.seed) == (branch, record.seed)
        assert episode.task_id == record.task_id
        assert {(t.agent, t.index) for t in episode.turns if t.given} == before
        assert {(r.agent, r.turn) for r in policy.requests}.isdisjoint(before)
        assert all(said(episode)[key] == said(record)[key] for key in before)
        assert said(episode)[left.agent, left.index] != left.action
        # The same noise: the same episode, every message, reward and info of it.
        again = played(make_env(), [dataclasses.replace(begun, sample_seed=1)], context=context)[0]
        assert shown(again) == shown(record)


def test_partners_of_the_same_step_are_asked_or_held() -> None:
    start = Start(seed=5, sample_seed=1)
    record = played(WordPair(), [start])[0]
    branch = Branch(parent=0, agent="right_0", turn=1)
    for held in (False, True):
        leaving = dataclasses.replace(branch, held=held)
        actions = said(played(WordPair(), [branch_start(start, record, leaving, 0)])[0])
        assert (actions["left_0", 1] == said(record)["left_0", 1]) is held
        assert actions["right_0", 1] != said(record)["right_0", 1]


def test_a_message_can_be_blanked() -> None:
    start = Start(seed=5, sample_seed=1)
    record = played(Relay(rounds=2), [start])[0]
    branch = Branch(parent=0, agent="runner_1", turn=0, instead="")
    policy = Asked()
    episode = played(Relay(rounds=2), [branch_start(start, record, branch, 0)], policy)[0]
    assert [turn.given for turn in episode.turns] == [True, True, False, False, False, False]
    assert episode.turns[1].response == Response(text="")
    assert episode.turns[2].messages[-1].content == "You hear: "
    # Its own next turn goes on from what it is said to have said.
    assert [r.before and r.before.action for r in policy.requests if r.agent == "runner_1"] == [""]


def test_many_branches_advance_together_and_do_not_depend_on_their_neighbours() -> None:
    starts = group_starts(3, 7, 2)
    copies = VectorTextEnv([Relay(rounds=2) for _ in range(2)])
    team = dict.fromkeys(copies.envs[0].possible_agents, RandomPolicy())
    records = rollout(copies, team, starts)
    branches = [
        branch_start(starts[g], records[g], Branch(parent=g, agent=t.agent, turn=t.index), g)
        for g in (0, 1)
        for t in records[g].turns
    ]
    together = rollout(copies, team, [*branches, *starts], chunks=2)
    assert together[: len(branches)] == [played(Relay(rounds=2), [begun])[0] for begun in branches]
    assert together[len(branches) :] == records
    assert len({said(e)["runner_2", 1] for e in together}) == len(together)  # no noise twice


def test_a_branch_of_a_branch_keeps_what_that_one_kept() -> None:
    start = Start(seed=5, sample_seed=1)
    record = played(WordPair(), [start])[0]
    first = branch_start(start, record, Branch(parent=0, agent="left_0", turn=0), 1)
    once = played(WordPair(), [first])[0]
    second = branch_start(first, once, Branch(parent=1, agent="left_0", turn=1), 2)
    two = played(WordPair(), [second])[0]
    assert said(two)["left_0", 0] == said(once)["left_0", 0] != said(record)["left_0", 0]
    assert said(two)["left_0", 1] != said(once)["left_0", 1]


# -- what cannot be replayed ----------------------------------------------------------------------
class Forgetful(BareAEC):
    """Counts over all of its life: another observation in every episode."""

    lives = 0

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        super().reset(seed, options)
        Forgetful.lives += 1

    def observe(self, agent: str) -> str:
        return f"life {Forgetful.lives}, {self.count} actions so far"


class Moody(BareAEC):
    """Pays by its mood, which nobody sees."""

    mood = 0

    def step(self, action: str | None) -> None:
        super().step(action)
        Moody.mood += 1
        if "second_0" in self.agents:
            self.rewards["second_0"] = float(Moody.mood)


class Shorter(BareAEC):
    """Ends earlier in each episode."""

    lives = 0

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        super().reset(seed, options)
        Shorter.lives += 1

    def step(self, action: str | None) -> None:
        super().step(action)
        if Shorter.lives > 1:
            self.terminations = dict.fromkeys(self.agents, True)


@pytest.mark.parametrize(
    ("kind", "turn", "words"),
    [
        (
            Forgetful,
            1,
            r"reset seed 5, turn 0 of first_0: the record holds 'life 1, 0 .* 'life 2, ",
        ),
        (Moody, 1, r"turn 0 of second_0: the record holds a reward of [\d.]+ and the env.* gives "),
        (Shorter, 1, r"turn 1 of second_0: the record holds an action and the env.* gives none"),
    ],
)
def test_an_environment_that_does_not_replay_is_refused(kind: Any, turn: int, words: str) -> None:
    """The error names the point, and is no failed episode."""
    start = Start(seed=5, sample_seed=1)
    record = played(kind(), [start])[0]
    begun = branch_start(start, record, Branch(parent=0, agent="second_0", turn=turn), 0)
    team = dict.fromkeys(record.agents, RandomPolicy())
    with pytest.raises(NotReplayableError, match=words):
        rollout(VectorTextEnv([kind()]), team, [begun], failures=Failures(kind))


def test_what_no_branch_can_be_is_said() -> None:
    start = Start(seed=5)
    record = played(WordPair(), [start])[0]
    branch = Branch(parent=0, agent="left_0", turn=0)
    missing = Branch(parent=0, agent="left_0", turn=2)
    for wrong, words in (
        (Start(branch=branch), "a start with a branch and no record"),
        (branch_start(start, record, missing, 0), "a branch at turn 2 of left_0: the recorded ep"),
        (dataclasses.replace(branch_start(start, record, branch, 0), seed=6), "with reset seed 6"),
    ):
        with pytest.raises(ValueError, match=words):
            played(WordPair(), [wrong])
    foreign = played(BareAEC(), [Start()])[0]
    drawn = branch_start(Start(), foreign, Branch(parent=0, agent="first_0", turn=0), 0, "episode")
    with pytest.raises(TypeError, match="BareAEC has no redraw"):
        played(BareAEC(), [drawn])


# -- chance ---------------------------------------------------------------------------------------
def dealt(episode: Episode) -> list[float]:
    return [turn.reward for turn in episode.trajectory("left_0")]


def test_episodes_of_a_group_share_what_chance_deals_or_not() -> None:
    shared = played(Coin(), group_starts(2, 9, 4))
    own = played(Coin(), group_starts(2, 9, 4, "episode"))
    assert len({tuple(dealt(episode)) for episode in shared}) == 1
    assert len({tuple(dealt(episode)) for episode in own}) == 4
    assert {episode.task_id for episode in [*shared, *own]} == {shared[0].task_id}
    assert [said(episode) for episode in shared] == [said(episode) for episode in own]
    group = {"task_id": own[0].task_id, "seed": 9, "episodes": tuple(own)}
    assert EpisodeGroup(**group, chance="episode").roots.episodes == tuple(own)
    with pytest.raises(ValueError, match="a group shares both"):
        EpisodeGroup(**group)


def test_chance_behind_one_seat_is_drawn_anew_too() -> None:
    env = SingleSeat(make("regime-v0"))
    env.reset(seed=3, options={"task": 0})
    before = env.inner.chance.random()
    env.reset(seed=3, options={"task": 0})
    env.redraw(7)
    assert env.inner.chance.random() != before


def test_chance_after_a_branch_is_that_of_the_record_or_drawn_anew() -> None:
    start = Start(task=2, seed=9)
    record = played(Coin(), [start])[0]
    branch = Branch(parent=0, agent="left_0", turn=1)
    chances: tuple[Chance, ...] = ("group", "episode", "episode")
    same, anew, other = (
        dealt(played(Coin(), [branch_start(start, record, branch, n, chance)])[0])
        for n, chance in enumerate(chances)
    )
    assert same == dealt(record)
    assert anew[0] == other[0] == same[0]  # what was dealt before stays
    assert len({anew[1], other[1], same[1]}) == 3


NOISY: dict[str, Any] = {"channel": {"noise": 0.3, "drop": 0.3}}
DEALING: dict[str, Any] = {
    "at once": lambda: Coin(turns=4),
    "in turn": lambda: CoinInTurn(rounds=2),
    "behind one seat": lambda: SingleSeat(Coin(turns=4)),
    "bets": lambda: make("matrix_game", game="risky", turns=4),
    "events": lambda: make("regime-v0"),
    "channel, in turn": lambda: make("debate-v0", rounds=2, **NOISY),
    "channel, with a leader": lambda: make("debate-v0", decides="leader", **NOISY),
    "channel, at once": lambda: make("coop_writing_tldr-v0", turns=3, **NOISY),
}


def words(request: Request) -> str:
    """A word that the agent was shown, so that its plays and its talk give chance a part."""
    shown = request.messages[0].content.replace(",", " ").replace(".", " ").split()
    return random.Random(request.seed).choice(shown)


def step_of(turn: Turn) -> int:
    assert turn.step is not None
    return turn.step


def until(episode: Episode, step: int) -> list[Any]:
    """What was shown up to a step, and what was said and paid to the end before it."""
    acted = [turn for turn in episode.turns if step_of(turn) <= step]
    again = {(turn.agent, turn.index - 1) for turn in acted}
    paid = [(t.action, t.reward) for t in acted if (t.agent, t.index) in again]
    return [[(turn.agent, turn.messages) for turn in acted], paid]


@pytest.mark.parametrize("kind", DEALING)
def test_branches_of_branches_deal_again_what_all_above_them_were_dealt(
    kind: str, tmp_path: Path
) -> None:
    """A chain that leaves at every step, with chance of its own each time; also from a file."""
    make_env, policy = DEALING[kind], ScriptedPolicy(words)
    start = Start(task=0, seed=9)
    chain = [played(make_env(), [start], policy)[0]]
    steps = sorted({step_of(turn) for turn in chain[0].turns})
    assert len(steps) >= 3
    for depth, step in enumerate(steps):
        first = next(turn for turn in chain[-1].turns if turn.step == step)
        branch = Branch(parent=depth, agent=first.agent, turn=first.index)
        start = branch_start(start, chain[-1], branch, depth, "episode")
        chain += played(make_env(), [start], policy)
        assert until(chain[-1], step) == until(chain[-2], step)
        assert [redraw.step for redraw in chain[-1].redraws] == steps[: depth + 1]
        if len({turn.step for turn in chain[-1].turns}) < len(steps):
            break
    last = chain[-1]
    write_jsonl(tmp_path / "last.jsonl", [last])
    (restored,) = read_jsonl(tmp_path / "last.jsonl")
    assert restored == last
    branch = Branch(parent=0, agent=last.turns[-1].agent, turn=last.turns[-1].index)
    both = [
        played(make_env(), [branch_start(start, record, branch, 7, "episode")], policy)[0]
        for record in (last, restored)
    ]
    assert both[0] == both[1]
    assert shown(replay(restored, make_env())) == shown(dataclasses.replace(last, branch=None))


def test_a_branch_before_its_record_left_another_draws_its_own_chance_or_the_same() -> None:
    """Redrawn at step 2 in the record: kept with `chance="group"`, replaced with "episode"."""
    start = Start(task=2, seed=9)
    root = played(Coin(turns=4), [start])[0]
    record_start = branch_start(start, root, Branch(parent=0, agent="left_0", turn=2), 0, "episode")
    record = played(Coin(turns=4), [record_start])[0]
    branch = Branch(parent=1, agent="left_0", turn=1)
    same, anew = (
        played(Coin(turns=4), [branch_start(record_start, record, branch, n, chance)])[0]
        for n, chance in enumerate(("group", "episode"))
    )
    assert dealt(same) == dealt(record)
    assert same.redraws == record.redraws
    assert [redraw.step for redraw in anew.redraws] == [1]
    assert dealt(anew)[0] == dealt(record)[0]
    assert {*dealt(anew)[1:]}.isdisjoint({*dealt(record), *dealt(root)})


def test_an_environment_that_redraws_otherwise_each_time_is_found() -> None:
    """It replays as long as nothing is drawn anew; only a branch of a branch shows it."""

    class Forgets(CoinInTurn):
        drawn = 0

        def redraw(self, seed: int) -> None:
            Forgets.drawn += 1
            super().redraw(seed + Forgets.drawn)

    check_replays(lambda: CoinInTurn(rounds=2))
    with pytest.raises(NotReplayableError, match="turn 0 of runner_1: the record holds"):
        check_replays(lambda: Forgets(rounds=2))


# -- records --------------------------------------------------------------------------------------
def test_a_transcript_keeps_where_an_episode_left_another(tmp_path: Path) -> None:
    start = Start(seed=5)
    record = played(WordPair(), [start])[0]
    branch = Branch(parent=0, agent="left_0", turn=1, held=True, instead="")
    episode = played(WordPair(), [branch_start(start, record, branch, 0)])[0]
    write_jsonl(tmp_path / "both.jsonl", [record, episode])
    assert list(read_jsonl(tmp_path / "both.jsonl")) == [record, episode]
    assert '"given"' not in (tmp_path / "both.jsonl").read_text().splitlines()[0]


def test_steps_are_numbered_as_the_environment_takes_them() -> None:
    episode = played(BareParallel(), [Start()], ScriptedPolicy(lambda r: "hi"))[0]
    assert [turn.step for turn in episode.turns] == [0, 0, 1, 2]
    in_turn = played(Relay(), [Start()])[0]
    assert [turn.step for turn in in_turn.turns] == [0, 1, 2]
    assert Counter(turn.step for turn in played(WordPair(), [Start()])[0].turns) == {0: 2, 1: 2}
