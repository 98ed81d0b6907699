"""The manifest of a run: what was run, with which versions, on what, and what it cost.

`recording` writes `run_manifest.json` when a run begins, so that a crashed one has it too, and
completes it when the run ends. It holds the resolved configuration of the last session, package
versions, Python and platform, the code's commit where it is a checkout, hardware, hashes of what
the environment tells its agents, generated tokens and hours. A resumed run adds a session to the
same file; what it changed in the configuration stands there as `changed`, key -> [before, since].
One that was killed could not say when, so its hours are counted to the last file that it wrote. No
host name, user name, environment variable or command line is recorded, apart from what the
configuration says.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import llm_marl_envs
from llm_marl_envs import make
from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.records import plain
from llm_marl_envs.files.json_files import differing, from_json, read_json, write_json

MANIFEST_FILE = "run_manifest.json"
MANIFEST_VERSION = 1
HASHED_TASKS = 4
CHECKOUT = Path(llm_marl_envs.__file__).parent.parent
"""Where a repository would lie, if the package runs from one."""
PACKAGES = (
    "llm-marl-envs",
    "numpy",
    "gymnasium",
    "pettingzoo",
    "pyyaml",
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "tokenizers",
)


@dataclass(slots=True)
class Costs:
    """What a run reports while it is recorded.

    Attributes:
        tokens: generated since the run began, earlier sessions of it included; None if not known.
        counts: whatever else it cost since then, by name.
    """

    tokens: int | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def recording(
    folder: str | Path | None,
    kind: str,
    config: Mapping[str, Any],
    *,
    env_id: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Iterator[Costs]:
    """Write the manifest of what runs in the block.

    Args:
        folder: `run_manifest.json` is written there; nothing is where there is none, as in all
            processes of a run but the main one.
        kind: "train", "eval", ...
        config: the resolved settings; what JSON cannot hold is written by its `repr`.
        env_id: registered environment, for the prompt hashes; None leaves them out.
        env_kwargs: its arguments.

    Yields:
        Where to put the tokens.

    Raises:
        ValueError: the folder holds the manifest of another kind of run.
    """
    costs = Costs()
    if not folder:
        yield costs
        return
    path = Path(folder) / MANIFEST_FILE
    earlier, before = _earlier_sessions(path, kind)
    session: dict[str, Any] = {"started": _now(), "status": "running", "hours": None}
    changed = differing(before, plain(config)) if before is not None else {}
    if changed:
        session["changed"] = {key: list(values) for key, values in changed.items()}
    manifest = {
        "version": MANIFEST_VERSION,
        "kind": kind,
        **_what_runs(config, env_id, env_kwargs or {}),
        "tokens": None,
        "sessions": [*earlier, session],
    }
    write_json(path, manifest)
    begun = time.perf_counter()
    session["status"] = "failed"
    try:
        yield costs
        session["status"] = "finished"
    except KeyboardInterrupt:
        session["status"] = "interrupted"
        raise
    finally:
        session["ended"] = _now()
        session["hours"] = (time.perf_counter() - begun) / 3600
        manifest["tokens"], manifest["costs"] = costs.tokens, dict(costs.counts)
        manifest["hours"] = sum(entry.get("hours") or 0.0 for entry in [*earlier, session])
        write_json(path, manifest)


def _what_runs(
    config: Mapping[str, Any], env_id: str | None, env_kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    settings = plain(config)
    return {
        "config": settings,
        "config_sha256": sha256(json.dumps(settings, sort_keys=True)),
        "env_id": env_id,
        "env_kwargs": plain(env_kwargs),
        "prompts": None if env_id is None else prompt_hashes(env_id, env_kwargs),
        "packages": package_versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "code": code_version(),
        "hardware": hardware(),
    }


@dataclass(frozen=True, slots=True)
class _Session:
    """What is read of a session that was before.

    Raises:
        ValueError: it did not start at a time.
    """

    started: str
    status: str
    hours: float | None = None

    def __post_init__(self) -> None:
        if datetime.fromisoformat(self.started).tzinfo is None:
            raise ValueError(f"started: expected a time with its zone, got {self.started!r:.80}")


@dataclass(frozen=True, slots=True)
class _Earlier:
    """What is read of a manifest that was before."""

    kind: str
    sessions: tuple[_Session, ...] = ()
    config: Mapping[str, Any] | None = None


def _earlier_sessions(
    path: Path, kind: str
) -> tuple[list[dict[str, Any]], Mapping[str, Any] | None]:
    """The sessions before this one, and the configuration of the last; None where there is none."""
    if not path.is_file():
        return [], None
    try:
        before = read_json(path, strict=True)
        about: _Earlier = from_json(_Earlier, before, path)
    except ValueError as error:
        aside = path.with_suffix(".json.unreadable")
        os.replace(path, aside)
        warnings.warn(f"{error}; kept as {aside.name}, a new manifest is begun", stacklevel=4)
        return [], None
    if about.kind != kind:
        raise ValueError(
            f"{path} is the manifest of a run of kind {about.kind!r:.80}, this one is "
            f"{kind!r}: give each its own folder"
        )
    sessions = [_ended(session, path.parent) for session in before.get("sessions") or []]
    return sessions, about.config


def _ended(session: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A session as it is; one that never ended, as killed when the folder's newest file was new."""
    if session.get("status") != "running":
        return session
    newest = max(file.stat().st_mtime for file in folder.rglob("*") if file.is_file())
    ended = datetime.fromtimestamp(newest, UTC)
    hours = (ended - datetime.fromisoformat(session["started"])).total_seconds() / 3600
    return {
        **session,
        "status": "killed",
        "ended": ended.isoformat(timespec="seconds"),
        "hours": max(0.0, hours),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def sha256(text: str) -> str:
    """Hexadecimal SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def prompt_hashes(env_id: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """SHA-256 of each agent's opening observation on the first tasks, and one over all of them.

    Two runs with equal `all` gave their agents the same words on these tasks; a changed prompt
    changes it.
    """
    env = make(env_id, **env_kwargs)
    source = task_source(env)
    number = HASHED_TASKS if source is None else min(HASHED_TASKS, len(source))
    tasks: dict[str, dict[str, str]] = {}
    for index in range(number):
        first = env.reset(seed=index, options=None if source is None else {"task": index})
        shown = {a: env.observe(a) for a in env.possible_agents} if first is None else first[0]
        name = str(index) if source is None else source[index].id
        tasks[name] = {agent: sha256(str(text)) for agent, text in shown.items()}
    env.close()
    return {"tasks": tasks, "all": sha256(json.dumps(tasks, sort_keys=True))}


def package_versions() -> dict[str, str | None]:
    """Version of each package that results depend on; None where it is not installed."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def code_version(root: Path = CHECKOUT) -> dict[str, Any] | None:
    """Commit of the checkout that this package lies in, and whether it differs; None elsewhere."""
    if not (root / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        """What git prints."""
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return done.stdout.strip()

    try:
        tracked = git("status", "--porcelain", "--untracked-files=no")
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(tracked)}
    except (OSError, subprocess.SubprocessError):  # no git, or not a checkout of ours to read
        return None


def hardware() -> dict[str, Any]:
    """Processors, memory in GiB, and CUDA devices where torch is loaded and sees some."""
    pages = os.sysconf("SC_PHYS_PAGES") if "SC_PHYS_PAGES" in os.sysconf_names else None
    size = os.sysconf("SC_PAGE_SIZE") if pages is not None else 0
    affinity = getattr(os, "sched_getaffinity", None)
    torch = sys.modules.get("torch")
    devices = []
    if torch is not None and torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(index)
            devices.append({"name": device.name, "memory_gib": device.total_memory / 2**30})
    return {
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "usable_cpus": None if affinity is None else len(affinity(0)),
        "memory_gib": None if pages is None else pages * size / 2**30,
        "cuda_devices": devices,
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
