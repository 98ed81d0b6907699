"""One scorer for many environments: what they ask for at the same time is scored in one batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future

from .base import Scorer, Submission

JOIN_SECONDS = 0.002
"""How long the first of a batch waits for the others; environments step in threads."""

KEPT = 4096
"""Scores that are kept: the episodes of a group often write the same."""


SCORER_FAILED = 2
"""Submissions of one batch that fail alone before the rest is not asked for: a server that is down
would be waited for as many times as episodes run."""

Waiting = tuple[Submission, Future[dict[str, float]]]


class SharedScorer:
    """Scores single submissions, in batches of all that threads ask for at once.

    Args:
        scorer: asked by one thread at a time. Where it raises for a batch, it is asked for each
            submission of it alone, so that who is not to blame gets a score; once two have failed
            alone, it is the scorer that fails, and the rest raise the batch's error.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self._lock = threading.Lock()
        self._waiting: list[Waiting] = []
        self._led = False
        self._known: dict[Submission, dict[str, float]] = {}

    def __call__(self, submission: Submission) -> dict[str, float]:
        """The parts of the score. Raises what the scorer raised."""
        with self._lock:
            if submission in self._known:
                return dict(self._known[submission])
            answer: Future[dict[str, float]] = Future()
            self._waiting.append((submission, answer))
            leads, self._led = not self._led, True
        if leads:
            try:
                time.sleep(JOIN_SECONDS)
            finally:  # Ctrl-C while waiting: the others rely on this thread
                self._lead()
        return dict(answer.result())

    def _lead(self) -> None:
        """Score until nobody waits. Whatever ends this early ends it for all who wait."""
        batch: list[Waiting] = []
        try:
            while True:
                with self._lock:
                    batch, self._waiting = self._waiting, []
                    if not batch:
                        self._led = False
                        return
                self._score(batch)
        except BaseException as error:  # Ctrl-C between two steps of the above
            with self._lock:
                batch, self._waiting, self._led = batch + self._waiting, [], False
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            raise

    def _score(self, batch: list[Waiting]) -> None:
        asked = list(dict.fromkeys(submission for submission, _ in batch))
        try:
            scores = self.scorer.score(asked)
            if len(scores) != len(asked):
                raise ValueError(
                    f"{type(self.scorer).__name__} gave {len(scores)} scores for {len(asked)} "
                    "submissions; expected one each"
                )
            scored = dict(zip(asked, map(_checked, scores), strict=True))
        except BaseException as error:  # noqa: BLE001 - each thread that waits is to raise it
            if len(asked) > 1 and isinstance(error, Exception):  # it may be about one of them
                self._score_alone(asked, batch)
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        with self._lock:
            self._known |= scored
            for oldest in list(self._known)[: max(0, len(self._known) - KEPT)]:
                del self._known[oldest]
        for submission, answer in batch:
            answer.set_result(scored[submission])

    def _score_alone(self, asked: list[Submission], batch: list[Waiting]) -> None:
        failed = 0
        for submission in asked:
            if failed < SCORER_FAILED:
                own = [entry for entry in batch if entry[0] == submission]
                self._score(own)
                failed += own[0][1].exception() is not None


def _checked(score: Mapping[str, float]) -> dict[str, float]:
    parts = {str(name): float(value) for name, value in score.items()}
    total = sum(parts.values())
    if not -1e-9 <= total <= 1 + 1e-9:
        raise ValueError(f"a score of {total} ({parts}): expected parts that sum to 0 to 1")
    return parts
