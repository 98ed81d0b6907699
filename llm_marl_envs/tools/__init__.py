"""What a seat may call: tools, and how a call is read. `wrappers/tools.py` gives them to seats."""

from __future__ import annotations

from llm_marl_envs.core.plugins import Registry

GROUP = "llm_marl_envs.tools"
TOOLS = Registry(GROUP, "tool")
"""Name -> class of a tool."""
