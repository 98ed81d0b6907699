"""Where results lie: which folders and files `compare` and `table` take, and how they are read.

Owns the search. What a summary holds is `results.py`.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import Episode, plain, read_jsonl
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.measure.numbers.results import (
    RESULT_FILE,
    read_result,
    result_to_dict,
    summarise,
)

EVALUATION = "eval"
"""The folder in a run's folder that its evaluation is kept in."""
DEMO_FILE = "transcripts_after.jsonl"
SWEEP_FILE = "results.json"
POINT_FILE = "point.json"
EXPECTED = (
    f"no {RESULT_FILE} there; expected the output of `llm-marl eval`, the folder of a run that "
    f"holds it as {EVALUATION}/, a demo's or a sweep's folder, a folder of such folders, or a file "
    "of episodes"
)


def result_files(path: str | Path) -> list[Path]:
    """The files of results that a path stands for, sorted: one of a run, all of a sweep.

    Args:
        path: a file, a folder, or a pattern with `*` for several.

    Raises:
        ValueError: nothing there, or a run of a sweep without its evaluation; the message says what
            was expected.
    """
    if "*" in str(path) and not Path(path).exists():
        matching = sorted(map(Path, glob.glob(str(path))))
        return [file for one in matching for file in result_files(one)] or _missing(Path(path))
    path = Path(path)
    if path.is_file() and path.name == SWEEP_FILE:
        path = path.parent
    if not path.is_dir():
        return [path] if path.is_file() else _missing(path)
    if (own := _of_run(path)) is not None:
        return [own]
    inside = sorted(one for one in path.iterdir() if one.is_dir())
    found = {one: file for one in inside if (file := _of_run(one)) is not None}
    unfinished = [one for one in inside if one not in found and (one / POINT_FILE).is_file()]
    if found and unfinished:
        raise ValueError(
            f"{path}: {len(unfinished)} of its runs have no evaluation, e.g. {unfinished[0].name}; "
            "finish the sweep, or name the runs that are meant, e.g. with a pattern"
        )
    return list(found.values()) or _missing(path)


def _of_run(folder: Path) -> Path | None:
    """The result of one run or evaluation, None where the folder is none."""
    for file in (folder / RESULT_FILE, folder / EVALUATION / RESULT_FILE):
        if file.is_file() and _is_evaluation(file):
            return file
    return folder / DEMO_FILE if (folder / DEMO_FILE).is_file() else None


def _is_evaluation(file: Path) -> bool:
    """Demos and the runs of sweeps have a summary of their own. A damaged one is for the reader."""
    try:
        found = read_json(file)
    except ValueError:
        return True
    return "digest" not in found and not {"before", "after"} <= set(found)


def _missing(path: Path) -> list[Path]:
    if (path / "log.jsonl").is_file() or (path / "team.json").is_file():
        raise ValueError(
            f"{path}: a team that nobody evaluated: run llm-marl eval ENVIRONMENT --team {path} "
            f"--output {path / EVALUATION}"
        )
    raise ValueError(f"{path}: {EXPECTED}")


def read_results(path: str | Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(file, result) of all that a path stands for.

    Raises:
        ValueError: as `result_files`, or a file is damaged.
    """
    for file in result_files(path):
        yield file, _of_episodes(file) if file.suffix == ".jsonl" else read_result(file)


def _of_episodes(file: Path) -> dict[str, Any]:
    """What an evaluation would have written of these episodes; their bounds are not known."""
    tasks: dict[str, list[Episode]] = {}
    for episode in read_jsonl(file):
        tasks.setdefault(episode.task_id or f"#{episode.seed}", []).append(episode)
    counts = {len(some) for some in tasks.values()}
    if len(counts) != 1:
        raise ValueError(
            f"{file}: {sorted(counts) or 'no'} episodes of a task: expected as many of each"
        )
    episodes = [episode for some in tasks.values() for episode in some]
    about = {"env_id": episodes[0].env_id, "env_kwargs": plain(episodes[0].env_kwargs)}
    return {**result_to_dict(summarise(episodes, counts.pop())), **about}
