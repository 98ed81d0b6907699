"""Which module of the product imports which, read from the source; lazy imports count."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.paths import ROOT

PACKAGES = ("llm_marl_envs", "trainers")


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def rooms() -> dict[str, set[str]]:
    """Room -> the rooms that it imports: lazy imports and those for a type checker count.

    A room is a folder of modules, or a module beside the folders: `trainers.config` is one.
    """
    found: dict[str, set[str]] = {}
    for module, targets in import_graph(typing=True).items():
        room = room_of(module)
        found.setdefault(room, set()).update({room_of(one) for one in targets} - {room})
    return found


def room_of(module: str) -> str:
    """The folder in which a module lies, or its own name where it lies in a package itself."""
    folder = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
    return module if folder in PACKAGES else folder


def import_graph(*, typing: bool = False) -> dict[str, set[str]]:
    """Module -> the modules that it imports, wherever the statement stands.

    Importing `a.b.c` runs `a.b` too, so that is counted, unless the importing module lies in it.
    Imports for a type checker alone (`if TYPE_CHECKING`) count with `typing`.
    """
    known = modules()
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        named = {
            name
            for node in (ast.walk(tree) if typing else _run(tree))
            for name in _imported(node, package)
        }
        targets = {one for name in named for one in _with_parents(name) if one in known}
        graph[module] = {one for one in targets if not f"{module}.".startswith(f"{one}.")}
    return graph


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below that can run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _run(other)
            continue
        yield child
        yield from _run(child)


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")
        base = ".".join(above[: len(above) - node.level + 1]) if node.level else ""
        home = ".".join(part for part in (base, node.module) if part)
        yield home
        yield from (f"{home}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
        yield from (
            a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
        )


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:n]) for n in range(1, len(parts) + 1))
