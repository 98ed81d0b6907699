"""`llm-marl push-team`: a saved team becomes a repository that others can play.

Owns what of a team's folder is copied, what its `team.json` says of the base model there, and the
card with measured numbers. Only files on the list of `hub.team_repository` are looked at.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from llm_marl_envs.files.cache import fingerprint
from llm_marl_envs.files.foreign import text_of, yaml_of
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.hub.client import Repository
from llm_marl_envs.hub.team_repository import (
    BASE,
    CARRIED,
    HUB_NAME,
    PREFIX,
    TEAM_FILE,
    belongs,
    policies_of,
    refuse_code,
)
from llm_marl_envs.measure.numbers.results import EVALUATION, RESULT_FILE, read_result
from llm_marl_envs.measure.numbers.tables import result_table
from llm_marl_envs.publish.sending import Delivery

CARD_FILE = "README.md"
ADAPTER_FILE = "adapter_config.json"
EMBEDDED = "tiny.json"
"""In the folder of a model that the library made itself; such a base always goes with its team."""
FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
ADDED = "<!-- from here on written by llm-marl push-team -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How a team shall be pushed.

    Attributes:
        evaluation: folder of `llm-marl eval --output`; None for the one that lies in the run.
        base: name of the adapters' base model on the Hub, where it lies in a folder here.
        with_base: send that folder, too.
        public: whether everybody may read the repository.
    """

    evaluation: str | None = None
    base: str | None = None
    with_base: bool = False
    public: bool = False


@contextmanager
def team_delivery(folder: str | Path, repository: Repository, asked: Asked) -> Iterator[Delivery]:
    """The files of a team as they will be sent, as long as the block runs.

    Args:
        folder: a saved team, or a run with one in `team/`.
        repository: where it shall go.
        asked: the rest.

    Raises:
        ValueError: no team there; a base model that nobody else could have; an evaluation of
            another team; a file that is a link.
    """
    folder = saved_team(folder)
    team = read_json(folder / TEAM_FILE)
    policies = policies_of(team, folder / TEAM_FILE)
    base = _base(folder, team, asked)
    measured = _evaluation(folder, asked.evaluation)
    with TemporaryDirectory() as temporary:
        staged = Path(temporary)
        _copy(folder, staged, [*policies])
        if isinstance(base, Path):
            _copy(base, staged / BASE, [], model=True)
        named = CARRIED if isinstance(base, Path) else base
        write_json(staged / TEAM_FILE, {**team, "base": named})
        for config in staged.glob(f"*/{ADAPTER_FILE}"):
            # The folder of a base on this machine is nobody's business, and leads nowhere else.
            _set(config, "base_model_name_or_path", None if named in ("", CARRIED) else named)
        card = _card(folder, {**team, "base": named}, repository, measured)
        (staged / CARD_FILE).write_text(card, encoding="utf-8")
        files = {p.relative_to(staged).as_posix(): p for p in sorted(staged.rglob("*"))}
        yield Delivery(
            repository=repository,
            files={path: file for path, file in files.items() if file.is_file()},
            mark=TEAM_FILE,
            message=f"A team for {team.get('env_id') or 'an environment without an id'}",
            public=asked.public,
        )


def saved_team(folder: str | Path) -> Path:
    """The folder of a saved team, or that of the team in a run.

    Raises:
        ValueError: there is none.
    """
    for place in (Path(folder), Path(folder) / "team"):
        if (place / TEAM_FILE).is_file():
            return place
    raise ValueError(f"{folder}: no {TEAM_FILE} there; expected a saved team, or a run that ended")


def _copy(folder: Path, to: Path, policies: list[str], *, model: bool = False) -> None:
    """Copy what makes a team; of a model, what makes one."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        path = file.relative_to(folder).as_posix()
        if not belongs(f"{BASE}/{path}" if model else path, policies):
            continue
        if file.is_symlink() or file.parent.is_symlink():
            raise ValueError(f"{file}: a link; only files that lie there themselves are sent")
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, to / path)
        if file.name in ("config.json", "tokenizer_config.json", ADAPTER_FILE):
            refuse_code(read_json(file), file)


def _set(file: Path, key: str, value: Any) -> None:
    config = read_json(file)
    file.write_text(json.dumps({**config, key: value}, indent=2, sort_keys=True), encoding="utf-8")


def _base(folder: Path, team: Mapping[str, Any], asked: Asked) -> str | Path:
    """The base of a team's adapters as others can have it: a name, or a folder that is sent."""
    said = str(team.get("base") or "")
    if team.get("weights") != "adapters":
        if asked.base or asked.with_base:
            raise ValueError(f"{folder}: its policies are whole models, and have no base to name")
        return said if not _is_local(said) else ""
    if asked.base is not None:
        if asked.with_base or not HUB_NAME.fullmatch(asked.base) or Path(asked.base).exists():
            raise ValueError(f"--base {asked.base}: expected a name on the Hub, or --with-base")
        return asked.base
    here = folder / BASE if said == CARRIED else Path(said)
    if said and not _is_local(said) and not asked.with_base:
        return said
    if not said or not (here / "config.json").is_file():
        raise ValueError(
            f"{folder}: the base model of its adapters, {said or 'without a name'}, is not here; "
            "name the same model on the Hub with --base"
        )
    if asked.with_base or said == CARRIED or (here / EMBEDDED).is_file():
        return here
    size = sum(file.stat().st_size for file in here.iterdir() if file.is_file())
    raise ValueError(
        f"{folder}: the base model of its adapters is a folder of this machine ({here.name}, "
        f"{fingerprint(here)}), which nobody else has: name the same model on the Hub with --base, "
        f"or send it, too, with --with-base ({size / 2**20:.0f} MiB; mind its licence)"
    )


def _is_local(name: str) -> bool:
    return Path(name).is_absolute() or Path(name).exists() or name.startswith((".", "~"))


def _evaluation(folder: Path, given: str | None) -> dict[str, Any] | None:
    """The summary of the team's evaluation; None where nobody measured it."""
    file = (Path(given) if given else folder.parent / EVALUATION) / RESULT_FILE
    if not file.is_file():
        if given:
            raise ValueError(f"{given}: no {RESULT_FILE} there; expected llm-marl eval --output")
        return None
    summary = {**read_json(file), **read_result(file)}
    identity = f"team {fingerprint(folder)}"
    players = (summary.get("identity") or {}).values()
    if not any(str(player).startswith(identity) for player in players):
        raise ValueError(
            f"{file}: measured another team than {folder}, or an earlier state of it; measure "
            f"it again: llm-marl eval {summary.get('env_id')} --team {folder} --output FOLDER"
        )
    return {**summary, "team_identity": identity}


# -- the card --------------------------------------------------------------------------------------
def _card(folder: Path, team: Mapping[str, Any], repository: Repository, measured: Any) -> str:
    """The saved team's own card, whatever people added to it, and below it numbers and commands."""
    own = folder / CARD_FILE
    text = text_of(own.read_bytes(), own) if own.is_file() else "# A team\n"
    front = FRONT.match(text)
    data = yaml_of(front[1], own) if front else {}
    if not isinstance(data, dict):
        raise ValueError(f"{own}: what stands between the first two --- is no map")
    body = (text[front.end() :] if front else text).partition(ADDED)[0].strip()
    data = {"library_name": "llm-marl-envs", "pipeline_tag": "text-generation", **data}
    if team["base"] not in ("", CARRIED):
        data["base_model"] = team["base"]
    header = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return f"---\n{header}---\n\n{body}\n\n{ADDED}\n{_added(team, repository, measured)}"


def _beside(measured: Mapping[str, Any]) -> list[str]:
    """Who else played, where the team had not all seats: a paragraph, or nothing."""
    ours = f"{measured['team_identity']},"
    others = {
        seat: player
        for seat, player in measured["identity"].items()
        if not str(player).startswith(ours)
    }
    seats = "; ".join(f"`{seat}` by {player}" for seat, player in others.items())
    return ["", f"Other seats: {seats}."] if others else []


def _added(team: Mapping[str, Any], repository: Repository, measured: Any) -> str:
    env_id = team.get("env_id") or "ENVIRONMENT"
    name = f"{PREFIX}{repository.name}"
    if measured is None:
        numbers = "Nobody has measured this team on held-out tasks."
    else:
        numbers = "\n".join(
            [
                f"`llm-marl eval {measured['env_id']}`, arguments "
                f"`{json.dumps(measured['env_kwargs'], sort_keys=True)}`, seed "
                f"{measured['seed']}, temperature {measured['temperature']}, tasks "
                f"`{measured['tasks_sha256'][:16]}`:",
                *_beside(measured),
                "",
                "```",
                result_table({name: measured}),
                "```",
            ]
        )
    base = {
        CARRIED: f"The base model of its adapters is in `{BASE}/`.",
        "": "Its policies are whole models.",
    }.get(team["base"], f"The base model of its adapters is `{team['base']}`.")
    return (
        f"\n## Measured\n\n{numbers}\n\n## Play it from the Hub\n\n```sh\n"
        f"pip install 'llm-marl-envs[train]'\nllm-marl eval {env_id} --team {name}\n"
        f"llm-marl pull-team {repository.name} FOLDER\n```\n\n{base} All weights are "
        "safetensors, all else is JSON or text.\n"
    )
