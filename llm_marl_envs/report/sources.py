"""What a folder of results holds: summary, logs, transcripts, cross-play. Reads, never computes.

Files it knows, anywhere below the folder:

    summary.json                     any JSON object (only in the folder itself)
    log.jsonl                        one logged entry a line, of a training run; who samples
    checkpoint-*/trainer_state.json  the same from checkpoints; the newest counts
    transcripts_before.jsonl, transcripts_after.jsonl, episodes.jsonl    measured episodes
    transcripts/update-*.jsonl       groups of training, tokens and advantages where recorded
    transcripts/failed-*.jsonl       episodes of training whose environment raised
    cross_play.json                  see `measure/studies/cross_play_files.py`
    credit_audit.json                see `measure/numbers/credit.py`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import Episode, episode_from_dict
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.files.json_files import finite, read_json
from llm_marl_envs.measure.numbers.credit import AUDIT_FILE, CreditAudit, read_credit_audit
from llm_marl_envs.measure.studies.cross_play import CrossPlay
from llm_marl_envs.measure.studies.cross_play_files import read_cross_play
from llm_marl_envs.measure.studies.zero_shot import ZeroShot

MEASURED = {
    "transcripts_before.jsonl": "before",
    "transcripts_after.jsonl": "after",
    "episodes.jsonl": "episodes",
}
CROSS_PLAY = "cross_play.json"


@dataclass(frozen=True, slots=True)
class Trail:
    """The tokens of one action: their texts, advantages and behaviour log-probs, all as long."""

    texts: tuple[str, ...]
    advantages: tuple[float, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Transcript:
    """One file of episodes.

    Attributes:
        label: what to call it.
        file: its path, relative to the folder.
        episodes: in the file's order.
        trails: (position of the episode, of its turn) -> the tokens, where they were recorded.
    """

    label: str
    file: str
    episodes: tuple[Episode, ...]
    trails: Mapping[tuple[int, int], Trail] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """The log of one training run: entries with a `step`."""

    name: str
    file: str
    log: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All that was found.

    Attributes:
        name: of the folder.
        summary: the object in `summary.json`, {} without one.
        runs: training runs, by path.
        measured: "before", "after" or "episodes" -> its transcript, in that order; of two folders
            that are shown side by side their names instead.
        pair: the labels of two measurements that are compared, older first; None without such.
        sides: names of this folder and of the one that it stands against; () where it stands alone.
        updates: transcripts of training, by path.
        failed: episodes of training whose environment raised, by path.
        cross_play: the matrix, None without one.
        strangers: members of its teams beside scripted experts.
        credit: the audit of credit, None without one.
        notes: what a reader must know about the files, e.g. a line that was cut off.
    """

    name: str
    summary: Mapping[str, Any]
    runs: tuple[Run, ...]
    measured: Mapping[str, Transcript]
    pair: tuple[str, str] | None
    sides: tuple[str, ...]
    updates: tuple[Transcript, ...]
    failed: tuple[Transcript, ...]
    cross_play: CrossPlay | None
    strangers: tuple[ZeroShot, ...]
    credit: CreditAudit | None
    notes: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """Paths of the runs' logs and the transcripts, relative to the folder."""
        shown = (*self.runs, *self.measured.values(), *self.updates, *self.failed)
        return [source.file for source in shown]


def read_results(
    folder: str | Path,
    *,
    against: str | Path | None = None,
    cross_play: str | Path | None = None,
    credit_audit: str | Path | None = None,
) -> Results:
    """Read what is in a folder; arguments and errors as `page.write_report` has them.

    A file of a known name that is malformed is a `ValueError`, which names its path and line.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder")
    notes: list[str] = []
    measured = _measured(root, notes)
    pair = ("before", "after") if {"before", "after"} <= set(measured) else None
    if against is not None:
        measured = _beside(measured, root, Path(against), notes)
        old, new = measured
        pair = old, new
    updates, failed = (
        tuple(
            read_transcript(root, path, path.stem, notes)
            for path in sorted(root.rglob(f"transcripts/{kind}-*.jsonl"))
        )
        for kind in ("update", "failed")
    )
    matrix = Path(cross_play) if cross_play is not None else root / CROSS_PLAY
    has_matrix = cross_play is not None or matrix.is_file()
    cross, strangers = read_cross_play(matrix) if has_matrix else (None, ())
    audit = Path(root if credit_audit is None else credit_audit) / AUDIT_FILE
    audited = credit_audit is not None or audit.is_file()
    results = Results(
        name=root.resolve().name,
        summary=read_json(root / "summary.json") if (root / "summary.json").is_file() else {},
        runs=tuple(runs_below(root, notes)),
        measured=measured,
        pair=pair,
        sides=() if against is None or pair is None else pair[::-1],
        updates=updates,
        failed=failed,
        cross_play=cross,
        strangers=strangers,
        credit=read_credit_audit(audit) if audited else None,
        notes=tuple(notes),
    )
    if not (results.summary or results.files or results.cross_play or results.credit):
        raise ValueError(
            f"{root}: nothing to report; expected one of summary.json, log.jsonl, "
            f"checkpoint-*/trainer_state.json, {', '.join(MEASURED)}, "
            f"transcripts/update-*.jsonl, {CROSS_PLAY}, {AUDIT_FILE}"
        )
    return results


def _measured(root: Path, notes: list[str]) -> dict[str, Transcript]:
    return {
        label: read_transcript(root, root / name, label, notes)
        for name, label in MEASURED.items()
        if (root / name).is_file()
    }


def _beside(
    measured: Mapping[str, Transcript], root: Path, other: Path, notes: list[str]
) -> dict[str, Transcript]:
    """The last episodes of another folder and of this one, under the folders' names."""
    if not other.is_dir():
        raise FileNotFoundError(f"{other}: no such folder")
    old = list(_measured(other, notes).values())
    new = list(measured.values())
    for where, transcripts in ((other, old), (root, new)):
        if not transcripts:
            raise ValueError(f"{where}: no measured episodes; expected one of {list(MEASURED)}")
    labels = names_apart(other, root)
    return {
        label: replace(last, label=label, file=f"{label}/{last.file}")
        for label, last in zip(labels, (old[-1], new[-1]), strict=True)
    }


def names_apart(*folders: Path) -> list[str]:
    """The shortest ends of the folders' paths that tell them apart: "seed0/eval", "seed1/eval"."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(path[-length:]) for path in parts]
        if len(set(names)) == len(names):
            return names
    raise ValueError(f"{folders[0]}: against itself there is nothing to compare")


# -- JSON -----------------------------------------------------------------------------------------
def _lines(path: Path, notes: list[str]) -> Iterator[tuple[str, Any]]:
    """(where, value) of each line. A last line without its end was cut off: noted, left out."""
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json_of(line, where)
        except ValueError:
            if number == len(lines):  # written line by line, and the writer died in this one
                notes.append(f"{where} is cut off and left out")
                return
            raise
        yield where, value


# -- training -------------------------------------------------------------------------------------
def runs_below(root: Path, notes: list[str]) -> Iterator[Run]:
    """One per folder at or below `root` that holds a log, or checkpoints with one.

    Raises:
        ValueError: a log is malformed; of its last line only a half is left out, and noted.
    """
    logs = {path.parent: path for path in root.rglob("log.jsonl")}
    states: dict[Path, list[Path]] = {}
    for path in root.rglob("checkpoint-*/trainer_state.json"):
        if path.parent.parent not in logs:
            states.setdefault(path.parent.parent, []).append(path)
    for folder in sorted({*logs, *states}):
        name = folder.relative_to(root).as_posix()
        if folder in logs:
            entries = [_entry(value, where) for where, value in _lines(logs[folder], notes)]
            numbers = tuple(entry for entry in entries if "engine" not in entry)  # its first line
            yield Run(name, logs[folder].relative_to(root).as_posix(), numbers)
        else:
            yield _newest(root, name, states[folder])


def _newest(root: Path, name: str, states: list[Path]) -> Run:
    logs: dict[Path, list[Mapping[str, Any]]] = {}
    for path in states:
        history = read_json(path).get("log_history")
        if not isinstance(history, list):
            raise ValueError(f"{path}: expected a list under 'log_history'")
        logs[path] = [_entry(value, str(path)) for value in history]
    newest = max(states, key=lambda path: (_last_step(logs[path]), str(path)))
    return Run(name, newest.relative_to(root).as_posix(), tuple(logs[newest]))


def _entry(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object of logged numbers")
    return value


def _last_step(log: list[Mapping[str, Any]]) -> float:
    return max((e["step"] for e in log if finite(e.get("step"))), default=-1.0)


# -- episodes -------------------------------------------------------------------------------------
def read_transcript(root: Path, path: Path, label: str, notes: list[str]) -> Transcript:
    """The episodes of a file below a folder; what a reader must know is added to `notes`.

    Raises:
        ValueError: a line but the last is no episode.
    """
    episodes: list[Episode] = []
    trails: dict[tuple[int, int], Trail] = {}
    for where, value in _lines(path, notes):
        try:
            episode = episode_from_dict(value)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        for number, turn in enumerate(value["turns"]):
            if turn.get("tokens") is not None:
                trails[len(episodes), number] = _trail(turn["tokens"], where)
        episodes.append(episode)
    if not episodes:
        notes.append(f"{path} holds no episode")
    return Transcript(label, path.relative_to(root).as_posix(), tuple(episodes), trails)


def _trail(value: Any, where: str) -> Trail:
    try:
        texts = tuple(str(text) for text in value["texts"])
        advantages, logprobs = (
            tuple(_number(n, where) for n in value[key]) for key in ("advantages", "logprobs")
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{where}: tokens need texts, advantages and logprobs") from error
    if not len(texts) == len(advantages) == len(logprobs):
        raise ValueError(
            f"{where}: {len(texts)} token texts, {len(advantages)} advantages and "
            f"{len(logprobs)} log-probs"
        )
    return Trail(texts, advantages, logprobs)


def _number(value: Any, where: str) -> float:
    """0 where nothing was recorded."""
    if value is None or value != value:
        return 0.0
    if not finite(value):
        raise ValueError(f"{where}: expected a finite number or null, got {value!r}")
    return float(value)
