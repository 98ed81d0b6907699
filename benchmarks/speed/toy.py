"""What the benchmarks of speed train: a talk of any number of agents and turns, models, a clock.

The talk costs next to nothing, so that what is measured is the trainer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import torch
from peft import LoraConfig
from transformers import TrainerCallback

from llm_marl_envs.core.environment import TextParallelEnv, described
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task
from trainers.config import MAGRPOConfig
from trainers.trainer import MAGRPOTrainer
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer

TASKS = 64
SIZES = TinySettings(
    vocab_size=1000,
    hidden_size=128,
    num_layers=4,
    num_heads=4,
    intermediate_size=512,
    max_position_embeddings=16_384,
)
"""A Llama of 1.2 million parameters."""


def words(count: int) -> list[str]:
    """Made-up words."""
    rng = random.Random(0)
    return ["".join(rng.choices("abcdefghiklmnoprstu", k=6)) for _ in range(count)]


class Talk(TextParallelEnv):
    """Each agent is told a word and says something; the team is paid its share of vowels."""

    metadata: ClassVar[dict[str, Any]] = described("talk")
    reward_range = (0.0, 1.0)

    def __init__(self, *, agents: int = 2, turns: int = 1, render_mode: str | None = None) -> None:
        tasks = [Task(f"train/{word}", "train", {"word": word}) for word in words(TASKS)]
        super().__init__(
            agents=[f"talker_{number}" for number in range(agents)],
            source=ListSource(tasks, "train"),
            max_turns=turns,
            max_action_chars=100_000,
            render_mode=render_mode,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """The word."""
        told = Message("user", f"Your word is {task.data['word']}. Say more of it.")
        return dict.fromkeys(self.possible_agents, (told,))

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """The share of vowels, divided by the number of turns."""
        said = "".join(joint_action.values())
        share = sum(said.count(vowel) for vowel in "aeiou") / max(len(said), 1)
        return Outcome(
            reward_terms={a: {"vowels": share / self.max_turns} for a in joint_action},
            feedback=dict.fromkeys(joint_action, "More."),
            success=share > 0.5,
        )


def model_and_tokenizer(
    sizes: TinySettings = SIZES, texts: Sequence[str] | None = None
) -> tuple[Any, Any]:
    """An untrained model, and a tokenizer of these texts; of the talk's where None."""
    if texts is None:
        talk = ["user\nYour word is . Say more of it.\nMore.\nassistant\n"] * 50
        texts = [*talk, *words(4 * sizes.vocab_size)]
    tokenizer = build_tokenizer(list(texts), sizes.vocab_size)
    return build_model(tokenizer, 0, sizes), tokenizer


def lora() -> LoraConfig:
    """Rank 8 on every linear layer."""
    return LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")


def trainer(
    folder: str,
    mode: str,
    *,
    agents: int = 2,
    turns: int = 1,
    sizes: TinySettings = SIZES,
    env: Callable[[], Any] | None = None,
    texts: Sequence[str] | None = None,
    **changes: Any,
) -> MAGRPOTrainer:
    """A trainer in a weight mode, on a talk unless another `env`; `changes` are of its config."""
    model, tokenizer = model_and_tokenizer(sizes, texts)
    env = env or partial(Talk, agents=agents, turns=turns)
    settings: dict[str, Any] = {
        "weights": mode,
        "num_generations": 8,
        "tasks_per_update": 1,
        "rows_per_micro_batch": 10_000,
        "max_completion_length": 64,
        "learning_rate": 1e-4,
        "lr_scheduler_type": "constant",
        "transcript_every": 0,
        "disable_tqdm": True,
        "use_cpu": True,
        **changes,
    }
    models: Any = model
    if mode == "separate":
        seats = env().possible_agents
        models = {seat: model_and_tokenizer(sizes, texts)[0] for seat in seats}
    return MAGRPOTrainer(
        models,
        env,
        MAGRPOConfig(folder, **settings),
        peft_config=lora() if mode == "adapters" else None,
        processing_class=tokenizer,
    )


class Clock(TrainerCallback):
    """Process seconds of each update, from one end to the next; between updates, other jobs.

    Attributes:
        seconds: "update" and name of a job -> its process seconds, one per update. The first
            update is not counted.
    """

    def __init__(self, jobs: Mapping[str, Callable[[], object]]) -> None:
        self.jobs = dict(jobs)
        self.seconds: dict[str, list[float]] = {name: [] for name in ("update", *jobs)}
        self.begun = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start."""
        self.begun = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the update, run and note each job."""
        self.seconds["update"].append(time.process_time() - self.begun)
        for name, job in self.jobs.items():
            begun = time.process_time()
            job()
            self.seconds[name].append(time.process_time() - begun)
        self.begun = time.process_time()


def measured(
    mode: str, jobs: Mapping[str, Callable[[], object]], repetitions: int, **changes: Any
) -> dict[str, list[float]]:
    """Process seconds of updates, and of the jobs that take turns with them; see `trainer`."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        run = trainer(folder, mode, max_steps=repetitions + 1, **changes)
        clock = Clock(jobs)
        run.add_callback(clock)
        run.train()
    return {name: found[1:] for name, found in clock.seconds.items()}
