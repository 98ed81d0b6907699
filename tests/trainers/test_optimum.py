"""Training reaches the optimum of games that can be enumerated.

Two agents say one of three words. The model is warm-started to say each about equally often, so the
policy is a table of probabilities in disguise: they are computed exactly from the weights, before
and after, and so is the expected return of the team. The second game has a second turn, unless both
said "ape" at the first, which ends the episode and forgoes what the second turn pays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from support.models import settings

from llm_marl_envs.core.environment import Outcome, TextParallelEnv
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task
from trainers.trainer import MAGRPOTrainer
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer, warm_start

pytestmark = pytest.mark.full  # `make test-all` runs it

# The words of each turn.
WORDS = (("ape", "bee", "cow"), ("dog", "elk", "fox"))
AGENTS = ("left_0", "right_0")
# Turns of the game -> what a joint action pays: (turn, left's word, right's word).
PAYS = {
    1: np.array([[[1.0, 0.0, 0.2], [0.1, 0.6, 0.0], [0.0, 0.2, 0.4]]]),
    2: np.array(
        [
            [[0.4, 0.2, 0.0], [0.2, 0.6, 0.3], [0.0, 0.3, 0.0]],
            [[0.0, 0.3, 0.0], [0.2, 0.0, 0.1], [0.0, 0.4, 1.5]],
        ]
    ),
}
SIZES = TinySettings(
    vocab_size=280, hidden_size=32, num_layers=2, num_heads=2, intermediate_size=64, steps=150
)


class Game(TextParallelEnv):
    """Both say a word; the team is paid by the table; other texts pay nothing and end it."""

    metadata: ClassVar[dict[str, Any]] = {"name": "game"}
    reward_range = (0.0, 2.1)

    def __init__(self, turns: int) -> None:
        super().__init__(
            agents=AGENTS,
            source=ListSource([Task("only", "train", {})], "train"),
            max_turns=turns,
            max_action_chars=20,
            render_mode=None,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        return {agent: (Message("user", agent),) for agent in AGENTS}

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        turn = self._taken[AGENTS[0]] - 1
        said = [joint_action[agent] for agent in AGENTS]
        if not set(said) <= set(WORDS[turn]):
            return Outcome(reward_terms={}, ended=True)
        left, right = (WORDS[turn].index(word) for word in said)
        pay = float(PAYS[self.max_turns][turn, left, right])
        return Outcome(
            reward_terms={agent: {"table": pay} for agent in AGENTS},
            feedback=dict.fromkeys(AGENTS, "more"),
            ended=left == right == 0,
        )


def best_return(turns: int) -> float:
    values = PAYS[turns][0].copy()
    if turns == 2:
        values += PAYS[2][1].max()
        values[0, 0] = PAYS[2][0, 0, 0]  # ends the episode
    return float(values.max())


@torch.no_grad()
def word_probabilities(
    trainer: MAGRPOTrainer, agent: str, messages: list[Message], turn: int
) -> np.ndarray:
    """Exact probability of each of the turn's words as a whole action, (3,)."""
    policy = trainer.team.policy_of[agent]
    trainer.team.activate(policy)
    tokenizer = trainer.team.tokenizers[policy]
    prompt = trainer.token_policy.chats[policy].opening(messages)
    found = []
    for word in WORDS[turn]:
        action = [*tokenizer(word, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        logits = trainer.team.module(input_ids=torch.tensor([[*prompt, *action]])).logits[0]
        chosen = torch.log_softmax(logits[len(prompt) - 1 : -1], -1)
        found.append(float(chosen.gather(1, torch.tensor(action)[:, None]).sum().exp()))
    return np.array(found)


def expected_return(trainer: MAGRPOTrainer, turns: int) -> float:
    """By enumeration of all joint actions."""
    opening = {agent: [Message("user", agent)] for agent in AGENTS}
    left, right = (word_probabilities(trainer, agent, opening[agent], 0) for agent in AGENTS)
    value = float(left @ PAYS[turns][0] @ right)
    for i, j in np.ndindex(3, 3) if turns == 2 else ():
        if i == j == 0:
            continue
        later = [
            word_probabilities(
                trainer,
                agent,
                [*opening[agent], Message("assistant", WORDS[0][k]), Message("user", "more")],
                1,
            )
            for agent, k in zip(AGENTS, (i, j), strict=True)
        ]
        value += float(left[i] * right[j] * (later[0] @ PAYS[2][1] @ later[1]))
    return value


@pytest.fixture(scope="module")
def speaker() -> tuple[Any, Any]:
    """A model that says each word about equally often at both turns."""
    demonstrations = []
    for agent in AGENTS:
        chat = [{"role": "user", "content": agent}]
        for first in WORDS[0]:
            demonstrations.append((chat, first))
            more = [*chat, {"role": "assistant", "content": first}]
            for word in WORDS[1]:
                demonstrations.append(([*more, {"role": "user", "content": "more"}], word))
    tokenizer = build_tokenizer([*AGENTS, *WORDS[0], *WORDS[1], "more"] * 5, SIZES.vocab_size)
    model = build_model(tokenizer, 0, SIZES)
    warm_start(model, tokenizer, demonstrations, 0, SIZES)
    return model, tokenizer


def trained(folder: Path, speaker: Any, turns: int, **changes: Any) -> tuple[Any, float, float]:
    import copy

    model, tokenizer = speaker
    sizes = {"tasks_per_update": 2, "num_generations": 16, "rows_per_micro_batch": 64}
    trainer = MAGRPOTrainer(
        copy.deepcopy(model),
        lambda: Game(turns),
        settings(folder, max_completion_length=4, **{**sizes, **changes}),
        processing_class=tokenizer,
    )
    before = expected_return(trainer, turns)
    trainer.train()
    return trainer, before, expected_return(trainer, turns)


@pytest.mark.parametrize(
    ("turns", "best", "weights"),
    [
        (1, 1.0, "separate"),
        pytest.param(2, 2.1, "shared", marks=pytest.mark.long),
        pytest.param(1, 1.0, "shared", marks=pytest.mark.long),
        pytest.param(2, 2.1, "separate", marks=pytest.mark.long),
    ],
)
def test_training_reaches_the_optimum(
    tmp_path: Path, speaker: Any, turns: int, best: float, weights: str
):
    _, before, after = trained(
        tmp_path,
        speaker,
        turns,
        max_steps=120 * turns,
        # From 2e-3 on, most seeds leave the words at once on some processors: then nothing is paid,
        # and nothing is learned. At 1e-3 eleven of eleven runs ended at 0.967 and more of the best.
        learning_rate=1e-3,
        weights=weights,
    )
    assert best_return(turns) == pytest.approx(best)
    assert before < 0.4 * best, "the game must not be won before training"
    assert after > 0.95 * best  # the next best cell of the first game pays 0.6


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "size"),
    [("magrpo_tree", 4), ({"name": "c3_sim", "alternatives": 4}, 4)],
)
def test_branches_lead_to_the_optimum(tmp_path: Path, speaker: Any, algorithm: Any, size: int):
    """Few episodes of a task are played from the reset, so steps are smaller than above."""
    _, _, after = trained(
        tmp_path,
        speaker,
        2,
        algorithm=algorithm,
        num_generations=size,
        max_steps=200,
        learning_rate=7e-4,
        weights="separate",
        seed=1,
    )
    assert after > 0.9 * 2.1
