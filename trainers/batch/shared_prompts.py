"""Rows that begin alike, in the update: what they share is computed once, gradients included.

The rows of a group begin with one prompt, and branches with more than that. What is shared is read
once. Its keys and values are repeated, and every row goes on from them. The backward pass adds up
what the rows ask of the shared part, so the gradient is that of whole rows, up to rounding: 4e-7 of
its length in float32. Whole rows read G prompts where one will do.

Other ways are one sequence with a mask in the form of a tree, which takes up to 1.5 times as long
(`docs/speed.md`): attention computes what the mask hides. TRL's tree packing does without, by a
kernel of FlashAttention 3 alone. Prefix Grouper (arXiv 2506.05433) shares in the attention of each
layer, which must be written for each kind of model.

Owns how rows are computed so, and why not. Where they are cut is `prefixes.py`; who asks is
`trainer.py`.

Shapes: B rows, T tokens, U parts of one call, W tokens of its longest, C tokens held before it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainers.batch.prefixes import BLANK, calls, places_of_scores, seen, tokens_read
from trainers.engines.growing_cache import plain_cache

TRIED = ("eager", "sdpa")
"""Attention of Transformers that rows went on with."""
HEADS = ("classifier", "summary")
"""What begins so in a config is of models that classify."""
NOT_SHARDED = "with shard_weights all processes must make as many calls of the model"


def why_whole(model: Any) -> str | None:
    """Why rows of a model cannot go on from what they share; None where they can.

    Args:
        model: of Transformers, without wrappers.
    """
    name, config = type(model).__name__, model.config.get_text_config(decoder=True)
    if getattr(model, "is_gradient_checkpointing", False):
        return "with gradient_checkpointing a model computes rows anew and holds no keys and values"
    if plain_cache(model) is None:
        return f"{name} does not keep keys and values of all tokens, and nothing else"
    if "position_ids" not in inspect.signature(type(model).forward).parameters:
        return f"{name} takes no position_ids"
    if config._attn_implementation not in TRIED:
        return f"attention {config._attn_implementation!r} was not tried with rows that go on"
    if drops(model):
        return "dropout would leave out the same of a prompt in all its rows"
    return None


def drops(model: Any) -> bool:
    """Whether something of a pass is left out at random: by a module, or as the config says."""
    config = model.config.get_text_config(decoder=True)
    rates = [
        value
        for name, value in config.to_dict().items()
        if "drop" in name and not name.startswith(HEADS) and isinstance(value, float)
    ]
    return any(rates) or any(rate for module in model.modules() for rate in _left_out(module))


def _left_out(module: Any) -> Iterator[float]:
    """How often a module leaves something out: a layer of dropout, or an adapter of PEFT."""
    if "Dropout" in type(module).__name__:
        yield module.p
    for name in ("rank_dropout", "module_dropout"):
        rates = getattr(module, name, None)
        yield from rates.values() if isinstance(rates, dict) else ()


@dataclass(frozen=True, slots=True)
class Scored:
    """What TRL reads of a model's output; (B, T - 1), for each token but the first.

    Attributes:
        log_probs: natural, 0 where no label is.
        entropy: in nats; None where the model gives none.
    """

    log_probs: Tensor
    entropy: Tensor | None


class SharedPrompts:
    """Stands where TRL calls a model for log-probs of rows that are padded on the right.

    Args:
        model: as the trainer calls it.
        inner: the same, without what joins the gradients of processes: that must see one call.
        base: of Transformers, within the adapters.
        own: (B, T'), 1 where one of the last T' tokens of a row is to be scored; what no row of a
            part asks for costs the head nothing. None scores as the labels say.

    Attributes:
        read: tokens that were read, so far, padding included.
        whole: that whole rows would have read.
    """

    def __init__(self, model: Any, inner: Any, base: Any, own: Tensor | None = None) -> None:
        self.model, self.inner, self.base, self.own = model, inner, base, own
        self.read = self.whole = 0

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, **options: Any
    ) -> Any:
        """As the model; (B, T) each."""
        if self.own is not None:
            labels = labels.clone()
            labels[:, -self.own.shape[1] :].masked_fill_(self.own == 0, -100)
        rows = input_ids.masked_fill(attention_mask == 0, BLANK)
        plan = calls(rows.cpu().numpy())
        self.read += tokens_read(plan)
        self.whole += rows.numel()
        if len(plan) == 1 and len(plan[0].rows) == len(rows):
            return self.model(
                input_ids=input_ids, attention_mask=attention_mask, labels=labels, **options
            )
        device, cache, outputs = input_ids.device, plain_cache(self.base), []
        for number, call in enumerate(plan):
            if number:
                _repeat(cache, torch.from_numpy(call.parents).to(device))
            of, begin, end = (
                torch.from_numpy(numbers).to(device).unsqueeze(1)
                for numbers in (call.rows, call.begins, call.ends)
            )  # (U, 1)
            asked = _of_any(labels != -100, torch.from_numpy(call.places).to(device), len(of))
            columns = begin + torch.arange(call.width, device=device)  # (U, W)
            inside = columns.clamp(max=rows.shape[1] - 1)
            model = self.model if call is plan[-1] else self.inner
            out = model(
                input_ids=input_ids[of, inside],
                attention_mask=torch.from_numpy(seen(plan, number)).to(device).long(),
                position_ids=columns,
                labels=input_ids[of, inside].masked_fill(
                    ~asked.gather(1, inside) | (columns >= end), -100
                ),
                past_key_values=cache,
                use_cache=True,
                **options,
            )
            outputs.append(out)
        places = torch.from_numpy(places_of_scores(plan, rows.shape[1])[:, 1:]).to(device)
        places = places.masked_fill(labels[:, 1:] == -100, 0)
        has_entropy = all(out.entropy is not None for out in outputs)
        return Scored(
            log_probs=_scattered([out.log_probs for out in outputs], places),
            entropy=_scattered([out.entropy for out in outputs], places) if has_entropy else None,
        )


def _of_any(asked: Tensor, places: Tensor, parts: int) -> Tensor:
    """bool, (U, T): the tokens of each part that any of its rows asks for; `asked` is (B, T).

    Equal rows may train on different tokens: a branch on what came of it, the episode that it left
    on all.
    """
    counts = asked.new_zeros(parts, asked.shape[1], dtype=torch.long)
    return counts.index_add_(0, places, asked.long()) > 0


def _repeat(cache: Any, parts: Tensor) -> None:
    """Go on with these parts, each as often as it is named."""
    for layer in cache.layers:
        layer.keys, layer.values = (
            states.index_select(0, parts) for states in (layer.keys, layer.values)
        )


def _scattered(scores: list[Tensor], places: Tensor) -> Tensor:
    """Scores of all calls to where rows have them; 0 where they have none."""
    flat = torch.cat([scores[0].new_zeros(1), *(part.flatten() for part in scores)])
    return flat.index_select(0, places.flatten()).view(places.shape)
