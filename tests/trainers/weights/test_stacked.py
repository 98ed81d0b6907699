"""Rows of several adapters in one pass: what PEFT's own pass computes, and nothing left behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import IA3Config, LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from support.models import DEEP, lora, make_trainer, small, tiny_tokenizer, untrained
from support.toys import Lower
from transformers import GPT2LMHeadModel

from trainers.engines.base import Draw, Drawn
from trainers.engines.generate import GenerateEngine
from trainers.weights.adapters import AdapterWeights
from trainers.weights.stacked import stacked, why_not_stacked
from trainers.weights.team_files import build_team_model

pytestmark = pytest.mark.full  # `make test-all` runs it

SEATS = ("a_0", "b_0", "c_0")
LINEAR = ["q_proj", "v_proj", "down_proj"]


def stir(model: torch.nn.Module) -> None:
    """Make every adapter differ from its start and from the others."""
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)


def team_of(config: Any, seats: Sequence[str] = SEATS) -> AdapterWeights:
    """A team of untrained weights, one adapter per seat."""
    model, tokenizer = untrained(sizes=DEEP)
    team = build_team_model(
        model, list(seats), weights="adapters", peft_config=config, tokenizer=tokenizer
    )
    stir(team.module)
    assert isinstance(team, AdapterWeights)
    return team


def draws_of(team: AdapterWeights, count: int, start: bool = False) -> list[Draw]:
    """Draws of prompts of several lengths, unevenly many of each policy, in no order."""
    seats = [team.policies[(i * i) % len(team.policies)] for i in range(count)]
    return [
        Draw(seat, tuple(range(65, 68 + i % 7)), 1000 + i, start) for i, seat in enumerate(seats)
    ]


def sampled(team: AdapterWeights, draws: Sequence[Draw], size: int | None = None) -> list[Drawn]:
    return GenerateEngine(team, size).sample(draws, max_tokens=6, temperature=1.0)


def scored(team: AdapterWeights, draw: Draw, drawn: Drawn) -> torch.Tensor:
    """Log-probs of the sampled tokens by a plain pass of the draw's policy."""
    team.activate(draw.policy)
    with torch.no_grad():
        ids = torch.tensor([[*draw.prompt_ids, *drawn.ids]])
        logits = team.module(input_ids=ids).logits[0, len(draw.prompt_ids) - 1 : -1]
    return logits.log_softmax(-1).gather(1, torch.tensor(drawn.ids)[:, None])[:, 0]


# -- the numbers -----------------------------------------------------------------------------------
def gpt2() -> Any:
    return small(GPT2LMHeadModel, tiny_tokenizer(), num_hidden_layers=2)


def llama() -> Any:
    return untrained(sizes=DEEP)[0]


PATTERNS: dict[str, Any] = {"rank_pattern": {"q_proj": 7}, "alpha_pattern": {"v_proj": 3}}
COVERED = {
    "lora": (llama, [lora()] * 2),
    "three adapters": (llama, [lora()] * 3),
    "rslora": (llama, [LoraConfig(r=3, lora_alpha=5, target_modules=LINEAR, use_rslora=True)] * 3),
    "patterns": (llama, [LoraConfig(r=2, target_modules=LINEAR, **PATTERNS)] * 2),
    "dropout": (llama, [LoraConfig(r=4, target_modules=LINEAR, lora_dropout=0.5)] * 2),
    "every linear layer": (llama, [LoraConfig(r=4, target_modules="all-linear")] * 2),
    "other ranks, scales and layers": (
        llama,
        [
            LoraConfig(r=1, lora_alpha=3, target_modules=["q_proj"]),
            LoraConfig(r=6, lora_alpha=2, target_modules=LINEAR, use_rslora=True),
            LoraConfig(r=2, target_modules=["up_proj"]),
        ],
    ),
    "embeddings": (llama, [LoraConfig(r=4, target_modules=["q_proj", "embed_tokens"])] * 2),
    "conv1d": (gpt2, [LoraConfig(r=4, target_modules=["c_attn", "c_proj"])] * 2),
    "the head": (llama, [LoraConfig(r=4, target_modules=["v_proj", "lm_head"])] * 2),
}
ROWS = {"even": [0, 0, 0, 1, 1, 1], "mixed": [1, 0, 1, 0, 1, 0], "uneven": [0, 2, 0, 0, 1, 0]}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", COVERED)
@pytest.mark.filterwarnings("ignore:.*tie:UserWarning")
def test_logits_are_those_of_peft(kind: str, rows: str):
    make, configs = COVERED[kind]
    torch.manual_seed(0)
    model: Any = get_peft_model(make(), configs[0], adapter_name=SEATS[0])
    for name, config in zip(SEATS[1:], configs[1:], strict=False):
        model.add_adapter(name, config)
    model.eval()
    stir(model)
    names = [SEATS[row % len(configs)] for row in ROWS[rows]]
    ids = torch.randint(3, 250, (len(names), 9), generator=torch.Generator().manual_seed(0))
    assert why_not_stacked(model) is None
    with torch.no_grad():
        expected = model(input_ids=ids, adapter_names=names).logits
        with stacked(model, names):
            logits = model(input_ids=ids).logits
        other = model(input_ids=ids, adapter_names=names[1:] + names[:1]).logits
    assert torch.allclose(logits, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(other, expected, atol=1e-3), "the adapters do not differ"


def test_a_base_in_half_precision():
    """PEFT keeps the adapters in float32 beside it."""
    model, _ = untrained(sizes=DEEP)
    peft: Any = get_peft_model(model.to(torch.bfloat16), lora(), adapter_name=SEATS[0])
    peft.add_adapter(SEATS[1], lora())
    peft.eval()
    stir(peft)
    names = [SEATS[0], SEATS[1], SEATS[1]]
    ids = torch.tensor([[65, 66, 67]] * 3)
    with torch.no_grad():
        expected = peft(input_ids=ids, adapter_names=names).logits
        with stacked(peft, names):
            logits = peft(input_ids=ids).logits
    assert logits.dtype == expected.dtype
    assert torch.allclose(logits.float(), expected.float(), atol=3e-2)


@pytest.mark.parametrize("size", [None, 5])
def test_tokens_are_those_of_one_batch_for_each_policy(size: int | None):
    team = team_of(lora())
    draws = draws_of(team, 90)
    actions = sampled(team, draws, size)
    for policy in team.policies:
        own = [i for i, draw in enumerate(draws) if draw.policy == policy]
        alone = sampled(team, [draws[i] for i in own])
        assert [actions[i].ids for i in own] == [action.ids for action in alone]
    assert len({action.ids for action in actions}) > 60
    with team.evaluating():
        for draw, action in zip(draws[:20], actions, strict=False):
            assert torch.allclose(
                scored(team, draw, action), torch.tensor(action.logprobs), atol=1e-5
            )


def test_log_probs_are_those_that_the_trainer_scores(tmp_path: Path):
    trainer = make_trainer(tmp_path, Lower, sizes=DEEP)
    stir(trainer.team.module)
    for batch in trainer._new_batches():
        with trainer.team.evaluating():
            again = trainer._log_probs(batch)
        own = batch["tool_mask"].bool()
        assert own.any()
        assert torch.allclose(again[own], batch["sampling_per_token_logps"][own], atol=1e-5)


# -- weights that change ---------------------------------------------------------------------------
def test_weights_are_read_anew_for_each_sample():
    team = team_of(lora())
    draws = draws_of(team, 12)
    before = sampled(team, draws)
    team.remember_start(team.policies)
    stir(team.module)
    after = sampled(team, draws)
    assert [action.ids for action in after] != [action.ids for action in before]
    started = draws_of(team, 12, start=True)
    assert sampled(team, started) == before
    both = sampled(team, [*draws, *started])
    assert [action.ids for action in both] == [action.ids for action in [*after, *before]]
    assert sampled(team, draws) == after


# -- what is not stacked ---------------------------------------------------------------------------
MIXED = {
    "trained biases": LoraConfig(r=2, target_modules=["q_proj"], lora_bias=True),
    "a variant": LoraConfig(r=2, target_modules=["q_proj"], alora_invocation_tokens=[65]),
}
EACH = {
    "dora": LoraConfig(r=2, target_modules=["q_proj"], use_dora=True),
    "saved modules": LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["norm"]),
    "target parameters": LoraConfig(r=2, target_parameters=["q_proj.weight"], target_modules=[]),
    "ia3": IA3Config(target_modules=["k_proj", "v_proj"], feedforward_modules=[]),
}


@pytest.mark.parametrize("kind", [*MIXED, *EACH])
@pytest.mark.filterwarnings("ignore:`lora_bias=True` was passed")
def test_other_adapters_are_sampled_by_their_own_pass(kind: str):
    team = team_of({**MIXED, **EACH}[kind], SEATS[:2])
    names = list(SEATS[:2]) * 2
    batches = team.sampling_batches(names)
    assert len(batches) == (1 if kind in MIXED else 2)
    if kind in MIXED:
        assert why_not_stacked(team.module)
        with team.evaluating(), team.acting(names) as kwargs:
            assert kwargs == {"adapter_names": names}
    draws = draws_of(team, 8)
    with team.evaluating():
        for draw, drawn in zip(draws, sampled(team, draws), strict=True):
            assert torch.allclose(
                scored(team, draw, drawn), torch.tensor(drawn.logprobs), atol=1e-5
            )


def test_layers_that_someone_changed_are_left_to_peft():
    team = team_of(lora())
    layer: Any = next(module for module in team.module.modules() if isinstance(module, LoraLayer))
    layer.merge([SEATS[0]])
    assert "merged" in (why_not_stacked(team.module) or "")
    with pytest.raises(ValueError, match="merged adapters"):
        sampled(team, draws_of(team, 4))
    layer.unmerge()
    assert why_not_stacked(team.module) is None
    layer.forward = layer.base_layer.forward
    assert "forward of its own" in (why_not_stacked(team.module) or "")


def test_one_policy_needs_no_stack():
    team = team_of(lora())
    [batch] = team.sampling_batches(["b_0", "b_0"])
    with team.acting(batch.policies) as kwargs:
        assert kwargs == {}
        assert untouched(team)
        assert team.module.active_adapter == "b_0"


# -- what is left behind ---------------------------------------------------------------------------
def untouched(team: AdapterWeights) -> bool:
    """Whether every module has the forward pass of its class, and no hook."""
    return not any("forward" in vars(m) or m._forward_hooks for m in team.module.modules())


def saved(team: AdapterWeights, folder: Path) -> dict[str, bytes]:
    for policy in team.policies:
        team.save_policy(policy, folder / policy)
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_nothing_is_left_on_the_model(tmp_path: Path):
    team = team_of(lora())
    files = saved(team, tmp_path / "before")
    state = {name: value.clone() for name, value in team.module.state_dict().items()}
    with team.evaluating(), team.acting(["a_0", "b_0"]):
        assert not untouched(team)
        assert saved(team, tmp_path / "inside") == files
    sampled(team, draws_of(team, 6))
    assert untouched(team)
    after = team.module.state_dict()
    assert after.keys() == state.keys()
    assert all(torch.equal(after[name], value) for name, value in state.items())
    assert saved(team, tmp_path / "after") == files
    assert all(p.requires_grad for policy in SEATS for p in team.parameters(policy))


def test_an_error_while_sampling_leaves_the_model_as_it_was():
    team = team_of(lora())
    draws = draws_of(team, 6)
    before = sampled(team, draws)
    team.module.train()
    with pytest.raises(IndexError):
        sampled(team, [*draws, Draw("a_0", (10**6,), 0)])
    assert untouched(team)
    assert team.module.training
    assert sampled(team, draws) == before


def test_misuse_is_named():
    team = team_of(lora())
    team.module.train()
    with pytest.raises(ValueError, match=r"call eval\(\)"), stacked(team.module, ["a_0"]):
        pass
    team.module.eval()
    ids = torch.tensor([[65, 66]] * 3)
    with (
        stacked(team.module, ["a_0", "b_0"]),
        pytest.raises(ValueError, match="expected 2 rows of tokens"),
    ):
        team.module(input_ids=ids)
    assert untouched(team)
