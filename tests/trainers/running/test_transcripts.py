"""What a run leaves to look at: token texts and advantages, and the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from support.models import make_trainer, tiny_tokenizer
from support.toys import Lower

from llm_marl_envs.core.records import read_jsonl
from llm_marl_envs.report import write_report
from llm_marl_envs.report.sources import read_results
from trainers.running.transcripts import token_texts


@pytest.mark.parametrize("text", ["Say your word.", "naïve 日本語 🎈 end", " two  spaces\n", ""])
def test_token_texts_join_to_the_text(text: str):
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode(text, add_special_tokens=False)
    texts = token_texts(ids, tokenizer)
    assert len(texts) == len(ids)
    assert "".join(texts) == tokenizer.decode(ids) == text


def test_a_character_of_several_tokens_stands_with_the_last():
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode("日", add_special_tokens=False)
    assert len(ids) == 3  # its UTF-8 bytes
    assert token_texts(ids, tokenizer) == ["", "", "日"]
    assert token_texts(ids[:2], tokenizer) == ["", "\ufffd"]  # cut inside of a character


def test_a_run_leaves_its_advantages_and_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trainer = make_trainer(tmp_path, Lower, transcript_every=1)
    judged: list[Any] = []
    judge = trainer.collector.judge

    def keep(*given: Any) -> Any:
        judged.append(judge(*given))
        return judged[-1]

    monkeypatch.setattr(trainer.collector, "judge", keep)
    trainer.train()
    advantages = judged[0][1][0]  # update 0, task 0: (G, A, K)
    results = read_results(tmp_path)
    first = results.updates[0]
    assert [one.label for one in results.updates] == ["update-000000", "update-000001"]
    assert len(first.trails) == 4 * 2 * 2  # episodes, agents, turns
    for (place, number), trail in first.trails.items():
        turn = first.episodes[place].turns[number]
        expected = advantages[place, trainer.trained.index(turn.agent), turn.index]
        assert trail.advantages == pytest.approx([expected] * len(trail.texts))
        assert "".join(trail.texts).startswith(turn.action)
        assert all(logprob < 0 for logprob in trail.logprobs)
    assert len({round(float(a), 9) for a in advantages.ravel()}) > 1
    assert len(list(read_jsonl(tmp_path / "transcripts" / "update-000000.jsonl"))) == 4
    assert list(results.runs[0].log) == trainer.state.log_history
    assert "Training groups" in write_report(tmp_path).read_text()


def test_turns_that_are_not_trained_on_weigh_nothing(tmp_path: Path):
    """Actions of six tokens are cut, so none of them is trained on."""
    trainer = make_trainer(
        tmp_path, Lower, transcript_every=1, max_steps=1, mask_truncated_completions=True
    )
    trainer.train()
    first = read_results(tmp_path).updates[0]
    cut = [first.episodes[e].turns[t].response.cut for e, t in first.trails]
    assert any(cut)
    for was_cut, trail in zip(cut, first.trails.values(), strict=True):
        if was_cut:
            assert set(trail.advantages) == {0.0}


def test_a_resumed_run_has_one_log(tmp_path: Path):
    plan = {"save_strategy": "steps", "save_steps": 2}
    make_trainer(tmp_path, Lower, max_steps=3, **plan).train()
    again = make_trainer(tmp_path, Lower, max_steps=4, **plan)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    first, *entries = map(json.loads, lines)
    assert first == {
        "engine": {
            "name": "generate",
            "exact": True,
            "dtype": "float32",
            "software": f"transformers {transformers.__version__}",
        }
    }
    assert [entry["step"] for entry in entries if "reward" in entry] == [1, 2, 3, 4]
    assert entries == again.state.log_history
