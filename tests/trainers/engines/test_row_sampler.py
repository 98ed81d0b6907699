"""Sampling belongs to the row: exact distribution, no influence of neighbours."""

from __future__ import annotations

import math
from typing import Any

import torch
from support.models import untrained

from llm_marl_envs.core.records import Request
from llm_marl_envs.core.spaces import Message
from trainers.engines.generate import GenerateEngine
from trainers.engines.row_sampler import RowSampler, gumbel_noise
from trainers.policies.token_policy import TokenPolicy
from trainers.weights.team_model import FullWeights


def request(text: str, seed: int, episode: int = 0, agent: str = "left_0") -> Request:
    return Request(
        env_id="test",
        agent=agent,
        turn=0,
        episode=episode,
        task_id="",
        messages=(Message("user", text),),
        observation=text,
        seed=seed,
    )


def test_gumbel_argmax_samples_the_softmax():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, -30.0])
    n = 200_000
    noise = gumbel_noise(torch.arange(n) * 7919 + 5, 3, 5)
    counts = torch.bincount((logits + noise).argmax(dim=1), minlength=5).double()
    expected = torch.softmax(logits, 0).double() * n
    chi_square = ((counts - expected)[:4] ** 2 / expected[:4]).sum()
    assert chi_square < 16.3  # 3 degrees of freedom, p = 0.001
    assert counts[4] == 0


SEEDS = torch.tensor([0, 1, 2, 3, 4, 255, 2**31, 2**62 + 1, 4294491576641134471])


def test_noise_differs_by_seed_position_and_token():
    """Rows have nothing in common, nor has a row with the next tokens of any."""
    rows = torch.cat([gumbel_noise(SEEDS, position, 4001) for position in range(16)])
    assert torch.isfinite(rows).all()
    related = torch.corrcoef(rows[:, 1:])
    assert float((related - torch.eye(len(rows))).abs().max()) < 0.1
    shifted = torch.corrcoef(torch.cat([rows[:, 1:], rows[:, :-1]]))[len(rows) :, : len(rows)]
    assert float(shifted.abs().max()) < 0.1
    assert torch.isfinite(gumbel_noise(torch.arange(20_000), 0, 50)).all()


def test_noise_is_splitmix64_in_plain_integers():
    """A resumed run goes on with the noise that it began with, whatever computes it."""
    bound, golden = 2**64, 0x9E3779B97F4A7C15

    def mix(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % bound
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % bound
        return x ^ (x >> 31)

    seeds, position = SEEDS.clone(), 5
    noise = gumbel_noise(seeds, position, 7)
    assert torch.equal(seeds, SEEDS)
    for row, seed in enumerate(SEEDS.tolist()):
        first = mix((seed + (position + 1) * golden) % bound)
        for token in range(7):
            bits = mix((first + (token + 1) * golden) % bound) >> 41
            expected = -math.log(-math.log((bits + 0.5) / 2**23))
            assert abs(float(noise[row, token]) - expected) < 1e-5


def test_noise_of_a_row_knows_no_other_row():
    together = gumbel_noise(SEEDS, 3, 100)
    assert torch.equal(gumbel_noise(SEEDS.flip(0), 3, 100), together.flip(0))
    for row, seed in enumerate(SEEDS):
        assert torch.equal(gumbel_noise(seed[None], 3, 100)[0], together[row])


def test_every_token_of_a_batch_is_sampled_with_noise_of_its_own():
    """Five calls with the same scores; a row alone gets what it got among others."""
    scores = torch.zeros(len(SEEDS), 4000)
    no_ids: Any = torch.zeros(len(SEEDS), 1, dtype=torch.long)

    def keys(rows: slice) -> torch.Tensor:
        sampler = RowSampler(SEEDS[rows], 1.0)
        return torch.stack([sampler(no_ids[rows], scores[rows]) for _ in range(5)])  # (T, B, V)

    together = keys(slice(None))
    related = torch.corrcoef(together.flatten(0, 1))
    assert float((related - torch.eye(len(related))).abs().max()) < 0.1
    for row in range(len(SEEDS)):
        assert torch.equal(keys(slice(row, row + 1))[:, 0], together[:, row])


def test_greedy_adds_no_noise_and_reports_log_probs():
    sampler = RowSampler(torch.tensor([1]), 0.0)
    scores = torch.tensor([[0.0, 3.0, 1.0]])
    no_ids: Any = torch.zeros(1, 1, dtype=torch.long)
    picked = sampler(no_ids, scores).argmax(dim=-1, keepdim=True)
    assert picked.item() == 1
    logprobs = sampler.logprobs(torch.cat([no_ids, picked], dim=1))
    assert torch.allclose(logprobs, torch.log_softmax(scores, -1)[:, 1:2])


def test_a_row_does_not_depend_on_its_neighbours():
    model, tokenizer = untrained()
    policy = TokenPolicy(
        FullWeights(model, tokenizer, ["left_0", "right_0"]), max_completion_length=8
    )
    texts = ["Your word: apple", "fig", "Your word: cedar\nSay your word."]
    together = policy.act([request(text, seed=i, episode=i) for i, text in enumerate(texts)])
    for i, text in enumerate(texts):
        alone = policy.act([request(text, seed=i)])[0]
        assert alone.completion_ids == together[i].completion_ids
    halves = TokenPolicy(
        policy.team, max_completion_length=8, engine=GenerateEngine(policy.team, 2)
    )
    again = halves.act([request(text, seed=i, episode=i) for i, text in enumerate(texts)])
    assert [r.completion_ids for r in again] == [r.completion_ids for r in together]


def test_behaviour_log_probs_are_those_of_the_model():
    model, tokenizer = untrained()
    policy = TokenPolicy(
        FullWeights(model, tokenizer, ["left_0"]), max_completion_length=8, temperature=0.7
    )
    response = policy.act([request("Your word: elder", seed=9)])[0]
    assert response.prompt_ids
    assert response.completion_ids
    assert response.logprobs
    ids: Any = torch.tensor([[*response.prompt_ids, *response.completion_ids]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, len(response.prompt_ids) - 1 : -1] / 0.7
    expected = torch.log_softmax(logits, -1).gather(
        1, torch.tensor(response.completion_ids)[:, None]
    )
    assert torch.allclose(torch.tensor(response.logprobs), expected[:, 0], atol=1e-5)


def test_a_cut_action_is_marked_and_an_ended_one_keeps_its_eos():
    model, tokenizer = untrained()
    team = FullWeights(model, tokenizer, ["left_0"])
    policy = TokenPolicy(team, max_completion_length=4)
    responses = policy.act([request("fig", seed=i, episode=i) for i in range(400)])
    ended = [r for r in responses if not r.cut]
    assert ended, "one of 400 samples of an untrained model should stop early"
    for response in responses:
        assert response.completion_ids
        assert len(response.completion_ids) == len(response.logprobs or ())
        assert (response.completion_ids[-1] == tokenizer.eos_token_id) is not response.cut
        assert tokenizer.eos_token not in response.text
