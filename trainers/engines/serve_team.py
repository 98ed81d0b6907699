"""`llm-marl serve-team`: the servers that a run needs, and whether they do what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from llm_marl_envs import make
from trainers.engines.base import Draw
from trainers.engines.vllm_server import ServerCall
from trainers.train import build_trainer, models_of, read_run

PROBES = 8
TOKENS = 16


def calls(
    config: str | Path, overrides: Sequence[str], options: Mapping[str, Any]
) -> list[ServerCall]:
    """The servers: one, or one for each model of separate weights.

    Args:
        config: as `read_run` takes it.
        overrides: as `read_run` takes them.
        options: fields of `ServerCall`; ports count up from `port`.

    Raises:
        ValueError: as `read_run`.
    """
    run = read_run(config, overrides)
    models, lora = models_of(run), run.get("lora")
    if isinstance(models, str):
        partners = run.get("partners") or {}
        env = make(run["env"], **(run.get("env_kwargs") or {}))
        seats = [agent for agent in env.possible_agents if agent not in partners]
        named = (run.get("trainer") or {}).get("policies") or {}
        policies = len({named.get(agent, agent) for agent in seats})
        sizes = {"adapters": policies, "rank": lora.get("r", 8)} if lora else {}
        return [ServerCall(model=models, **sizes, **options)]
    return [
        ServerCall(model=model, **{**options, "port": options["port"] + number})
        for number, model in enumerate(models.values())
    ]


@torch.no_grad()
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
    engine.publish(0)
    for policy in team.policies:
        prompt = tuple(team.tokenizers[policy].encode("Hello"))
        draws = [Draw(policy, prompt, seed) for seed in range(PROBES)]
        found = engine.sample(draws, max_tokens=TOKENS, temperature=trainer.args.temperature)
        team.activate(policy)
        gaps = []
        with team.evaluating():
            for one in found:
                ids = torch.tensor([[*prompt, *one.ids]], device=team.device)
                logits = team.model_of(policy)(input_ids=ids).logits[0, len(prompt) - 1 : -1]
                scores = (logits.float() / trainer.args.temperature).log_softmax(-1)
                chosen = scores[range(len(one.ids)), list(one.ids)]
                gaps += (chosen.cpu() - torch.tensor(one.logprobs)).abs().tolist()
        yield (
            f"{policy}: {found[0].version}, {len(gaps)} tokens, log-probs differ by "
            f"{sum(gaps) / len(gaps):.1e} in the mean, {max(gaps):.1e} at most"
        )
