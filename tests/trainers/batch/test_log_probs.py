"""Log-probs, entropies and gradients are TRL's, to the last bit."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from trl.kernels import ChunkedLogProbFunction
from trl.kernels.chunked_logprob import TOKEN_CHUNK_SIZE
from trl.trainer import utils

from trainers.batch import log_probs
from trainers.batch.log_probs import InPlaceLogProbs, in_place

H, V = 16, 50


def inputs(tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    hidden = torch.randn(tokens, H, generator=generator).requires_grad_()
    weight = torch.randn(V, H, generator=generator).requires_grad_()
    return hidden, weight, torch.randint(0, V, (tokens,), generator=generator)


def outcome(tokens: int, temperature: float, weighed: str) -> list[torch.Tensor]:
    """Log-probs, entropies and both gradients, by whatever stands at TRL's place."""
    hidden, weight, targets = inputs(tokens)
    function = getattr(utils, log_probs.PLACE)
    names = ("log_probs", "entropy")
    settings = (temperature, 32768, None, 1.0, names)
    values = function.apply(hidden, weight, None, targets, *settings)[:2]
    by_name: dict[str, torch.Tensor] = dict(zip(names, values, strict=True))
    factors = torch.randn(tokens, generator=torch.Generator().manual_seed(1))
    sum(((by_name[name] * factors).sum() for name in weighed.split()), torch.zeros(())).backward()
    assert hidden.grad is not None
    assert weight.grad is not None
    return [*(value.detach() for value in by_name.values()), hidden.grad, weight.grad]


def applied(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> Any:
    return InPlaceLogProbs.apply(hidden, weight, targets, 1.0)


@pytest.mark.parametrize("tokens", [1, 37, TOKEN_CHUNK_SIZE + 3])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("weighed", ["log_probs", "entropy", "log_probs entropy"])
def test_every_bit_is_trls(tokens: int, temperature: float, weighed: str):
    theirs = outcome(tokens, temperature, weighed)
    with in_place():
        ours = outcome(tokens, temperature, weighed)
    for value, other in zip(ours, theirs, strict=True):
        assert torch.equal(value, other)


def test_by_hand():
    """One hidden number 1, logits 0 and log 3: probabilities 1/4 and 3/4."""
    hidden = torch.ones(1, 1, requires_grad=True)
    weight = torch.tensor([[0.0], [math.log(3.0)]], requires_grad=True)
    logprobs, entropy = applied(hidden, weight, torch.tensor([1]))
    assert logprobs.item() == pytest.approx(-0.2876821)
    assert entropy.item() == pytest.approx(0.5623351)
    logprobs.sum().backward()
    assert weight.grad is not None
    assert weight.grad.flatten().tolist() == pytest.approx([-0.25, 0.25])


def test_a_second_backward_gives_the_same():
    hidden, weight, targets = inputs(5)
    logprobs, _ = applied(hidden, weight, targets)
    first = torch.autograd.grad(logprobs.sum(), weight, retain_graph=True)
    assert torch.equal(*first, *torch.autograd.grad(logprobs.sum(), weight))


def test_other_heads_are_left_to_trl(monkeypatch: pytest.MonkeyPatch):
    """A bias, a soft cap, a scale, half precision, more words than a tile, other outputs."""
    asked: list[bool] = []
    theirs = ChunkedLogProbFunction.apply
    monkeypatch.setattr(
        ChunkedLogProbFunction, "apply", lambda *args: [asked.append(True), theirs(*args)][1]
    )
    hidden, weight, targets = inputs(5)
    plain = [hidden, weight, None, targets, 1.0, 32768, None, 1.0, ("log_probs",)]
    half = [hidden.bfloat16(), weight.bfloat16()]
    others = [
        [*half, *plain[2:]],
        [*plain[:2], torch.ones(V), *plain[3:]],
        [*plain[:5], V - 1, *plain[6:]],
        [*plain[:6], 30.0, *plain[7:]],
        [*plain[:7], 2.0, *plain[8:]],
        [*plain[:8], ("log_probs", "is_top1")],
    ]
    with in_place():
        function = getattr(utils, log_probs.PLACE)
        assert function.apply(*plain)[1] is None
        assert not asked
        for args in others:
            function.apply(*args)
    assert len(asked) == len(others)
    assert getattr(utils, log_probs.PLACE) is ChunkedLogProbFunction
