"""Who samples: the seam between prompts and weights.

`TokenPolicy` makes prompts, an engine continues them. An engine holds no episode. A draw names the
policy, the ids before the action and the seed of its noise, so an engine may serve the rows of
several policies and episodes in any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Draw:
    """One action to sample.

    Attributes:
        policy: whose weights act; the name of a past self is one, see `TeamModel.keep`.
        prompt_ids: everything before the action.
        seed: of the row's noise; an exact engine's tokens are a function of it.
        start: with the weights that the run began with, not the present ones.
        through: how many of the ids end with what the same row said in its turn before; 0: none.
    """

    policy: str
    prompt_ids: tuple[int, ...]
    seed: int
    start: bool = False
    through: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was sampled.

    Attributes:
        ids: the sampled tokens, up to and with the one that ended the action.
        logprobs: of each, natural log, under the distribution that it was drawn from.
        version: name of the published weights that acted; "" where they are the trainer's own.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: str = ""


class SamplingEngine(ABC):
    """Samples actions of a team's policies.

    Attributes:
        name: in settings and logs.
        exact: its tokens are those of `GenerateEngine`: from the distribution that the trainer
            scores, with each row's own noise.
        remote: the weights that act are copies, so they must be published, and measured.
        software: what samples and its version, e.g. "vllm 0.32.0"; "" while it is not known.
        shared_tokens: of prompts that were not read again, so far; 0 where nobody knows.
    """

    name: ClassVar[str]
    exact: bool = True
    remote: ClassVar[bool] = False
    software: str = ""
    shared_tokens: int = 0

    @classmethod
    @abstractmethod
    def for_run(cls, team: Any, args: Any, settings: Mapping[str, Any]) -> SamplingEngine:
        """The engine of a training run.

        Args:
            team: the `TeamModel`.
            args: the `MAGRPOConfig`.
            settings: what the run file says of this engine beside its name.

        Raises:
            ValueError: a setting that is unknown, or does not fit the team.
        """

    @abstractmethod
    def sample(self, draws: Sequence[Draw], *, max_tokens: int, temperature: float) -> list[Drawn]:
        """One sample per draw, in order.

        Args:
            draws: what to sample.
            max_tokens: of one action.
            temperature: divides the logits; 0 is greedy.
        """

    def publish(self, update: int) -> None:  # noqa: B027 - most engines have nothing to do
        """Serve the team's present weights; every process calls it before it samples."""

    def let_go(self) -> None:  # noqa: B027 - as above
        """The episodes are over: let go of what was kept for their next turns."""

    def recover(self) -> None:  # noqa: B027 - as above
        """After a `LostServerError`: wait until sampling can begin anew."""

    def close(self) -> None:  # noqa: B027 - as above
        """Training has ended: let go of what it took. A later `publish` begins anew."""
