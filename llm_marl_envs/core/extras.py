"""What is installed on demand: how the lack of an extra is said."""

from __future__ import annotations


class Extra:
    """Imports that need an extra stand in its block.

        with Extra("textarena", "TextArena"):
            import textarena

    Args:
        name: of the extra.
        what: needs it; begins the error.

    Raises:
        ImportError: what the block imports is not installed; the message names the extra.
    """

    def __init__(self, name: str, what: str) -> None:
        self.missing = ImportError(
            f"{what} needs the extra {name!r}: pip install 'llm-marl-envs[{name}]'"
        )

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, ImportError):
            raise self.missing from error
