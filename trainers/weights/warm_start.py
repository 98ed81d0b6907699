"""A warm start of any model: it learns what scripted experts say, by TRL's `SFTTrainer`.

    llm-marl warm-start --model models/smollm2 coop_coding-v0 models/coder

Experts follow several conventions at random, so each seat becomes competent and the team is not
coordinated: what is left to learn is to agree. The result is an ordinary Transformers folder, LoRA
merged into it, with `warm_start.json`, which says what the model was shown.

The embedded model has a loop of its own (`tiny.py`): at its size `SFTTrainer` takes 1.4 times as
long, and every recorded number of that model would move.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from pydantic import Field
from transformers import PrinterCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from llm_marl_envs.core.options import Options
from llm_marl_envs.files.cache import (
    cache_folder,
    fingerprint,
    is_made,
    key_of,
    made_once,
    written_whole,
)
from llm_marl_envs.files.json_files import write_json
from llm_marl_envs.measure.progress import counter
from trainers.weights.chat import ChatTemplate
from trainers.weights.shown import Demonstration, demonstrations_of, encoded
from trainers.weights.team_files import load_base, load_tokenizer

RECORD = "warm_start.json"
FORMAT = 1  # raised when this module makes another model from the same settings
RATES = {"lora": 1e-3, "full": 5e-5}
"""Learning rate where none is given; docs/pretrained.md has how they were found."""
RISING = 5
"""Steps over which the rate rises; then it falls linearly to 0."""
CHECKPOINTS = 5
"""In a warm start: a stopped one goes on from the last."""


class WarmStart(Options):
    """What is shown, and how it is learned."""

    within = "warm_start"
    demonstrations: int = Field(default=880, ge=1, description="how many the experts write")
    steps: int = Field(default=110, ge=1, description="of the optimiser")
    batch_size: int = Field(default=8, ge=1, description="demonstrations of a step")
    learning_rate: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="peak of AdamW; None: 1e-3 with LoRA, 5e-5 without",
    )
    lora_rank: int = Field(
        default=16,
        ge=0,
        description="of the adapter on every linear layer, merged at the end; 0 trains all weights",
    )
    conventions: list[str] | None = Field(
        default=None, description="those that experts follow; None: all, drawn at random"
    )
    seed: int = Field(
        default=0, ge=0, description="of the demonstrations, the adapter and the order"
    )

    @property
    def rate(self) -> float:
        """The learning rate, where none is given that of its kind."""
        return self.learning_rate or RATES["lora" if self.lora_rank else "full"]


def warm_started(
    base: str,
    env_id: str,
    env_kwargs: Mapping[str, Any] | None = None,
    settings: WarmStart | None = None,
    folder: str | Path | None = None,
    *,
    fresh: bool = False,
) -> str:
    """The folder of a model that was shown an environment's experts, made on the first call.

    A later call with the same base, settings and demonstrations returns it at once; one that was
    stopped goes on from its last checkpoint.

    Args:
        base: a name or folder that `from_pretrained` takes.
        env_id: whose experts; tasks of its train split.
        env_kwargs: further arguments of `make`.
        settings: see `WarmStart`.
        folder: where it shall be; None: in the cache, under a name made from all that decides it.
        fresh: make it again even if it is there.

    Raises:
        ValueError: `folder` holds something else, an environment without experts, a split other
            than `train`, or several processes and a model that is not there yet.
    """
    settings, kwargs = settings or WarmStart(), dict(env_kwargs or {})
    if kwargs.pop("split", "train") != "train":
        raise ValueError("a warm start shows tasks of the split 'train'; leave out another split")
    shown = demonstrations_of(
        (env_id,), settings.demonstrations, settings.seed, kwargs, settings.conventions
    )
    return taught(
        base, shown, settings, folder, {"env_id": env_id, "env_kwargs": kwargs}, fresh=fresh
    )


def taught(
    base: str,
    shown: Sequence[Demonstration],
    settings: WarmStart,
    folder: str | Path | None = None,
    about: Mapping[str, Any] | None = None,
    *,
    fresh: bool = False,
) -> str:
    """The folder of a model that was shown any demonstrations, made on the first call.

    Args:
        base: a name or folder that `from_pretrained` takes.
        shown: what it learns to say; of the settings those that choose demonstrations are not read.
        settings: see `WarmStart`.
        folder: as `warm_started`.
        about: what the record says of the demonstrations.
        fresh: make it again even if it is there.

    Raises:
        ValueError: `folder` holds something else, or several processes and a model that is not
            there yet.
    """
    of_base = fingerprint(base) if Path(base).is_dir() else base
    key = key_of(FORMAT, of_base, settings.model_dump(), shown)
    home = Path(folder).expanduser() if folder is not None else cache_folder() / f"warm-{key}"
    about = {"key": key, "base": base, **(about or {}), **settings.model_dump()}
    with made_once(home):
        if not is_made(home / RECORD, key, "warm start", fresh=fresh):
            _make(home, shown, settings, about, fresh=fresh)
    return str(home)


def _make(
    home: Path, shown: Any, settings: WarmStart, about: Mapping[str, Any], *, fresh: bool
) -> None:
    """Write the model; `fresh` does not go on from a stopped one."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"{home} is not made yet, and one process makes it: call `llm-marl estimate` with the "
            "same run file first, or `llm-marl warm-start` and name its folder as the model"
        )
    begun = time.perf_counter()
    unfinished = home.with_name(f"{home.name}.{about['key']}.unfinished")
    if fresh:
        shutil.rmtree(unfinished, ignore_errors=True)
    model, tokenizer, loss = _trained(about["base"], shown, settings, unfinished)
    # The experts' words are most of what is left to sample: no need to sharpen it.
    model.generation_config.do_sample, model.generation_config.temperature = True, 1.0
    with written_whole(home) as made:
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        seconds = round(time.perf_counter() - begun, 1)
        write_json(made / RECORD, {**about, "loss": loss, "seconds": seconds})
    shutil.rmtree(unfinished, ignore_errors=True)


def _trained(base: str, shown: Any, settings: WarmStart, folder: Path) -> tuple[Any, Any, float]:
    """The model in plain form, its tokenizer, and the mean loss of the last tenth."""
    tokenizer = load_tokenizer(base)
    chat = ChatTemplate(tokenizer)
    rows = [encoded(chat, *demonstration) for demonstration in shown]
    lora = LoraConfig(
        r=max(settings.lora_rank, 1),
        lora_alpha=2 * max(settings.lora_rank, 1),
        target_modules="all-linear",
    )
    trainer = SFTTrainer(
        load_base(base),
        SFTConfig(
            str(folder),
            max_steps=settings.steps,
            per_device_train_batch_size=settings.batch_size,
            learning_rate=settings.rate,
            lr_scheduler_type="linear",
            warmup_steps=min(RISING, settings.steps // 2),
            seed=settings.seed,
            bf16=False,
            fp16=False,
            gradient_checkpointing=False,
            max_length=None,
            dataloader_pin_memory=torch.cuda.is_available(),
            dataset_kwargs={"skip_prepare_dataset": True},  # the rows are ids and labels already
            logging_steps=1,
            save_steps=max(1, settings.steps // CHECKPOINTS),
            save_total_limit=2,  # the older one goes before the new one is known to be whole
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([dict(zip(ROW, row, strict=True)) for row in rows]),
        processing_class=tokenizer,
        peft_config=lora if settings.lora_rank else None,
        callbacks=[_Bar(), _MarkWhole()],
    )
    trainer.remove_callback(PrinterCallback)  # the bar shows the loss
    for checkpoint in folder.glob("checkpoint-*"):
        if not (checkpoint / WHOLE).is_file():  # it was stopped while it wrote this one
            shutil.rmtree(checkpoint)
    begun = folder.is_dir() and get_last_checkpoint(str(folder)) is not None
    trainer.train(resume_from_checkpoint=begun)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    tail = losses[-max(1, len(losses) // 10) :]
    model: Any = trainer.model
    return (
        model.merge_and_unload() if settings.lora_rank else model,
        tokenizer,
        sum(tail) / len(tail),
    )


ROW = ("input_ids", "labels")
WHOLE = "whole"
"""Empty file of a checkpoint that was written to its end."""


class _MarkWhole(TrainerCallback):
    """Says of a checkpoint that all of it is there."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        (Path(args.output_dir) / f"checkpoint-{state.global_step}" / WHOLE).touch()


class _Bar(TrainerCallback):
    """Steps and the newest loss."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar = counter(state.max_steps, "warm start", unit="step")
        self.bar.update(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "loss" in (logs or {}):
            self.bar.set_postfix(loss=f"{float(logs['loss']):.3f}")
            self.bar(1)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar.close()
