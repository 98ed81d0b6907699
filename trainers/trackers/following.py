"""The trackers of one training: opened when it begins or goes on, shown its episodes, closed.

Owns the run's name in all of them (`trackers.json`), and the rows of a table of episodes.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import EpisodeGroup, plain
from llm_marl_envs.files.json_files import read_json, write_json
from trainers.trackers.kinds import TRACKERS, Tracked, Tracker

TRACKER_FILE = "trackers.json"
MOST_NAME = 57
"""Characters of a run's name before its digits: W&B takes ids of 64."""


class Trackers:
    """The trackers of a training.

    Args:
        args: of the trainer; `run_name` becomes the run's name in every tracker.
        callbacks: transformers' of this training.
        writes: whether this process reports.
    """

    def __init__(self, args: Any, callbacks: Sequence[Any], *, writes: bool) -> None:
        self.args, self.callbacks = args, callbacks
        self.names = [*args.report_to] if writes else []
        self.open: list[Tracker] = []

    @contextmanager
    def following(self, checkpoint: Path | None, step: int) -> Iterator[None]:
        """Report a training that begins, or goes on from a checkpoint, while the block runs.

        Raises:
            ValueError: a tracker refuses to open a run.
        """
        if not self.names:
            yield
            return
        folder = Path(str(self.args.output_dir))
        memory = _remembered(folder, checkpoint) or {"name": _new_name(folder, self.args.run_name)}
        memory["folder"] = str(folder.resolve())
        self.args.run_name = memory["name"]
        run = Tracked(
            name=memory["name"],
            project=self.args.project,
            folder=folder,
            step=step,
            callbacks=self.callbacks,
            memory=memory,
        )
        with ExitStack() as stack:
            self.open = [TRACKERS[name](run) for name in self.names if name in TRACKERS]
            for tracker in self.open:
                stack.enter_context(tracker.opened())
            write_json(folder / TRACKER_FILE, memory)
            stack.callback(self.open.clear)
            # TRL reads it while it trains, and would log the seconds of every single pass.
            self.args.report_to = []
            stack.callback(setattr, self.args, "report_to", self.names)
            yield

    def show(self, group: EpisodeGroup, update: int, step: int) -> None:
        """Show a group of episodes in every tracker that has tables."""
        if self.open:
            rows = table_of(group, update)
            for tracker in self.open:
                tracker.show(rows, step)


def _new_name(folder: Path, given: str | None) -> str:
    """A name for a run that no other has: trackers would take two of one name for one run.

    It holds nothing that a tracker refuses in a name, an id or a path: "lr=1,seed=1" becomes
    "lr=1-seed=1-3fa1c2".
    """
    plain = re.sub(r"[^\w.+=-]+", "-", given or folder.resolve().name).strip("-.")
    return f"{plain[:MOST_NAME] or 'run'}-{secrets.token_hex(3)}"


def _remembered(folder: Path, checkpoint: Path | None) -> dict[str, Any] | None:
    """What trackers know a run by that goes on in its folder; None: it is a new run.

    A folder that was moved is the same run. A copy beside it is another one, and so is what goes on
    from a checkpoint of another folder.
    """
    if checkpoint is None or not (folder / TRACKER_FILE).is_file():
        return None
    memory = read_json(folder / TRACKER_FILE)
    first = Path(memory.get("folder", folder))
    copied = (first / TRACKER_FILE).is_file() and not first.samefile(folder)
    if copied and read_json(first / TRACKER_FILE).get("name") == memory["name"]:
        return None
    return memory


def table_of(group: EpisodeGroup, update: int) -> list[dict[str, Any]]:
    """One row per action of a group's episodes, in the order in which they were played.

    Args:
        group: G episodes; those that failed are left out.
        update: that learned from it.
    """
    return [
        {
            "update": update,
            "task": str(episode.task_id),
            "episode": place,
            "agent": turn.agent,
            "turn": turn.index,
            "said": turn.action.encode("utf-8", "replace").decode("utf-8"),
            "reward": float(turn.reward),
            "terms": json.dumps(plain(turn.reward_terms)),
            "return": float(episode.team_return),
        }
        for place, episode in group.living
        for turn in episode.turns
    ]
