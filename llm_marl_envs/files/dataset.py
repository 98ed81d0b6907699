"""Episodes as a dataset of turns: the schema, its version, and the files that `datasets` loads.

One row is one turn of one agent, with the chat it was shown, its text, token ids and behaviour
log-probs where its policy has them, and rewards. The rows of an episode give the episode back, so
nothing is lost. A dataset is a folder: shards below `data`, and a README that holds the schema.

Texts are kept as they were written, control strings that they spell included: who tokenises
`messages` again should do it as `chat.ChatTemplate` does, which keeps them text.

| column | type | meaning |
|---|---|---|
| `schema_version` | int64 | 1 |
| `episode` | int64 | number of the episode in the dataset |
| `position` | int64 | place of the turn in the episode, all agents counted |
| `env_id`, `env_kwargs` | string | the environment; its arguments as JSON |
| `task_id` | string | the task |
| `seed` | int64 | of the reset; the episodes of a group share it |
| `agents` | list of string | all seats |
| `stop_reason` | string | `terminated` or `truncated` |
| `success` | bool or null | whether the task was solved |
| `team_return` | float64 | undiscounted, of the episode, mean over agents |
| `agent`, `turn` | string, int64 | who acted, and which of its actions it was |
| `policy` | string | name of the weights |
| `messages` | list of role, content | the chat that the policy was shown |
| `action` | string | what it wrote |
| `cut` | bool | whether the token limit ended the action |
| `prompt_ids`, `completion_ids` | list of int64 or null | token ids |
| `logprobs` | list of float64 or null | behaviour log-prob of each completion token, natural log |
| `reward`, `team_reward` | float64, the second or null | as in `records.Turn` |
| `reward_terms` | list of name, value | the parts of `reward` |
| `info` | string | the rest of the environment's info as JSON |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.records import Episode, episode_from_dict, episode_to_dict

SCHEMA_VERSION = 1
FORMATS = ("jsonl", "parquet")
# The dtypes of `datasets`; a list of one is a list of values, a list of pairs a list of structs.
_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("schema_version", "int64"),
    ("episode", "int64"),
    ("position", "int64"),
    ("env_id", "string"),
    ("env_kwargs", "string"),
    ("task_id", "string"),
    ("seed", "int64"),
    ("agents", ["string"]),
    ("stop_reason", "string"),
    ("success", "bool"),
    ("team_return", "float64"),
    ("agent", "string"),
    ("turn", "int64"),
    ("policy", "string"),
    ("messages", [("role", "string"), ("content", "string")]),
    ("action", "string"),
    ("cut", "bool"),
    ("prompt_ids", ["int64"]),
    ("completion_ids", ["int64"]),
    ("logprobs", ["float64"]),
    ("reward", "float64"),
    ("team_reward", "float64"),
    ("reward_terms", [("name", "string"), ("value", "float64")]),
    ("info", "string"),
)
_OF_EPISODE = ("env_id", "task_id", "seed", "agents", "stop_reason", "success")


def rows_of(episode: Episode, number: int) -> list[dict[str, Any]]:
    """One row per turn.

    Args:
        episode: what was played.
        number: of the episode in the dataset.

    Raises:
        ValueError: the episode failed; a dataset holds what was played to its end.
    """
    if episode.failed:
        raise ValueError(f"episode {number} failed, so it is no data: {episode.failure}")
    data = episode_to_dict(episode, tokens=True)
    shared = {name: data[name] for name in _OF_EPISODE} | {
        "schema_version": SCHEMA_VERSION,
        "episode": number,
        "env_kwargs": json.dumps(data["env_kwargs"]),
        "team_return": episode.team_return,
    }
    rows = []
    for position, turn in enumerate(data["turns"]):
        response = turn["response"]
        row = shared | {
            "position": position,
            "agent": turn["agent"],
            "turn": turn["index"],
            "policy": response["policy"],
            "messages": [{"role": r, "content": _text(c)} for r, c in turn["messages"]],
            "action": _text(response["text"]),
            "cut": response["cut"],
            "reward": turn["reward"],
            "team_reward": turn["team_reward"],
            "reward_terms": [
                {"name": name, "value": float(v)} for name, v in turn["reward_terms"].items()
            ],
            "info": json.dumps(turn["info"]),
        }
        for name in ("prompt_ids", "completion_ids", "logprobs"):
            value = response.get(name)
            row[name] = None if value is None else list(value)
        rows.append({name: row[name] for name, _ in _COLUMNS})
    return rows


def _text(text: str) -> str:
    """Text as UTF-8 can hold it: a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def episode_of(rows: Sequence[Mapping[str, Any]]) -> Episode:
    """The episode that `rows_of` took apart.

    Raises:
        ValueError: another schema version, a column is missing, or rows are.
    """
    if not rows or rows[0].get("schema_version") != SCHEMA_VERSION:
        found = rows[0].get("schema_version") if rows else "no rows"
        raise ValueError(f"schema version {found!r}: this release reads {SCHEMA_VERSION}")
    if [row.get("position") for row in rows] != list(range(len(rows))):
        raise ValueError(
            f"episode {rows[0].get('episode')}: expected turns 0 to {len(rows) - 1}, got "
            f"{[row.get('position') for row in rows]}"
        )
    try:
        turns = [
            {
                "agent": row["agent"],
                "index": row["turn"],
                "messages": [[one["role"], one["content"]] for one in row["messages"]],
                "response": {
                    "text": row["action"],
                    "cut": row["cut"],
                    "policy": row["policy"],
                    "prompt_ids": row["prompt_ids"],
                    "completion_ids": row["completion_ids"],
                    "logprobs": row["logprobs"],
                },
                "reward": row["reward"],
                "team_reward": row["team_reward"],
                "reward_terms": {term["name"]: term["value"] for term in row["reward_terms"]},
                "info": json.loads(row["info"]),
            }
            for row in rows
        ]
        shared = {name: rows[0][name] for name in _OF_EPISODE}
        kwargs = json.loads(rows[0]["env_kwargs"])
    except KeyError as missing:
        raise ValueError(f"episode {rows[0].get('episode')}: no column {missing}") from missing
    return episode_from_dict({"version": 1, **shared, "env_kwargs": kwargs, "turns": turns})


def write_shard(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSONL or Parquet, as the name ends; whole or not at all.

    Raises:
        ValueError: another ending, or a number that JSON does not know.
        ImportError: Parquet without pyarrow.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise ValueError(f"{path}: expected a name that ends in one of {FORMATS}")
    with replacing(path) as partial:
        if kind == "parquet":
            _write_parquet(partial, list(rows))
            return
        with open(partial, "w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")


def _write_parquet(path: Path, rows: list[Mapping[str, Any]]) -> None:
    arrow = _pyarrow()
    types = {"int64": arrow.int64(), "float64": arrow.float64()}
    types |= {"string": arrow.string(), "bool": arrow.bool_()}

    def type_of(kind: Any) -> Any:
        if isinstance(kind, str):
            return types[kind]
        if isinstance(kind[0], str):
            return arrow.list_(types[kind[0]])
        return arrow.list_(arrow.struct([(name, types[one]) for name, one in kind]))

    schema = arrow.schema([(name, type_of(kind)) for name, kind in _COLUMNS])
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), path)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'llm-marl-envs[eval]'") from error
    return pyarrow


def read_dataset(folder: str | Path) -> Iterator[Episode]:
    """The episodes of a dataset, shard by shard.

    Raises:
        ValueError: no shards there, or one is half-written or of another schema.
    """
    shards = sorted(p for p in Path(folder).glob("data/*") if p.suffix[1:] in FORMATS)
    if not shards:
        raise ValueError(f"{folder}: no shards below data/; expected what `llm-marl collect` wrote")
    for shard in shards:
        rows = _parquet_rows(shard) if shard.suffix == ".parquet" else _jsonl_rows(shard)
        for _, some in groupby(rows, key=lambda row: row.get("episode")):
            try:
                yield episode_of(list(some))
            except ValueError as error:
                raise ValueError(f"{shard}: {error}") from error


def _jsonl_rows(shard: Path) -> Iterator[dict[str, Any]]:
    with open(shard, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield json.loads(line.decode("utf-8"))
            except ValueError as error:
                raise ValueError(f"{shard}, line {number}: half-written or no JSON") from error


def _parquet_rows(shard: Path) -> list[dict[str, Any]]:
    arrow = _pyarrow()
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_table(shard).to_pylist()
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{shard}: half-written or no Parquet file ({error})") from error


def features() -> list[dict[str, Any]]:
    """The columns as the `dataset_info` of a dataset card lists them."""
    found = []
    for name, kind in _COLUMNS:
        if isinstance(kind, str):
            found.append({"name": name, "dtype": kind})
        elif isinstance(kind[0], str):
            found.append({"name": name, "list": kind[0]})
        else:
            found.append({"name": name, "list": [{"name": n, "dtype": one} for n, one in kind]})
    return found
