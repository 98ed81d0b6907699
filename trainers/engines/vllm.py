"""vLLM servers over HTTP: ids in, ids and log-probs out, versions of weights by folder.

    publish: weights -> folder "policy@update-digest" -> every server -> answers name that version

Adapters are loaded beside each other, under names that never mean two contents. Full weights are
put in the place of the old ones; then an answer cannot name its version, and the measurement of
log-probs (`trainers.update.drift`) is what notices a server that has others. Servers read the
folders, so they and the trainer share a file system. Measured with vLLM 0.32 (docs/howto/vllm.md).
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import torch

from llm_marl_envs.checks import check_types, refuse_unknown
from llm_marl_envs.files.atomic import make_folder
from llm_marl_envs.policies.json_server import EndpointError, JsonServer, UselessAnswerError
from trainers.engines.base import Draw, Drawn, SamplingEngine
from trainers.engines.generate import GenerateEngine
from trainers.models.adapters import AdapterWeights
from trainers.models.team_model import SeparateWeights, TeamModel

KEPT = 2
"""Versions of a policy that servers keep: the present one and the one before."""
RETURNING = 9
"""Times that a lost server is asked again, with growing waits: about three minutes."""
SEED_BITS = 31
START = "start"
SETTINGS = ("urls", "exact", "timeout", "retries", "concurrency")
"""What a run file may say."""
PROBES = 4
PROBE_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Version:
    """Weights of a policy as servers know them.

    Attributes:
        policy: whose they are.
        update: the update before which they were published, or "start".
        digest: of the weights, 8 hex digits.
    """

    policy: str
    update: int | str
    digest: str

    @property
    def name(self) -> str:
        """On servers, and of its folder."""
        return f"{self.policy}@{self.update}-{self.digest}"


class VLLMEngine(SamplingEngine):
    """Samples on vLLM servers.

    Args:
        team: whose weights are served.
        folder: where versions are written; the servers must see it under the same path.
        urls: of the servers, each of which serves all policies; with separate full weights
            policy -> its servers.
        exact: the servers add this library's noise per row (`llm-marl serve-team`), so that tokens
            are those of `generate`. It is tried on probes before the first rollout.
        timeout: seconds that a request may take.
        retries: further attempts after a failure that may pass.
        concurrency: most requests under way at once.
        writes: whether this process publishes; one of several does.

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
        self.folder = Path(folder).absolute()
        self.exact = exact
        self.concurrency = concurrency
        self.writes = writes
        self.by_name = isinstance(team, AdapterWeights)
        self.served: dict[str, list[Version]] = {}
        self.starts: dict[str, Version] = {}
        found = {policy: _urls_of(urls, policy, team) for policy in team.policies}
        self.servers = {
            policy: [JsonServer(url, timeout=timeout, retries=retries) for url in some]
            for policy, some in found.items()
        }
        self._proven = not exact

    @classmethod
    def for_run(cls, team: TeamModel, args: Any, settings: Mapping[str, Any]) -> VLLMEngine:
        """Versions lie in the run's folder, under `engine`; the first process publishes."""
        where = "engine, name='vllm'"
        refuse_unknown(where, settings, SETTINGS)
        if "urls" not in settings:
            raise ValueError(f"{where}: urls is missing; expected e.g. ['http://localhost:8000']")
        check_types(where, settings, get_type_hints(cls.__init__))
        folder = Path(str(args.output_dir)) / "engine"
        return cls(team, folder, writes=args.process_index == 0, **settings)

    # -- weights ----------------------------------------------------------------------------------
    def publish(self, update: int) -> None:
        """Serve the present weights of every policy whose weights are not served yet.

        Raises:
            LostServerError: a server gives no answer.
            EndpointError: a server refuses the weights.
        """
        behind = {self.team.policy_of[agent] for agent in self.team.left_behind}
        for policy in sorted(behind - set(self.starts)):
            self.starts[policy] = self._serve(policy, START)
        for policy in self.team.policies:
            versions = self.served.setdefault(policy, [])
            if not versions or digest_of(self.team, policy) != versions[-1].digest:
                versions.append(self._serve(policy, update))
                self._drop_old(versions)
        if not self._proven:
            self._prove()

    def recover(self) -> None:
        """Wait for servers that gave no answer; the next `publish` gives them everything again.

        Raises:
            LostServerError: one does not come back in time.
        """
        for server in {one for some in self.servers.values() for one in some}:
            patient = dataclasses.replace(server, retries=RETURNING)
            _tell(patient, "/health", None)
        self.served.clear()
        self.starts.clear()

    def _serve(self, policy: str, update: int | str) -> Version:
        weights = self.team.at_start(policy) if update == START else nullcontext()
        with weights:
            version = Version(policy, update, digest_of(self.team, policy))
            if self.writes:
                self._write(version)
        if self.writes:
            for server in self.servers[policy]:
                self._load(server, version)
        return version

    def _write(self, version: Version) -> None:
        """The version's folder, whole or absent."""
        place = self.folder / version.name
        if place.exists():
            return
        make_folder(self.folder)
        aside = place.with_name(f".{version.name}.partial")
        shutil.rmtree(aside, ignore_errors=True)
        self.team.save_policy(version.policy, aside)
        aside.rename(place)

    def _load(self, server: JsonServer, version: Version) -> None:
        place = str(self.folder / version.name)
        if self.by_name:
            body = {"lora_name": version.name, "lora_path": place}
            try:
                _tell(server, "/v1/load_lora_adapter", body)
            except EndpointError as error:
                if "already" not in str(error):  # a name means one content, so that is well
                    raise
            return
        reload = {"method": "reload_weights", "kwargs": {"weights_path": place}}
        _tell(server, "/pause?mode=wait", {})
        _tell(server, "/collective_rpc", reload)
        _tell(server, "/reset_prefix_cache", {})
        _tell(server, "/resume", {})

    def _drop_old(self, versions: list[Version]) -> None:
        """Unload and delete what is older than the versions that are kept."""
        while len(versions) > KEPT:
            old = versions.pop(0)
            if not self.writes:
                continue
            for server in self.servers[old.policy] if self.by_name else ():
                _tell(server, "/v1/unload_lora_adapter", {"lora_name": old.name})
            shutil.rmtree(self.folder / old.name, ignore_errors=True)

    # -- sampling ---------------------------------------------------------------------------------
    def sample(self, draws: Sequence[Draw], *, max_tokens: int, temperature: float) -> list[Drawn]:
        """One sample per draw, in order; the servers of a policy take turns.

        Raises:
            ValueError: an exact engine at a temperature other than 0 and 1.
            LostServerError: a server gives no answer.
            EndpointError: it refuses the request, or another model answers; the message names the
                version.
        """
        if self.exact and temperature not in (0.0, 1.0):
            raise ValueError(
                f"temperature={temperature}: an exact vLLM engine samples at 1, for the log-probs "
                "that it returns are those of temperature 1; set exact=False"
            )
        if not draws:
            return []
        settings = {"max_tokens": max_tokens, "temperature": temperature}

        def one(place: int) -> Drawn:
            return self._sampled(draws[place], place, settings)

        with ThreadPoolExecutor(min(self.concurrency, len(draws)), "vllm") as pool:
            return list(pool.map(one, range(len(draws))))

    def _sampled(self, draw: Draw, place: int, settings: Mapping[str, Any]) -> Drawn:
        version = self.starts[draw.policy] if draw.start else self.served[draw.policy][-1]
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
        if self.by_name:
            body["model"] = version.name
        servers = self.servers[draw.policy]
        server = servers[place % len(servers)]

        def read(answer: Any) -> Drawn:
            model = answer.get("model")
            if self.by_name and model != version.name:
                raise UselessAnswerError(f"{model!r} answered, {version.name!r} was asked")
            choice = answer["choices"][0]
            ids = tuple(int(token) for token in choice["token_ids"])
            logprobs = tuple(float(one["logprob"]) for one in choice["logprobs"]["content"])
            if len(ids) != len(logprobs) or not ids:
                raise UselessAnswerError(f"{len(ids)} ids and {len(logprobs)} log-probs")
            return Drawn(ids, logprobs, version.name)

        try:
            return server.ask("/inference/v1/generate", body, read)
        except EndpointError as error:
            raise type(error)(f"version {version.name}: {error}") from error

    def _prove(self) -> None:
        """Compare a few samples with those of `generate`, once.

        Raises:
            ValueError: they differ.
        """
        probes = [
            Draw(policy, tuple(self.team.tokenizers[policy].encode("Hello")), seed)
            for policy in self.team.policies
            for seed in range(PROBES)
        ]
        here = GenerateEngine(self.team).sample(probes, max_tokens=PROBE_TOKENS, temperature=1.0)
        there = self.sample(probes, max_tokens=PROBE_TOKENS, temperature=1.0)
        wrong = [
            f"{probe.policy}, seed {probe.seed}: {list(b.ids)}, `generate` gives {list(a.ids)}"
            for probe, a, b in zip(probes, here, there, strict=True)
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
        for reason, there in barred.items():
            if there:
                raise ValueError(
                    f"engine vllm: it serves plain LoRA adapters, and {policy} has {reason}; use "
                    "plain LoRA, or engine='generate'"
                )


def digest_of(team: TeamModel, policy: str) -> str:
    """8 hex digits of a policy's weights as they are now."""
    digest = hashlib.sha256()
    for parameter in team.parameters(policy):
        plain = parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(plain.numpy().tobytes())
    return digest.hexdigest()[:8]


def _urls_of(
    urls: Sequence[str] | Mapping[str, Sequence[str]], policy: str, team: TeamModel
) -> list[str]:
    """The servers of a policy.

    Raises:
        ValueError: none, or one list for policies that need servers of their own.
    """
    if isinstance(urls, Mapping):
        some = list(urls.get(policy, ()))
        unknown = sorted(set(urls) - set(team.policies))
        if unknown:
            raise ValueError(f"urls for {unknown}: the policies are {list(team.policies)}")
    else:
        some = list(urls)
        if isinstance(team, SeparateWeights) and len(team.policies) > 1:
            raise ValueError(
                "urls: with weights='separate' each policy needs servers of its own; give a map "
                f"of {list(team.policies)} to lists of addresses"
            )
    if not some or isinstance(urls, str):
        raise ValueError(f"urls: no list of servers for {policy}; expected ['http://host:8000']")
    return [url.rstrip("/").removesuffix("/v1") for url in some]


def _tell(server: JsonServer, path: str, body: Mapping[str, Any] | None) -> None:
    """A request whose answer is no more than that it was done."""
    server.ask(path, body, lambda said: said, decode=bytes)
