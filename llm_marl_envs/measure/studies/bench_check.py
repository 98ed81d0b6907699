"""A benchmark's folder checked: every episode is played again from its actions and compared.

The environment comes from the benchmark, never from the file. What a policy alone knows cannot be
played again, and who wrote an action nobody can tell (`UNSEEN`; docs/bench.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_marl_envs.core.records import Episode, Request, episode_from_dict, episode_to_dict
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.files.json_files import finite, read_json
from llm_marl_envs.measure.numbers.results import RESULT_FILE
from llm_marl_envs.measure.resume import EPISODES_FILE, PLAN_FILE
from llm_marl_envs.measure.runner import pinned_plan, starts_of, sum_up
from llm_marl_envs.measure.studies.benchmark import (
    BENCH_FILE,
    Benchmark,
    Entry,
    check_tasks,
    differences,
    read_bench,
    scored,
)
from llm_marl_envs.measure.studies.measure import summary_of
from llm_marl_envs.play.rollout import Failures, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.scripted import ScriptedPolicy

COPIES = 32
"""Episodes that are played again at once."""
MOST_SHOWN = 10
"""Differences of one folder that are named."""
EXTRA = {"index", "seconds"}
"""What an evaluation adds to an episode."""
EVERY_SEAT = ""
"""Stands for a team in all seats, where others name the one seat that it plays."""


UNSEEN = ("cut", "policy", "usage", "prompt_ids", "completion_ids", "logprobs")
"""What a policy says of its answer, which no environment can tell."""


def seats_alone(agents: Sequence[str], solo: bool) -> dict[str, dict[str, str]]:
    """Seat -> partners, of each evaluation of an entry; `EVERY_SEAT` where the team plays all."""
    if not solo:
        return {EVERY_SEAT: {}}
    return {seat: {other: "silent" for other in agents if other != seat} for seat in agents}


def returns_of(tasks: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Task -> return of its one episode, None where it failed; `tasks` as a summary has them.

    Raises:
        ValueError: a task has several episodes.
    """
    returns: dict[str, float | None] = {}
    for task in tasks:
        if task["task_id"] in returns or len(task["returns"]) > 1:
            raise ValueError(f"task {task['task_id']!r} was played more than once")
        returns[task["task_id"]] = next(iter(task["returns"]), None)
    return returns


def entries_in(folder: str | Path) -> list[str]:
    """Names of the entries that a folder's `bench.json` has, unchecked.

    Raises:
        ValueError: it is no such folder.
    """
    return [*read_json(Path(folder) / BENCH_FILE).get("entries", {})]


def refuse_edited(entry: Entry, folder: Path) -> None:
    """Refuse to go on from episodes that do not come out as recorded; a folder without any passes.

    Raises:
        ValueError: names what differs.
    """
    file = folder / EPISODES_FILE
    if not file.exists():
        return
    # A last line that is half-written is played anew.
    wrong = played_again(entry, file.read_bytes().split(b"\n")[:-1])[1]
    if wrong:
        raise ValueError(
            f"{file} holds episodes that were not played so: {'; '.join(wrong[:MOST_SHOWN])}; "
            "remove the folder and play them again"
        )


def check_bench(chosen: Benchmark, folder: str | Path) -> list[str]:
    """What of a benchmark's folder does not come out when its episodes are played again.

    Args:
        chosen: what was played.
        folder: of `llm-marl bench`.

    Returns:
        A text for each fault; none where all that can be checked is right.
    """
    try:
        stated = read_bench(folder, chosen)
        for name in stated["entries"]:
            check_tasks(name, chosen.entries[name])
    except ValueError as error:
        return [str(error)]
    names = {path.name for path in Path(folder).iterdir() if path.is_dir()}
    wrong = [f"{name}: {BENCH_FILE} has no such entry" for name in names - {*stated["entries"]}]
    for name in stated["entries"]:
        try:
            faults = _check_entry(chosen, stated, name, Path(folder) / name)
        except (ValueError, OSError) as error:
            faults = [str(error)]
        wrong += [f"{name}: {text}" for text in faults[:MOST_SHOWN]]
    return wrong


def _check_entry(
    chosen: Benchmark, stated: Mapping[str, Any], name: str, folder: Path
) -> list[str]:
    """An entry's evaluations, one for each seat where the team played one at a time."""
    entry, wrong, tried = chosen.entries[name], [], []
    seats = seats_alone(entry.made().possible_agents, stated["solo"])
    for seat, partners in seats.items():
        summary, faults = _check_folder(entry, folder / seat, stated["library"])
        wrong += [f"{seat} {text}".strip() for text in faults]
        if faults:
            continue
        if summary["temperature"] != chosen.temperature:
            wrong.append(
                f"{seat} temperature {summary['temperature']!r}, expected {chosen.temperature}"
            )
        if {**summary["identity"], **partners} != summary["identity"]:
            wrong.append(
                f"{seat} identity {summary['identity']!r}, expected {partners} beside the seat"
            )
        about = {"team": summary["team"], "identity": summary["identity"]}
        seated = {} if seat == EVERY_SEAT else {"seat": seat}
        tried.append(scored(entry, returns_of(summary["tasks"]), {**about, **seated}))
    if wrong:
        return wrong
    return differences(stated["entries"][name], max(tried, key=lambda result: result["score"]))


def _check_folder(entry: Entry, folder: Path, library: str) -> tuple[dict[str, Any], list[str]]:
    """The summary of an evaluation's folder, and what in its files does not come out."""
    env, summary = entry.made(), read_json(folder / RESULT_FILE)
    lines = (folder / EPISODES_FILE).read_bytes().split(b"\n")
    episodes, wrong = played_again(entry, lines[:-1])
    if lines[-1] or len(episodes) != entry.tasks:
        wrong.append(
            f"{len(episodes)} episodes and {len(lines[-1])} bytes more, expected {entry.tasks}"
        )
    if wrong:
        return summary, wrong
    who = {key: summary.get(key) for key in ("team", "identity", "temperature")}
    if not isinstance(who["identity"], dict):
        return summary, [f"identity: {who['identity']!r:.80}, expected an object"]
    pinned = {**pinned_plan(env, entry.plan, who["identity"]), "package_version": library}
    wrong += differences(read_json(folder / PLAN_FILE), pinned, PLAN_FILE)
    seconds = sum(json_of(line)["evaluation"]["seconds"] for line in lines[:-1])
    result = sum_up(env, episodes, entry.plan, seconds)
    again = json.loads(json.dumps(summary_of(env, result, entry.kwargs, entry.plan)))
    if "resets" not in summary:  # of a release that did not write them
        again = _without(again, "resets")
    return summary, wrong + differences(summary, {**again, **who}, RESULT_FILE)


def _without(summary: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A summary without a field of its own and of its tasks."""
    tasks = [{key: task[key] for key in task if key != name} for task in summary["tasks"]]
    return {key: summary[key] for key in summary if key != name} | {"tasks": tasks}


# -- episodes -------------------------------------------------------------------------------------
def played_again(entry: Entry, lines: Sequence[bytes]) -> tuple[list[Episode], list[str]]:
    """Recorded episodes, and what of them comes out otherwise with the recorded actions.

    Args:
        entry: whose first tasks they are to be, in order.
        lines: of a transcript.
    """
    env = entry.made()
    starts = starts_of(entry.plan, env)
    records: list[Episode] = []
    originals: list[dict[str, Any]] = []
    wrong: list[str] = []
    for number, line in enumerate(lines):
        try:
            data = json_of(line)
            records.append(episode_from_dict(data))
            originals.append(data)
        except ValueError as error:
            return records, [f"episode {number}: {error}"]
    if len(records) > len(starts):
        return records, [f"{len(records)} episodes, expected {len(starts)}"]
    copies = VectorTextEnv([entry.made() for _ in range(min(COPIES, len(records) or 1))])
    try:
        again = _played(copies, entry, records, starts[: len(records)], wrong)
    finally:
        copies.close()
    for number, (original, episode) in enumerate(zip(originals, again, strict=True)):
        wrong += [f"episode {number}: {text}" for text in _faults(original, episode, number)]
    return records, wrong


def _played(
    copies: VectorTextEnv,
    entry: Entry,
    records: Sequence[Episode],
    starts: Sequence[Start],
    wrong: list[str],
) -> list[Episode]:
    """The episodes of these starts with the recorded texts; adds to `wrong` where there is none."""
    texts = {
        (number, turn.agent, turn.index): turn.response.text
        for number, record in enumerate(records)
        for turn in record.turns
    }

    def script(request: Request) -> str:
        key = (request.episode, request.agent, request.turn)
        text = texts.get(key)
        if text is None:
            wrong.append(f"episode {key[0]}: no text of turn {request.turn} of {request.agent}")
            return ""
        return text

    team = dict.fromkeys(copies.envs[0].possible_agents, ScriptedPolicy(script))
    return rollout(copies, team, starts, failures=Failures(entry.made))


def _faults(original: dict[str, Any], again: Episode, number: int) -> list[str]:
    """What a recorded episode has otherwise than the one that was played again."""
    replay = json.loads(json.dumps(episode_to_dict(again)))
    wrote = original.pop("evaluation", None)
    placed = isinstance(wrote, dict) and {*wrote} == EXTRA and type(wrote["index"]) is int
    if not placed or wrote["index"] != number:
        return [f"evaluation: {wrote!r:.80}, expected index {number} and seconds"]
    if not finite(wrote["seconds"]) or wrote["seconds"] < 0:
        return [f"evaluation.seconds: {wrote['seconds']!r:.80}, expected seconds"]
    if original.get("failure") and replay.get("failure"):
        original["failure"] = replay["failure"]  # places in files differ from machine to machine
    for record in (original, replay):
        for turn in record["turns"]:
            turn["response"] = {k: v for k, v in turn["response"].items() if k not in UNSEEN}
    return differences(original, replay)
