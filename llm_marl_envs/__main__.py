"""`python -m llm_marl_envs`: the command `llm-marl`."""

from __future__ import annotations

import sys

from llm_marl_envs.cli import main

if __name__ == "__main__":
    sys.exit(main())
