"""The gradient of one hand-made update equals the formula written out.

Two agents, two turns, two episodes with unequal lengths: the episodes of `drawn` are fixed, so the
advantages, the masks and the sum over tokens can be written down without the trainer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from models import make_trainer, tiny_tokenizer
from test_packing import group, turn
from toys import WordPair

TEMPERATURE = 0.8
LENGTH = 6


def drawn() -> Any:
    """Rewards 1 then 3 for the first episode; 2 and nothing more for the second."""
    eos = tiny_tokenizer().eos_token_id
    first = (
        turn("left_0", 0, [65, 66], [70, 71, eos], 1.0),
        turn("right_0", 0, [67], [80, eos], 1.0),
        turn("left_0", 1, [65, 66, 70, 71, eos, 68], [72, eos], 3.0),
        turn("right_0", 1, [67, 80, eos, 69, 70], [81, 82], 3.0),
    )
    second = (
        turn("left_0", 0, [65, 66], [73, eos], 2.0),
        turn("right_0", 0, [67], [83, 84, 85, eos], 2.0),
    )
    return group(first, second)


# Turn 0: returns 4 and 2, mean 3. Turn 1: the first episode is alone; its baseline is the running
# mean, 0 so far.
ADVANTAGES = {
    ("left_0", 0): (1.0, -1.0),
    ("left_0", 1): (3.0,),
    ("right_0", 0): (1.0, -1.0),
    ("right_0", 1): (3.0,),
}


def token_log_probs(
    trainer: Any, policy: str, prompt: tuple[int, ...], action: tuple[int, ...]
) -> Any:
    """Plain forward pass of one turn: no TRL, no padding, no batching."""
    trainer.team.activate(policy)
    ids = torch.tensor([[*prompt, *action]])
    logits = trainer.model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / TEMPERATURE
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(action)[:, None])[:, 0]


def written_out(
    trainer: Any, policies: dict[str, str], loss_type: str, beta: float = 0.0
) -> torch.Tensor:
    """The loss of every policy, summed (policies share no parameter).

    With `beta`, k3 of the KL to the start (Schulman 2020): exp(d) - d - 1, d = start - now.
    """
    total = torch.zeros(())
    for policy in trainer.team.policies:
        seats = [agent for agent in trainer.trained if policies[agent] == policy]
        rows: list[list[torch.Tensor]] = []
        for number, episode in enumerate(drawn().episodes):
            for agent in seats:
                weighted = []
                for one in episode.trajectory(agent):
                    response = one.response
                    logprobs = token_log_probs(
                        trainer, policy, response.prompt_ids, response.completion_ids
                    )
                    advantage = ADVANTAGES[agent, one.index][number]
                    weighted += [advantage * logprob for logprob in logprobs]
                    if beta:
                        with trainer.team.at_start(policy), torch.no_grad():
                            start = token_log_probs(
                                trainer, policy, response.prompt_ids, response.completion_ids
                            )
                        for i, d in enumerate(start - logprobs, start=len(weighted) - len(start)):
                            # TRL's default weighs k3 with the ratio new / old, which is 1 here
                            # but has a gradient (DeepSeek-V3.2, arXiv 2512.02556).
                            new = logprobs[i - len(weighted)]
                            ratio = torch.exp(new - new.detach())
                            weighted[i] = weighted[i] - beta * ratio * (torch.exp(d) - d - 1)
                rows.append(weighted)
        tokens = sum(len(row) for row in rows)
        if loss_type == "dr_grpo":
            total = total - sum(sum(row) for row in rows) / (len(rows) * LENGTH)
        elif loss_type == "luspo":
            total = total - sum(sum(row) for row in rows) / len(rows)
        elif loss_type in ("grpo", "sapo"):  # at ratio 1 the gate of SAPO has slope 1
            total = total - sum(sum(row) / len(row) for row in rows) / len(rows)
        else:
            total = total - sum(sum(row) for row in rows) / tokens
    return total


def gradients(trainer: Any) -> dict[str, torch.Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in trainer.model.named_parameters()
        if parameter.grad is not None
    }


def run_hand_made(trainer: Any) -> dict[str, torch.Tensor]:
    trainer.collector.play = lambda update, team: [renamed(trainer)]
    trainer.current_gradient_accumulation_steps = trainer.plan.total
    trainer.model.train()
    trainer.model.zero_grad()
    for _ in range(trainer.plan.total):
        batch = trainer._prepare_inputs(None)
        trainer.compute_loss(trainer.model, batch).backward()
        trainer._step += 1
    return gradients(trainer)


def renamed(trainer: Any) -> Any:
    """The drawn group, acted by the trainer's policies."""
    import dataclasses

    def rename(one: Any) -> Any:
        policy = trainer.team.policy_of[one.agent]
        return dataclasses.replace(one, response=dataclasses.replace(one.response, policy=policy))

    episodes = tuple(
        dataclasses.replace(e, agents=("left_0", "right_0"), turns=tuple(map(rename, e.turns)))
        for e in drawn().episodes
    )
    return dataclasses.replace(drawn(), episodes=episodes)


MODES: dict[str, dict[str, Any]] = {
    "adapters": {"adapters": True},
    "shared": {"adapters": False},
    "separate": {"adapters": False, "weights": "separate"},
}
SIZES: dict[str, Any] = {
    "num_generations": 2,
    "tasks_per_update": 1,
    "max_completion_length": LENGTH,
}


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert expected.keys() == found.keys()
    assert any(float(value.abs().max()) > 1e-4 for value in expected.values())
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=1e-7, rtol=1e-4), name


LOSSES = ["dr_grpo", "grpo", "luspo", "sapo", "dapo", "cispo"]


@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("checkpointing", [False, True], ids=["", "checkpointing"])
def test_gradient_is_the_formula(tmp_path: Path, mode: str, loss_type: str, checkpointing: bool):
    trainer = make_trainer(
        tmp_path,
        WordPair,
        loss_type=loss_type,
        rows_per_micro_batch=1,
        temperature=TEMPERATURE,
        gradient_checkpointing=checkpointing,
        epsilon_high=5.0,  # cispo caps the ratio, 1 here, at this number
        **SIZES,
        **MODES[mode],
    )
    if checkpointing:  # what the training loop does first
        trainer.model.gradient_checkpointing_enable()
    found = run_hand_made(trainer)
    trainer.model.zero_grad()
    if checkpointing:  # the formula runs all forwards before its backward, which PEFT cannot
        trainer.model.gradient_checkpointing_disable()
    written_out(trainer, trainer.team.policy_of, loss_type).backward()
    assert_same(found, gradients(trainer))


@pytest.mark.parametrize("mode", MODES)
def test_gradient_with_kl_is_the_formula(tmp_path: Path, mode: str):
    """Each policy towards its own start, which the weights have left."""
    trainer = make_trainer(
        tmp_path,
        WordPair,
        beta=0.3,
        rows_per_micro_batch=2,
        temperature=TEMPERATURE,
        **SIZES,
        **MODES[mode],
    )
    with torch.no_grad():
        for number, policy in enumerate(trainer.team.policies, start=1):
            for parameter in trainer.team.parameters(policy):
                parameter.add_(
                    0.03 * number * torch.sin(torch.arange(parameter.numel())).view_as(parameter)
                )
    found = run_hand_made(trainer)
    trainer.model.zero_grad()
    written_out(trainer, trainer.team.policy_of, "dr_grpo", beta=0.3).backward()
    assert_same(found, gradients(trainer))
    trainer.model.zero_grad()
    written_out(trainer, trainer.team.policy_of, "dr_grpo").backward()
    without = gradients(trainer)
    assert any(not torch.allclose(found[n], v, atol=1e-6) for n, v in without.items())


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_gradient_does_not_depend_on_the_split(tmp_path: Path, rows: int):
    one = make_trainer(tmp_path, WordPair, rows_per_micro_batch=2, **SIZES)
    other = make_trainer(tmp_path, WordPair, rows_per_micro_batch=rows, **SIZES)
    assert_same(run_hand_made(other), run_hand_made(one))


def test_which_tokens_get_a_gradient(tmp_path: Path):
    """The EOS that an agent sampled does; environment tokens, padding and prompts do not."""
    trainer = make_trainer(
        tmp_path,
        WordPair,
        rows_per_micro_batch=2,
        **SIZES,
    )
    trainer.collector.play = lambda update, team: [renamed(trainer)]
    trainer.current_gradient_accumulation_steps = trainer.plan.total
    trainer.model.train()
    batch = trainer._prepare_inputs(None)  # left_0: both episodes
    seen: dict[str, torch.Tensor] = {}
    original = trainer._get_per_token_logps_and_entropies

    def spy(*args: Any, **kwargs: Any) -> Any:
        logprobs, *rest = original(*args, **kwargs)
        logprobs.retain_grad()
        seen["logprobs"] = logprobs
        return logprobs, *rest

    trainer._get_per_token_logps_and_entropies = spy
    trainer.compute_loss(trainer.model, batch).backward()
    weight = seen["logprobs"].grad
    assert weight is not None
    #                     70     71     EOS    (env)  72    EOS
    assert weight[0].ne(0).tolist() == [True, True, True, False, True, True]
    #                     73     EOS    padding
    assert weight[1].ne(0).tolist() == [True, True, False, False, False, False]
    # A = 1 over 2 trajectories of 6 tokens at most, times -1.
    assert weight[0, 2].item() == pytest.approx(-1.0 / (2 * LENGTH))
    assert weight[0, 5].item() == pytest.approx(-3.0 / (2 * LENGTH))
