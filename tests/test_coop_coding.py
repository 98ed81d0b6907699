"""coop_coding-v0: the contract, exact returns, PettingZoo's own tests, determinism."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pettingzoo.test import (
    api_test,
    max_cycles_test,
    parallel_api_test,
    parallel_seed_test,
    performance_benchmark,
    render_test,
    seed_test,
    state_test,
)

from llm_marl_envs import make
from llm_marl_envs.coding import functions
from llm_marl_envs.core import TextEnv
from llm_marl_envs.envs import coop_coding
from llm_marl_envs.envs.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.policies import ExpertPolicy, Policy, RandomPolicy, ScriptedPolicy
from llm_marl_envs.records import Request, read_jsonl, write_jsonl
from llm_marl_envs.rollout import Start, replay, rollout
from llm_marl_envs.sandbox import Limits, Sandbox, default_sandbox
from llm_marl_envs.tasks import SPLITS
from llm_marl_envs.testing import JUNK, check_text_env, episode_digest
from llm_marl_envs.vector import VectorTextEnv

ID = "coop_coding-v0"
ROOT = Path(__file__).parent.parent


def agreed(env: Any) -> Mapping[str, Policy]:
    """A team whose experts both follow the task's first convention."""
    inner: TextEnv = env.unwrapped

    def script(request: Request) -> str:
        task = inner.source.find(request.task_id)
        return inner.expert(task, request.agent, inner.conventions(task)[0])

    return dict.fromkeys(env.possible_agents, ScriptedPolicy(script))


def solution(env: CoopCodingEnv, index: int, convention: int = 0) -> dict[str, str]:
    task = env.source[index]
    return {a: env.expert(task, a, env.conventions(task)[convention]) for a in (HELPER, MAIN)}


# -- contract and PettingZoo ----------------------------------------------------------------------
@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize(
    ("info", "reward", "exact"),
    [
        ("split", "tests", 1.0),
        ("full", "tests", 1.0),
        ("split", "paper", 4.0),
        ("full", "contribution", None),  # depends on the task, see test_coop_coding_forgeries
    ],
)
def test_contract(turns: int, info: str, reward: str, exact: float | None) -> None:
    check_text_env(
        lambda: make(ID, turns=turns, info=info, reward=reward),
        solution=agreed,
        solution_return=exact,
        seeds=(0, 1),
    )


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize(("reward", "exact"), [("tests", 1.0), ("paper", 4.0)])
def test_contract_on_rows(turns: int, reward: str, exact: float) -> None:
    check_text_env(
        lambda: make(ID, tasks="bundled:coop_problems", split="all", turns=turns, reward=reward),
        solution=agreed,
        solution_return=exact,
        seeds=(0, 1),
    )


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PettingZoo: no Box space, unknown reset option
        yield


@pytest.mark.usefixtures("quiet")
def test_pettingzoo_parallel() -> None:
    parallel_api_test(make(ID, turns=3), num_cycles=20)
    parallel_seed_test(lambda: make(ID, turns=3), num_cycles=5)
    max_cycles_test(coop_coding)


@pytest.mark.usefixtures("quiet")
def test_pettingzoo_aec(capsys: pytest.CaptureFixture[str]) -> None:
    api_test(make(ID, api="aec", turns=3), num_cycles=20)
    seed_test(lambda: make(ID, api="aec", turns=3), num_cycles=5)
    state_test(make(ID, api="aec", turns=3), make(ID, turns=3), num_cycles=3)
    render_test(lambda **kwargs: make(ID, api="aec", **kwargs))
    capsys.readouterr()


@pytest.mark.long
@pytest.mark.usefixtures("quiet")
def test_pettingzoo_performance(capsys: pytest.CaptureFixture[str]) -> None:
    performance_benchmark(make(ID, api="aec"))
    assert "Finished" in capsys.readouterr().out


# -- what is paid and reported --------------------------------------------------------------------
def test_agreement_is_what_pays() -> None:
    env = CoopCodingEnv()
    index = next(i for i in range(50) if env.source[i].data["kind"] == "fold")
    task = env.source[index]
    args, pair = solution(env, index), solution(env, index, convention=1)
    for joint_action, expected in (
        (args, 1.0),
        (pair, 1.0),
        ({HELPER: args[HELPER], MAIN: pair[MAIN]}, None),
        ({HELPER: pair[HELPER], MAIN: args[MAIN]}, None),
    ):
        env.reset(seed=0, options={"task": index})
        _, rewards, terminations, _, infos = env.step(joint_action)
        assert rewards[HELPER] == rewards[MAIN]
        # Out of step, only tests that leave nothing to do can pass.
        assert rewards[MAIN] == pytest.approx(expected) if expected else rewards[MAIN] < 0.6
        assert all(terminations.values())
        for agent, info in infos.items():
            assert info["success"] is (expected is not None)
            read = env.read_convention(task, agent, joint_action[agent])
            assert info["convention"] == read is not None


@pytest.mark.parametrize(
    ("helper", "main", "terms", "author", "verdict"),
    [
        ("", None, {"structure": 0.05, "syntax": 0.05}, "", None),
        ("def aux(x) return", None, {"structure": 0.05, "syntax": 0.05}, "helper", "load_error"),
        (None, "def solve(xs:", {"structure": 0.05, "syntax": 0.05}, "main", "load_error"),
        (None, "", {"structure": 0.05, "syntax": 0.05}, "main", "no_entry_point"),
        (None, "x = 1", {"structure": 0.05, "syntax": 0.1}, "main", "no_entry_point"),
        ("undefined_name", None, {"structure": 0.05, "syntax": 0.1}, "helper", "load_error"),
        (
            "import sys; sys.exit()",
            None,
            {"structure": 0.05, "syntax": 0.1},
            "helper",
            "early_exit",
        ),
        ("Sure! Here it is.", "I cannot.", {"structure": 0.0, "syntax": 0.0}, "helper", None),
    ],
)
def test_each_part_costs_its_own_term(
    helper: str | None, main: str | None, terms: dict[str, float], author: str, verdict: str | None
) -> None:
    env = CoopCodingEnv()
    right = solution(env, 0)
    env.reset(seed=0, options={"task": 0})
    given = {HELPER: right[HELPER] if helper is None else helper}
    given[MAIN] = right[MAIN] if main is None else main
    _, rewards, _, _, infos = env.step(given)
    paid = infos[MAIN]["reward_terms"]
    assert {name: paid[name] for name in terms} == pytest.approx(terms)
    assert rewards[MAIN] == rewards[HELPER] < 0.5
    assert infos[MAIN]["author"] == author
    assert verdict is None or infos[MAIN]["verdict"] == verdict
    assert infos[MAIN]["tests_total"] == functions.ASSERTS


def test_fences_and_prose_do_not_matter() -> None:
    env = CoopCodingEnv()
    for index in range(3):
        env.reset(seed=0, options={"task": index})
        wrapped = {a: f"Here:\n```python\n{t}\n```\nDone." for a, t in solution(env, index).items()}
        assert env.step(wrapped)[1][MAIN] == pytest.approx(1.0)


def test_hostile_texts_are_paid_little_and_never_raise() -> None:
    env = CoopCodingEnv(max_action_chars=2**20)
    texts = (*JUNK, "x" * 2**20, "x = '\ud800'", "\x00", "raise SystemExit(0)")
    right = solution(env, 0)
    for text in texts:
        for agent in (HELPER, MAIN):
            env.reset(seed=0, options={"task": 0})
            _, rewards, _, _, infos = env.step({**right, agent: text})
            assert rewards[agent] <= 0.5, text[:20]
            assert infos[agent]["success"] is False


def test_a_program_without_end_is_stopped() -> None:
    env = CoopCodingEnv()
    with Sandbox(workers=1, limits=Limits(cpu_seconds=1)) as env.sandbox:
        env.reset(seed=0, options={"task": 0})
        infos = env.step({**solution(env, 0), MAIN: "def solve(xs):\n    while True: pass"})[4]
        assert infos[MAIN]["verdict"] == "cpu_limit"
        assert infos[MAIN]["author"] == "main"


def test_long_actions_are_cut() -> None:
    env = CoopCodingEnv(max_action_chars=20)
    env.reset(seed=0, options={"task": 0})
    infos = env.step(solution(env, 0))[4]
    assert infos[MAIN]["action_truncated"]


# -- tasks ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("split", SPLITS)
def test_the_team_can_do_more_than_one_seat(split: str) -> None:
    env = CoopCodingEnv(split=split)
    for index in range(0, len(env.source), max(len(env.source) // 40, 1)):
        bounds = env.bounds(env.source[index])
        assert bounds.random <= bounds.solo < bounds.team == 1.0
        assert bounds.solo < 0.8


def test_bounds_are_in_units_of_the_reward() -> None:
    full = CoopCodingEnv(info="full", reward="tests")
    assert full.bounds(full.source[0]).solo == 1.0  # one author sees everything
    paper = CoopCodingEnv(reward="paper")
    with pytest.raises(ValueError, match="reward='tests'"):
        paper.bounds(paper.source[0])


def test_only_the_helper_is_told_the_operation() -> None:
    for split in SPLITS:
        env = CoopCodingEnv(split=split)
        for index in range(0, 60, 7):
            task = env.source[index]
            told = {agent: messages[0].content for agent, messages in env.opening(task).items()}
            assert task.data["op"] in told[HELPER]
            assert task.data["op"] not in told[MAIN]
            whole = CoopCodingEnv(info="full").opening(task)
            assert all(task.data["prompt"] in m[0].content for m in whole.values())


def test_prompts_are_the_words_of_the_rules() -> None:
    env = CoopCodingEnv()
    task = env.source[0]
    opening = env.opening(task)
    assert [len(messages) for messages in opening.values()] == [1, 1]
    assert all(m[0].content.endswith("Reply with code only.") for m in opening.values())
    assert "turns" not in opening[HELPER][0].content
    assert "3 turns" in CoopCodingEnv(turns=3).opening(task)[HELPER][0].content


def test_ids_name_tasks() -> None:
    env = CoopCodingEnv(split="val")
    assert env.source.find("val/7") is env.source[7]
    for wrong in ("val/100000", "train/7", "val/-1", "7", "val/x"):
        with pytest.raises(ValueError, match="val/0"):
            env.source.find(wrong)
    with pytest.raises(IndexError):
        env.source[len(env.source)]


def test_demonstrations_are_good_first_actions() -> None:
    env = CoopCodingEnv()
    pairs = env.demonstrations(20, seed=3)
    assert pairs == env.demonstrations(20, seed=3) != env.demonstrations(20, seed=4)
    assert all(text.startswith(("def aux", "def solve")) for _, text in pairs)


# -- arguments ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"info": "half"}, "info='half'"),
        ({"reward": "style"}, "reward='style'"),
        ({"feedback": "loud"}, "feedback='loud'"),
        ({"turns": 0}, "turns=0"),
        ({"render_mode": "rgb"}, "render_mode='rgb'"),
        ({"split": "dev"}, "dev"),
        ({"tasks": "bundled:coop_problems", "info": "split"}, "use info='full'"),
        ({"tasks": "bundled:nothing"}, "coop_problems"),
    ],
)
def test_bad_arguments(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(ID, **kwargs)


def test_unknown_agents_are_named() -> None:
    env = CoopCodingEnv()
    with pytest.raises(ValueError, match="helper_0"):
        env.expert(env.source[0], "helper", "item")
    with pytest.raises(ValueError, match="helper_0"):
        env.read_convention(env.source[0], "main", "")


def test_a_row_cannot_be_split() -> None:
    row = CoopCodingEnv(tasks="bundled:coop_problems", split="all").source[0]
    with pytest.raises(ValueError, match="use info='full'"):
        CoopCodingEnv().reset(seed=0, options={"task": row})


def test_the_sandbox_can_be_set() -> None:
    env = CoopCodingEnv()
    assert env.sandbox is default_sandbox()
    with Sandbox(workers=1) as own:
        env.sandbox = own
        env.reset(seed=0, options={"task": 0})
        assert env.step(solution(env, 0))[1][MAIN] == pytest.approx(1.0)
    assert env.sandbox is own


# -- determinism ----------------------------------------------------------------------------------
def digest(hash_seed: int) -> str:
    code = (
        "from llm_marl_envs import make; from llm_marl_envs.testing import episode_digest;"
        f"print(episode_digest(lambda: make('{ID}', turns=2), range(4)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def test_episodes_do_not_depend_on_the_process() -> None:
    here = episode_digest(lambda: make(ID, turns=2), range(4))
    assert digest(1) == digest(2) == here


def test_a_written_transcript_replays(tmp_path: Path) -> None:
    envs = VectorTextEnv([make(ID, turns=3, feedback="partner") for _ in range(4)])
    expert = ExpertPolicy(envs.envs[0])  # conventions at random: some episodes fail and go on
    teams = {HELPER: expert, MAIN: expert}
    starts = [Start(task=i, seed=i, sample_seed=i) for i in range(6)]
    episodes = rollout(envs, teams, starts)
    episodes += rollout(envs, dict.fromkeys(teams, RandomPolicy()), starts[:2])
    assert len({episode.success for episode in episodes}) == 2
    write_jsonl(tmp_path / "episodes.jsonl", episodes)
    for episode in read_jsonl(tmp_path / "episodes.jsonl"):
        again = replay(episode)
        assert [t.reward for t in again.turns] == [t.reward for t in episode.turns]
        assert [t.messages for t in again.turns] == [t.messages for t in episode.turns]
        assert again.success == episode.success


# -- speed ----------------------------------------------------------------------------------------
class Instant(Sandbox):
    """Answers every check with the verdict of the first one: what remains is the env's own time."""

    def check(self, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "verdict"):
            self.verdict = super().check(*args, **kwargs)
        return self.verdict


def test_the_environment_itself_is_fast() -> None:
    env = CoopCodingEnv()
    actions = [solution(env, i) for i in range(50)]
    with Instant(workers=1) as sandbox:
        env.sandbox = sandbox
        best = float("inf")
        for _ in range(5):
            start = time.thread_time()
            for index, joint_action in enumerate(actions):
                env.reset(seed=index, options={"task": index})
                env.step(joint_action)
            best = min(best, (time.thread_time() - start) / (2 * len(actions)))
    # Seconds of processor time per agent turn; waiting for a processor does not count.
    assert best < 0.001


def test_copies_are_cheap_and_share_their_tasks() -> None:
    make(ID)
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        copies = [make(ID) for _ in range(64)]
        best = min(best, (time.thread_time() - start) / 64)
        assert len({id(copy.source) for copy in copies}) == 1
    assert best < 0.002  # seconds of processor time each; measured 0.001
