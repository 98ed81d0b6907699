"""Subcommands of `llm-marl`, where they are too many for `cli.py`."""

from __future__ import annotations

import os
import warnings


def quiet_libraries() -> None:
    """Keep notes of the libraries below to their own developers out of a command's output."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|trl)\.")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
