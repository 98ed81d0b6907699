"""Folders of a benchmark played again: whatever a forger edits is found, or is named here."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.small_bench import SMALL

from llm_marl_envs.cli import main
from llm_marl_envs.core.records import read_jsonl
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.measure.studies import bench_run
from llm_marl_envs.measure.studies import benchmark as benchmarks
from llm_marl_envs.measure.studies.bench_check import UNSEEN, check_bench
from llm_marl_envs.measure.studies.bench_run import EVERY, run_benchmark
from llm_marl_envs.measure.studies.benchmark import BENCH_FILE, bench_table, read_bench
from llm_marl_envs.policies.named import register_policy
from llm_marl_envs.policies.scripted import ScriptedPolicy

pytestmark = pytest.mark.full  # `make test-all` runs it

FILES = ("bench.json", "trust/plan.json", "trust/summary.json", "writing/plan.json")
FILES = (*FILES, "writing/summary.json", "trust/episodes.jsonl", "writing/episodes.jsonl")
UNCHECKED = re.compile(rf"turns\.response\.({'|'.join(UNSEEN)})")
"""What a policy says of its answer, as long as nothing is summed up of it."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    run_benchmark(SMALL, {EVERY: "expert"}, str(folder))
    return folder


@pytest.fixture
def folder(played: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(played, tmp_path / "copy"))


def edit(file: Path, change: Callable[[Any], Any], line: int = 0) -> None:
    """Change a JSON file, or a line of a transcript."""
    if file.suffix == ".json":
        write_json(file, change(read_json(file)))
        return
    lines = file.read_text().splitlines()
    lines[line] = json.dumps(change(json.loads(lines[line])))
    file.write_text("\n".join(lines) + "\n")


def test_what_was_played_comes_out(folder: Path) -> None:
    assert check_bench(SMALL, folder) == []


# -- every field, one at a time -------------------------------------------------------------------
def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each leaf of a JSON value, with the way to it; also what is empty."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inside:
        if isinstance(one, (dict, list)) and one:
            yield from leaves(one, (*path, key))
        else:
            yield (*path, key), one


def other(value: Any) -> Any:
    """Something else of the same kind."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return "nothing" if value != "nothing" else "everything"
    return [*value, "x"] if isinstance(value, list) else {**value, "x": 1}


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    copy = json.loads(json.dumps(value))
    inside = copy
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = other(inside[path[-1]])
    return copy


def named(path: tuple[Any, ...]) -> str:
    return ".".join(str(key) for key in path if not isinstance(key, int))


@pytest.mark.parametrize("name", FILES)
def test_every_edit_is_found(folder: Path, name: str) -> None:
    file = folder / name
    before = file.read_bytes()
    whole = json.loads(before.split(b"\n")[0]) if name.endswith("l") else json.loads(before)
    missed = []
    for path, _ in leaves(whole):
        edit(file, lambda value, path=path: changed(value, path))
        if not check_bench(SMALL, folder):
            missed.append(named(path))
        file.write_bytes(before)
    assert check_bench(SMALL, folder) == []
    assert len(list(leaves(whole))) > 10
    assert [one for one in missed if not UNCHECKED.fullmatch(one)] == []


def test_a_folder_of_before_comes_out(folder: Path) -> None:
    """Older releases wrote no reset seeds into a summary."""
    for name in FILES:
        if name.endswith("summary.json"):
            summary = json.loads((folder / name).read_text())
            del summary["resets"]
            for task in summary["tasks"]:
                del task["resets"]
            (folder / name).write_text(json.dumps(summary))
    assert check_bench(SMALL, folder) == []


def test_every_field_that_goes_missing_is_found(folder: Path) -> None:
    for name in FILES:
        file = folder / name
        before = file.read_bytes()
        lines = name.endswith("l")
        for key in json.loads(before.split(b"\n")[0] if lines else before):
            edit(file, lambda value, key=key: {k: v for k, v in value.items() if k != key})
            assert check_bench(SMALL, folder), (name, key)
            file.write_bytes(before)


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [1], {"a": 1}])
def test_fields_of_another_kind_are_found(folder: Path, value: Any) -> None:
    """A fault, never an error of Python."""
    places = {
        "trust/summary.json": [("identity",), ("tasks",), ("tasks", 0), ("cost",)],
        "trust/plan.json": [("team",), ("seeds",)],
        "trust/episodes.jsonl": [
            *[("turns",), ("turns", 0), ("turns", 0, "messages"), ("turns", 0, "info")],
            *[("turns", 0, "agent"), ("turns", 0, "index"), ("turns", 0, "response")],
            *[("turns", 0, "response", "text"), ("turns", 0, "response", "cut")],
            *[("evaluation",), ("agents",), ("seed",), ("idle",), ("stop_reason",)],
        ],
    }
    for name, paths in places.items():
        before = (folder / name).read_bytes()
        for path in paths:
            if (path[-1], value) in (("text", "x"), ("idle", {})):
                continue  # what was said may be any text, and nothing is idle
            edit(folder / name, lambda whole, path=path: put(whole, path, value))
            assert check_bench(SMALL, folder), (name, path)
            (folder / name).write_bytes(before)


def put(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    inside = whole
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return whole


# -- whole episodes -------------------------------------------------------------------------------
def lost(lines: list[str]) -> list[str]:
    return lines[:-1]


def doubled(lines: list[str]) -> list[str]:
    return [*lines, lines[-1]]


def best_twice(lines: list[str]) -> list[str]:
    return [lines[0], lines[0], *lines[2:]]


def exchanged(lines: list[str]) -> list[str]:
    return [lines[1], lines[0], *lines[2:]]


@pytest.mark.parametrize("forge", [lost, doubled, best_twice, exchanged])
def test_lost_and_doubled_episodes_are_found(
    folder: Path, forge: Callable[[list[str]], list[str]]
) -> None:
    file = folder / "writing" / "episodes.jsonl"
    file.write_text("\n".join(forge(file.read_text().splitlines())) + "\n")
    assert any("writing: " in text for text in check_bench(SMALL, folder))


def test_an_entry_that_is_kept_back_is_found(folder: Path) -> None:
    """Who leaves a bad entry out of the file has its transcripts there, or no mean."""
    file = folder / BENCH_FILE
    given = read_json(file)
    del given["entries"]["writing"]
    write_json(file, given)
    assert "states what its returns do not give" in check_bench(SMALL, folder)[0]
    write_json(file, {**given, "score": None})
    assert check_bench(SMALL, folder) == ["writing: bench.json has no such entry"]
    shutil.rmtree(folder / "writing")
    assert check_bench(SMALL, folder) == []  # some entries were played, and there is no mean


def test_an_action_is_played_not_believed(folder: Path) -> None:
    """Another text in place of what was said: its rewards are no longer those that it earns."""

    def silent(episode: Any) -> Any:
        for turn in episode["turns"]:
            turn["response"]["text"] = ""
        return episode

    edit(folder / "trust" / "episodes.jsonl", silent)
    assert any("trust: " in text for text in check_bench(SMALL, folder))


def test_turns_that_are_lost_or_added_are_found(folder: Path) -> None:
    file = folder / "trust" / "episodes.jsonl"
    before = file.read_bytes()
    edit(file, lambda one: {**one, "turns": one["turns"][:-1]})
    assert any("no text of turn 1 of player_1" in text for text in check_bench(SMALL, folder))
    file.write_bytes(before)
    edit(file, lambda one: {**one, "turns": [*one["turns"], one["turns"][-1]]})
    assert any("episode 0: turns: " in text for text in check_bench(SMALL, folder))


def test_text_that_is_no_text_is_found(folder: Path) -> None:
    file = folder / "trust" / "episodes.jsonl"
    before = file.read_bytes()
    for text in (None, 3, ["a"], {"a": 1}):

        def change(episode: Any, text: Any = text) -> Any:
            episode["turns"][0]["response"]["text"] = text
            return episode

        edit(file, change)
        assert any(
            "turns[0].response.text: expected a text" in one for one in check_bench(SMALL, folder)
        )
        file.write_bytes(before)


def test_the_environment_is_the_benchmarks_own(folder: Path) -> None:
    """What a transcript names is compared, and never made."""

    def change(episode: Any) -> Any:
        return {**episode, "env_id": "subprocess:Popen", "env_kwargs": {"args": "touch /tmp/x"}}

    edit(folder / "trust" / "episodes.jsonl", change)
    wrong = check_bench(SMALL, folder)
    assert any("env_id: 'subprocess:Popen' there, 'trust_split-v0' found" in one for one in wrong)


def test_one_seat_at_a_time(tmp_path: Path) -> None:
    run_benchmark(SMALL, {"trust": "expert"}, str(tmp_path), solo=True)
    assert check_bench(SMALL, tmp_path) == []
    seats = [one.name for one in (tmp_path / "trust").iterdir()]
    for seat in seats:
        shutil.copytree(tmp_path, tmp_path.with_name("cut"), dirs_exist_ok=True)
        shutil.rmtree(tmp_path.with_name("cut") / "trust" / seat)
        assert check_bench(SMALL, tmp_path.with_name("cut"))
        shutil.rmtree(tmp_path.with_name("cut"))
    edit(tmp_path / BENCH_FILE, lambda one: changed(one, ("entries", "trust", "seat")))
    assert check_bench(SMALL, tmp_path)


def test_surrogates_side_by_side_are_played_again_as_two_characters(
    tmp_path: Path, own_registry: None
) -> None:
    register_policy("surrogates", lambda *_: ScriptedPolicy(lambda _: "50 \ud800\udfff 😀 \udfff"))
    run_benchmark(SMALL, {EVERY: "surrogates"}, str(tmp_path))
    assert check_bench(SMALL, tmp_path) == []
    file = tmp_path / "trust" / "episodes.jsonl"
    (first, *_) = read_jsonl(file)
    assert len(first.turns[0].action) == len("50 .. . .")
    before = file.read_bytes()
    for said, forged in ((r"50 \ud800\udfff", r"50 \ud83d\ude00"), ('"apart"', '"part"')):
        file.write_bytes(before.replace(said.encode(), forged.encode(), 1))
        assert check_bench(SMALL, tmp_path)


def test_partners_of_a_seat_that_are_no_silent_ones_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole folder, played beside experts and called solo."""
    monkeypatch.setattr(
        bench_run,
        "seats_alone",
        lambda agents, solo: {
            seat: {other: "expert" for other in agents if other != seat} for seat in agents
        },
    )
    run_benchmark(SMALL, {"trust": "expert"}, str(tmp_path), solo=True)
    wrong = check_bench(SMALL, tmp_path)
    assert wrong
    assert all("beside the seat" in line for line in wrong)


# -- files of others ------------------------------------------------------------------------------
def forged(entry: str = "writing", **fields: Any) -> Callable[[Any], Any]:
    def change(given: Any) -> Any:
        given["entries"][entry] |= fields
        return given

    return change


def returned(value: Any) -> Callable[[Any], Any]:
    def change(given: Any) -> Any:
        given["entries"]["writing"]["returns"]["test/1"] = value
        return given

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (forged(score=3.0), r"writing: the entry states .* score: 3\.0 there"),
        (forged(mean_return=1.0, score=0.5), "states what its returns do not give"),
        (forged(returns={"test/0": 1.0}), "1 tasks, expected 3"),
        (forged(returns={}), "0 tasks, expected 3"),
        (forged(returns=[1.0, 1.0, 1.0]), "`returns`, a number for each task"),
        (forged(tasks_sha256="0"), "tasks_sha256: '0' there"),
        (forged(floor=-9.0), r"floor: -9\.0 there"),
        (returned(7.0), r"task 'test/1' returned 7\.0, expected 0 to 1"),
        (returned(1e308), "expected 0 to 1"),
        (returned(True), "returned True"),
        (returned("1"), "returned '1'"),
        (lambda one: {**one, "score": 3.0}, r"the whole states .* score: 3\.0 there"),
        (lambda one: {**one, "entries": {**one["entries"], "chess": {}}}, "entry 'chess'"),
        (lambda one: {**one, "sha256": "1"}, "of 'small' \\(1\\), expected 'small' \\(0\\)"),
        (lambda one: {**one, "benchmark": "bench-v1"}, "of 'bench-v1'"),
        (lambda one: {**one, "solo": 1}, "expected what `llm-marl bench` wrote"),
    ],
)
def test_others_files_are_worked_out_anew(
    folder: Path, change: Callable[[Any], Any], said: str
) -> None:
    edit(folder / BENCH_FILE, change)
    with pytest.raises(ValueError, match=said):
        read_bench(folder / BENCH_FILE, SMALL)


def test_numbers_that_json_does_not_know_and_doubled_keys(folder: Path) -> None:
    file = folder / BENCH_FILE
    text = file.read_text()
    for number in ("NaN", "Infinity", "-Infinity"):
        file.write_text(re.sub(r'("test/1": )[-0-9.e]+', rf"\g<1>{number}", text))
        with pytest.raises(ValueError, match="returned"):
            read_bench(file, SMALL)
    file.write_text(text.replace('"test/1":', '"test/1": 1.0,\n"test/1":', 1))
    with pytest.raises(ValueError, match="'test/1' stands twice"):
        read_bench(file, SMALL)


def test_doubled_keys_and_no_lines_of_a_transcript_are_found(folder: Path) -> None:
    """Another reader may take the first of two."""
    file = folder / "writing" / "episodes.jsonl"
    text = file.read_text()
    file.write_text(text.replace('"success":', '"success": "first", "success":', 1))
    assert "'success' stands twice" in check_bench(SMALL, folder)[0]
    file.write_text("")
    assert check_bench(SMALL, folder) == ["writing: 0 episodes and 0 bytes more, expected 3"]


def test_an_episode_that_failed_counts_as_the_least(folder: Path) -> None:
    entry = SMALL.entries["writing"]
    about = {"team": "x", "identity": {"brief_0": "x", "detailed_0": "x"}}
    found = benchmarks.scored(entry, {"test/0": 1.0, "test/1": None, "test/2": 1.0}, about)
    assert found["mean_return"] == pytest.approx(2 / 3)
    assert found["failed"] == 1


# -- going on, and the command --------------------------------------------------------------------
def test_edited_episodes_are_not_gone_on_from(folder: Path) -> None:
    def better(episode: Any) -> Any:
        for turn in episode["turns"]:
            turn["reward"] = turn["team_reward"] = 1.0
        return {**episode, "success": True}

    edit(folder / "writing" / "episodes.jsonl", better, line=1)
    with pytest.raises(ValueError, match=r"not played so: episode 1: success.*remove the folder"):
        run_benchmark(SMALL, {EVERY: "expert"}, str(folder))


def test_half_a_line_is_played_again(folder: Path) -> None:
    file = folder / "writing" / "episodes.jsonl"
    before = file.read_bytes()
    file.write_bytes(before + b"{")
    assert check_bench(SMALL, folder) == ["writing: 3 episodes and 1 bytes more, expected 3"]
    file.write_bytes(before[:-40])
    assert check_bench(SMALL, folder)
    with pytest.warns(UserWarning, match="half-written"):
        run_benchmark(SMALL, {EVERY: "expert"}, str(folder))
    assert check_bench(SMALL, folder) == []


def test_the_command_checks(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmarks, "benchmark", lambda name: SMALL)
    assert main(["bench", "--check", str(folder)]) == 0
    assert "who acted nobody can tell" in capsys.readouterr().out
    edit(folder / BENCH_FILE, forged(score=3.0))
    assert main(["bench", "--check", str(folder)]) == 1
    assert "states what its returns do not give" in capsys.readouterr().out
    assert main(["bench", "--team", "expert"]) == 2
    assert "expected --team and --output, or --check" in capsys.readouterr().err


# -- what cannot be found -------------------------------------------------------------------------
def test_who_played_is_only_said(folder: Path) -> None:
    """Another name in every file: nothing is played otherwise."""
    for file in (folder / BENCH_FILE, *folder.glob("*/plan.json"), *folder.glob("*/summary.json")):
        text = file.read_text()
        assert '"expert"' in text
        file.write_text(text.replace('"expert"', '"my great model"'))
    assert check_bench(SMALL, folder) == []


def test_what_a_plug_in_that_knows_the_tasks_plays_comes_out(
    tmp_path: Path, own_registry: None
) -> None:
    """Nobody can tell who wrote an action: the page says so."""

    def cheat(argument: str, context: Any) -> ScriptedPolicy:
        from llm_marl_envs.policies.expert import AgreedPolicy

        expert = AgreedPolicy(context.env)
        return ScriptedPolicy(lambda request: expert.act([request])[0].text)

    register_policy("looks_up", cheat)
    found = run_benchmark(SMALL, {"writing": "looks_up"}, str(tmp_path))
    assert found["entries"]["writing"]["mean_return"] == 1.0
    assert check_bench(SMALL, tmp_path) == []
    assert "looks_up" in bench_table({"looks_up": found})
