"""A population of speakers and listeners in referential-v0: who meets whom, and after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import weights

from llm_marl_envs import make
from llm_marl_envs.core.records import Episode, read_jsonl
from trainers.train import build_trainer

pytestmark = pytest.mark.full  # `make test-all` runs it

UPDATES = 3
ENV: dict[str, Any] = {"seats": [3, 3], "candidates": 2, "attributes": 2, "split": "train"}
RUN: dict[str, Any] = {
    "model": "tiny",
    "tiny": {
        "vocab_size": 400,
        "hidden_size": 48,
        "num_layers": 1,
        "intermediate_size": 96,
        "demonstrations": 400,
        "steps": 100,
        "batch_size": 16,
        "learning_rate": 1e-2,
    },
    "env": "referential-v0",
    "env_kwargs": ENV,
    "lora": {"r": 4, "target_modules": "all-linear"},
    "trainer": {
        "credit": "own",
        "schedules": {"population": {}},
        "max_steps": UPDATES,
        "tasks_per_update": 4,
        "num_generations": 4,
        "rows_per_micro_batch": 48,
        "max_completion_length": 6,
        "learning_rate": 1e-2,
        "save_strategy": "steps",
        "save_steps": 2,
        "transcript_every": 1,
        "disable_tqdm": True,
        "use_cpu": True,
    },
}


def played(folder: Path, update: int) -> list[Episode]:
    return list(read_jsonl(folder / "transcripts" / f"update-{update:06d}.jsonl"))


def drawn(episodes: list[Episode]) -> dict[str, str]:
    """Seat -> the policy that played it, the same in all episodes."""
    found = {(turn.agent, turn.response.policy or "") for one in episodes for turn in one.turns}
    assert len(found) == len(dict(found)) == sum(ENV["seats"])
    return dict(found)


def test_speakers_and_listeners_meet_by_lot_learn_and_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_CACHE", str(tmp_path / "cache"))
    run = {**RUN, "trainer": {**RUN["trainer"], "output_dir": str(tmp_path / "run")}}
    unbroken = build_trainer(run)
    start = weights(unbroken)
    unbroken.train()
    files = [played(tmp_path / "run", update) for update in range(UPDATES)]
    draws = [drawn(episodes) for episodes in files]
    env: Any = make("referential-v0", **ENV).unwrapped
    met = set()
    for seats in draws:
        for listener in (seat for seat in seats if seat.startswith("listener")):
            met.add((seats[env.heard_by(listener)], seats[listener]))
        for role in ("speaker", "listener"):  # nobody rests, nobody changes its role
            own = {seat for seat in seats if seat.startswith(role)}
            assert {seats[seat] for seat in own} == own
    assert len(met) > ENV["seats"][0]  # without lots the same three pairs meet again and again

    again = build_trainer(run)
    again.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert draws[2] not in draws[:2]
    assert drawn(played(tmp_path / "run", 2)) == draws[2]
    for policy, value in weights(again).items():
        assert torch.equal(value, weights(unbroken)[policy])
        assert not torch.equal(value, start[policy])
