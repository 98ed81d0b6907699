"""The pool: many jobs, arguments, the layers that it may ask for, packages."""

from __future__ import annotations

import copy
import os
import sys
import threading

import pytest
from support.jobs import MAIN, TESTS, alone

from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.coding.coop_coding import CoopCodingEnv
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.sandbox import (
    LAYERS,
    Budget,
    Limits,
    Sandbox,
    SandboxUnavailable,
    Verdict,
    doctor,
)
from llm_marl_envs.sandbox.layers import processor
from llm_marl_envs.sandbox.records import Job
from llm_marl_envs.sandbox.worker import Worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")


def test_map_keeps_order_and_runs_equal_programs_once(sandbox: Sandbox) -> None:
    sources = [f"def solve(x):\n    return x + {n % 4}\n" for n in range(24)]
    jobs = [{"source": s, "entry_point": "solve", "tests": TESTS} for s in sources]
    verdicts = sandbox.map(jobs)
    assert [v.status for v in verdicts] == ["wrong", "pass", "wrong", "wrong"] * 6
    assert len({id(v) for v in verdicts}) == 4


def test_equal_programs_of_a_group_are_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keyed by programs, entry point, exports and tests; what might turn out otherwise is rerun."""
    ran: list[str] = []
    lock = threading.Lock()
    real = Worker.check

    def counted(self: Worker, job: Job, budget: Budget) -> Verdict:
        with lock:
            ran.append(job.programs[-1][1])
        return real(self, job, budget)

    monkeypatch.setattr(Worker, "check", counted)
    with Sandbox(workers=2, limits=Limits(wall_seconds=0.5)) as pool:
        env = CoopCodingEnv()
        copies = VectorTextEnv([copy.deepcopy(env) for _ in range(8)])
        for copied in copies.envs:
            copied.sandbox = pool
        policy = ExpertPolicy(env, convention=experts_of(env).conventions(env.source[0])[0])
        seats = dict.fromkeys(env.possible_agents, policy)
        episodes = rollout(copies, seats, [Start(task=0, sample_seed=n) for n in range(8)])
        assert [e.success for e in episodes] == [True] * 8
        assert len(ran) == 1
        copies.close()
        ran.clear()
        source = "def solve(x):\n    return x\n"
        for tests in ("assert solve(1) == 1", "assert solve(2) == 2", "assert solve(1) == 1"):
            assert alone(pool, source, tests).ok
        assert len(ran) == 2
        ran.clear()
        sleepy = "import time\ndef solve(x):\n    time.sleep(9)\n"
        for _ in range(2):
            assert alone(pool, sleepy).status == "wall_limit"
        assert len(ran) >= 2


def test_workers_are_spread_over_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    usable = sorted(os.sched_getaffinity(0))
    assert {processor(slot) for slot in range(len(usable))} == set(usable)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert [processor(slot) for slot in (0, 1, 7, 8)] == [0, 1, 7, 0]
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert [processor(slot) for slot in (0, 1, 4)] == [4, 5, 0]
    for value in ("", "x", "0"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", value)
        assert processor(3) == 3


def test_all_processes_of_a_worker_keep_to_one_processor() -> None:
    source = "import os\ndef solve(x):\n    return len(os.sched_getaffinity(0))\n"
    with Sandbox(workers=1) as pool:
        assert alone(pool, source, "import os\nassert solve(1) == 1\n").ok


def test_arguments_are_checked(sandbox: Sandbox) -> None:
    with pytest.raises(TypeError, match="must be a str"):
        sandbox.check(None, entry_point="solve", tests=TESTS)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="exports name 'other'"):
        sandbox.check(MAIN, entry_point="solve", tests=TESTS, exports={"other": ["aux"]})
    with pytest.raises(ValueError, match="names no program"):
        sandbox.check({}, entry_point="solve", tests=TESTS)
    for wrong in ({"cpu_seconds": 0}, {"wall_seconds": -1}, {"memory_mib": 1}):
        with pytest.raises(ValueError, match="must be"):
            Limits(**wrong)


def test_require_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="unknown layers"):
        Sandbox(workers=1, require="magic")
    active = {layer.name for layer in doctor() if layer.active}
    for name in LAYERS:
        if name in active:
            Sandbox(workers=1, require=name).close()
        else:
            with pytest.raises(SandboxUnavailable, match=name):
                Sandbox(workers=1, require=name)


def test_where_nothing_can_be_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    from llm_marl_envs.sandbox import layers

    monkeypatch.setattr(layers, "_bases", lambda mode: [])
    monkeypatch.setattr(layers, "_found", {})
    with pytest.raises(SandboxUnavailable, match="allow_unsafe"):
        Sandbox(workers=1)
    with Sandbox(workers=1, allow_unsafe=True) as unsafe:
        assert unsafe.isolation == ("rlimits",)
        assert alone(unsafe, "def solve(x):\n    return x + 1\n").ok


def test_workers_are_in_control_groups_that_go_away() -> None:
    if "cgroup" not in {layer.name for layer in doctor() if layer.active}:
        pytest.skip("no control group can be made here")
    with Sandbox(workers=1) as sandbox:
        assert alone(sandbox, "def solve(x):\n    return x + 1\n").ok
        zygote = sandbox._workers[0].zygote
        assert zygote is not None
        assert zygote.group is not None
        folders = zygote.group.folders
        for folder in folders:
            # The judge, the spare children and the zygote; in bubblewrap its outer process too.
            assert len((folder / "cgroup.procs").read_text().split()) >= 3
    assert folders
    assert not [folder for folder in folders if folder.exists()]


def test_packages_can_be_preloaded() -> None:
    numpy = pytest.importorskip("numpy")
    folder = str(numpy.__path__[0]).rsplit("/", 1)[0]
    with Sandbox(workers=1, preload=["numpy"], paths=[folder]) as sandbox:
        source = "import numpy as np\ndef solve(x):\n    return np.array([x, 1]).sum()\n"
        assert alone(sandbox, source).ok
        source = "import numpy as np\ndef solve(x):\n    return np.array([x, 1])\n"
        assert alone(sandbox, source, "assert solve(2) == [2, 1]").ok
