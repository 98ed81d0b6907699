"""A training run that is killed again and again, as a program.

python kill_runs.py FOLDER MODE KILLS STEPS

Forks children that train and resume, and sends SIGKILL to each at a random moment after it has
written at least one new checkpoint, to every third one in a save. Prints one line of JSON. Forking
a process that has imported everything once makes a kill cost a second instead of ten.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
from support.models import make_trainer, weights
from support.process_cases import MODES, Uneven
from transformers import TrainerCallback

from trainers.running.folder import STAGING


class Diary(TrainerCallback):
    """Writes down every update that was made, whether or not it was saved."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "diary"

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        with open(self.file, "a") as handle:
            handle.write(f"{state.global_step}\n")


def train(folder: Path, mode: str, steps: int) -> str:
    """Train or resume to the end; the digest of the final weights."""
    trainer = make_trainer(
        folder,
        Uneven,
        max_steps=steps,
        save_strategy="steps",
        save_steps=1,
        save_total_limit=3,
        num_iterations=2,
        beta=0.1,
        callbacks=[Diary(folder)],
        **MODES[mode],
    )
    trainer.train(resume_from_checkpoint=newest(folder) > 0)
    values = weights(trainer).values()
    return hashlib.sha256(b"".join(v.numpy().tobytes() for v in values)).hexdigest()


def newest(folder: Path) -> int:
    """Step of the newest checkpoint, 0 where there is none."""
    return max((int(p.name.partition("-")[2]) for p in folder.glob("checkpoint-*")), default=0)


def in_child(folder: Path, mode: str, steps: int) -> int:
    """Fork a child that trains; leaves its digest in the folder when it gets to the end."""
    child = os.fork()
    if child:
        return child
    try:
        (folder / "digest").write_text(train(folder, mode, steps))
        os._exit(0)
    finally:  # an error's traceback is printed, the parent's work must not be done twice
        traceback.print_exc()
        os._exit(1)


def kill_once(folder: Path, mode: str, steps: int, delay: float, in_save: bool) -> dict[str, Any]:
    """Train on until a new checkpoint is there, wait `delay` seconds, and for a save, SIGKILL."""
    before = newest(folder)
    child = in_child(folder, mode, steps)
    begun = time.monotonic()
    while newest(folder) <= before:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            raise RuntimeError(f"the run ended by itself at step {newest(folder)}: {status}")
        if time.monotonic() - begun > 120:
            raise RuntimeError("no new checkpoint within two minutes")
        time.sleep(0.002)
    time.sleep(delay)
    until = time.monotonic() + 10
    while in_save and not (folder / STAGING).exists() and time.monotonic() < until:
        pass  # a save takes milliseconds
    saving = (folder / STAGING).exists()
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise RuntimeError(f"the run was over before the kill: {status}")
    made = int((folder / "diary").read_text().split()[-1])
    return {"saving": saving, "made": made, "kept": newest(folder), "before": before}


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder, mode, kills, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(mode)
    (folder / "broken").mkdir(parents=True)
    (folder / "unbroken").mkdir()
    records = [
        kill_once(folder / "broken", mode, steps, rng.uniform(0.0, 0.3), in_save=number % 3 == 0)
        for number in range(kills)
    ]
    digests = []
    for name in ("broken", "unbroken"):
        os.waitpid(in_child(folder / name, mode, steps), 0)
        digests.append((folder / name / "digest").read_text())
    print("RESULT " + json.dumps({"kills": records, "digests": digests}), flush=True)


if __name__ == "__main__":
    main()
