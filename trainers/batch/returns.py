"""What a turn is credited with: the rewards to come, or another of the returns in `RETURNS`.

To add one: a class of the form of `Returns`, whose settings are declared as `Options`, and an entry
in `RETURNS`. Shapes: (..., A, K) with A agents and K turns; leading axes are tasks and episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from llm_marl_envs.core.checks import refuse_other
from llm_marl_envs.core.options import Options, name_and_options
from llm_marl_envs.core.records import EpisodeGroup
from trainers.batch.shaping import Maporl


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """Everything that a return may depend on.

    Attributes:
        rewards: what each turn paid, (P, G, A, K), 0 where not alive.
        alive: bool, (P, G, A, K): the agent took this turn.
        groups: the episodes that were paid, P groups of G.
        agents: the A trained agents.
        discount: of the run, in [0, 1].
    """

    rewards: np.ndarray
    alive: np.ndarray
    groups: Sequence[EpisodeGroup]
    agents: Sequence[str]
    discount: float


class Returns(Protocol):
    """One kind of return; it is called.

    Attributes:
        name: in `RETURNS`.
        reads_rewards: whether it is made of rewards; a control that pays others needs that.
    """

    name: ClassVar[str]
    reads_rewards: ClassVar[bool]

    def __call__(self, paid: Paid) -> np.ndarray:
        """float64, (P, G, A, K); entries where not alive are ignored."""
        ...


class Discounted(Options):
    """The discounted sum of the rewards to come; see `discounted_returns`."""

    name: ClassVar[str] = "discounted"
    reads_rewards: ClassVar[bool] = True

    def __call__(self, paid: Paid) -> np.ndarray:
        """As `Returns`."""
        return discounted_returns(paid.rewards, paid.alive, paid.discount)


RETURNS: dict[str, Any] = {kind.name: kind for kind in (Discounted, Maporl)}


def make_returns(chosen: str | Mapping[str, Any]) -> Returns:
    """The returns that a run asks for.

    Args:
        chosen: a name in `RETURNS`, or a map of it (`name`) and of settings.

    Raises:
        ValueError: an unknown name or setting, or one out of range.
        TypeError: a setting of the wrong type.
    """
    name, options = name_and_options("returns", chosen)
    refuse_other("returns", name, sorted(RETURNS))
    return RETURNS[name](**options)


def setting_of(returns: Any) -> str | dict[str, Any]:
    """What `make_returns` makes these of, nothing left out."""
    settings = returns.model_dump()
    return {"name": returns.name, **settings} if settings else returns.name


def discounted_returns(rewards: np.ndarray, alive: np.ndarray, discount: float) -> np.ndarray:
    """R_k = sum over j >= k of discount^(j - k) * r_j, over the turns an agent took.

    Args:
        rewards: (..., A, K); entries where `alive` is False are ignored.
        alive: bool, (..., A, K), True where the agent acted.
        discount: gamma, in [0, 1].

    Returns:
        float64, (..., A, K); 0 where not alive. MAGRPO, arXiv 2508.04652, section on returns.
    """
    paid = np.where(alive, rewards, 0.0).astype(np.float64)
    returns = np.zeros_like(paid)
    following = np.zeros(paid.shape[:-1])
    for turn in reversed(range(paid.shape[-1])):
        following = paid[..., turn] + discount * following
        returns[..., turn] = following
    return np.where(alive, returns, 0.0)
