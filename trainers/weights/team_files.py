"""Building, saving and loading teams.

Owns the choice of the weight mode, `team.json` and the folder of a saved team: one folder per
policy that plain PEFT or Transformers can load. What the weights do is `team_model.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer

from llm_marl_envs import __version__
from llm_marl_envs.files.atomic import naming
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.hub.team_repository import (
    BASE,
    CARRIED,
    ORIGIN_FILE,
    TEAM_FILE,
    check_base,
    refuse_code,
)
from trainers.weights.adapter_checks import (
    WEIGHTS_FILE,
    adapter_shapes,
    different,
    read_adapter_config,
)
from trainers.weights.adapters import AdapterWeights
from trainers.weights.loading import WeightsError, check_state, load_model, shapes_in
from trainers.weights.model_card import write_cards
from trainers.weights.team_model import (
    SHARED,
    WEIGHT_MODES,
    FullWeights,
    SeparateWeights,
    TeamModel,
    check_policy_names,
)

TEAM_VERSION = 1
TOKENIZER_FILES = "tokenizer*", "vocab*", "*.model"
"""What a folder with a tokenizer holds one of."""

FIELDS: dict[str, type | tuple[type, ...]] = {
    "base": str,
    "env_id": str,
    "env_kwargs": dict,
    "chat_template_kwargs": dict,
    "max_completion_length": int,
    "tool_format": (str, dict),
}
"""Of `team.json`, what it may hold there, beside null."""

Models = str | PreTrainedModel | Mapping[str, str | PreTrainedModel]
Tokenizers = Tokenizer | Mapping[str, Tokenizer]


def build_team_model(
    model: Models,
    agents: Sequence[str],
    *,
    weights: str,
    peft_config: PeftConfig | None = None,
    tokenizer: Tokenizers | None = None,
    policies: Mapping[str, str] | None = None,
    seed: int = 0,
    init_kwargs: Mapping[str, Any] | None = None,
) -> TeamModel:
    """The weights of a team that plays `agents`.

    Args:
        model: a name or folder that `from_pretrained` takes, or a loaded model; for "separate" also
            policy -> one of these.
        agents: the seats to play.
        weights: "shared" (one policy for every seat; a LoRA adapter if `peft_config` is given),
            "adapters" (one adapter per policy) or "separate" (one full model per policy).
        peft_config: e.g. `LoraConfig`; needed for "adapters".
        tokenizer: loaded from `model` where None; for "separate" also policy -> tokenizer.
        policies: agent -> policy name, where seats share one; each agent its own where None.
        seed: initialises adapters.
        init_kwargs: for `from_pretrained`; float32 unless they say another `dtype`.

    Raises:
        ValueError: unknown mode, a missing or superfluous `peft_config`, `policies` for other
            agents, or models for other policies.
    """
    if weights not in WEIGHT_MODES:
        raise ValueError(f"weights={weights!r:.200}: expected one of {WEIGHT_MODES}")
    if weights == "adapters" and peft_config is None:
        raise ValueError("weights='adapters' needs peft_config=, e.g. peft.LoraConfig(r=16)")
    if policies is not None and (weights == SHARED or set(policies) != set(agents)):
        raise ValueError(
            f"policies={dict(policies)}: expected one name for each of {list(agents)}, "
            "with weights='adapters' or 'separate'"
        )
    policy_of = {agent: (policies or {}).get(agent, agent) for agent in agents}
    if weights == "separate":
        if peft_config is not None:
            raise ValueError("weights='separate' trains whole models; for LoRA use 'adapters'")
        return _separate(model, tokenizer, policy_of, init_kwargs)
    if isinstance(model, Mapping) or isinstance(tokenizer, Mapping):
        raise ValueError(
            f"several models or tokenizers need weights='separate', not {weights!r:.200}"
        )
    loaded: Any = load_base(model, init_kwargs) if isinstance(model, str) else model
    reader: Any = tokenizer
    if reader is None:
        reader = load_tokenizer(loaded.config.name_or_path, trust=trusts(init_kwargs))
    if peft_config is None:
        return FullWeights(loaded, reader, agents)
    if weights == SHARED:
        policy_of = dict.fromkeys(agents, SHARED)
    adapter_shapes(peft_config, loaded)  # refuses before it makes
    return AdapterWeights(loaded, reader, policy_of, peft_config, seed)


def _separate(
    model: Models,
    tokenizer: Tokenizers | None,
    policy_of: Mapping[str, str],
    init_kwargs: Mapping[str, Any] | None,
) -> SeparateWeights:
    names = list(dict.fromkeys(policy_of.values()))
    # Of one model, each policy begins as a copy.
    chosen = model if isinstance(model, Mapping) else {name: copy.deepcopy(model) for name in names}
    if set(chosen) != set(names):
        raise ValueError(f"models for {sorted(chosen)}: expected one for each policy, {names}")
    models: dict[str, Any] = {name: chosen[name] for name in names}
    for name, base in models.items():
        if isinstance(base, str):
            models[name] = load_base(base, init_kwargs)
    if tokenizer is None:
        tokenizer = {
            name: load_tokenizer(base.config.name_or_path, trust=trusts(init_kwargs))
            for name, base in models.items()
        }
    if not isinstance(tokenizer, Mapping):
        tokenizer = dict.fromkeys(names, tokenizer)
    if set(tokenizer) != set(names):
        raise ValueError(f"tokenizers for {sorted(tokenizer)}: expected one for each of {names}")
    return SeparateWeights(models, tokenizer, policy_of)


def load_config(model: str, *, trust: bool = False) -> Any:
    """As `AutoConfig.from_pretrained`, with an error that says what was tried.

    Raises:
        ValueError: nothing of that kind under that name.
    """
    try:
        return AutoConfig.from_pretrained(model, trust_remote_code=trust)
    except OSError as error:
        raise _no_model(model, error) from error
    except ValueError as error:
        if not Path(model).exists():
            raise _no_model(model, error) from error
        raise ValueError(f"model {model!r:.200} cannot be loaded ({error!s:.200})") from error


def _no_model(model: str, error: Exception) -> ValueError:
    return ValueError(
        f"model {model!r}: neither a folder with a Transformers model nor a name that the "
        f"Hugging Face Hub could give ({error!s:.200})"
    )


def load_base(model: str, init_kwargs: Mapping[str, Any] | None = None) -> PreTrainedModel:
    """As `AutoModelForCausalLM.from_pretrained`, with an error that says what was tried.

    Raises:
        ValueError: nothing loadable under that name, or its weights are damaged or not whole.
    """
    try:
        # In the weights' own bf16, AdamW would round most small updates away.
        return load_model(
            AutoModelForCausalLM, model, **{"dtype": torch.float32, **(init_kwargs or {})}
        )
    except WeightsError:
        raise
    except OSError as error:
        raise _no_model(model, error) from error
    except (ValueError, TypeError, AttributeError) as error:
        own = {k: v for k, v in (init_kwargs or {}).items() if k != "trust_remote_code"}
        if not (own or isinstance(error, ValueError)):
            raise
        where = f" with model_init_kwargs={own}" if own else ""
        raise ValueError(
            f"model {model!r:.200} cannot be loaded{where} ({error!s:.200})"
        ) from error


def trusts(init_kwargs: Mapping[str, Any] | None) -> bool:
    """Whether code that comes with a model may run, for its weights and its tokenizer alike."""
    return bool((init_kwargs or {}).get("trust_remote_code"))


def load_tokenizer(model: str | Path | None, *, trust: bool = False) -> Any:
    """As `AutoTokenizer.from_pretrained`, with an error that says what was tried.

    Args:
        model: a name or folder.
        trust: run code that comes with it (`trust_remote_code`).

    Raises:
        ValueError: there is no tokenizer.
    """
    if not model:
        raise ValueError("the model has no name, so its tokenizer is unknown: processing_class=")
    try:
        return AutoTokenizer.from_pretrained(model, trust_remote_code=trust)
    except (OSError, ValueError) as error:
        where = Path(model)
        if where.is_dir() and not any(any(where.glob(form)) for form in TOKENIZER_FILES):
            why = (
                "no file of one is there; copy tokenizer.json and tokenizer_config.json of the "
                "model that it comes from into it"
            )
        else:
            why = str(error).replace(str(model), "it")
        raise ValueError(
            f"{str(model)!r:.200} has no tokenizer that can be read ({why:.500})"
        ) from error


def save_team(
    team: TeamModel,
    folder: str | Path,
    *,
    env: Mapping[str, Any],
    trained: Mapping[str, Any] | None = None,
    writes: bool = True,
) -> None:
    """Write a team: one folder per policy, `team.json`, which `load_team` reads, and model cards.

    Args:
        team: what to save. Seats that it leaves behind are not in the saved team.
        folder: created where missing; existing files of the same names are replaced.
        env: what the team plays, kept in `team.json`: "env_id", "env_kwargs",
            "max_completion_length", "temperature" and, where there are any,
            "chat_template_kwargs", "tool_format" (other than lines) and "sampled_by" (an engine
            other than `generate`); JSON values.
        trained: how, for the cards; see `model_card.training_facts`.
        writes: whether this process writes. Of sharded weights every process must call this.
    """
    folder = Path(folder)
    if writes:
        (folder / TEAM_FILE).unlink(missing_ok=True)  # an older one would make half a team whole
    for policy in team.policies:
        with naming(folder / policy):
            team.save_policy(policy, folder / policy, writes=writes)
    if not writes:
        return
    # A seat left behind played with older weights than those saved under its policy's name.
    seats = {seat: name for seat, name in team.policy_of.items() if seat not in team.left_behind}
    description = {
        "version": TEAM_VERSION,
        "weights": team.mode,
        "agents": seats,
        "base": team.base_name(team.policies[0]),
        **({"resting": [*team.resting]} if team.resting else {}),
        **env,
        "written_by": f"llm-marl-envs {__version__}",
    }
    with naming(folder):
        write_cards(team, folder, description, trained or {})
    write_json(folder / TEAM_FILE, description)


def load_team(folder: str | Path, base: str | None = None) -> TeamModel:
    """Read a team written by `save_team` (every checkpoint of a run is one, too).

    Args:
        folder: holds `team.json`.
        base: the base model of its adapters, where it moved since. The one that `team.json` names,
            a folder or a name on the Hub, is the only thing that is read outside of `folder`.

    Raises:
        ValueError: no team there, one of another version, adapters whose base is unknown, or
            damaged weights.
    """
    folder = Path(folder)
    description = read_team_file(folder)
    agents: dict[str, str] = description["agents"]
    first, resting = folder / next(iter(agents.values())), description.get("resting", ())
    if description["weights"] == SeparateWeights.mode:
        folders = {policy: str(folder / policy) for policy in agents.values()}
        return build_team_model(folders, list(agents), weights="separate", policies=agents)
    tokenizer = load_tokenizer(first)
    if description["weights"] == FullWeights.mode:
        return FullWeights(load_base(str(first)), tokenizer, list(agents))
    config = _one_config(folder, list(dict.fromkeys([*agents.values(), *resting])))
    base = base or base_of(folder, description)
    if not base:
        raise ValueError(
            f"{folder}: its adapters were trained on a model that had no name; save that model and "
            "pass its folder as base="
        )
    model = load_base(base, _without_code(folder, base))
    shapes = adapter_shapes(config, model)
    for policy in (*agents.values(), *resting):  # before anything of these shapes is made
        file = folder / policy / WEIGHTS_FILE
        check_state(str(file), shapes_in(file), shapes)
    team = AdapterWeights(model, tokenizer, agents, config)
    team.admit(resting)
    for policy in team.policies:
        team.load_policy(policy, folder / policy)
    return team


def _one_config(folder: Path, policies: Sequence[str]) -> PeftConfig:
    """The configuration of all adapters of a team.

    Raises:
        ValueError: one is missing, damaged or another than the first.
    """
    configs = [read_adapter_config(folder / policy) for policy in policies]
    for policy, config in zip(policies, configs, strict=True):
        other = different(configs[0], config)
        if other:
            raise ValueError(
                f"{folder / policy}: its adapter is of another kind than that of {policies[0]!r} "
                f"({', '.join(other)}), and the adapters of a team are alike"
            )
    return configs[0]


def base_of(folder: Path, description: Mapping[str, Any]) -> str:
    """The base of a team's adapters, a folder or a name; empty where it has none."""
    named = description.get("base") or ""
    return str(folder / BASE) if named == CARRIED else str(named)


def _without_code(folder: Path, base: str) -> dict[str, Any]:
    """For the base of a stranger's team, what keeps `from_pretrained` from running anything.

    Raises:
        ValueError: the base is a path of some machine, or comes with code.
    """
    if not (folder / ORIGIN_FILE).is_file():
        return {}
    if base != str(folder / BASE):
        check_base({"base": base}, folder / TEAM_FILE)
        try:
            config, _ = PreTrainedConfig.get_config_dict(base)
        except OSError as error:
            raise _no_model(base, error) from error
        refuse_code(config, f"model {base!r}")
    return {"use_safetensors": True, "trust_remote_code": False}


def read_team_file(folder: str | Path) -> dict[str, Any]:
    """The contents of `team.json`, which may come from a stranger: it names folders beside it only.

    Single files in these folders may be links, as the Hub's cache makes them: whatever they lead to
    is read as weights or as a tokenizer, or refused.

    Raises:
        ValueError: it is missing, no JSON, of another version or damaged, or a policy lies outside
            of the team's folder, by its name or by a link.
    """
    path = Path(folder) / TEAM_FILE
    if not path.is_file():
        raise ValueError(f"{folder}: no {TEAM_FILE} there; expected a folder written by save_team")
    description = read_json(path)
    if description.get("version") != TEAM_VERSION:
        raise ValueError(
            f"{path}: version {description.get('version')!r:.200} of the format, written by "
            f"{description.get('written_by', 'an unknown version')}; llm-marl-envs {__version__} "
            f"reads version {TEAM_VERSION}"
        )
    seats = description.get("agents")
    if not isinstance(seats, dict) or not seats:
        raise ValueError(f"{path}: 'agents' is missing or damaged; expected seat -> policy")
    resting = description.get("resting", [])
    if not isinstance(resting, list):
        raise ValueError(f"{path}: 'resting' is damaged; expected a list of policies")
    try:
        check_policy_names([*seats.values(), *resting])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    for key, kinds in FIELDS.items():
        if description.get(key) is not None and not isinstance(description[key], kinds):
            raise ValueError(f"{path}: {key!r} is damaged, {description[key]!r:.80}")
    if description.get("weights") not in WEIGHT_MODES:
        raise ValueError(
            f"{path}: 'weights' is {description.get('weights')!r:.80}; expected one of "
            f"{', '.join(WEIGHT_MODES)}"
        )
    home = path.parent.resolve()
    for policy in (*seats.values(), *resting):
        place = (home / policy).resolve()
        if place.parent != home:
            raise ValueError(
                f"{path}: the policy {policy!r:.200} is a link to {place}, outside of the team's "
                "folder; copy it into the folder if you trust it"
            )
    return description
