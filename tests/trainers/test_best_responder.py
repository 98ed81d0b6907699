"""A responder learns beside a saved team that does not: as the page of trust_split-v0 says."""

from __future__ import annotations

from pathlib import Path

import yaml
from support.models import untrained

from llm_marl_envs.core.records import read_jsonl
from trainers.train import run_train

PLAYED = Path("transcripts") / "update-000000.jsonl"


def test_a_responder_is_trained_beside_a_saved_team(tmp_path: Path):
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")

    def trained(name: str, partners: dict[str, str]) -> Path:
        run = {
            "model": str(tmp_path / "base"),
            "env": "trust_split-v0",
            "env_kwargs": {"turns": 1},
            "lora": {"r": 4, "target_modules": ["q_proj", "v_proj"]},
            "partners": partners,
            "trainer": {
                "output_dir": str(tmp_path / name),
                "algorithm": "magrpo",
                "credit": "own",
                "max_steps": 1,
                "tasks_per_update": 1,
                "num_generations": 2,
                "max_completion_length": 4,
                "transcript_every": 1,
                "use_cpu": True,
                "disable_tqdm": True,
            },
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(run))
        return run_train(tmp_path / f"{name}.yaml", [])

    team = trained("team", {})
    files = {file: file.read_bytes() for file in team.rglob("*") if file.is_file()}
    responder = trained("responder", {"player_1": str(team)})
    assert files == {file: file.read_bytes() for file in files}
    assert {file.name for file in responder.iterdir() if file.is_dir()} == {"player_0"}
    for episode in read_jsonl(tmp_path / "responder" / PLAYED):
        acted = {turn.agent: turn.response.policy for turn in episode.turns}
        assert acted == {"player_0": "player_0", "player_1": "player_1"}
