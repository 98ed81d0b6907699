"""Environments around environments: other seats, numbers in place of text, other forms."""

from __future__ import annotations

from llm_marl_envs.wrappers.channel import Channel
from llm_marl_envs.wrappers.choose import Choose, ExpertMenu
from llm_marl_envs.wrappers.codecs import Bytes, Tokens, Words
from llm_marl_envs.wrappers.gym_seat import GymSeat
from llm_marl_envs.wrappers.memory import Memory
from llm_marl_envs.wrappers.partners import Partners
from llm_marl_envs.wrappers.pioneer_observer import PioneerObserver
from llm_marl_envs.wrappers.prompts import Prompts
from llm_marl_envs.wrappers.single_seat import SingleSeat
from llm_marl_envs.wrappers.tokenize import Tokenize
from llm_marl_envs.wrappers.tools import Tools

__all__ = [
    "Bytes",
    "Channel",
    "Choose",
    "ExpertMenu",
    "GymSeat",
    "Memory",
    "Partners",
    "PioneerObserver",
    "Prompts",
    "SingleSeat",
    "Tokenize",
    "Tokens",
    "Tools",
    "Words",
]
