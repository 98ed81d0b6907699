"""A JSON schema of run files, with which editors complete and check them: `llm-marl schema`.

    llm-marl schema > run.schema.json
    # in a run file, for editors that know yaml-language-server:
    # yaml-language-server: $schema=run.schema.json

It is made of what is declared elsewhere: the settings of `MAGRPOConfig`, the arguments of every
environment, and the names of algorithms and recipes.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from typing import Any, get_type_hints

from peft import LoraConfig
from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from llm_marl_envs.core.options import options_of
from llm_marl_envs.core.specs import list_envs, spec
from llm_marl_envs.play.registry import load_entry_point
from trainers.algorithms import ALGORITHMS
from trainers.config import NOT_READ, MAGRPOConfig
from trainers.recipes import RECIPES
from trainers.weights.tiny import TinySettings
from trainers.weights.warm_start import WarmStart

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
OF_MAKE = {
    "api": {"enum": ["parallel", "aec"]},
    "single_seat": {"type": "boolean", "description": "one agent behind all seats"},
    "pioneer_observer": {"type": "boolean", "description": "one reads what the other answered"},
    "channel": {"type": "object", "description": "who hears whom, and what that costs"},
    "prompts": {**TEXTS, "description": "seat or role -> what it is told first"},
}
"""What `make` takes for every environment."""


def run_schema() -> dict[str, Any]:
    """The schema, as JSON values."""
    ids = [env_id for env_id in list_envs() if spec(env_id).agents]
    names = sorted({*ids, *(env_id.rpartition("-v")[0] for env_id in ids)})
    return {
        "$schema": DIALECT,
        "title": "A training run of llm-marl-envs",
        "type": "object",
        "required": ["model", "env"],
        "additionalProperties": False,
        "properties": {
            "plugins": {"type": "array", "items": {"type": "string"}},
            "model": {"anyOf": [{"type": "string"}, TEXTS]},
            "tiny": _settings(TinySettings.model_json_schema(), seed={"type": "integer"}),
            "warm_start": _settings(WarmStart.model_json_schema()),
            "env": {"anyOf": [{"enum": names}, {"type": "string"}]},
            "env_kwargs": {"type": "object"},
            "prompts": TEXTS,
            "eval_env_kwargs": {"type": "object"},
            "lora": fields_schema(LoraConfig),
            "partners": TEXTS,
            "trainer": _trainer(),
        },
        "allOf": [
            {
                "if": {
                    "properties": {"env": {"enum": [env_id, env_id.rpartition("-v")[0]]}},
                    "required": ["env"],
                },
                "then": {
                    "properties": dict.fromkeys(
                        ("env_kwargs", "eval_env_kwargs"), _arguments(env_id)
                    )
                },
            }
            for env_id in ids
        ],
    }


def _settings(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**schema, "properties": {**schema["properties"], **more}}


def _arguments(env_id: str) -> dict[str, Any]:
    options = options_of(load_entry_point(spec(env_id)))
    return {} if options is None else _settings(options.model_json_schema(), **OF_MAKE)


def _trainer() -> dict[str, Any]:
    """The settings of the trainer, less those that are refused."""
    found = fields_schema(MAGRPOConfig)
    for name in NOT_READ:
        found["properties"].pop(name, None)
    named = {"enum": sorted([*ALGORITHMS.names(), *RECIPES.names()])}
    choice = found["properties"]["algorithm"]
    choice["anyOf"] = [named, {"type": "object", "required": ["name"]}, {"type": "string"}]
    return found


def fields_schema(config: type) -> dict[str, Any]:
    """The fields of a dataclass: their types where JSON has such, and what is written below."""
    hints, written = get_type_hints(config, include_extras=True), _written(config)
    found = {}
    for one in dataclasses.fields(config):
        helped = written.get(one.name) or one.metadata.get("help")
        about = {"description": " ".join(str(helped).split())} if helped else {}
        found[one.name] = {**_of_type(hints[one.name]), **about}
    return {"type": "object", "properties": found, "additionalProperties": False}


def _of_type(hint: Any) -> dict[str, Any]:
    try:
        found = TypeAdapter(hint).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError):
        return {}  # a class of torch or transformers: whatever the library reads
    return {} if "$defs" in found else found


def _written(config: type) -> dict[str, str]:
    """Field -> the text below it in the source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(config))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        text = below.value if isinstance(below, ast.Expr) else None
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Constant):
            found[ast.unparse(field.target)] = str(text.value)
    return found
