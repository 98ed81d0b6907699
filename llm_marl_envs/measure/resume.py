"""An evaluation's folder: what was asked, and every finished episode, so that a run can go on.

`plan.json` says what is evaluated; `episodes.jsonl` holds finished episodes in the plan's
order, appended in blocks. An evaluation that dies loses at most the block it was playing.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import Episode, episode_from_dict, episode_to_dict, plain
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.files.atomic import naming
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.files.json_files import claim, from_json

PLAN_FILE = "plan.json"
EPISODES_FILE = "episodes.jsonl"
_EXTRA = "evaluation"


@dataclass(frozen=True, slots=True)
class _Place:
    """What an evaluation adds to an episode: its number in the plan, and seconds that it took."""

    index: int
    seconds: float


class EvaluationLog:
    """The finished episodes of one evaluation, on disk.

    Args:
        folder: made where missing.
        plan: all that the episodes depend on, JSON values; a folder with another one is refused.
        starts: the whole plan, one per episode.

    Attributes:
        episodes: finished ones, in the order of `starts`.
        seconds: wall time they took, over all runs that contributed.

    Raises:
        ValueError: the folder holds another evaluation, or a file there is damaged.
    """

    def __init__(
        self, folder: str | Path, plan: Mapping[str, Any], starts: Sequence[Start]
    ) -> None:
        self.path = Path(folder) / EPISODES_FILE
        self.starts = starts
        self.episodes: list[Episode] = []
        self.seconds = 0.0
        self._bytes = 0
        plan_file = Path(folder) / PLAN_FILE
        if self.path.exists() and not plan_file.exists():
            raise ValueError(
                f"{self.path} has no {PLAN_FILE} beside it, so nothing says what was evaluated; "
                "use another folder"
            )
        claim(plan_file, plain(plan), "evaluation")
        self._read()

    def append(self, episodes: Sequence[Episode], seconds: float) -> None:
        """Add a finished block; on disk when this returns.

        Raises:
            ValueError: another process has written to the file meanwhile.
        """
        first = len(self.episodes)
        lines = []
        for place, episode in enumerate(episodes):
            extra = {"index": first + place, "seconds": seconds / len(episodes)}
            lines.append(json.dumps({**episode_to_dict(episode), _EXTRA: extra}) + "\n")
        with naming(self.path), open(self.path, "ab") as file:
            if file.tell() != self._bytes:
                raise ValueError(
                    f"{self.path}: somebody else writes there too; give each evaluation its own "
                    "folder"
                )
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())
            self._bytes = file.tell()
        self.episodes += episodes
        self.seconds += seconds

    def _read(self) -> None:
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            warnings.warn(
                f"{self.path}: its last line is half-written; that episode is played again",
                stacklevel=4,
            )
            status = self.path.stat()
            os.truncate(self.path, whole)
            # The file's time goes on to say when the last episode was written.
            os.utime(self.path, ns=(status.st_atime_ns, status.st_mtime_ns))
        self._bytes = whole
        for number, line in enumerate(content[:whole].split(b"\n")[:-1], start=1):
            try:
                self._take(json_of(line))
            except ValueError as error:
                raise ValueError(
                    f"{self.path}, line {number}: {error}; the file is damaged, so remove the "
                    "lines from there on, or the folder"
                ) from error

    def _take(self, data: dict[str, Any]) -> None:
        episode = episode_from_dict(data)
        index = len(self.episodes)
        if index >= len(self.starts):
            raise ValueError(f"more episodes than the {len(self.starts)} of the plan")
        extra: _Place = from_json(_Place, data.get(_EXTRA), _EXTRA)
        place = extra.index, episode.seed
        if place != (index, self.starts[index].seed):
            raise ValueError(
                f"episode {place[0]} with seed {place[1]}; the plan has episode {index} with seed "
                f"{self.starts[index].seed} here"
            )
        self.episodes.append(episode)
        self.seconds += extra.seconds
