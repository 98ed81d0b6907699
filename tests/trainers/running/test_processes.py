"""Several processes, and processes that are killed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.launch import finished, on_two_nodes, under_one_launcher
from support.models import DEEP, make_trainer, weights
from support.once import made_once
from support.paths import ROOT
from support.process_cases import CASES, LONG_CASES, MODES, Lower, Uneven, run

pytestmark = pytest.mark.full  # `make test-all` runs it

PROGRAM = str(ROOT / "tests" / "support" / "process_cases.py")
SHARDED = ("adapters", "separate")
STOPPED = ("sick", "other seats", "own folders", "broken", "broken at once")


def results(folder: Path, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [torch.load(folder / f"{name}-{rank}.pt", weights_only=False) for rank in (0, 1)]
        for name in names
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each of two processes (gloo), each on a node of its own, puts its runs."""
    return made_once(tmp_path_factory, "nodes", lambda folder: on_two_nodes(PROGRAM, str(folder)))


@pytest.fixture(scope="module")
def together(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Case -> what each of the two processes made of it."""
    return results(folder, CASES)


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", [n for n in CASES if n not in (*STOPPED, "best")])
def test_both_processes_hold_the_same_weights(together: Any, name: str):
    first, second = together[name]
    assert first["error"] == second["error"] == ""
    assert same(first["after"], second["after"])
    assert not same(first["after"], first["before"])
    assert first["step"] == second["step"] == 3


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith(("plain", "uneven"))])
def test_two_processes_take_the_steps_of_one(together: Any, name: str, tmp_path: Path):
    """Tasks and draws are a function of (seed, update, position), so both play the same episodes.

    Three plain gradient steps on the same global batches: the same weights, up to the order of
    float32 sums. The metrics are the same, too.
    """
    alone = run(tmp_path, name)
    for policy, value in alone["after"].items():
        step = value - alone["before"][policy]
        error = together[name][0]["after"][policy] - value
        assert float(step.norm()) > 1e-3
        assert float(error.norm()) < 1e-4 * float(step.norm()), policy
    for one, two in zip(alone["logs"], together[name][0]["logs"], strict=True):
        for metric in ("reward", "reward_std", "turns", "num_tokens", "episodes/failed"):
            if metric in one:
                assert one[metric] == pytest.approx(two[metric], rel=1e-6), metric
        if "entropy" in one:
            assert one["entropy"] == pytest.approx(two["entropy"], rel=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_both_processes_share_prompts(together: Any, mode: str):
    """So the steps compared above are of gradients through shared prompts, joined by DDP."""
    for result in together[f"plain {mode}"]:
        shares = [log["sharing/rows"] for log in result["logs"] if "sharing/rows" in log]
        assert min(shares) < 1


def test_both_processes_have_the_same_critic(together: Any):
    first, second = (result["algorithm"] for result in together["plain critic"])
    assert same(first["critic"]["body"], second["critic"]["body"])
    assert same(first["critic"]["head"], second["critic"]["head"])
    assert first["critic"]["scale"] == second["critic"]["scale"]
    logs = [result["logs"] for result in together["plain critic"]]
    read = [[log.get("cost/critic_tokens", 0) for log in one] for one in logs]
    assert read[0] == read[1]
    assert max(read[0]) > 0


@pytest.mark.long
def test_two_processes_of_one_node_do_what_two_nodes_do(together: Any, tmp_path: Path):
    names = [f"{kind} {mode}" for kind in ("plain", "saving") for mode in MODES]
    under_one_launcher(PROGRAM, str(tmp_path), *names)
    for name, pair in results(tmp_path, names).items():
        assert same(pair[0]["after"], together[name][0]["after"]), name
        assert same(pair[1]["after"], together[name][0]["after"]), name


def test_processes_with_other_seats_are_refused(together: Any):
    """Their micro-batches would be of different policies, and their gradients mixed."""
    for result in together["other seats"]:
        assert "the processes plan other micro-batches" in result["error"]


def test_nodes_without_a_common_folder_are_refused(together: Any):
    """Before any work, not at the first checkpoint."""
    for result in together["own folders"]:
        assert "processes [1] do not see" in result["error"]
        assert result["step"] == 0


def test_episodes_and_rows_of_the_two_processes_differed(together: Any):
    """Else the tests above would show nothing."""
    for name in ("plain adapters", "uneven grpo"):
        assert any(1 < log["turns"] < 2 for log in together[name][0]["logs"] if "turns" in log)


@pytest.mark.parametrize("mode", [*MODES, *(f"sharded {m}" for m in SHARDED)])
def test_a_resumed_pair_ends_as_the_unbroken_one(together: Any, mode: str):
    """Optimiser, KL reference, buffer and all: the checkpoint lies between two iterations."""
    how, _, weights = mode.rpartition(" ")
    unbroken, resumed = (
        together[f"{how} {kind} {weights}".strip()] for kind in ("saving", "resumed")
    )
    assert resumed[0]["error"] == ""
    assert same(unbroken[0]["after"], resumed[0]["after"])
    assert same(unbroken[0]["after"], resumed[1]["after"])


def test_each_node_samples_on_a_server_of_its_own(together: Any, folder: Path):
    """Each publishes to its own; the run ends at the weights of `generate`, bit for bit."""
    plain = together["plain adapters"][0]
    for result in together["served adapters"]:
        assert same(result["after"], plain["after"])
        # Two policies, before each of three updates.
        assert result["asked"]["/v1/load_lora_adapter"] == 6
        assert result["asked"]["/inference/v1/generate"] > 30
    versions = [path.name for path in (folder / "served adapters" / "engine").iterdir()]
    assert len(versions) == 4  # the present one of each policy and the one before


@pytest.mark.parametrize("mode", SHARDED)
def test_sharded_weights_learn_what_whole_ones_learn(together: Any, mode: str):
    """Three AdamW steps, two iterations per rollout, with a KL term: as DDP, up to float32 sums.

    Episodes differ in length, so the processes sample different numbers of rows.
    """
    whole, sharded = together[f"saving {mode}"][0], together[f"sharded saving {mode}"][0]
    assert whole["held"] == 1
    assert sharded["held"] < 0.6
    for policy, value in whole["after"].items():
        step = value - whole["before"][policy]
        error = sharded["after"][policy] - value
        assert float(step.norm()) > 0.1
        assert float(error.norm()) < 1e-5 * float(step.norm()), policy
    for one, two in zip(whole["logs"], sharded["logs"], strict=True):
        compared = [n for n in one if n == "kl" or n.endswith(("reward", "grad_norm"))]
        assert {n: two[n] for n in compared} == pytest.approx({n: one[n] for n in compared})
    assert any(log.get("kl", 0) > 1e-4 for log in sharded["logs"])


@pytest.mark.parametrize("mode", SHARDED)
def test_sharded_weights_are_saved_as_whole_ones(together: Any, folder: Path, mode: str):
    plain = folder / f"saving {mode}" / "checkpoint-3"
    files = sorted(plain.rglob("*.safetensors"))
    assert len(files) == len(together[f"saving {mode}"][0]["after"])
    for file in files:
        twin = folder / f"sharded saving {mode}" / "checkpoint-3" / file.relative_to(plain)
        assert sorted(p.name for p in twin.parent.iterdir()) == sorted(
            p.name for p in file.parent.iterdir()
        )
        one, two = load_file(file), load_file(twin)
        assert one.keys() == two.keys()
        for name, tensor in one.items():
            assert torch.allclose(tensor, two[name], rtol=1e-4, atol=1e-6), name


@pytest.mark.long
def test_sharded_weights_in_the_other_cases(tmp_path: Path):
    """Plain gradient steps as one process takes; frozen seats, servers, evaluation, a NaN."""
    on_two_nodes(PROGRAM, str(tmp_path), *LONG_CASES)
    found = results(tmp_path, LONG_CASES)
    for name in [n for n in LONG_CASES if n.startswith("sharded plain")]:
        assert same(found[name][0]["after"], found[name][1]["after"])
        alone = run(tmp_path / "alone", name, shard_weights=False)
        for policy, value in alone["after"].items():
            step = value - alone["before"][policy]
            error = found[name][0]["after"][policy] - value
            assert float(error.norm()) <= 1e-4 * float(step.norm()), (name, policy)
    for name in [n for n in LONG_CASES if n.startswith("served inexact")]:
        whole, sharded = found[name][0], found[f"sharded {name}"]
        assert same(sharded[0]["after"], sharded[1]["after"])
        for policy, value in whole["after"].items():
            error = sharded[0]["after"][policy] - value
            assert float(error.norm()) < 1e-4 * float((value - whole["before"][policy]).norm())
    stopped_alike(found["sharded sick"], tmp_path / "sharded sick")
    first, second = found["sharded best"]
    assert first["step"] == second["step"] == 4
    assert any("eval_reward" in log for log in first["logs"])


def test_what_cannot_be_sharded_is_refused(tmp_path: Path):
    sharded: dict[str, Any] = {"shard_weights": True}
    with pytest.raises(ValueError, match="there is one: start several by torchrun"):
        make_trainer(tmp_path, Uneven, **sharded)
    with pytest.raises(ValueError, match=r"\['left_0'\] play with the weights that a trained"):
        make_trainer(tmp_path, Uneven, adapters=False, frozen=["left_0"], **sharded)
    for name in ("fsdp", "deepspeed"):
        other: dict[str, Any] = {name: "full_shard"}
        with pytest.raises(ValueError, match=f"{name}=.*set shard_weights"):
            make_trainer(tmp_path, Uneven, **other)


def stopped_alike(found: list[dict[str, Any]], folder: Path) -> None:
    """Both after the first update, with its checkpoint; each says what stopped it."""
    first, second = found
    assert "another process" in first["error"]
    assert "update 1: log-prob nan of left_0" in second["error"]
    assert first["step"] == second["step"] == 1
    assert same(first["after"], second["after"])
    (kept,) = folder.glob("checkpoint-*")
    again = make_trainer(folder, Lower, sizes=DEEP)
    again._load_from_checkpoint(str(kept))
    assert same(weights(again), first["after"])


def test_a_nan_on_one_process_stops_both_with_a_checkpoint(together: Any, folder: Path):
    stopped_alike(together["sick"], folder / "sick")


def test_a_reward_that_is_no_number_is_as_an_exception_on_both(together: Any):
    for paid, raised in zip(together["pays nan"], together["plain shaky"], strict=True):
        assert same(paid["after"], raised["after"])
        logs = [[one.get("episodes/failed") for one in r["logs"]] for r in (paid, raised)]
        assert logs[0] == logs[1]


def test_failed_episodes_of_both_processes_are_counted(together: Any):
    for result in together["plain shaky"]:
        failed = [log["episodes/failed"] for log in result["logs"] if "episodes/failed" in log]
        assert failed[0] == 0
        assert 0 < sum(failed) < 16


def test_too_many_failed_episodes_on_one_process_stop_both(together: Any):
    """At the same update, with the same words and one checkpoint."""
    first, second = together["broken"]
    assert first["error"] == second["error"]
    assert "update 1: 4 of 8 episodes failed" in first["error"]
    assert "OSError: an environment broke" in first["error"]
    assert first["step"] == second["step"] == 1
    assert same(first["after"], second["after"])
    first, second = together["broken at once"]
    assert "update 0: 4 of 8 episodes failed" in first["error"]
    assert "OSError: an environment broke" in first["error"]
    assert second["error"] == "an environment broke"
    for result in (first, second):
        assert same(result["before"], result["after"])


def test_one_process_s_evaluation_decides_for_both(together: Any):
    """Else one would save and wait for the other, which does not."""
    first, second = together["best"]
    assert [log.get("eval_reward") for log in first["logs"]] == [
        log.get("eval_reward") for log in second["logs"]
    ]
    assert first["step"] == second["step"] == 4


def assert_survives(folder: Path, mode: str, kills: int, steps: int) -> list[dict[str, Any]]:
    program = str(ROOT / "tests" / "support" / "kill_runs.py")
    printed = finished(program, str(folder), mode, str(kills), str(steps), timeout=1200)
    result = json.loads(printed.partition("RESULT ")[2])
    broken, unbroken = result["digests"]
    assert broken == unbroken
    for kill in result["kills"]:
        assert kill["kept"] > kill["before"], "a checkpoint was lost"
        assert kill["made"] - kill["kept"] <= 1, "more than one update was lost"
    assert len(result["kills"]) == kills
    return result["kills"]


def test_killed_a_few_times_it_ends_as_if_unbroken(tmp_path: Path):
    assert_survives(tmp_path, "adapters", kills=3, steps=18)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_killed_at_random_moments_it_ends_as_if_unbroken(tmp_path: Path, mode: str):
    """30 SIGKILLs, some in a save: every newest checkpoint loads, one update is lost at most."""
    kills = assert_survives(tmp_path, mode, kills=30, steps=200)
    assert sum(kill["saving"] for kill in kills) >= 5
