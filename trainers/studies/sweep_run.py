"""Carries out a sweep: a local pool of processes, or one task of a SLURM array each.

Finished runs are skipped, crashed ones go on from their last checkpoint, and two processes never
work on one run. Each run is a process of its own, whose output goes to `log.txt` in its folder.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llm_marl_envs.commands.exit_status import ending
from llm_marl_envs.core.errors import Stopped
from llm_marl_envs.core.plugins import import_plugins, plugin_options
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.measure.numbers.diagnosis import diagnose
from llm_marl_envs.measure.numbers.format import whole
from llm_marl_envs.measure.run_manifest import MANIFEST_FILE
from trainers.running.callbacks import LAUNCHED, SIGNALS
from trainers.running.folder import TEAM, BusyError, alone, newest_or_cleared
from trainers.studies.sweep import (
    POINT_FILE,
    SUMMARY_FILE,
    TRAINED_FILE,
    Point,
    collect_results,
    read_sweep,
)

RESULTS_FILE = "results.json"
EVAL = "eval"
BUSY = 75
"""Exit status of a run that another process works on (EX_TEMPFAIL)."""
COUNTED = ("prompt_tokens", "new_prompt_tokens", "calls", "replayed_calls", "critic_tokens")
"""Costs that a summary holds, as `trainers.running.costs` counts them, beside its tokens."""
SAID = {0: "finished", BUSY: "is worked on elsewhere", 130: "stopped", 143: "stopped"}
"""Exit status of a run that did not fail -> what is said of it."""


def run_sweep(
    file: str | Path,
    *,
    jobs: int = 1,
    devices: Sequence[str] = (),
) -> dict[str, Any]:
    """Carry out what is not finished, `jobs` runs at a time, and write `results.json`.

    Args:
        file: a sweep file, see `trainers.studies.sweep`.
        jobs: runs at a time.
        devices: values of CUDA_VISIBLE_DEVICES, one for each of the runs at a time; none leaves
            that variable alone.

    Returns:
        What `results.json` in the sweep's output holds.

    Raises:
        ValueError: a wrong file or number, or runs that failed; the message names their logs. The
            results of the others are written before.
    """
    if jobs < 1 or (devices and len(devices) != jobs):
        raise ValueError(f"jobs={jobs}, devices={list(devices)}: expected one device for each job")
    points = read_sweep(file)
    waiting = [point for point in points if point.summary() is None]
    print(f"{len(points)} runs, {len(points) - len(waiting)} finished before")
    slots: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for slot in devices or [None] * jobs:
        slots.put(slot)
    children = Children()

    def carry_out(point: Point) -> tuple[Point, int]:
        """Run a point on the next free device; the point and its exit status."""
        device = slots.get()
        begun = time.perf_counter()
        try:
            command = [*_command(file), "--index", str(point.index)]
            status = _spawn(children, command, point, jobs, device)
        finally:
            slots.put(device)
        outcome = SAID.get(status, f"failed ({status})")
        print(f"{point.name}: {outcome}, {whole(time.perf_counter() - begun)} s", flush=True)
        return point, status

    with children.passing_signals_on(), ThreadPoolExecutor(jobs) as pool:
        ended = list(pool.map(carry_out, waiting))
    if children.signum is not None:
        raise Stopped("stopped; the same command goes on", children.signum)
    results = collect_results(points)
    write_json(points[0].folder.parent / RESULTS_FILE, results)
    failed = [point for point, status in ended if status not in SAID]
    if failed:
        lines = "; ".join(f"{p.folder / 'log.txt'}: {_last_line(p)}" for p in failed)
        raise ValueError(
            f"{len(failed)} of {len(points)} runs failed (run again to retry): {lines}"
        )
    return results


def _command(file: str | Path) -> list[str]:
    return [sys.executable, "-m", "trainers.studies.sweep_run", str(file), *plugin_options()]


def _spawn(
    children: Children, command: list[str], point: Point, jobs: int, device: str | None
) -> int:
    """Run one point in a process of its own; its exit status."""
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    environment = {"OMP_NUM_THREADS": threads, **os.environ, LAUNCHED: "1"}
    if device is not None:
        environment["CUDA_VISIBLE_DEVICES"] = device
    point.folder.mkdir(parents=True, exist_ok=True)
    with open(point.folder / "log.txt", "ab") as log:
        return children.run(command, stdout=log, stderr=log, env=environment)


class Children:
    """Processes that share their parent's signals: each keeps its work, and none begins after.

    Attributes:
        signum: the first signal that came, None without one.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._running: set[subprocess.Popen[Any]] = set()
        # A second signal may come while the handler of the first holds it.
        self._lock = threading.RLock()

    def run(self, command: list[str], **how: Any) -> int:
        """Run a program to its end; its exit status, and that of a stop where none may begin."""
        with self._lock:
            if self.signum is not None:
                return 128 + self.signum
            child = subprocess.Popen(command, **how)
            self._running.add(child)
        status = child.wait()
        with self._lock:
            self._running.discard(child)
        return 128 - status if status < 0 else status

    @contextmanager
    def passing_signals_on(self) -> Iterator[None]:
        """Catch Ctrl-C and SIGTERM while the block runs; nothing outside of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {signum: signal.signal(signum, self._pass_on) for signum in SIGNALS}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)

    def _pass_on(self, signum: int, frame: Any) -> None:
        self.signum = self.signum or signum
        os.write(2, b"\nstopping the runs; each saves a checkpoint (again: stop at once)\n")
        with self._lock:
            for child in self._running:
                child.send_signal(signum)


def _last_line(point: Point) -> str:
    text = (point.folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


def run_point(point: Point) -> dict[str, Any]:
    """Train and evaluate one point, unless it is finished; returns what its summary holds.

    Raises:
        ValueError: the folder holds a run of other settings.
        BusyError: another process works on this run.
        KeyboardInterrupt: the training was interrupted; it goes on from its checkpoint next time.
    """
    with alone(point.folder):
        summary = point.summary()
        return summary if summary is not None else _carry_out(point)


def _carry_out(point: Point) -> dict[str, Any]:
    pinned = {"digest": point.digest, "settings": dict(point.settings), "seed": point.seed}
    write_json(point.folder / POINT_FILE, pinned)
    try:  # a training that ended is not repeated because its evaluation was cut off
        results = read_json(point.folder / TRAINED_FILE).get("results")
    except ValueError:  # missing or half-written
        results = None
    if not isinstance(results, dict):
        results = _train(point)
        write_json(point.folder / TRAINED_FILE, {**pinned, "results": results})
    if point.evaluation is not None:
        partners = point.run.get("partners") or {}
        results |= measure_point(point, str(point.folder / TEAM), point.folder / EVAL, partners)
    summary = {**pinned, "results": results}
    write_json(point.folder / SUMMARY_FILE, summary)
    return summary


def _train(point: Point) -> dict[str, Any]:
    """Train and save the team; what the training itself found."""
    from trainers.train import train

    # Without the file that says so no training ended: an evaluation there is of another team.
    if (point.folder / EVAL).exists():
        shutil.rmtree(point.folder / EVAL)
    run = {**point.run, "trainer": dict(point.run["trainer"])}
    output = Path(run["trainer"]["output_dir"])
    run["trainer"]["resume_from_checkpoint"] = newest_or_cleared(output) is not None
    trainer = train(run)
    trainer.save_team(point.folder / TEAM)
    costs = read_json(output / MANIFEST_FILE)
    results: dict[str, Any] = {"updates": trainer.state.global_step}
    results |= {"tokens": costs["tokens"], "hours": costs["hours"]}
    counted = dataclasses.asdict(trainer.costs)
    results |= {name: counted[name] for name in COUNTED if counted[name] is not None}
    results["trained_parameters"] = trainer.team.trained_parameters
    log = trainer.state.log_history
    results["diagnosis"] = [finding.cause for finding in diagnose(log)]
    # Of each the last that was logged.
    last = {name: entry[name] for entry in log for name in ("reward", "success") if name in entry}
    return results | {f"train_{name}": value for name, value in last.items()}


def measure_point(
    point: Point, team: str, folder: Path, partners: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Evaluate a team as the sweep file says, in the point's environment.

    `team` and `partners` are as `named_team` takes them; files go to `folder`.
    """
    from llm_marl_envs.measure.runner import Plan
    from llm_marl_envs.measure.studies.measure import measure_team
    from llm_marl_envs.policies.named import Sampling

    asked: Any = point.evaluation
    trainer = point.run["trainer"]
    summary = measure_team(
        point.run["env"],
        team=team,
        plan=Plan(
            n_tasks=asked["tasks"],
            seeds=(asked["seed"],),
            context=trainer.get("context", "append"),
        ),
        sampling=Sampling(
            temperature=asked["temperature"],
            max_completion_length=trainer.get("max_completion_length"),
            template=_template(trainer),
        ),
        output=str(folder),
        env_kwargs={**(point.run.get("env_kwargs") or {}), "split": asked["split"]},
        partners=partners,
    )
    results = {name: summary[name] for name in ("mean_return", "success")}
    results["cooperation"] = (summary["cooperation"] or {}).get("mean")
    results["match"] = summary.get("match")
    return {name: value for name, value in results.items() if value is not None}


def _template(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """The chat template's variables, which a run file may give as JSON text."""
    variables = trainer.get("chat_template_kwargs") or {}
    if isinstance(variables, str):
        variables = json_of(variables, "chat_template_kwargs")
    return dict(variables)


def write_slurm(file: str | Path, script: str | Path, options: Sequence[str] = ()) -> int:
    """Write a SLURM array script with one task for each run; returns how many.

    Args:
        file: a sweep file; its path and the present folder are written into the script.
        script: where to write, e.g. "sweep.sbatch".
        options: further lines for sbatch, e.g. "--time=2:00:00"; "--array=..." stands in the place
            of the whole range.

    Raises:
        ValueError: a wrong sweep file, or an option that does not begin with "--".
    """
    points = read_sweep(file)
    for option in options:
        if not option.startswith("--") or "\n" in option:
            raise ValueError(f"SLURM option {option!r:.200}: expected e.g. --time=2:00:00")
    here = Path.cwd()
    keys = {option.partition("=")[0] for option in options}
    own = {"--array": f"0-{len(points) - 1}", "--job-name": "llm-marl-sweep"}
    lines = [*(f"{key}={value}" for key, value in own.items() if key not in keys), *options]
    command = _command(Path(file).resolve())
    text = "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH {line}" for line in lines),
            "# Finished runs are skipped, so the array can be submitted again after failures.",
            f"cd {shlex.quote(str(here))} || exit 1",
            f'exec {shlex.join(command)} --index "$SLURM_ARRAY_TASK_ID"',
            "",
        ]
    )
    Path(script).parent.mkdir(parents=True, exist_ok=True)
    Path(script).write_text(text, encoding="utf-8")
    return len(points)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one point: what the pool and SLURM start; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="trainers.studies.sweep_run",
        description="Carry out one run of a sweep.",
        epilog="example: python -m trainers.studies.sweep_run sweep.yaml --index 0",
    )
    parser.add_argument("file")
    parser.add_argument("--index", type=int, required=True, help="which run, from 0")
    parser.add_argument("--plugin", action="append", default=[], help="a module to import first")
    options = parser.parse_args(arguments)

    def work() -> None:
        import_plugins(options.plugin)
        points = read_sweep(options.file)
        if not 0 <= options.index < len(points):
            raise ValueError(f"--index {options.index}: expected 0 to {len(points) - 1}")
        run_point(points[options.index])

    try:
        return ending(work, "trainers.studies.sweep_run", again="run the sweep again to go on")
    except BusyError as error:
        print(error)
        return BUSY


if __name__ == "__main__":
    sys.exit(main())
