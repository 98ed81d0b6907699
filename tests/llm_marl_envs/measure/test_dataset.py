"""Collected datasets: nothing lost, `datasets` loads them, and bad files are named."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.models import lora, untrained
from support.toys import WordPair

from llm_marl_envs import make
from llm_marl_envs.core.records import Episode, Idle, StopReason, episode_to_dict
from llm_marl_envs.measure import Plan, evaluate_team
from llm_marl_envs.measure.dataset import episode_of, features, read_dataset, rows_of, write_shard
from llm_marl_envs.measure.run_manifest import prompt_hashes
from llm_marl_envs.measure.studies.collect_dataset import Shards, run_collect
from llm_marl_envs.policies import ScriptedPolicy
from trainers.policies.token_policy import TokenPolicy
from trainers.weights.team_files import build_team_model, save_team

ROOT = Path(__file__).parents[3]
DATA = ROOT / "llm_marl_envs" / "data"


def team_model() -> Any:
    model, tokenizer = untrained()
    agents = WordPair().possible_agents
    return build_team_model(
        model, agents, weights="adapters", peft_config=lora(), tokenizer=tokenizer
    )


def played(n_tasks: int = 3) -> tuple[Episode, ...]:
    """Two turns with token ids, by an untrained model."""
    policy = TokenPolicy(team_model(), max_completion_length=5)
    team = dict.fromkeys(WordPair().possible_agents, policy)
    return evaluate_team(WordPair, team, n_tasks=n_tasks).episodes


def as_json(episodes: Any) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(episode_to_dict(one, tokens=True))) for one in episodes]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_episodes_come_back_exactly(tmp_path: Path, kind: str):
    episodes = played()
    assert episodes[0].turns[0].response.logprobs
    rows = [row for number, one in enumerate(episodes) for row in rows_of(one, number)]
    assert len(rows) == 3 * 2 * 2  # tasks, agents, turns
    assert [list(row) for row in rows] == [list(features())] * len(rows)
    write_shard(tmp_path / "data" / f"train-0.{kind}", rows)
    again = list(read_dataset(tmp_path))
    assert as_json(again) == as_json(episodes)
    assert again[1].turns[3].response.logprobs == episodes[1].turns[3].response.logprobs
    assert [p.name for p in (tmp_path / "data").iterdir()] == [f"train-0.{kind}"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_what_a_seat_earned_that_never_acted_comes_back(tmp_path: Path, kind: str):
    one = make_episode()
    assert one.team_return == 0.25
    rows = rows_of(one, 0)
    write_shard(tmp_path / "data" / f"train-0.{kind}", rows)
    (again,) = read_dataset(tmp_path)
    assert again.idle == one.idle
    assert again.team_return == 0.25
    assert again.terms_of("right_0") == {"quit": -0.5}
    for row in rows:
        del row["idle"]  # as in datasets of earlier releases
    assert episode_of(rows).idle == {}


def make_episode() -> Episode:
    """The first seat ends it at once."""
    first = played(1)[0].turns[0]
    return Episode(
        env_id="quits",
        env_kwargs={},
        task_id="train/0",
        seed=0,
        agents=(first.agent, "right_0"),
        turns=(replace(first, reward=1.0, reward_terms={"quit": 1.0}),),
        stop_reason=StopReason.TERMINATED,
        success=None,
        idle={"right_0": Idle(reward=-0.5, reward_terms={"quit": -0.5})},
    )


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_datasets_loads_a_collection_with_its_columns(tmp_path: Path, kind: str):
    datasets = pytest.importorskip("datasets", reason="the extra `eval` is not installed")
    folder = tmp_path / "set"
    run_collect(
        "coop_coding-v0",
        team="expert",
        plan=Plan(n_tasks=3, samples=2),
        shards=Shards(folder=folder, kind=kind, episodes=4),
    )
    assert len(list((folder / "data").iterdir())) == 2
    rows = datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
    assert rows.features == features()
    assert rows.column_names == list(features())
    again = [row for number, one in enumerate(read_dataset(folder)) for row in rows_of(one, number)]
    assert list(rows) == again
    assert len(rows) == 3 * 2 * 2
    assert sorted(set(rows["episode"])) == list(range(6))
    first = rows[0]
    env = make("coop_coding-v0", split="train")
    assert first["task_id"] == env.source[0].id
    assert first["agents"] == ["helper_0", "main_0"]
    assert first["messages"][0].keys() == {"role", "content", "result_of"}
    assert first["completion_ids"] is None  # experts have no tokens
    assert first["schema_version"] == 1
    terms = {term["name"]: term["value"] for term in first["reward_terms"]}
    assert sum(terms.values()) == pytest.approx(first["reward"])


def test_token_ids_and_log_probs_of_a_saved_team_are_kept(tmp_path: Path):
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    team = build_team_model(
        str(tmp_path / "base"), ["helper_0"], weights="adapters", peft_config=lora()
    )
    described = {"env_id": "coop_coding-v0", "env_kwargs": {}, "max_completion_length": 6}
    save_team(team, tmp_path / "team", env=described)
    run_collect(
        "coop_coding-v0",
        team=str(tmp_path / "team"),
        shards=Shards(folder=tmp_path / "set"),
        plan=Plan(n_tasks=2),
        partners={"main_0": "expert"},
    )
    for episode in read_dataset(tmp_path / "set"):
        helper, main = (episode.trajectory(agent)[0].response for agent in episode.agents)
        assert helper.completion_ids is not None
        assert helper.logprobs is not None
        assert 1 <= len(helper.completion_ids) == len(helper.logprobs) <= 6
        assert max(helper.logprobs) <= 0
        assert main.completion_ids is None
        assert helper.policy == "helper_0"


def test_an_interrupted_collection_goes_on(tmp_path: Path):
    arguments: dict[str, Any] = {"team": "expert", "plan": Plan(n_tasks=5)}
    arguments["shards"] = Shards(folder=tmp_path, episodes=2)
    run_collect("coop_coding-v0", **arguments)
    whole = {p.name: p.read_bytes() for p in (tmp_path / "data").iterdir()}
    assert len(whole) == 3
    kept, gone, _ = sorted((tmp_path / "data").iterdir())
    stamp = kept.stat().st_mtime_ns
    gone.unlink()
    run_collect("coop_coding-v0", **arguments)
    assert {p.name: p.read_bytes() for p in (tmp_path / "data").iterdir()} == whole
    assert kept.stat().st_mtime_ns == stamp
    with pytest.raises(ValueError, match=r"another collection \(seeds: \[0\] there, \[1\] asked\)"):
        run_collect("coop_coding-v0", **{**arguments, "plan": Plan(n_tasks=5, seeds=(1,))})


ONE = Plan(n_tasks=1)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("all my work")
    with pytest.raises(ValueError, match="not empty and no collection"):
        run_collect("coop_coding-v0", team="expert", shards=Shards(folder=tmp_path), plan=ONE)


def test_damaged_shards_are_named(tmp_path: Path):
    with pytest.raises(ValueError, match="no shards below data/"):
        next(read_dataset(tmp_path))
    rows = rows_of(played(1)[0], 0)
    for kind, words in (("jsonl", "line 4: half-written"), ("parquet", "half-written or no Parq")):
        shard = tmp_path / kind / "data" / f"train-0.{kind}"
        write_shard(shard, rows)
        shard.write_bytes(shard.read_bytes()[:-20])
        with pytest.raises(ValueError, match=words):
            list(read_dataset(tmp_path / kind))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("odd", [math.nan, -math.inf])
def test_numbers_that_json_does_not_know_are_refused(tmp_path: Path, kind: str, odd: float):
    episode = played(1)[0]
    shard = tmp_path / "data" / f"train-0.{kind}"
    rows = rows_of(episode, 7)
    for name, value in (("reward", odd), ("logprobs", [-0.5, odd])):
        broken = [*rows[:2], {**rows[2], name: value}]
        with pytest.raises(ValueError, match="episode 7, position 2: expected finite numbers"):
            write_shard(shard, broken)
        assert not list(tmp_path.rglob("*.*"))
    turn = replace(episode.turns[1], info={"loss": odd})
    with pytest.raises(ValueError, match="episode 7, turn 0 of right_0: expected finite"):
        rows_of(replace(episode, turns=(episode.turns[0], turn)), 7)


def test_without_datasets_there_are_rows_and_jsonl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    episode = played(1)[0]
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    shard = tmp_path / "a" / "data" / "train-0.jsonl"
    write_shard(shard, rows_of(episode, 0))
    assert as_json(read_dataset(tmp_path / "a")) == as_json([episode])
    with pytest.raises(ImportError, match=r"'pyarrow' .*pip install 'llm-marl-envs\[eval\]'"):
        write_shard(shard.with_suffix(".parquet"), rows_of(episode, 0))
    with pytest.raises(ImportError, match=r"'datasets' .*pip install 'llm-marl-envs\[eval\]'"):
        run_collect("coop_coding-v0", team="expert", shards=Shards(folder=tmp_path / "b"), plan=ONE)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_calls_of_tools_come_back(tmp_path: Path, kind: str):
    """Results are marked as such, and a call in a model's own words is kept."""
    env = make("math_team-v1", tools={"reasoner": ["calculate"]})

    def answer(request: Any) -> str:
        return "Call: calculate(2)" if request.turn == 0 else "Answer: 2"

    team = dict.fromkeys(env.possible_agents, ScriptedPolicy(answer))
    (episode,) = evaluate_team(lambda: env, team, n_tasks=1).episodes
    response = replace(episode.turns[0].response, written="own words")
    first = replace(episode.turns[0], response=response)
    episode = replace(episode, turns=(first, *episode.turns[1:]))
    write_shard(tmp_path / "data" / f"train-0.{kind}", rows_of(episode, 0))
    (again,) = read_dataset(tmp_path)
    assert as_json([again]) == as_json([episode])
    assert [turn.messages for turn in again.turns] == [turn.messages for turn in episode.turns]
    assert again.turns[0].response.written == "own words"


def test_datasets_of_before_calls_are_read():
    rows = rows_of(played(1)[0], 0)
    for row in rows:
        del row["written"]
        for message in row["messages"]:
            del message["result_of"]
    assert as_json([episode_of(rows)]) == as_json(played(1))


def test_rows_that_do_not_make_an_episode_are_refused(tmp_path: Path):
    rows = rows_of(played(1)[0], 7)
    with pytest.raises(ValueError, match=r"episode 7: expected turns 0 to 2, got \[0, 1, 3\]"):
        episode_of([rows[0], rows[1], rows[3]])
    with pytest.raises(ValueError, match="schema version 9: this release reads 1"):
        episode_of([{**row, "schema_version": 9} for row in rows])
    with pytest.raises(ValueError, match="no column 'messages'"):
        episode_of([{k: v for k, v in row.items() if k != "messages"} for row in rows])
    with pytest.raises(ValueError, match="no rows"):
        episode_of([])
    with pytest.raises(ValueError, match="ends in one of"):
        write_shard(tmp_path / "x.csv", rows)
    with pytest.raises(ValueError, match="format 'csv'"):
        Shards(folder=".", kind="csv")


def test_any_text_can_be_stored(tmp_path: Path):
    odd = ScriptedPolicy(lambda request: "naïve\n漢字\x00\ud800 \u2028")
    episodes = evaluate_team(WordPair, {"left_0": odd, "right_0": odd}, n_tasks=1).episodes
    for kind in ("jsonl", "parquet"):
        write_shard(tmp_path / kind / "data" / f"t.{kind}", rows_of(episodes[0], 0))
        found = next(read_dataset(tmp_path / kind))
        assert found.turns[0].action == "naïve\n漢字\x00? \u2028"


def test_the_card_says_what_is_in_it(tmp_path: Path):
    run_collect("coop_coding-v0", team="expert", shards=Shards(folder=tmp_path), plan=ONE)
    text = (tmp_path / "README.md").read_text()
    head = yaml.safe_load(text.split("---\n")[1])
    assert head["configs"][0]["data_files"] == [{"split": "train", "path": "data/*.jsonl"}]
    assert [one["name"] for one in head["dataset_info"]["features"]][:2] == [
        "schema_version",
        "episode",
    ]
    assert "1 episodes" in text
    assert (
        f"SHA-256 of the prompts: `{prompt_hashes('coop_coding-v0', {'split': 'train'})['all']}`"
        in text
    )
    assert 'load_dataset("PATH", split="train")' in text
    assert "{{" not in text
    assert text.endswith("before publishing this.\n")
    assert str(tmp_path) not in text


# -- what comes with the package ------------------------------------------------------------------


def test_every_task_file_has_a_licence_in_the_data_card():
    text = (ROOT / "docs" / "data_card.md").read_text()
    table = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    listed = {cells[1].strip(" `"): [cell.strip() for cell in cells[2:-1]] for cells in table}
    files = {p.name for p in DATA.rglob("*.jsonl")}
    assert set(listed) == files
    for name, (rows, _, licence, *_) in listed.items():
        lines = (DATA / name).read_text(encoding="utf-8").splitlines()
        assert rows == str(len(lines)), name
        assert licence == "Apache-2.0"
    assert (ROOT / "LICENSE").read_text().strip().startswith("Apache License")


def test_the_citation_file_is_valid():
    """The keys that CFF 1.2.0 requires, and no others than it knows."""
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    required = {"cff-version", "message", "title", "authors"}
    known = required | {"type", "abstract", "keywords", "license", "version", "date-released"}
    known |= {"repository-code", "url", "doi", "identifiers", "references", "commit"}
    assert required <= set(cff) <= known
    assert cff["cff-version"] == "1.2.0"
    assert cff["type"] in ("software", "dataset")
    import llm_marl_envs

    assert cff["version"] == llm_marl_envs.__version__
    assert cff["license"] == "Apache-2.0"
    assert len(set(cff["keywords"])) == len(cff["keywords"]) > 0
    for author in cff["authors"]:
        assert set(author) <= {"name", "family-names", "given-names", "orcid", "website"}
        assert "name" in author or "family-names" in author
    for reference in cff.get("references", ()):
        assert {"type", "title", "authors"} <= set(reference)
