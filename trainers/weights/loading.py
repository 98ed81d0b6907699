"""What every load of weights goes through: no tensor is missing, none is left over, all shapes fit.

A tensor that a file lacks would be random numbers, anew in every process, and libraries only warn.
Here that is an error with three names. Three exceptions have names: weights that are tied to others
of the file; what a body does not need of a whole model, heads and poolers; and tables that every
model computes for itself, which older libraries saved.

Owns the check and the calls that it guards; a test looks for loaders elsewhere. Which folder is
loaded for what is `team_files.py`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils.peft_utils import find_adapter_config_file

from llm_marl_envs.files.json_files import read_json
from trainers.weights.sharding import like

SHOWN = 3
LARGER = 3
"""Times what a folder holds: where weights are only missing, they are named."""
POOLER = re.compile(r"(.*\.)?pooler\..*")
"""Of an encoder. Classifiers without one are saved with it."""
COMPUTED = re.compile(
    r"(.*\.)?((attn|attention)\.(masked_)?bias|rotary_emb\.(inv_freq|(cos|sin)_cached))"
)
"""Masks of GPT-2, GPT-J and GPT-Neo, and tables of rotary positions."""


class WeightsError(ValueError):
    """Weights that are damaged, or do not fill the model that they are loaded into."""


def load_model(kind: Any, name: str, *, body: bool = False, **kwargs: Any) -> Any:
    """`kind.from_pretrained(name)`, filled by its file to the last tensor.

    Args:
        kind: a class of Transformers, or an auto class.
        name: a name or folder; of an adapter too, whose base is loaded by the same check.
        body: heads of the file may be left over, and a pooler, which nothing reads, may be new.
        kwargs: of `from_pretrained`.

    Raises:
        WeightsError: a tensor is missing, left over or of another shape, or the file is damaged.
        OSError: as `from_pretrained`.
    """
    adapter = None
    if "gguf_file" not in kwargs:
        adapter = find_adapter_config_file(name, revision=kwargs.get("revision"))
    what = f"model {str(Path(name, kwargs.get('gguf_file') or ''))!r}"
    with _quiet(), _readable(what):
        if adapter is not None:
            named = str(read_json(adapter).get("base_model_name_or_path") or "")
            if not named or named == str(name):
                raise WeightsError(f"{what}: an adapter whose base model has no name")
            model = load_model(kind, named, body=body, **kwargs)
            found = model.load_adapter(name).to_dict()
        else:
            if Path(name).is_dir() and "gguf_file" not in kwargs:
                _refuse_larger(kind, Path(name), what, kwargs)
            model, found = kind.from_pretrained(
                name,
                **{**kwargs, "output_loading_info": True, "ignore_mismatched_sizes": True},
            )
    inside = {model.base_model_prefix, *(child for child, _ in model.base_model.named_children())}
    unexpected, missing = found["unexpected_keys"], found["missing_keys"]
    if body:
        unexpected = {key for key in unexpected if key.split(".")[0] in inside}
        missing = {key for key in missing if not POOLER.fullmatch(key)}
    left_over = (POOLER, COMPUTED)
    check_keys(
        what,
        missing=missing,
        unexpected={key for key in unexpected if not any(of.fullmatch(key) for of in left_over)},
        mismatched=[entry[0] for entry in found["mismatched_keys"]],
    )
    return model


def _refuse_larger(kind: Any, folder: Path, what: str, kwargs: Mapping[str, Any]) -> None:
    """Refuse a configuration of far more weights than a folder holds, before any is made.

    Of weights in packed bits, and of pickles, nobody knows how many there are.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return
    trust = bool(kwargs.get("trust_remote_code"))
    config = AutoConfig.from_pretrained(folder, trust_remote_code=trust)
    if getattr(config, "quantization_config", None):
        return
    held = [tensor for file in files for tensor in shapes_in(file).values()]
    layers = getattr(config.get_text_config(), "num_hidden_layers", None) or 0
    if layers <= len(held):
        with torch.device("meta"):
            empty = kind.from_config(config, trust_remote_code=trust)
        whole = sum(tensor.numel() for tensor in held)
        if empty.num_parameters() <= LARGER * whole:
            return
    raise WeightsError(
        f"{what}: its configuration is of a larger model than its {len(held)} tensors are ("
        f"{layers:,} layers); they are damaged, or of another model"
    )


def check_keys(
    what: str,
    *,
    missing: Collection[str] = (),
    unexpected: Collection[str] = (),
    mismatched: Collection[str] = (),
) -> None:
    """Refuse weights that do not fill what they are loaded into.

    Raises:
        WeightsError: names three of each.
    """
    found = {"missing": missing, "unexpected": unexpected, "of another shape": mismatched}
    wrong = [f"{len(keys)} {how} ({_named(keys)})" for how, keys in found.items() if keys]
    if wrong:
        raise WeightsError(
            f"{what}: its weights do not fit, tensors {', '.join(wrong)}; they are damaged, or of "
            "another model"
        )


def _named(keys: Collection[str]) -> str:
    some = [f"{key:.60}" for key in sorted(map(str, keys))[:SHOWN]]
    return ", ".join([*some, "..."] if len(keys) > SHOWN else some)


def check_state(
    what: str,
    state: Mapping[str, Any],
    expected: Mapping[str, Any],
    tied: Mapping[str, str] | None = None,
) -> None:
    """Refuse tensors that are not just the expected ones, by name and shape.

    Args:
        what: is loaded, begins the error.
        state: name -> tensor, or what has a `shape`.
        expected: name -> tensor of the model.
        tied: name -> another name of the same weights, of which one suffices.

    Raises:
        WeightsError: as `check_keys`.
    """
    groups = {name: {name, source} for name, source in (tied or {}).items()}
    for name, source in (tied or {}).items():
        groups.setdefault(source, {source}).add(name)
    check_keys(
        what,
        missing=[n for n in expected if groups.get(n, {n}).isdisjoint(state)],
        unexpected=[name for name in state if name not in expected],
        mismatched=[
            name
            for name in state
            if name in expected and tuple(state[name].shape) != tuple(expected[name].shape)
        ],
    )


def read_tensors(*files: Path) -> dict[str, torch.Tensor]:
    """The tensors of safetensors files.

    Raises:
        WeightsError: there is no such file, or one is damaged.
    """
    state: dict[str, torch.Tensor] = {}
    for file in files:
        with _readable(str(file)):
            state.update(safetensors.torch.load_file(file))
    return state


def shapes_in(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file without their numbers; errors as `read_tensors`."""
    with _readable(str(file)), safe_open(file, framework="pt") as opened:
        shapes = {name: opened.get_slice(name).get_shape() for name in opened.keys()}  # noqa: SIM118
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


def fill(module: torch.nn.Module, state: Mapping[str, torch.Tensor], what: str) -> None:
    """Copy a state into a module, in place, whose it must be to the last tensor.

    Raises:
        WeightsError: as `check_keys`.
    """
    present = module.state_dict()
    check_state(what, state, present, getattr(module, "all_tied_weights_keys", None))
    divided = {name: like(tensor, present[name]) for name, tensor in state.items()}
    module.load_state_dict(divided, strict=False)


def fill_from_folder(model: PreTrainedModel, folder: Path) -> None:
    """Load a Transformers folder's safetensors into a model, in place.

    Of some models (GPT-NeoX, mixtures of experts) a file has other names than the model, which
    `from_pretrained` translates.

    Raises:
        WeightsError: as `check_keys`.
    """
    state = read_tensors(*sorted(Path(folder).glob("*.safetensors")))
    if not state.keys() <= model.state_dict().keys():
        state = load_model(AutoModelForCausalLM, str(folder), dtype="auto").state_dict()
    fill(model, state, str(folder))
    model.tie_weights()


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Say in words what libraries say of files that they cannot read."""
    try:
        yield
    except FileNotFoundError as error:
        raise WeightsError(f"{what}: no such file") from error
    except (OSError, ValueError, TypeError, AttributeError, ImportError):
        raise
    except SafetensorError as error:
        raise WeightsError(f"{what}: its weights are damaged ({error})") from error
    except Exception as error:  # of three libraries, which say it in many ways
        raise WeightsError(
            f"{what}: its weights are damaged, or do not fit its configuration "
            f"({type(error).__name__}: {error!s:.120})"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out Transformers' table of missing weights, which is an error here."""
    logger = logging.getLogger("transformers.modeling_utils")

    def passes(record: logging.LogRecord) -> bool:
        return "LOAD REPORT" not in record.getMessage()

    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)
