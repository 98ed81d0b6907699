"""Trackers: what they hold is what the run's own log holds, offline, also of a resumed run."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.models import make_trainer, settings
from support.toys import Lower, WordPair

from llm_marl_envs.core.records import read_jsonl
from trainers.trackers.following import Trackers, table_of
from trainers.trackers.kinds import COLUMNS

TESTS = Path(__file__).parents[2]
SECRET = "a-key-that-nobody-may-see-0123456789"
CHECKPOINT = "run/checkpoint-2"
Reported = Callable[..., dict[str, Any]]


@pytest.fixture
def reported(tmp_path: Path) -> Reported:
    """Train in another process: (trackers, updates, folder, checkpoint) -> what it printed."""

    def run(
        names: str, updates: int, *, folder: str = "run", resume: str = "", **more: str
    ) -> dict[str, Any]:
        paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
        home = {"TRACKIO_DIR": str(tmp_path / "trackio"), "HOME": str(tmp_path)}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB", "TRACKIO"))}
        begun = [str(tmp_path / resume)] if resume else []
        arguments = [str(tmp_path / folder), names, str(updates), *begun]
        done = subprocess.run(
            [sys.executable, "-m", "support.tracked_run", *arguments],
            env={**kept, "PYTHONPATH": paths, **home, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


def own_log(folder: Path) -> dict[tuple[str, int], float]:
    """(name in a tracker, step) -> value, as the run's own log has it."""
    found = {}
    for line in (folder / "log.jsonl").read_text().splitlines():
        entry = json.loads(line)
        for name, value in entry.items():
            if isinstance(value, (int, float)) and name != "step":
                held_out = name.startswith("eval_")
                where = f"eval/{name.removeprefix('eval_')}" if held_out else f"train/{name}"
                found[where, entry["step"]] = float(value)
    return found


def same(theirs: Mapping[tuple[str, int], float], ours: Mapping[tuple[str, int], float]) -> None:
    assert {name for name, _ in theirs} == {name for name, _ in ours}
    for place, value in ours.items():
        assert theirs[place] == pytest.approx(value, rel=1e-5, abs=1e-7), place
    assert {"train/reward", "train/time/sampling", "eval/success"} <= {name for name, _ in ours}


def events(folder: Path) -> tuple[dict[tuple[str, int], float], dict[int, str]]:
    """What TensorBoard shows: numbers, and tables of episodes by step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    held = EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0}).Reload()
    numbers = {
        (tag, event.step): event.value
        for tag in held.Tags()["scalars"]
        for event in held.Scalars(tag)
    }
    rewards = [event.step for event in held.Scalars("train/reward")]
    assert rewards == sorted(set(rewards)), "a step is shown twice"
    tables = {
        event.step: event.tensor_proto.string_val[0].decode()
        for event in held.Tensors("episodes/text_summary")
    }
    return numbers, tables


@pytest.mark.full
def test_tensorboard_holds_the_log_also_of_a_run_that_went_on(tmp_path: Path, reported: Reported):
    pytest.importorskip("tensorboard")
    assert reported("tensorboard", 3)["outside"] == []
    again = reported("tensorboard", 5, resume=CHECKPOINT)
    assert again["outside"] == []
    numbers, tables = events(tmp_path / "run")
    same(numbers, own_log(tmp_path / "run"))
    assert sorted(step for name, step in numbers if name == "train/reward") == [1, 2, 3, 4, 5]
    assert sorted(tables) == [1, 3, 5]
    (played,) = {e.task_id for e in read_jsonl(tmp_path / "run/transcripts/update-000004.jsonl")}
    assert f"`` {played} ``" in tables[5]


@pytest.mark.full
def test_trackio_holds_the_log_also_of_a_run_that_went_on(tmp_path: Path, reported: Reported):
    pytest.importorskip("trackio")
    first = reported("trackio", 3)
    again = reported("trackio", 4, resume=CHECKPOINT)
    assert first["outside"] == again["outside"] == []
    assert first["name"] == again["name"]
    (file,) = (tmp_path / "trackio").glob("*.db")
    rows = sqlite3.connect(file).execute("select run_name, metrics from metrics order by id")
    numbers: dict[tuple[str, int], float] = {}
    tables = []
    for name, text in rows:
        assert name == first["name"]
        entry = json.loads(text)
        step = entry.pop("train/global_step")
        if "episodes" in entry:
            tables.append(entry.pop("episodes")["_value"])
        numbers |= {(key, step): value for key, value in entry.items()}
    # A summary that transformers writes at the end is left out of Trackio.
    summary = {"train/train_runtime", "train/train_loss", "train/total_flos"}
    ours = {
        place: value
        for place, value in own_log(tmp_path / "run").items()
        if place[0] not in summary and "_per_second" not in place[0]
    }
    ended = {place for place in numbers if place not in ours}
    assert {step for _, step in ended} <= {3}  # the first part ended there, and says so
    same({place: value for place, value in numbers.items() if place in ours}, ours)
    assert set(tables[0][0]) == set(COLUMNS)
    assert tables[0][0]["said"]


@pytest.mark.full
def test_wandb_stays_offline_and_its_key_at_home(tmp_path: Path, reported: Reported):
    pytest.importorskip("wandb")
    first = reported("wandb", 2, WANDB_API_KEY=SECRET, HF_TOKEN=SECRET)
    assert first["outside"] == []
    (folder,) = (tmp_path / "run" / "wandb").glob("offline-run-*")
    assert folder.name.endswith(first["name"])
    held = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert SECRET.encode() not in held
    assert list(folder.rglob("media/table/episodes_*.table.json"))
    numbers = wandb_numbers(next(folder.glob("*.wandb")))
    ours = own_log(tmp_path / "run")
    assert numbers["train/reward", 1] == pytest.approx(ours["train/reward", 1])
    assert numbers["eval/success", 2] == pytest.approx(ours["eval/success", 2])


def wandb_numbers(file: Path) -> dict[tuple[str, int], float]:
    """The history that an offline run of W&B keeps to be sent later."""
    from wandb.proto import wandb_internal_pb2

    found = {}
    for data in log_records(file.read_bytes()):
        record = getattr(wandb_internal_pb2, "Record")()  # noqa: B009 - made when it is imported
        record.ParseFromString(data)
        items = {i.key or "/".join(i.nested_key): i.value_json for i in record.history.item}
        step = items.get("train/global_step")
        for key, value in items.items():
            if step is not None and isinstance(json.loads(value), (int, float)):
                found[key, int(json.loads(step))] = float(json.loads(value))
    return found


@pytest.mark.full
def test_mlflow_holds_the_log_also_of_a_run_that_went_on(tmp_path: Path, reported: Reported):
    pytest.importorskip("mlflow")
    first = reported("mlflow", 3)
    again = reported("mlflow", 4, resume=CHECKPOINT)
    assert first["outside"] == again["outside"] == []
    database = sqlite3.connect(tmp_path / "mlflow.db")
    names = [name for (name,) in database.execute("select name from runs")]
    assert names == [first["name"]]
    newest = "select key, step, value from metrics order by timestamp"
    numbers = {(key, step): value for key, step, value in database.execute(newest)}
    for (where, step), value in own_log(tmp_path / "run").items():
        name = where.replace("eval/", "eval_").removeprefix("train/")
        if not name.startswith("eval_") and "train_" not in name:
            assert numbers[name, step] == pytest.approx(value), (name, step)
    assert list(tmp_path.rglob("episodes.json"))


def log_records(data: bytes) -> Iterator[bytes]:
    """The records of a file in LevelDB's log format, behind W&B's header of seven bytes."""
    place, record = 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768  # of the block; a rest below a header's size is empty
        if left < 7:
            place += left
            continue
        length = int.from_bytes(data[place + 4 : place + 6], "little")
        part = data[place + 6]  # 1 whole, 2 first, 3 middle, 4 last
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if part in (1, 4):
            yield record
            record = b""


@pytest.mark.full
def test_nothing_is_reported_unless_asked(tmp_path: Path, reported: Reported):
    """Not even where the environment would add a tracker, as Kubeflow's does."""
    server = {"KUBEFLOW_TRAINER_SERVER_URL": "https://kubeflow.example", "WANDB_API_KEY": SECRET}
    assert reported("", 2, **server)["outside"] == []
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert not {"tensorboard", "wandb", "trackers.json"} & left
    assert not (tmp_path / "trackio").exists()
    assert not (tmp_path / "wandb").exists()


@pytest.mark.parametrize(
    ("names", "error", "word"),
    [
        ("tensorbord", ValueError, "tensorboard"),
        (["tensorboard", "trakio"], ValueError, "trackio"),
        ("all", ValueError, "name those"),
        ("dvclive", ImportError, "pip install dvclive"),
        ("comet_ml", ImportError, "comet-ml"),
    ],
)
def test_trackers_that_cannot_be_used_are_refused_first(names: Any, error: Any, word: str):
    with pytest.raises(error, match=word) as caught:
        settings("never", report_to=names)
    assert "\n" not in str(caught.value)


def test_a_token_for_models_is_refused():
    with pytest.raises(ValueError, match="HF_TOKEN") as caught:
        settings("never", model_init_kwargs={"token": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["hub_token", "push_to_hub"])
def test_what_would_send_or_keep_more_is_refused(name: str):
    with pytest.raises(ValueError, match=name) as caught:
        settings("never", **{name: True if name == "push_to_hub" else SECRET})
    assert SECRET not in str(caught.value)


def test_a_new_run_in_a_folder_is_a_new_run_for_trackers(tmp_path: Path):
    pytest.importorskip("tensorboard")
    names = []
    for number in (0, 1):
        trainer = make_trainer(tmp_path / str(number) / "run", Lower, report_to="tensorboard")
        trainer.train()
        names.append(trainer.args.run_name)
    assert len({*names}) == 2
    assert all(str(name).startswith("run-") for name in names)


def name_of(folder: Path, checkpoint: Path | None = None, run_name: str | None = None) -> str:
    """The name of a run that begins or goes on in a folder."""
    folder.mkdir(exist_ok=True)
    args = SimpleNamespace(
        report_to=["elsewhere"], output_dir=folder, run_name=run_name, project="p"
    )
    with Trackers(args, [], writes=True).following(checkpoint, 0):
        return args.run_name


def test_a_run_is_one_in_its_folder_and_another_in_every_other(tmp_path: Path):
    first, second, copy, moved = (tmp_path / name for name in ("a", "b", "copy", "moved"))
    name = name_of(first)
    checkpoint = first / "checkpoint-2"
    assert name_of(first, checkpoint) == name
    other = name_of(second, checkpoint)
    assert other.startswith("b-")
    assert name_of(second, checkpoint) == name_of(second, second / "checkpoint-4") == other
    shutil.copytree(first, copy)
    assert name_of(copy, copy / "checkpoint-2").startswith("copy-")
    link = tmp_path / "link"
    link.symlink_to(first)
    assert name_of(link, link / "checkpoint-2") == name
    first.rename(moved)
    assert name_of(moved, moved / "checkpoint-2") == name
    assert len({name, other, name_of(second)}) == 3


def test_a_name_holds_nothing_that_a_tracker_refuses(tmp_path: Path):
    given = [chr(code) for code in (*range(0x250), 0x2028, 0x4E2D, 0xD800, 0x1F600)]
    given += ["e x/../y", "lr=1e-3,seed=1", "it's #1", "..", " ", "x" * 300, "?" * 300]
    names = [name_of(tmp_path, run_name=text or "?") for text in given]
    assert len({*names}) == len(names)
    for name in names:
        assert re.fullmatch(r"[\w+=][\w.+=-]*", name)
        assert 8 <= len(name.encode()) <= 4 * 57 + 7
        assert len(name) <= 64
    assert names[given.index("lr=1e-3,seed=1")].startswith("lr=1e-3-seed=1-")


@pytest.mark.full
def test_two_runs_from_one_checkpoint_are_two_in_every_tracker(tmp_path: Path, reported: Reported):
    """The second goes on in another folder, whose name W&B would refuse as an id."""
    pytest.importorskip("wandb")
    pytest.importorskip("trackio")
    trackers, shared = "tensorboard,trackio,wandb", {"TENSORBOARD_LOGGING_DIR": str(tmp_path / "t")}
    first = reported(trackers, 3, **shared)["name"]
    second = reported(trackers, 4, folder="a,b: it's #2?", resume=CHECKPOINT, **shared)["name"]
    (file,) = (tmp_path / "trackio").glob("*.db")
    rows = sqlite3.connect(file).execute("select distinct run_name from metrics")
    assert {name for (name,) in rows} == {first, second}
    folders = sorted(p.name for p in tmp_path.rglob("offline-run-*") if p.is_dir())
    assert [name.endswith(one) for name, one in zip(folders, (first, second), strict=True)] == [
        True,
        True,
    ]
    assert {p.name for p in (tmp_path / "t").iterdir()} == {first, second}


@pytest.mark.full
def test_a_population_of_which_some_rest(tmp_path: Path):
    """Policies that rest have their numbers, too; two tasks of two seats are four places."""
    pytest.importorskip("tensorboard")
    trainer = make_trainer(
        tmp_path / "run",
        WordPair,
        weights="adapters",
        schedules={"population": {"size": 3}},
        report_to="tensorboard",
        max_steps=4,
        transcript_every=1,
    )
    trainer.train()
    numbers, tables = events(tmp_path / "run")
    ours = own_log(tmp_path / "run")
    assert {name for name, _ in numbers} == {name for name, _ in ours}
    assert numbers == pytest.approx(ours, rel=1e-5, abs=1e-7)
    for update in (1, 2, 3, 4):
        places = [numbers[f"train/population/{name}", update] for name in trainer.team.policies]
        assert (len(places), sum(places), min(places)) == (6, 4, 0)
    assert sorted(tables) == [1, 2, 3, 4]


def test_a_table_shows_every_action_as_text(tmp_path: Path):
    """What a model wrote is not Markdown, and is on one line."""
    from trainers.trackers.kinds import _span

    trainer = make_trainer(tmp_path, WordPair)
    group = trainer.stage.groups(0)[0]
    rows = table_of(group, 7)
    assert len(rows) == sum(len(episode.turns) for episode in group.episodes)
    assert {row["agent"] for row in rows} == set(group.episodes[0].agents)
    assert all(tuple(row) == COLUMNS and row["update"] == 7 for row in rows)
    shown = _span("a | b\n`` <script>x</script> ``\ud800".encode("utf-8", "replace").decode())
    assert "|" not in shown
    assert "\n" not in shown
    assert shown.count("`") == 4
