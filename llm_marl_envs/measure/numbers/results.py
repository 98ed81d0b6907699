"""Results of evaluations: which numbers one has, its JSON form, and where the files lie.

Owns how a result is read back, and which folders and files `compare` and `table` take. Playing
episodes is `measure/runner.py`, the arithmetic `estimates.py`. Episodes that failed are counted as
`records.measured` says, and their number stands beside the means.
"""

from __future__ import annotations

import glob
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import Episode, measured, plain, read_jsonl
from llm_marl_envs.files.json_files import finite, from_json, read_json
from llm_marl_envs.measure.numbers.coordination import CooperationIndex
from llm_marl_envs.measure.numbers.estimates import (
    Estimate,
    mean_pass_at_k,
    over_tasks,
    share,
    task_means,
)
from llm_marl_envs.measure.numbers.society import AT_WORST_0, MEASURES
from llm_marl_envs.measure.numbers.topography import Topography
from llm_marl_envs.measure.numbers.values import mean, measure, over_actions
from llm_marl_envs.play.rollout import EpisodesFailedError, failure_of

RESULT_VERSION = 1
RESULT_FILE = "summary.json"
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
TERMS, ADDED = "reward_terms/", "added_terms/"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScore:
    """One task's episodes.

    Attributes:
        task_id: the task, "#<index>" where the environment names none.
        returns: undiscounted team return of each episode, of what the task paid.
        solved: whether each solved it, None where the environment does not say.
        failed: how many of them failed.
        resets: the reset seed of each; None in files of older releases.
        clusters: what it shares with others, one key for each way of sharing.
    """

    task_id: str
    returns: tuple[float, ...]
    solved: tuple[bool, ...] | None
    failed: int = 0
    resets: tuple[int, ...] | None = None
    clusters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.returns:
            raise ValueError(f"task {self.task_id!r} has no returns")
        if self.solved is not None and len(self.solved) != len(self.returns):
            raise ValueError(f"task {self.task_id!r}: expected as many 'solved' as 'returns'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the episodes took; each number as the table of metrics (`metrics.py`) says.

    None stands for what nobody counted, or for a clock that nobody looked at.
    """

    seconds: float | None
    turns_per_agent: float
    chars: float
    prompt_tokens: float | None
    completion_tokens: float | None
    tokens_per_second: float | None
    text_balance: float | None
    calls: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What went wrong apart from wrong answers: shares in [0, 1], see the table of metrics.

    None where no action was asked for a form (`info["readable"]`), or no tool was called; of empty
    actions, in files of older releases.
    """

    truncated_episodes: float
    cut_actions: float
    overlong_actions: float
    unreadable_actions: float | None
    format_success: float | None
    failed_calls: float | None = None
    empty_actions: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamResult:
    """What a team earned. An episode that failed earned its floor and solved nothing.

    Attributes:
        episodes: every episode, grouped by task (`samples` per seed in a row).
        failed: how many of them failed, because the environment raised.
        n_tasks: tasks played.
        samples: episodes per task and seed.
        resets: reset seeds that a task was played from, the fewest of any task.
        seeds: of resets and sampling; every task is played under each.
        success: share of episodes that solved their task, None where the environment does not say.
        success_ci95: its 95 % interval, over tasks (`estimates.over_tasks`).
        pass_at_k: k -> chance that one of k samples solves a task (unbiased), for k = 1, 2, 4, ...
            and the number of episodes per task; empty where `success` is None.
        mean_return: undiscounted team return, of what the task paid, mean over episodes.
        return_ci95: its 95 % interval, over tasks.
        reward_terms: name -> its sum over an episode, mean over episodes and agents, of the terms
            that the task paid; they sum to `mean_return`. `failed` is what episodes that failed are
            counted at.
        added_terms: the same of what wrappers paid or charged; empty where none did.
        cooperation: the cooperation index, None where its bounds are not known.
        match: share of episodes whose agents' first actions follow one convention, None where the
            tasks have none.
        answer_agreement: share of pairs of agents whose last answers (`info["answer"]`) agree, None
            where fewer than two are asked for one.
        cost, faults, tasks: see there.
        topography: agent -> its topographic similarity; empty where nobody sends messages that the
            environment knows the meaning of.
        no_interval: metric -> why it has no interval, of those that have none.
        society: measure of `society.py` -> its mean over the episodes that have it, one that failed
            counting as the worst; empty where no seats share something.
    """

    episodes: tuple[Episode, ...]
    failed: int
    n_tasks: int
    samples: int
    resets: int
    seeds: tuple[int, ...]
    success: float | None
    success_ci95: tuple[float, float] | None
    pass_at_k: dict[int, float]
    mean_return: float
    return_ci95: tuple[float, float] | None
    reward_terms: dict[str, float]
    cooperation: CooperationIndex | None
    match: float | None
    answer_agreement: float | None
    cost: Cost
    faults: Faults
    tasks: tuple[TaskScore, ...]
    topography: dict[str, Topography] = field(default_factory=dict)
    society: dict[str, float] = field(default_factory=dict)
    added_terms: dict[str, float] = field(default_factory=dict)
    no_interval: dict[str, str] = field(default_factory=dict)


def summarise(
    episodes: Sequence[Episode],
    samples: int,
    *,
    seeds: Sequence[int] = (0,),
    seconds: float | None = None,
    cooperation: CooperationIndex | None = None,
    match: float | None = None,
) -> TeamResult:
    """The result of episodes that come in runs of `samples * len(seeds)` per task.

    Raises:
        ValueError: no episodes, a number that does not divide into such runs, a return that is not
            finite, or an episode that failed and has no floor.
        EpisodesFailedError: every episode failed.
    """
    per_task = samples * len(seeds)
    if not episodes or per_task < 1 or len(episodes) % per_task:
        raise ValueError(
            f"{len(episodes)} episodes: expected a multiple of {per_task} "
            f"({samples} samples x {len(seeds)} seeds), and at least one task"
        )
    if all(episode.failed for episode in episodes):
        raise EpisodesFailedError(
            f"all {len(episodes)} episodes failed. The first: {failure_of(episodes[0])}"
        )
    counted = measured(episodes)
    values = measure(counted)
    _check_finite(counted, values["mean_return"])
    places = [index // per_task for index in range(len(episodes))]
    tasks = _tasks(counted, per_task)
    clusters = [task.clusters for task in tasks]
    returns = over_tasks(task_means(places, _known(values["mean_return"])), clusters)
    solved = _known(values["success"])
    has_success = len(solved) == len(counted)
    success = share(places, solved, dict(enumerate(clusters))) if has_success else None
    return TeamResult(
        episodes=tuple(episodes),
        failed=sum(episode.failed for episode in episodes),
        n_tasks=len(episodes) // per_task,
        samples=samples,
        resets=min(len({*task.resets}) for task in tasks if task.resets),
        seeds=tuple(seeds),
        success=success and success.mean,
        success_ci95=success and success.ci95,
        pass_at_k=_pass_at_k(places, solved, per_task) if has_success else {},
        mean_return=returns.mean,
        return_ci95=returns.ci95,
        reward_terms=_terms(values, TERMS),
        added_terms=_terms(values, ADDED),
        cooperation=cooperation,
        match=match,
        answer_agreement=mean(values["answer_agreement"]),
        cost=_cost(values, seconds),
        faults=_faults(counted, values),
        tasks=tasks,
        society=_society(counted, values),
        no_interval=_whys(success=success, mean_return=returns, cooperation=cooperation),
    )


def _check_finite(episodes: Sequence[Episode], returns: Sequence[float | None]) -> None:
    for episode, earned in zip(episodes, returns, strict=True):
        if not finite(earned):
            raise ValueError(
                f"task {episode.task_id!r:.200}, reset seed {episode.seed}: the return is "
                f"{earned}; the environment paid something that is no number"
            )


def _terms(values: Mapping[str, Sequence[float | None]], prefix: str) -> dict[str, float]:
    """Name -> mean over the episodes."""
    named = {name: of for name, of in values.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): mean(of) or 0.0 for name, of in named.items()}


def _whys(**found: Estimate | CooperationIndex | None) -> dict[str, str]:
    """Metric -> why it has no interval."""
    return {name: one.why for name, one in found.items() if one is not None and one.why}


def _pass_at_k(places: Sequence[int], solved: Sequence[float], per_task: int) -> dict[int, float]:
    """pass@k for k = 1, 2, 4, ... and the number of episodes per task."""
    powers = [2**i for i in range(per_task.bit_length())]
    return {k: mean_pass_at_k(places, solved, k) for k in dict.fromkeys([*powers, per_task])}


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _tasks(episodes: Sequence[Episode], per_task: int) -> tuple[TaskScore, ...]:
    scores = []
    for index, first in enumerate(range(0, len(episodes), per_task)):
        group = episodes[first : first + per_task]
        solved = [e.success for e in group]
        scores.append(
            TaskScore(
                task_id=next((e.task_id for e in group if e.task_id), f"#{index}"),
                returns=tuple(e.team_task_return for e in group),
                solved=None if None in solved else tuple(map(bool, solved)),
                failed=sum(e.failed for e in group),
                resets=tuple(e.seed for e in group),
                # an episode that failed may not say it
                clusters=next((e.clusters for e in group if e.clusters), ()),
            )
        )
    return tuple(scores)


def _cost(values: Mapping[str, Sequence[float | None]], seconds: float | None) -> Cost:
    written = _known(values["completion_tokens"])
    return Cost(
        seconds=seconds,
        turns_per_agent=_per_episode(values["turns_per_agent"]) or 0.0,
        chars=_per_episode(values["chars"]) or 0.0,
        prompt_tokens=_per_episode(values["prompt_tokens"]),
        completion_tokens=_per_episode(values["completion_tokens"]),
        tokens_per_second=sum(written) / seconds if written and seconds else None,
        text_balance=mean(values["text_balance"]),
        calls=mean(values["calls"]),
    )


def _society(
    episodes: Sequence[Episode], values: Mapping[str, Sequence[float | None]]
) -> dict[str, float]:
    """Means over the episodes that have a measure; one that failed did not last, and earned none.

    It may have failed before it told anything, so whether it is a society say the others.
    """
    means: dict[str, float] = {}
    for name in MEASURES:
        known = values[name]
        if any(value is not None for value in known) and name in AT_WORST_0:
            known = [0.0 if e.failed else v for e, v in zip(episodes, known, strict=True)]
        if (of := mean(known)) is not None:
            means[name] = of
    return means


def _per_episode(counted: Sequence[float | None]) -> float | None:
    """The mean over all episodes, in which what nobody counted is 0; None if all are such."""
    values = _known(counted)
    return math.fsum(values) / len(counted) if values else None


def _faults(episodes: Sequence[Episode], values: Mapping[str, Sequence[float | None]]) -> Faults:
    turns = [turn for episode in episodes for turn in episode.turns]
    return Faults(
        truncated_episodes=mean(values["truncated_episodes"]) or 0.0,
        cut_actions=over_actions("cut_actions", turns) or 0.0,
        overlong_actions=over_actions("overlong_actions", turns) or 0.0,
        unreadable_actions=over_actions("unreadable_actions", turns),
        format_success=mean(values["format_success"]),
        failed_calls=over_actions("failed_calls", turns),
        empty_actions=over_actions("empty_actions", turns) or 0.0,
    )


def result_to_dict(result: TeamResult) -> dict[str, Any]:
    """A result without its episodes, as it reads back from JSON, which knows no NaN."""
    fields = asdict(replace(result, episodes=()))
    del fields["episodes"]
    for topography in fields["topography"].values():
        topography |= {name: None for name in ("value", "p") if not finite(topography[name])}
    for task in fields["tasks"]:
        if not task["clusters"]:
            del task["clusters"]
    if result.cooperation is not None:  # `no_interval` has it
        del fields["cooperation"]["why"]
    for name in ("topography", "society", "added_terms", "no_interval"):
        if not fields[name]:
            del fields[name]
    if result.cost.calls is None:  # no seat had tools
        del fields["cost"]["calls"], fields["faults"]["failed_calls"]
    return {"version": RESULT_VERSION, **plain(fields)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    mean: float | None
    ci95: tuple[float, float] | None

    def __post_init__(self) -> None:
        if self.mean is None and self.ci95 is not None:
            raise ValueError("cooperation: expected no ci95 without a mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """What readers of a summary rely on; what has a default may be missing."""

    tasks: tuple[TaskScore, ...]
    mean_return: float
    return_ci95: tuple[float, float] | None
    success: float | None
    success_ci95: tuple[float, float] | None
    cooperation: _Index | None
    pass_at_k: Mapping[str, float]
    reward_terms: Mapping[str, float]
    cost: Mapping[str, float | None]
    faults: Mapping[str, float | None]
    match: float | None = None
    failed: int = 0
    added_terms: Mapping[str, float] = field(default_factory=dict)
    no_interval: Mapping[str, str] = field(default_factory=dict)


def read_result(path: str | Path) -> dict[str, Any]:
    """The summary of an evaluation, from its file or the folder that holds it.

    Raises:
        ValueError: no such file, no JSON, another version, or a part of it is damaged.
    """
    path = Path(path)
    file = path / RESULT_FILE if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{path}: no {RESULT_FILE} there; expected the output of `llm-marl eval`")
    data = read_json(file)
    if data.get("version") != RESULT_VERSION:
        raise ValueError(
            f"{file}: result version {data.get('version')!r:.200}, this release reads "
            f"{RESULT_VERSION}; run `llm-marl eval` again"
        )
    try:
        summary = from_json(_Summary, data, file)
    except ValueError as error:
        raise ValueError(
            f"{error}; run `llm-marl eval` again into the same folder, which plays only what is "
            "missing"
        ) from error
    if not summary.tasks:
        raise ValueError(f"{file}: its list of tasks is empty")
    return data


# -- where results lie ----------------------------------------------------------------------------
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
        return [file for match in matching for file in result_files(match)] or _missing(Path(path))
    path = Path(path)
    if path.is_file() and path.name == SWEEP_FILE:
        path = path.parent
    if not path.is_dir():
        return [path] if path.is_file() else _missing(path)
    if (own := _of_run(path)) is not None:
        return [own]
    runs = sorted(folder for folder in path.iterdir() if folder.is_dir())
    files = {run: file for run in runs if (file := _of_run(run)) is not None}
    unfinished = [run for run in runs if run not in files and (run / POINT_FILE).is_file()]
    if files and unfinished:
        raise ValueError(
            f"{path}: {len(unfinished)} of its runs have no evaluation, e.g. {unfinished[0].name}; "
            "finish the sweep, or name the runs that are meant, e.g. with a pattern"
        )
    return list(files.values()) or _missing(path)


def _of_run(folder: Path) -> Path | None:
    """The result of one run or evaluation, None where the folder is none."""
    for file in (folder / RESULT_FILE, folder / EVALUATION / RESULT_FILE):
        if file.is_file() and _is_evaluation(file):
            return file
    return folder / DEMO_FILE if (folder / DEMO_FILE).is_file() else None


def _is_evaluation(file: Path) -> bool:
    """Demos and the runs of sweeps have a summary of their own. A damaged one is for the reader."""
    try:
        data = read_json(file)
    except ValueError:
        return True
    return "digest" not in data and not {"before", "after"} <= set(data)


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
    about |= {"seeds": None}  # no transcript holds them
    return {**result_to_dict(summarise(episodes, counts.pop())), **about}
