"""What others wrote: JSON and YAML, read so that nothing in them ends a program.

    json_of(b'{"a": [1, 2]}', "x.json")    yaml_of("a: [1, 2]", "x.yaml")

Files, answers of servers, options of a command and calls of models come through here. Each fault is
a `ValueError` of one line that begins with the place. Of files, and of what must stand in them,
`json_files` knows.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import yaml

DEEPEST = 100
"""Most values inside each other: readers that call themselves for each come to no limit."""
LONGEST = 300
"""Most digits of a whole number; longer ones are no numbers for `float`."""
LARGEST_TREE = 1_000_000
"""Most values of a YAML text, each counted wherever an alias repeats it."""
MOST_MERGED = 10_000
"""Most keys of a YAML map, with those that `<<` brings."""
QUOTED_CHARS = 200
"""Most characters of what others wrote that an error holds."""
_LONG = re.compile(rf"\d{{{LONGEST + 1}}}")
_MARK = "\ufeff"  # of byte order, which some editors write first


def json_of(content: bytes | str, where: Any = "", *, strict: bool = False) -> Any:
    """What a JSON text says.

    Args:
        content: the text, or its bytes in UTF-8.
        where: it stands; begins every error.
        strict: refuse `NaN`, `Infinity` and `1e999` as well. JSON does not know the first two, but
            Python writes them.

    Raises:
        ValueError: it is no JSON, a key of an object stands twice, or it holds what is too deep or
            too large, see `DEEPEST` and `LONGEST`.
    """
    numbers: Any = {"parse_constant": _no_number, "parse_float": _finite} if strict else {}
    try:
        text = text_of(content)
        if _LONG.search(text):
            numbers["parse_int"] = _whole
        value = json.loads(text, object_pairs_hook=each_once, **numbers)
        _measured(value, 1, {})
    except RecursionError as error:
        raise ValueError(f"{_begin(where)}no JSON ({_TOO_DEEP})") from error
    except ValueError as error:
        raise ValueError(f"{_begin(where)}no JSON ({_short(error)})") from error
    return value


def yaml_of(content: bytes | str, where: Any = "") -> Any:
    """What a YAML text says; `1e-3` is a number, as people mean it.

    Args:
        content: the text, or its bytes in UTF-8.
        where: it stands; begins every error.

    Raises:
        ValueError: it is no YAML, a key of a map stands twice, or it holds what is too deep or too
            large, see `DEEPEST`, `LONGEST`, `LARGEST_TREE` and `MOST_MERGED`.
    """
    try:
        value = yaml.load(text_of(content), _Loader)
        if _measured(value, 1, {})[1] > LARGEST_TREE:
            raise ValueError(f"it repeats parts of itself to over {LARGEST_TREE} values")
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}"
        place = ", ".join(filter(None, (str(where), line)))
        raise ValueError(f"{_begin(place)}malformed YAML: {_short(error.problem)}") from error
    except RecursionError as error:
        raise ValueError(f"{_begin(where)}malformed YAML: {_TOO_DEEP}") from error
    except (yaml.YAMLError, *_UNTAGGED) as error:
        raise ValueError(f"{_begin(where)}malformed YAML: {_short(error)}") from error
    return value


def text_of(content: bytes | str, where: Any = "") -> str:
    """The text, or that of its bytes in UTF-8, without a mark of byte order.

    Raises:
        ValueError: the bytes are no UTF-8.
    """
    if isinstance(content, bytes):
        try:
            content = content.decode("utf-8")
        except UnicodeDecodeError as error:
            said = f"byte {error.start} is no utf-8; save it as UTF-8"
            raise ValueError(f"{_begin(where)}{said}") from error
    return content.removeprefix(_MARK)


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; raises `ValueError` where a key stands twice."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(k for k in keys if keys.count(k) > 1)!r:.80} stands twice")
    return mapping


_UNTAGGED = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What comes of a value that is not what its tag says: `!!bool x` is a KeyError."""
_TOO_DEEP = f"nested too deep, expected at most {DEEPEST} values inside each other"


def _begin(where: Any) -> str:
    return f"{where}: " if str(where) else ""


def _short(reason: Any) -> str:
    return " ".join(str(reason).split())[:QUOTED_CHARS]


def _measured(value: Any, depth: int, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How deep a value is and how many values it holds; `known` are those looked at, by `id`.

    Raises:
        RecursionError: it is deeper than `DEEPEST`, or in itself.
    """
    if not isinstance(value, (dict, list)):
        return 0, 0
    found = known.get(id(value))
    if found is None and depth <= DEEPEST:
        parts = value.values() if isinstance(value, dict) else value
        inside = [
            _measured(part, depth + 1, known) for part in parts if isinstance(part, (dict, list))
        ]
        height = 1 + max((height for height, _ in inside), default=0)
        found = known[id(value)] = height, len(value) + sum(size for _, size in inside)
    if found is None or depth + found[0] - 1 > DEEPEST:
        raise RecursionError
    return found


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST:
        raise ValueError(f"a whole number of {len(digits)} digits, expected at most {LONGEST}")
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    return value if abs(value) < float("inf") else _no_number(number)


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant:.80} is no number of JSON")


class _Loader(yaml.SafeLoader):
    """Keys once, numbers as people write them, and no more of either than can be used."""

    inside = 0

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        """A value; many inside each other would be read slowly, and then end in a recursion."""
        self.inside += 1
        if self.inside > DEEPEST + 2:  # with the keys of the deepest map
            raise RecursionError
        node = super().compose_node(parent, index)
        self.inside -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A map as it is written, before other maps are merged into it."""
        node = super().compose_mapping_node(anchor)
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                _refuse(f"{key.value!r:.80} stands twice", key)
            seen.add((key.tag, key.value))
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge what `<<` names; maps that merge each other twice double at each level."""
        super().flatten_mapping(node)
        if len(node.value) > MOST_MERGED:
            _refuse(f"merges more than {MOST_MERGED} keys", node)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number, decimal or in another base."""
        many = len(node.value) > LONGEST
        value = 0 if many else super().construct_yaml_int(node)
        if many or abs(value) >= 10**LONGEST:
            _refuse(f"a whole number of {len(node.value)} digits, expected at most {LONGEST}", node)
        return value


def _refuse(problem: str, node: yaml.Node) -> NoReturn:
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][-+]?\d+)|[-+]?\d+\.\d*|[-+]?\.\d+"),
    list("-+0123456789."),
)
