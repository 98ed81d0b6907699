"""Try every bridge and example with the library it is for, and write the table of what came.

    python tests/bridges/run.py                      # all; `make test-bridges`
    python tests/bridges/run.py sb3 torchrl --seeds 1

Libraries pin what others need otherwise, so each has its own environment under runs/bridges. It
sees the packages of the environment that runs this, and torch stays the build that is installed
there. Results go to docs/bridges.json, library by library; the table of
docs/howto/other_trainers.md is made of it. Where tests/bridges/test_NAME.py exists, it runs there
too. Exit code 1: something failed, or a reward did not rise by 0.2.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.bridge_table import RECORDS, failed, write_table  # noqa: E402
from support.digits import toy  # noqa: E402

from llm_marl_envs.files.json_files import write_json  # noqa: E402

LIBRARIES: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "libraries.yaml").read_text())
LONGEST = 900
"""Seconds that one example may take with one seed."""
ENVIRONMENTS = ROOT / "runs" / "bridges"


def environment(name: str, requires: Sequence[str]) -> Path:
    """The Python of a library's environment, made and filled unless it stands.

    It sees the packages of this one. What the library needs in another version is installed in
    front of them, but for torch.
    """
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    stamp = folder / "requires.txt"
    wanted = "\n".join(requires)
    if not (stamp.exists() and stamp.read_text() == wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        below = next(folder.glob("lib/python*/site-packages")) / "below.pth"
        ours = [path for path in sys.path if path.endswith("site-packages")]
        below.write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in ours))
        held = folder / "constraints.txt"
        held.write_text(f"torch=={version('torch').split('+')[0]}\n")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if requires:
            subprocess.run([*pip, "--constraint", held, *requires], check=True)
        stamp.write_text(wanted)
    return python


def asked(python: Path, code: str) -> str:
    """What a line of Python prints in an environment."""
    return subprocess.check_output([python, "-c", code], text=True).strip()


def tried(python: Path, name: str, seed: int, toy: Sequence[str]) -> dict[str, Any]:
    """What an example gave with one seed, or {"error": the end of what it printed}."""
    printed, wrong = called([python, HERE / "one.py", name, str(seed), *toy], ENVIRONMENTS)
    return {"error": printed[-2000:]} if wrong else json.loads(printed.strip().splitlines()[-1])


def called(command: Sequence[Any], folder: Path) -> tuple[str, bool]:
    """What a command printed, and whether it failed; with one thread, and this checkout first."""
    scarce = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **scarce, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=LONGEST,
            cwd=folder,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {LONGEST} s", True
    return (done.stdout + done.stderr if done.returncode else done.stdout), done.returncode != 0


def tests_fail(python: Path, name: str) -> list[str]:
    """What the tests of a library printed, if they failed."""
    file = HERE / f"test_{name}.py"
    if not file.exists():
        return []
    printed, wrong = called([python, "-m", "pytest", "-q", "-m", "", file], ROOT)
    skipped = " skipped" in printed.splitlines()[-1]
    return [f"{file.name}: {printed[-2000:]}"] if wrong or skipped else []


def records(name: str, library: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One record per example of a library."""
    python = environment(name, library.get("requires", []))
    package = library.get("package")
    installed = f"import importlib.metadata as m; print(m.version({package!r}))"
    found = []
    for example, said in library["examples"].items():
        given = toy(said["toy"]) if said.get("toy") else ()
        runs = [tried(python, example, seed, given) for seed in seeds]
        found.append(
            {
                "name": name,
                "library": library["library"],
                "version": library.get("read") or asked(python, installed),
                "example": example,
                "form": said["form"],
                "ran": said["ran"],
                "checked": said.get("checked", "interface checked, not run"),
                "runs": [{"seed": seed, **run} for seed, run in zip(seeds, runs, strict=True)],
                "date": time.strftime("%Y-%m-%d"),
            }
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", nargs="*", help=f"some of {', '.join(LIBRARIES)}; all if none")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N-1")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.library if name not in LIBRARIES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; expected some of {', '.join(LIBRARIES)}")
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    for name in tqdm(chosen.library or list(LIBRARIES), unit="library"):
        new = records(name, LIBRARIES[name], range(chosen.seeds))
        wrong += [line for record in new for line in failed(record)]
        wrong += tests_fail(environment(name, LIBRARIES[name].get("requires", [])), name)
        known = json.loads(RECORDS.read_text()) if RECORDS.exists() else []
        kept = [one for one in known if one["name"] != name] + new
        order = list(LIBRARIES)
        kept = [one for one in kept if one["name"] in order]
        kept.sort(key=lambda one: order.index(one["name"]))
        write_json(RECORDS, kept)
        write_table()
    print("\n".join(wrong) or "all rose, or paid what they pay in process")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
