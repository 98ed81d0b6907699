"""(a) An update of the trainer against the least that it must compute, in every weight mode.

    python -m benchmarks.speed.limit [--repetitions 7] [--modes adapters]

The bare limit is one batched `generate` and one forward and backward pass of the same rows, of the
same model and lengths, in plain transformers: no environment, no seeds per row, no optimiser. For
adapters it has one PEFT adapter. For separate models it is what the two models need, each for its
own rows; "of one model" is that of one model for all rows, which no two models can reach.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from peft import get_peft_model
from torch.nn.functional import cross_entropy

from benchmarks.speed import toy
from benchmarks.speed.record import REPETITIONS, Row, keep, ratio

MODES = ("shared", "adapters", "separate")
GROUP = 8
CELLS = ((1, 64, 1000), (4, 64, 1000), (1, 128, 8000))
"""Tasks of an update, new tokens, vocabulary."""


@torch.no_grad()
def sampled(model: Any, tokenizer: Any, ids: torch.Tensor, length: int, **options: Any) -> Any:
    """Rows with what plain transformers sample after them, (B, T); `options` are of `generate`."""
    return model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=length,
        do_sample=True,
        top_k=0,
        top_p=1.0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **options,
    )


def bare(model: Any, tokenizer: Any, rows: int, length: int, turns: int = 1) -> Callable[[], None]:
    """The bare limit of so many rows, as a job; later turns read the whole dialogue again."""
    chat = [{"role": "user", "content": f"Your word is {toy.words(1)[0]}. Say more of it."}]
    prompt = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )["input_ids"]
    prompts, width = prompt.repeat(rows, 1), prompt.shape[1]

    def job() -> None:
        model.eval()
        ids = prompts[:, :0]
        for _ in range(turns):
            ids = torch.cat([ids, prompts], dim=1)
            ids = sampled(model, tokenizer, ids, length)
        model.train()
        kept = ids.shape[1] - width
        logits = model(input_ids=ids, logits_to_keep=kept + 1).logits[:, :-1]
        cross_entropy(logits.flatten(0, 1), ids[:, width:].flatten()).backward()
        model.zero_grad(set_to_none=True)

    return job


def cell(mode: str, size: tuple[int, int, int], repetitions: int) -> Row:
    """One row of the table."""
    tasks, length, vocabulary = size
    sizes = toy.SIZES.changed(vocab_size=vocabulary)
    model, tokenizer = toy.model_and_tokenizer(sizes)
    if mode == "adapters":
        model = get_peft_model(model, toy.lora())
    rows = 2 * GROUP * tasks
    jobs = {"limit": bare(model, tokenizer, rows, length)}
    if mode == "separate":
        each = [
            bare(toy.model_and_tokenizer(sizes)[0], tokenizer, rows // 2, length) for _ in range(2)
        ]
        jobs = {"limit": lambda: [job() for job in each], "one": jobs["limit"]}
    seconds = toy.measured(
        mode,
        jobs,
        repetitions,
        sizes=sizes,
        tasks_per_update=tasks,
        max_completion_length=length,
    )
    row: Row = {
        "tasks": tasks,
        "rows x tokens": f"{rows} x {length}",
        "vocabulary": vocabulary,
        "s per update": median(seconds["update"]),
        "share of the limit": ratio(seconds["limit"], seconds["update"]),
    }
    if "one" in seconds:
        row["of one model"] = ratio(seconds["one"], seconds["update"])
    return row | {"raw": seconds}


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    options = parser.parse_args()
    for mode in options.modes:
        keep(f"limit_{mode}", [cell(mode, size, options.repetitions) for size in CELLS])


if __name__ == "__main__":
    main()
