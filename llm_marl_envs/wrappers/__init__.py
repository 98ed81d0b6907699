"""Environments around environments."""

from __future__ import annotations

from llm_marl_envs.wrappers.single_seat import SingleSeat

__all__ = ["SingleSeat"]
