"""Episodes as a dataset of turns: the schema, its version, and the files that `datasets` loads.

One row is one turn of one agent, with the chat it was shown, its text, token ids and behaviour
log-probs where its policy has them, and rewards. The rows of an episode give the episode back, so
nothing is lost. A dataset is a folder: shards below `data`, and a README that holds the schema.
Rows, and shards of JSONL, need no further library; Parquet and `features` need `datasets`.

Texts are kept as they were written, control strings that they spell included: who tokenises
`messages` again should do it as `chat.ChatTemplate` does, which keeps them text.

| column | type | meaning |
|---|---|---|
| `schema_version` | int64 | 1 |
| `episode` | int64 | number of the episode in the dataset |
| `position` | int64 | place of the turn in the episode, all agents counted |
| `env_id`, `env_kwargs` | string | the environment; its arguments as JSON |
| `task_id` | string | the task |
| `seed` | int64 | of the reset; each sample of a task has its own |
| `agents` | list of string | all seats |
| `stop_reason` | string | `terminated` or `truncated` |
| `success` | bool or null | whether the task was solved |
| `team_return` | float64 | undiscounted, of the episode, mean over agents |
| `idle` | string | as `records.Episode`, as JSON: what seats were paid that never acted |
| `agent`, `turn` | string, int64 | who acted, and which of its actions it was |
| `policy` | string | name of the weights |
| `messages` | list of role, content, result_of | the chat that the policy was shown; the last is \
the tool that a message is a result of, else "" |
| `action` | string | what it wrote, as the environment read it |
| `written` | string | what it wrote, where `action` says a call in other words, else "" |
| `cut` | bool | whether the token limit ended the action |
| `prompt_ids`, `completion_ids` | list of int64 or null | token ids |
| `logprobs` | list of float64 or null | behaviour log-prob of each completion token, natural log |
| `reward`, `team_reward` | float64, the second or null | as in `records.Turn` |
| `reward_terms` | list of name, value | the parts of `reward` |
| `added_terms` | list of name, value | what of them wrappers paid, as the price of a call |
| `info` | string | the rest of the environment's info as JSON |
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_marl_envs.core.records import Episode, episode_from_dict, episode_to_dict
from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.files.foreign import json_of

if TYPE_CHECKING:
    from datasets import Features

SCHEMA_VERSION = 1
FORMATS = ("jsonl", "parquet")
_OF_EPISODE = ("env_id", "task_id", "seed", "agents", "stop_reason", "success")
_OF_TOKENS = ("prompt_ids", "completion_ids", "logprobs")


def features() -> Features:
    """The columns as `datasets` knows them, in order.

    Raises:
        ImportError: `datasets` is not installed.
    """
    datasets = _library("datasets")
    text, whole, real, yes = map(datasets.Value, ("string", "int64", "float64", "bool"))
    return datasets.Features(
        {
            "schema_version": whole,
            "episode": whole,
            "position": whole,
            "env_id": text,
            "env_kwargs": text,
            "task_id": text,
            "seed": whole,
            "agents": datasets.List(text),
            "stop_reason": text,
            "success": yes,
            "team_return": real,
            "idle": text,
            "agent": text,
            "turn": whole,
            "policy": text,
            "messages": datasets.List({"role": text, "content": text, "result_of": text}),
            "action": text,
            "written": text,
            "cut": yes,
            "prompt_ids": datasets.List(whole),
            "completion_ids": datasets.List(whole),
            "logprobs": datasets.List(real),
            "reward": real,
            "team_reward": real,
            "reward_terms": datasets.List({"name": text, "value": real}),
            "added_terms": datasets.List({"name": text, "value": real}),
            "info": text,
        }
    )


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"a dataset's card and Parquet need {name.partition('.')[0]!r} ({error}): "
            "pip install 'llm-marl-envs[eval]'"
        ) from error


def rows_of(episode: Episode, number: int) -> list[dict[str, Any]]:
    """One row per turn of the episode of this number, with the columns of `features`.

    Raises:
        ValueError: the episode failed; a dataset holds what was played to its end. Or its info
            holds a NaN or an infinity, which JSON does not know.
    """
    if episode.failed:
        raise ValueError(f"episode {number} failed, so it is no data: {episode.failure}")
    data = episode_to_dict(episode, tokens=True)
    rows = []
    for position, turn in enumerate(data["turns"]):
        response = turn["response"]
        where = f"episode {number}, turn {turn['index']} of {turn['agent']}"
        rows.append(
            {
                "schema_version": SCHEMA_VERSION,
                "episode": number,
                "position": position,
                "env_id": data["env_id"],
                "env_kwargs": _json(data["env_kwargs"], where),
                "task_id": data["task_id"],
                "seed": data["seed"],
                "agents": data["agents"],
                "stop_reason": data["stop_reason"],
                "success": data["success"],
                "team_return": episode.team_return,
                "idle": _json(data.get("idle", {}), f"episode {number}"),
                "agent": turn["agent"],
                "turn": turn["index"],
                "policy": response["policy"],
                "messages": [_message(*message) for message in turn["messages"]],
                "action": _text(response["text"]),
                "written": _text(response.get("written", "")),
                "cut": response["cut"],
                **{n: None if response.get(n) is None else list(response[n]) for n in _OF_TOKENS},
                "reward": turn["reward"],
                "team_reward": turn["team_reward"],
                "reward_terms": _terms(turn["reward_terms"]),
                "added_terms": _terms(turn.get("added_terms", {})),
                "info": _json(turn["info"], where),
            }
        )
    return rows


def _terms(terms: Mapping[str, float]) -> list[dict[str, Any]]:
    return [{"name": name, "value": float(value)} for name, value in terms.items()]


def _json(value: Any, where: str, **options: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError as error:
        raise ValueError(
            f"{where}: expected finite numbers, which alone JSON knows ({error})"
        ) from error


def _message(role: str, content: str, result_of: str = "") -> dict[str, str]:
    return {"role": role, "content": _text(content), "result_of": result_of}


def _text(text: str) -> str:
    """Text as UTF-8 can hold it: a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def episode_of(rows: Sequence[Mapping[str, Any]]) -> Episode:
    """The episode that `rows_of` took apart.

    Raises:
        ValueError: another schema version, a column is missing, or rows are.
    """
    if not rows or rows[0].get("schema_version") != SCHEMA_VERSION:
        version = rows[0].get("schema_version") if rows else "no rows"
        raise ValueError(f"schema version {version!r}: this release reads {SCHEMA_VERSION}")
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
                # Earlier datasets lack `result_of` and `written`.
                "messages": [
                    [message["role"], message["content"], message.get("result_of") or ""]
                    for message in row["messages"]
                ],
                "response": {
                    "text": row["action"],
                    "cut": row["cut"],
                    "policy": row["policy"],
                    "written": row.get("written") or "",
                    **{name: row[name] for name in _OF_TOKENS},
                },
                "reward": row["reward"],
                "team_reward": row["team_reward"],
                **{
                    column: {term["name"]: term["value"] for term in row[column]}
                    for column in ("reward_terms", "added_terms")
                    if column == "reward_terms" or row.get(column) is not None
                },
                "info": json_of(row["info"], "info"),
            }
            for row in rows
        ]
        shared = {name: rows[0][name] for name in _OF_EPISODE}
        kwargs = json_of(rows[0]["env_kwargs"], "env_kwargs")
        shared["idle"] = json_of(rows[0].get("idle") or "{}", "idle")  # earlier ones lack it
    except (KeyError, TypeError, AttributeError) as error:
        lacks = isinstance(error, KeyError)
        what = f"no column {error}" if lacks else f"a column is of the wrong kind ({error})"
        raise ValueError(f"episode {rows[0].get('episode')!r:.80}: {what}") from error
    return episode_from_dict({"version": 1, **shared, "env_kwargs": kwargs, "turns": turns})


def write_shard(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSONL or Parquet, as the name ends; whole or not at all.

    Raises:
        ValueError: another ending, or a number that is NaN or infinite.
        ImportError: Parquet without `datasets`.
    """
    path = Path(path)
    kind = path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise ValueError(f"{path}: expected a name that ends in one of {FORMATS}")
    rows = list(rows)
    lines = [
        _json(row, f"episode {row['episode']}, position {row['position']}", ensure_ascii=False)
        for row in rows
    ]
    with replacing(path) as partial:
        if kind == "jsonl":
            partial.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            return
        parquet = _library("pyarrow.parquet")
        schema = features().arrow_schema  # `datasets` finds the columns in it
        parquet.write_table(_library("pyarrow").Table.from_pylist(rows, schema=schema), partial)


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
                row = json_of(line)
            except ValueError as error:
                raise ValueError(f"{shard}, line {number}: half-written or {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"{shard}, line {number}: expected an object, got {row!r:.80}")
            yield row


def _parquet_rows(shard: Path) -> list[dict[str, Any]]:
    parquet = _library("pyarrow.parquet")
    try:
        return parquet.read_table(shard).to_pylist()
    except (_library("pyarrow").ArrowException, OSError) as error:
        raise ValueError(f"{shard}: half-written or no Parquet file ({error})") from error
