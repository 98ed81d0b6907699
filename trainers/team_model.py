"""Which weights an agent acts with: one shared model, or one LoRA adapter each.

A *policy* here is a set of weights with a name; the map agent -> policy says who acts with which.
Owns activation, the parameters of each policy, how rows of several policies are sampled together,
and the folders that weights are saved to. Knows nothing of episodes or losses.
"""

from __future__ import annotations

import copy
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from peft import PeftConfig, PeftModel, TaskType, get_peft_model
from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from llm_marl_envs.policies import derive_seed

WEIGHT_MODES = ("shared", "adapters")
SHARED = "shared"
TEAM_FILE = "team.json"
TEAM_VERSION = 1


@dataclass(frozen=True, slots=True)
class SamplingBatch:
    """Rows that one `generate` call can serve.

    Attributes:
        rows: positions in the list of requests.
        model: what generates.
        kwargs: further arguments of `generate` (which adapter serves which row).
    """

    rows: list[int]
    model: Any
    kwargs: dict[str, Any]


class TeamModel(ABC):
    """The weights of a team.

    Attributes:
        module: the module that the trainer wraps, moves and trains.
        tokenizer: of all policies.
        policy_of: agent -> policy, for the seats that this object plays.
    """

    mode: str
    module: PreTrainedModel | PeftModel

    def __init__(self, tokenizer: Tokenizer, policy_of: Mapping[str, str]) -> None:
        if not policy_of:
            raise ValueError("a team model needs at least one seat to play")
        self.tokenizer = tokenizer
        self.policy_of = dict(policy_of)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        tokenizer.padding_side = "left"

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies, in seat order, each once."""
        return tuple(dict.fromkeys(self.policy_of.values()))

    @abstractmethod
    def activate(self, policy: str) -> None:
        """Make `module` act with this policy; every policy stays trainable."""

    @abstractmethod
    def parameters(self, policy: str) -> list[torch.nn.Parameter]:
        """The trainable parameters of one policy; no parameter belongs to two."""

    @abstractmethod
    def sampling_batches(self, policies: Sequence[str]) -> list[SamplingBatch]:
        """How to sample rows that act with these policies; element i of `policies` is row i."""

    @abstractmethod
    def save_policy(self, policy: str, folder: Path) -> None:
        """Write one policy as a folder that plain PEFT or Transformers can load."""

    @abstractmethod
    def load_policy(self, policy: str, folder: Path) -> None:
        """Load weights written by `save_policy` into this object, in place."""

    @property
    def eos_ids(self) -> list[int]:
        """Token ids that end an action."""
        configured = self.module.generation_config.eos_token_id
        listed = configured if isinstance(configured, list) else [configured]
        found = [self.tokenizer.eos_token_id, *(i for i in listed if i is not None)]
        return list(dict.fromkeys(found))

    @property
    def context_length(self) -> int | None:
        """Most tokens the model can attend to, None where its config does not say."""
        return getattr(self.module.config, "max_position_embeddings", None)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch `module` to evaluation mode, and back."""
        training = self.module.training
        self.module.eval()
        try:
            yield
        finally:
            self.module.train(training)


class FullWeights(TeamModel):
    """One model, every weight trained, every seat played by it."""

    mode = "shared"

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer, agents: Sequence[str]) -> None:
        super().__init__(tokenizer, dict.fromkeys(agents, SHARED))
        self.module = model

    def activate(self, policy: str) -> None:
        """Nothing to switch: there is one policy."""

    def parameters(self, policy: str) -> list[torch.nn.Parameter]:
        """All trainable parameters of the model."""
        return [p for p in self.module.parameters() if p.requires_grad]

    def sampling_batches(self, policies: Sequence[str]) -> list[SamplingBatch]:
        """One batch of all rows."""
        return [SamplingBatch(list(range(len(policies))), self.module, {})]

    def save_policy(self, policy: str, folder: Path) -> None:
        """An ordinary Transformers folder."""
        self.module.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def load_policy(self, policy: str, folder: Path) -> None:
        """Load the folder's safetensors into the model."""
        state: dict[str, torch.Tensor] = {}
        for file in sorted(Path(folder).glob("*.safetensors")):
            state.update(safetensors.torch.load_file(file))
        result = self.module.load_state_dict(state, strict=False)
        tied = set(getattr(self.module, "all_tied_weights_keys", None) or ())
        missing = set(result.missing_keys) - tied
        if result.unexpected_keys or missing:
            raise ValueError(
                f"{folder} does not fit the model: unexpected {result.unexpected_keys[:3]}, "
                f"missing {sorted(missing)[:3]}"
            )
        self.module.tie_weights()


class AdapterWeights(TeamModel):
    """One frozen base and one PEFT adapter per policy.

    Two measured traps of PEFT are met here: `set_adapter` freezes every other adapter, and a new
    adapter is born frozen, so an optimizer or DDP built on `requires_grad` would silently miss it.
    After every switch all adapters are made trainable again.

    Args:
        model: the base; wrapped in place.
        tokenizer: its tokenizer.
        policy_of: agent -> adapter name; two seats may share one.
        peft_config: configuration of every adapter.
        seed: adapters are initialised from (seed, name).

    Raises:
        ValueError: an adapter is called "default" (PEFT saves that one elsewhere) or holds a dot.
    """

    mode = "adapters"

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        policy_of: Mapping[str, str],
        peft_config: PeftConfig,
        seed: int = 0,
    ) -> None:
        super().__init__(tokenizer, policy_of)
        if peft_config.task_type is None:  # without it PEFT's own auto classes cannot load a folder
            peft_config = copy.copy(peft_config)
            peft_config.task_type = TaskType.CAUSAL_LM
        for name in self.policies:
            if name == "default" or "." in name:
                raise ValueError(f"policy name {name!r}: an adapter needs another name, no dots")
        peft_model: Any = None
        with torch.random.fork_rng():
            for name in self.policies:
                torch.manual_seed(derive_seed("adapter", seed, name))
                if peft_model is None:
                    peft_model = get_peft_model(model, peft_config, adapter_name=name)
                else:
                    peft_model.add_adapter(name, peft_config)
        self.module = peft_model
        self._parameters = {name: self._only(name) for name in self.policies}
        self._active = ""
        self.activate(self.policies[0])

    def _only(self, policy: str) -> list[torch.nn.Parameter]:
        """What PEFT makes trainable when this adapter alone is active."""
        self.module.set_adapter(policy)
        return [p for p in self.module.parameters() if p.requires_grad]

    def activate(self, policy: str) -> None:
        """Switch adapters and keep all of them trainable."""
        if policy != self._active:
            self.module.set_adapter(policy)
            self._active = policy
        for parameters in self._parameters.values():
            for parameter in parameters:
                parameter.requires_grad_(True)

    def parameters(self, policy: str) -> list[torch.nn.Parameter]:
        """The adapter's parameters."""
        return self._parameters[policy]

    def sampling_batches(self, policies: Sequence[str]) -> list[SamplingBatch]:
        """One batch of all rows, each served by its own adapter."""
        names = list(policies)
        if len(set(names)) == 1:  # a plain forward is cheaper than a mixed one
            self.activate(names[0])
            return [SamplingBatch(list(range(len(names))), self.module, {})]
        return [SamplingBatch(list(range(len(names))), self.module, {"adapter_names": names})]

    def save_policy(self, policy: str, folder: Path) -> None:
        """An ordinary PEFT folder: adapter_config.json and weights at its root."""
        folder.mkdir(parents=True, exist_ok=True)
        state = get_peft_model_state_dict(self.module, adapter_name=policy)
        cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
        safetensors.torch.save_file(
            cpu, folder / "adapter_model.safetensors", metadata={"format": "pt"}
        )
        self.module.peft_config[policy].save_pretrained(str(folder))
        self.tokenizer.save_pretrained(folder)

    def load_policy(self, policy: str, folder: Path) -> None:
        """Copy the folder's adapter over this one."""
        state = safetensors.torch.load_file(Path(folder) / "adapter_model.safetensors")
        result = set_peft_model_state_dict(self.module, state, adapter_name=policy)
        if result.unexpected_keys:
            raise ValueError(
                f"{folder} does not fit adapter {policy!r}: unexpected {result.unexpected_keys[:3]}"
            )


def build_team_model(
    model: str | PreTrainedModel,
    agents: Sequence[str],
    *,
    weights: str,
    peft_config: PeftConfig | None = None,
    tokenizer: Tokenizer | None = None,
    policies: Mapping[str, str] | None = None,
    seed: int = 0,
) -> TeamModel:
    """The weights of a team that plays `agents`.

    Args:
        model: a name or folder that `from_pretrained` takes, or a loaded model.
        agents: the seats to play.
        weights: "shared" (one policy for every seat; a LoRA adapter if `peft_config` is given) or
            "adapters" (one adapter per policy).
        peft_config: e.g. `LoraConfig`; needed for "adapters".
        tokenizer: loaded from `model` where None.
        policies: agent -> policy name, for "adapters"; each agent its own where None.
        seed: initialises adapters.

    Raises:
        ValueError: unknown mode, a missing `peft_config`, or `policies` for other agents.
    """
    if weights not in WEIGHT_MODES:
        raise ValueError(f"weights={weights!r}: expected one of {WEIGHT_MODES}")
    if weights == "adapters" and peft_config is None:
        raise ValueError("weights='adapters' needs peft_config=, e.g. peft.LoraConfig(r=16)")
    if policies is not None and (weights != "adapters" or set(policies) != set(agents)):
        raise ValueError(
            f"policies={dict(policies)}: expected one name for each of {list(agents)}, "
            "with weights='adapters'"
        )
    loaded = load_base(model) if isinstance(model, str) else model
    if tokenizer is None:
        tokenizer = AutoTokenizer.from_pretrained(loaded.config.name_or_path)
    if peft_config is None:
        return FullWeights(loaded, tokenizer, agents)
    if weights == "shared":
        policies = dict.fromkeys(agents, SHARED)
    policy_of = {agent: (policies or {}).get(agent, agent) for agent in agents}
    return AdapterWeights(loaded, tokenizer, policy_of, peft_config, seed)


def load_base(model: str) -> PreTrainedModel:
    """`AutoModelForCausalLM.from_pretrained`, with an error that says what was tried.

    Raises:
        ValueError: nothing loadable under that name.
    """
    try:
        return AutoModelForCausalLM.from_pretrained(model)
    except OSError as error:
        raise ValueError(
            f"model {model!r}: neither a folder with a Transformers model nor a name that the "
            f"Hugging Face Hub could give ({error})"
        ) from error


def save_team(team: TeamModel, folder: str | Path, *, env: Mapping[str, Any]) -> None:
    """Write a team: one folder per policy and `team.json`, which `load_team` reads.

    Args:
        team: what to save.
        folder: created where missing; existing files of the same names are replaced.
        env: what the team plays, kept in `team.json`: "env_id", "env_kwargs",
            "max_completion_length"; JSON values.
    """
    folder = Path(folder)
    for policy in team.policies:
        team.save_policy(policy, folder / policy)
    description = {
        "version": TEAM_VERSION,
        "weights": team.mode,
        "agents": team.policy_of,
        "base": team.module.config.name_or_path,
        **env,
    }
    partial = folder / f".{TEAM_FILE}.partial"
    partial.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, folder / TEAM_FILE)


def load_team(folder: str | Path, base: str | None = None) -> TeamModel:
    """Read a team written by `save_team` (every checkpoint of a run is one, too).

    Args:
        folder: holds `team.json`.
        base: the base model of its adapters, where it moved since.

    Raises:
        ValueError: no team there, or one of another version.
    """
    folder = Path(folder)
    description = read_team_file(folder)
    agents: dict[str, str] = description["agents"]
    first = folder / next(iter(agents.values()))
    tokenizer = AutoTokenizer.from_pretrained(first)
    if description["weights"] == FullWeights.mode:
        return FullWeights(AutoModelForCausalLM.from_pretrained(first), tokenizer, list(agents))
    config = PeftConfig.from_pretrained(str(first))
    model = load_base(base or description["base"])
    team = AdapterWeights(model, tokenizer, agents, config)
    for policy in team.policies:
        team.load_policy(policy, folder / policy)
    return team


def read_team_file(folder: str | Path) -> dict[str, Any]:
    """The contents of `team.json`.

    Raises:
        ValueError: it is missing, no JSON, or of another version.
    """
    path = Path(folder) / TEAM_FILE
    if not path.is_file():
        raise ValueError(f"{folder}: no {TEAM_FILE} there; expected a folder written by save_team")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: no JSON ({error})") from error
    if description.get("version") != TEAM_VERSION:
        raise ValueError(f"{path}: version {description.get('version')!r}, expected {TEAM_VERSION}")
    return description
