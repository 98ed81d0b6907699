"""Which weights an agent acts with: one shared model, one LoRA adapter each, or one model each.

A *policy* here is a set of weights with a name; the map agent -> policy says who acts with which.
Owns activation, the parameters of each policy and their start (the reference of a KL term), and
how rows of several policies are sampled together. Building, saving and loading teams is
`team_files.py`. Knows nothing of episodes or losses.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from trainers.weights.loading import fill_from_folder
from trainers.weights.sharding import as_bytes, on_cpu, shard, whole
from trainers.weights.team_module import TeamModule

WeightMode = Literal["shared", "adapters", "separate"]
WEIGHT_MODES = get_args(WeightMode)
SHARED = "shared"
LONGEST_NAME = 200  # bytes; file systems take 255
# A policy's name is the name of its folder, here and wherever the team goes: no separators of any
# system, no drive, nothing that a system drops.
_NO_FOLDER = re.compile(r"[/\\:\x00-\x1f\x7f\ud800-\udfff]|^\.+$|^\s|[\s.]$|^$")


def check_policy_names(names: Iterable[str]) -> None:
    """Check that each policy can have a folder of its name, inside of the team's and its own.

    Raises:
        ValueError: a name that is no text, empty, too long, leaves the folder or cannot be kept on
            every system, or two that differ in case alone.
    """
    listed = list(names)
    bad = [
        name
        for name in listed
        if not isinstance(name, str) or _NO_FOLDER.search(name) or len(name.encode()) > LONGEST_NAME
    ]
    if bad:
        raise ValueError(
            f"policy names {bad!s:.120}: expected names of folders, without / \\ : or control "
            f"characters, at most {LONGEST_NAME} bytes, no blank or dot at an end; choose others "
            "with policies="
        )
    if len({name.casefold() for name in listed}) < len(set(listed)):
        raise ValueError(
            f"policy names {sorted(set(listed))!s:.120}: two differ in case alone, and many file "
            "systems would give them one folder; choose others with policies="
        )


@dataclass(frozen=True, slots=True)
class SamplingBatch:
    """Rows that one `generate` call can serve.

    Attributes:
        rows: positions in the list of requests.
        model: what generates.
        policies: who acts, one per row; the first one's tokenizer and end-of-action ids serve all.
    """

    rows: list[int]
    model: Any
    policies: list[str]

    @property
    def policy(self) -> str:
        """Whose tokenizer and end-of-action ids serve all rows."""
        return self.policies[0]

    def parts(self, size: int | None) -> Iterator[SamplingBatch]:
        """The same rows, at most `size` in a batch; None is all."""
        step = size or max(1, len(self.rows))
        for i in range(0, len(self.rows), step):
            yield SamplingBatch(self.rows[i : i + step], self.model, self.policies[i : i + step])


class TeamModel(ABC):
    """The weights of a team.

    Attributes:
        module: the module that the trainer wraps, moves and trains.
        tokenizers: policy -> its tokenizer.
        policy_of: agent -> policy, for the seats that this object plays.
        frozen: policies that are not trained.
        resting: policies that have no seat; see `admit`.
        left_behind: seats that play with the weights their policy began with, while it is trained.
        past: past self -> the policy that it was; see `keep`.
        sharded: every process holds a part of the weights; see `shard`.
    """

    mode: str
    module: Any
    reserved: ClassVar[Collection[str]] = ()
    """Names that no policy can have."""

    def __init__(self, tokenizers: Mapping[str, Tokenizer], policy_of: Mapping[str, str]) -> None:
        if not policy_of:
            raise ValueError("a team model needs at least one seat to play")
        self.tokenizers = dict(tokenizers)
        self.policy_of = dict(policy_of)
        self.resting: tuple[str, ...] = ()
        check_policy_names(self.policies)
        for name in self.policies:  # torch keeps each policy's weights under its name
            if "." in name or hasattr(torch.nn.ModuleDict, name) or name in self.reserved:
                raise ValueError(
                    f"policy name {name!r}: a policy needs another name, without dots, that torch "
                    "and PEFT give to nothing else; see policies="
                )
        self.frozen: frozenset[str] = frozenset()
        self.left_behind: frozenset[str] = frozenset()
        self.sharded = False
        self._starts: dict[str, list[torch.Tensor]] = {}
        self.past: dict[str, str] = {}
        self._copies: dict[str, list[torch.Tensor]] = {}
        for tokenizer in self.tokenizers.values():
            if tokenizer.pad_token is None:
                tokenizer.pad_token = tokenizer.eos_token
            tokenizer.padding_side = "left"

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies, in seat order, each once; then those that rest."""
        return tuple(dict.fromkeys((*self.policy_of.values(), *self.resting)))

    @property
    def trained_policies(self) -> list[str]:
        """The policies that are trained, in seat order."""
        return [policy for policy in self.policies if policy not in self.frozen]

    @property
    def trained_parameters(self) -> int:
        """How many weights are trained, over all policies."""
        return sum(p.numel() for policy in self.trained_policies for p in self.parameters(policy))

    @abstractmethod
    def activate(self, policy: str) -> None:
        """Make `module` act with this policy; every policy stays trainable."""

    @abstractmethod
    def model_of(self, policy: str) -> Any:
        """The Transformers or PEFT model that holds this policy."""

    def base_name(self, policy: str) -> str:
        """The name or folder that a policy's model was loaded by; empty where it has none."""
        return str(self.model_of(policy).config.name_or_path or "")

    def parameters(self, policy: str) -> list[torch.nn.Parameter]:
        """The trainable parameters of one policy; no parameter belongs to two."""
        return [p for p in self.model_of(policy).parameters() if p.requires_grad]

    def sampling_batches(self, policies: Sequence[str]) -> list[SamplingBatch]:
        """How to sample rows that act with these policies; element i of `policies` is row i.

        They may be past selves, here and in `acting`.
        """
        batches = []
        for policy in dict.fromkeys(policies):
            rows = [i for i, other in enumerate(policies) if other == policy]
            batches.append(SamplingBatch(rows, self.model_of(policy), [policy] * len(rows)))
        return batches

    @contextmanager
    def acting(self, policies: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Let the rows of one sampling batch act with these policies, while the block runs.

        Yields further arguments of `generate`.
        """
        self.activate(policies[0])
        with self._as_it_was(policies[0]):
            yield {}

    @property
    def bases(self) -> list[PreTrainedModel]:
        """The models of Transformers, each once."""
        bases = [without_adapters(self.model_of(policy)) for policy in self.policies]
        return list({id(model): model for model in bases}.values())

    @property
    def base(self) -> PreTrainedModel:
        """The model of Transformers that acts now."""
        return self.bases[0]

    def shard(self, device: torch.device, processes: int) -> None:
        """Divide the weights over all processes and move the parts to `device`, in place."""
        shard(self.bases, device, processes)
        self.sharded = True

    def whole(self) -> AbstractContextManager[None]:
        """Have all weights on every process while a block runs; every process enters it."""
        return whole(self.bases) if self.sharded else nullcontext()

    def save_policy(self, policy: str, folder: Path, *, writes: bool = True) -> None:
        """Write one policy as a folder that plain PEFT or Transformers can load.

        Of sharded weights every process must ask; those with `writes` write.
        """
        model, state = self.model_of(policy), None
        if self.sharded:
            tied = _tied(model)
            parts = {name: t for name, t in model.state_dict().items() if name not in tied}
            state = on_cpu(parts, keep=writes)
        if writes:
            model.save_pretrained(folder, state_dict=state)
            self.tokenizers[policy].save_pretrained(folder)

    def load_policy(self, policy: str, folder: Path) -> None:
        """Load weights written by `save_policy` into this object, in place.

        Raises:
            ValueError: the folder holds the weights of another model.
        """
        fill_from_folder(self.model_of(policy), folder)

    def eos_ids(self, policy: str) -> list[int]:
        """Token ids that end an action of this policy."""
        configured = getattr(self.model_of(policy).generation_config, "eos_token_id", None)
        listed = configured if isinstance(configured, list) else [configured]
        own = self.tokenizers[self.was(policy)].eos_token_id
        ids = [own, *(i for i in listed if i is not None)]
        return list(dict.fromkeys(ids))

    def context_length(self, policy: str) -> int | None:
        """Most tokens the model can attend to, None where its config does not say."""
        return getattr(self.model_of(policy).config, "max_position_embeddings", None)

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

    def admit(self, resting: Sequence[str]) -> None:
        """Make further policies, which have no seat now and are trained where they get one.

        Raises:
            ValueError: weights that hold no more policies than seats.
        """
        if resting:
            raise ValueError(
                f"weights={self.mode!r}: {[*resting]} would be policies without a seat; expected "
                "weights='adapters' (with `lora`), or no `size` of the population"
            )

    def freeze(self, seats: Collection[str]) -> None:
        """Let these seats play with the weights they have now, untrained.

        A policy is frozen if all its seats are. Where a trained seat shares it, its weights move
        on, and the frozen seats act with a copy of the present ones.

        Raises:
            ValueError: a seat that this object does not play, or no seat is left to train.
        """
        unknown = sorted(set(seats) - set(self.policy_of))
        if unknown or set(seats) == set(self.policy_of):
            raise ValueError(
                f"frozen={sorted(seats)}: expected some, not all, of the seats {[*self.policy_of]}"
            )
        moving = {policy for seat, policy in self.policy_of.items() if seat not in seats}
        self.frozen = frozenset(self.policy_of.values()) - moving
        self.left_behind = frozenset(s for s in seats if self.policy_of[s] in moving)
        self.remember_start(self.policy_of[seat] for seat in self.left_behind)
        for policy in self.frozen:
            for parameter in self.parameters(policy):
                parameter.requires_grad_(False)

    def remember_start(self, policies: Iterable[str]) -> None:
        """Keep a copy of the policies' trainable weights: the reference of a KL term."""
        for policy in policies:
            self._starts[policy] = [p.detach().clone() for p in self.parameters(policy)]

    @contextmanager
    def at_start(self, policy: str) -> Iterator[None]:
        """Let a policy act with the weights of `remember_start`, while the block runs.

        Exact in every mode and for every initialisation, which switching adapters off is not.
        """
        now = [parameter.detach().clone() for parameter in self.parameters(policy)]
        try:
            self._write(policy, self._starts[policy])
            yield
        finally:
            self._write(policy, now)

    @torch.no_grad()
    def _write(self, policy: str, values: Sequence[torch.Tensor]) -> None:
        """Copy into the parameters: one that is sharded ignores another `.data`, silently."""
        for parameter, value in zip(self.parameters(policy), values, strict=True):
            parameter.copy_(value)

    def weights(self) -> Iterator[torch.Tensor]:
        """Every tensor that an action may depend on, those of past selves and starts, too."""
        yield from self.module.parameters()
        yield from self.module.buffers()
        for kept in (*self._copies.values(), *self._starts.values()):
            yield from kept

    # -- past selves -------------------------------------------------------------------------------
    def was(self, name: str) -> str:
        """The policy that a past self was; the name of a policy stays."""
        return self.past.get(name, name)

    def keep(self, policy: str, name: str) -> None:
        """Keep a policy's present trainable weights as a past self, which samples by its name."""
        self.past[name] = policy
        self._copies[name] = [p.detach().clone() for p in self.parameters(policy)]

    def forget(self, name: str) -> None:
        """Let a past self go."""
        del self.past[name], self._copies[name]

    def kept(self, name: str) -> Sequence[torch.Tensor]:
        """The weights of a past self, in the order of its policy's `parameters`."""
        return self._copies[name]

    @contextmanager
    def _as_it_was(self, name: str) -> Iterator[None]:
        """Let a past self's copy stand in the place of the present weights; nothing is copied."""
        parameters = self.parameters(self.was(name)) if name in self._copies else []
        now = [parameter.data for parameter in parameters]
        try:
            for parameter, value in zip(parameters, self._copies.get(name, ()), strict=True):
                parameter.data = value
            yield
        finally:
            for parameter, value in zip(parameters, now, strict=True):
                parameter.data = value

    def start_digest(self) -> str:
        """A hash of the remembered starts: a resumed run must have begun at the same weights."""
        digest = hashlib.sha256()
        for policy in sorted(self._starts):
            for start in self._starts[policy]:
                digest.update(as_bytes(start))
        return digest.hexdigest()


class FullWeights(TeamModel):
    """One model, every weight trained, every seat played by it."""

    mode = "shared"

    def __init__(self, model: PreTrainedModel, tokenizer: Tokenizer, agents: Sequence[str]) -> None:
        super().__init__({SHARED: tokenizer}, dict.fromkeys(agents, SHARED))
        self.module = model

    def activate(self, policy: str) -> None:
        """Nothing to switch: there is one policy."""

    def model_of(self, policy: str) -> Any:
        """The model."""
        return self.module


class SeparateWeights(TeamModel):
    """One full model per policy, no two the same object; bases and tokenizers may differ."""

    mode = "separate"

    def __init__(
        self,
        models: Mapping[str, PreTrainedModel],
        tokenizers: Mapping[str, Tokenizer],
        policy_of: Mapping[str, str],
    ) -> None:
        super().__init__(tokenizers, policy_of)
        if len({id(model) for model in models.values()}) < len(models):
            raise ValueError("weights='separate' needs a model object of its own for each policy")
        self.module = TeamModule(models)

    def activate(self, policy: str) -> None:
        """Forward to this policy's model."""
        self.module.active = self.was(policy)

    def model_of(self, policy: str) -> Any:
        """The policy's own model."""
        return self.module.models.get_submodule(self.was(policy))

    @property
    def base(self) -> PreTrainedModel:
        """The active policy's own model."""
        return self.module.models.get_submodule(self.module.active)


def without_adapters(model: Any) -> Any:
    """The model of Transformers within one of PEFT."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _tied(model: PreTrainedModel) -> set[str]:
    """Names of weights that are others' by another name."""
    return set(getattr(model, "all_tied_weights_keys", None) or ())
