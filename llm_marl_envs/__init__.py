"""Text environments in which several language models work together, in PettingZoo's form.

>>> from llm_marl_envs import make
>>> env = make("coop_coding-v0")
>>> observations, infos = env.reset(seed=0)

Importing this package shows every environment to PettingZoo as `llm_marl/<id>`. Environments
themselves are imported when they are made.
"""

from llm_marl_envs.core.environment import Bounds, Outcome, TextAECEnv, TextParallelEnv
from llm_marl_envs.core.mirror import mirror
from llm_marl_envs.core.records import Episode, EpisodeGroup, Request, Response, StopReason, Turn
from llm_marl_envs.core.spaces import Message, Observation, TextSpace
from llm_marl_envs.core.specs import EnvSpec, list_envs, register, spec
from llm_marl_envs.core.tasks import Task, TaskSource
from llm_marl_envs.play.registry import make, make_vec

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

for _env_id in list_envs():
    mirror(_env_id)
