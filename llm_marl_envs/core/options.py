"""The arguments of an environment, each declared once: its type, range, default and what it is.

    class CrowdOptions(TaskOptions):
        choices: int = Field(default=3, ge=2, le=8, description="words to choose from")

From the declaration come the checks and their errors, the table on the environment's page, what
`llm-marl spec` prints, and a JSON schema (`CrowdOptions.model_json_schema()`). What compares
several arguments stays in the environment. Importing this library does not import this module, for
pydantic would take a quarter of the time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from llm_marl_envs.core.checks import refuse_unknown
from llm_marl_envs.core.tasks import SPLITS, Row, Task, TaskSource, open_tasks

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Info = Literal["split", "full"]
"""Whether each seat is told its own part of a task, or all are told everything."""
RenderMode = Literal["ansi", "human", "html"] | None
INFO = "'split': each seat is told its own part of a task; 'full': all are told everything"
TASKS = "None (generated), a JSONL file, 'hub:<dataset>', a list of rows, or a TaskSource"
TURNS = "K, how often each seat acts"
EXPECTED = "expected"
"""Key of a field's `json_schema_extra`: what it takes, where its type does not say it in words."""
PARTS = "parts"
"""Key likewise, of a map: the properties in the schema of what it may hold."""
OF_THE_WRONG_TYPE = ("_type", "_str", "instance_of")
"""How pydantic's names of such errors end."""


def tasks_field(rows: str = "", about: str = TASKS) -> Any:
    """The argument `tasks`; `rows` says what a row holds, `about` what may be given."""
    return Field(
        default=None,
        description=f"{about}. {rows}" if rows else about,
        json_schema_extra={EXPECTED: "None, text, rows or a TaskSource"},
    )


def render_field() -> Any:
    """The argument `render_mode`."""
    return Field(default=None, description="what `render` makes: a text, a print, a page")


class Options(BaseModel):
    """Arguments by name; derive, and give each a default and a description.

    Raises:
        TypeError: a value of another type; says what was expected.
        ValueError: an unknown name, with near ones; or a value that is out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    within: ClassVar[str] = ""
    """The argument of which these are parts, if they are; errors begin with it."""

    def __init__(self, /, **arguments: Any) -> None:
        where = type(self).within or type(self).__name__
        refuse_unknown(where, arguments, type(self).model_fields)
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in arguments.items()}
        for name, value in plain.items():  # pydantic takes True for 1, and 1.0
            choices = choices_of(type(self).model_fields[name].annotation)
            if _of_no_choice(value, choices) and any(value == choice for choice in choices):
                raise TypeError(_refusal(type(self), name, value))
        try:
            super().__init__(**plain)
        except ValidationError as error:
            raise _in_words(type(self), error, plain) from None

    def changed(self, **changes: Any) -> Self:
        """The same with other values; errors as of the class."""
        return type(self)(**{**self.model_dump(), **changes})


@cache
def declared_fields(config: type) -> type[Options]:
    """The fields of a dataclass whose types hold a range or choices (`Annotated`, `Literal`).

    To make one of values checks them; a dataclass that derives from another library's checks
    itself so.
    """
    hints = get_type_hints(config, include_extras=True)
    fields: dict[str, Any] = {k: (hint, ...) for k, hint in hints.items() if _limits(hint)}
    return create_model(config.__name__, __base__=Options, **fields)


def _limits(hint: Any) -> bool:
    return get_origin(hint) in (Annotated, Literal) or any(map(_limits, get_args(hint)))


def name_and_options(what: str, chosen: Any) -> tuple[str, dict[str, Any]]:
    """A choice of one part of a run: a name, or a map of it (`name`) and of its options.

    Args:
        what: the argument; begins the message.
        chosen: its value.

    Raises:
        ValueError: no name.
    """
    options = dict(chosen) if isinstance(chosen, Mapping) else {"name": chosen}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ValueError(f"{what}={chosen!r:.200}: expected a name, or a map with one as 'name'")
    return name, options


class TaskOptions(Options):
    """What every environment of this library takes."""

    tasks: Any = tasks_field()
    split: Literal["train", "val", "test", "ood", "all"] = Field(
        default="train", description="which tasks; 'all' is every row of a file"
    )
    render_mode: RenderMode = render_field()

    def opened(
        self,
        generated: Callable[[str], TaskSource],
        from_row: Callable[[Row], Task],
        splits: Sequence[str] = SPLITS,
    ) -> TaskSource:
        """The tasks that these arguments name; see `tasks.open_tasks`, errors too.

        Args:
            generated: split -> tasks that the environment makes.
            from_row: the task of a row.
            splits: what `generated` can make.
        """
        return open_tasks(
            self.tasks, split=self.split, procedural=generated, from_row=from_row, splits=splits
        )


@dataclass(frozen=True, slots=True)
class Declared:
    """One argument, in words.

    Attributes:
        name: as `make` takes it.
        default: as Python writes it; "needed" where there is none.
        expected: type and range.
        about: what it is.
    """

    name: str
    default: str
    expected: str
    about: str


def options_of(create: Any) -> Any:
    """The declared arguments of an environment's class; None where it declares none.

    A class that derives from one of this library and has a constructor of its own takes what that
    constructor takes.
    """
    options = getattr(create, "Options", None)
    own = options is not None and inspect.signature(create) == inspect.signature(options)
    return options if own else None


def declared(options: type[BaseModel]) -> list[Declared]:
    """The arguments of an environment, in the order of the declaration; its own come first."""
    shared = TaskOptions.model_fields
    names = sorted(options.model_fields, key=lambda name: name in shared)
    schema = options.model_json_schema()["properties"]
    fields = options.model_fields
    arguments = []
    for name in names:
        default = "needed" if fields[name].is_required() else repr(fields[name].default)
        about = fields[name].description or ""
        arguments.append(Declared(name, default, words(schema[name]), about))
        for part, spec in schema[name].get(PARTS, {}).items():
            about = spec.get("description", "")
            arguments.append(Declared(f"{name}.{part}", repr(spec["default"]), words(spec), about))
    return arguments


def words(schema: Mapping[str, Any]) -> str:
    """What a JSON schema accepts, in words: "a whole number, 2 to 8"."""
    if EXPECTED in schema:
        return schema[EXPECTED]
    if "anyOf" in schema:
        *first, last = map(words, schema["anyOf"])
        comma = "," if any(", " in text and not text.startswith("one of") for text in first) else ""
        return f"{', '.join(first)}{comma} or {last}"
    if "enum" in schema or "const" in schema:
        return f"one of {tuple(schema.get('enum', [schema.get('const')]))}"
    kind = schema.get("type")
    if kind == "array":
        count = _range(schema, "minItems", "maxItems")
        each = words(schema.get("items", {}))
        return f"a list{f' of {count}' if count else ''}, each {each}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"a map, each value {words(schema['additionalProperties'])}"
    numbers = {"integer": "a whole number", "number": "a number"}
    if kind in numbers:
        within = _range(schema, "minimum", "maximum")
        above = f" above {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else ""
        return f"{numbers[kind]}{above}{f', {within}' if within else ''}"
    named = {"boolean": "True or False", "string": "text", "object": "a map", "null": "None"}
    return named.get(str(kind), "a value")


def _range(schema: Mapping[str, Any], low: str, high: str) -> str:
    if low in schema and high in schema:
        least, most = schema[low], schema[high]
        return f"{least}" if least == most else f"{least} to {most}"
    if low in schema:
        return f"at least {schema[low]}"
    return f"at most {schema[high]}" if high in schema else ""


def choices_of(hint: Any) -> tuple[Any, ...]:
    """The values of the `Literal`s in a type."""
    parts = get_args(hint)
    return parts if get_origin(hint) is Literal else sum(map(choices_of, parts), ())


def _of_no_choice(value: Any, choices: Sequence[Any]) -> bool:
    """Whether a value has another type than every choice."""
    return bool(choices) and all(type(value) is not type(choice) for choice in choices)


def _refusal(options: type[Options], name: str, value: Any, key: Any = None) -> str:
    """What came for an argument, or for the part of it under a key, and what was expected."""
    schema = options.model_json_schema()["properties"][name]
    begin = f"{options.within}, " if options.within else ""
    if key is not None:
        maps = [part.get("additionalProperties") for part in (schema, *schema.get("anyOf", ()))]
        each = next((part for part in maps if isinstance(part, Mapping)), schema)
        return f"{begin}{name}, {key}={value!r:.60}: expected {words(each)}"
    expected = words(schema)
    number = "number" in expected and isinstance(value, str) and _is_number(value)
    return f"{begin}{name}={value!r:.60}: expected {expected}{', without quotes' * number}"


def _in_words(
    options: type[Options], error: ValidationError, arguments: Mapping[str, Any]
) -> ValueError | TypeError:
    """The first thing that is wrong: what came, and what was expected."""
    errors = error.errors()
    first = errors[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if name not in options.model_fields:  # of a validator that looks at several
        return ValueError(first["msg"].removeprefix("Value error, "))
    if name not in arguments:
        expected = words(options.model_json_schema()["properties"][name])
        begin = f"{options.within}, " if options.within else ""
        return ValueError(f"{begin}{name} is missing: expected {expected}")
    value, own = arguments[name], [error for error in errors if error["loc"][:1] == (name,)]
    wrong_type = all(error["type"].endswith(OF_THE_WRONG_TYPE) for error in own)
    kind = TypeError if wrong_type else ValueError
    schema = options.model_json_schema()["properties"][name]
    forms = [form for form in schema.get("anyOf", [schema]) if form.get("type") != "null"]
    if isinstance(value, Mapping) and len(forms) == 1 and EXPECTED not in schema:
        wrong = {key for error in own for key in error["loc"][1:] if key in value}
        if len(wrong) == 1:
            (key,) = wrong
            return kind(_refusal(options, name, value[key], key))
    return kind(_refusal(options, name, value))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def info_of(info: str | None, generated: bool) -> str:
    """The argument `info` where generated tasks alone can be divided; None: divided if they can be.

    Raises:
        ValueError: "split" for rows.
    """
    if info == "split" and not generated:
        raise ValueError(
            "info='split' needs generated tasks, whose facts can be divided over the seats; "
            "use info='full' for rows"
        )
    return info or ("split" if generated else "full")
