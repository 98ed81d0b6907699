"""The default engine: `generate` of transformers, with the trainer's own weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import DynamicCache, GenerationConfig

from llm_marl_envs.core.checks import refuse_unknown
from trainers.engines.base import Draw, Drawn, SamplingEngine
from trainers.engines.growing_cache import growing_cache
from trainers.engines.kept_rows import KeptRows, fill, rows_of
from trainers.engines.row_sampler import RowSampler
from trainers.weights.team_model import SamplingBatch, TeamModel

KEPT_MB = 512
WORTH = 10**10
"""Multiplications, weights times tokens, that a call for a common beginning must save.

135 million weights have as many in 74 tokens, those of the embedded model in 30,000.
"""


class GenerateEngine(SamplingEngine):
    """Samples in as few `generate` calls as the weights allow.

    Args:
        team: the weights.
        batch_size: most rows of one call; None puts all rows in one.
        shares: read equal prompts of a policy once; False: each row is read whole, every turn.
        kept_mb: most memory, in MiB, for what rows have read and may go on from in their next turn.

    Raises:
        ValueError: `batch_size` is less than 1, or `kept_mb` less than 0.
    """

    name = "generate"
    software = f"transformers {transformers.__version__}"

    def __init__(
        self,
        team: TeamModel,
        batch_size: int | None = None,
        *,
        shares: bool = True,
        kept_mb: int = KEPT_MB,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: expected at least 1 or None")
        if kept_mb < 0:
            raise ValueError(f"kept_mb={kept_mb}: expected at least 0")
        self.team = team
        self.batch_size = batch_size
        self.shares = shares
        self.kept = KeptRows(kept_mb * 2**20 * shares)

    @classmethod
    def for_run(cls, team: TeamModel, args: Any, settings: Mapping[str, Any]) -> GenerateEngine:
        """With the run's `sampling_batch_size`, `share_prompts` and `kept_rows_mb`; no settings."""
        refuse_unknown("engine, name='generate'", settings, [])
        return cls(
            team, args.sampling_batch_size, shares=args.share_prompts, kept_mb=args.kept_rows_mb
        )

    @torch.no_grad()
    def sample(self, draws: Sequence[Draw], *, max_tokens: int, temperature: float) -> list[Drawn]:
        """One sample per draw, in order."""
        drawn: dict[int, Drawn] = {}
        with self.team.evaluating():
            if self._keeps:
                self.kept.check(self.team.weights())
            for start in (False, True):
                rows = [row for row, draw in enumerate(draws) if draw.start is start]
                with ExitStack() as stack:
                    if start:
                        for policy in dict.fromkeys(draws[row].policy for row in rows):
                            stack.enter_context(self.team.at_start(policy))
                    for batch in self.team.sampling_batches([draws[row].policy for row in rows]):
                        for part in batch.parts(self.batch_size):
                            served = [rows[place] for place in part.rows]
                            asked = [draws[row] for row in served]
                            done = self._generate(part, asked, max_tokens, temperature)
                            drawn |= zip(served, done, strict=True)
        return [drawn[row] for row in range(len(draws))]

    @property
    def _keeps(self) -> bool:
        """Whether anything is kept; of sharded weights a part does not show all changes."""
        return self.kept.most_bytes > 0 and not self.team.sharded

    def let_go(self) -> None:
        """Free what rows have read."""
        self.kept.let_go()

    def _generate(
        self, batch: SamplingBatch, draws: Sequence[Draw], max_tokens: int, temperature: float
    ) -> list[Drawn]:
        """One call; the draws are those of the batch's rows."""
        device, eos = self.team.device, self.team.eos_ids(batch.policy)
        pad = self.team.tokenizers[self.team.was(batch.policy)].pad_token_id
        inputs = _padded(draws, pad, device)
        width = inputs["input_ids"].shape[1]
        seeds = torch.tensor([draw.seed for draw in draws], device=device)
        sampler = RowSampler(seeds, temperature)
        config = GenerationConfig(
            do_sample=False, max_new_tokens=max_tokens, pad_token_id=pad, eos_token_id=eos
        )
        cache = growing_cache(_without_adapters(batch.model))
        if cache is not None and any(map(self.kept.knows, draws)):
            self._find(batch, draws, inputs, config, cache)
        elif cache is not None and self.shares:
            self._read_once(batch, draws, inputs, config, cache)
        out = self._go_on(batch, inputs, config, cache, logits_processor=[sampler])
        done = []
        logprobs = sampler.logprobs(out).tolist()
        for row, probs in zip(out[:, width:].tolist(), logprobs, strict=True):
            end = next((i + 1 for i, token in enumerate(row) if token in eos), len(row))
            done.append(Drawn(tuple(row[:end]), tuple(probs[:end])))
        if cache is not None and self._keeps:
            self.kept.keep(cache, draws, done, width)
        return done

    def _find(
        self,
        batch: SamplingBatch,
        draws: Sequence[Draw],
        inputs: Mapping[str, Tensor],
        config: GenerationConfig,
        cache: DynamicCache,
    ) -> None:
        """Fill the cache with what is kept of rows; what of them begins is read once for it."""
        new = [row for row, draw in enumerate(draws) if not self.kept.knows(draw)]
        if new:
            rows = sorted(_firsts(draws, new).values())
            read: Any = growing_cache(_without_adapters(batch.model))  # as `cache` is
            self._read(batch, rows, draws, inputs, config, read)
            draws = [
                replace(draw, through=len(draw.prompt_ids)) if row in new else draw
                for row, draw in enumerate(draws)
            ]
            asked = [draws[row] for row in rows]
            self.kept.hold(read, asked, inputs["input_ids"].shape[1])
            self.shared_tokens -= sum(len(draw.prompt_ids) - 1 for draw in asked)
        self.shared_tokens += self.kept.into(cache, draws, inputs["input_ids"].shape[1])

    def _read_once(
        self,
        batch: SamplingBatch,
        draws: Sequence[Draw],
        inputs: Mapping[str, Tensor],
        config: GenerationConfig,
        cache: DynamicCache,
    ) -> None:
        """Where prompts of a policy are equal, or begin alike, read each once."""
        first = _firsts(draws, range(len(draws)))
        rows = sorted(first.values())
        if inputs["input_ids"].shape[1] < 2:
            return
        if len(rows) == len(draws):
            self._begin(batch, draws, inputs, config, cache)
            return
        self._read(batch, rows, draws, inputs, config, cache)
        self.shared_tokens += sum(len(draw.prompt_ids) - 1 for draw in draws)
        self.shared_tokens -= sum(len(draws[row].prompt_ids) - 1 for row in rows)
        places = [rows.index(first[draw.policy, draw.prompt_ids]) for draw in draws]
        cache.batch_select_indices(torch.tensor(places, device=self.team.device))

    def _read(
        self,
        batch: SamplingBatch,
        rows: list[int],
        draws: Sequence[Draw],
        inputs: Mapping[str, Tensor],
        config: GenerationConfig,
        cache: DynamicCache,
    ) -> None:
        """Read these rows' prompts into an empty cache, all but the last token.

        Each row reads that one itself, which gives it the first scores.
        """
        once = SamplingBatch(rows, batch.model, [batch.policies[row] for row in rows])
        theirs = {name: rows_of_it[rows] for name, rows_of_it in inputs.items()}
        self._begin(once, [draws[row] for row in rows], theirs, config, cache)
        self._go_on(once, theirs, _one_token(config), cache)
        cache.crop(-1)

    def _begin(
        self,
        batch: SamplingBatch,
        draws: Sequence[Draw],
        inputs: Mapping[str, Tensor],
        config: GenerationConfig,
        cache: DynamicCache,
    ) -> None:
        """Where prompts of a policy begin alike, read that once into an empty cache, if it pays."""
        first = {draw.policy: row for row, draw in reversed([*enumerate(draws)])}
        tokens = {policy: _common(draws, policy) for policy in first}
        begun = [replace(draw, through=tokens[draw.policy] + 1) for draw in draws]
        width = inputs["input_ids"].shape[1]
        held = width - max(len(draw.prompt_ids) - draw.through + 1 for draw in begun)
        saved = sum(max(0, held - width + len(draw.prompt_ids)) for draw in draws)
        saved -= sum(tokens.values())
        if saved * _without_adapters(batch.model).num_parameters() < WORTH:
            return
        where = [*first.values()]
        starts = [
            replace(begun[row], prompt_ids=draws[row].prompt_ids[: begun[row].through])
            for row in where
        ]
        once = SamplingBatch(where, batch.model, [batch.policies[row] for row in where])
        theirs = _padded(starts, config.pad_token_id, self.team.device)
        read: Any = growing_cache(_without_adapters(batch.model))  # as `cache` is
        self._go_on(once, theirs, _one_token(config), read)
        read.crop(-1)
        rows = dict(zip(first, rows_of(read, starts, theirs["input_ids"].shape[1]), strict=True))
        fill(cache, [rows[draw.policy] for draw in draws], begun, width)
        self.shared_tokens += saved

    def _go_on(
        self,
        batch: SamplingBatch,
        inputs: Mapping[str, Tensor],
        config: GenerationConfig,
        cache: DynamicCache | None,
        **options: Any,
    ) -> Tensor:
        """The prompts with what is generated after them, (B, T); the cache holds what is read."""
        held = {} if cache is None else {"past_key_values": cache}
        with self.team.acting(batch.policies) as kwargs, _without_defaults(batch.model, config):
            # Sharded weights are whole here, and processes make different numbers of calls.
            return batch.model.generate(
                **inputs,
                generation_config=config,
                synced_gpus=False,
                **held,
                **options,
                **kwargs,
            )


def _firsts(draws: Sequence[Draw], rows: Sequence[int]) -> dict[tuple[str, tuple[int, ...]], int]:
    """Policy and prompt -> the first of these rows that has them."""
    return {(draws[row].policy, draws[row].prompt_ids): row for row in reversed(rows)}


def _common(draws: Sequence[Draw], policy: str) -> int:
    """Tokens with which all prompts of a policy begin; the last one of a prompt does not count."""
    prompts = [draw.prompt_ids[:-1] for draw in draws if draw.policy == policy]
    least, most = min(prompts), max(prompts)  # all others lie between them
    pairs = enumerate(zip(least, most, strict=False))
    return next((n for n, (token, other) in pairs if token != other), min(len(least), len(most)))


def _padded(draws: Sequence[Draw], pad: Any, device: Any) -> dict[str, Tensor]:
    """Ids and mask of the prompts, each (B, T), padded on the left."""
    width = max(len(draw.prompt_ids) for draw in draws)
    blank = [width - len(draw.prompt_ids) for draw in draws]
    ids = [[pad] * n + list(draw.prompt_ids) for n, draw in zip(blank, draws, strict=True)]
    mask = [[0] * n + [1] * (width - n) for n in blank]
    named = {"input_ids": ids, "attention_mask": mask}
    return {name: torch.tensor(values, device=device) for name, values in named.items()}


def _one_token(config: GenerationConfig) -> GenerationConfig:
    """The same for a call that only reads."""
    read = copy.copy(config)
    read.max_new_tokens = 1
    return read


@contextmanager
def _without_defaults(model: Any, config: GenerationConfig) -> Iterator[None]:
    """Hide a model's own generation settings while it samples.

    `generate` fills what a config leaves unset from them, and a penalty, a list of forbidden words
    or a time limit there would sample from another distribution than the loss scores.
    """
    base = _without_adapters(model)
    kept = base.generation_config
    base.generation_config = config
    try:
        yield
    finally:
        base.generation_config = kept


def _without_adapters(model: Any) -> Any:
    """The model of Transformers within one of PEFT."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
