"""`llm-marl collect`: a team plays, and its episodes become a dataset.

Owns the shards, what pins them, and the README card. An interrupted collection goes on: a shard is
there whole or not at all, and finished ones are not played again.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs import __version__
from llm_marl_envs.core.records import plain
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.files.json_files import claim
from llm_marl_envs.measure.dataset import FORMATS, SCHEMA_VERSION, features, rows_of, write_shard
from llm_marl_envs.measure.paired import Stage
from llm_marl_envs.measure.progress import counter
from llm_marl_envs.measure.run_manifest import package_versions, prompt_hashes
from llm_marl_envs.measure.runner import Plan, resets_of, starts_of
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.rollout import failure_of
from llm_marl_envs.policies import Team
from llm_marl_envs.policies.named import Context, Sampling, named_team, words_of

COLLECTION_FILE = "collection.json"
CARD_FILE = "README.md"
CARD = """---
{{ card_data }}
---
# {{ pretty_name }}

{{ episodes }} episodes, one row per turn of an agent, schema version {{ schema_version }}. \
Episodes whose environment raised are left out, their numbers too. The columns are explained in \
`llm_marl_envs/measure/dataset.py` of llm-marl-envs {{ package_version }}, which wrote this.

- Environment arguments: `{{ env_kwargs }}`
- Team: `{{ team }}`
- Seeds: `{{ seeds }}`
- SHA-256 of the prompts: `{{ prompts_sha256 }}`
- Versions: `{{ versions }}`

```python
from datasets import load_dataset

rows = load_dataset("{{ place }}", split="{{ split }}")
```

**Licence and content.** Prompts come from the environment's tasks; see its page for their \
licence. Actions were written by the policies named above, whose licence may restrict their use. \
Nobody has reviewed them. State a licence before publishing this.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """How and where a dataset lies on disk.

    Attributes:
        folder: of the dataset.
        kind: "jsonl" or "parquet".
        episodes: per shard, at least 1.

    Raises:
        ValueError: another kind, or no episodes.
    """

    folder: str | Path
    kind: str = "jsonl"
    episodes: int = 1024

    def __post_init__(self) -> None:
        if self.kind not in FORMATS or self.episodes < 1:
            raise ValueError(
                f"format {self.kind!r}, {self.episodes} episodes per shard: expected one of "
                f"{FORMATS} and at least 1"
            )


def run_collect(
    env_id: str,
    *,
    team: str,
    shards: Shards,
    plan: Plan | None = None,
    sampling: Sampling | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    partners: Mapping[str, str] | None = None,
    transfer: bool = False,
) -> dict[str, Any]:
    """Play and write a dataset; returns what `collection.json` holds.

    Args:
        env_id: id of an environment.
        team: as `named_team` takes it.
        shards: the folder, and the format and size of its files.
        plan: which episodes; 100 tasks once where None.
        sampling: how models sample.
        env_kwargs: arguments of the environment; `split` is "train" unless they say another, and
            `prompts` those that a saved team was trained with.
        partners: agent -> policy by name, for seats that the team does not play.
        transfer: allow a team that was trained in another environment or version.

    Raises:
        ValueError: unknown names, greedy samples, or a folder that holds another collection.
        ImportError: `datasets` is not installed.
        Exception: what the environment raised first, where every episode of a shard failed; where
            some did, they are left out with a warning.
    """
    plan, sampling = plan or Plan(n_tasks=100), sampling or Sampling()
    sampling.check_samples(plan.samples)
    kwargs = {"split": "train", **words_of(team, env_id), **(env_kwargs or {})}
    stage = Stage(lambda: make(env_id, **kwargs), plan, measuring=False)
    starts = starts_of(plan, stage.env)
    named = named_team(team, Context(env=stage.env, sampling=sampling, transfer=transfer), partners)
    pinned = {
        "schema_version": SCHEMA_VERSION,
        "env_id": stage.env.spec.id,
        "env_kwargs": plain(kwargs),
        "team": named.identity,
        "tasks": plan.n_tasks,
        "samples": plan.samples,
        "seeds": list(plan.seeds),
        **resets_of(plan),
        "format": shards.kind,
        "episodes_per_shard": shards.episodes,
        "episodes": len(starts),
        "package_version": __version__,
        "prompts_sha256": prompt_hashes(env_id, kwargs)["all"],
    }
    folder = Path(shards.folder)
    text = card(pinned, kwargs["split"])  # before anything is played, for it needs `datasets`
    _claim(folder, pinned)
    with counter(len(starts), f"collect {env_id}") as progress:
        stage.progress = progress
        _play_shards(stage, named.seats, starts, shards, kwargs["split"])
    stage.close()
    (folder / CARD_FILE).write_text(text, encoding="utf-8")
    return pinned


def _play_shards(
    stage: Stage, seats: Team, starts: Sequence[Start], shards: Shards, split: str
) -> None:
    """Play what is not there yet."""
    assert stage.progress is not None
    for first in range(0, len(starts), shards.episodes):
        part = starts[first : first + shards.episodes]
        path = Path(shards.folder) / "data" / f"{split}-{first:08d}.{shards.kind}"
        if path.is_file():
            stage.progress(len(part))
        else:
            _play_shard(stage, seats, part, first, path)


def _play_shard(stage: Stage, team: Team, part: Sequence[Start], first: int, path: Path) -> None:
    episodes = stage.play(team, part)
    failed = [episode for episode in episodes if episode.failed]
    if failed:
        warnings.warn(
            f"{path}: {len(failed)} of {len(episodes)} episodes failed and are left out. The "
            f"first: {failure_of(failed[0])}",
            stacklevel=2,
        )
    played = [(number, e) for number, e in enumerate(episodes, first) if not e.failed]
    write_shard(path, [row for number, e in played for row in rows_of(e, number)])


def _claim(folder: Path, pinned: Mapping[str, Any]) -> None:
    file = folder / COLLECTION_FILE
    if not file.is_file() and folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder}: not empty and no collection; give another folder")
    claim(file, pinned, "collection")


def card(pinned: Mapping[str, Any], split: str, place: str = "PATH") -> str:
    """The README of a dataset: what the Hub and `datasets` read, and what a person should know.

    Args:
        pinned: what `collection.json` holds.
        split: the name of its only split.
        place: where it will be loaded from.

    Raises:
        ImportError: `datasets` is not installed.
    """
    columns = features()
    from datasets import DatasetInfo
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCard, DatasetCardData

    data = DatasetCardData(
        pretty_name=f"Episodes of {pinned['env_id']}",
        tags=["multi-agent", "reinforcement-learning", "llm-marl-envs"],
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"data/*.{pinned['format']}"}],
            }
        ],
    )
    DatasetInfosDict(default=DatasetInfo(features=columns)).to_dataset_card_data(data)
    versions = {name: v for name, v in package_versions().items() if v is not None}
    facts = {**pinned, "versions": versions, "split": split, "place": place}
    return f"{DatasetCard.from_template(data, template_str=CARD, **facts)}\n"
