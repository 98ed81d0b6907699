"""The folder of a training run: what lies where, and that one process group at a time works there.

settings.json            what the run is known by (`same_run.py`); in every checkpoint, too
log.jsonl                numbers of each update (`transcripts.py`)
trackers.json            what other trackers know the run by (`trackers/`), where there are any
tensorboard/             event files, where that tracker is asked for
transcripts/             update-N.jsonl of updates, failed-N.jsonl of episodes that failed
checkpoint-N/            all that is needed to go on after step N (`checkpoints.py`)
.partial-checkpoint/     the one that is being written
run_manifest.json        versions and costs (`llm_marl_envs.measure.run_manifest`)
team/                    the trained team, once the run has ended (`weights/team_files.py`)
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from llm_marl_envs.files.atomic import make_folder
from llm_marl_envs.files.locks import locked
from trainers.trackers.following import TRACKER_FILE
from trainers.trackers.kinds import TENSORBOARD
from trainers.weights.team_files import TEAM_FILE

SETTINGS_FILE = "settings.json"
LOG_FILE = "log.jsonl"
TRANSCRIPTS = "transcripts"
STAGING = ".partial-checkpoint"
TEAM = "team"
SUMMARY = b'"train_runtime"'
"""Stands in the last line of the log of a run that was trained to its end."""


class BusyError(RuntimeError):
    """Another process works in a folder."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system releases whatever becomes of the process.

    Raises:
        BusyError: another process holds it.
        ValueError: the folder is a file.
    """
    make_folder(folder)
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / ".lock", wait=False))
        except BlockingIOError as error:
            raise BusyError(f"{folder}: another process works on it") from error
        yield


def transcript(folder: Path, kind: str, number: int) -> Path:
    """The file of episodes of an update; `kind` is update, failed or failed-eval."""
    return folder / TRANSCRIPTS / f"{kind}-{number:06d}.jsonl"


def checkpoint_after(folder: Path, step: int) -> Path:
    """The checkpoint of a step of the optimiser, whether or not it is there."""
    return folder / f"checkpoint-{step}"


def step_of(checkpoint: Path) -> int:
    """The step of the optimiser after which a checkpoint was written; -1 of another folder."""
    named = re.fullmatch(r"checkpoint-(\d+)", checkpoint.name)
    return int(named[1]) if named and checkpoint.is_dir() else -1


def checkpoints_in(folder: Path) -> list[Path]:
    """Those of a run, in the order of their steps."""
    return sorted((path for path in folder.glob("*") if step_of(path) >= 0), key=step_of)


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint of the last step; None where there is none."""
    return next(reversed(checkpoints_in(folder)), None)


def has_begun(folder: Path) -> bool:
    """Whether a run has made an update here: there is something that a second one would mix with.

    A run that failed before its first update leaves a folder that may be used again.
    """
    log = folder / LOG_FILE
    return (
        (log.is_file() and log.stat().st_size > 0)
        or any((place / TEAM_FILE).is_file() for place in (folder, folder / TEAM))
        or newest_checkpoint(folder) is not None
        or any((folder / TRANSCRIPTS).glob("update-*.jsonl"))
    )


def was_cut_off(folder: Path) -> bool:
    """Whether a run began here, and something ended it before its first whole checkpoint.

    There is nothing to go on from then, and nothing to lose: the same run may begin anew.
    """
    log = folder / LOG_FILE
    ended = log.is_file() and SUMMARY in log.read_bytes().rpartition(b"\n{")[2]
    teams = any((place / TEAM_FILE).is_file() for place in (folder, folder / TEAM))
    begun = (folder / SETTINGS_FILE).is_file()
    return begun and not (ended or teams or newest_checkpoint(folder))


def newest_or_cleared(folder: Path) -> Path | None:
    """The newest checkpoint; where there is none, what a run left is removed, so that it can begin.

    Its manifest stays, and goes on counting the costs.
    """
    newest = newest_checkpoint(folder)
    if newest is None:
        for inside in (TRANSCRIPTS, TENSORBOARD):
            shutil.rmtree(folder / inside, ignore_errors=True)
        for file in (LOG_FILE, SETTINGS_FILE, TRACKER_FILE):
            (folder / file).unlink(missing_ok=True)
    return newest
