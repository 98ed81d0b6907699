"""A team as a repository: which files make one, and what is refused of those that strangers wrote.

A team is data: weights as safetensors, all else as JSON or text. So is what is fetched: nothing is
unpickled, and no code of a repository runs. Owns the list of files, for what is sent and for what
is fetched, and where a fetched team lies.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from llm_marl_envs.files.cache import cache_folder, made_once, written_whole
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.hub.client import COMMIT, Listed, Repository, TooLargeError, fetch, list_files

PREFIX = "hub:"
TEAM_FILE = "team.json"
ORIGIN_FILE = "hub.json"
"""In a fetched team: where it came from. A team that has it is a stranger's."""
BASE = "base_model"
"""Folder of a team's base model, where the team brings it."""
CARRIED = f"./{BASE}"
"""What `team.json` says of such a base."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
AT_THE_TOP = (TEAM_FILE, "README.md", "LICENSE")
OF_A_MODEL = re.compile(
    r"adapter_config\.json|adapter_model\.safetensors"
    r"|config\.json|generation_config\.json|model(-\d{5}-of-\d{5})?\.safetensors"
    r"|model\.safetensors\.index\.json|tokenizer\.json|tokenizer_config\.json"
    r"|special_tokens_map\.json|added_tokens\.json|vocab\.(json|txt)|merges\.txt"
    r"|chat_template\.jinja|tiny\.json|LICENSE"
)
INDEX = "model.safetensors.index.json"
"""Says which file of a model holds which tensor."""
TEMPLATES = "additional_chat_templates"
"""Folder of a tokenizer with several chat templates; the first one is chat_template.jinja."""
TEMPLATE = re.compile(r"[\w.-]+\.jinja")
GIB = 2**30
MOST_GIB = 20.0
"""Of a team, where nobody says more: adapters have some MiB, a base model with them many GiB."""
MOST_OF_TEAM_FILE = 2**20
VOCABULARIES = ("tokenizer.json", "vocab.json")
"""JSON whose keys are tokens, which may be any words."""
RUNS = re.compile(
    r".*\.(bin|pt|pth|ckpt|pkl|pickle|joblib|npy|npz|h5|msgpack|py|pyc|pyd|so|dll|dylib|sh|exe)",
    re.IGNORECASE,
)
"""Files that are code, or that a loader would unpickle."""
CODE_KEYS = ("auto_map", "auto_mapping", "trust_remote_code", "custom_pipelines", "megatron_config")
"""Keys of configurations that make a library import what the repository names."""
IMPLEMENTATIONS = re.compile(r"_?(attn|experts)_implementation.*")
"""Keys that name an implementation; one with a slash is fetched from the Hub, as code."""


def belongs(path: str, policies: Iterable[str]) -> bool:
    """Whether a file, by its path in a repository, is one that makes a team of these policies."""
    parts = path.split("/")
    if len(parts) == 1:
        return path in AT_THE_TOP
    if parts[0] not in (BASE, *policies):
        return False
    if len(parts) == 3:
        return parts[1] == TEMPLATES and TEMPLATE.fullmatch(parts[2]) is not None
    return len(parts) == 2 and OF_A_MODEL.fullmatch(parts[1]) is not None


def policies_of(team: Mapping[str, Any], where: Any) -> list[str]:
    """The policies that a `team.json` names, those that rest too.

    Raises:
        ValueError: it names none, or something that cannot be a folder.
    """
    seats, resting = team.get("agents"), team.get("resting", [])
    if not isinstance(seats, dict) or not seats or not isinstance(resting, list):
        raise ValueError(f"{where}: 'agents' is missing or damaged; expected seat -> policy")
    names = [*seats.values(), *resting]
    for name in names:
        if not isinstance(name, str) or "/" in name or problem_of(name) or name == BASE:
            raise ValueError(f"{where}: {name!r:.80} cannot be the name of a policy")
    return list(dict.fromkeys(names))


def problem_of(path: str) -> str | None:
    """Why a path cannot be one in a team's repository; None where it can."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r"[\\:\x00-\x1f]", path):
        return "leads out of its folder or is no plain path"
    if RUNS.fullmatch(path):
        return "is code, or would be unpickled; a team is safetensors and JSON"
    return None


def check_listed(listed: Listed, repository: Repository) -> None:
    """Refuse a repository by the names in it, before a byte of it is fetched.

    Raises:
        ValueError: it has no `team.json`; a path leads out of it; a file is code or a pickle; or
            what should be a file of weights is something else, such as a link.
    """
    for path in (*listed.files, *listed.others):
        problem = problem_of(path)
        if problem:
            raise ValueError(f"{PREFIX}{repository}: refused, {path!r:.120} {problem}")
    for path in listed.others:
        if OF_A_MODEL.fullmatch(PurePosixPath(path).name):
            raise ValueError(f"{PREFIX}{repository}: refused, {path!r} is a link or a folder")
    if TEAM_FILE not in listed.files:
        raise ValueError(
            f"{PREFIX}{repository}: no {TEAM_FILE} there; expected what `llm-marl push-team` sent"
        )


def refuse_code(value: Any, where: Any) -> None:
    """Refuse a configuration, JSON values, that would make a library run code.

    Raises:
        ValueError: names the key.
    """
    for key, entry in _entries(value):
        fetched = IMPLEMENTATIONS.fullmatch(key) and "/" in json.dumps(entry)
        if fetched or (key in CODE_KEYS and entry not in (None, False, {}, [])):
            raise ValueError(f"{where}: refused, {key!r} would run code that comes with a model")


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key of every map in a JSON value."""
    if isinstance(value, Mapping):
        yield from ((str(key), entry) for key, entry in value.items())
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(parts, list) or isinstance(value, Mapping):
        for part in parts:
            yield from _entries(part)


def check_fetched(folder: Path, repository: Any) -> None:
    """Refuse a team by what its files hold.

    Raises:
        ValueError: a configuration asks for code, weights are no safetensors, a file is a link, or
            the base model lies elsewhere on this machine.
    """
    for file in sorted(folder.rglob("*")):
        if file.is_dir() and not file.is_symlink():
            continue
        where = f"{PREFIX}{repository}: {file.relative_to(folder).as_posix()}"
        if file.is_symlink():
            raise ValueError(f"{where}: refused, it is a link")
        if file.suffix == ".json" and file.name not in VOCABULARIES:
            held = _read(file, where)
            refuse_code(held, where)
            shards = held.get("weight_map") if file.name == INDEX else {}
            named = shards.values() if isinstance(shards, dict) else [shards]
            if not all(isinstance(name, str) and OF_A_MODEL.fullmatch(name) for name in named):
                raise ValueError(f"{where}: refused, it names weights elsewhere")
        if file.suffix == ".safetensors" and not is_safetensors(file):
            raise ValueError(f"{where}: refused, it holds no safetensors")
    where = f"{PREFIX}{repository}: {TEAM_FILE}"
    check_base(_read(folder / TEAM_FILE, where), where)


def _read(file: Path, where: str) -> Any:
    try:
        return read_json(file)
    except ValueError as error:
        raise ValueError(f"{where}: refused, {str(error).partition(': ')[2]}") from error


def check_base(team: Mapping[str, Any], where: Any) -> None:
    """Refuse a stranger's team whose base model is neither its own nor a name on the Hub.

    Raises:
        ValueError: it is a path of some machine, or no text.
    """
    base = team.get("base") or ""
    if not isinstance(base, str) or (base not in ("", CARRIED) and not HUB_NAME.fullmatch(base)):
        raise ValueError(
            f"{where}: refused, its base model {base!r:.80} is a path of some machine; whoever "
            "pushed it can push it again with --with-base or --base"
        )


def is_safetensors(file: Path) -> bool:
    """Whether a file begins as safetensors do: with the length of a JSON object, and it."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if not 2 <= length <= file.stat().st_size - 8:
            return False
        try:
            return isinstance(json_of(opened.read(length)), dict)
        except ValueError:
            return False


def pull_team(
    repository: Repository,
    folder: str | Path,
    *,
    most: int = int(MOST_GIB * GIB),
    tell: Callable[[str], None] | None = None,
) -> Path:
    """Fetch a team into a folder that is missing or empty; returns it.

    Args:
        repository: where it is.
        folder: where it shall be.
        most: bytes that may be fetched.
        tell: is told the files and their sizes before they are fetched.

    Raises:
        ValueError: the folder holds something, the team has more than `most` bytes, or as
            `check_listed` and `check_fetched`.
        HubError: the Hub cannot be reached, or there is no such repository.
    """
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ValueError(f"{folder} is there and not empty; choose another folder")
    listed = list_files(repository)
    _fetch(repository, listed, folder, most=most, tell=tell)
    return folder


def _fetch(
    repository: Repository,
    listed: Listed,
    folder: Path,
    *,
    most: int = int(MOST_GIB * GIB),
    tell: Callable[[str], None] | None = None,
) -> None:
    check_listed(listed, repository)
    team_bytes = min(most, MOST_OF_TEAM_FILE)
    _check_size(repository, {TEAM_FILE: listed.files[TEAM_FILE]}, team_bytes)
    with TemporaryDirectory() as temporary, written_whole(folder) as made:
        fetched = Path(temporary)
        fetch(repository, listed.commit, [TEAM_FILE], fetched, most=team_bytes)
        where = f"{PREFIX}{repository}: {TEAM_FILE}"
        policies = policies_of(_read(fetched / TEAM_FILE, where), where)
        paths = [path for path in sorted(listed.files) if belongs(path, policies)]
        sizes = {path: listed.files[path] for path in paths}
        if tell is not None:
            tell("\n".join(size_lines(sizes)))
        _check_size(repository, sizes, most)
        fetch(repository, listed.commit, paths, fetched, most=most)
        for path in paths:
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(fetched / path, made / path, follow_symlinks=False)
        check_fetched(made, repository)
        write_json(made / ORIGIN_FILE, {"repository": repository.name, "commit": listed.commit})


def _check_size(repository: Repository, sizes: Mapping[str, int], most: int) -> None:
    whole = sum(sizes.values())
    if whole > most or any(size < 0 for size in sizes.values()):
        largest = max(sizes, key=sizes.__getitem__)
        raise TooLargeError(
            f"{PREFIX}{repository}: refused, its files have {whole:,} bytes ({largest:.80} alone "
            f"{sizes[largest]:,}), at most {most:,} are fetched; if you expect so much, fetch it "
            "with `llm-marl pull-team --most-gib`"
        )


def size_lines(sizes: Mapping[str, int]) -> list[str]:
    """Each file with its size in bytes, and all together."""
    width = max(len(f"{size:,}") for size in (*sizes.values(), sum(sizes.values())))
    rows = [f"{size:>{width},}  {path}" for path, size in sizes.items()]
    return [*rows, f"{sum(sizes.values()):>{width},}  bytes in {len(sizes)} files"]


@cache
def team_folder(name: str) -> str:
    """The folder of a team that is named: `hub:owner/name@revision` is fetched, all else is itself.

    A commit that was fetched before is taken from the cache without asking anybody. What `main` or
    another branch is, is asked once in a process.

    Raises:
        ValueError: as `pull_team`.
        HubError: as `pull_team`.
    """
    if not name.startswith(PREFIX):
        return name
    repository = Repository.named(name.removeprefix(PREFIX))
    home = cache_folder() / "hub" / repository.name.replace("/", "--")
    commit = repository.revision or ""
    if COMMIT.fullmatch(commit) and (home / commit / ORIGIN_FILE).is_file():
        return str(home / commit)
    listed = list_files(repository)
    folder = home / listed.commit
    with made_once(folder):
        if not (folder / ORIGIN_FILE).is_file():
            _fetch(repository, listed, folder)
    return str(folder)
