"""Adapters are tried before the first update: same base, same start, read back as saved."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from support.models import DEEP, lora, make_trainer, untrained

from llm_marl_envs.envs.games.matrix_game import parallel_env
from trainers.weights.adapter_checks import check_adapter, read_adapter_config, try_out
from trainers.weights.adapters import AdapterWeights
from trainers.weights.team_files import build_team_model, load_team, save_team

ENV = {"env_id": "x", "env_kwargs": {}, "max_completion_length": 4, "temperature": 1.0}
IDS = torch.arange(3, 20)[None]


def team_of(**changes: Any) -> tuple[AdapterWeights, torch.Tensor]:
    """A team whose adapters are so configured, tried, and what the base says."""
    model, tokenizer = untrained(sizes=DEEP)
    config = LoraConfig(**{"r": 4, "target_modules": ["q_proj", "v_proj"], **changes})
    with torch.no_grad():
        base = model.eval()(input_ids=IDS).logits
    team: Any = build_team_model(
        model, ["a", "b"], weights="adapters", peft_config=config, tokenizer=tokenizer
    )
    try_out(team)
    return team, base


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"init_lora_weights": "pissa"}, "changes the base"),
        ({"init_lora_weights": "pissa_niter_2"}, "changes the base"),
        ({"init_lora_weights": "olora"}, "changes the base"),
        ({"layer_replication": [[0, 2], [1, 2]]}, "changes the base"),
        ({"init_lora_weights": False}, "begins elsewhere"),
        ({"init_lora_weights": "corda"}, "preprocess_corda"),
        (
            {"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True},
            "cannot be saved and read back",
        ),
        (
            {"target_modules": ["embed_tokens"], "ensure_weight_tying": True},
            "cannot be saved and read back",
        ),
        ({"r": 10**9}, "256,000,000,000 weights, and its model has"),
        ({"rank_pattern": {"q_proj": 10**8}}, "a smaller rank"),
        ({"target_modules": ["nothing"]}, "not found in the base model"),
    ],
)
def test_what_cannot_be_a_policys_weights_is_refused(changes: Any, word: str):
    with pytest.raises(ValueError, match=word) as caught:
        team_of(**changes)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.full
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"init_lora_weights": "gaussian"},
        {"init_lora_weights": "orthogonal"},
        {"init_lora_weights": "eva"},
        {"use_dora": True, "use_rslora": True},
        {"modules_to_save": ["lm_head", "norm"]},
        {"target_modules": [], "target_parameters": ["q_proj.weight"]},
        {"target_modules": r".*\.(q|v)_proj", "lora_dropout": 0.5},
    ],
)
def test_other_adapters_begin_at_the_base_and_stay_as_they_are(changes: Any):
    team, base = team_of(**changes)
    with torch.no_grad():
        for policy in team.policies:
            team.activate(policy)
            got = team.module.eval()(input_ids=IDS).logits
            torch.testing.assert_close(got, base, atol=1e-5, rtol=1e-5)
    assert all(p.requires_grad for policy in team.policies for p in team.parameters(policy))


def test_trying_changes_no_number_and_draws_none():
    model, tokenizer = untrained(sizes=DEEP)
    args = {"weights": "adapters", "peft_config": lora(), "tokenizer": tokenizer}
    team: Any = build_team_model(model, ["a", "b"], **args)
    before = [p.detach().clone() for p in team.module.parameters()]
    state = torch.get_rng_state()
    try_out(team)
    assert all(map(torch.equal, team.module.parameters(), before))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_run_is_refused_before_its_first_update(tmp_path: Path):
    config = LoraConfig(
        r=2,
        target_modules=["q_proj"],
        modules_to_save=["embed_tokens"],
        ensure_weight_tying=True,
    )
    with pytest.raises(ValueError, match="cannot be saved and read back"):
        make_trainer(tmp_path / "run", parallel_env(), peft_config=config)
    assert not (tmp_path / "run").exists()


def test_a_model_is_not_needed_to_refuse_a_rank():
    config = untrained()[0].config
    check_adapter(lora(), config)
    with pytest.raises(ValueError, match="smaller rank"):
        check_adapter(LoraConfig(r=10**9, target_modules=["q_proj"]), config)


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"r": 10**9}, "smaller rank"),
        ({"r": 8}, "of another shape"),
        ({"r": 0}, "r"),
        ({"r": "four"}, "lora"),
        ({"rank_pattern": {"q_proj": 10**8}}, "smaller rank"),
        ({"rank_pattern": 5}, "rank_pattern|lora|adapter_config"),
        ({"peft_type": "NOPE"}, "NOPE"),
        ({"peft_type": "PREFIX_TUNING"}, "PREFIX_TUNING|adapter_config"),
        ({"bias": "some"}, "some"),
        ({"target_modules": ["nothing"]}, "not found"),
        ({"target_modules": 5}, "lora|adapter_config"),
        ({"target_modules": r"(.*)*x"}, "take for ever"),
        ({"target_modules": ".*.*.*.*x"}, "take for ever"),
        ({"rank_pattern": {"(a+)+b": 4}}, "take for ever"),
        ({"init_lora_weights": "pissa"}, "changes the base"),
    ],
)
def test_a_strangers_configuration_is_refused_in_words(tmp_path: Path, change: Any, word: str):
    model, tokenizer = untrained(sizes=DEEP)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    team = build_team_model(
        str(tmp_path / "model"), ["a", "b"], weights="adapters", peft_config=lora()
    )
    save_team(team, tmp_path / "team", env=ENV)
    for policy in ("a", "b"):
        file = tmp_path / "team" / policy / "adapter_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    begun = time.monotonic()
    with pytest.raises(ValueError, match=word):
        load_team(tmp_path / "team")
    assert time.monotonic() - begun < 20


def test_a_configuration_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"adapter_config\.json"):
        read_adapter_config(tmp_path)
