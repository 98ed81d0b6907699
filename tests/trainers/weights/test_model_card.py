"""Model cards: true, without None, the same for the same team, and their programs run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from support.models import lora, make_trainer, settings, untrained

from trainers.policies.named import fingerprint
from trainers.trainer import MAGRPOTrainer
from trainers.weights.team_files import build_team_model, load_team, save_team

ENV = {"env_id": "coop_coding-v0", "env_kwargs": {"split": "train"}, "max_completion_length": 4}
AGENTS = ["helper_0", "main_0"]


def on_disk(folder: Path) -> str:
    model, tokenizer = untrained()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def saved(tmp_path: Path, mode: str, named: bool = True) -> Path:
    base: Any = on_disk(tmp_path / "base") if named else untrained()[0]
    tokenizer = None if named else untrained()[1]
    peft = lora() if mode == "adapters" else None
    team = build_team_model(base, AGENTS, weights=mode, peft_config=peft, tokenizer=tokenizer)
    trained = {"algorithm": "magrpo", "updates": 7, "training": {"update": 7, "reward": 0.25}}
    save_team(team, tmp_path / "team", env=ENV, trained=trained)
    return tmp_path / "team"


@pytest.mark.parametrize("mode", ["adapters", "shared", "separate"])
@pytest.mark.parametrize("named", [True, False])
def test_the_programs_on_the_cards_run(tmp_path: Path, mode: str, named: bool):
    folder = saved(tmp_path, mode, named)
    base = tmp_path / "base" if named else on_disk(tmp_path / "base")
    cards = sorted(folder.rglob("README.md"))
    assert len(cards) == 1 + len(load_team(folder, base=str(base)).policies)
    for card in cards:
        text = card.read_text(encoding="utf-8")
        (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        namespace: dict[str, Any] = {}
        exec(program.replace("FOLDER", str(card.parent)).replace("BASE", str(base)), namespace)
        assert namespace.get("model") is not None or namespace["policy"] is not None
        assert "None" not in text
        assert str(tmp_path) not in text


def test_a_card_says_what_is_known_and_nothing_else(tmp_path: Path):
    folder = saved(tmp_path, "adapters")
    card = ModelCard.load(folder / "main_0" / "README.md")
    assert card.data.to_dict() == {
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["llm-marl-envs", "multi-agent", "reinforcement-learning", "magrpo"],
    }
    for words in (
        "# main_0",
        "- Base: a local model, `base`",
        "- Environment: `coop_coding-v0`",
        '`{"split": "train"}`',
        "`helper_0` by `helper_0`, `main_0` by `main_0`",
        "`magrpo` (MAGRPO trainer of llm-marl-envs), 7 updates",
        "- Training tasks, update 7: reward 0.25",
    ):
        assert words in card.text
    head = (folder / "README.md").read_text().split("---")[1]
    assert list(yaml.safe_load(head)) == ["tags"]
    assert "llm-marl eval coop_coding-v0 --team FOLDER" in (folder / "README.md").read_text()


def test_a_team_without_a_history_has_a_card_without_one(tmp_path: Path):
    model, tokenizer = untrained()
    team = build_team_model(model, AGENTS, weights="shared", tokenizer=tokenizer)
    save_team(team, tmp_path, env={})
    text = (tmp_path / "README.md").read_text()
    assert "Algorithm" not in text
    assert "Base" not in text
    assert "None" not in text


def test_a_base_of_the_hub_is_named(tmp_path: Path):
    model, tokenizer = untrained()
    model.config.name_or_path = "some/model"
    team = build_team_model(
        model, AGENTS, weights="adapters", peft_config=lora(), tokenizer=tokenizer
    )
    save_team(team, tmp_path, env=ENV)
    card = ModelCard.load(tmp_path / "main_0" / "README.md")
    assert card.data.to_dict()["base_model"] == "some/model"
    assert "- Base: `some/model`" in card.text


def test_words_on_a_card_do_not_make_another_team(tmp_path: Path):
    folder = saved(tmp_path, "adapters")
    before = fingerprint(folder)
    (folder / "README.md").write_text("license: mine")
    assert fingerprint(folder) == before
    (folder / "team.json").write_text("{}")
    assert fingerprint(folder) != before


def test_a_run_leaves_true_cards_and_none_of_trl(tmp_path: Path):
    model, tokenizer = untrained()
    trainer = MAGRPOTrainer(
        model,
        "coop_coding-v0",
        settings(
            tmp_path / "run",
            max_steps=2,
            save_strategy="steps",
            save_steps=1,
            eval_strategy="steps",
            eval_steps=1,
            eval_tasks=2,
        ),
        peft_config=lora(),
        processing_class=tokenizer,
        eval_env="coop_coding-v0",
    )
    trainer.train()
    assert not (tmp_path / "run" / "README.md").exists()
    for number in (1, 2):
        for place in ("", "main_0"):
            card = tmp_path / "run" / f"checkpoint-{number}" / place / "README.md"
            text = card.read_text()
            assert f", {number} updates" in text
            assert f"- Last evaluation during training, update {number}: reward" in text


def test_a_resumed_run_s_cards_are_those_of_the_unbroken_one(tmp_path: Path):
    from support.toys import Lower

    plan: dict[str, Any] = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1}
    make_trainer(tmp_path, Lower, **plan).train()
    card = tmp_path / "checkpoint-3" / "README.md"
    unbroken = card.read_bytes()
    card.unlink()
    make_trainer(tmp_path, Lower, **plan).train(str(tmp_path / "checkpoint-1"))
    assert card.read_bytes() == unbroken
