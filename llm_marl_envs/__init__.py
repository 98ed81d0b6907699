"""Text environments in which several language models work together, in PettingZoo's form.

>>> from llm_marl_envs import make
>>> env = make("coop_coding-v0")
>>> observations, infos = env.reset(seed=0)

Names are imported on first use: `import llm_marl_envs` itself costs milliseconds.
"""

import importlib
from typing import TYPE_CHECKING, Any

from llm_marl_envs.mirror import mirror_all

if TYPE_CHECKING:
    from llm_marl_envs.core import Bounds, Outcome, TextAECEnv, TextParallelEnv
    from llm_marl_envs.records import Episode, EpisodeGroup, Request, Response, StopReason, Turn
    from llm_marl_envs.registry import EnvSpec, list_envs, make, make_vec, register, spec
    from llm_marl_envs.spaces import Message, Observation, TextSpace
    from llm_marl_envs.tasks import Task, TaskSource

__version__ = "0.1.0"

__all__ = [
    "Bounds",
    "EnvSpec",
    "Episode",
    "EpisodeGroup",
    "Message",
    "Observation",
    "Outcome",
    "Request",
    "Response",
    "StopReason",
    "Task",
    "TaskSource",
    "TextAECEnv",
    "TextParallelEnv",
    "TextSpace",
    "Turn",
    "list_envs",
    "make",
    "make_vec",
    "register",
    "spec",
]

_HOMES = {
    "core": ("Bounds", "Outcome", "TextAECEnv", "TextParallelEnv"),
    "records": ("Episode", "EpisodeGroup", "Request", "Response", "StopReason", "Turn"),
    "registry": ("EnvSpec", "list_envs", "make", "make_vec", "register", "spec"),
    "spaces": ("Message", "Observation", "TextSpace"),
    "tasks": ("Task", "TaskSource"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


mirror_all()
