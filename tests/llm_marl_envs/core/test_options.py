"""Declared arguments: their checks, their words, and that every environment's can be used."""

from __future__ import annotations

import inspect
import math
import time
import typing
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import Field

from llm_marl_envs import list_envs, make, spec
from llm_marl_envs.core.options import (
    EXPECTED,
    PARTS,
    Options,
    Positive,
    declared,
    name_and_options,
    options_of,
)
from llm_marl_envs.envs.games.crowd import CrowdEnv
from llm_marl_envs.play.registry import load_entry_point


class Some(Options):
    """One of each kind."""

    count: int = Field(default=2, ge=1, le=9, description="how many")
    share: float = Field(default=0.5, ge=0, le=1)
    weights: Annotated[Sequence[float], Field(min_length=2, max_length=2)] = (1.0, 1.0)
    arm: Literal["sum", "pairs"] | None = None
    open: bool = True
    name: str = "a"


class Within(Options):
    """Parts of another argument, one of them needed."""

    within = "maze"
    size: int = Field(ge=3)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"count": 0}, ValueError, "count=0: expected a whole number, 1 to 9$"),
        ({"count": "3"}, TypeError, "count='3': expected a whole number, 1 to 9, without quotes$"),
        ({"count": True}, TypeError, "count=True"),
        ({"count": 2.0}, TypeError, "count=2.0"),
        ({"share": float("nan")}, ValueError, "share=nan: expected a number, 0 to 1"),
        ({"weights": [1]}, ValueError, r"weights=\[1\]: expected a list of 2, each a number"),
        ({"weights": "12"}, TypeError, "weights='12': expected a list of 2"),
        ({"weights": [1, "2"]}, TypeError, r"weights=\[1, '2'\]"),
        ({"arm": "mean"}, ValueError, r"arm='mean': expected one of \('sum', 'pairs'\) or None"),
        ({"open": 1}, TypeError, "open=1: expected True or False"),
        ({"name": 3}, TypeError, "name=3: expected text"),
        ({"cuont": 3}, ValueError, "unknown key 'cuont'; did you mean 'count'"),
    ],
)
def test_what_came_and_what_was_expected(given: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        Some(**given)


def test_a_part_names_the_whole_and_what_is_missing():
    with pytest.raises(ValueError, match="maze, size=2: expected a whole number, at least 3"):
        Within(size=2)
    with pytest.raises(ValueError, match="maze, size is missing: expected a whole number"):
        Within(**dict[str, Any]())


def test_numbers_of_numpy_are_numbers():
    given: dict[str, Any] = {"count": np.int64(3), "share": np.float32(0.25), "open": np.bool_(0)}
    made = Some(**given)
    assert (made.count, made.share, made.open) == (3, 0.25, False)
    assert made.changed(count=4) == Some(count=4, share=0.25, open=False)
    with pytest.raises(ValueError, match="count=0"):
        made.changed(count=0)


class Chosen(Options):
    level: Literal[1, 2] = Field(default=1, description="which")
    size: Literal["4x4", "9x9"] | None = Field(default=None, description="of the grid")
    rates: dict[str, Positive] | None = Field(default=None, description="of each seat")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"level": True}, TypeError, "level=True: expected one of (1, 2)"),
        ({"level": 1.0}, TypeError, "level=1.0"),
        ({"level": 3}, ValueError, "level=3"),
        ({"size": 9}, ValueError, "size=9"),
        ({"size": "9"}, ValueError, "size='9': expected one of ('4x4', '9x9') or None"),
        ({"rates": {"a_0": 1.0, "b_0": -1.0}}, ValueError, "rates, b_0=-1.0: expected a number"),
    ],
)
def test_choices_and_parts_of_maps(given: Any, error: type[Exception], words: str):
    with pytest.raises(error) as refused:
        Chosen(**given)
    assert str(refused.value).startswith(words)
    assert "without quotes" not in str(refused.value)
    assert Chosen(level=2, size="4x4").level == 2


def test_a_choice_is_a_name_or_a_map_with_one():
    assert name_and_options("engine", "generate") == ("generate", {})
    given = {"name": "vllm", "urls": []}
    assert name_and_options("engine", given) == ("vllm", {"urls": []})
    assert given == {"name": "vllm", "urls": []}
    for wrong in (None, 3, {}, {"name": 3}, ["vllm"]):
        with pytest.raises(ValueError, match=r"engine=.*expected a name"):
            name_and_options("engine", wrong)


IDS = [one for one in list_envs() if spec(one).agents]


@pytest.mark.parametrize("env_id", IDS)
def test_every_argument_of_an_environment_is_declared_in_words(env_id: str):
    for one in declared(options_at(env_id)):
        assert one.about, one
        assert one.expected != "a value", one
        if "." not in one.name:
            assert one.default == repr(options_at(env_id).model_fields[one.name].default)


@pytest.mark.parametrize("env_id", IDS)
def test_every_choice_that_is_declared_can_be_made(env_id: str):
    tried = 0
    for name, field in options_at(env_id).model_fields.items():
        for choice in choices_of(field.annotation):
            if (name, choice) == ("split", "all"):  # of rows alone
                continue
            needs = {"n_agents": 3} if choice == "evaluation" else {}
            made = make(env_id, **{name: choice, **needs})
            assert made.env_kwargs[name] == choice
            tried += 1
    assert tried >= 4 + 3  # splits and ways to render, at least


@pytest.mark.parametrize("env_id", IDS)
def test_what_a_declaration_does_not_take_is_refused(env_id: str):
    """Values beside each range and of each other kind; a table of a game is named `payoffs`."""
    properties = options_at(env_id).model_json_schema()["properties"]
    schemas = [((name,), one) for name, one in properties.items()]
    schemas += [
        ((name, part), schema)
        for name, one in properties.items()
        for part, schema in one.get(PARTS, {}).items()
    ]
    for path, schema in schemas:
        refused = [value for value in beside(schema) if not takes(schema, value)]
        assert refused or takes(schema, object()), path
        for value in refused:
            given: Any = value if len(path) == 1 else {path[1]: value}
            with pytest.raises((ValueError, TypeError), match=f"({path[-1]}|payoffs)=.*expected"):
                make(env_id, **dict[str, Any]({path[0]: given}))


@pytest.mark.parametrize("env_id", IDS)
def test_the_ends_of_every_range_can_be_played(env_id: str):
    for name, schema in options_at(env_id).model_json_schema()["properties"].items():
        for end in (
            one[key] for one in schema.get("anyOf", [schema]) for key in ENDS if key in one
        ):
            env = make(env_id, **dict[str, Any]({name: end}))
            env.reset(seed=0)
            assert env.agents, f"{name}={end}: nobody is there to act"
            assert env.env_kwargs[name] == end


@pytest.mark.parametrize("env_id", IDS)
def test_any_two_arguments_at_their_ends_are_made_quickly(env_id: str):
    """A page of the app makes an environment with whatever arguments its address has."""
    begun = time.process_time()
    sum(range(10**6))
    unit = time.process_time() - begun
    properties = options_at(env_id).model_json_schema()["properties"]
    ends = [
        (name, one[key])
        for name, schema in properties.items()
        for one in schema.get("anyOf", [schema])
        for key in ENDS
        if key in one
    ]
    make(env_id)  # what all share is made once
    for first, second in combinations(ends, 2):
        begun = time.process_time()
        with suppress(ValueError):  # some do not go together
            make(env_id, **dict([first, second]))
        assert time.process_time() - begun < 20 * unit, (first, second)


ENDS = ("minimum", "maximum")
BOUNDS = (*ENDS, "exclusiveMinimum")


def beside(schema: Any) -> list[Any]:
    """Values of every kind, and those at the bounds of a schema; some of them it takes."""
    found: list[Any] = [None, True, 1, 1.5, float("nan"), "no such", "2", [], {}]
    for one in schema.get("anyOf", [schema]):
        found += [one[key] + step for key in BOUNDS if key in one for step in (-1, 0, 1)]
        if one.get("type") == "array":
            each = one["items"].get("minimum", 1)
            sizes = [
                one[key] + step
                for key in ("minItems", "maxItems")
                if key in one
                for step in (-1, 1)
            ]
            found += [[each] * size for size in sizes]
            found += [[value] * one.get("minItems", 1) for value in beside(one["items"])]
    return found


def takes(schema: Any, value: Any) -> bool:
    """Whether a JSON schema does, of the kinds that environments declare."""
    if "anyOf" in schema:
        return any(takes(one, value) for one in schema["anyOf"])
    kind = schema.get("type")
    if EXPECTED in schema or kind is None:
        return True
    if "enum" in schema:
        return value in schema["enum"]
    if kind == "array":
        fits = isinstance(value, list) and all(takes(schema["items"], one) for one in value)
        return fits and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 99)
    of_kind = {
        "integer": type(value) is int,
        "number": type(value) in (int, float),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "object": isinstance(value, dict),
        "null": value is None,
    }[kind]
    if not of_kind or kind not in ("integer", "number"):
        return of_kind
    high, low = schema.get("maximum", math.inf), schema.get("minimum", -math.inf)
    return low <= value <= high and value > schema.get("exclusiveMinimum", -math.inf)


def options_at(env_id: str) -> Any:
    return options_of(load_entry_point(spec(env_id)))


def choices_of(hint: Any) -> Iterator[Any]:
    """The values that a hint lists, in a union too."""
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
    elif typing.get_args(hint) and typing.get_origin(hint) is not Annotated:
        for one in typing.get_args(hint):
            yield from choices_of(one)


def test_a_derived_class_takes_what_its_own_constructor_takes():
    class Louder(CrowdEnv):
        def __init__(self, *, volume: int = 2, **given: Any) -> None:
            super().__init__(**given)
            self.volume = volume

    class Plain(CrowdEnv):
        pass

    assert options_of(Plain) is options_of(CrowdEnv) is CrowdEnv.Options
    assert options_of(Louder) is None
    assert [*inspect.signature(Louder).parameters] == ["volume", "given"]
    assert Louder(volume=3, choices=4).choices == 4
    with pytest.raises(ValueError, match="choices=1"):
        Louder(choices=1)
