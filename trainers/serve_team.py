"""`llm-marl serve-team`: the servers that a run needs, and whether they do what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from llm_marl_envs import make
from trainers.engines.base import Draw, Drawn
from trainers.engines.vllm_server import ServerCall, calls_for
from trainers.train import adapter_of, build_trainer, models_of, read_run
from trainers.weights.team_model import SHARED, TeamModel

PROBES = 8
TOKENS = 16


def calls(
    config: str | Path, overrides: Sequence[str], options: Mapping[str, Any], *, exact: bool
) -> list[ServerCall]:
    """The servers: one, or one for each model of separate weights.

    Args:
        config: as `read_run` takes it.
        overrides: as `read_run` takes them.
        options: as `calls_for` takes them.
        exact: as in `ServerCall`.

    Raises:
        ValueError: as `read_run`, or as `calls_for`.
    """
    run = read_run(config, overrides)
    models, lora = models_of(run), adapter_of(run.get("lora"))
    if not isinstance(models, str):
        return list(calls_for(models, [], options, exact=exact).values())
    partners = run.get("partners") or {}
    env = make(run["env"], **(run.get("env_kwargs") or {}))
    named = (run.get("trainer") or {}).get("policies") or {}
    policies = {named.get(one, one) for one in env.possible_agents if one not in partners}
    if (run.get("trainer") or {}).get("weights") == SHARED:
        policies = {SHARED}
    adapters = [] if lora is None else [lora] * len(policies)
    return list(calls_for({"": models}, adapters, options, exact=exact).values())


def check(config: str | Path, overrides: Sequence[str]) -> Iterator[str]:
    """Publish a run's first weights, sample, and compare with the trainer's; a line per policy.

    Raises:
        ValueError: the run's engine has no servers, or says that it is exact and is not.
        ConnectionError: a server gives no answer, or refuses; the message quotes it.
    """
    trainer = build_trainer(read_run(config, overrides))
    engine, team = trainer.engine, trainer.team
    if not engine.remote:
        raise ValueError(f"engine {engine.name!r} has no servers to check: set engine in the run")
    temperature = trainer.args.temperature
    try:
        engine.publish(0)
        for policy in team.policies:
            prompt = tuple(team.tokenizers[policy].encode("Hello"))
            draws = [Draw(policy, prompt, seed) for seed in range(PROBES)]
            found = engine.sample(draws, max_tokens=TOKENS, temperature=temperature)
            gaps = [gap for one in found for gap in _gaps(team, policy, prompt, one, temperature)]
            yield (
                f"{policy}: {found[0].version}, {len(gaps)} tokens, log-probs differ by "
                f"{sum(gaps) / len(gaps):.1e} in the mean, {max(gaps):.1e} at most"
            )
    finally:
        engine.close()


@torch.no_grad()
def _gaps(
    team: TeamModel, policy: str, prompt: Sequence[int], drawn: Drawn, temperature: float
) -> list[float]:
    """How far the log-probs of a sample lie from those of the team's own weights, in nats."""
    team.activate(policy)
    ids = torch.tensor([[*prompt, *drawn.ids]], device=team.device)
    with team.evaluating():
        logits = team.model_of(policy)(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    scores = (logits.float() / temperature).log_softmax(-1)
    chosen = scores[range(len(drawn.ids)), list(drawn.ids)]
    return (chosen.cpu() - torch.tensor(drawn.logprobs)).abs().tolist()
