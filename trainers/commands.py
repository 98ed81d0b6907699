"""`llm-marl train`, `demo`, `sweep` and other commands that need torch: what they take and print.

Torch is imported when a command runs.
"""

from __future__ import annotations

import json
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llm_marl_envs.commands import Command
from llm_marl_envs.commands.options import (
    add_environment,
    add_overrides,
    add_sampling,
    add_team,
    add_threads,
    assignments,
    env_kwargs_of,
    file_to_write,
    folder_to_write,
    limit_threads,
    positive_number,
    quiet_libraries,
    sampling_of,
)
from llm_marl_envs.core.checks import suggestion
from llm_marl_envs.core.plugins import plugin_options
from llm_marl_envs.files.json_files import check_writable
from llm_marl_envs.files.pictures import require_matplotlib
from trainers.run_file import check_first, expected, presets, read_yaml


@contextmanager
def _needs_torch() -> Iterator[None]:
    """Say what to install where a package of the extra is missing, or how Python must run."""
    quiet_libraries()
    if sys.flags.optimize > 1:
        raise ValueError("Transformers reads docstrings, which -OO leaves out: run Python without")
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == __package__:
            raise
        raise ImportError(
            f"this command needs {error.name!r:.200}: pip install 'llm-marl-envs[train]'"
        ) from error


def _add_import_model(parser: ArgumentParser) -> None:
    parser.add_argument("source", help="smollm2, its wheel, a GGUF file, or a Transformers model")
    parser.add_argument("folder", type=folder_to_write, help="where it shall be")
    parser.add_argument("--fresh", action="store_true", help="replace what was imported there")


def _import_model(options: Namespace) -> None:
    with _needs_torch():
        from trainers.weights.imported import import_model
    folder = import_model(options.source, options.folder, fresh=options.fresh)
    print(f"the model is in {folder}; measure it: llm-marl eval coop_coding-v0 --team {folder}")


def _add_warm_start(parser: ArgumentParser) -> None:
    add_environment(parser)
    parser.add_argument("folder", type=folder_to_write, help="where the model shall be")
    parser.add_argument("--model", required=True, help="smollm2, or a Transformers model")
    for name, about in (
        ("demonstrations", "that the environment's experts write"),
        ("steps", "of the optimiser"),
        ("batch-size", "demonstrations of a step"),
        ("lora-rank", "of the adapter, which is merged at the end; 0 trains all weights"),
        ("seed", "everything follows from it"),
    ):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=about)
    parser.add_argument("--learning-rate", type=float, help="default: 1e-3 with LoRA, else 5e-5")
    parser.add_argument(
        "--conventions", nargs="+", metavar="NAME", help="that experts follow (default: all)"
    )
    parser.add_argument("--fresh", action="store_true", help="make it again if it is there")
    add_threads(parser)


def _warm_start(options: Namespace) -> None:
    with _needs_torch():
        from trainers.weights.imported import model_folder
        from trainers.weights.warm_start import WarmStart, warm_started
    limit_threads(options)
    names = "demonstrations", "steps", "batch_size", "lora_rank", "seed"
    given = {name: getattr(options, name) for name in (*names, "learning_rate", "conventions")}
    settings = WarmStart(**{name: one for name, one in given.items() if one is not None})
    print(f"learning rate {settings.rate:g}, LoRA rank {settings.lora_rank}")
    folder = warm_started(
        model_folder(options.model),
        options.id,
        assignments(options.set),
        settings,
        options.folder,
        fresh=options.fresh,
    )
    given = "".join(f" --set {shlex.quote(one)}" for one in options.set)
    print(f"written to {folder}; measure it: llm-marl eval {options.id} --team {folder}{given}")


def _add_train(parser: ArgumentParser) -> None:
    parser.add_argument("--config", required=True, help="the run: a YAML file or a preset's name")
    add_overrides(parser)
    add_threads(parser)


def _train(options: Namespace) -> None:
    with _needs_torch():
        file = check_first(options.config, options.override, trains=True)
        from trainers.train import read_run, run_train
    limit_threads(options)
    read_run(options.config, options.override)  # refuses settings, too
    if file in presets().values():
        print(f"{file.stem} as it comes: {expected(file)}", flush=True)
    command = shlex.join(["llm-marl", "train", *plugin_options()])
    run_train(options.config, options.override, command)


def _add_estimate(parser: ArgumentParser) -> None:
    _add_train(parser)
    parser.add_argument(
        "--updates", type=int, default=2, help="to make; the first one warms up (default 2)"
    )


def _estimate(options: Namespace) -> None:
    with _needs_torch():
        check_first(options.config, options.override)
        from trainers.studies.estimate import lines_of, run_estimate
    limit_threads(options)
    found = run_estimate(options.config, options.override, options.updates)
    print("\n".join(lines_of(found)))


def _add_demo(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--preset",
        default="coop_coding_tiny",
        help="a preset or run file with model: tiny or warm_start (default coop_coding_tiny)",
    )
    for name, value, about in (
        ("tasks", 128, "held out, a split"),
        ("shown", 1, "tasks shown at the end"),
    ):
        parser.add_argument(
            f"--{name}", type=positive_number, default=value, help=f"{about} (default {value})"
        )
    add_threads(parser)
    parser.add_argument(
        "--output", type=folder_to_write, default="runs/demo", help="folder (default runs/demo)"
    )
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument(
        "--fresh", action="store_true", help="warm-start anew instead of using the cache"
    )
    add_overrides(parser)


def _demo(options: Namespace) -> None:
    with _needs_torch():
        check_first(options.preset, options.override)
        from trainers.studies.demo import run_demo
    limit_threads(options)
    run_demo(
        tasks=options.tasks,
        shown=options.shown,
        output=options.output,
        seed=options.seed,
        fresh=options.fresh,
        overrides=options.override,
        preset=options.preset,
    )


def _add_sweep(parser: ArgumentParser) -> None:
    parser.add_argument("file", help="a sweep file, see trainers/studies/sweep.py")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument(
        "--devices", default="", help="CUDA devices separated by commas, one for each job"
    )
    parser.add_argument(
        "--slurm",
        type=file_to_write,
        metavar="FILE",
        help="write a SLURM array script, run nothing",
    )
    parser.add_argument(
        "--slurm-option", action="append", default=[], metavar="--KEY=VALUE", help="for the script"
    )


def _sweep(options: Namespace) -> None:
    with _needs_torch():
        from trainers.studies import sweep_run as runs
    if options.slurm:
        number = runs.write_slurm(options.file, options.slurm, options.slurm_option)
        print(f"{options.slurm}: {number} runs; start them with sbatch {options.slurm}")
        return
    devices = [one for one in options.devices.split(",") if one]
    results = runs.run_sweep(options.file, jobs=options.jobs, devices=devices)
    print(f"{len(results['runs'])} runs finished, {len(results['missing'])} missing")


def _add_train_baselines(parser: ArgumentParser) -> None:
    parser.add_argument("config", help="a run file or a preset with a lora section")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 (default 3)")
    parser.add_argument(
        "--learning-rates",
        type=float,
        nargs="+",
        default=[],
        metavar="RATE",
        help="each method tries all; the run file's own, untuned, where not given",
    )
    parser.add_argument("--tasks", type=int, default=128, help="of a measurement (default 128)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    add_overrides(parser)
    parser.add_argument(
        "--output",
        type=folder_to_write,
        required=True,
        help="folder; what is finished there is kept",
    )


def _train_baselines(options: Namespace) -> None:
    with _needs_torch():
        check_first(options.config, options.override)
        from trainers.studies.trained_baselines import run_trained_baselines
        from trainers.studies.trained_baselines_report import baselines_table, save_picture
    found = run_trained_baselines(
        options.config,
        output=options.output,
        seeds=options.seeds,
        learning_rates=options.learning_rates,
        tasks=options.tasks,
        jobs=options.jobs,
        overrides=options.override,
    )
    print("\n" + baselines_table(found))
    save_picture(found, Path(options.output))
    print(f"written to {options.output}")


def _add_credit_audit(parser: ArgumentParser) -> None:
    add_environment(parser)
    parser.add_argument("--split", help="train, val, test or ood (default train)")
    parser.set_defaults(default_split="train")
    add_team(parser, partners=True)
    add_sampling(parser)
    for name, value, about in (
        ("points", 8, "decision points, each of another episode"),
        ("messages", 4, "messages that are judged at each"),
        ("replays", 64, "of each message, for its reference"),
        ("judgements", 16, "of each message by each estimator"),
        ("size", 4, "G: episodes of a group"),
        ("alternatives", 4, "J: versions that c3 compares"),
        ("memory", 64, "groups that running means and critics have learned from"),
        ("copies", 64, "environments at once"),
        ("seed", 0, "everything follows from it"),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{about} (default {value})")
    parser.add_argument(
        "--credit", choices=("team", "own"), default="team", help="whose rewards count"
    )
    parser.add_argument(
        "--trained", nargs="+", default=[], metavar="AGENT", help="whose messages are judged"
    )
    parser.add_argument(
        "--estimators", nargs="+", metavar="NAME", help="those that judge (default: all that can)"
    )
    parser.add_argument(
        "--output", type=folder_to_write, help="folder for credit_audit.json and credit_audit.png"
    )


def _credit_audit(options: Namespace) -> None:
    with _needs_torch():
        from trainers.studies import credit_audit_report as audits
    folder = None if options.output is None else Path(options.output)
    if folder is not None:  # what would fail at the end of hours fails now
        require_matplotlib()
        check_writable(folder / audits.AUDIT_FILE, folder / audits.PICTURE_FILE)
    sizes = ("points", "messages", "replays", "judgements", "size", "alternatives", "memory")
    given = {name: getattr(options, name) for name in (*sizes, "copies", "seed", "credit")}
    given["estimators"] = None if options.estimators is None else tuple(options.estimators)
    found = audits.run_credit_audit(
        options.id,
        env_kwargs_of(options),
        options.team,
        sizes=given,
        sampling=sampling_of(options),
        partners=assignments(options.partner),
        trained=options.trained,
        transfer=options.transfer,
    )
    print(audits.audit_tables(found.audit))
    if folder is not None:
        audits.write_audit(folder, found)
        print(f"written to {folder}")


def _add_serve_team(parser: ArgumentParser) -> None:
    parser.add_argument("config", help="the run that will train: a YAML file or a preset's name")
    parser.add_argument("--port", type=int, default=8000, help="of the first server (default 8000)")
    parser.add_argument(
        "--python", default="python", help="of the environment that vLLM is installed in"
    )
    parser.add_argument(
        "--exact", action="store_true", help="float32 and this library's noise: for engine exact"
    )
    parser.add_argument("--max-model-len", type=int, help="most tokens of prompt and action")
    parser.add_argument("--cpu", action="store_true", help="flags for a machine without a GPU")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--start", action="store_true", help="start the server, not only print it")
    what.add_argument(
        "--check", action="store_true", help="publish to the run's servers and compare log-probs"
    )
    add_overrides(parser)


def _serve_team(options: Namespace) -> None:
    with _needs_torch():
        check_first(options.config, options.override)
        from trainers import serve_team
    if options.check:
        for line in serve_team.check(options.config, options.override):
            print(line)
        return
    given = {name: getattr(options, name) for name in ("port", "python", "max_model_len", "cpu")}
    calls = serve_team.calls(options.config, options.override, given, exact=options.exact)
    print("\n".join(map(str, calls)), flush=True)
    if options.start:
        if len(calls) > 1:
            raise ValueError(f"{len(calls)} servers: start each of these lines by itself")
        calls[0].replace_this_process()


def _add_presets(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="print this one's run file")


def _presets(options: Namespace) -> None:
    known = presets()
    if options.name is not None:
        if options.name not in known:
            hint = suggestion(options.name, known)
            raise ValueError(
                f"no preset {options.name!r:.200}{hint}; `llm-marl presets` lists them"
            )
        print(known[options.name].read_text(encoding="utf-8"), end="")
        return
    for name, file in known.items():
        print(f"{name}  ({read_yaml(file)['env']})\n    {expected(file)}")


def _schema(options: Namespace) -> None:
    with _needs_torch():
        from trainers.run_schema import run_schema
    print(json.dumps(run_schema(), indent=1))


IMPORT_MODEL = Command(
    name="import-model",
    about="Write a model as a folder that every command takes: of a GGUF file, or by a name.",
    example="smollm2 models/smollm2",
    run=_import_model,
    add=_add_import_model,
)
WARM_START = Command(
    name="warm-start",
    about="Show a model what an environment's scripted experts write, so that each seat can play.",
    example="coop_coding-v0 models/coder --model smollm2",
    run=_warm_start,
    add=_add_warm_start,
    resumes=True,
)
TRAIN = Command(
    name="train",
    about="Train a team as a YAML file says.",
    example="--config run.yaml --override learning_rate=1e-4 --override seed=3",
    run=_train,
    add=_add_train,
)
PRESETS = Command(
    name="presets",
    about="List the run files of the library, with what each reaches; print one by name.",
    example="coop_coding_tiny",
    run=_presets,
    add=_add_presets,
)
ESTIMATE = Command(
    name="estimate",
    about="Make the first updates of a run and say how long all will take, and what limits it.",
    example="--config run.yaml --override num_generations=16",
    run=_estimate,
    add=_add_estimate,
)
DEMO = Command(
    name="demo",
    about="Warm-start, measure and train a team of models, and show what changed.",
    example="--output runs/demo",
    run=_demo,
    add=_add_demo,
    resumes=True,
)
SWEEP = Command(
    name="sweep",
    about="Train and evaluate a grid of settings times seeds; what is finished is skipped.",
    example="sweep.yaml --jobs 2",
    run=_sweep,
    add=_add_sweep,
    resumes=True,
)
TRAIN_BASELINES = Command(
    name="train-baselines",
    about="Compare a run with trained baselines at equal tokens, parameters and tuning trials: one "
    "policy that writes all parts, each seat trained alone, rejection sampling.",
    example="coop_coding_tiny --seeds 5 --learning-rates 1e-3 2e-3 4e-3 --output runs/baselines",
    run=_train_baselines,
    add=_add_train_baselines,
    resumes=True,
)
CREDIT_AUDIT = Command(
    name="credit-audit",
    about="Measure how well estimators of credit judge the messages of a team, and at what price.",
    example="coop_coding-v0 --team runs/demo/team --points 16 --output runs/audit",
    run=_credit_audit,
    add=_add_credit_audit,
)
SERVE_TEAM = Command(
    name="serve-team",
    about="Print the command of the vLLM servers that sample for a run; start or check them.",
    example="run.yaml --exact --python vllm_env/bin/python --start",
    run=_serve_team,
    add=_add_serve_team,
)
SCHEMA = Command(
    name="schema",
    about="Print the JSON schema of run files: an editor completes and checks what you write.",
    example="",
    run=_schema,
)
