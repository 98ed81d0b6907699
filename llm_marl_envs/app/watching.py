"""A run while it trains: how far it is, where its time goes, curves, diagnoses, newest episodes.

Owns what of a run's folder is shown, as records. The folder is read and nothing in it is changed.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from llm_marl_envs.files.json_files import finite, read_json
from llm_marl_envs.measure.numbers.diagnosis import Finding
from llm_marl_envs.measure.numbers.format import number
from llm_marl_envs.report import sections
from llm_marl_envs.report.charts import Chart
from llm_marl_envs.report.episodes import Listing, listed
from llm_marl_envs.report.sources import Run, Transcript, read_transcript, runs_below
from llm_marl_envs.report.tables import Table, table

RECENT = 20
"""Updates that the time of one is taken from."""
EPISODES = 8
QUIET_SECONDS = 10.0
"""An update that takes this many times longer than usual, and this long, is remarked."""
IDLE_SHARE = 20
"""How many times the processor time of a drawing passes before a run is drawn again."""
KEPT = 8
"""Sets of runs whose drawings are kept."""
LOG, UPDATES = "log.jsonl", "transcripts/update-*.jsonl"
PARTS, WHOLE = "time/", "time/rollout"
"""Names of the seconds of an update's parts; the second holds sampling and environments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is.

    Attributes:
        name: of the run.
        step: the last update that was logged.
        steps: how many there will be, None where nobody knows.
        update_seconds: of an update, median of the latest; None before there are two.
        left_seconds: until the end, None where nobody knows, 0 at the end.
        ended: whether it has come to its end.
        logged: when something was logged last, in seconds since 1970.
    """

    name: str
    step: int
    steps: int | None
    update_seconds: float | None
    left_seconds: float | None
    ended: bool
    logged: float

    @property
    def words(self) -> str:
        """The same as a sentence, as it is now."""
        whole = f" of {self.steps}" if self.steps else ""
        parts = [f"update {self.step}{whole}"]
        if self.update_seconds is not None:
            parts.append(f"{number(self.update_seconds)} s an update")
        if self.ended:
            parts.append("ended")
        elif self.left_seconds is not None:
            parts.append(f"about {duration(self.left_seconds)} left")
        usual, quiet = 10 * (self.update_seconds or 0.0), time.time() - self.logged
        if not self.ended and quiet > max(QUIET_SECONDS, usual):
            parts.append(f"nothing logged for {duration(quiet)}: stopped, perhaps")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a page shows of one run or of several over one another.

    Attributes:
        progress: of each run.
        findings: (run, likely cause why it does not improve).
        charts: curves, a colour for each run where there are several.
        seconds: where the time of the latest updates went; None where nothing was logged.
        episodes: the newest recorded ones of a single run.
        recorded: the update that they are of, as "update 40".
        notes: what a reader must know about the files.
    """

    progress: tuple[Progress, ...]
    findings: Sequence[tuple[str, Finding]]
    charts: tuple[Chart, ...]
    seconds: Table | None
    episodes: Listing | None
    recorded: str
    notes: tuple[str, ...]


class Watcher:
    """Looks at runs for many pages: draws anew when something was written, and seldom enough.

    Drawing takes a second of processor time, which the training beside it would miss.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, ...], tuple[object, float, Watched | str]] = {}

    def look(self, folders: Mapping[str, Path]) -> Watched:
        """As `watched`; where it has changed, up to `IDLE_SHARE` drawings old.

        Raises:
            ValueError: why there is nothing to be seen; names runs, and no path of the machine.
        """
        key = tuple(folders)
        state = [_state(path) for path in folders.values()]
        with self._lock:
            before, until, shown = self._seen.pop(key, (None, 0.0, None))
            if shown is None or (state != before and time.monotonic() >= until):
                begun = time.thread_time()
                try:
                    shown = watched(folders)
                except (ValueError, ImportError, OSError) as error:  # OSError: it was deleted
                    shown = _by_name(str(error), folders)
                drawing = time.thread_time() - begun
                before, until = state, time.monotonic() + IDLE_SHARE * drawing
            self._seen[key] = before, until, shown
            while len(self._seen) > KEPT:
                del self._seen[next(iter(self._seen))]
        if isinstance(shown, str):
            raise ValueError(shown)
        return shown


def _by_name(text: str, folders: Mapping[str, Path]) -> str:
    """A text about files, with the names of runs in place of their paths; the longest first."""
    for name, path in sorted(folders.items(), key=lambda item: -len(str(item[1]))):
        text = text.replace(str(path), name)
    return text


def _state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """What changes when something is written; nothing of what was deleted meanwhile."""
    stats = []
    for path in filter(None, (_last(folder, LOG), _last(folder, UPDATES))):
        with suppress(FileNotFoundError):
            stats.append((path.name, path.stat()))
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def _last(folder: Path, pattern: str) -> Path | None:
    """The last file of a pattern; what is a pipe, or a link that leads out, is no file of a run."""
    inside = folder.resolve()
    for path in sorted(folder.glob(pattern), reverse=True):
        if path.is_file() and path.resolve().is_relative_to(inside):
            return path
    return None


def watched(folders: Mapping[str, Path]) -> Watched:
    """What there is of runs, name -> folder.

    Raises:
        ValueError: one has no log, or a malformed file.
        OSError: a file cannot be read, as when it is deleted meanwhile.
        ImportError: there is something to draw, and matplotlib is not installed.
    """
    notes: list[str] = []
    runs = [replace(_run(path, notes), name=name) for name, path in folders.items()]
    logged = [run for run in runs if run.log]
    newest = _newest(next(iter(folders.values())), notes) if len(folders) == 1 else None
    return Watched(
        progress=tuple(progress_of(run, folders[run.name]) for run in runs),
        findings=sections.diagnoses(logged),
        charts=tuple(sections.over_one_another(logged)) if logged else (),
        seconds=_seconds(logged),
        episodes=None if newest is None else listed(newest, EPISODES),
        recorded="" if newest is None else newest.label,
        notes=tuple(_by_name(note, folders) for note in notes),
    )


def _run(folder: Path, notes: list[str]) -> Run:
    """The run of this very folder: the first, and no other log is read."""
    run = next(runs_below(folder, notes), None) if _last(folder, LOG) else None
    if run is None:
        raise ValueError(f"{folder}: no {LOG} there; it was deleted, or is none of a run")
    return run


def _newest(folder: Path, notes: list[str]) -> Transcript | None:
    """The last group of training that was recorded."""
    path = _last(folder, UPDATES)
    if path is None:
        return None
    before = path.stem.removeprefix("update-")  # files count from 0, the log from 1
    words = f"update {int(before) + 1}" if before.isdecimal() else path.stem
    newest = read_transcript(folder, path, words, notes)
    return newest if newest.episodes else None


def progress_of(run: Run, folder: Path) -> Progress:
    """How far a run is, from its log and its settings."""
    updates = [e for e in run.log if finite(e.get("loss")) and finite(e.get("step"))]
    last = updates[-1] if updates else {}
    step = int(last.get("step", 0))
    steps = _steps(last, _trainer(folder))
    times = [float(e["cost/seconds"]) for e in updates[-RECENT:] if finite(e.get("cost/seconds"))]
    each = statistics.median(b - a for a, b in pairwise(times)) if len(times) > 1 else None
    ended = any("train_runtime" in entry for entry in run.log)
    left = None if each is None or steps is None else max(0, steps - step) * each
    return Progress(
        name=run.name,
        step=step,
        steps=steps,
        update_seconds=each,
        left_seconds=0.0 if ended else left,
        ended=ended,
        logged=(folder / run.file).stat().st_mtime,
    )


def _trainer(folder: Path) -> Mapping[str, Any]:
    path = folder / "settings.json"
    settings = read_json(path).get("settings", {}) if path.is_file() else {}
    trainer = settings.get("trainer", {}) if isinstance(settings, Mapping) else {}
    return trainer if isinstance(trainer, Mapping) else {}


def _steps(last: Mapping[str, Any], trainer: Mapping[str, Any]) -> int | None:
    """Updates of the whole run: as its settings say, else by the epochs that are behind it."""
    steps, epochs = trainer.get("max_steps", 0), trainer.get("num_train_epochs", 0)
    if finite(steps) and steps >= 1:
        return int(steps)
    epoch = last.get("epoch", 0)
    if finite(epochs) and finite(epoch) and epoch > 0:
        whole = last["step"] * epochs / epoch
        return round(whole) or None if finite(whole) else None  # 0: no epochs are told
    return None


def _seconds(runs: Sequence[Run]) -> Table | None:
    """The mean seconds of each part of the latest updates."""
    means: dict[str, dict[str, float]] = {}
    for run in runs:
        latest = [entry for entry in run.log if finite(entry.get("loss"))][-RECENT:]
        parts = {key for entry in latest for key in entry if key.startswith(PARTS)} - {WHOLE}
        for part in parts:
            values = [entry[part] for entry in latest if finite(entry.get(part))]
            if values:
                means.setdefault(part, {})[run.name] = statistics.fmean(values)
    if not means:
        return None
    order = sorted(means, key=lambda part: -max(means[part].values()))
    rows = [
        [part.removeprefix(PARTS), *(number(means[part].get(run.name)) for run in runs)]
        for part in order
    ]
    return table(["part of an update", *(f"seconds, {run.name}" for run in runs)], rows)


def duration(seconds: float) -> str:
    """In words: 40 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
