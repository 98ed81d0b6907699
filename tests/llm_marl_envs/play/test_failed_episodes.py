"""Episodes whose environment raises: in a rollout, in records, in every kind of evaluation."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import re
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from email.message import Message
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
from support.pairings import stage
from support.toys import BareAEC, BareParallel, Relay, WordPair, shaky

from llm_marl_envs.core.records import (
    Branch,
    Episode,
    EpisodeGroup,
    StopReason,
    episode_from_dict,
    episode_to_dict,
    living,
    measured,
    read_jsonl,
    write_jsonl,
)
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.measure import Plan, run_plan
from llm_marl_envs.measure.numbers.compare import compare_results, report
from llm_marl_envs.measure.numbers.coordination import cooperation_index, measure_coordination
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.numbers.format import number
from llm_marl_envs.measure.numbers.results import read_result, result_to_dict, summarise
from llm_marl_envs.measure.numbers.tables import known_columns, result_table, rows_at, text_table
from llm_marl_envs.measure.paired import Stage
from llm_marl_envs.measure.studies.baselines import oracle_best
from llm_marl_envs.measure.studies.contribution import contributions
from llm_marl_envs.measure.studies.cross_play import cross_play
from llm_marl_envs.measure.studies.cross_play_files import read_cross_play, write_cross_play
from llm_marl_envs.measure.studies.messages import message_effects
from llm_marl_envs.measure.studies.zero_shot import zero_shot
from llm_marl_envs.play.rollout import (
    REPEATS,
    EpisodesFailedError,
    Failures,
    of_outside,
    rollout,
)
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.report import write_report
from llm_marl_envs.report.episodes import pairs
from llm_marl_envs.sandbox import InfraError

STARTS = [Start(task=n % 3, seed=n, sample_seed=n) for n in range(7)]
# Says its word in every second episode, and each agent's first turn is wrong in every third.
SAY = ScriptedPolicy(
    lambda r: r.task_id.split("-")[r.agent[0] == "r"] if r.seed % 2 and r.turn else "x"
)


def play(env: Any, copies: int = 3, policy: Any = SAY, **more: Any) -> list[Episode]:
    """Seven episodes; `failures=True` keeps those that fail."""
    repeats = more.pop("repeats", 0)
    if more.pop("failures", True):
        more["failures"] = Failures(env, repeats)
    vector = VectorTextEnv([env() for _ in range(copies)])
    team: dict[str, Any] = dict.fromkeys(vector.envs[0].possible_agents, policy)
    try:
        return rollout(vector, team, STARTS, **more)
    finally:
        vector.close()


def in_places(*places: int) -> Any:
    """Breaks the first episode of these copies: with three copies episodes 0 to 2."""
    return lambda env: env.number in places and env.episode == 0


def blocking(base: Any) -> Any:
    return type(base.__name__, (base,), {"blocking": True})


# -- rollout --------------------------------------------------------------------------------------
@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("base", [WordPair, Relay, blocking(WordPair)], ids=["", "aec", "threads"])
@pytest.mark.parametrize(("where", "turns"), [("reset", 0), ("step", 1), ("later", 2)])
def test_the_others_play_as_if_nothing_had_happened(
    base: Any, where: str, turns: int, chunks: int
) -> None:
    whole = play(base, chunks=chunks)
    episodes = play(shaky(base, in_places(1), where), chunks=chunks)
    failed = episodes[1]
    assert [e.failed for e in episodes] == [False, True, *[False] * 5]
    for episode, same in zip(episodes[:1] + episodes[2:], whole[:1] + whole[2:], strict=True):
        assert dataclasses.replace(episode, env_id=same.env_id) == same
    # What was said before, the action that broke it included.
    each = turns * (1 if base is Relay else 2)
    assert [t.action for t in failed.turns] == [t.action for t in whole[1].turns[:each]]
    assert failed.stop_reason is StopReason.FAILED
    assert failed.success is None
    assert (failed.task_id, failed.seed) == (whole[1].task_id, 1)
    assert "OSError: environment 1 broke in its episode 0" in str(failed.failure)
    assert "in reset" in str(failed.failure) or "in play" in str(failed.failure)


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("base", [WordPair, Relay, blocking(WordPair)], ids=["", "aec", "threads"])
@pytest.mark.parametrize("where", ["reset", "step", "later"])
def test_what_is_played_again_is_what_would_have_been(base: Any, where: str, chunks: int) -> None:
    whole = play(base, chunks=chunks)
    kind = shaky(base, in_places(1, 2), where, ConnectionError)
    for episode, same in zip(play(kind, chunks=chunks, repeats=1), whole, strict=True):
        assert dataclasses.replace(episode, env_id=same.env_id) == same


@pytest.mark.parametrize("error", [OSError, ConnectionError])
def test_a_branch_that_fails_is_counted_or_played_again(error: type[Exception]) -> None:
    """Both begin with the record, up to where the branch leaves it."""
    record = play(WordPair)[1]
    branch = Branch(parent=0, agent="left_0", turn=1, held=True)
    start = dataclasses.replace(STARTS[1], record=record, branch=branch)
    team = dict.fromkeys(record.agents, ScriptedPolicy(lambda r: "other"))
    whole = rollout(VectorTextEnv([WordPair()]), team, [start])[0]
    kind = shaky(WordPair, lambda env: env.number == 0, "later", error)
    failures = Failures(kind, REPEATS)
    (episode,) = rollout(VectorTextEnv([kind()]), team, [start], failures=failures)
    assert [t.action for t in episode.turns] == [t.action for t in whole.turns]
    if error is ConnectionError:
        assert episode == whole
        return
    assert (episode.failed, episode.branch, episode.floor) == (True, branch, 0.0)
    failures.refuse_uncounted([episode])
    assert measured([record, episode])[1].team_return == 0.0


def test_without_failures_it_is_raised() -> None:
    with pytest.raises(OSError, match="environment 1 broke"):
        play(shaky(WordPair, in_places(1)), failures=False)


def test_a_broken_copy_is_closed_and_replaced() -> None:
    made: list[Any] = []
    kind = shaky(WordPair, in_places(1))

    def make() -> Any:
        made.append(kind())
        return made[-1]

    episodes = play(make)
    assert [e.failed for e in episodes].count(True) == 1
    assert len(made) == 4
    assert made[1].closed
    assert made[3].episode == 0  # it played episode 4


def test_where_no_fresh_copy_can_be_made_the_record_says_so() -> None:
    vector = VectorTextEnv([shaky(WordPair, in_places(0))()])
    vector.envs[0].broken = False

    def nothing() -> Any:
        raise RuntimeError("no more licences")

    episodes = rollout(
        vector,
        dict.fromkeys(vector.envs[0].possible_agents, SAY),
        STARTS[:2],
        failures=Failures(nothing),
    )
    assert [e.failed for e in episodes] == [True, True]  # the second: it is still broken
    assert "broke in its episode 0" in str(episodes[0].failure)
    assert "no more licences" in str(episodes[0].failure)


def test_a_fresh_environment_is_no_other_copy() -> None:
    vector = VectorTextEnv([WordPair(), WordPair()])
    with pytest.raises(ValueError, match="place 0 got the environment of another"):
        vector.replace(0, vector.envs[1])


def test_what_a_policy_raises_is_no_failure() -> None:
    def broken(request: Any) -> str:
        raise OSError("the server is gone")

    with pytest.raises(OSError, match="server is gone"):
        play(WordPair, policy=ScriptedPolicy(broken))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_ends_it(error: Any) -> None:
    class Ending(WordPair):
        def play(self, joint_action: Any) -> Any:
            raise error

    with pytest.raises(error):
        play(Ending)


@pytest.mark.parametrize(
    ("observation", "reward", "words"),
    [(3, 1.0, "expected str, got int"), ("text", "much", "expected a finite number, got 'much'")],
)
def test_what_is_no_text_and_no_number_fails_the_episode(
    observation: Any, reward: Any, words: str
) -> None:
    class Odd(BareParallel):
        def step(self, actions: Any) -> Any:
            observations, paid, *rest = super().step(actions)
            return dict.fromkeys(observations, observation), dict.fromkeys(paid, reward), *rest

    episodes = play(Odd)
    assert all(e.failed for e in episodes)
    assert words in str(episodes[0].failure)
    with pytest.raises((TypeError, ValueError), match=words):
        play(Odd, failures=False)


class Unreadable:
    """As a tensor of two numbers."""

    def __float__(self) -> float:
        raise RuntimeError("two elements cannot be converted")

    def __repr__(self) -> str:
        return "two numbers"


NO_REWARDS = [math.nan, -math.inf, None, "1.0", 1e200, 10**400, 1j, [1.0], np.float32("nan")]
NO_REWARDS += [Unreadable()]


@pytest.mark.parametrize("reward", NO_REWARDS, ids=lambda value: repr(value)[:9])
@pytest.mark.parametrize("base", [WordPair, Relay])
def test_what_is_no_reward_is_as_an_exception(base: Any, reward: Any) -> None:
    """The same records but for the traceback, which names the agent, its turn and what came."""
    episodes = play(shaky(base, in_places(1), "later", reward=reward))
    raised = play(shaky(base, in_places(1), "later"))
    for episode, same in zip(episodes, raised, strict=True):
        assert dataclasses.replace(episode, failure=same.failure) == same
    who = "runner_2, before its first turn" if base is Relay else "right_0, turn 1"
    words = f"ValueError: reward 'bad' of {who}: expected a finite number, got {reward!r:.80}"
    assert words in str(episodes[1].failure)
    json.dumps(episode_to_dict(episodes[1]), allow_nan=False)
    with pytest.raises(ValueError, match=re.escape(words.removeprefix("ValueError: "))):
        play(shaky(base, in_places(1), "later", reward=reward), failures=False)


def test_reward_terms_that_are_no_map_name_the_agent() -> None:
    class Flat(WordPair):
        def play(self, joint_action: Any) -> Any:
            return dataclasses.replace(super().play(joint_action), reward_terms={"left_0": 1.0})

    assert "reward_terms of left_0: expected name -> number, got 1.0" in str(play(Flat)[0].failure)


def paying(base: Any, reward: Any, agent: str) -> Any:
    """A stranger's environment that pays an agent `reward` in its second step; "absent": none."""

    class Paying(base):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.step_of_it = 0
            return super().reset(seed, options)

        def step(self, actions: Any) -> Any:
            out = super().step(actions)
            self.step_of_it += 1
            rewards = self.rewards if base is BareAEC else out[1]
            if self.step_of_it == 2:
                rewards[agent] = reward
                if reward == "absent":
                    del rewards[agent]
            return out

    return Paying


@pytest.mark.parametrize("reward", [*NO_REWARDS, "absent"], ids=lambda value: repr(value)[:9])
@pytest.mark.parametrize(
    ("base", "agent", "turn"), [(BareParallel, "tall_0", 1), (BareAEC, "first_0", 0)]
)
def test_a_stranger_s_reward_that_is_none_names_the_agent(
    base: Any, agent: str, turn: int, reward: Any
) -> None:
    (first, *rest) = play(paying(base, reward, agent), copies=1)
    whole = play(base)[0]
    assert [t.action for t in first.turns] == [t.action for t in whole.turns[: len(first.turns)]]
    assert first.failed
    assert all(e.failed for e in rest)
    # Nothing of the step is booked.
    paid = [(t.agent, t.reward) for t in first.turns]
    assert paid[-1][1] == 0
    assert sum(reward for _, reward in paid) == (1.25 if base is BareParallel else 2.0)
    what = f"reward of {agent}, turn {turn}: expected a finite number, got {reward!r:.80}"
    missing = f"no reward of {agent}, turn {turn}: the step paid ["
    assert (missing if reward == "absent" else what) in str(first.failure)


def test_a_stranger_s_reward_term_that_is_none_names_the_agent() -> None:
    class Explains(BareParallel):
        def step(self, actions: Any) -> Any:
            *out, infos = super().step(actions)
            return *out, {agent: {"reward_terms": {"style": math.nan}} for agent in infos}

    words = "reward 'style' of short_0, turn 0: expected a finite number, got nan"
    assert words in str(play(Explains)[0].failure)


@pytest.mark.parametrize("reward", [True, 2, np.float32(0.5), np.array(0.5), Fraction(1, 2)])
def test_numbers_of_any_type_are_rewards(reward: Any) -> None:
    episode = play(paying(BareParallel, reward, "tall_0"), copies=1)[0]
    assert type(episode.turns[2].reward) is float
    assert episode.turns[2].reward == float(reward)


def test_a_stranger_at_the_table_fails_the_episode() -> None:
    class Crowded(WordPair):
        def step(self, actions: Any) -> Any:
            observations, *rest = super().step(actions)
            self.agents = [*self.agents, "ghost_0"]
            return {**observations, "ghost_0": observations["left_0"]}, *rest

    assert "wants an action of 'ghost_0'" in str(play(Crowded)[0].failure)


def test_the_middle_of_a_long_traceback_is_left_out() -> None:
    class Chatty(WordPair):
        def play(self, joint_action: Any) -> Any:
            raise ValueError("a" * 10**6 + " the end")

    failure = str(play(Chatty)[0].failure)
    assert len(failure) < 21_000
    assert failure.startswith("Traceback")
    assert failure.endswith(" the end\n")
    assert "characters]" in failure


# -- records --------------------------------------------------------------------------------------
def test_transcripts_hold_the_failure(tmp_path: Path) -> None:
    episodes = play(shaky(WordPair, in_places(1)))
    write_jsonl(tmp_path / "e.jsonl", episodes)
    assert list(read_jsonl(tmp_path / "e.jsonl"))[1].failure == episodes[1].failure
    plain = [json.loads(line) for line in (tmp_path / "e.jsonl").open()]
    assert [i for i, data in enumerate(plain) if "failure" in data] == [1]


def test_a_failure_and_its_stop_reason_go_together() -> None:
    good, bad = play(shaky(WordPair, in_places(1)))[:2]
    for episode, changes in ((good, {"failure": "x"}), (bad, {"failure": None})):
        with pytest.raises(ValueError, match="stop_reason"):
            episode_from_dict({**episode_to_dict(episode), **changes})


def test_a_failed_episode_keeps_its_place_in_its_group() -> None:
    good, bad = play(shaky(BareParallel, lambda env: False))[:2]
    bad = dataclasses.replace(
        bad, seed=good.seed, stop_reason=StopReason.FAILED, failure="x", success=None
    )
    named = dataclasses.replace(good, task_id="t")
    group = EpisodeGroup(task_id="t", seed=good.seed, episodes=(bad, named))
    assert group.living == ((1, named),)
    assert living(group.episodes) == [named]
    with pytest.raises(ValueError, match="shares both"):
        EpisodeGroup(task_id="t", seed=good.seed, episodes=(good, named))


# -- evaluation -----------------------------------------------------------------------------------
HALF = ScriptedPolicy(lambda r: r.task_id.split("-")[r.agent == "right_0"] if r.seed % 2 else "x")
PLAN = Plan(n_tasks=4, samples=3, copies=5)


def evaluate(env: Any, folder: Path | None = None, plan: Plan = PLAN) -> Any:
    team = {"left_0": HALF, "right_0": HALF}
    return run_plan(env, team, plan, folder=folder, identity=dict.fromkeys(team, "half"))


def breaking(*episodes: int, floor: float = 0.0, error: type[Exception] = OSError) -> Any:
    """`WordPair`, broken in these episodes of the plan, whoever plays them."""
    seeds = [e.seed for e in evaluate(WordPair).episodes]
    counts: dict[int, int] = {}

    def breaks(env: Any) -> bool:
        counts[env.seed] = counts.get(env.seed, -1) + 1
        return seeds.index(env.seed) + counts[env.seed] in episodes

    kind = shaky(WordPair, breaks, "reset", error)
    kind.reward_range = (floor, 1.0)
    return kind


def at_floor(episodes: Sequence[Episode], floor: float, failed: Sequence[int]) -> list[float]:
    """The team returns, worked by hand."""
    return [floor if i in failed else e.team_return for i, e in enumerate(episodes)]


@pytest.mark.parametrize("floor", [0.0, -2.0])
def test_an_episode_that_failed_counts_at_the_floor(floor: float) -> None:
    failed = (1, 9, 10, 11)
    whole, result = evaluate(WordPair), evaluate(breaking(*failed, floor=floor))
    assert result.failed == 4
    assert [i for i, e in enumerate(result.episodes) if e.failed] == [*failed]
    returns = at_floor(whole.episodes, floor, failed)
    assert result.mean_return == pytest.approx(sum(returns) / 12)
    assert result.return_ci95 is None  # of four tasks
    assert result.no_interval["mean_return"] == "too few tasks: 4"
    assert [t.failed for t in result.tasks] == [1, 0, 0, 3]
    assert [t.returns for t in result.tasks] == [tuple(returns[i : i + 3]) for i in (0, 3, 6, 9)]
    assert result.tasks[3].task_id == whole.tasks[3].task_id
    assert result.n_tasks == 4
    solved = [bool(e.success) and i not in failed for i, e in enumerate(whole.episodes)]
    assert result.success == sum(solved) / 12
    assert result.pass_at_k[3] == sum(any(solved[i : i + 3]) for i in (0, 3, 6, 9)) / 4
    # Terms go on to sum to the return.
    assert result.reward_terms["failed"] == pytest.approx(4 * floor / 12)
    assert sum(result.reward_terms.values()) == pytest.approx(result.mean_return)
    # It cost what it cost: nothing was said in them.
    alive = living(result.episodes)
    assert result.cost.turns_per_agent == sum(e.turns_per_agent for e in alive) / 12
    assert result.cooperation == cooperation_index(WordPair(), measured(result.episodes))
    assert result.faults.truncated_episodes == 0


def test_a_reward_that_is_none_is_counted_at_the_floor() -> None:
    ways: Any = ({}, {"reward": None})
    raised, paid = (evaluate(shaky(WordPair, in_places(1), "later", **pays)) for pays in ways)
    assert raised.failed == paid.failed == 1
    assert raised.tasks == paid.tasks


def test_to_crash_is_never_better_than_the_worst() -> None:
    """A policy that is unsure gains nothing by an error of the environment."""

    class Brittle(WordPair):
        def play(self, joint_action: Any) -> Any:
            if "crash" in joint_action.values():
                raise ValueError("a text that the environment cannot read")
            return super().play(joint_action)

    sure = ScriptedPolicy(lambda r: r.task_id.split("-")[r.agent == "right_0"])
    means = []
    for otherwise in ("no word", "crash"):
        unsure = ScriptedPolicy(
            lambda r, otherwise=otherwise: sure.act([r])[0].text if r.seed % 3 == 0 else otherwise
        )
        result = run_plan(Brittle, {"left_0": unsure, "right_0": sure}, PLAN)
        means.append((result.mean_return, result.success))
    assert means[1] <= means[0]
    assert result.failed > 0


def test_where_no_floor_is_declared_the_evaluation_stops(tmp_path: Path) -> None:
    kind = breaking(7)
    for declared in (None, (-math.inf, math.inf), "(0, 1)"):
        kind.reward_range = declared
        with pytest.raises(OSError, match="broke") as error:
            evaluate(kind, tmp_path / str(declared))
        assert "it declares no `reward_range`" in str(error.value.__notes__)
    # What was played before is kept, and the environment that was mended goes on.
    assert len(list(read_jsonl(tmp_path / "None" / "episodes.jsonl"))) == 5
    assert evaluate(WordPair, tmp_path / "None").failed == 0


@pytest.mark.parametrize(
    ("error", "outside"),
    [
        (TimeoutError(), True),
        (socket.gaierror(-2, "Name or service not known"), True),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), True),
        (OSError(errno.EHOSTUNREACH, "No route to host"), True),
        (ssl.SSLError("record layer failure"), True),
        (URLError(TimeoutError()), True),
        (URLError("unknown url type"), False),
        (HTTPError("http://h", 404, "not there", Message(), None), False),
        (FileNotFoundError(errno.ENOENT, "not there"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (OSError("a wrong answer"), False),
        (ValueError("a wrong answer"), False),
    ],
)
def test_what_is_outside_of_an_environment(error: Exception, outside: bool) -> None:
    assert of_outside(error) is outside


@pytest.mark.parametrize("error", [ConnectionError, InfraError, BrokenProcessPool, TimeoutError])
def test_what_breaks_outside_of_the_environment_is_played_again(error: type[Exception]) -> None:
    whole = evaluate(WordPair)
    place = {e.seed: i for i, e in enumerate(whole.episodes)}

    def breaking_often(often: int) -> Any:
        """The third task's episodes break so often, all three together."""
        times = iter(range(10**9))
        third = lambda env: place[env.seed] in (6, 7, 8)  # noqa: E731
        return shaky(WordPair, lambda env: third(env) and next(times) < 3 * often, "later", error)

    for often in (1, REPEATS):
        result = evaluate(breaking_often(often))
        assert result.failed == 0
        assert [e.turns for e in result.episodes] == [e.turns for e in whole.episodes]
        assert result.tasks == whole.tasks
    with pytest.raises(error) as raised:
        evaluate(breaking_often(REPEATS + 1))
    assert "something outside of the environment broke, 3 times" in str(raised.value.__notes__)


def test_training_repeats_nothing() -> None:
    episodes = play(shaky(WordPair, in_places(1), "later", ConnectionError))
    assert [e.failed for e in episodes] == [False, True, *[False] * 5]
    assert episodes[1].floor is None


def test_a_failed_episode_does_not_hide_what_its_task_shares() -> None:
    """It may be the last of its task, and have broken before it said anything."""

    def shared(result: Any) -> Any:
        keys = [f"pair {i // 6}" for i in range(12)]  # two tasks each
        return [
            dataclasses.replace(
                e,
                turns=tuple(
                    dataclasses.replace(t, info={**t.info, "task_clusters": [key]}) for t in e.turns
                ),
            )
            for e, key in zip(result.episodes, keys, strict=True)
        ]

    failed = 2
    episodes = shared(evaluate(breaking(failed)))
    assert not episodes[failed].clusters
    whole = shared(evaluate(WordPair))
    whole[failed] = dataclasses.replace(whole[failed], success=False)
    assert summarise(episodes, 3).success_ci95 == summarise(whole, 3).success_ci95


def test_measured_twice_is_measured_once() -> None:
    episodes = measured(evaluate(breaking(1, floor=-2.0)).episodes)
    assert measured(episodes) == episodes
    assert (episodes[1].team_return, episodes[1].success) == (-2.0, False)
    silent = [dataclasses.replace(e, success=None) for e in episodes]
    assert measured(silent)[1].success is None
    with pytest.raises(ValueError, match=r"task 'apple-birch', reset seed \d+ failed and has no"):
        measured([dataclasses.replace(episodes[1], floor=None)])


def test_the_summary_and_the_table_say_how_many_failed(tmp_path: Path) -> None:
    summary = result_to_dict(evaluate(breaking(1)))
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    result = read_result(tmp_path)
    assert result["failed"] == 1
    table = result_table({"half": result}).splitlines()
    names = [line.rsplit("  ", 1)[0].strip() for line in table]
    assert names[2].startswith("success")
    assert ["failed", "episodes", "1"] in [line.split() for line in table]
    (row,) = rows_at(tmp_path)
    assert known_columns([row], None)[-1] == "failed"
    assert text_table([row]).splitlines()[0].endswith("failed episodes")
    none = dataclasses.replace(row, cells={**row.cells, "failed": Estimate(0.0)})
    assert "failed" not in known_columns([none], None)


def test_episodes_of_an_older_release_are_not_summed_up(tmp_path: Path) -> None:
    evaluate(breaking(1), tmp_path)
    path = tmp_path / "episodes.jsonl"
    path.write_text(path.read_text().replace('"floor": 0.0, ', ""))
    with pytest.raises(EpisodesFailedError, match=r"counted at the smallest(.|\n)*OSError"):
        evaluate(WordPair, tmp_path)


def test_failed_episodes_are_kept_and_resumed(tmp_path: Path) -> None:
    def killed(episodes: int) -> None:
        raise MemoryError

    env, team = breaking(1, 7), {"left_0": HALF, "right_0": HALF}
    identity = dict.fromkeys(team, "half")
    with pytest.raises(MemoryError):
        run_plan(env, team, PLAN, folder=tmp_path, identity=identity, progress=killed)
    kept = list(read_jsonl(tmp_path / "episodes.jsonl"))
    assert [e.failed for e in kept] == [False, True, False, False, False]
    resumed, whole = evaluate(env, tmp_path), evaluate(breaking(1, 7))
    assert (resumed.failed, resumed.tasks) == (2, whole.tasks)
    assert (resumed.mean_return, resumed.return_ci95) == (whole.mean_return, whole.return_ci95)
    assert resumed.episodes[1] == kept[1]


@pytest.mark.parametrize("copies", [1, 5])
def test_an_environment_that_always_fails_is_an_error(tmp_path: Path, copies: int) -> None:
    """Its own error, after eight episodes; the folder is as good as new."""
    played = []
    env = shaky(WordPair, lambda env: played.append(env) or True, "step")
    plan = dataclasses.replace(PLAN, copies=copies)
    with pytest.raises(OSError, match="environment 0 broke") as error:
        evaluate(env, tmp_path, plan)
    assert "of 8 episodes" in str(error.value.__notes__) or copies == 5
    assert len(played) == (8 if copies == 1 else 10)
    mended = evaluate(WordPair, tmp_path, plan)
    assert mended.failed == 0


def test_a_plan_that_failed_altogether_has_no_result() -> None:
    episodes = play(shaky(WordPair, lambda env: True))
    with pytest.raises(
        EpisodesFailedError, match=r"all 7 episodes.*task 'apple-birch'(.|\n)*OSError"
    ):
        summarise(episodes, 1)
    failures = Failures(WordPair)
    with pytest.raises(EpisodesFailedError, match=r"none of 7(.|\n)*OSError: environment 0"):
        failures.refuse_if_all(episodes)  # as found on disk
    failures.refuse_if_all([])


def test_comparisons_are_over_all_tasks_and_say_how_many_failed() -> None:
    a, b = (result_to_dict(evaluate(env)) for env in (breaking(0, 1, 2), breaking(4)))
    comparison = compare_results([a], [b])
    assert (comparison.n_tasks, comparison.failed) == (4, (3, 1))
    assert comparison.means == pytest.approx((a["mean_return"], b["mean_return"]))
    assert "because the environment raised: A 3, B 1" in report(comparison)
    whole = result_to_dict(evaluate(WordPair))
    assert "raised" not in report(compare_results([whole], [whole]))


def test_the_oracle_chooses_among_all() -> None:
    """However much a failed episode had been paid before."""
    result = evaluate(breaking(0, 3, 4, 5))
    rich = tuple(dataclasses.replace(turn, reward=9.0) for turn in result.episodes[1].turns)
    episodes = [dataclasses.replace(e, turns=rich) if e.failed else e for e in result.episodes]
    best = oracle_best(dataclasses.replace(result, episodes=tuple(episodes)), 3)
    returns = [e.team_return for e in result.episodes]
    assert best["failed"] == 1
    assert [t["returns"] for t in best["tasks"]] == [
        [max(0.0, *returns[1:3])],
        [0.0],
        [max(returns[6:9])],
        [max(returns[9:12])],
    ]


def test_coordination_counts_what_was_said() -> None:
    """An action that an environment breaks on is no success, in the record and in the replay."""
    kind = shaky(WordPair, lambda env: env.seed in solved)
    whole = evaluate(WordPair)
    solved = {e.seed for e in whole.episodes if e.success}
    broken = evaluate(kind)
    assert 0 < broken.failed == len(solved) < len(whole.episodes)
    assert broken.match == whole.match
    ok, less = (measure_coordination(WordPair(), result.episodes) for result in (whole, broken))
    assert less.competence == ok.competence  # the same actions, replayed without an error
    assert (less.success_given_match or 0) < (ok.success_given_match or 0)
    replayed = measure_coordination(kind(), whole.episodes)
    assert replayed.competence["left_0"] < ok.competence["left_0"]
    unnamed = dataclasses.replace(broken.episodes[0], task_id="")  # its tasks could not be read
    assert measure_coordination(WordPair(), [*whole.episodes, unnamed]) == ok


# -- studies --------------------------------------------------------------------------------------
def experts(convention: str) -> Any:
    env = WordPair()
    return dict.fromkeys(env.possible_agents, ExpertPolicy(env, convention))


def test_cross_play_counts_them(tmp_path: Path) -> None:
    """The second episode of copy 0 is the self-play of the first team on task 2."""
    teams = {"a": experts("upper"), "b": experts("lower")}
    plan: dict[str, Any] = {"n_tasks": 4, "samples": 1, "copies": 2}
    whole = cross_play(stage(WordPair, **plan), teams)
    crossed = cross_play(
        stage(shaky(WordPair, lambda e: (e.number, e.episode) == (0, 1)), **plan), teams
    )
    assert (whole.failed, crossed.failed) == (0, 1)
    assert [seating.failed for seating in crossed.seatings] == [1, 0, 0, 0]
    rows = [[list(of) for of in row] for row in whole.scores]
    rows[0][0][2] = 0.0
    assert [[list(of) for of in row] for row in crossed.scores] == rows
    assert crossed.seatings[0].mean_return.n == 4
    assert crossed.seatings[0].success == 0.75
    write_cross_play(tmp_path / "c.json", crossed)
    assert read_cross_play(tmp_path / "c.json")[0] == crossed
    (tmp_path / "cross").mkdir()
    page = write_report(tmp_path / "cross", cross_play=tmp_path / "c.json").read_text()
    assert "1 episodes failed" in page
    data = json.loads((tmp_path / "c.json").read_text())
    for entry in (data, *data["seatings"]):  # as releases that did not count them wrote it
        del entry["failed"]
    (tmp_path / "c.json").write_text(json.dumps(data))
    assert read_cross_play(tmp_path / "c.json")[0].failed == 0


def test_where_no_floor_is_declared_a_study_stops_and_a_collection_goes_on() -> None:
    env = shaky(WordPair, lambda env: (env.number, env.episode) == (1, 0))
    env.reward_range = None
    with pytest.raises(OSError, match="broke"):
        cross_play(stage(env, n_tasks=4, copies=2), {"a": experts("upper"), "b": experts("lower")})
    kind = shaky(WordPair, lambda env: (env.number, env.episode) == (1, 0))
    kind.reward_range = None
    collecting = Stage(kind, Plan(n_tasks=4, copies=2), measuring=False)
    played = collecting.play(experts("upper"), collecting.schedule.starts)
    assert [e.failed for e in played] == [False, True, False, False]


def test_a_pairing_that_always_fails_is_an_error() -> None:
    teams = {"a": experts("upper"), "b": experts("lower")}
    with pytest.raises(OSError, match="broke"):
        cross_play(stage(shaky(WordPair, lambda env: True), n_tasks=2), teams)


def test_zero_shot_counts_them() -> None:
    teams = {"a": experts("upper")}
    # Its second episodes are the first that count: experts in all seats play before.
    env = shaky(WordPair, lambda env: (env.number, env.episode) == (0, 1))
    teams_played = zero_shot(stage(env, n_tasks=4, copies=4), teams)
    assert [score.failed for score in teams_played] == [1, 0, 0, 0]
    assert (teams_played[0].mean_return.n, teams_played[0].mean_return.mean) == (4, 0.75)


def test_contributions_count_the_floor() -> None:
    """One record failed when all had spoken, one counterpart before anybody did."""
    whole = contributions(stage(WordPair, n_tasks=4, copies=4), experts("upper"), "no word")
    assert (whole[0].lost.mean, whole[-1].lost.mean) == (0.0, 0.5)  # said in the second turn
    env = shaky(WordPair, lambda env: (env.number, env.episode) in {(0, 0), (1, 1)})
    parts = contributions(stage(env, n_tasks=4, copies=4), experts("upper"), "no word")
    assert [part.failed for part in parts] == [2, *[1] * (len(parts) - 1)]
    assert parts[0].lost.n == parts[-1].lost.n == 4
    # Returns are 1 each: the record that failed gains 1, the counterpart that failed loses 1.
    assert parts[0].lost.mean == (-1 + 1) / 4
    assert parts[-1].lost.mean == (-0.5 + 3 * 0.5) / 4


def test_messages_are_compared_in_pairs() -> None:
    """Fresh copies, too, are told who is heard otherwise."""
    echo = ScriptedPolicy(lambda r: r.messages[-1].content.split()[-1])
    team = dict.fromkeys(Relay().possible_agents, echo)
    whole = message_effects(stage(Relay, n_tasks=4, copies=2), team)
    # Numbers 0 and 1 play the real episodes, 2 to 5 are two pairs with their twins.
    env = shaky(Relay, lambda env: (env.number, env.episode) == (2, 0))
    env.reward_range = (-2.0, 1.0)
    effects = message_effects(stage(env, n_tasks=4, copies=2), team)
    for effect, same in zip(effects[1:], whole[1:], strict=True):
        assert (effect.lost, effect.heard, effect.parted) == (same.lost, same.heard, same.parted)
    assert effects[0].lost.n == 4
    assert effects[0].lost.mean == whole[0].lost.mean + 2 / 4  # 0 without its words, here -2
    assert [effect.failed for effect in effects] == [1, *[0] * (len(effects) - 1)]


# -- reports --------------------------------------------------------------------------------------
def test_a_report_counts_and_shows_them(tmp_path: Path) -> None:
    (tmp_path / "transcripts").mkdir()
    before, after = evaluate(breaking(1, 2)).episodes, evaluate(breaking(1)).episodes
    write_jsonl(tmp_path / "transcripts_before.jsonl", before)
    write_jsonl(tmp_path / "transcripts_after.jsonl", after)
    write_jsonl(tmp_path / "transcripts" / "failed-000003.jsonl", [before[1]])
    write_jsonl(tmp_path / "transcripts" / "update-000000.jsonl", before[:3])
    page = write_report(tmp_path).read_text()
    assert '<p class="what">failed episodes</p><p class="big">2 → 1</p>' in page
    assert "12 of 12 pairs" in page
    low = [dataclasses.replace(e, floor=-2.0) if e.failed else e for e in before]
    gains = {pair.before: pair.gain for pair in pairs(low, evaluate(WordPair).episodes)}
    assert (gains[0], gains[1] >= 2.0, gains[2] >= 2.0) == (0.0, True, True)
    assert re.search(r"team returns [\d.]+, failed, failed", page)
    assert "Failed in training" in page
    shown = re.findall(r"OSError: environment \d+ broke", page)
    assert len(shown) == 6  # two in the group, one in the list, three beside their pairs
    assert number(evaluate(breaking(1, 2)).mean_return) in summary_of(page)
    old = [dataclasses.replace(e, floor=None) for e in before]  # of an older release
    write_jsonl(tmp_path / "transcripts_before.jsonl", old)
    left = write_report(tmp_path).read_text()
    write_jsonl(tmp_path / "transcripts_before.jsonl", living(before))
    again = write_report(tmp_path).read_text()
    assert summary_of(again) == summary_of(left) != summary_of(page)
    assert '<p class="big">2 → 1</p>' in left
    assert '<p class="big">0 → 1</p>' in again


def summary_of(page: str) -> str:
    return page.partition("<table")[2].partition("</table>")[0]
