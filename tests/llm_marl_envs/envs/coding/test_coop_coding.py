"""coop_coding-v0: the contract, exact returns, PettingZoo's own tests, determinism."""

from __future__ import annotations

import time
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.envs.coding import functions
from llm_marl_envs.envs.coding.coop_coding import HELPER, MAIN, CoopCodingEnv
from llm_marl_envs.envs.coding.functions import SPLITS
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.testing import JUNK
from llm_marl_envs.sandbox import Limits, Sandbox, default_sandbox

ID = "coop_coding-v0"


def solution(env: CoopCodingEnv, index: int, convention: int = 0) -> dict[str, str]:
    task = env.source[index]
    return {
        a: experts_of(env).first(task, a, experts_of(env).conventions(task)[convention])
        for a in (HELPER, MAIN)
    }


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
            read = experts_of(env).read(task, agent, joint_action[agent])
            assert info["convention"] == read is not None


@pytest.mark.parametrize(
    ("helper", "main", "terms", "author", "verdict"),
    [
        ("", None, {"structure": 0.05, "syntax": 0.05}, "helper", "exception"),
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
    assert infos[MAIN]["tests_total"] == len(functions.TESTS)


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
    tasks = [env.source[i] for i in range(0, len(env.source), len(env.source) // 40)]
    bounds = [env.bounds(task) for task in tasks]
    assert all(b.random == 0.0 and 0.2 < b.solo <= b.team == 1.0 for b in bounds)
    assert sum(b.solo for b in bounds) / len(bounds) < 0.5


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
    pairs = demonstrations(env, 20, seed=3)
    assert pairs == demonstrations(env, 20, seed=3) != demonstrations(env, 20, seed=4)
    assert all(text.startswith(("def aux", "def solve")) for _, text in pairs)


# -- arguments ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
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
        experts_of(env).first(env.source[0], "helper", "item")
    with pytest.raises(ValueError, match="helper_0"):
        experts_of(env).read(env.source[0], "main", "")


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
