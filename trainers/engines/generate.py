"""The default engine: `generate` of transformers, with the trainer's own weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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
from trainers.weights.team_model import SamplingBatch, TeamModel, without_adapters

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
        sampler = RowSampler(torch.tensor([d.seed for d in draws], device=device), temperature)
        config = GenerationConfig(
            do_sample=False, max_new_tokens=max_tokens, pad_token_id=pad, eos_token_id=eos
        )
        call = _Call(batch, draws, _padded(draws, pad, device), config)
        cache = call.new_cache()
        if cache is not None and any(map(self.kept.knows, draws)):
            self._find(call, cache)
        elif cache is not None and self.shares:
            self._read_once(call, cache)
        out = self._go_on(call, cache, logits_processor=[sampler])
        done = []
        logprobs = sampler.logprobs(out).tolist()
        for row, probs in zip(out[:, call.width :].tolist(), logprobs, strict=True):
            end = next((i + 1 for i, token in enumerate(row) if token in eos), len(row))
            done.append(Drawn(tuple(row[:end]), tuple(probs[:end])))
        if cache is not None and self._keeps:
            self.kept.keep(cache, draws, done, call.width)
        return done

    def _find(self, call: _Call, cache: DynamicCache) -> None:
        """Fill the cache with what is kept of rows; what of them begins is read once for it."""
        draws = call.draws
        new = [row for row, draw in enumerate(draws) if not self.kept.knows(draw)]
        if new:
            rows = sorted(_firsts(draws, new).values())
            beginnings: Any = call.new_cache()  # as `cache` is
            self._read(call.of(rows), beginnings)
            draws = [
                replace(draw, through=len(draw.prompt_ids)) if row in new else draw
                for row, draw in enumerate(draws)
            ]
            asked = [draws[row] for row in rows]
            self.kept.hold(beginnings, asked, call.width)
            self.shared_tokens -= sum(len(draw.prompt_ids) - 1 for draw in asked)
        self.shared_tokens += self.kept.into(cache, draws, call.width)

    def _read_once(self, call: _Call, cache: DynamicCache) -> None:
        """Where prompts of a policy are equal, or begin alike, read each once."""
        draws = call.draws
        first = _firsts(draws, range(len(draws)))
        rows = sorted(first.values())
        if call.width < 2:
            return
        if len(rows) == len(draws):
            self._begin(call, cache)
            return
        self._read(call.of(rows), cache)
        self.shared_tokens += sum(len(draw.prompt_ids) - 1 for draw in draws)
        self.shared_tokens -= sum(len(draws[row].prompt_ids) - 1 for row in rows)
        places = [rows.index(first[draw.policy, draw.prompt_ids]) for draw in draws]
        cache.batch_select_indices(torch.tensor(places, device=self.team.device))

    def _read(self, call: _Call, cache: DynamicCache) -> None:
        """Read the prompts into an empty cache, all but the last token.

        Each row reads that one itself, which gives it the first scores.
        """
        self._begin(call, cache)
        self._go_on(replace(call, config=_one_token(call.config)), cache)
        cache.crop(-1)

    def _begin(self, call: _Call, cache: DynamicCache) -> None:
        """Where prompts of a policy begin alike, read that once into an empty cache, if it pays."""
        draws, width = call.draws, call.width
        first = {draw.policy: row for row, draw in reversed([*enumerate(draws)])}
        tokens = {policy: _common(draws, policy) for policy in first}
        begun = [replace(draw, through=tokens[draw.policy] + 1) for draw in draws]
        held = width - max(len(draw.prompt_ids) - draw.through + 1 for draw in begun)
        saved = sum(max(0, held - width + len(draw.prompt_ids)) for draw in draws)
        saved -= sum(tokens.values())
        if saved * without_adapters(call.batch.model).num_parameters() < WORTH:
            return
        starts = [
            replace(begun[row], prompt_ids=draws[row].prompt_ids[: begun[row].through])
            for row in first.values()
        ]
        inputs = _padded(starts, call.config.pad_token_id, self.team.device)
        opened = call.of([*first.values()])
        opened = replace(opened, draws=starts, inputs=inputs, config=_one_token(call.config))
        beginnings: Any = call.new_cache()  # as `cache` is
        self._go_on(opened, beginnings)
        beginnings.crop(-1)
        rows = dict(zip(first, rows_of(beginnings, starts, opened.width), strict=True))
        fill(cache, [rows[draw.policy] for draw in draws], begun, width)
        self.shared_tokens += saved

    def _go_on(self, call: _Call, cache: DynamicCache | None, **options: Any) -> Tensor:
        """The prompts with what is generated after them, (B, T); the cache holds what is read."""
        held = {} if cache is None else {"past_key_values": cache}
        model, config = call.batch.model, call.config
        with self.team.acting(call.batch.policies) as kwargs, _without_defaults(model, config):
            # Sharded weights are whole here, and processes make different numbers of calls.
            return model.generate(
                **call.inputs,
                generation_config=config,
                synced_gpus=False,
                **held,
                **options,
                **kwargs,
            )


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of `generate`.

    Attributes:
        batch: its rows.
        draws: of each row.
        inputs: ids and mask of their prompts, each (B, T).
        config: how it generates.
    """

    batch: SamplingBatch
    draws: Sequence[Draw]
    inputs: Mapping[str, Tensor]
    config: GenerationConfig

    @property
    def width(self) -> int:
        """Columns of the prompts."""
        return self.inputs["input_ids"].shape[1]

    def of(self, rows: list[int]) -> _Call:
        """The same for some of its rows, in columns as wide."""
        policies = [self.batch.policies[row] for row in rows]
        return _Call(
            SamplingBatch(rows, self.batch.model, policies),
            [self.draws[row] for row in rows],
            {name: values[rows] for name, values in self.inputs.items()},
            self.config,
        )

    def new_cache(self) -> DynamicCache | None:
        """An empty cache for it; None where the model has its own kind."""
        return growing_cache(without_adapters(self.batch.model))


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
    changed = copy.copy(config)
    changed.max_new_tokens = 1
    return changed


@contextmanager
def _without_defaults(model: Any, config: GenerationConfig) -> Iterator[None]:
    """Hide a model's own generation settings while it samples.

    `generate` fills what a config leaves unset from them, and a penalty, a list of forbidden words
    or a time limit there would sample from another distribution than the loss scores.
    """
    base = without_adapters(model)
    kept = base.generation_config
    base.generation_config = config
    try:
        yield
    finally:
        base.generation_config = kept
