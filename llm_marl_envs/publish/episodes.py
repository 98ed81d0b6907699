"""`llm-marl push-episodes`: episodes become a dataset on the Hub, with the schema its viewer reads.

Owns which files of episodes are meant by a path. Rows, shards and the card are those of
`llm-marl collect`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from llm_marl_envs import __version__
from llm_marl_envs.core.records import Episode, living, plain, read_jsonl
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.hub.client import Repository
from llm_marl_envs.measure.dataset import FORMATS, SCHEMA_VERSION, rows_of, write_shard
from llm_marl_envs.measure.numbers.results import EVALUATION, RESULT_FILE
from llm_marl_envs.measure.resume import EPISODES_FILE
from llm_marl_envs.measure.run_manifest import MANIFEST_FILE
from llm_marl_envs.measure.studies.collect_dataset import CARD_FILE, COLLECTION_FILE, card
from llm_marl_envs.publish.sending import Delivery

MOST_SEEDS = 20
"""So many are listed on a card; of more, how many and the smallest and the largest."""


@contextmanager
def episodes_delivery(
    path: str | Path, repository: Repository, *, kind: str = "jsonl", public: bool = False
) -> Iterator[Delivery]:
    """The files of a dataset as they will be sent, as long as the block runs.

    Args:
        path: a folder of `llm-marl collect`, which is sent as it is; a file of episodes; or the
            folder of an evaluation or a training, whose episodes are meant.
        repository: where they shall go.
        kind: "jsonl" or "parquet", of shards that are made here.
        public: whether everybody may read the repository.

    Raises:
        ValueError: no episodes there, or those of several environments.
        ImportError: `datasets` is not installed.
    """
    path = Path(path)
    with TemporaryDirectory() as temporary:
        if (path / COLLECTION_FILE).is_file():
            files = _collected(path)
        else:
            files = _made(episode_files(path), Path(temporary), kind, repository.name)
        yield Delivery(
            repository=Repository(repository.name, repository.revision, "dataset"),
            files=files,
            mark=COLLECTION_FILE,
            message=f"Episodes of {read_json(files[COLLECTION_FILE])['env_id']}",
            public=public,
        )


def _collected(folder: Path) -> dict[str, Path]:
    shards = sorted(p for p in (folder / "data").glob("*") if p.suffix[1:] in FORMATS)
    files = [folder / CARD_FILE, folder / COLLECTION_FILE, *shards]
    missing = [file for file in files if file.is_symlink() or not file.is_file()]
    if missing or not shards:
        raise ValueError(
            f"{folder}: {missing[0].name if missing else 'a shard below data/'} is missing or a "
            "link; expected what `llm-marl collect` wrote to its end"
        )
    return {file.relative_to(folder).as_posix(): file for file in files}


def episode_files(path: Path) -> list[Path]:
    """The files of episodes that a path stands for.

    Raises:
        ValueError: there are none.
    """
    if path.is_file():
        return [path]
    for file in (path / EPISODES_FILE, path / EVALUATION / EPISODES_FILE):
        if file.is_file():
            return [file]
    files = sorted((path / "transcripts").glob("update-*.jsonl"))
    if not files:
        raise ValueError(
            f"{path}: no episodes there; expected a file of them, or the folder of an evaluation, "
            "a training or a collection"
        )
    return files


def _made(files: Sequence[Path], folder: Path, kind: str, place: str) -> dict[str, Path]:
    """A dataset of episodes, made in a folder; path there -> file."""
    episodes = living([episode for file in files for episode in read_jsonl(file)])
    environments = {(episode.env_id, repr(plain(episode.env_kwargs))) for episode in episodes}
    if len(environments) != 1:
        raise ValueError(
            f"{files[0]}: episodes of {len(environments)} environments or arguments; expected one"
        )
    pinned = {**_pinned(episodes, files[0].parent), "format": kind}
    split = str(episodes[0].env_kwargs.get("split", "train"))
    text = card(pinned, split, place)
    shard = folder / "data" / f"{split}-00000000.{kind}"
    rows = [row for number, e in enumerate(episodes) for row in rows_of(e, number)]
    write_shard(shard, rows)
    (folder / CARD_FILE).write_text(text, encoding="utf-8")
    write_json(folder / COLLECTION_FILE, pinned)
    return {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}


def _pinned(episodes: Sequence[Episode], folder: Path) -> dict[str, Any]:
    """What `collection.json` of these episodes holds."""
    first, seeds = episodes[0], sorted({episode.seed for episode in episodes})
    listed = seeds if len(seeds) <= MOST_SEEDS else f"{len(seeds)}, {seeds[0]} to {seeds[-1]}"
    prompts = _beside(folder, MANIFEST_FILE).get("prompts") or {}
    return {
        "schema_version": SCHEMA_VERSION,
        "env_id": first.env_id,
        "env_kwargs": plain(first.env_kwargs),
        "team": _beside(folder, RESULT_FILE).get("identity") or _players(episodes),
        "seeds": listed,
        "episodes": len(episodes),
        "package_version": __version__,
        "prompts_sha256": prompts.get("all", "not recorded"),
    }


def _beside(folder: Path, name: str) -> Mapping[str, Any]:
    """A file of the run that episodes lie in, or above them; empty where there is none."""
    for place in (folder, folder.parent):
        if (place / name).is_file():
            return read_json(place / name)
    return {}


def _players(episodes: Sequence[Episode]) -> dict[str, str]:
    """Seat -> the names of the policies that acted in it."""
    named: dict[str, dict[str, None]] = {}
    for episode in episodes:
        for turn in episode.turns:
            named.setdefault(turn.agent, {})[turn.response.policy or "unnamed"] = None
    return {agent: ", ".join(names) for agent, names in named.items()}
