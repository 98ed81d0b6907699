"""Whether adapters can be what a policy's weights are: read, made, begun with and saved.

    r: 1000000000              more weights than the model has: refused before they are made
    init_lora_weights: pissa   changes the base, which all policies share: refused
    ensure_weight_tying        cannot be saved: refused before the first update

All rules look at what PEFT makes, not at a list of its settings. Shapes are tried without numbers,
on the device `meta`. Owns reading `adapter_config.json`, too.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from peft import PeftConfig, get_peft_model
from peft.utils import get_peft_model_state_dict
from transformers import AutoModelForCausalLM, PreTrainedModel

from llm_marl_envs.core.records import plain
from llm_marl_envs.files.json_files import differing, read_json

if TYPE_CHECKING:
    from trainers.weights.adapters import AdapterWeights

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
NAME = "adapter"
WORDS = 8
"""Tokens of the text that tells whether a policy begins at its base."""
OTHER = 3.0
MOST_SAID = 160
REPEATED = re.compile(r"[*+}]")
"""In a pattern of module names. Three repetitions of some hundred letters take no time."""
REPETITIONS = 3


def read_adapter_config(folder: Path) -> PeftConfig:
    """The configuration of a saved adapter, which may come from a stranger.

    Raises:
        ValueError: it is missing or damaged, of a kind that PEFT does not know, or has a pattern
            that could take for ever.
    """
    file = folder / CONFIG_FILE
    said = read_json(file)
    for pattern in _patterns(said):
        if len(REPEATED.findall(pattern)) > REPETITIONS or re.search(r"\)[*+{]", pattern):
            raise ValueError(
                f"{file}: the pattern {pattern!r:.80} could take for ever to match; expected names "
                f"of modules, or at most {REPETITIONS} repetitions, none of a group"
            )
    try:
        return PeftConfig.from_pretrained(str(folder))
    except Exception as error:  # of PEFT, which looks at values only where it uses them
        raise ValueError(f"{file}: {_said(error)}") from error


def _patterns(said: Mapping[str, Any]) -> Iterator[str]:
    """Texts of a configuration that PEFT takes for regular expressions."""
    for key, value in said.items():
        if isinstance(value, str) and key.endswith(("_modules", "_parameters", "_pattern")):
            yield value
        if key.endswith("_pattern") and isinstance(value, (Mapping, list)):
            yield from map(str, value)


def different(first: PeftConfig, second: PeftConfig) -> list[str]:
    """In which settings two configurations differ, whatever base they name."""
    one, two = (
        {key: plain(getattr(value, "value", value)) for key, value in config.to_dict().items()}
        for config in (first, second)
    )
    return sorted({*differing(one, two)} - {"base_model_name_or_path"})


def check_adapter(peft_config: PeftConfig, config: Any, *, trust: bool = False) -> None:
    """Refuse adapters that fit no layer of a model, without its weights.

    Args:
        peft_config: of the adapters.
        config: of the model, as `AutoConfig` has it.
        trust: run code that comes with it (`trust_remote_code`).

    Raises:
        ValueError: as `adapter_shapes`.
    """
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config, trust_remote_code=trust)
    _shapes(peft_config, empty)


def adapter_shapes(peft_config: PeftConfig, model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """What an adapter of a model's would be saved as: name -> shape, without numbers.

    Raises:
        ValueError: PEFT finds nothing to adapt, or refuses what it finds, or the adapter has more
            weights than the model.
    """
    with torch.device("meta"):
        empty = type(model)(copy.deepcopy(model.config))  # type: ignore[arg-type]
    return _shapes(peft_config, empty)


def refuse_prompts(config: PeftConfig) -> None:
    """Refuse what PEFT keeps outside of layers.

    Raises:
        ValueError: prompts or tokens are to be learned.
    """
    if config.is_prompt_learning or getattr(config, "trainable_token_indices", None):
        raise ValueError(
            f"{config.peft_type}: learned prompts and tokens are not supported as weights of "
            "several policies; use LoRA"
        )


def _shapes(peft_config: PeftConfig, empty: PreTrainedModel) -> dict[str, torch.Tensor]:
    refuse_prompts(peft_config)
    whole = empty.num_parameters()
    try:
        with torch.device("meta"):
            made: Any = get_peft_model(empty, copy.deepcopy(peft_config), adapter_name=NAME)
        shapes = get_peft_model_state_dict(made, adapter_name=NAME)
    except Exception as error:  # of PEFT, which says it in many ways
        raise ValueError(f"lora: {_said(error)}") from error
    count = sum(tensor.numel() for tensor in shapes.values())
    if count > whole:
        raise ValueError(
            f"lora: an adapter would have {count:,} weights, and its model has {whole:,}: expected "
            "a smaller rank (r, rank_pattern)"
        )
    return shapes


@contextmanager
def same_base(model: PreTrainedModel) -> Iterator[None]:
    """Refuse adapters that change the model under them, which others share; made in the block.

    Every weight is read twice.

    Raises:
        ValueError: a weight is another, gone, or used in more places.
    """
    before = _state_of(model)
    yield
    after = _state_of(model)
    if any(after.get(key) != state for key, state in before.items()):
        raise ValueError(
            "lora: this configuration changes the base model (as init_lora_weights 'pissa' and "
            "'olora' or layer_replication do), which all policies share, and saved adapters would "
            "be read on another one: choose init_lora_weights: true"
        )


def _state_of(model: PreTrainedModel) -> dict[int, tuple[int, int]]:
    """Each parameter -> how many names it has, and a sum over its bits."""
    named: dict[int, list[torch.nn.Parameter]] = {}
    for _, parameter in model.named_parameters(remove_duplicate=False):
        named.setdefault(id(parameter), []).append(parameter)
    return {key: (len(each), _bits(each[0])) for key, each in named.items()}


def _bits(tensor: torch.Tensor) -> int:
    if tensor.is_meta or not tensor.numel():
        return 0
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    words = len(flat) // 8 * 8  # whole numbers of 8 bytes are read as fast as memory gives them
    return int(flat[:words].view(torch.int64).sum()) + int(flat[words:].sum())


def try_out(team: AdapterWeights) -> None:
    """Refuse adapters that do not begin at the base, or are not read back as they are saved.

    All have one configuration, so one is saved. That costs a copy of it, in memory and in a
    temporary folder, beside a short forward pass for each policy and one without adapters.

    Raises:
        ValueError: says which.
    """
    _begin_at_base(team)
    policy = team.policies[0]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            team.save_adapter(policy, folder)
            other = different(team.module.peft_config[policy], read_adapter_config(folder))
            same = _comes_back(team, policy, folder)
        except (ValueError, RuntimeError) as error:  # of PEFT and safetensors
            raise _unsaved(policy, _said(error)) from error
    if other or not same:
        raise _unsaved(policy, f"another one is read back, {other or 'in its weights'}")
    team.activate(policy)


@torch.no_grad()
def _begin_at_base(team: AdapterWeights) -> None:
    embedded: Any = team.bases[0].get_input_embeddings()
    words = torch.arange(WORDS, device=team.device)[None] % embedded.weight.shape[0]
    with team.evaluating():
        with team.module.disable_adapter():
            base = team.module(input_ids=words, use_cache=False).logits
        # Adapters that add nothing may still round otherwise.
        near = torch.finfo(base.dtype).eps ** 0.5 * float(base.abs().max())
        for policy in team.policies:
            team.activate(policy)
            scores = team.module(input_ids=words, use_cache=False).logits
            apart = float((scores - base).abs().max())
            if not apart <= near:
                raise ValueError(
                    f"lora: with this configuration {policy!r} begins elsewhere than the base "
                    f"model (scores differ by {apart:.2g}): choose an initialisation that adds "
                    "nothing, such as init_lora_weights: true"
                )


@torch.no_grad()
def _comes_back(team: AdapterWeights, policy: str, folder: Path) -> bool:
    """Whether a saved adapter is, bit for bit, what other weights become by loading it."""
    parameters = team.parameters(policy)
    saved = [parameter.detach().clone() for parameter in parameters]
    for parameter in parameters:
        parameter.fill_(OTHER)
    try:
        team.load_policy(policy, folder)
        return all(map(torch.equal, parameters, saved))
    finally:
        for parameter, value in zip(parameters, saved, strict=True):
            parameter.copy_(value)


def _unsaved(policy: str, why: str) -> ValueError:
    return ValueError(
        f"lora: the adapter of {policy!r} cannot be saved and read back as it is: leave out what "
        f"is beyond plain LoRA, such as ensure_weight_tying ({why})"
    )


def _said(error: Exception) -> str:
    """An error of another library in one line."""
    kind = "" if isinstance(error, (TypeError, ValueError)) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())[:MOST_SAID]
