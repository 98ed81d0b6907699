"""One frozen base and one PEFT adapter per policy: the weight mode `adapters`.

Owns what is peculiar to PEFT: which parameters belong to whom, switching, and an adapter's folder.
How rows of several adapters share a forward pass is `stacked.py`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from peft import PeftConfig, TaskType, get_peft_model
from peft.utils import get_peft_model_state_dict, set_peft_model_state_dict
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.files.atomic import naming
from llm_marl_envs.files.json_files import read_json
from trainers.weights.adapter_checks import CONFIG_FILE, WEIGHTS_FILE, refuse_prompts, same_base
from trainers.weights.loading import check_state, read_tensors
from trainers.weights.sharding import like, on_cpu
from trainers.weights.stacked import can_mix, stacked, why_not_stacked
from trainers.weights.team_model import SamplingBatch, TeamModel, check_policy_names


class AdapterWeights(TeamModel):
    """One frozen base and one PEFT adapter per policy.

    Two measured traps of PEFT are met here: `set_adapter` freezes every other adapter, and a new
    adapter is born frozen, so an optimizer or DDP built on `requires_grad` would silently miss it.
    After every switch all adapters are made trainable again.

    Args:
        model: the base; wrapped in place.
        tokenizer: of the base.
        policy_of: agent -> adapter name.
        peft_config: of every adapter.
        seed: adapters are initialised from (seed, name).

    Raises:
        ValueError: PEFT refuses the configuration, or a name cannot be an adapter's.
    """

    mode = "adapters"
    reserved = ("default",)  # PEFT saves that one elsewhere

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        policy_of: Mapping[str, str],
        peft_config: PeftConfig,
        seed: int = 0,
    ) -> None:
        super().__init__(dict.fromkeys(policy_of.values(), tokenizer), policy_of)
        self._seed = seed
        if peft_config.task_type is None:  # without it PEFT's own auto classes cannot load a folder
            peft_config = copy.copy(peft_config)
            peft_config.task_type = TaskType.CAUSAL_LM
        refuse_prompts(peft_config)
        peft_model: Any = None
        with torch.random.fork_rng(), same_base(model):
            for name in self.policies:
                torch.manual_seed(derive_seed("adapter", seed, name))
                try:
                    if peft_model is None:
                        peft_model = get_peft_model(model, peft_config, adapter_name=name)
                    else:
                        peft_model.add_adapter(name, peft_config)
                except (TypeError, ValueError) as error:  # of targets, ranks: PEFT looks only now
                    raise ValueError(f"adapter of {name!r}: {error}") from error
        self.module = peft_model
        self._mixes = can_mix(peft_config)
        self._names = {name: self._only(name) for name in self.policies}
        self._active = ""
        self.activate(self.policies[0])

    def admit(self, resting: Sequence[str]) -> None:
        """As the base class: one more adapter each, made as those of the seats are."""
        config = self.module.peft_config[self.policies[0]]
        check_policy_names(resting)
        for name in resting:
            if name in self.policies:
                raise ValueError(f"policy name {name!r}: there is one already; see policies=")
            with torch.random.fork_rng():
                torch.manual_seed(derive_seed("adapter", self._seed, name))
                self.module.add_adapter(name, config)
            self.tokenizers[name] = self.tokenizers[self.policies[0]]
            self._names[name] = self._only(name)
            self.resting += (name,)
        self._active = ""  # PEFT switched to the last one
        self.activate(self.policies[0])

    def _only(self, policy: str) -> list[str]:
        """Names of what PEFT makes trainable when this adapter alone is active."""
        self.module.set_adapter(policy)
        return [name for name, p in self.module.named_parameters() if p.requires_grad]

    def activate(self, policy: str) -> None:
        """Switch adapters and keep all of them trainable, but the frozen ones."""
        if policy != self._active:
            self.module.set_adapter(policy)
            self._active = policy
        for name in self.policies:
            for parameter in self.parameters(name):
                parameter.requires_grad_(name not in self.frozen)
        for name in self.past:
            for parameter in self.parameters(name):
                parameter.requires_grad_(False)

    def parameters(self, policy: str) -> list[torch.nn.Parameter]:
        """The adapter's parameters; sharding puts others in their place, under the same names."""
        return [self.module.get_parameter(name) for name in self._names[policy]]

    def model_of(self, policy: str) -> Any:
        """The one model that holds all adapters."""
        return self.module

    def sampling_batches(self, policies: Sequence[str]) -> list[SamplingBatch]:
        """One batch of all rows, rows of a policy together; one batch each where none can mix."""
        each = super().sampling_batches(policies)
        if not self._mixes or len(each) < 2:
            return each
        rows = [row for batch in each for row in batch.rows]
        return [SamplingBatch(rows, self.module, [policies[row] for row in rows])]

    @contextmanager
    def acting(self, policies: Sequence[str]) -> Iterator[dict[str, Any]]:
        """As the base class; rows of several adapters by the fastest pass that serves them."""
        with super().acting(policies) as kwargs:
            if len(set(policies)) == 1:
                yield kwargs
            elif why_not_stacked(self.module):
                yield {"adapter_names": list(policies)}
            else:
                with stacked(self.module, policies):
                    yield kwargs

    def keep(self, policy: str, name: str) -> None:
        """As the base class; a past self is a further frozen adapter, so rows of all can mix."""
        active = self._active
        with torch.random.fork_rng():  # PEFT draws weights, which are replaced
            self.module.add_adapter(name, self.module.peft_config[policy])
        self._names[name] = self._only(name)
        with torch.no_grad():
            for new, old in zip(self.parameters(name), self.parameters(policy), strict=True):
                new.copy_(old)
        self.past[name] = policy
        self._active = ""  # PEFT switched to the new one
        self.activate(active)

    def forget(self, name: str) -> None:
        """As the base class."""
        self.activate(self.was(name))  # PEFT would choose another one itself
        self.module.delete_adapter(name)
        del self.past[name], self._names[name]

    def kept(self, name: str) -> Sequence[torch.Tensor]:
        """As the base class."""
        return self.parameters(name)

    def save_policy(self, policy: str, folder: Path, *, writes: bool = True) -> None:
        """An ordinary PEFT folder: adapter_config.json and weights at its root."""
        self.save_adapter(policy, folder, writes=writes)
        if writes:
            self.tokenizers[policy].save_pretrained(folder)

    def save_adapter(self, policy: str, folder: Path, *, writes: bool = True) -> None:
        """As `save_policy`, without the tokenizer."""
        cpu = on_cpu(get_peft_model_state_dict(self.module, adapter_name=policy), keep=writes)
        if not writes:
            return
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / WEIGHTS_FILE
        with naming(file):
            safetensors.torch.save_file(cpu, file, metadata={"format": "pt"})
        self.module.peft_config[policy].save_pretrained(str(folder))
        _sort_names(folder / CONFIG_FILE)

    def load_policy(self, policy: str, folder: Path) -> None:
        """Copy the folder's adapter over this one."""
        state = read_tensors(Path(folder) / WEIGHTS_FILE)
        present = get_peft_model_state_dict(self.module, adapter_name=policy)
        check_state(f"{folder}, adapter {policy!r}", state, present)
        divided = {name: like(tensor, present[name]) for name, tensor in state.items()}
        set_peft_model_state_dict(self.module, divided, adapter_name=policy)


def _sort_names(file: Path) -> None:
    """Write the sets in a config in one order: PEFT's changes with the process's hash seed.

    A saved team is known by its files, so equal teams must have equal ones.
    """
    config = read_json(file)
    for key in ("target_modules", "exclude_modules"):
        if isinstance(config.get(key), list):
            config[key] = sorted(config[key])
    file.write_text(json.dumps(config, indent=2, sort_keys=True), encoding="utf-8")
