"""Sampling on vLLM servers over HTTP: ids in, ids and log-probs out.

What the servers hold is `vllm_weights.py`, how they are started `vllm_server.py`. Measured with
vLLM 0.32 (docs/howto/vllm.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from llm_marl_envs.core.checks import check_types, refuse_unknown
from llm_marl_envs.policies.endpoint import sampled
from llm_marl_envs.policies.json_server import (
    EndpointError,
    JsonServer,
    UselessAnswerError,
    at_once,
    check_url,
)
from trainers.engines.base import Draw, Drawn, SamplingEngine
from trainers.engines.generate import GenerateEngine
from trainers.engines.vllm_server import ServerProcess, calls_for
from trainers.engines.vllm_weights import ServedWeights, tell
from trainers.weights.adapters import AdapterWeights
from trainers.weights.team_model import SeparateWeights, TeamModel

RETURNING = 9
"""Times that a lost server is asked again, with growing waits: about three minutes."""
SEED_BITS = 31
SETTINGS = ("urls", "per_node", "start", "exact", "timeout", "retries", "concurrency")
"""What a run file may say."""
PROBES = 4
PROBE_TOKENS = 8
SERVED = {
    *("r", "rank_pattern", "lora_alpha", "alpha_pattern", "use_rslora", "lora_dropout"),
    *("target_modules", "exclude_modules", "target_parameters", "layers_to_transform"),
    *("layers_pattern", "fan_in_fan_out", "init_lora_weights", "eva_config", "lora_ga_config"),
    *("task_type", "peft_type", "auto_mapping", "peft_version", "base_model_name_or_path"),
    *("revision", "inference_mode", "runtime_config"),
}
"""Settings of LoRA that vLLM reads, or that change nothing once an adapter is made."""


class VLLMEngine(SamplingEngine):
    """Samples on vLLM servers.

    Args:
        team: whose weights are served.
        folder: where versions are written; the servers must see it under the same path.
        urls: of the servers, each of which serves all policies; with separate full weights
            policy -> its servers.
        exact: the servers add this library's noise per row (`llm-marl serve-team`), so that tokens
            are those of `generate`. It is tried on probes before the first sample.
        timeout: seconds that a request may take.
        retries: further attempts after a failure that may pass.
        concurrency: most requests under way at once.
        writes: whether this process publishes; one of several does.

    Attributes:
        processes: the servers, among those of `urls`, that the engine itself starts and stops.

    Raises:
        ValueError: weights that vLLM cannot serve, or servers that do not fit the policies.
    """

    name = "vllm"
    remote = True

    def __init__(
        self,
        team: TeamModel,
        folder: str | Path,
        *,
        urls: Sequence[str] | Mapping[str, Sequence[str]],
        exact: bool = False,
        timeout: float = 600.0,
        retries: int = 2,
        concurrency: int = 64,
        writes: bool = True,
    ) -> None:
        refuse_unservable(team)
        self.team = team
        self.processes: tuple[ServerProcess, ...] = ()
        self.exact = exact
        self.concurrency = concurrency
        urls_of = {policy: _urls_of(urls, policy, team) for policy in team.policies}
        self.servers = {
            policy: [JsonServer(url, timeout=timeout, retries=retries) for url in addresses]
            for policy, addresses in urls_of.items()
        }
        self.weights = ServedWeights(team, Path(folder).absolute(), self.servers, writes=writes)
        self._proven = not exact

    @classmethod
    def for_run(cls, team: TeamModel, args: Any, settings: Mapping[str, Any]) -> VLLMEngine:
        """Versions lie in the run's folder, under `engine`; the first process publishes.

        With `per_node` the addresses are those of servers on the process's own node. Its first
        process loads there what the first process of all has written.
        """
        where, options = "engine, name='vllm'", dict(settings)
        refuse_unknown(where, options, SETTINGS)
        if ("urls" in options) is ("start" in options):
            raise ValueError(
                f"{where}: expected urls of servers, e.g. ['http://localhost:8000'], or start, a "
                "map of how to start them, e.g. {python: vllm_env/bin/python}"
            )
        start = options.pop("start", None)
        per_node = options.pop("per_node", False)
        check_types(where, {"per_node": per_node}, {"per_node": bool})
        check_types(where, options, get_type_hints(cls.__init__))
        folder, started = Path(str(args.output_dir)) / "engine", {}
        if start is not None:
            refuse_unservable(team)
            started = _started(team, folder, start, args, options.get("exact", False))
            options["urls"] = {policy: [process.url] for policy, process in started.items()}
        engine = cls(team, folder, writes=args.process_index == 0, **options)
        if per_node:
            engine.weights.loads = args.local_process_index == 0
        engine.processes = tuple(dict.fromkeys(started.values()))
        return engine

    # -- weights ----------------------------------------------------------------------------------
    def publish(self, update: int) -> None:
        """As `ServedWeights.publish`; servers of the engine's own are started first.

        Raises:
            LostServerError: a server gives no answer.
            EndpointError: a server refuses the weights, or one of its own does not start.
        """
        self._start()
        self.weights.publish(update)  # first: of sharded weights every process brings its part
        if self.weights.loads and not self.software:
            server = self.servers[self.team.policies[0]][0]
            self.software = server.ask("/version", None, lambda answer: f"vllm {answer['version']}")

    def recover(self) -> None:
        """Wait for servers that gave no answer; the next `publish` gives them everything again.

        Raises:
            LostServerError: one does not come back in time.
        """
        self._start()
        for server in {each for servers in self.servers.values() for each in servers}:
            tell(dataclasses.replace(server, retries=RETURNING), "/health", None)
        self.weights.forget()

    def close(self) -> None:
        """Stop the servers that the engine started; the next `publish` starts them again."""
        for process in self.processes:
            process.stop()

    def _start(self) -> None:
        """Start own servers that do not run; new ones hold nothing."""
        for process in self.processes:
            if process.start():
                self.weights.forget()

    # -- sampling ---------------------------------------------------------------------------------
    def sample(self, draws: Sequence[Draw], *, max_tokens: int, temperature: float) -> list[Drawn]:
        """One sample per draw, in order; the servers of a policy take turns.

        Raises:
            ValueError: an exact engine at a temperature other than 0 and 1, or whose samples are
                not those of `generate`; or nothing was published.
            LostServerError: a server gives no answer.
            EndpointError: it refuses the request, or another model answers; the message names the
                version.
        """
        if self.exact and temperature not in (0.0, 1.0):
            raise ValueError(
                f"temperature={temperature}: an exact vLLM engine samples at 1, for the log-probs "
                "that it returns are those of temperature 1; set exact=False"
            )
        if not self._proven and draws:
            self._prove()
        return self._asked(draws, {"max_tokens": max_tokens, "temperature": temperature})

    def _asked(self, draws: Sequence[Draw], settings: Mapping[str, Any]) -> list[Drawn]:
        def one(place: int) -> Drawn:
            return self._sampled(draws[place], place, settings)

        return at_once(one, range(len(draws)), self.concurrency)

    def _sampled(self, draw: Draw, place: int, settings: Mapping[str, Any]) -> Drawn:
        version = self.weights.version(draw.policy, start=draw.start)
        sampling: dict[str, Any] = {
            **settings,
            "logprobs": 0,
            "detokenize": False,
            "stop_token_ids": self.team.eos_ids(draw.policy),
            "seed": draw.seed % 2**SEED_BITS,
        }
        if self.exact and settings["temperature"]:  # the server adds the noise and takes the best
            sampling |= {"temperature": 0.0, "extra_args": {"row_seed": draw.seed}}
        body: dict[str, Any] = {"token_ids": list(draw.prompt_ids), "sampling_params": sampling}
        if self.weights.by_name:
            body["model"] = version.name
        servers = self.servers[draw.policy]
        server = servers[place % len(servers)]

        def read(answer: Any) -> Drawn:
            """A sample of the version that was asked, of as many ids as log-probs."""
            model = answer.get("model")
            if self.weights.by_name and model != version.name:
                raise UselessAnswerError(f"{model!r} answered, {version.name!r} was asked")
            choice = answer["choices"][0]
            ids, logprobs = sampled(choice["token_ids"], choice["logprobs"]["content"])
            if not ids:
                raise UselessAnswerError("it sent no token")
            return Drawn(ids, logprobs, version.name)

        try:
            return server.ask("/inference/v1/generate", body, read)
        except EndpointError as error:
            raise type(error)(f"version {version.name}: {error}") from error

    def _prove(self) -> None:
        """Compare a few samples with those of `generate`, once.

        Not while publishing: of several processes, only the one that writes knows then that the
        servers have the weights.

        Raises:
            ValueError: they differ.
        """
        probes = [
            Draw(policy, tuple(self.team.tokenizers[policy].encode("Hello")), seed)
            for policy in self.team.policies
            for seed in range(PROBES)
        ]
        here = GenerateEngine(self.team).sample(probes, max_tokens=PROBE_TOKENS, temperature=1.0)
        served = self._asked(probes, {"max_tokens": PROBE_TOKENS, "temperature": 1.0})
        wrong = [
            f"{probe.policy}, seed {probe.seed}: {list(b.ids)}, `generate` gives {list(a.ids)}"
            for probe, a, b in zip(probes, here, served, strict=True)
            if a.ids != b.ids
        ]
        if wrong:
            raise ValueError(
                f"engine vllm with exact=True: {len(wrong)} of {len(probes)} probes differ, "
                f"{wrong[0]}; start the server as `llm-marl serve-team --exact` says, in float32, "
                "or set exact=False"
            )
        self._proven = True


def refuse_unservable(team: TeamModel) -> None:
    """Refuse weights that vLLM cannot serve as the trainer has them.

    Raises:
        ValueError: the reason.
    """
    if not isinstance(team, AdapterWeights):
        if team.left_behind:
            raise ValueError(
                f"engine vllm: {sorted(team.left_behind)} play with the weights that a trained "
                "policy began with, and a server holds one set of full weights; use adapters"
            )
        return
    for policy in team.policies:
        config = team.module.peft_config[policy]
        kind = getattr(config.peft_type, "value", str(config.peft_type))
        barred = {
            "DoRA": getattr(config, "use_dora", False),
            "modules_to_save": getattr(config, "modules_to_save", None),
            "trained biases": getattr(config, "bias", "none") != "none",
            "trained embeddings": getattr(config, "trainable_token_indices", None),
            f"{kind} adapters": kind != "LORA",
        }
        for field in dataclasses.fields(config):
            barred[f"the setting {field.name}"] = field.name not in SERVED and _is_set(
                config, field
            )
        for reason, present in barred.items():
            if present:
                raise ValueError(
                    f"engine vllm: it serves plain LoRA adapters, and {policy} has {reason}; use "
                    "plain LoRA, or engine='generate'"
                )


def _is_set(config: Any, field: dataclasses.Field[Any]) -> bool:
    """Whether a setting asks for anything."""
    value = getattr(config, field.name)
    return bool(value) and value != field.default


def _urls_of(
    urls: Sequence[str] | Mapping[str, Sequence[str]], policy: str, team: TeamModel
) -> list[str]:
    """The servers of a policy.

    Raises:
        ValueError: none, or one list for policies that need servers of their own.
    """
    if isinstance(urls, Mapping):
        addresses = list(urls.get(policy, ()))
        unknown = sorted(set(urls) - set(team.policies))
        if unknown:
            raise ValueError(f"urls for {unknown}: the policies are {list(team.policies)}")
    else:
        addresses = list(urls)
        if isinstance(team, SeparateWeights) and len(team.policies) > 1:
            raise ValueError(
                "urls: with weights='separate' each policy needs servers of its own; give a map "
                f"of {list(team.policies)} to lists of addresses"
            )
    if not addresses or isinstance(urls, str):
        raise ValueError(f"urls: no list of servers for {policy}; expected ['http://host:8000']")
    for url in addresses:
        check_url(url)
    return [url.rstrip("/").removesuffix("/v1") for url in addresses]


def _started(
    team: TeamModel, folder: Path, start: Any, args: Any, exact: bool
) -> dict[str, ServerProcess]:
    """Policy -> the server that the engine will start for it; one for all but separate models.

    Raises:
        ValueError: settings that are unknown, a model without a folder or name, several processes.
        TypeError: a setting of the wrong type.
    """
    if args.world_size > 1:
        raise ValueError(
            f"engine vllm, start: {args.world_size} processes would each start servers; start them "
            "with `llm-marl serve-team` and give their urls"
        )
    separate = isinstance(team, SeparateWeights)
    names = {policy: team.base_name(policy) for policy in team.policies}
    for policy, name in names.items():
        if not name:
            raise ValueError(
                f"engine vllm, start: the model of {policy} has no folder or name that a server "
                "could load; give the trainer a name or a folder, not an object"
            )
    adapters = team.module.peft_config if isinstance(team, AdapterWeights) else {}
    models = names if separate else {"": next(iter(names.values()))}
    calls = calls_for(models, list(adapters.values()), start, exact=exact)
    processes = {
        policy: ServerProcess(call, folder / f"server{'_' * bool(policy)}{policy}.log")
        for policy, call in calls.items()
    }
    return {policy: processes[policy if separate else ""] for policy in team.policies}
