"""`make demo`: a team of models learns to work together, measured before and after.

Warm-starts a model, measures it on held-out tasks, trains as the preset says, measures again and
writes everything to a folder: `summary.json`, the learning curve, transcripts before and after, the
team, and `report.html`, which shows them. Any preset with `model: tiny` or with `warm_start` can be
shown. A stage that has ended is not made again. Owns the order of the stages and what is printed,
nothing else.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from llm_marl_envs import make
from llm_marl_envs.core.environment import TextParallelEnv
from llm_marl_envs.core.errors import Stopped
from llm_marl_envs.core.records import Episode, read_jsonl, write_jsonl
from llm_marl_envs.core.rendering import print_text
from llm_marl_envs.files.cache import fingerprint
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.files.pictures import require_matplotlib
from llm_marl_envs.measure import (
    TeamResult,
    evaluate_team,
    measure_coordination,
)
from llm_marl_envs.measure.numbers.coordination import match_by_choice
from llm_marl_envs.measure.numbers.diagnosis import diagnose
from llm_marl_envs.measure.numbers.format import format_table, interval, number, whole
from llm_marl_envs.measure.numbers.values import title
from llm_marl_envs.measure.progress import counter
from llm_marl_envs.measure.run_manifest import MANIFEST_FILE
from llm_marl_envs.report import write_report
from trainers.policies.token_policy import TokenPolicy
from trainers.run_file import TINY
from trainers.running.folder import TEAM, checkpoints_in, newest_checkpoint, newest_or_cleared
from trainers.running.memory import PeakMemory
from trainers.train import build_trainer, checked_settings, model_path, read_run, settled
from trainers.trainer import MAGRPOTrainer
from trainers.weights.team_files import build_team_model

PRESET = "coop_coding_tiny"
SPLIT = "test"
FURTHER_SPLITS = ("test_prompts", "ood")
"""Measured beside `SPLIT`, at temperature 1, where the environment has them."""
HELD_OUT_TASKS = 128
STAGES = "stages"
"""Folder of what a demo that has not ended has measured."""
MEASURE_SEED = 1
"""Fixed, so that before and after play the same tasks with the same draws."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One point in time.

    Attributes:
        numbers: for `summary.json`.
        episodes: split -> those at temperature 1.
    """

    numbers: dict[str, Any]
    episodes: dict[str, tuple[Episode, ...]]


@dataclass(frozen=True, slots=True)
class Stages:
    """What a demo has measured, so that one that was stopped measures nothing twice.

    Attributes:
        folder: of the demo.
        key: of its settings; what others measured there does not count.
    """

    folder: Path
    key: str

    def measured(self, when: str, measure: Callable[[], Measured]) -> Measured:
        """What was measured then, else what is measured now."""
        path = self.folder / STAGES / f"{when}.json"
        kept = read_json(path) if path.is_file() else {}
        if kept.get("key") == self.key:
            print(f"    measured already: {path}")
            numbers = kept["numbers"]
            files = {split: self._transcripts(when, split) for split in numbers["splits"]}
            return Measured(numbers, {split: tuple(read_jsonl(f)) for split, f in files.items()})
        measured = measure()
        for split, episodes in measured.episodes.items():
            write_jsonl(self._transcripts(when, split), episodes)
        write_json(path, {"key": self.key, "numbers": measured.numbers})
        return measured

    def end(self, checkpoints: Iterable[Path]) -> None:
        """Forget them and the run's checkpoints: the demo has ended, and the next is made anew."""
        for folder in (*checkpoints, self.folder / STAGES):
            shutil.rmtree(folder, ignore_errors=True)

    def _transcripts(self, when: str, split: str) -> Path:
        return self.folder / f"transcripts_{when}{'' if split == SPLIT else f'_{split}'}.jsonl"


def measure(
    run: Mapping[str, Any], policy: TokenPolicy, label: str, n_tasks: int = HELD_OUT_TASKS
) -> Measured:
    """Success at temperatures 1, 0.5 and 0 on the run's held-out tasks, and coordination at each.

    Beside it success at temperature 1 on the splits that hold more back (`FURTHER_SPLITS`).
    Competence is taken apart in simultaneous environments only.
    """
    env = _held_out(run, SPLIT)
    temperatures = (1.0, 0.5, 0.0)
    generated = "tasks" not in (run.get("env_kwargs") or {})
    further = [split for split in FURTHER_SPLITS if generated and split in env.unwrapped.splits]
    n_tasks = min(n_tasks, len(env.unwrapped.source))
    with counter((3 + len(further)) * n_tasks, label) as bar:

        def played(split: str, temperature: float) -> TeamResult:
            """The team on tasks of a split that it has not learned from."""
            return evaluate_team(
                lambda: _held_out(run, split),
                dict.fromkeys(env.possible_agents, policy.at_temperature(temperature)),
                n_tasks=n_tasks,
                seed=MEASURE_SEED,
                progress=bar.update,
            )

        results = {temperature: played(SPLIT, temperature) for temperature in temperatures}
        beside = {split: played(split, 1.0) for split in further}
    sampled = results[1.0]
    numbers: dict[str, Any] = {
        "cooperation": _index(sampled),
        "splits": {
            split: {
                "sampled_success": result.success,
                "ci95": result.success_ci95,
                "cooperation": _index(result),
                "convention_match": result.match,
                "n": result.n_tasks,
            }
            for split, result in {SPLIT: sampled, **beside}.items()
        },
        "convention_match": sampled.match,
        "match_by_choice": [asdict(match) for match in match_by_choice(env, sampled.episodes)],
    }
    if isinstance(env.unwrapped, TextParallelEnv):
        numbers |= _coordination(env, results)
    return Measured(
        {
            **numbers,
            "sampled_success": sampled.success,
            "half_temperature_success": results[0.5].success,
            "greedy_success": results[0.0].success,
            "mean_return": sampled.mean_return,
            "ci95": sampled.success_ci95,
            "n": sampled.n_tasks,
            "failed": sum(result.failed for result in results.values()),
        },
        {SPLIT: sampled.episodes, **{split: result.episodes for split, result in beside.items()}},
    )


def _coordination(env: Any, results: Mapping[float, TeamResult]) -> dict[str, Any]:
    together = {t: measure_coordination(env, r.episodes) for t, r in results.items()}
    return {
        "competence": together[1.0].competence,
        "choice_match": together[1.0].choice_match,
        "success_given_match": together[1.0].success_given_match,
        "convention_match_by_temperature": {
            str(t): c.convention_match for t, c in together.items()
        },
    }


def _held_out(run: Mapping[str, Any], split: str) -> Any:
    return make(run["env"], **{**(run.get("env_kwargs") or {}), "split": split})


def _read(preset: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The run that is shown, its settings checked before anything takes long."""
    run = read_run(preset, overrides)
    checked_settings(run)
    return run


def _index(result: TeamResult) -> dict[str, Any] | None:
    return None if result.cooperation is None else asdict(result.cooperation)


def run_demo(
    output: str = "runs/demo",
    seed: int = 0,
    fresh: bool = False,
    overrides: Sequence[str] = (),
    preset: str = PRESET,
    tasks: int = HELD_OUT_TASKS,
    shown: int = 1,
) -> dict[str, Any]:
    """Run the demo; returns what `summary.json` holds.

    A demo that was stopped goes on where it was; one that ended is made again.

    Args:
        preset: a run file with `model: tiny` or `warm_start`, or the name of such a preset.
        output: folder for the results.
        seed: of the warm start and of training.
        fresh: warm-start anew instead of using the cache.
        overrides: settings of the preset to change, as for `llm-marl train`.
        tasks: held-out tasks of a split that are measured.
        shown: tasks of which the texts before and after are printed; the last one is of the last
            split.

    Raises:
        ValueError: a folder with a run, or a stopped demo, of other settings.
    """
    disable_progress_bar()  # of loading and saving weights, which takes no time here
    folder = Path(output)
    begun = time.perf_counter()
    with PeakMemory() as memory:
        run = _read(preset, [f"output_dir={folder / 'train'}", f"seed={seed}", *overrides])
        _use_cores(run)
        print(f"1/4 {run['env']}, warm start (seed {seed}): {_named(run)} reads scripted experts")
        path = model_path(run, seed=seed, fresh=fresh)
        warm = time.perf_counter()
        last = newest_checkpoint(folder / "train")
        trainer = build_trainer(settled({**run, "model": path, "warm_start": None}, resume=last))
        resume = _interrupted(trainer)
        stages = Stages(folder, _key(run, path, tasks))
        print("2/4 measure: every seat played by the warm-started model, held-out tasks")
        untrained = build_team_model(str(path), trainer.trained, weights="shared")
        base = TokenPolicy(untrained, max_completion_length=trainer.args.max_completion_length)
        before = stages.measured("before", lambda: measure(run, base, "before", tasks))
        print("3/4 train: as the preset says")
        training = time.perf_counter()
        _train(trainer, resume)
        trained = time.perf_counter()
        print("4/4 measure again: the same tasks, the same draws")
        after = stages.measured("after", lambda: measure(run, trainer.token_policy, "after", tasks))
    trainer.save_team(folder / TEAM)
    total = time.perf_counter() - begun
    seconds = {"warm_start": warm - begun, "train": trained - training, "total": total}
    costs = {"seconds": seconds, "peak_rss_mib": memory.peak_mib}
    summary = _summary(run, trainer, before, after) | {"seed": seed, **costs}
    _plot(folder / "learning_curve.png", trainer.state.log_history, summary)
    write_json(folder / "summary.json", summary)
    write_report(folder)
    stages.end(checkpoints_in(folder / "train"))
    _print_report(summary, before, after, folder, shown)
    return summary


def _use_cores(run: Mapping[str, Any]) -> None:
    """A second thread brings nothing to the tiny model; the other core runs its programs."""
    if run["model"] == TINY:
        torch.set_num_threads(1)


def _named(run: Mapping[str, Any]) -> str:
    return "a tiny model" if run["model"] == TINY else run["model"]


def _key(run: Mapping[str, Any], path: str, tasks: int) -> str:
    """Of all that decides what is measured."""
    made_from = json.dumps([run, fingerprint(path), tasks], sort_keys=True, default=str)
    return hashlib.sha256(made_from.encode()).hexdigest()[:16]


def _train(trainer: MAGRPOTrainer, resume: bool) -> None:
    trainer.train(resume)
    if trainer.stopped:
        made = f"update {trainer.state.global_step} of {trainer.state.max_steps}"
        message = f"stopped at {made}; the same command goes on"
        raise Stopped(message, trainer.interrupt.signum or signal.SIGINT)


def _interrupted(trainer: MAGRPOTrainer) -> bool:
    """Whether a demo goes on from a checkpoint; what one without left is removed.

    A manifest was written by `llm-marl train`: such a run is left alone, and refused.
    """
    folder = Path(str(trainer.args.output_dir))
    by_command = (folder / MANIFEST_FILE).is_file()
    newest = newest_checkpoint(folder) if by_command else newest_or_cleared(folder)
    trainer.check_folder(newest is not None)
    return newest is not None


def _summary(
    run: Mapping[str, Any], trainer: MAGRPOTrainer, before: Measured, after: Measured
) -> dict[str, Any]:
    return {
        "model": _named(run),
        "env": run["env"],
        "env_kwargs": run.get("env_kwargs") or {},
        "updates": trainer.state.global_step,
        "before": before.numbers,
        "after": after.numbers,
        "temperature_control": {
            "meaning": "the warm start at lower temperatures, without any training",
            "1.0": before.numbers["sampled_success"],
            "0.5": before.numbers["half_temperature_success"],
            "0.0": before.numbers["greedy_success"],
        },
        "diagnosis": [asdict(finding) for finding in diagnose(trainer.state.log_history)],
    }


def _plot(path: Path, log: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> None:
    points = [(entry["step"], entry["success"]) for entry in log if "success" in entry]
    steps, success = [p[0] for p in points], [p[1] for p in points]
    figure = require_matplotlib()(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, success, color="tab:blue", alpha=0.35, label="training tasks, each update")
    window = 8
    means = [
        sum(success[max(0, i - window + 1) : i + 1]) / min(i + 1, window)
        for i in range(len(success))
    ]
    axes.plot(steps, means, color="tab:blue", label=f"mean of {window} updates")
    for when, step in (("before", 0), ("after", summary["updates"])):
        share = summary[when]["sampled_success"]
        low, high = summary[when]["ci95"] or (share, share)
        axes.errorbar(
            [step],
            [share],
            yerr=[[share - low], [high - share]],
            fmt="o",
            color="tab:red",
            capsize=4,
            label="held-out tasks, 95 % interval" if when == "before" else None,
        )
    axes.set(xlabel="update", ylabel="share of tasks solved together", ylim=(0, 1.02))
    axes.set_title(f"{summary['env']}: {summary['model']}, temperature 1")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)


ROWS = {
    "sampled_success": "sampled_success",
    "half_temperature_success": "half_temperature_success",
    "greedy_success": "greedy_success",
    "mean_return": "mean_return",
    "convention_match": "match",
    "success_given_match": "success_given_match",
}
"""Key in the summary -> metric."""


def _rows(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(title, before, after) of what both hold."""
    rows = [(title(of), old[key], new[key]) for key, of in ROWS.items() if key in old]
    if old["cooperation"] is not None:
        for name, key in (("cooperation", "mean"), ("above_solo", "above_solo")):
            rows.append((title(name), *(side["cooperation"][key] for side in (old, new))))
    for split in list(old["splits"])[1:]:
        for key, metric in (("sampled_success", "sampled_success"), ("convention_match", "match")):
            shares = [side["splits"][split][key] for side in (old, new)]
            if None not in shares:
                rows.append((title(f"{metric}/{split}"), *shares))
    for agent in old.get("competence", ()):
        shares = [side["competence"][agent] for side in (old, new)]
        rows.append((title(f"competence/{agent}"), *shares))
    return [(name, number(before), number(after)) for name, before, after in rows]


def _print_report(
    summary: Mapping[str, Any], before: Measured, after: Measured, folder: Path, shown: int
) -> None:
    old, new = summary["before"], summary["after"]
    heading = (f"held-out tasks: {old['n']}", "before", "after")
    print("\n" + format_table(heading, _rows(old, new)))
    intervals = [interval(side["ci95"]) for side in (old, new)]
    print(f"95 % intervals at temperature 1: before {intervals[0]}, after {intervals[1]}")
    if old["failed"] or new["failed"]:
        failed = f"before {old['failed']}, after {new['failed']}"
        print(f"episodes that failed, at all temperatures: {failed}")
    *_, last = before.episodes  # the one that holds most back
    wanted = {SPLIT: shown} if last == SPLIT or shown == 1 else {SPLIT: shown - 1, last: 1}
    for split, most in wanted.items():
        for pair in _pairs(before.episodes[split], after.episodes[split], most):
            _print_pair(*pair)
    seconds = summary["seconds"]
    print(
        f"\n{whole(seconds['total'])} s (warm start {whole(seconds['warm_start'])}, training "
        f"{whole(seconds['train'])}), peak memory {whole(summary['peak_rss_mib'])} MiB\n"
        f"Results: {folder}/report.html (open it in a browser), summary.json, learning_curve.png, "
        "transcripts_*.jsonl, team/"
    )


def _print_pair(before: Episode, after: Episode) -> None:
    """One task, what the team wrote before, and after."""
    print(f"\nOne task before and after ({before.task_id}):")
    for turn in before.turns:
        if turn.index == 0:
            print_text(f"  {turn.agent} is told: {_told(turn.messages[-1].content)}")
    for when, episode in (("before", before), ("after", after)):
        print(f"--- {when}: {'solved' if episode.success else 'not solved'}")
        for turn in episode.turns:
            print(f"  {turn.agent}:")
            print_text("    " + turn.action.rstrip().replace("\n", "\n    "))


def _told(prompt: str) -> str:
    """The line of a prompt that differs between tasks: neither the first nor the last."""
    return " ".join(prompt.split("\n")[1:-1]) or prompt


def _pairs(
    before: Sequence[Episode], after: Sequence[Episode], most: int
) -> list[tuple[Episode, Episode]]:
    """Tasks that failed before and were solved after, or else the first ones."""
    both = [*zip(before, after, strict=True)]
    learned = [
        (old, new) for old, new in both if not old.failed and not old.success and new.success
    ]
    return (learned or both)[:most]
