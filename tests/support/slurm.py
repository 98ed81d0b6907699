"""A stand-in for SLURM on this machine: `srun` starts the tasks of two nodes, one each.

As a program, `python slurm.py srun OPTIONS COMMAND` or `... scontrol ...`. Every call is written
to the file in SLURM_STUB_LOG. With SLURM_STUB_DRY set, tasks are not run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NODES = 2


def install(folder: Path) -> dict[str, str]:
    """Put the commands into a folder; the environment of a job of two nodes that finds them."""
    folder.mkdir(exist_ok=True)
    for name in ("srun", "scontrol"):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" {name} "$@"\n')
        command.chmod(0o755)
    return {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_NNODES": str(NODES),
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_STUB_LOG": str(folder / "log.jsonl"),
    }


def called(environment: dict[str, str]) -> list[list[str]]:
    """What was called so far."""
    file = Path(environment["SLURM_STUB_LOG"])
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def srun(words: list[str]) -> int:
    """Run one task per node; a signal goes to all of them."""
    while words[0].startswith("--"):
        words = words[1:]
    if os.environ.get("SLURM_STUB_DRY"):
        for _ in range(400):  # until both calls of a job are noted: the script ends the first one
            if sum(call[0] == "srun" for call in called(dict(os.environ))) % 2 == 0:
                break
            time.sleep(0.05)
        return 0
    place: list[dict[str, str]] = [
        {"SLURM_PROCID": str(n), "SLURM_LOCALID": "0", "SLURM_NTASKS": str(NODES)}
        for n in range(NODES)
    ]
    tasks = [subprocess.Popen(words, env={**os.environ, **one}) for one in place]

    def forward(signum: int, _: Any) -> None:
        for task in tasks:
            task.send_signal(signum)

    signal.signal(signal.SIGTERM, forward)
    return max(task.wait() for task in tasks)


if __name__ == "__main__":
    with open(os.environ["SLURM_STUB_LOG"], "a") as log:
        log.write(json.dumps(sys.argv[1:]) + "\n")
    if sys.argv[1] == "srun":
        sys.exit(srun(sys.argv[2:]))
    if sys.argv[2:3] == ["show"]:
        print("127.0.0.1")
