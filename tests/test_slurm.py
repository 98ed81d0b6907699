"""The script for SLURM: what it calls, and that its run stops, is queued again and goes on.

`srun` and `scontrol` are those of `support/slurm.py`. On a cluster it has not been run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.launch import ENVIRONMENT, free_port
from support.paths import ROOT
from support.slurm import called, install

pytestmark = pytest.mark.full  # `make test-all` runs it

SCRIPT = ROOT / "examples" / "slurm" / "two_nodes.sbatch"
RUN = """
model: {model}
env: coop_coding-v0
env_kwargs: {{split: train}}
lora: {{r: 4, target_modules: [q_proj, v_proj]}}
partners: {{helper_0: "expert:item"}}
trainer:
  max_steps: {steps}
  tasks_per_update: 2
  num_generations: 2
  max_completion_length: 8
  save_strategy: steps
  save_steps: 1
  save_total_limit: 1
  transcript_every: 0
  use_cpu: true
  disable_tqdm: true
"""


def test_the_script_is_bash():
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    asked = [line for line in SCRIPT.read_text().splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --signal=B:TERM@120" in asked
    assert "#SBATCH --requeue" in asked


def test_it_starts_servers_and_trainers_and_goes_on_where_there_is_a_checkpoint(tmp_path: Path):
    environment = {**install(tmp_path / "bin"), "SLURM_STUB_DRY": "1", "VLLM_PYTHON": "/v/python"}
    words = ["bash", str(SCRIPT), "run.yaml", str(tmp_path / "out")]
    for resumed in (False, True):
        if resumed:
            (tmp_path / "out" / "checkpoint-3").mkdir(parents=True)
        subprocess.run(words, env={**os.environ, **environment}, check=True)
        calls = called(environment)[-3:]
        assert ["scontrol", "show", "hostnames", "node[1-2]"] in calls
        by_node = ["--overlap", "--ntasks-per-node=1", "--ntasks=2"]
        [server] = [c for c in calls if c[1:4] == by_node]
        [trainers] = [c for c in calls if c[0] == "srun" and c is not server]
        assert server[-3:] == ["run.yaml", "/v/python", "8000"]
        begun = ["8000", "--config", "run.yaml", "--override", f"output_dir={tmp_path / 'out'}"]
        assert trainers[trainers.index("8000") :] == begun + resumed * [
            "--override",
            "resume_from_checkpoint=true",
        ]


def newest(output: Path) -> int:
    """Updates of the newest checkpoint; 0 without one."""
    return max((int(one.name.partition("-")[2]) for one in output.glob("checkpoint-*")), default=0)


def stopped_after(update: int, words: list[str], environment: dict[str, str], output: Path) -> int:
    """Let a job run beyond an update and tell it to stop; the updates it made."""
    job = subprocess.Popen(words, env=environment)
    for _ in range(300):
        if newest(output) > update or job.poll() is not None:
            break
        time.sleep(1)
    job.send_signal(signal.SIGTERM)
    assert job.wait(120) == 143
    return newest(output)


@pytest.mark.long
def test_a_job_that_is_told_to_stop_is_queued_again_and_goes_on(tmp_path: Path):
    from support.models import untrained

    for one in untrained():
        one.save_pretrained(tmp_path / "base")
    run, output = tmp_path / "run.yaml", tmp_path / "out"
    run.write_text(RUN.format(model=tmp_path / "base", steps=1000))
    port = {"MASTER_PORT": str(free_port())}
    environment = {**ENVIRONMENT, **install(tmp_path / "bin"), **port}
    words = ["bash", str(SCRIPT), str(run), str(output)]
    first = stopped_after(0, words, environment, output)
    assert 0 < first < 1000
    assert called(environment)[-1] == ["scontrol", "requeue", "7"]
    assert first < stopped_after(first, words, environment, output) < 1000
