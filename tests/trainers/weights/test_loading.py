"""Every loader: a file that is not whole is refused in words, and a whole one loads bit for bit."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.models import DEEP, lora, small, untrained
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPTNeoXForCausalLM,
    Qwen2MoeForCausalLM,
    RobertaForSequenceClassification,
)

from trainers.critics.base import CriticSettings
from trainers.critics.head_value import HeadValue
from trainers.critics.model_value import ModelValue
from trainers.critics.text_value import TextValue
from trainers.scorers.classifier import PairClassifier
from trainers.weights.loading import WeightsError, check_keys, fill_from_folder, load_model
from trainers.weights.team_files import build_team_model, load_team, save_team
from trainers.weights.team_model import TeamModel

FILE = "model.safetensors"
ENV = {"env_id": "x", "env_kwargs": {}, "max_completion_length": 4, "temperature": 1.0}
State = dict[str, torch.Tensor]
Change = Callable[[State], State]


class OwnSight(CriticSettings):
    """As of an algorithm whose critic sits on the policy."""

    sights = ("own",)


def renamed(state: State) -> State:
    first, *_ = state
    return {("_" + name if name == first else name): value for name, value in state.items()}


def halved(state: State) -> State:
    return dict(list(state.items())[::2])


def extra(state: State) -> State:
    return {**state, f"{[*state][-1]}.more": torch.zeros(2)}


def reshaped(state: State) -> State:
    return {**state, next(iter(state)): torch.zeros(3, 5)}


DAMAGES: list[tuple[Change, str]] = [
    (renamed, "missing"),
    (halved, "missing"),
    (extra, "unexpected"),
    (reshaped, "of another shape"),
    (lambda state: {}, "missing|larger"),
]


def rewritten(file: Path, change: Change) -> None:
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


def states(team: TeamModel) -> list[torch.Tensor]:
    return [parameter for policy in team.policies for parameter in team.parameters(policy)]


def same(first: Any, second: Any) -> bool:
    return all(torch.equal(one, two) for one, two in zip(first, second, strict=True))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    made, tokenizer = untrained(sizes=DEEP)
    made.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(("change", "word"), DAMAGES)
def test_a_model_that_is_not_whole_is_refused(model: Path, change: Change, word: str):
    rewritten(model / FILE, change)
    for kind, body in ((AutoModelForCausalLM, False), (AutoModel, True)):
        with pytest.raises(WeightsError, match=rf"{model}'.* {word}"):
            load_model(kind, str(model), body=body)


@pytest.mark.full
def test_forms_of_whole_models_load_bit_for_bit(model: Path):
    start = list(load_model(AutoModelForCausalLM, str(model)).parameters())
    state = load_file(model / FILE)
    tied = state["model.embed_tokens.weight"]
    others: list[State] = [
        {**state, "lm_head.weight": tied.clone()},
        {**{k: v for k, v in state.items() if "embed" not in k}, "lm_head.weight": tied},
        {**state, "model.rotary_emb.inv_freq": torch.zeros(8)},  # of older versions
        {**state, "model.layers.0.self_attn.rotary_emb.cos_cached": torch.zeros(8)},
        {**state, "model.layers.0.attn.masked_bias": torch.zeros(())},
    ]
    for other in others:
        save_file(other, model / FILE, metadata={"format": "pt"})
        assert same(load_model(AutoModelForCausalLM, str(model)).parameters(), start)
    (model / FILE).unlink()
    torch.save(state, model / "pytorch_model.bin")
    whole = load_model(AutoModelForCausalLM, str(model))
    assert same(whole.parameters(), start)
    (model / "pytorch_model.bin").unlink()
    whole.save_pretrained(model, max_shard_size="20KB")
    assert len([*model.glob("model-*.safetensors")]) > 1
    assert same(load_model(AutoModelForCausalLM, str(model)).parameters(), start)
    shard = sorted(model.glob("model-*.safetensors"))[-1]
    rewritten(shard, lambda state: dict(list(state.items())[1:]))
    with pytest.raises(WeightsError, match="1 missing"):
        load_model(AutoModelForCausalLM, str(model))


@pytest.mark.parametrize("kind", [GPTNeoXForCausalLM, Qwen2MoeForCausalLM])
def test_models_with_other_names_in_files_go_on_from_their_own_saves(tmp_path: Path, kind: Any):
    tokenizer = untrained()[1]
    made, other = (small(kind, tokenizer, seed, intermediate_size=48) for seed in (0, 1))
    made.save_pretrained(tmp_path)
    assert not load_file(tmp_path / FILE).keys() <= made.state_dict().keys()
    fill_from_folder(other, tmp_path)
    assert same(other.parameters(), made.parameters())
    rewritten(tmp_path / FILE, halved)
    with pytest.raises(WeightsError, match="missing"):
        fill_from_folder(other, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("keep", [999, 5])
def test_a_pickle_that_is_cut_or_lacks_tensors_is_refused(model: Path, keep: int):
    state = load_file(model / FILE)
    (model / FILE).unlink()
    file = model / "pytorch_model.bin"
    torch.save(halved(state), file)
    with pytest.raises(WeightsError, match=r"10 missing .*, [^,]*, [^,]*, \.\.\."):
        load_model(AutoModelForCausalLM, str(model))
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(WeightsError, match="damaged"):
        load_model(AutoModelForCausalLM, str(model))


def test_a_body_needs_neither_heads_nor_a_pooler(tmp_path: Path):
    _, tokenizer = untrained()
    masked: Any = small(BertForMaskedLM, tokenizer)  # has a head, and no pooler
    masked.save_pretrained(tmp_path)
    body = load_model(AutoModel, str(tmp_path), body=True)
    want = masked.bert.embeddings.word_embeddings.weight
    assert torch.equal(body.embeddings.word_embeddings.weight, want)
    with pytest.raises(WeightsError, match=r"missing .*pooler"):
        load_model(AutoModel, str(tmp_path))


@pytest.mark.full
def test_a_scorer_without_its_head_is_refused(tmp_path: Path):
    _, tokenizer = untrained()
    tokenizer.save_pretrained(tmp_path)
    for kind in (RobertaForSequenceClassification, BertForSequenceClassification):
        small(kind, tokenizer).save_pretrained(tmp_path)
        rewritten(tmp_path / FILE, lambda s: {**s, "roberta.pooler.dense.weight": torch.ones(2, 2)})
        assert PairClassifier(str(tmp_path)).labels == ["LABEL_0", "LABEL_1"]
        rewritten(tmp_path / FILE, lambda s: {k: v for k, v in s.items() if "classifier" not in k})
        with pytest.raises(ValueError, match=r"missing .*classifier"):
            PairClassifier(str(tmp_path))


@pytest.mark.full
def test_an_adapter_folder_as_a_model_is_checked_with_its_base(model: Path, tmp_path: Path):
    team = build_team_model(str(model), ["a"], weights="adapters", peft_config=lora())
    save_team(team, tmp_path / "team", env=ENV)
    folder = tmp_path / "team" / "a"
    load_model(AutoModelForCausalLM, str(folder))
    rewritten(folder / "adapter_model.safetensors", halved)
    with pytest.raises(ValueError, match="4 missing"):
        load_model(AutoModelForCausalLM, str(folder))
    save_team(team, tmp_path / "team", env=ENV)
    rewritten(model / FILE, halved)
    with pytest.raises(WeightsError, match="missing"):
        load_model(AutoModelForCausalLM, str(folder))


def test_a_team_that_lacks_an_adapter_is_refused(model: Path, tmp_path: Path):
    team = build_team_model(str(model), ["a"], weights="adapters", peft_config=lora())
    save_team(team, tmp_path, env=ENV)
    rewritten(tmp_path / "a" / "adapter_model.safetensors", lambda state: {})
    with pytest.raises(ValueError, match="8 missing"):
        load_team(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("weights", ["shared", "separate", "adapters"])
def test_a_team_that_is_not_whole_is_refused(model: Path, tmp_path: Path, weights: str):
    seats, config = ["a", "b"], lora() if weights == "adapters" else None
    team = build_team_model(str(model), seats, weights=weights, peft_config=config)
    for parameter in states(team):
        parameter.data.add_(torch.randn_like(parameter))
    saved = tmp_path / "team"
    save_team(team, saved, env=ENV)
    assert same(states(load_team(saved)), states(team))
    last = saved / team.policies[-1]
    file = next(last.glob("*.safetensors"))
    kept = file.read_bytes()
    for change, word in DAMAGES:
        rewritten(file, change)
        with pytest.raises(ValueError, match=word):
            load_team(saved)
        with pytest.raises(WeightsError, match=word):  # as a run that goes on does
            team.load_policy(team.policies[-1], last)
        file.write_bytes(kept)
    file.unlink()
    with pytest.raises(ValueError, match=r"safetensors|file named"):
        load_team(saved)


@pytest.mark.full
@pytest.mark.parametrize(
    "changes",
    [
        {"modules_to_save": ["norm"]},
        {"use_dora": True},
        {"lora_bias": True},
        {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 3}},
        {"target_modules": ["embed_tokens", "q_proj"]},
    ],
)
def test_adapters_of_all_kinds_load_bit_for_bit(model: Path, tmp_path: Path, changes: Any):
    config = lora()
    for name, value in changes.items():
        setattr(config, name, value)
    team = build_team_model(str(model), ["a", "b"], weights="adapters", peft_config=config)
    for parameter in states(team):
        parameter.data.add_(torch.randn_like(parameter))
    save_team(team, tmp_path / "team", env=ENV)
    assert same(states(load_team(tmp_path / "team")), states(team))
    rewritten(tmp_path / "team" / "b" / "adapter_model.safetensors", halved)
    with pytest.raises(ValueError, match="missing"):
        load_team(tmp_path / "team")


def test_adapters_of_another_rank_or_scale_are_refused(model: Path, tmp_path: Path):
    def saved(name: str, rank: int) -> Path:
        team = build_team_model(str(model), ["a", "b"], weights="adapters", peft_config=lora(rank))
        save_team(team, tmp_path / name, env=ENV)
        return tmp_path / name

    four, two = saved("four", 4), saved("two", 2)
    shutil.copytree(two / "b", four / "b", dirs_exist_ok=True)
    with pytest.raises(ValueError, match=r"another kind .*\(lora_alpha, r\)"):
        load_team(four)
    config = two / "b" / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "lora_alpha": 9}))
    with pytest.raises(ValueError, match=r"another kind .*\(lora_alpha\)"):
        load_team(two)


def test_critics_are_not_half_loaded(model: Path, tmp_path: Path):
    settings = CriticSettings(rate=0.01, steps=1, body=str(model))
    critic = ModelValue(settings, 0)
    kept = critic.save(tmp_path)
    critic.load(tmp_path, kept)
    with pytest.raises(WeightsError, match="bias"):
        critic.load(tmp_path, {**kept, "head": {"weight": kept["head"]["weight"]}})
    state = critic.state_dict()
    with pytest.raises(WeightsError, match="missing"):
        critic.load_state_dict({**state, "body": halved(dict(state["body"]))})
    words = TextValue(CriticSettings(rate=0.01, steps=1), 0)
    plain = words.state_dict()
    with pytest.raises(WeightsError, match="of another shape"):
        words.load_state_dict({**plain, "weights": [[0.0], *plain["weights"][1:]]})
    team = build_team_model(str(model), ["a", "b"], weights="adapters", peft_config=lora())
    heads = HeadValue(OwnSight(rate=0.01, steps=1, sees="own"), 0)
    heads.load(tmp_path, {"heads": {"a": [0.0] * 33}, "scale": heads.scale.state})
    with pytest.raises(WeightsError, match=r"1 missing \(b\)"):
        heads.attach(team)


@pytest.mark.full
@pytest.mark.parametrize(
    "change",
    [{"num_hidden_layers": 10**8}, {"hidden_size": 2**22}, {"vocab_size": 10**9}],
)
def test_a_configuration_of_a_giant_makes_none(model: Path, change: dict[str, int]):
    file = model / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    begun = time.monotonic()
    with pytest.raises(WeightsError, match="a larger model"):
        load_model(AutoModelForCausalLM, str(model))
    assert time.monotonic() - begun < 20


def test_the_error_names_three_and_no_more():
    with pytest.raises(WeightsError, match=r"5 missing \(k0, k1, k2, \.\.\.\), 1 unexpected \(x\)"):
        check_keys("m", missing=[f"k{i}" for i in range(5)], unexpected=["x"])
    with pytest.raises(WeightsError) as caught:
        check_keys("m", missing=["k" * 5000])
    assert len(str(caught.value)) < 300
