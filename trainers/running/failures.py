"""Episodes whose environment raised: kept in files, counted, and how many of them a run bears.

Nothing is learned from a failed episode, and it is in no mean of training. Every process knows all
that failed; an error itself is known only where it was raised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from llm_marl_envs.core.records import Episode, countable, write_jsonl
from llm_marl_envs.play.rollout import EpisodesFailedError, Failures, failure_name, failure_of
from trainers.config import MAGRPOConfig
from trainers.running.folder import transcript

FAILURE_WINDOW = 20
"""Updates over which failed episodes are counted."""


@dataclass(frozen=True, slots=True)
class FailureWindow:
    """How many of the episodes of the last updates failed, over all processes.

    Attributes:
        updates: (failed, played, first) of each of the last updates, at most `FAILURE_WINDOW`;
            `first` tells of the first failed episode, "" where there was none.
    """

    updates: tuple[tuple[int, int, str], ...] = ()

    def after(self, episodes: Sequence[Episode]) -> FailureWindow:
        """The window once one more update was played."""
        failed = [episode for episode in episodes if episode.failed]
        newest = (len(failed), len(episodes), failure_of(failed[0]) if failed else "")
        return FailureWindow((*self.updates, newest)[-FAILURE_WINDOW:])

    def exceeds(self, share: float) -> bool:
        """Whether more than this share failed; a single one is too many only for a share of 0."""
        failed, played, _ = self.totals()
        return failed / played > share and (failed > 1 or share == 0)

    def totals(self) -> tuple[int, int, str]:
        """(failed, played, first) over the window."""
        first = next((first for _, _, first in self.updates if first), "")
        return sum(one[0] for one in self.updates), sum(one[1] for one in self.updates), first


class FailedEpisodes:
    """What a run does with its failed episodes.

    Args:
        args: `max_failed_share`, and `output_dir`, where they are kept.
        main: whether this process writes and warns.
        save: saves a checkpoint before the run is stopped; False where there is nothing to save.

    Attributes:
        window: of the last updates.
    """

    def __init__(self, args: MAGRPOConfig, main: bool, save: Callable[[], bool]) -> None:
        self.args = args
        self.main = main
        self.save = save
        self.window = FailureWindow()

    def after_update(self, update: int, episodes: Sequence[Episode], failures: Failures) -> None:
        """Keep, count and bear the failed ones among an update's episodes, of all processes.

        Raises:
            Exception: what the environment raised in the first update of the run.
            EpisodesFailedError: that was on another process; or more than `max_failed_share` failed
                in the last updates. Then a checkpoint of before the update was saved.
        """
        failed = [episode for episode in episodes if episode.failed]
        window = self.window.after(episodes)
        if failed:
            message = f"update {update}: {len(failed)} of {len(episodes)} episodes failed"
            message = f"{message} ({self._keep(failed, 'failed', update)})"
            if update == 0:
                message = f"{message}; an environment that fails in the first update stops the run"
                raise _first_error(failures, failed[0], message)
            if window.exceeds(self.args.max_failed_share):
                self.save()
                raise EpisodesFailedError(self._too_many(window, message))
            self._warn(f"{message}; training goes on with the others")
        self.window = window

    def after_evaluation(
        self, update: int, failed: Sequence[Episode], played: int, failures: Failures
    ) -> None:
        """Keep the failed episodes of an evaluation, which counts them.

        Raises:
            Exception: all failed, or one that cannot be counted; what the environment raised.
            EpisodesFailedError: the same, where it raised on another process.
        """
        if not failed:
            return
        message = f"{len(failed)} of {played} episodes of the evaluation failed"
        message = f"{message} ({self._keep(failed, 'failed-eval', update)})"
        if len(failed) == played:
            self.save()
            raise _first_error(failures, failed[0], message)
        if not all(map(countable, failed)):
            self.save()
            failures.refuse_uncounted(failed)
        self._warn(f"{message}; its means count them at the smallest return of the environment")

    def _keep(self, failed: Sequence[Episode], kind: str, update: int) -> Path:
        """Write failed episodes, as far as they came and with their tracebacks."""
        path = transcript(Path(str(self.args.output_dir)), kind, update)
        if self.main:
            write_jsonl(path, failed)
        return path

    def _warn(self, message: str) -> None:
        if self.main:
            warnings.warn(message, stacklevel=4)

    def _too_many(self, window: FailureWindow, message: str) -> str:
        failed, played, first = window.totals()
        return (
            f"{message}. In the last {len(window.updates)} updates {failed} of {played} did, more "
            f"than max_failed_share={self.args.max_failed_share}. A checkpoint of before this "
            f"update is in {self.args.output_dir}: mend the environment, or raise "
            f"max_failed_share, and resume. The first: {first}"
        )


def _first_error(failures: Failures, first: Episode, message: str) -> Exception:
    """What an environment raised, with a note; if on another process, an error that says it."""
    if failures.first is None:
        return EpisodesFailedError(f"{message}. The first: {failure_of(first)}")
    failures.first.add_note(f"{message}. The first: {failure_name(first)}")
    return failures.first
