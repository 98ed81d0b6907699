"""The README of a saved team and of each of its policies: what they are and how they are loaded.

Owns the words. Everything in a card is known; what is not known, a licence for one, is left out.
The same team has the same card, wherever and whenever it is saved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from llm_marl_envs.files.cache import CARD_FILE
from trainers.weights.adapters import AdapterWeights
from trainers.weights.team_model import TeamModel
from trainers.weights.tiny import RECORD as TINY_RECORD

TAGS = ("llm-marl-envs", "multi-agent", "reinforcement-learning")
MEASURED = ("reward", "success")
"""Numbers of the log that a card shows, where they are there."""


def training_facts(algorithm: str, state: Any) -> dict[str, Any]:
    """What a card says of the training, from transformers' state of the trainer."""
    facts: dict[str, Any] = {"algorithm": algorithm, "updates": state.global_step}
    for name, prefix in (("evaluation", "eval_"), ("training", "")):
        for entry in reversed(state.log_history):
            numbers = {k: entry[prefix + k] for k in MEASURED if prefix + k in entry}
            if numbers:
                facts[name] = {"update": entry["step"], **numbers}
                break
    return facts


def write_cards(
    team: TeamModel, folder: Path, description: Mapping[str, Any], trained: Mapping[str, Any]
) -> None:
    """Write the README of a team's folder and those of its policies.

    `description` is what `team.json` holds, `trained` what `training_facts` returns, if known.
    """
    facts = _facts(team, description, trained)
    _write(folder, ModelCardData(tags=_tags(trained)), _team_text(team, description, facts))
    for policy in team.policies:
        adapter = isinstance(team, AdapterWeights)
        data = ModelCardData(
            base_model=_hub_name(team, policy) if adapter else None,
            library_name="peft" if adapter else "transformers",
            pipeline_tag="text-generation",
            tags=_tags(trained),
        )
        _write(folder / policy, data, _policy_text(team, policy, description, facts))


def _write(folder: Path, data: ModelCardData, lines: Sequence[str]) -> None:
    text = f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(lines) + "\n"
    ModelCard(text).save(folder / CARD_FILE)


def _tags(trained: Mapping[str, Any]) -> list[str]:
    return [*TAGS, *([trained["algorithm"]] if "algorithm" in trained else [])]


def _base(team: TeamModel, policy: str) -> str:
    """What the policy's weights began as, in words; empty where the model had no name."""
    name = team.base_name(policy)
    if (Path(name) / TINY_RECORD).is_file():
        return "the embedded tiny model of llm-marl-envs, warm-started on scripted experts"
    if not name or Path(name).is_absolute() or Path(name).exists():
        return f"a local model, `{Path(name).name}`" if Path(name).name else ""
    return f"`{name}`"


def _hub_name(team: TeamModel, policy: str) -> str | None:
    """The base as the Hub knows it; a folder has no name there."""
    name = team.base_name(policy)
    local = Path(name).is_absolute() or Path(name).exists() or name.startswith((".", "~"))
    return name if name and not local else None


def _facts(
    team: TeamModel, description: Mapping[str, Any], trained: Mapping[str, Any]
) -> list[str]:
    """What holds for the team and for each policy: a list in Markdown."""
    env_id, arguments = description.get("env_id"), description.get("env_kwargs")
    seats = ", ".join(f"`{seat}` by `{policy}`" for seat, policy in description["agents"].items())
    facts: dict[str, Any] = {
        "Environment": env_id and f"`{env_id}`",
        "Its arguments": arguments and f"`{json.dumps(arguments, sort_keys=True)}`",
        "Seats and the policies that play them": seats,
        "Not trained": ", ".join(f"`{policy}`" for policy in sorted(team.frozen)),
    }
    if "algorithm" in trained:
        ours = f"`{trained['algorithm']}` (MAGRPO trainer of llm-marl-envs)"
        facts["Algorithm"] = f"{ours}, {trained['updates']} updates"
    facts["Most tokens of one action"] = description.get("max_completion_length")
    for name, what in (
        ("evaluation", "Last evaluation during training"),
        ("training", "Training tasks"),
    ):
        if name in trained:
            numbers = ", ".join(f"{k} {v:.4g}" for k, v in trained[name].items() if k != "update")
            facts[f"{what}, update {trained[name]['update']}"] = numbers
    return [f"- {name}: {fact}" for name, fact in facts.items() if fact]


def _team_text(team: TeamModel, description: Mapping[str, Any], facts: Sequence[str]) -> list[str]:
    where = f" for {description['env_id']}" if description.get("env_id") else ""
    bases = dict.fromkeys(filter(None, (_base(team, policy) for policy in team.policies)))
    lines = [
        f"# A team{where}",
        "",
        "Language models that act together, and the seats that they play.",
        "",
    ]
    lines += [f"- Base: {base}" for base in bases]
    lines += [*facts, "", "## Load it", "", *_load_team(team)]
    if description.get("env_id"):
        command = f"llm-marl eval {description['env_id']} --team FOLDER"
        lines += ["", "Measure it on held-out tasks:", "", "```sh", command, "```"]
    return lines


def _load_team(team: TeamModel) -> list[str]:
    unnamed = isinstance(team, AdapterWeights) and not _base(team, team.policies[0])
    base = ', base="BASE"' if unnamed else ""
    note = ["The base had no name: BASE is its folder.", ""] if unnamed else []
    return [
        *note,
        "```python",
        "from trainers import TokenPolicy, load_team",
        "",
        f'team = load_team("FOLDER"{base})',
        "policy = TokenPolicy(team)  # plays every seat: act(requests) -> responses",
        "```",
    ]


def _policy_text(
    team: TeamModel, policy: str, description: Mapping[str, Any], facts: Sequence[str]
) -> list[str]:
    seats = [seat for seat, name in description["agents"].items() if name == policy]
    plays = f", which plays {', '.join(f'`{seat}`' for seat in seats)}" if seats else ""
    kind = "A PEFT adapter" if isinstance(team, AdapterWeights) else "A Transformers model"
    base = _base(team, policy)
    lines = [f"# {policy}", "", f"{kind}: one policy of a team{plays}.", ""]
    lines += [f"- Base: {base}"] if base else []
    return [*lines, *facts, "", "## Load it", "", *_load_policy(team, policy)]


def _load_policy(team: TeamModel, policy: str) -> list[str]:
    tokenizer = 'tokenizer = AutoTokenizer.from_pretrained("FOLDER")'
    if not isinstance(team, AdapterWeights):
        program = [
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            'model = AutoModelForCausalLM.from_pretrained("FOLDER")',
        ]
    elif _base(team, policy):
        program = [
            "from peft import AutoPeftModelForCausalLM",
            "from transformers import AutoTokenizer",
            "",
            'model = AutoPeftModelForCausalLM.from_pretrained("FOLDER")',
        ]
    else:
        program = [
            "from peft import PeftModel",
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            'base = AutoModelForCausalLM.from_pretrained("BASE")  # it had no name when saved',
            'model = PeftModel.from_pretrained(base, "FOLDER")',
        ]
    return ["```python", *program, tokenizer, "```"]
