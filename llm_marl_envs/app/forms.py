"""The arguments of an environment as fields of a form: from the declaration, and back from text.

What takes a number, a choice or a list of numbers is a field. What takes a file, a program, a model
or a policy is none: a page must not name such things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from llm_marl_envs.app.games import Setup
from llm_marl_envs.core.options import PARTS, TaskOptions, options_of
from llm_marl_envs.core.specs import spec
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.files.json_files import finite
from llm_marl_envs.play.registry import load_entry_point

MOST_SEED = 2**31 - 1
MOST = 100
"""The largest number for an argument whose declaration names no end."""
LEFT_OUT = ("tasks", "render_mode", "max_action_chars")
AS_IT_IS = ""
"""A field's value that leaves the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One argument.

    Attributes:
        name: as `make` takes it; `maze.size` is a part of `maze`.
        kind: how it is entered: one of `choices`, a number, or a list as JSON has it.
        choices: the values.
        low, high: ends of a number, None where there is none.
        default: what stands where nothing is filled in; empty where that is nothing.
        about: what it is.
    """

    name: str
    kind: Literal["choice", "whole", "number", "list"]
    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    default: str
    about: str


def fields_of(env_id: str) -> list[Field]:
    """The fields of a registered environment; its own come first. Errors as `specs.spec`."""
    options = options_of(load_entry_point(spec(env_id)))
    if options is None:
        return []
    schema = options.model_json_schema()["properties"]
    names = [name for name in schema if name not in LEFT_OUT]
    names.sort(key=lambda name: name in TaskOptions.model_fields)
    fields = []
    for name in names:
        fields += [_field(name, schema[name])]
        for part, about in schema[name].get(PARTS, {}).items():
            fields.append(_field(f"{name}.{part}", about))
    return [field for field in fields if field is not None]


def _field(name: str, schema: Mapping[str, Any]) -> Field | None:
    """The field of one argument's schema; None where it takes nothing that a form can hold."""
    forms = schema.get("anyOf", [schema])
    about, default = schema.get("description", ""), _shown(schema.get("default"))
    choices = [value for form in forms for value in _choices(form)]
    if choices:
        return Field(name=name, kind="choice", choices=(*choices,), default=default, about=about)
    for form in forms:
        kind = form.get("type")
        if kind in ("integer", "number"):
            return Field(
                name=name,
                kind="whole" if kind == "integer" else "number",
                low=form.get("minimum", form.get("exclusiveMinimum")),
                high=form.get("maximum", MOST),
                default=default,
                about=about,
            )
        if kind == "array" and form.get("items", {}).get("type") in ("integer", "number"):
            return Field(name=name, kind="list", default=default, about=about)
    return None


def _shown(default: Any) -> str:
    return "" if default is None else str(default)


def _choices(form: Mapping[str, Any]) -> list[Any]:
    if form.get("type") == "boolean":
        return [True, False]
    return form.get("enum") or ([form["const"]] if "const" in form else [])


def arguments(env_id: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of `make` that a form was filled in with.

    Args:
        env_id: of the environment.
        given: a field's name -> its text; what is absent or empty keeps its default.

    Raises:
        ValueError: what is no number, no list, no choice, or beyond the end of a number. What lies
            within, but not within the declaration, `make` refuses.
    """
    kwargs: dict[str, Any] = {}
    for field in fields_of(env_id):
        text = given.get(field.name, AS_IT_IS).strip()
        if not text:
            continue
        value = _value(field, text)
        whole, _, part = field.name.partition(".")
        if part:
            kwargs.setdefault(whole, {})[part] = value
        else:
            kwargs[whole] = value
    return kwargs


def _value(field: Field, text: str) -> Any:
    if field.kind == "choice":
        by_text = {str(choice): choice for choice in field.choices}
        if text not in by_text:
            raise ValueError(f"{field.name}={text!r:.60}: expected one of {field.choices}")
        return by_text[text]
    if field.kind == "list":
        return _numbers(field, text)
    try:
        value = int(text) if field.kind == "whole" else float(text)
    except ValueError:
        kind = "a whole number" if field.kind == "whole" else "a number"
        raise ValueError(f"{field.name}={text!r:.60}: expected {kind}") from None
    if field.high is not None and not value <= field.high:
        raise ValueError(f"{field.name}={text:.60}: expected at most {field.high}")
    return value


def _numbers(field: Field, text: str) -> list[Any]:
    try:
        value = json_of(text)
    except ValueError:
        value = None
    if not isinstance(value, list) or len(value) > MOST or not all(map(finite, value)):
        raise ValueError(f"{field.name}={text!r:.60}: expected numbers, e.g. [1, 2]")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A form of an environment, as it was sent.

    Attributes:
        setup: what it asks for.
        given: its fields' texts, by their names on the page.
    """

    setup: Setup
    given: Mapping[str, str]

    @classmethod
    def read(cls, env_id: str, given: Mapping[str, str]) -> Filled:
        """From the texts of a page.

        Raises:
            ValueError: a number that is none, or as `forms.arguments`.
        """
        own = {key[4:]: text for key, text in given.items() if key.startswith("arg.")}
        setup = Setup(
            env_id=env_id,
            env_kwargs=arguments(env_id, own),
            task=whole_number(given, "task", None),
            seed=whole_number(given, "seed", 0) or 0,
        )
        return cls(setup=setup, given=given)

    def seats(self, side: str) -> dict[str, str]:
        """Seat -> name of its player, on a side of the form."""
        begin = f"{side}."
        return {k[len(begin) :]: v for k, v in self.given.items() if k.startswith(begin)}


def whole_number(given: Mapping[str, str], name: str, default: int | None) -> int | None:
    """A field's number, `default` where it is empty.

    Raises:
        ValueError: something else stands in it.
    """
    text = given.get(name, "").strip()
    if not text:
        return default
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_SEED))
    if not (digits and int(text) <= MOST_SEED):
        raise ValueError(f"{name}={text!r:.40}: expected a whole number, 0 to {MOST_SEED}")
    return int(text)
