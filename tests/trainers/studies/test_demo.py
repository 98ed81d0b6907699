"""What the demo measures before and after training."""

from __future__ import annotations

from typing import Any

import pytest
from support.models import untrained

from trainers.models.team_files import build_team_model
from trainers.models.token_policy import TokenPolicy
from trainers.studies.demo import measure


@pytest.fixture(scope="module")
def policy() -> TokenPolicy:
    model, tokenizer = untrained()
    seats = ("helper_0", "main_0", "brief_0", "detailed_0")
    team = build_team_model(model, seats, weights="shared", tokenizer=tokenizer)
    return TokenPolicy(team, max_completion_length=4)


def test_the_splits_stand_side_by_side(policy: TokenPolicy) -> None:
    run: dict[str, Any] = {"env": "coop_coding-v0", "env_kwargs": {"split": "train"}}
    found = measure(run, policy, "before", n_tasks=3)
    splits = found.numbers["splits"]
    assert list(splits) == ["test", "test_prompts", "ood"]
    for one in splits.values():
        assert (one["n"], one["sampled_success"]) == (3, 0.0)
        assert one["ci95"][0] == 0.0 < one["ci95"][1] < 1.0
        assert one["cooperation"]["mean"] < 0  # well below what one seat can do
    assert found.numbers["cooperation"] == splits["test"]["cooperation"]
    assert found.numbers["convention_match"] == 0.0
    assert [episode.task_id for episode in found.episodes["test"]] == ["test/0", "test/1", "test/2"]


def test_rows_are_measured_on_the_test_rows_that_there_are(policy: TokenPolicy) -> None:
    splits = ("train", "test", "test", "val")
    rows = [{"id": str(i), "text": "Mia paid.", "split": one} for i, one in enumerate(splits)]
    kwargs = {"tasks": rows, "reward": "paper", "split": "train"}
    found = measure({"env": "coop_writing_tldr-v0", "env_kwargs": kwargs}, policy, "before")
    assert list(found.numbers["splits"]) == ["test"]
    assert found.numbers["n"] == len(found.episodes["test"]) == 2
