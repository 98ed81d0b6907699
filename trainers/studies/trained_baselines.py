"""What a team trained with MAGRPO must be compared with, at equal cost: trained baselines.

Owns which methods are compared, how their costs are made equal, and the numbers;
`trained_baselines_report.py` shows them. The runs are
those of two sweeps (`sweep_run.py`): one tries learning rates, measured on the `val` split; one
trains every seed with the best of them, measured on `test`. `llm-marl train-baselines` prints it.

Methods, all with the same tasks per update:

- `team`: the run file as it is, e.g. MAGRPO with one adapter for each seat.
- `single`: one policy writes all parts, told what all seats are told (`single_seat`): single-agent
  GRPO.
- `alone`: each seat is trained in a run of its own beside the frozen warm start; then the trained
  seats are put together.
- `rejection`: the team imitates its own best episodes (`algorithms/rejection.py`).

Where they begin: `team`, `alone` and `rejection` with the same weights, one warm start for each
seed. So does `single` where the run file names a model. The embedded model is warm-started for it
anew, on demonstrations of its own, the same experts' parts in one chat, with a tokenizer made from
them: the two starts share the seed, the sizes and the number of steps, and nothing that was
learned. What each method began with, and what it reached before training, is reported.

Equal costs:

1. Generated tokens: the same number of actions with the same limit. A run of `alone` has the team's
   updates divided by the number of seats, because the frozen seats' tokens are generated too. What
   was in fact generated is counted.
2. Trained parameters: the single policy's adapter has the rank of all seats' adapters together (and
   the same alpha / rank).
3. Tuning trials: each run has the same learning rates to choose from, by the mean return on `val`
   of one more seed.

Not equal, but counted: prompt tokens. They cost compute as well, in sampling and again in the
update, and where prompts are long most of it. `single` reads what all seats are told, and its own
parts again before each next one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.play.registry import make
from trainers.algorithms import algorithm_name
from trainers.algorithms.base import OPTIONS
from trainers.algorithms.rejection import Rejection
from trainers.run_file import TINY
from trainers.running.defaults import RATES
from trainers.running.folder import BusyError, alone
from trainers.studies.sweep import SUMMARY_FILE, Point, read_sweep
from trainers.studies.sweep_run import measure_point, run_sweep
from trainers.train import model_path, read_run

TEAM, SINGLE, ALONE, REJECTION = "team", "single", "alone", "rejection"
TUNING_SEED = 1000
"""Of the runs that try learning rates; none of the seeds that are reported."""
RESULTS_FILE = "trained_baselines.json"
VERSION = 1
FIXED = ("frozen", "max_tokens", "policies", "policy_learning_rates", "returns", "schedules")
"""Settings of the trainer that the methods decide, or that one of them cannot follow."""
UNEQUAL = (
    "modules_to_save",
    "rank_pattern",
    "alpha_pattern",
    "use_rslora",
    "use_dora",
    "bias",
    "lora_bias",
)
"""Settings of LoRA with which n times the rank is not n times the parameters, or another scale."""
MEASURES = ("mean_return", "success", "cooperation", "match")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One way to train.

    Attributes:
        name: of the method.
        runs: name of each of its runs -> what it overrides in the run file.
        seats: seat -> the run that trains it; empty where one run trains all.
    """

    name: str
    runs: Mapping[str, Mapping[str, Any]]
    seats: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What one method reached with one seed.

    Attributes:
        seed: of warm start and training.
        before: measure -> value of the warm start, on the same tasks.
        after: measure -> value of what was trained.
        start: the weights it began with: the run file's model, or the folder's name of the embedded
            one. Methods with the same start share every weight of it.
        tokens: generated in training, over all runs of the method.
        prompt_tokens: read in training before these were sampled, each action's whole prompt; None
            where a release that did not count them trained one of the runs.
        parameters: trained, over all runs.
        updates: over all runs.
    """

    seed: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    start: str
    tokens: float
    prompt_tokens: float | None
    parameters: int
    updates: int


def methods(run: Mapping[str, Any]) -> tuple[Method, ...]:
    """The methods that a run file is compared with, itself first.

    Raises:
        ValueError: without adapters, a number of updates, with partners or another setting with
            which costs cannot be made equal, or trained on what is held out.
    """
    trainer, lora, agents = _checked(run)
    updates = trainer["max_steps"]
    rank = lora.get("r", 8)  # PEFT's default
    alpha = lora.get("lora_alpha", 8)
    single = {
        "env_kwargs.single_seat": True,
        "lora.r": rank * len(agents),
        "lora.lora_alpha": alpha * len(agents),
    }
    each = {agent: f"{ALONE}_{agent}" for agent in agents}
    alone = {
        name: {
            "frozen": [other for other in agents if other != agent],
            "max_steps": updates // len(agents) + (seat < updates % len(agents)),
        }
        for seat, (agent, name) in enumerate(each.items())
    }
    always = (
        Method(name=TEAM, runs={TEAM: {}}, seats={}),
        Method(name=SINGLE, runs={SINGLE: single}, seats={}),
        Method(name=ALONE, runs=alone, seats=each),
    )
    if algorithm_name(trainer.get("algorithm") or "") == REJECTION:  # the team does that already
        return always
    imitating: dict[str, Any] = {"algorithm": REJECTION}
    for option, (neutral, *_) in OPTIONS.items():  # it knows no scale and no baseline
        if trainer.get(option) and option not in Rejection.reads:
            imitating[option] = neutral
    return (*always, Method(name=REJECTION, runs={REJECTION: imitating}, seats={}))


def _checked(run: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The trainer's settings, the adapters' and the seats of a run that can be compared."""
    trainer, kwargs, lora = run.get("trainer") or {}, run.get("env_kwargs") or {}, run.get("lora")
    agents = list(make(run["env"], **kwargs).possible_agents)
    updates = trainer.get("max_steps", 0)
    wrong = []
    if not isinstance(lora, dict):
        wrong.append(f"lora={lora!r}: expected a section with settings, e.g. {{r: 16}}")
        lora = {}
    if type(updates) is not int or updates < len(agents):
        wrong.append(f"max_steps={updates!r}: expected at least one for each seat")
    if len(agents) < 2:
        wrong.append(f"seats {agents}: expected two or more")
    off = (None, "none", "discounted", False, [], {})
    set_here = [f"trainer.{key}" for key in FIXED if trainer.get(key) not in off]
    set_here += [f"lora.{key}" for key in UNEQUAL if lora.get(key) not in off]
    set_here += ["partners"] if run.get("partners") else []
    if set_here:
        wrong.append(f"{set_here} set: expected none of them, for costs would not be equal")
    if trainer.get("weights") not in (None, "adapters"):
        wrong.append(f"weights={trainer['weights']!r}: expected an adapter for each seat")
    if trainer.get("discount", 1.0) != 1.0:
        wrong.append("discount: expected 1, for a single writer's turns are other ones")
    if kwargs.get("split") in ("val", "test", "all"):
        wrong.append(f"split {kwargs['split']!r}: expected another one, for this one measures")
    if wrong:
        raise ValueError("trained baselines cannot be made equal to this run: " + "; ".join(wrong))
    return trainer, lora, agents


def run_trained_baselines(
    config: str | Path,
    *,
    output: str | Path,
    seeds: int = 3,
    learning_rates: Sequence[float] = (),
    tasks: int = 128,
    jobs: int = 1,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Tune, train and measure every method; what is finished is skipped.

    Args:
        config: a run file or a preset, see `trainers.train`.
        output: folder of the sweeps, their runs and `trained_baselines.json`.
        seeds: how many are reported, from 0.
        learning_rates: each run tries all of them; the run file's own where empty, without tuning.
        tasks: of each measurement; while tuning, at most those of the `val` split.
        jobs: runs at a time.
        overrides: as for `llm-marl train`.

    Returns:
        What `trained_baselines.json` holds.

    Raises:
        ValueError: a run file whose costs cannot be made equal, no seeds, more tasks than are held
            out, a folder with a comparison of other settings or one that another process works
            on, or runs that failed.
    """
    run = read_run(config, overrides)
    compared, folder = methods(run), Path(output)
    rates = list(learning_rates) or [run["trainer"].get("learning_rate", RATES["LoRA adapters"])]
    if seeds < 1:
        raise ValueError(f"seeds={seeds}: expected at least 1")
    plan = _Comparison(folder=folder, run=run, methods=compared, seeds=seeds, tasks=tasks)
    plan.check_final(rates)
    try:
        with alone(folder):
            chosen = _choose(plan, rates, jobs)
            file = plan.write("final", plan.tuned(chosen))
            print(f"training: {seeds} seeds of each")
            _whole(run_sweep(file, jobs=jobs))
            results = plan.collect(file, rates, chosen)
            write_json(folder / RESULTS_FILE, results)
    except BusyError as error:
        raise ValueError(str(error)) from error
    return results


def _choose(plan: _Comparison, rates: list[float], jobs: int) -> dict[str, float]:
    """Run -> the best of the learning rates; nothing is tried where there is one."""
    if len(rates) == 1:
        return dict.fromkeys(plan.variants, rates[0])
    file = plan.write("tuning", plan.variants, rates)
    print(f"tuning: {len(rates)} learning rates for each of {len(plan.variants)} runs")
    return best_rates(_whole(run_sweep(file, jobs=jobs)))


def _whole(results: dict[str, Any]) -> dict[str, Any]:
    """The results of a sweep of which no run is missing."""
    if results["missing"]:
        raise ValueError(
            f"{results['missing']}: worked on by another process; run this again when it has ended"
        )
    return results


def best_rates(tuning: Mapping[str, Any]) -> dict[str, float]:
    """Run -> the learning rate with the highest mean return; the first of several."""
    best: dict[str, tuple[float, float]] = {}
    for run in tuning["runs"]:
        name, rate = run["settings"]["variant"], run["settings"]["learning_rate"]
        earned = run["results"]["mean_return"]
        if name not in best or earned > best[name][0]:
            best[name] = (earned, rate)
    return {name: rate for name, (_, rate) in best.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """What was asked for, and the sweeps that carry it out."""

    folder: Path
    run: Mapping[str, Any]
    methods: tuple[Method, ...]
    seeds: int
    tasks: int

    @property
    def variants(self) -> dict[str, dict[str, Any]]:
        """Run -> what it overrides."""
        return {name: dict(own) for method in self.methods for name, own in method.runs.items()}

    def tuned(self, rates: Mapping[str, float]) -> dict[str, dict[str, Any]]:
        """The variants, each with its learning rate."""
        return {name: {**own, "learning_rate": rates[name]} for name, own in self.variants.items()}

    def check_final(self, rates: Sequence[float]) -> None:
        """Refuse wrong settings, and a folder with runs that have none of the learning rates."""
        each = [
            self._points(self._sweep("final", self.tuned(dict.fromkeys(self.variants, rate))))
            for rate in rates
        ]
        for candidates in zip(*each, strict=True):
            refusals = []
            for point in candidates:
                try:
                    point.summary()
                except ValueError as error:
                    refusals.append(error)
            if len(refusals) == len(candidates):
                raise refusals[0]

    def write(
        self, name: str, variants: Mapping[str, Mapping[str, Any]], rates: Sequence[float] = ()
    ) -> Path:
        """The file of the sweep "tuning", which tries `rates` on `val`, or "final", on `test`.

        It is written only once nothing is wrong with it or with what lies in the folder.
        """
        texts = self._sweep(name, variants, rates)
        for point in self._points(texts):
            point.summary()  # refuses a folder of other settings
        for file, text in texts.items():
            with replacing(self.folder / file) as partial:
                partial.write_text(text, encoding="utf-8")
        return self.folder / f"{name}.yaml"

    def _sweep(
        self, name: str, variants: Mapping[str, Mapping[str, Any]], rates: Sequence[float] = ()
    ) -> dict[str, str]:
        """File -> its text: the run file, and the sweep's, which comes last."""
        split, seeds, tasks = "test", list(range(self.seeds)), self.tasks
        if name == "tuning":
            split, seeds, tasks = "val", [TUNING_SEED], min(self.tasks, self._tuning_tasks())
        sweep = {
            "run": "run.yaml",
            "output": str(self.folder / name),
            "variants": {key: dict(value) for key, value in variants.items()},
            **({"grid": {"learning_rate": list(rates)}} if rates else {}),
            "seeds": seeds,
            "evaluate": {"tasks": tasks, "split": split},
        }
        files = {"run.yaml": dict(self.run), f"{name}.yaml": sweep}
        return {file: yaml.safe_dump(content, sort_keys=False) for file, content in files.items()}

    def _points(self, texts: Mapping[str, str]) -> list[Point]:
        """The runs of a sweep whose files are not written yet."""
        with tempfile.TemporaryDirectory() as asked:
            for file, text in texts.items():
                (Path(asked) / file).write_text(text, encoding="utf-8")
            try:
                return read_sweep(Path(asked) / [*texts][-1])
            except ValueError as error:  # of the files that would be written
                raise ValueError(str(error).replace(asked, str(self.folder))) from error

    def _tuning_tasks(self) -> int:
        kwargs = {**(self.run.get("env_kwargs") or {}), "split": "val"}
        return len(make(self.run["env"], **kwargs).source)

    def collect(
        self, file: Path, rates: Sequence[float], chosen: Mapping[str, float]
    ) -> dict[str, Any]:
        """What `trained_baselines.json` holds."""
        points = {(point.settings["variant"], point.seed): point for point in read_sweep(file)}
        return {
            "version": VERSION,
            "env_id": self.run["env"],
            "run": dict(self.run),
            "trials": len(rates),
            "learning_rates": dict(chosen),
            "tasks": self.tasks,
            "methods": {
                method.name: [asdict(_trained(method, points, seed)) for seed in range(self.seeds)]
                for method in self.methods
            },
        }


def _trained(method: Method, points: Mapping[tuple[str, int], Point], seed: int) -> Trained:
    """The costs of a method's runs, and what the seats they trained reach together."""
    own = [points[name, seed] for name in method.runs]
    costs = [read_json(point.folder / SUMMARY_FILE)["results"] for point in own]
    place = own[0].folder.parent
    after: Mapping[str, Any] = costs[0]
    if method.seats:
        members = {s: str(points[name, seed].folder / "team") for s, name in method.seats.items()}
        first = next(iter(members.values()))
        after = measure_point(own[0], first, place / f"{method.name}_seed-{seed}", members)
    start = f"warm_start_{SINGLE if method.name == SINGLE else TEAM}_seed-{seed}"
    model = model_path(own[0].run)
    prompts = [cost.get("prompt_tokens") for cost in costs]
    return Trained(
        seed=seed,
        before=measure_point(own[0], model, place / start),
        after={name: after[name] for name in MEASURES if name in after},
        start=Path(model).name if own[0].run["model"] == TINY else model,
        tokens=sum(cost["tokens"] for cost in costs),
        prompt_tokens=None if None in prompts else sum(prompts),
        parameters=sum(cost["trained_parameters"] for cost in costs),
        updates=sum(cost["updates"] for cost in costs),
    )
