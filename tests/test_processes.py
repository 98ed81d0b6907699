"""Several processes, and processes that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
RUN = str(ROOT / "tests" / "one_run.py")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(
        [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    ),
    "OMP_NUM_THREADS": "1",
}
MODES = {
    "adapters": [],
    "shared": ["adapters=false"],
    "separate": ["adapters=false", "weights=separate"],
}


def results(text: str) -> list[dict[str, Any]]:
    lines = [line.partition("RESULT ")[2] for line in text.splitlines() if "RESULT " in line]
    return sorted((json.loads(line) for line in lines), key=lambda result: result["rank"])


def run(folder: Path, *changes: str, processes: int = 1) -> list[dict[str, Any]]:
    command = [sys.executable]
    if processes > 1:
        command += [
            "-m",
            "torch.distributed.run",
            f"--nproc_per_node={processes}",
            "--master_port=0",
        ]
        command += ["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"]
    done = subprocess.run(
        [*command, RUN, str(folder), *changes],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return results(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_two_processes_agree_and_equal_one(tmp_path: Path, mode: str):
    """Bit-identical on both ranks; one plain gradient step equals the one-process run.

    Tasks and draws are a function of (seed, update, position), so both play the same episodes, of
    different lengths.
    """
    changes = [*MODES[mode], "max_steps=1", "optim=sgd", "learning_rate=5", "max_grad_norm=0"]
    one = run(tmp_path / "one", *changes)[0]
    two = run(tmp_path / "two", *changes, processes=2)
    assert [result["rank"] for result in two] == [0, 1]
    assert two[0]["digest"] == two[1]["digest"]
    for policy, value in one["sums"].items():
        assert two[0]["sums"][policy] == pytest.approx(value, rel=1e-6)
    saving = [*MODES[mode], "max_steps=3", "save_strategy=steps", "save_steps=2", "beta=0.1"]
    longer = run(tmp_path / "longer", *saving, processes=2)
    assert longer[0]["digest"] == longer[1]["digest"]
    assert longer[0]["digest"] != two[0]["digest"]
    checkpoint = f"resume={tmp_path / 'longer' / 'checkpoint-2'}"
    resumed = run(tmp_path / "longer", *saving, checkpoint, processes=2)
    assert [result["digest"] for result in resumed] == [longer[0]["digest"]] * 2


@pytest.mark.long
def test_killed_at_random_moments_and_resumed_it_ends_as_if_unbroken(tmp_path: Path):
    """30 SIGKILLs, saves included: the newest checkpoint loads and no update is lost but one."""
    changes = [
        "max_steps=40",
        "save_strategy=steps",
        "save_steps=1",
        "num_iterations=2",
        "beta=0.1",
    ]
    unbroken = run(tmp_path / "unbroken", *changes)[0]
    folder = tmp_path / "broken"
    rng = random.Random(0)
    kills, before = 0, 0
    while kills < 30:
        resume = ["resume=true"] if any(folder.glob("checkpoint-*")) else []
        process = subprocess.Popen(
            [sys.executable, RUN, str(folder), *changes, *resume],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Import takes seconds; wait until it trains (or is nearly there), then kill at random.
        begun = time.monotonic()
        while newest(folder) <= before and time.monotonic() - begun < 60 and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 0.6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        assert newest(folder) >= before
        before = newest(folder)
        if before >= 40:
            break
    finished = run(folder, *changes, "resume=true")[0]
    assert finished["step"] == 40
    assert finished["digest"] == unbroken["digest"]
    assert kills >= 10


def newest(folder: Path) -> int:
    return max((int(p.name.partition("-")[2]) for p in folder.glob("checkpoint-*")), default=0)
