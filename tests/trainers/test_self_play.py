"""Self-play of a turn-based game with past selves and a scripted opponent: tic_tac_toe-v0."""

from __future__ import annotations

import json
from pathlib import Path

from support.models import make_trainer

from llm_marl_envs import make


def test_two_updates_of_self_play_with_a_pool(tmp_path: Path):
    trainer = make_trainer(
        tmp_path,
        lambda: make("tic_tac_toe-v0"),
        weights="shared",
        credit="own",
        max_steps=2,
        tasks_per_update=4,
        num_generations=4,
        max_completion_length=2,
        transcript_every=1,
        schedules={"pool": {"every": 1, "past": 0.5, "opponents": {"expert:perfect": 0.5}}},
    )
    trainer.train()
    log = trainer.state.log_history[1]
    assert log["pool/present"] == 4  # the learners of four tasks
    assert log["pool/expert:perfect"] + sum(v for k, v in log.items() if "@" in k) == 4
    for update in (0, 1):
        lines = (tmp_path / f"transcripts/update-{update:06d}.jsonl").read_text().splitlines()
        for turns in (json.loads(line)["turns"] for line in lines):
            assert {turn["agent"] for turn in turns} == {"player_0", "player_1"}
            assert sum(turn["reward"] for turn in turns) == 0
