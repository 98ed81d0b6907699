"""A task that a tiny model learns in seconds, and a model that knows half of it.

Two seats; the team is paid the share of digits in the first four letters of each. The model writes
four letters, about half of them digits.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

from llm_marl_envs.core import TextParallelEnv, described
from llm_marl_envs.outcome import Outcome
from llm_marl_envs.spaces import Message
from llm_marl_envs.tasks import ListSource, Task
from trainers.models.tiny import TinySettings, build_model, build_tokenizer, warm_start

DIGITS = "0123456789"
LETTERS = "01234567abcdefgh"


class Digits(TextParallelEnv):
    """See the module; each turn pays the share of its own texts, over the number of turns."""

    metadata: ClassVar[dict[str, Any]] = described("digits")
    reward_range = (0.0, 1.0)

    def __init__(self, *, turns: int = 1, render_mode: str | None = None) -> None:
        tasks = [Task(f"train/{number}", "train", {}) for number in range(64)]
        super().__init__(
            agents=["a_0", "b_0"],
            source=ListSource(tasks, "train"),
            max_turns=turns,
            max_action_chars=16,
            render_mode=render_mode,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        told = (Message("user", "Write four digits."),)
        return dict.fromkeys(self.possible_agents, told)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        shares = [sum(c in DIGITS for c in text[:4]) / 4 for text in joint_action.values()]
        share = sum(shares) / len(shares)
        return Outcome(
            reward_terms={agent: {"digits": share / self.max_turns} for agent in joint_action},
            feedback=dict.fromkeys(joint_action, "Again."),
            success=share == 1,
        )


@cache
def half_knowing() -> str:
    """The folder of the model, made once per process."""
    rng = random.Random(0)

    def word() -> str:
        return "".join(rng.choice(LETTERS) for _ in range(4))

    told = {"role": "user", "content": "Write four digits."}
    shown: list[Any] = []
    for number in range(400):
        again = [{"role": "assistant", "content": word()}, {"role": "user", "content": "Again."}]
        shown.append(([told, *(again if number % 2 else [])], word()))
    sizes = TinySettings(
        hidden_size=64,
        num_heads=2,
        intermediate_size=64,
        num_layers=1,
        steps=60,
        learning_rate=1e-2,
        max_position_embeddings=256,
    )
    tokenizer = build_tokenizer(["user\nWrite four digits.\nassistant\nAgain.\n"] * 9, 290)
    model = build_model(tokenizer, 0, sizes)
    warm_start(model, tokenizer, shown, 0, sizes)
    folder = Path(mkdtemp(prefix="half_knowing_"))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
